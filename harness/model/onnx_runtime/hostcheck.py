"""Check whether ONNX Runtime multiplies 8-bit integers correctly on this machine.

Two defects are known.  On x86-64 without VNNI, the kernels for uint8 inputs and int8 weights saturate sums of
two products to int16.  ONNX Runtime 1.21 to 1.24 with AMX gets the last columns wrong where 32 rows or more
meet a width that is no multiple of 16 and the input's zero point is not 0.  Constant probes miss the latter, so the
probes are random, with 30 % of the values at the extremes, and have the zero points and shapes of the network.
"""

from __future__ import annotations

import enum
import functools
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.model.network import Network
from harness.model.onnx_runtime import sessions
from harness.model.onnx_runtime.sessions import takes_precision
from harness.operators.base import Layer
from harness.operators.product import SMALL, Product, saturated

ROWS = (1, 2, 5, 6, 7, 16, 32, 33, 64)
DEPTHS = (2, 5, 50, 100)
COLUMNS = 50
ZERO_POINTS = {"uint8": (0, 128), "int8": (0, -5)}  # of the inputs, where no network says it
TILE_ROWS, TILE_COLUMNS = 32, 16  # of the AMX kernel
DISTINCT_ROWS = 251  # of inputs, which repeat in larger batches; a prime, so that tiles begin everywhere
CLASSIFIED_ROWS = 256
TYPE_PAIRS = (("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"))
RELEVANT_FEATURES = (
    "ssse3", "sse4_1", "avx", "avx2", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "amx_tile", "amx_int8",
    "asimd", "asimddp", "i8mm", "sve",
)  # fmt: skip


class Defect(enum.Enum):
    """A defect of a product of 8-bit matrices; the value describes it."""

    NONE = "exact"
    SATURATION = "sums of two products saturate to int16 (x86-64 without VNNI)"
    RAGGED_COLUMNS = "the last columns are wrong from 32 rows on (the AMX kernels of ONNX Runtime 1.21 to 1.24)"
    UNKNOWN = "wrong in a way that is not known"

    @property
    def remedy(self) -> str:
        """The remedy."""
        return REMEDIES[self]


REMEDIES = {
    Defect.NONE: "",
    Defect.SATURATION: "leave --no-x64-quant-precision out, use a machine with VNNI, or quantise all activations to "
    "uint8, the weights to uint8, or the weights to -64 to 64",
    Defect.RAGGED_COLUMNS: "install another ONNX Runtime than 1.21 to 1.24, or mask amx_int8 from the processor "
    "of a virtual machine",
    Defect.UNKNOWN: "the reference cannot be trusted here: use another machine or another version of ONNX Runtime, and "
    "report it; if the operator is new, correct its definition, or state how far ONNX Runtime may be away "
    "(docs/add-an-operator.md)",
}


@dataclass(frozen=True)
class HostCheck:
    """The result: a defect or NONE for every product by its name, and the checked host."""

    defects: tuple[tuple[str, Defect], ...]
    instruction_set: str
    onnxruntime: str

    @property
    def first(self) -> tuple[str, Defect]:
        """The first defect with the name of its product; an empty name and NONE without a defect."""
        return next((named for named in self.defects if named[1] is not Defect.NONE), ("", Defect.NONE))

    @property
    def place(self) -> str:
        """Describe the version and the machine."""
        return f"onnxruntime {self.onnxruntime}, {self.instruction_set}"


def check_host(*, x64_quant_precision: bool = False) -> HostCheck:
    """Multiply random matrices of all types with ONNX Runtime, and compare with exact integers.

    `x64_quant_precision` is for uint8 inputs only, see `sessions.session`.
    """
    defects = {
        f"{inputs} x {weights}": summarise(
            defect(Product(inputs, weights, depth, COLUMNS, zero_point), ROWS, x64_quant_precision=precise)
            for depth in DEPTHS
            for zero_point in ZERO_POINTS[inputs]
        )
        for inputs, weights in TYPE_PAIRS
        for precise in [x64_quant_precision and inputs == "uint8"]
    }
    return _result(defects)


def check_network(
    network: Network, rows: Sequence[int] = ROWS, threads: int = 1, *, x64_quant_precision: bool = False
) -> HostCheck:
    """Multiply random matrices like those of every layer, in batches of `rows` rows; see `check_host`."""
    precise = takes_precision(network, x64_quant_precision=x64_quant_precision)
    products = {layer.name: product for layer in network.layers if (product := layer.runtime.product())}
    return check_products(products, rows, threads, x64_quant_precision=precise)


def check_products(
    products: Mapping[str, Product], rows: Sequence[int], threads: int = 1, *, x64_quant_precision: bool = False
) -> HostCheck:
    """Multiply random matrices like those of every product, in batches of `rows` rows; see `check_host`."""
    return _result(
        {
            name: defect(product, tuple(rows), threads, x64_quant_precision=x64_quant_precision)
            for name, product in products.items()
        }
    )


def _result(defects: dict[str, Defect]) -> HostCheck:
    import onnxruntime

    return HostCheck(tuple(defects.items()), instruction_set(), onnxruntime.__version__)


