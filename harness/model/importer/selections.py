"""Operators with indices, and constant selections, as operators that harness computes.

indices that are data    GatherElements or ScatterElements of domain harness, of three axes, behind a Clip to the places
constant indices         a Gather of the values in a row
masks, one-hot codes     comparisons with constants, and Where
rows of unknown number   a bound of rows, the last ones -1 (bounded.py)

ONNX calls an index beyond an axis an error.  The Clip makes it the nearest place, so that nothing outside is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.model.analysis.propagation import Propagation
from harness.model.importer import arithmetic, bounded, regions, sampling
from harness.model.importer.replacement import Replacement, Rule, Shape, Unknown, attribute, operators_of, replace_nodes
from harness.model.transforms.edit import declare_functions
from harness.operators.onnx_function import DOMAIN
from harness.operators.selection import TYPES
from harness.operators.tensor import BOOL, FLOAT16, FLOAT32, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64

WIDER = {
    **dict.fromkeys((INT8, UINT8, INT16, UINT16, BOOL), INT32),
    **dict.fromkeys((UINT32, UINT64), INT64),
    FLOAT16: FLOAT32,
}
"""The types of values that are cast to another one and back, which changes none."""


def choosable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which values of a type are chosen; raise Unknown for float64."""
    if dtype not in (*TYPES, *WIDER):
        raise Unknown(str(dtype))
    return WIDER.get(dtype, dtype)


def _lead(shape: Shape, axis: int) -> tuple[int, int]:
    """Return the sizes before an axis as two: the first, which can be the number of vectors, and the others."""
    return (shape[0] if axis else 1), math.prod(shape[1:axis])


def gathered(to: Replacement, data: str, index: str, forms: tuple[Shape, Shape]) -> str:
    """Return the values of `data` at `index`, with four axes each, along the third one, in the type of the data."""
    dtype = choosable(to.dtype(data))
    of_index = to.dtype(index) if to.values(data) is not None else dtype
    x, places = to.cast(data, dtype), to.inside(index, forms[0][2], of_index)
    return to.cast(sampling.values_at(to, x, places, forms), to.dtype(data))


