"""Rules of ONNX operators that no layer reads: they compute shapes, or are of networks that are only analysed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators.rules import Rules
from harness.operators.sizes import Size

SAME = (
    *("Hardmax", "MeanVarianceNormalization", "Swish", "Trilu", "GroupNormalization", "ScatterElements", "ScatterND"),
)
"""Operators whose first output has the type and shape of the first input."""


def _same(node: Rules) -> None:
    node.same(node.x, node.y)


def _is_nan(node: Rules) -> None:
    node.same_shape(node.x, node.y).is_type(node.y, np.bool_)


def _gather_elements(node: Rules) -> None:
    node.same_type(node.x, node.y).same_shape(node.input(1), node.y)


def _where(node: Rules) -> None:
    values = [node.input(1), node.input(2)]
    node.is_type(node.x, np.bool_).same_type(*values, node.y).broadcast(node.y, [node.x, *values])


def _reduce(node: Rules) -> None:
    keeps_all = bool(node.attribute("noop_with_empty_axes", 0))
    node.same_type(node.x, node.y)
    node.reduces(node.parameter("axes", 1, ()), keep=bool(node.attribute("keepdims", 1)), keeps_all=keeps_all)


def _shape(node: Rules) -> None:
    """State that the values of Shape are the sizes of its input."""
    node.is_type(node.y, np.int64).equals(node.y.rank, 1)

    def sizes(rank: int) -> None:
        start, end = node.attribute("start", 0), node.attribute("end", rank)
        taken = range(rank)[start:end]
        node.equals(node.y.size(0), len(taken))
        node.follow(node.y, (len(taken),), [node.x.size(axis) for axis in taken])

    node.given(node.x.rank).then(sizes)


def _size(node: Rules) -> None:
    node.is_type(node.y, np.int64).equals(node.y.rank, 0)

    def product(*sizes: Size) -> None:
        node.follow(node.y, (), [np.prod(np.array([Size.of(1), *sizes], object))])

    node.given(node.x.rank).then(lambda rank: node.given(*map(node.x.size, range(rank))).then(product))


def _constant(node: Rules) -> None:
    """State the value of Constant, of whichever attribute it is."""
    [(name, value)] = [*node.attributes.items()] or [("", None)]
    if name == "value":
        node.is_type(node.y, value.data_type)
        if value.data_location != onnx.TensorProto.EXTERNAL:
            node.holds(node.y, onnx.numpy_helper.to_array(value))
    elif name.startswith("value_") and "string" not in name:
        dtype = np.dtype(np.float32 if "float" in name else np.int64)
        node.is_type(node.y, dtype).holds(node.y, np.array(value, dtype))


def _shaped(node: Rules, shape: Array) -> None:
    node.equals(node.y.rank, len(shape))
    for axis, size in enumerate(shape.tolist()):
        node.require((Size.of(size).constant or 0) >= 0, f"the shape has a size of {size}")
        node.equals(node.y.size(axis), Size.of(size))


def _constant_of_shape(node: Rules) -> None:
    value = node.attribute("value", None)
    node.is_type(node.y, value.data_type if value is not None else np.float32)
    node.equals(node.y.rank, node.x.size(0)).given(node.x.value).then(lambda shape: _shaped(node, shape))


def _random(node: Rules) -> None:
    given = node.attribute("dtype", 0 if node.inputs else onnx.TensorProto.FLOAT)
    node.is_type(node.y, given) if given else node.same_type(node.x, node.y)
    if (shape := node.attribute("shape", None)) is not None:
        _shaped(node, np.array(shape, np.int64))
    else:
        node.same_shape(node.x, node.y)


def _expand(node: Rules) -> None:
    """State the size of each axis from that of the input, the one that is asked for, or both."""
    x, y, shape = node.x, node.y, node.input(1)
    node.same_type(x, y)

    def sizes(rank: int, count: Size) -> None:
        if count.constant is None:
            return
        whole = max(rank, count.constant)
        node.equals(y.rank, whole)
        for axis in range(whole):
            own, asked = axis - whole + rank, axis - whole + count.constant
            if own >= 0 and asked >= 0:
                node.given(x.size(own)).then(lambda size, axis=axis: of_input(axis, size))
                node.given(x.size(own), shape.item(asked)).then(lambda *both, axis=axis: of_both(axis, *both))
            else:
                node.equals(y.size(axis), x.size(own) if own >= 0 else shape.item(asked))

    def of_input(axis: int, size: Size) -> None:
        if (size.constant or 1) != 1:
            node.equals(y.size(axis), size)

    def of_both(axis: int, size: Size, wanted: Size) -> None:
        if wanted.constant == 1 or size == wanted:
            node.equals(y.size(axis), size)
        elif size.constant == 1:
            node.equals(y.size(axis), wanted)
        else:
            unknown = None in (size.constant, wanted.constant)
            node.require(unknown, f"size {axis} is {size}, and {wanted} is asked for")

    node.given(x.rank, shape.size(0)).then(sizes)


def _tile(node: Rules) -> None:
    repeats = node.input(1)
    node.same_type(node.x, node.y).all_equal(node.x.rank, node.y.rank, repeats.size(0))

    def sizes(rank: int, counts: Array) -> None:
        for axis in range(rank):
            node.given(node.x.size(axis)).then(
                lambda size, axis=axis: node.equals(node.y.size(axis), size * counts[axis])
            )

    node.given(node.x.rank, repeats.value).then(sizes)


def _range(node: Rules) -> None:
    node.same_type(*node.given_inputs, node.y).equals(node.y.rank, 1)

    def count(start: Any, limit: Any, delta: Any) -> None:
        if all(each.dtype != object for each in (start, limit, delta)):
            node.require(bool(delta), "the step is 0")
            node.equals(node.y.size(0), max(int(np.ceil((limit.ravel()[0] - start.ravel()[0]) / delta.ravel()[0])), 0))

    node.given(*(given_input.value for given_input in node.given_inputs)).then(count)


def _integer_product(node: Rules) -> None:
    from harness.operators.mat_mul import product

    node.is_type(node.y, np.int32)
    product(node, node.x, node.input(1))


def _integer_convolution(node: Rules) -> None:
    from harness.operators.convolution import convolved

    node.is_type(node.y, np.int32)
    convolved(node, node.input(1), None)


def _dynamic_quantiser(node: Rules) -> None:
    node.is_type(node.x, np.float32).is_type(node.y, np.uint8).is_type(node.output(1), np.float32)
    node.same_shape(node.x, node.y).same_type(node.y, node.output(2))
    node.equals(node.output(1).rank, 0).equals(node.output(2).rank, 0)


def _space_to_depth(node: Rules) -> None:
    block, deeper = node.attribute("blocksize", 1), node.proto.op_type == "SpaceToDepth"
    flat, deep = (node.x, node.y) if deeper else (node.y, node.x)
    node.same_type(flat, deep).equals(flat.rank, 4).equals(deep.rank, 4).equals(flat.size(0), deep.size(0))
    node.sum_is_zero((block * block, flat.size(1)), (-1, deep.size(1)))
    for axis in (2, 3):
        node.sum_is_zero((block, deep.size(axis)), (-1, flat.size(axis)))


def _one_hot(node: Rules) -> None:
    node.same_type(node.input(2), node.y).sum_is_zero((1, node.x.rank), (1, 1), (-1, node.y.rank))

    def sizes(rank: int) -> None:
        added = node.axis(node.attribute("axis", -1), rank)
        for axis in range(rank):
            if axis != added:
                node.equals(node.y.size(axis), node.x.size(axis - (axis > added)))
        node.given(node.input(1).value).then(lambda depth: node.equals(node.y.size(added), Size.of(depth.ravel()[0])))

    node.given(node.y.rank).then(sizes)


def _non_zero(node: Rules) -> None:
    node.is_type(node.y, np.int64).equals(node.y.rank, 2)
    node.given(node.x.rank).then(lambda rank: node.equals(node.y.size(0), rank))


def _cast_like(node: Rules) -> None:
    node.same_type(node.input(1), node.y).same_shape(node.x, node.y)


def _trees(node: Rules) -> None:
    node.is_type(node.y, np.float32).equals(node.y.rank, 2)
    node.equals(node.y.size(0), node.x.size(0)).equals(node.y.size(1), node.attribute("n_targets", 1))


def _rows_of_boxes(node: Rules) -> None:
    """State the columns of NonMaxSuppression; the number of rows depends on data."""
    node.is_type(node.y, np.int64).equals(node.y.rank, 2).equals(node.y.size(1), 3)


RULES: Mapping[str, Callable[[Rules], None]] = {
    **dict.fromkeys(SAME, _same),
    "ReduceLogSum": _reduce,
    **dict.fromkeys(("IsNaN", "IsInf"), _is_nan),
    **dict.fromkeys(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"), _random),
    **dict.fromkeys(("SpaceToDepth", "DepthToSpace"), _space_to_depth),
    "Where": _where,
    "GatherElements": _gather_elements,
    "Shape": _shape,
    "Size": _size,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "MatMulInteger": _integer_product,
    "ConvInteger": _integer_convolution,
    "DynamicQuantizeLinear": _dynamic_quantiser,
    "OneHot": _one_hot,
    "NonMaxSuppression": _rows_of_boxes,
    "NonZero": _non_zero,
    "CastLike": _cast_like,
    "ai.onnx.ml.TreeEnsembleRegressor": _trees,
}
"""The rules by operator, with its domain if that is not ONNX's own."""
