"""Does ONNX Runtime multiply 8-bit integers correctly on this machine?

Two defects are known.  On x86-64 without VNNI, the kernels for uint8 inputs and int8 weights saturate sums of
two products to int16.  ONNX Runtime 1.21 to 1.24 with AMX gets the last columns wrong where 32 rows or more
meet a width that is no multiple of 16.  Constant probes miss the latter, so the probes are random, with 30 % of
the values at the extremes of their type.
"""

from __future__ import annotations

import enum
import functools
import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.network import Array, Network, QGemm
from harness.reference import runtime

ROWS = (1, 2, 5, 6, 7, 16, 32, 33, 64)
DEPTHS = (2, 5, 50, 100)
COLUMNS = 50
TILE_ROWS, TILE_COLUMNS = 32, 16  # of the AMX kernel
TYPE_PAIRS = (("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"))
RELEVANT_FEATURES = (
    "ssse3", "sse4_1", "avx", "avx2", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "amx_tile", "amx_int8",
    "asimd", "asimddp", "i8mm", "sve",
)  # fmt: skip


class Defect(enum.Enum):
    """What is wrong with a product of 8-bit matrices; the value says it in words."""

    NONE = "exact"
    SATURATION = "sums of two products saturate to int16 (x86-64 without VNNI)"
    RAGGED_COLUMNS = "the last columns are wrong from 32 rows on (the AMX kernels of ONNX Runtime 1.21 to 1.24)"
    UNKNOWN = "wrong in a way that is not known"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES[self]


REMEDIES = {
    Defect.NONE: "",
    Defect.SATURATION: "use a machine with VNNI, ask for session.x64quantprecision=1 (x64_quant_precision), or "
    "quantise the weights to uint8",
    Defect.RAGGED_COLUMNS: "install another ONNX Runtime than 1.21 to 1.24",
    Defect.UNKNOWN: "use another machine or another version of ONNX Runtime, and report this one",
}


@dataclass(frozen=True)
class HostCheck:
    """The result: a defect for every pair of input type and weight type, and what it was found on."""

    defects: tuple[tuple[tuple[str, str], Defect], ...]
    instruction_set: str
    onnxruntime: str

    def defect(self, network: Network) -> Defect:
        """The defect that touches this network's layers; NONE where there is none."""
        used = {
            (layer.input_dtype.name, layer.weights.dtype.name) for layer in network.layers if isinstance(layer, QGemm)
        }
        found = [defect for pair, defect in self.defects if pair in used and defect is not Defect.NONE]
        return found[0] if found else Defect.NONE


@functools.cache
def check_host(*, x64_quant_precision: bool = False) -> HostCheck:
    """Multiply random matrices with ONNX Runtime, once a process, and compare with exact integers.

    `x64_quant_precision` is for uint8 inputs only, see `runtime.session`.
    """
    import onnxruntime

    defects = tuple(
        (pair, _check(pair, x64_quant_precision=x64_quant_precision and pair[0] == "uint8")) for pair in TYPE_PAIRS
    )
    return HostCheck(defects, instruction_set(), onnxruntime.__version__)


def classify(a: Array, b: Array, product: npt.NDArray[np.int64]) -> Defect:
    """Compare a product (M, N) of 8-bit matrices a (M, K) and b (K, N) with the exact one, and name the defect."""
    wrong = a.astype(np.int64) @ b.astype(np.int64) != product
    if not wrong.any():
        return Defect.NONE
    if np.array_equal(saturating_product(a, b), product):
        return Defect.SATURATION
    last_columns = b.shape[1] // TILE_COLUMNS * TILE_COLUMNS
    if len(a) >= TILE_ROWS and not wrong[:, :last_columns].any():
        return Defect.RAGGED_COLUMNS
    return Defect.UNKNOWN


def summarise(defects: Iterable[Defect]) -> Defect:
    """The one defect of several probes; UNKNOWN where they disagree."""
    found = set(defects) - {Defect.NONE}
    return Defect.NONE if not found else found.pop() if len(found) == 1 else Defect.UNKNOWN


def saturating_product(a: Array, b: Array) -> npt.NDArray[np.int64]:
    """The defective kernels' result: sum over even k of clamp_int16(a[k] * b[k] + a[k+1] * b[k+1])."""
    if a.shape[1] % 2:
        a, b = np.pad(a, ((0, 0), (0, 1))), np.pad(b, ((0, 1), (0, 0)))
    terms = a.astype(np.int64)[:, :, None] * b.astype(np.int64)[None]
    limits = np.iinfo(np.int16)
    pairs: npt.NDArray[np.int64] = np.clip(terms[:, ::2] + terms[:, 1::2], limits.min, limits.max).sum(axis=1)
    return pairs


def instruction_set(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The machine's architecture and those of its features that choose among integer kernels."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    features = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
    return " ".join([platform.machine(), *(name for name in RELEVANT_FEATURES if name in features)])


def _check(pair: tuple[str, str], *, x64_quant_precision: bool) -> Defect:
    rng = np.random.default_rng(0)
    return summarise(
        classify(a, b, product)
        for depth in DEPTHS
        for a, b, product in _products(rng, pair, depth, x64_quant_precision=x64_quant_precision)
    )


def _products(
    rng: np.random.Generator, pair: tuple[str, str], depth: int, *, x64_quant_precision: bool
) -> Iterator[tuple[Array, Array, Array]]:
    """Random matrices (M, depth) and (depth, COLUMNS), and their product by ONNX Runtime, for all M in ROWS."""
    b = _random_codes(rng, pair[1], (depth, COLUMNS))
    session = runtime.session(_model(pair[0], b), threads=1, x64_quant_precision=x64_quant_precision)
    for rows in ROWS:
        a = _random_codes(rng, pair[0], (rows, depth))
        yield a, b, session.run(None, {"a": a})[0].astype(np.int64)


def _random_codes(rng: np.random.Generator, name: str, shape: tuple[int, int]) -> Array:
    limits = np.iinfo(np.dtype(name))
    codes = rng.integers(limits.min, limits.max + 1, shape)
    extremes = rng.choice([limits.min, limits.max], shape)
    return np.where(rng.random(shape) < 0.3, extremes, codes).astype(name)


def _model(input_type: str, b: Array) -> bytes:
    """One QGemm with scales 1 and a float32 output: its accumulators, exact up to 2**24."""
    constants: dict[str, Any] = {
        "a_scale": np.float32(1), "a_zero_point": np.zeros((), input_type), "b": b,
        "b_scale": np.float32(1), "b_zero_point": np.zeros((), b.dtype),
    }  # fmt: skip
    element_type = helper.np_dtype_to_tensor_dtype(np.dtype(input_type))
    graph = helper.make_graph(
        [helper.make_node("QGemm", ["a", *constants], ["y"], domain="com.microsoft")],
        "probe",
        [helper.make_tensor_value_info("a", element_type, ["vectors", len(b)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["vectors", b.shape[1]])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(model.SerializeToString())