@functools.cache
def defect(product: Product, rows: tuple[int, ...], threads: int = 1, *, x64_quant_precision: bool = False) -> Defect:
    """Return the defect that random matrices show in batches of `rows` rows; computed once per process."""
    rng = np.random.default_rng(0)
    a = random_codes(rng, product.input_dtype, (DISTINCT_ROWS, product.depth))
    b = random_codes(rng, product.weights_dtype, (product.depth, product.width), SMALL if product.small else None)
    session = sessions.session(_model(product, b), threads, x64_quant_precision=x64_quant_precision)
    right = exact_product(product, a, b)

    def of_batch(count: int) -> Defect:
        found = session.run(None, {"a": np.resize(a, (count, product.depth))})[0]
        return _classify(found != np.resize(right, found.shape), lambda at: _saturates(product, a, b, at, found))

    return summarise(map(of_batch, rows))


def exact_product(product: Product, a: Array, b: Array) -> npt.NDArray[np.float32]:
    """Return the sums of products without zero points, rounded to float32 as ONNX Runtime gives them out."""
    centred = b.astype(np.float64) - np.array(product.weights_zero_points)
    sums = (a.astype(np.float64) - product.input_zero_point) @ centred  # exact below 2^53
    return _wrapped(sums.astype(np.int64))


def _wrapped(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    return sums.astype(np.int32).astype(np.float32)


def _saturates(product: Product, a: Array, b: Array, rows: Array, output: Array) -> bool:
    """Return whether the defect SATURATION explains these rows of an output."""
    codes = a[rows % len(a)]
    sums = saturated(codes, b, product.input_zero_point, np.array(product.weights_zero_points))
    return np.array_equal(_wrapped(sums), output[rows])


def _classify(wrong: npt.NDArray[np.bool_], saturates: Callable[[Array], bool]) -> Defect:
    """Name the defect that makes these outputs (M, N) wrong; `saturates` tests whether SATURATION explains rows."""
    if not wrong.any():
        return Defect.NONE
    rows = np.flatnonzero(wrong.any(axis=1))
    if saturates(rows[:CLASSIFIED_ROWS]):
        return Defect.SATURATION
    last = wrong.shape[1] // TILE_COLUMNS * TILE_COLUMNS
    if len(wrong) >= TILE_ROWS and last and not wrong[:, :last].any():
        return Defect.RAGGED_COLUMNS
    return Defect.UNKNOWN


def classify_layer(layer: Layer, inputs: Array, right: Array, found: Array) -> Defect:
    """Name the defect that makes ONNX Runtime give `found` (M, N) for a layer's `inputs` (M, K) instead of `right`."""
    word = np.dtype(f"uint{8 * layer.dtype.itemsize}")
    wrong = right.view(word) != found.view(word)
    if not layer.sums:
        return Defect.UNKNOWN if wrong.any() else Defect.NONE

    def saturates(rows: Array) -> bool:
        saturating = layer.runtime.saturating(inputs[rows])
        return saturating is not None and np.array_equal(saturating, found[rows])

    return _classify(wrong, saturates)


def summarise(defects: Iterable[Defect]) -> Defect:
    """Return the one defect of several probes; UNKNOWN where they disagree."""
    found = set(defects) - {Defect.NONE}
    return Defect.NONE if not found else found.pop() if len(found) == 1 else Defect.UNKNOWN


def instruction_set(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the machine's architecture and those of its features that choose among integer kernels."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    features = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
    return " ".join([platform.machine(), *(name for name in RELEVANT_FEATURES if name in features)])


def random_codes(
    rng: np.random.Generator, name: str, shape: tuple[int, int], bounds: tuple[int, int] | None = None
) -> Array:
    """Return random codes of all values of a type, or between bounds, 30 % of them at the extremes."""
    limits = np.iinfo(np.dtype(name))
    low, high = bounds or (int(limits.min), int(limits.max))
    codes, extremes = rng.integers(low, high + 1, shape), rng.choice([low, high], shape)
    return np.where(rng.random(shape) < 0.3, extremes, codes).astype(name)


def _model(product: Product, b: Array) -> bytes:
    """Return a model of one QGemm with scales 1 and a float32 output: its accumulators, exact up to 2**24."""
    zero_points = np.array(product.weights_zero_points, b.dtype)
    of_columns = len(zero_points) > 1
    constants: dict[str, Any] = {
        "a_scale": np.float32(1),
        "a_zero_point": np.array(product.input_zero_point, product.input_dtype),
        "b": b,
        "b_scale": np.ones(len(zero_points), np.float32) if of_columns else np.float32(1),
        "b_zero_point": zero_points if of_columns else zero_points[0],
    }
    element_type = helper.np_dtype_to_tensor_dtype(np.dtype(product.input_dtype))
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


def require_trusted(host: HostCheck) -> None:
    """Raise ReferenceFailed where the host check found a defect in the products that the network needs."""
    layer, defect = host.first
    if defect is not Defect.NONE:
        raise ReferenceFailed(
            f"ONNX Runtime is wrong on this machine ({host.place}), in products like those of layer {layer!r}: "
            f"{defect.value}",
            defect.remedy,
        )