def gather(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a Gather with indices that are data."""
    data, index = node.input
    shape, of_index = to.shape(data), to.shape(index)
    axis = attribute(node, "axis", 0) % len(shape)
    if to.values(index) is not None:
        raise Unknown(node.name)
    inner, count = math.prod(shape[axis + 1 :]), math.prod(of_index)
    form = (*_lead(shape, axis), shape[axis], inner)
    form_of_index: Shape = (1, 1, count, 1)
    if axis == 0 and to.values(data) is not None and of_index:  # the first axis of the indices can be the vectors
        form_of_index = (of_index[0], 1, count // of_index[0], 1)
    y = gathered(to, data, index, (form, form_of_index))
    return to.reshaped(y, (*shape[:axis], *of_index, *shape[axis + 1 :]))


def gather_elements(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a GatherElements: of constant indices as a selection of values in a row."""
    data, index = node.input
    shape, part = to.shape(data), to.shape(index)
    axis = attribute(node, "axis", 0) % len(shape)
    values = to.values(index)
    if values is not None:
        numbers = np.arange(math.prod(shape)).reshape(shape)
        box = tuple(slice(size) if number != axis else slice(None) for number, size in enumerate(part))
        to.inside(index, shape[axis], INT64)
        return to.picked(data, np.take_along_axis(numbers[box], values % shape[axis], axis))
    smaller = [number for number, size in enumerate(shape) if size != part[number] and number != axis]
    if smaller:
        ends = (to.constant(numbers) for numbers in ([0] * len(smaller), [part[at] for at in smaller], smaller))
        shape = tuple(part[number] if number in smaller else size for number, size in enumerate(shape))
        data = to.add("Slice", [data, *ends], shape)
    forms = [(*_lead(sizes, axis), sizes[axis], math.prod(sizes[axis + 1 :])) for sizes in (shape, part)]
    return to.reshaped(gathered(to, data, index, (forms[0], forms[1])), part)


def places_of(to: Replacement, index: str, sizes: Shape) -> str:
    """Return the numbers of values in a row (..., 1) for indices (..., axes) of axes of these sizes."""
    values, count = to.values(index), len(sizes)
    steps = np.array([math.prod(sizes[place + 1 :]) for place in range(count)])
    shape = (*to.shape(index)[:-1], 1)
    if values is not None:
        for place, size in enumerate(sizes):
            to.inside(to.constant(values[..., place]), size, INT64)
        return to.constant(((values % sizes) * steps).sum(axis=-1, keepdims=True))
    if count == 1:
        return index
    whole, dtype = to.shape(index), to.dtype(index)
    low, high = (np.array(numbers, dtype) for numbers in ([-size for size in sizes], [size - 1 for size in sizes]))
    within = to.add("Min", [to.add("Max", [index, to.constant(low, dtype)], whole), to.constant(high, dtype)], whole)
    positive = to.add("Mod", [within, to.constant(sizes, dtype)], whole)
    product = to.add("Mul", [positive, to.constant(steps, dtype)], whole)
    return to.add("ReduceSum", [product, to.constant([len(whole) - 1])], shape, keepdims=1)


def gather_nd(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a GatherND, whose indices become those of values in a row."""
    data, index = node.input
    shape, of_index, batch = to.shape(data), to.shape(index), attribute(node, "batch_dims", 0)
    end = batch + of_index[-1]
    places = places_of(to, index, shape[batch:end])
    result, size, inner = (*of_index[:-1], *shape[end:]), math.prod(shape[batch:end]), math.prod(shape[end:])
    values = to.values(places)
    if values is not None:
        numbers = np.arange(math.prod(shape)).reshape(-1, size, inner)
        rows = values.reshape(len(numbers), -1, 1)
        return to.picked(data, np.take_along_axis(numbers, rows, axis=1).reshape(result))
    lead = _lead(shape, batch)
    form_of_index = (*lead, math.prod(of_index[batch:-1]), 1)
    return to.reshaped(gathered(to, data, places, ((*lead, size, inner), form_of_index)), result)


def scattered(to: Replacement, tensors: Sequence[str], forms: Sequence[Shape], reduction: bytes) -> str:
    """Return data with updates at indices along the third of four axes each, in the type of the data."""
    data, index, updates = tensors
    dtype = choosable(to.dtype(data))
    if to.values(index) is not None and reduction == b"none":
        return _overwritten(to, tensors, forms)
    x, u = (to.cast(to.reshaped(tensor, form), dtype) for tensor, form in ((data, forms[0]), (updates, forms[2])))
    places = to.reshaped(to.inside(index, forms[0][2], dtype), forms[1])
    y = to.add("ScatterElements", [x, places, u], forms[0], dtype, domain=DOMAIN, reduction=reduction.decode())
    return to.cast(y, to.dtype(data))


def _overwritten(to: Replacement, tensors: Sequence[str], forms: Sequence[Shape]) -> str:
    """Return data with updates at constant indices: values of both in a row, or a choice if one is constant."""
    data, index, updates = tensors
    shape = forms[0]
    to.inside(index, shape[2], INT64)
    values = to.values(index)
    assert values is not None  # noqa: S101 - by the caller
    rows = np.broadcast_to((values % shape[2]).reshape(forms[1]), forms[2])
    places = np.full(shape, -1)
    numbers = np.arange(math.prod(forms[2])).reshape(forms[2])
    for m in range(forms[2][2]):  # the last one of equal indices stays
        np.put_along_axis(places, rows[:, :, m : m + 1], numbers[:, :, m : m + 1], axis=2)
    x, u = to.reshaped(data, shape), to.reshaped(updates, forms[2])
    if to.values(data) is None and to.values(updates) is None:
        joined = [to.reshaped(tensor, (to.size_of(tensor),)) for tensor in (x, u)]
        row = to.add("Concat", joined, (to.size_of(x) + to.size_of(u),), axis=0)
        return to.picked(row, np.where(places < 0, np.arange(places.size).reshape(shape), places + places.size))
    kept = to.values(u)
    taken = to.picked(u, places.clip(0)) if kept is None else to.constant(kept.reshape(-1)[places.clip(0)], kept.dtype)
    return to.add("Where", [to.constant(places >= 0, np.bool_), taken, x], shape, to.dtype(data))


def scatter_elements(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a ScatterElements; indices that leave out values of other axes become those of values in a row."""
    data, index, updates = node.input
    shape, part, reduction = to.shape(data), to.shape(index), attribute(node, "reduction", b"none")
    axis = attribute(node, "axis", 0) % len(shape)
    if any(size != part[number] for number, size in enumerate(shape) if number != axis):
        raise Unknown(node.name)
    forms = [(*_lead(sizes, axis), sizes[axis], math.prod(sizes[axis + 1 :])) for sizes in (shape, part, part)]
    return to.reshaped(scattered(to, (data, index, updates), forms, reduction), shape)


def scatter_nd(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a ScatterND, whose indices become those of values in a row."""
    data, index, updates = node.input
    shape, of_index = to.shape(data), to.shape(index)
    end = of_index[-1]
    size, inner, count = math.prod(shape[:end]), math.prod(shape[end:]), math.prod(of_index[:-1])
    places = places_of(to, index, shape[:end])
    forms = (1, 1, size, inner), (1, 1, count, 1), (1, 1, count, inner)
    return to.reshaped(scattered(to, (data, places, updates), forms, attribute(node, "reduction", b"none")), shape)


def tensor_scatter(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a TensorScatter: updates from a place of each batch on, from the end to the beginning if circular."""
    data, updates = node.input[:2]
    shape, part = to.shape(data), to.shape(updates)
    axis, batch = attribute(node, "axis", -2) % len(shape), shape[0]
    circular = attribute(node, "mode", b"linear") == b"circular"
    steps = np.arange(part[axis]).reshape(1, 1, -1, 1)
    if len(node.input) > 2 and to.values(node.input[2]) is None:
        first, form = to.reshaped(node.input[2], (batch, 1, 1, 1)), (batch, 1, part[axis], 1)
        index = to.add("Add", [first, to.constant(steps)], form)
        index = to.add("Mod", [index, to.constant(shape[axis])], form) if circular else index
    else:
        begins = to.required(node, 2) if len(node.input) > 2 else np.zeros(batch, np.int64)
        rows = begins.reshape(-1, 1, 1, 1) + steps
        index = to.constant(rows % shape[axis] if circular else rows)
    others = math.prod(shape[1:axis])
    forms = [(batch, others, sizes[axis], math.prod(shape[axis + 1 :])) for sizes in (shape, part)]
    return to.reshaped(scattered(to, (data, index, updates), (forms[0], to.shape(index), forms[1]), b"none"), shape)


def max_unpool(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a MaxUnpool: values at places among all, between zeros; then zeros up to a stated shape."""
    shape, kernel = to.shape(node.input[0]), attribute(node, "kernel_shape", [])
    strides, pads = attribute(node, "strides", [1] * len(kernel)), attribute(node, "pads", [0] * 2 * len(kernel))
    sizes = [
        (count - 1) * stride + window - before - after
        for count, stride, window, before, after in zip(
            shape[2:], strides, kernel, pads[: len(kernel)], pads[len(kernel) :], strict=True
        )
    ]
    whole, count = (*shape[:2], *sizes), math.prod(shape)
    zeros = to.constant(np.zeros(whole), to.dtype(node.input[0]))
    forms = (1, 1, math.prod(whole), 1), (1, 1, count, 1), (1, 1, count, 1)
    y = to.reshaped(scattered(to, (zeros, node.input[1], node.input[0]), forms, b"none"), whole)
    if len(node.input) < 3:
        return y
    stated = to.required(node, 2)
    behind = to.constant([*[0] * len(whole), *(np.array(stated) - whole)])
    return to.add("Pad", [y, behind], tuple(stated.tolist()))


def trilu(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a Trilu: a choice between the values and zeros."""
    shape = to.shape(node.input[0])
    k = int(to.required(node, 1).item()) if len(node.input) > 1 and node.input[1] else 0
    ones = np.ones(shape[-2:], bool)
    mask = np.triu(ones, k) if attribute(node, "upper", 1) else np.tril(ones, k)
    dtype = to.dtype(node.input[0])
    return to.add("Where", [to.constant(mask, np.bool_), node.input[0], to.constant(0, dtype)], shape, dtype)


def _codes(to: Replacement, index: str, axis: int, size: int) -> tuple[str, Shape]:
    """Return whether an index with an axis of size 1 is each place of this axis, and the shape of that."""
    shape = to.shape(index)
    whole = (*shape[:axis], size, *shape[axis + 1 :])
    numbers = np.arange(size).reshape(-1, *[1] * (len(shape) - axis - 1))
    dtype = to.dtype(index)
    return to.add("Equal", [index, to.constant(numbers, dtype)], whole, BOOL), whole


def hardmax(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a Hardmax: 1 at the first of the largest values, else 0."""
    shape, dtype = to.shape(node.input[0]), to.dtype(node.input[0])
    axis = attribute(node, "axis", -1) % len(shape)
    first = (*shape[:axis], 1, *shape[axis + 1 :])
    code, _ = _codes(to, to.add("ArgMax", [node.input[0]], first, INT64, axis=axis, keepdims=1), axis, shape[axis])
    return to.cast(code, dtype)


def one_hot(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a OneHot: one value at the place of the index, which counts from the end below 0, else another."""
    index, shape = node.input[0], to.shape(node.input[0])
    size, ends = int(to.required(node, 1).item()), to.required(node, 2)
    axis = attribute(node, "axis", -1) % (len(shape) + 1)
    column = to.reshaped(index, (*shape[:axis], 1, *shape[axis:]))
    code, whole = _codes(to, column, axis, size)
    if to.dtype(index).kind != "u":
        numbers = np.arange(-size, 0).reshape(-1, *[1] * (len(shape) - axis))
        of_end = to.add("Equal", [column, to.constant(numbers, to.dtype(index))], whole, BOOL)
        code = to.add("Or", [code, of_end], whole)
    off, on = (to.constant(end, ends.dtype) for end in ends)
    return to.add("Where", [code, on, off], whole, ends.dtype)


def compress(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a Compress with a constant condition as a Gather of the places where it is true."""
    shape, taken = to.shape(node.input[0]), np.flatnonzero(to.required(node, 1))
    axis = attribute(node, "axis", None)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return to.picked(node.input[0], numbers.reshape(-1)[taken] if axis is None else numbers.take(taken, axis))


def reverse_sequence(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a ReverseSequence with constant lengths as a Gather."""
    shape, lengths = to.shape(node.input[0]), to.required(node, 1)
    time, batch = attribute(node, "time_axis", 0), attribute(node, "batch_axis", 1)
    rows = np.moveaxis(np.arange(math.prod(shape)).reshape(shape), (batch, time), (0, 1)).copy()
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    return to.picked(node.input[0], np.moveaxis(rows, (0, 1), (batch, time)))


def center_crop_pad(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a CenterCropPad as Slice and Pad."""
    shape, sizes = to.shape(node.input[0]), to.required(node, 1)
    axes = [axis % len(shape) for axis in attribute(node, "axes", range(len(shape)))]
    before, behind = np.zeros((2, len(shape)), np.int64)
    starts, ends = np.zeros(len(shape), np.int64), np.array(shape)
    for axis, size in zip(axes, sizes.tolist(), strict=True):
        if size <= shape[axis]:
            starts[axis] = (shape[axis] - size) // 2
            ends[axis] = starts[axis] + size
        else:
            before[axis] = (size - shape[axis]) // 2
            behind[axis] = size - shape[axis] - before[axis]
    y = node.input[0]
    if (ends - starts != shape).any():
        y = to.add("Slice", [y, to.constant(starts), to.constant(ends)], tuple((ends - starts).tolist()))
    whole = tuple((ends - starts + before + behind).tolist())
    return to.add("Pad", [y, to.constant([*before, *behind])], whole)


def eye_like(to: Replacement, node: onnx.NodeProto) -> None:
    """Write an EyeLike: a constant of ones along a diagonal, of the type of the input unless one is stated."""
    rows, columns = to.shape(node.input[0])
    kind = attribute(node, "dtype", None)
    dtype = to.dtype(node.input[0]) if kind is None else helper.tensor_dtype_to_np_dtype(kind)
    to.state(node.output[0], np.eye(rows, columns, attribute(node, "k", 0), dtype))


def dropout(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a Dropout with a mask, which drops nothing: its input, and a mask that is true."""
    ratio = to.required(node, 1) if len(node.input) > 1 and node.input[1] else np.array(0.5)
    is_training = len(node.input) > 2 and node.input[2] and to.required(node, 2).any()
    if (is_training and ratio.any()) or not (is_training or len(node.output) > 1):
        raise Unknown(node.name)
    to.add("Identity", node.input[:1], to.shape(node.input[0]))
    for mask in node.output[1:]:
        to.state(mask, np.ones(to.shape(node.input[0]), np.bool_))


RULES: Mapping[str, Rule] = {
    **arithmetic.RULES,
    **bounded.RULES,
    **regions.RULES,
    **sampling.RULES,
    "CenterCropPad": center_crop_pad,
    "Compress": compress,
    "Dropout": dropout,
    "EyeLike": eye_like,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Hardmax": hardmax,
    "MaxUnpool": max_unpool,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "Trilu": trilu,
}


def convert(model: onnx.ModelProto, propagation: Propagation) -> list[str]:
    """Replace the nodes with a rule, in place; return their operators.  Others stay, and their reader refuses them."""
    replaced = operators_of(replace_nodes(model.graph, RULES, propagation))
    declare_functions(model)
    return replaced
