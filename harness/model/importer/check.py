"""The check at import: the imported model against the original file, on random and adversarial vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.float_network import DenseNetwork, Floats32, to_onnx
from harness.model.importer import steps as float_steps
from harness.model.importer.graph import MOVES, Graph
from harness.model.importer.quantised import Canonical
from harness.model.importer.steps import Floats64, Step
from harness.model.network import Network
from harness.model.onnx_runtime import products
from harness.model.onnx_runtime.agreement import random_inputs, same_bits
from harness.model.onnx_runtime.sessions import Stored, refused, session
from harness.operators.counters import DEFAULT_BOX

if TYPE_CHECKING:
    import onnxruntime

SEED = 1
MOST_VECTORS, FEWEST_VECTORS = 256, 8
ERRORS = 2_000_000  # that a bound carries at once: fewer vectors for larger networks
BIT_VECTORS = 512
ANY_VECTORS = 64
"""Random vectors of a network of other inputs than one of floats."""
BIT_VALUES = 100_000_000  # activations that are compared: fewer vectors for larger networks
LOST_SHARE = 0.01  # of the greatest output; float16 itself rounds to 0.0005


@dataclass(frozen=True)
class Agreement:
    """The distance of the float network from its file: all outputs of all `vectors` are within their bound.

    `difference` is the largest found; `tightest_difference` and `tightest_bound` are those of the output that came
    nearest to its bound.
    """

    vectors: int
    difference: float
    tightest_difference: float
    tightest_bound: float


def within_bound(
    network: DenseNetwork,
    steps: Sequence[Step],
    original: Callable[[Floats32], Floats64],
    dtype: np.dtype[Any],
) -> Agreement:
    """Compare the network in ONNX Runtime with `original`, float32 (n, K) -> float64 (n, N), computed in `dtype`.

    Both are within their own distance of the exact value of `steps` (see harness.model.importer.steps), so that they
    differ by the sum of the two at most.  Raises RequestError, with the input, where they differ by more, where there
    is no bound, and where the file's own roundings leave little of its values, whatever the bound allows.
    """
    vectors = _vectors(network, dtype)
    ours = loaded(to_onnx(network).SerializeToString(), network.name).run(None, {network.input_name: vectors})[0]
    exact = vectors.astype(np.float64)
    of_file = float_steps.error_bound(steps, exact, dtype)
    of_ours = float_steps.error_bound(float_steps.of_layers(network.layers), exact, np.dtype(np.float32))
    bound = of_file + of_ours
    theirs = original(vectors).reshape(ours.shape)
    if not np.isfinite([bound, ours, theirs]).all():
        raise RequestError(
            f"model {network.name!r}: its values are not finite, or its sums are too long for a bound in {dtype}",
            "weights of an ordinary scale, and in float16 sums of fewer than 2,000 terms: export it in float32",
        )
    difference = np.abs(ours.astype(np.float64) - theirs)
    beyond = np.argwhere(~(difference <= bound))
    if len(beyond):
        vector, output = beyond[0]
        raise RequestError(
            f"model {network.name!r}: output {output} is {theirs[vector, output]:.9g} in the file and "
            f"{ours[vector, output]:.9g} as read, further apart than their bound {bound[vector, output]:.3g}, "
            f"at input {_shown(vectors[vector])}",
            "the file computes something that was not understood, or overflows: simplify it to MatMul, Add and Relu",
        )
    greatest = max(float(np.abs(ours).max()), float(np.abs(theirs).max()))
    if difference.max() > LOST_SHARE * greatest:
        raise RequestError(
            f"model {network.name!r}: its own roundings are up to {difference.max():.3g} of values up to "
            f"{greatest:.3g}, so that little of them is left to keep",
            "no large constants that are added and taken away again; or export it in a wider type",
        )
    tightest = np.unravel_index(np.argmax(difference / np.maximum(bound, np.finfo(np.float64).tiny)), bound.shape)
    return Agreement(len(vectors), float(difference.max()), float(difference[tightest]), float(bound[tightest]))


def _shown(vector: Floats32) -> str:
    """Return an input in a message: all of a short one, the ends of a long one."""
    return np.array2string(vector, max_line_width=10_000, threshold=16, separator=", ")


def _vectors(network: DenseNetwork, dtype: np.dtype[Any]) -> Floats32:
    """Return zeros, the two outermost corners, then vectors uniform over the box, every fourth a corner or an edge."""
    widths = [len(layer.bias) for layer in network.layers]
    count = min(max(ERRORS // (sum(widths) * max(widths)), FEWEST_VECTORS), MOST_VECTORS)
    low, high = box_of(network).astype(np.float64)
    random = np.random.default_rng(SEED)
    vectors = low + (high - low) * random.random((count, len(low)))
    where = random.random(vectors[::4].shape)
    vectors[::4] = np.where(where < 0.4, low, np.where(where < 0.8, high, vectors[::4]))
    vectors[:3] = np.zeros_like(low), low, high
    narrow = vectors.astype(np.float16) if dtype == np.float16 else vectors
    return np.asarray(narrow, np.float32)


def box_of(network: DenseNetwork) -> Floats32:
    """Return the input box (2, K): the network's own, or DEFAULT_BOX for every input."""
    if network.box is not None:
        return network.box
    return np.repeat(np.array(DEFAULT_BOX, np.float32)[:, None], len(network.layers[0].weight), axis=1)


