"""Linear operators as products with constant matrices, where no operator of the product takes the node.

    Resize          linear and cubic, in all modes: a matrix for each axis that it resizes (resize_maps.py)
    DFT, STFT       the transform of each row, or of each frame with its window
    AffineGrid      the coordinates of all places, which have a row each
    ConvInteger     a Conv of float32, which has every integer below 2^24; not where a chain of codes begins

A matrix is computed in float64 and rounded to float32 once.  ONNX's reference evaluator gives the same values, within a
share of the greatest one, for the node and for those in its place; ONNX Runtime may compute others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness import operators
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.graph import opsets_of
from harness.model.importer import opsets
from harness.model.importer.replacement import Replacement, Unknown, attributes_of, has_rule, replace_nodes
from harness.model.importer.resize_maps import Maps, Matrix, resize
from harness.model.onnx_runtime.agreement import near
from harness.model.onnx_runtime.sessions import session
from harness.operators.node import NEWEST_OPSET, Node
from harness.operators.tensor import CODES, FLOAT32, INT64, Tensor, integer_limits

AXIS_IS_INPUT = 20
"""The first opset in which the axis of DFT is an input."""


def _dft(node: Node, maps: Maps) -> None:
    """Add the matrix of DFT: the axis comes before that of real and imaginary parts."""
    node.require_inputs(1, 3)
    is_input = node.opset >= AXIS_IS_INPUT
    attributes = node.attributes({"inverse": 0, "onesided": 0} | ({} if is_input else {"axis": 1}))
    rank = 1 + len(node.activation(0, [FLOAT32]).shape)
    axis = attributes.get("axis", -2)
    if is_input and node.has(2):
        axis = int(node.single(2, "axis", [INT64]))
    length = int(node.single(1, "length", [INT64, np.dtype(np.int32)])) if node.has(1) else None
    if not 0 < axis % rank < rank - 1 or maps.shape[-1] not in (1, 2):
        raise node.refusal(
            f"axis is {axis}, the last one has {maps.shape[-1:]} values",
            f"axes 1 to {rank - 2}, and 1 or 2 parts of a number along the last axis",
        )
    maps.exchange(axis % rank - 1, rank - 3)
    matrix = _transform(maps.shape[-2:], length, inverse=attributes["inverse"], onesided=attributes["onesided"])
    _transform_rows(maps, matrix)
    maps.exchange(axis % rank - 1, rank - 3)


def _stft(node: Node, maps: Maps) -> None:
    """Add the frames of STFT and their matrix, which has the factors of the window."""
    node.require_inputs(2, 4)
    onesided, integers = node.attributes({"onesided": 1})["onesided"], [INT64, np.dtype(np.int32)]
    step = int(node.single(1, "step", integers))
    window = node.constant(2, "window", [FLOAT32]) if node.has(2) else np.ones(0, np.float32)
    size = int(node.single(3, "length of frames", integers)) if node.has(3) else len(window)
    if len(maps.shape) != 2 or maps.shape[1] not in (1, 2 - onesided) or not (0 < size <= maps.shape[0] and step > 0):
        raise node.refusal(
            f"its signal has shape (vectors, {', '.join(map(str, maps.shape))}), frames of {size} are {step} apart",
            "a signal (vectors, length, 1), or of complex numbers with onesided 0, frames that fit into it",
        )
    window = window if node.has(2) else np.ones(size, np.float32)
    if window.shape != (size,):
        raise node.refusal(f"the window has shape {window.shape}", f"({size},)")
    frames, parts = 1 + (maps.shape[0] - size) // step, maps.shape[1]
    places = np.arange(frames)[:, None] * step + np.arange(size)
    maps.add("Gather", "", maps.to.constant(places.reshape(-1)), axis=1)
    maps.reshape(frames, size, parts)
    matrix = _transform((size, parts), None, inverse=False, onesided=onesided)
    _transform_rows(maps, matrix * window.astype(np.float64)[:, None, None, None])


def _transform_rows(maps: Maps, matrix: Matrix) -> None:
    """Multiply the last two axes, numbers and their parts, by a matrix of two axes each."""
    outer, size = maps.shape[:-2], math.prod(maps.shape[-2:])
    maps.reshape(*outer, size)
    maps.along(len(outer), matrix.reshape(size, -1).T)
    maps.reshape(*outer, *matrix.shape[2:])


def _transform(shape: tuple[int, ...], length: int | None, *, inverse: bool, onesided: bool) -> Matrix:
    """Return the matrix of a discrete Fourier transform: numbers and their parts, then those of the result."""
    count, parts = shape
    units = np.stack([np.eye(count), 1j * np.eye(count)][:parts], axis=1)
    if inverse and onesided:
        return np.fft.irfft(units, length)[..., None]
    result = np.fft.ifft(units, length) if inverse else np.fft.fft(units, length)
    if onesided:
        result = result[..., : result.shape[-1] // 2 + 1]
    return np.stack([result.real, result.imag], axis=-1)


def _affine_grid(node: Node, maps: Maps) -> None:
    """Add the matrix of AffineGrid: one row a place, with its coordinates from the last axis on, and 1."""
    node.require_inputs(2, 2)
    aligned = node.attributes({"align_corners": 0})["align_corners"]
    count, _, *sizes = node.constant(1, "size", [INT64]).reshape(-1).tolist()
    axes = len(sizes)
    if maps.shape != (axes, axes + 1) or min(sizes) < 1 + aligned or maps.count not in (0, count):
        raise node.refusal(
            f"its input has shape (vectors, {', '.join(map(str, maps.shape))}), the size is {sizes}",
            f"shape (vectors, {axes}, {axes + 1}), sizes of 1 or more, with align_corners of 2 or more",
        )
    places = [np.linspace(-1, 1, size) if aligned else (2 * np.arange(size) + 1) / size - 1 for size in sizes]
    grids = np.meshgrid(*places, indexing="ij")
    maps.along(1, np.stack([*grids[::-1], np.ones(sizes)], axis=-1).reshape(-1, axes + 1))
    maps.exchange(0, 1)
    maps.reshape(*sizes, axes)


EXACT = 1 << 24
"""Below it float32 has every integer."""


def _conv_integer(node: Node, maps: Maps) -> None:
    """Add the Conv of ConvInteger, whose sums are exact in every order; padding is the zero point, and so 0."""
    node.require_inputs(2, 4)
    source, weights = node.activation(0, CODES), node.constant(1, "weight", CODES).astype(np.int64)
    zero_points = [node.constant(place, "zero point", CODES).astype(np.int64).reshape(-1) if node.has(place)
                   else np.zeros(1, np.int64) for place in (2, 3)]  # fmt: skip
    if zero_points[0].size != 1 or zero_points[1].size not in (1, len(weights)):
        raise node.refusal("its zero points have several values", "one of the input, one for each channel of weights")
    centred = weights - zero_points[1].reshape(-1, *(1,) * (weights.ndim - 1))
    limit = np.abs(np.array(integer_limits(source.dtype)) - zero_points[0]).max()
    largest = np.abs(centred).reshape(len(centred), -1).sum(axis=1).max() * limit
    if largest >= EXACT:
        raise node.refusal(f"a sum can reach {largest:,}", f"sums below {EXACT:,}, which float32 has exactly")
    maps.add("Cast", "", to=onnx.TensorProto.FLOAT)
    maps.add("Sub", "", maps.to.constant(zero_points[0].reshape(()), np.float32))
    maps.add("Conv", "", maps.to.constant(centred, np.float32), **attributes_of(node.proto))
    maps.add("Cast", "", to=onnx.TensorProto.INT32)


RULES: Mapping[str, Callable[[Node, Maps], None]] = {
    "Resize": resize, "DFT": _dft, "STFT": _stft, "AffineGrid": _affine_grid, "ConvInteger": _conv_integer,
}  # fmt: skip
DTYPES = {helper.np_dtype_to_tensor_dtype(dtype): dtype for dtype in (FLOAT32, *CODES)}


@dataclass(frozen=True)
class Expanded:
    """The notes of what was replaced; `deviates` is true if ONNX Runtime has other values of one of these nodes."""

    notes: tuple[str, ...] = ()
    deviates: bool = False


def expand(model: onnx.ModelProto, name: str) -> Expanded:
    """Replace the nodes with a rule that no operator takes, in place.

    Raises RequestError where a node has no operator and its rule refuses it, and where ONNX's reference evaluator
    computes other values than its matrices.
    """
    if not has_rule(model.graph, RULES):
        return Expanded()
    (tensors, counts), names, deviating = _tensors(model), list[str](), list[str]()

    def write(to: Replacement, proto: onnx.NodeProto) -> None:
        maps = _maps(model, to, _node(model, proto, name, tensors), counts)
        names.append(f"{proto.op_type} {maps.node.name!r}")
        if _deviates(model, maps):
            deviating.append(names[-1])

    replace_nodes(model.graph, dict.fromkeys(RULES, write))
    notes = [f"{', '.join(names)}: products with constant matrices"] if names else []
    if deviating:
        notes.append(f"{', '.join(deviating)}: ONNX Runtime deviates from ONNX, whose reference evaluator confirms it")
    return Expanded(tuple(notes), bool(deviating))


def _tensors(model: onnx.ModelProto) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Return float32 activations and codes of known shape, but for the first axis; and its sizes, 0 if unknown."""
    graph = opsets.inferred(model)
    constants = {tensor.name for tensor in graph.initializer}
    tensors, counts = {}, {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        shape = tuple(size.dim_value for size in kind.shape.dim[1:])
        dtype = DTYPES.get(kind.elem_type)
        if dtype is not None and shape and min(shape) > 0 and value.name not in constants:
            tensors[value.name] = Tensor(value.name, shape, dtype)
            counts[value.name] = kind.shape.dim[0].dim_value
    return tensors, counts


def _node(model: onnx.ModelProto, proto: onnx.NodeProto, name: str, tensors: Mapping[str, Tensor]) -> Node:
    constants = {tensor.name: numpy_helper.to_array(tensor)
                 for tensor in model.graph.initializer if tensor.name in proto.input}  # fmt: skip
    opset = opsets_of(model).get("", NEWEST_OPSET)
    return Node(name, proto, proto.name or proto.output[0], constants, tensors, opset=opset)


def _maps(model: onnx.ModelProto, to: Replacement, node: Node, counts: Mapping[str, int]) -> Maps:
    """Write a node that no operator takes; raise Unknown for one that stays: a ConvInteger before Add or Cast, too."""
    readers = {reader.op_type for reader in model.graph.node if node.output in reader.input}
    if node.operator == "ConvInteger" and readers and readers <= {"Add", "Cast"}:
        raise Unknown(node.name)  # it becomes a quantised operator
    operator = operators.of_node(node.proto)
    with suppress(RequestError):
        if operator is not None:
            operator.read(node)
            raise Unknown(node.name)
    try:
        source = node.activation(0, [FLOAT32, *CODES])
        maps = Maps(to, node, source.name, source.shape, counts[source.name])
        RULES[node.operator](node, maps)
    except RequestError as error:
        if operator is None:
            raise
        raise Unknown(node.name) from error
    if not to.nodes:
        maps.add("Identity", "")
    to.finish(node.proto)
    return maps


def _deviates(model: onnx.ModelProto, maps: Maps) -> bool:
    """Return whether ONNX Runtime computes other values for the node of the file than ONNX's reference evaluator.

    Raises RequestError where that computes others for the nodes in its place.
    """
    source = maps.node.activations[maps.node.inputs[0]]
    drawn = np.random.default_rng(0).standard_normal((maps.count or 1, *source.shape))
    values: dict[str, Any] = {source.name: (drawn if source.dtype == FLOAT32 else drawn * 20 + 60).astype(source.dtype)}
    of_file, of_maps = (_alone(model, nodes, source, len(drawn)) for nodes in ([maps.node.proto], maps.to.nodes))
    expected, result = (_evaluated(each, values) for each in (of_file, of_maps))
    if result.shape != expected.shape or not near(expected, result):
        raise maps.node.refusal("ONNX's reference evaluator has other values than its matrices", "report the file")
    try:
        [theirs] = session(of_file.SerializeToString(), 1, optimised=False).run(None, values)
    except Exception:  # noqa: BLE001 - its exceptions have no common base of their own
        return True
    return theirs.shape != expected.shape or not near(expected, theirs)


def _evaluated(model: onnx.ModelProto, values: dict[str, Any]) -> Array:
    from onnx.reference import ReferenceEvaluator  # here, because few files need it

    [result] = ReferenceEvaluator(model).run(None, values)
    return np.asarray(result)


def _alone(model: onnx.ModelProto, nodes: list[onnx.NodeProto], source: Tensor, count: int) -> onnx.ModelProto:
    """Return a model of nodes that read so many vectors of one activation."""
    read, kind = {name for node in nodes for name in node.input}, helper.np_dtype_to_tensor_dtype(source.dtype)
    graph = helper.make_graph(
        nodes,
        "alone",
        [helper.make_tensor_value_info(source.name, kind, (count, *source.shape))],
        [onnx.ValueInfoProto(name=nodes[-1].output[0])],
        [tensor for tensor in model.graph.initializer if tensor.name in read],
    )
    opset = opsets_of(model).get("", NEWEST_OPSET)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=model.ir_version)
