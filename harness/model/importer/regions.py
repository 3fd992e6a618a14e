"""DeformConv and RoiAlign by samples of an image at coordinates that are data; ONNX fixes no order of their sums."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import onnx

from harness.model.importer.replacement import Replacement, Rule, Shape, Unknown, attribute
from harness.model.importer.sampling import LINEAR, Numbers, Sampling, sampled
from harness.operators.tensor import FLOAT32


def deform_conv(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a DeformConv of images of two axes: samples as channels, and a Conv with a kernel of one place."""
    x, kernels, offset, *others = node.input
    bias, mask = ([*others, "", ""][place] for place in range(2))
    (vectors, channels, *image), (outputs, _, *kernel) = to.shape(x), to.shape(kernels)
    if len(image) != 2 or to.dtype(x) != FLOAT32 or to.values(offset) is not None:
        raise Unknown(node.name)
    strides, dilations, pads = (
        attribute(node, name, default)
        for name, default in (("strides", [1, 1]), ("dilations", [1, 1]), ("pads", [0] * 4))
    )
    groups, size, windows = attribute(node, "offset_group", 1), int(np.prod(kernel)), to.shape(offset)[2:]
    steps = np.indices((*kernel, *windows)).reshape(4, -1)
    count, numbers = steps.shape[1], Numbers(to)
    how = Sampling(LINEAR, b"zeros", has_corners=True)
    parts = []
    for group in range(groups):
        part = _slice(to, x, group * channels // groups, channels // groups)
        coordinates = []
        for axis in range(2):
            first = steps[axis] * dilations[axis] + steps[axis + 2] * strides[axis] - pads[axis]
            channel_numbers = to.constant((group * size + np.arange(size)) * 2 + axis)
            moved = to.add("Gather", [offset, channel_numbers], (vectors, size, *windows), axis=1)
            place = to.constant(first.reshape(1, 1, count, 1, 1), FLOAT32)
            coordinates.append(numbers.of("Add", to.reshaped(moved, (vectors, 1, count, 1, 1)), place))
        values = sampled(to, part, coordinates, how)
        if mask:
            own = to.reshaped(_slice(to, mask, group * size, size), (vectors, 1, count))
            values = numbers.of("Mul", values, own)
        parts.append(to.reshaped(values, (vectors, channels // groups * size, *windows)))
    columns: Shape = (vectors, channels * size, *windows)
    whole = to.add("Concat", parts, columns, axis=1) if groups > 1 else parts[0]
    result, products = (vectors, outputs, *windows), attribute(node, "group", 1)
    depth, places = channels // products * size, windows[0] * windows[1]
    if to.values(kernels) is not None:
        of_places = to.reshaped(kernels, (outputs, depth, 1, 1))
        return to.add("Conv", [whole, of_places, *([bias] if bias else [])], result, group=products)
    left = to.reshaped(kernels, (1, products, outputs // products, depth))
    right = to.reshaped(whole, (vectors, products, depth, places))
    product = to.add("MatMul", [left, right], (vectors, products, outputs // products, places))
    sums = to.reshaped(product, result)
    return numbers.of("Add", sums, to.reshaped(bias, (1, outputs, 1, 1))) if bias else sums


def _slice(to: Replacement, tensor: str, first: int, count: int) -> str:
    """Return so many channels of a tensor."""
    shape = to.shape(tensor)
    if count == shape[1]:
        return tensor
    values = to.values(tensor)
    if values is not None:
        return to.constant(values[:, first : first + count], values.dtype)
    ends = [to.constant([number]) for number in (first, first + count, 1)]
    return to.add("Slice", [tensor, *ends], (shape[0], count, *shape[2:]))


def roi_align(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a RoiAlign of one image with a stated number of samples."""
    x, rois = node.input[:2]
    (images, channels, *image), count = to.shape(x), to.shape(rois)[0]
    samples = attribute(node, "sampling_ratio", 0)
    if samples == 0:
        raise to.refusal(
            node, "sampling_ratio is 0: the number of samples depends on the data", "a sampling_ratio of 1 or more"
        )
    if attribute(node, "mode", b"avg") != b"avg":
        raise to.refusal(node, "mode is max, whose products with weights ONNX does not define", "mode avg")
    if images > 1 or to.values(rois) is not None or to.dtype(x) != FLOAT32:
        raise Unknown(node.name)
    numbers, scale = Numbers(to), attribute(node, "spatial_scale", 1.0)
    is_half = attribute(node, "coordinate_transformation_mode", b"half_pixel") == b"half_pixel"
    sizes = [attribute(node, name, 1) for name in ("output_height", "output_width")]
    whole: Shape = (count, sizes[0], samples, sizes[1], samples)
    coordinates, masks = list[str](), list[str]()
    for axis in range(2):
        first, end = (_edge(numbers, rois, column, scale, is_half=is_half) for column in (1 - axis, 3 - axis))
        extent = numbers.of("Sub", end, first)
        extent = extent if is_half else numbers.of("Max", extent, 1.0)
        steps = np.arange(sizes[axis])[:, None] + (np.arange(samples) + 0.5) / samples
        form = (1, *steps.shape, 1, 1) if axis == 0 else (1, 1, 1, *steps.shape)
        shares = to.constant((steps / sizes[axis]).reshape(form), FLOAT32)
        at = numbers.of("Add", numbers.of("Mul", extent, shares), first)
        everywhere = numbers.of("Add", at, to.constant(np.zeros((1, *whole[1:])), FLOAT32))
        row = to.reshaped(everywhere, (1, 1, int(np.prod(whole)), 1, 1))
        masks += [numbers.of("GreaterOrEqual", row, -1.0), numbers.of("LessOrEqual", row, float(image[axis]))]
        coordinates.append(numbers.clipped(row, image[axis] - 1))
    inside = functools.reduce(lambda one, other: numbers.of("And", one, other), masks)
    how = Sampling(LINEAR, b"border", has_corners=True)
    values = sampled(to, x, coordinates, how)
    values = numbers.of("Where", to.reshaped(inside, (1, 1, int(np.prod(whole)))), values, 0.0)
    boxes = to.reshaped(values, (channels, *whole))
    total = to.add("ReduceSum", [boxes, to.constant([3, 5])], (channels, count, *sizes), keepdims=0)
    means = numbers.of("Mul", total, 1 / samples**2)
    return to.add("Transpose", [means], (count, channels, *sizes), perm=[1, 0, 2, 3])


def _edge(numbers: Numbers, rois: str, column: int, scale: float, *, is_half: bool) -> str:
    """Return a coordinate of the regions, (regions, 1, 1, 1, 1), in places of the image."""
    to, count = numbers.to, numbers.to.shape(rois)[0]
    part = to.add("Gather", [rois, to.constant([column])], (count, 1), axis=1)
    edge = numbers.of("Mul", to.reshaped(part, (count, 1, 1, 1, 1)), float(scale))
    return numbers.of("Sub", edge, 0.5) if is_half else edge


RULES: Mapping[str, Rule] = {"DeformConv": deform_conv, "RoiAlign": roi_align}