def outputs_of(graph: Graph, file: Stored) -> Callable[[Floats32], Floats64]:
    """Return the output of a float ONNX file in ONNX Runtime, vector by vector: float32 (n, K) -> float64 (n, N)."""
    return lambda vectors: _run(loaded(file.path, graph.name), graph, vectors, graph.outputs)[0].astype(np.float64)


def tensor_of(graph: Graph, name: str, vectors: Floats32) -> Floats64:
    """Return a tensor inside of a float ONNX file, (n, N), for vectors (n, K), as `outputs_of`."""
    session = loaded(_with_outputs(graph.model.SerializeToString(), {name: graph.dtype}), graph.name)
    return _run(session, graph, vectors, [name])[0].astype(np.float64)


def _run(
    session: onnxruntime.InferenceSession, graph: Graph, vectors: Floats32, names: Sequence[str]
) -> tuple[Array, ...]:
    """Return each of the named tensors, (n, N), as computed by the file for one vector at a time."""
    rows = vectors.astype(graph.dtype).reshape(len(vectors), *graph.input_shape)
    results = [run_one(session, graph.name, {graph.input_name: row}, names) for row in rows]
    return tuple(np.array([result.reshape(-1) for result in column]) for column in zip(*results, strict=True))


def run_one(
    session: onnxruntime.InferenceSession, model: str, given: Mapping[str, Array], names: Sequence[str] | None = None
) -> list[Array]:
    """Return the named outputs, or all, for one vector; raise RequestError where ONNX Runtime fails."""
    try:
        return list(session.run(names, given))
    except Exception as error:  # its exceptions have no common base of their own
        raise RequestError(
            f"ONNX Runtime fails on model {model!r}: {error}", "give a model that runs with one vector at a time"
        ) from error


@dataclass(frozen=True)
class Identity:
    """All `values` of the `tensors` that file and network have in common are the same bits, for all `vectors`."""

    vectors: int
    tensors: tuple[str, ...]
    values: int


@dataclass(frozen=True, eq=False)
class Converted:
    """A network without its weights, which its file has.

    `vectors` are adversarial ones, (n, *shape of the input); `codes` are 8-bit tensors, with their types.
    """

    file: Stored
    name: str
    input_name: str
    vectors: Floats32
    codes: Mapping[str, np.dtype[Any]]

    @classmethod
    def from_network(cls, network: Network, codes: Sequence[str]) -> Converted:
        """Return what the check needs of a network whose 8-bit tensors `codes` are compared."""
        kinds = {layer.output.name: layer.dtype for layer in network.layers}
        source = network.float_input("the comparison of integers")
        vectors = _adversarial_vectors(network).reshape(-1, *source.shape)
        compared = {name: kinds[name] for name in codes}
        return cls(Stored(network.onnx_bytes), network.name, source.name, vectors, compared)


def bit_for_bit(graph: Graph, file: Stored, converted: Converted, *, int8_groups: bool = False) -> Identity:
    """Compare the converted network with the file, both in ONNX Runtime: the outputs, and every 8-bit tensor.

    Raises RequestError, with the tensor and the input, where one bit differs; ReferenceFailed, with the defect, where
    ONNX Runtime multiplies 8-bit integers wrongly on this machine and no session avoids that.
    """
    vectors = converted.vectors.reshape(len(converted.vectors), -1)
    session_of_file = products.exact_session(file.path, graph.name, 1, 1, int8_groups=int8_groups)
    theirs = dict(zip(graph.outputs, _run(session_of_file, graph, vectors, graph.outputs), strict=True))
    del session_of_file  # it holds the weights
    inner = {name: dtype for name, dtype in converted.codes.items() if name not in graph.outputs}
    ours: bytes | Path = converted.file.path
    if inner:
        content, ours = (_with_outputs(stored.path.read_bytes(), inner) for stored in (file, converted.file))
        exposed = products.exact_session(content, graph.name, 1, 1, int8_groups=int8_groups)
        theirs |= dict(zip(inner, _run(exposed, graph, vectors, list(inner)), strict=True))
        del exposed  # as above
    session = products.exact_session(ours, converted.name, 1, len(vectors))
    # ONNX Runtime adds float32 numbers in an order that depends on the number of vectors: one at a time, as the file.
    parts = np.split(converted.vectors, 1 if converted.codes else len(vectors))
    for name, values in theirs.items():
        results = [session.run([name], {converted.input_name: part})[0] for part in parts]
        _require_same_bits(graph, name, vectors, values, np.concatenate(results))
    return Identity(len(vectors), tuple(theirs), sum(values.size for values in theirs.values()))


def same_for_any_inputs(before: Stored, converted: Canonical, network: Network) -> Identity:
    """Compare a network of any inputs with its file, as `bit_for_bit` does, for random inputs.

    Raises RequestError, with the tensor, where one bit differs.
    """
    outputs = [value.name for value in converted.model.graph.output]
    kinds = {layer.output.name: layer.dtype for layer in network.layers}
    inner = {name: kinds[name] for name in converted.codes if name not in outputs}
    names = [*outputs, *inner]
    of_file, of_network = (_with_outputs(data, inner) for data in (before.path.read_bytes(), network.onnx_bytes))
    file = products.exact_session(of_file, network.name, 1, 1, int8_groups=converted.int8_groups)
    ours = products.exact_session(of_network, network.name, 1, 1)
    end, count = _integers_end(file, network.name), 0
    for seed in range(ANY_VECTORS):
        feed = random_inputs(file, {}, 1, seed, end)
        expected, results = (run_one(loaded, network.name, feed, names) for loaded in (file, ours))
        for name, values, others in zip(names, expected, results, strict=True):
            count += values.size
            if values.dtype != others.dtype or not same_bits(values, others):
                raise RequestError(
                    f"model {network.name!r}: {name!r} has other values in the file than as converted",
                    "the file computes something that these operators do not: quantise it in the operator format",
                )
    return Identity(ANY_VECTORS, tuple(names), count)


def _integers_end(file: onnxruntime.InferenceSession, name: str) -> int:
    """Return the power of two below which the file takes all integers, such as indices of a table; at most 2^15."""
    end = 1 << 15
    while end > 2:
        feed = random_inputs(file, {}, 1, 0, end)
        greatest = {key: values if values.dtype.kind == "f" else np.full_like(values, end - 1)
                    for key, values in feed.items()}  # fmt: skip
        with suppress(RequestError):
            run_one(file, name, greatest)
            break
        end //= 2
    return end


def _require_same_bits(graph: Graph, name: str, vectors: Floats32, theirs: Array, ours: Array) -> None:
    width = f"u{theirs.dtype.itemsize}"
    different = np.argwhere(theirs.view(width) != ours.reshape(theirs.shape).astype(theirs.dtype).view(width))
    if len(different):
        vector, place = different[0]
        raise RequestError(
            f"model {graph.name!r}: {name!r} has {theirs[vector, place]!s} at value {place} in the file and "
            f"{ours.reshape(theirs.shape)[vector, place]!s} as converted, at input {_shown(vectors[vector])}",
            "the file computes something that these operators do not: quantise it in the operator format (QOperator)",
        )


def _adversarial_vectors(network: Network) -> Floats32:
    """Return vectors over the box and beyond it, corners, inputs half way between two codes, and NaN and infinities."""
    random = np.random.default_rng(SEED)
    low, high = network.box.astype(np.float64)
    count = min(max(BIT_VALUES // sum(layer.size for layer in network.layers), FEWEST_VECTORS), BIT_VECTORS)
    where = random.random((count, network.vector.size))
    vectors = low + (high - low) * random.random(where.shape)
    vectors[1::4] = np.where(where[1::4] < 0.4, low, np.where(where[1::4] < 0.8, high, vectors[1::4]))
    vectors[2::4] += (high - low) * (where[2::4] - 0.5)
    boundaries, ties = network.boundaries(network.vector)
    grid = ties if len(ties) else boundaries
    if len(grid):
        vectors[3::4] = grid[np.minimum(np.searchsorted(grid, vectors[3::4]), len(grid) - 1)]
    if network.takes_every_input:
        vectors[::64][where[::64] < 1 / 3] = np.nan
        vectors[32::64] = np.where(where[32::64] < 0.5, -np.inf, np.inf)
    with np.errstate(over="ignore"):
        return np.asarray(vectors, np.float32)


def _with_outputs(onnx_bytes: bytes, kinds: Mapping[str, np.dtype[Any]]) -> bytes:
    """Return the model with these tensors, too, as outputs."""
    model = onnx.load_model_from_string(onnx_bytes)
    model.graph.output.extend(
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), None)
        for name, dtype in kinds.items()
    )
    return bytes(model.SerializeToString())


FUSED = {"QLinearMatMul": "QGemm", "MatMulIntegerToFloat": "QGemm"}
"""Operators of ONNX Runtime that compute what a QGemm without bias computes."""


def require_fused(graph: Graph, converted: Canonical) -> None:
    """Require, of a QDQ model, the converted operators in ONNX Runtime's optimised graph; a bias in QGemm alone."""
    if not converted.from_qdq:
        return
    # DequantizeLinear does not count: it is doubled where two nodes read it, and dropped before ArgMax.
    ignored = {*MOVES, "DequantizeLinear"}
    nodes = [
        node
        for node in products.optimised(graph.model.SerializeToString(), graph.name).graph.node
        if node.op_type not in ignored
    ]
    fused = Counter(FUSED.get(node.op_type, node.op_type) for node in nodes)
    expected = Counter(node.op_type for node in converted.model.graph.node if node.op_type not in ignored)
    biased = [node for node in nodes if node.op_type == "MatMulIntegerToFloat" and len(node.input) > 6]
    if expected - fused and not fused - expected:
        raise RequestError(
            f"model {graph.name!r}: ONNX Runtime leaves out {', '.join(sorted(expected - fused))}, and may so compute "
            "other values than the file says",
            "no QuantizeLinear of what was dequantised before",
        )
    if fused - expected or biased:
        left = ", ".join(sorted(fused - expected)) or "a bias"
        raise RequestError(
            f"model {graph.name!r}: ONNX Runtime does not fuse all of its QDQ groups: left are {left}, in float32",
            "every product between DequantizeLinear (with zero points) on vector, weights and bias, and QuantizeLinear "
            "to the type of the vector's codes; or quantise it in the operator format (QuantFormat.QOperator)",
        )


def loaded(model: bytes | Path, name: str) -> onnxruntime.InferenceSession:
    """Return a session of one thread; raise RequestError where ONNX Runtime refuses the model `name`."""
    try:
        return session(model, 1)
    except Exception as error:  # as above
        raise refused(name, error) from error
