"""GridSample, Col2Im and Einsum by operators that harness computes; ONNX fixes no order of their sums."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx

from harness.model.importer.replacement import Replacement, Rule, Shape, Unknown, attribute
from harness.operators.onnx_function import DOMAIN
from harness.operators.tensor import BOOL, FLOAT32

LINEAR, CUBIC_PLACES = (0, 1), (-1, 0, 1, 2)
NEIGHBOURS = {
    b"nearest": (0,),
    **dict.fromkeys((b"linear", b"bilinear"), LINEAR),
    **dict.fromkeys((b"cubic", b"bicubic"), CUBIC_PLACES),
}
"""The places beside the coordinate from which an axis is interpolated, by the mode of GridSample."""
CUBIC = -0.75


def values_at(to: Replacement, data: str, index: str, forms: tuple[Shape, Shape]) -> str:
    """Return values at indices that are places, with these shapes of four axes, along the third one."""
    of_data, of_index = forms
    tensors = [to.reshaped(tensor, form) for tensor, form in zip((data, index), forms, strict=True)]
    shape = max(of_data[0], of_index[0]), of_data[1], of_index[2], of_data[3]
    return to.add("GatherElements", tensors, shape, domain=DOMAIN)


class Numbers:
    """Arithmetic of float32 tensors and numbers that adds nodes."""

    def __init__(self, to: Replacement) -> None:
        self.to = to

    def of(self, operator: str, *operands: str | float) -> str:
        """Return the result of an operator with broadcasting; a comparison gives a bool."""
        names = [value if isinstance(value, str) else self.to.constant(value, np.float32) for value in operands]
        shape = np.broadcast_shapes(*map(self.to.shape, names))
        is_bool = operator in ("Less", "LessOrEqual", "GreaterOrEqual", "Equal", "And")
        return self.to.add(operator, names, shape, BOOL if is_bool else FLOAT32)

    def clipped(self, x: str, high: float) -> str:
        """Return numbers from 0 to an end."""
        limits = [self.to.constant(limit, np.float32) for limit in (0, high)]
        return self.to.add("Clip", [x, *limits], self.to.shape(x))

    def reflected(self, x: str, low: float, high: float) -> str:
        """Return coordinates that are reflected at both ends as often as needed."""
        if high == low:
            return self.of("Mul", x, 0.0)
        distance = self.of("Abs", self.of("Sub", x, low))
        times = self.of("Floor", self.of("Div", distance, high - low))
        rest = self.of("Sub", distance, self.of("Mul", times, high - low))
        half = self.of("Floor", self.of("Mul", times, 0.5))
        is_even = self.of("Equal", times, self.of("Mul", half, 2.0))
        return self.of("Where", is_even, self.of("Add", rest, low), self.of("Sub", high, rest))

    def weights(self, distance: str, form: Shape, offsets: tuple[int, ...]) -> str:
        """Return the weights of the places beside a coordinate at these distances from it."""
        if offsets == LINEAR:
            return self.of("Sub", 1.0, distance)
        is_far = self.to.constant([offset not in LINEAR for offset in offsets], np.bool_)
        square = self.of("Mul", distance, distance)
        near = self.of("Mul", self.of("Sub", self.of("Mul", distance, CUBIC + 2), CUBIC + 3), square)
        far = self.of("Mul", self.of("Sub", self.of("Mul", distance, CUBIC), 5 * CUBIC), distance)
        far = self.of("Sub", self.of("Mul", self.of("Add", far, 8 * CUBIC), distance), 4 * CUBIC)
        return self.of("Where", self.to.reshaped(is_far, form), far, self.of("Add", near, 1.0))


class Sampling(NamedTuple):
    """The mode of a GridSample: offsets of the neighbours, padding, and whether the ends are centres of values."""

    offsets: tuple[int, ...]
    padding: bytes
    has_corners: bool

    def coordinate(self, numbers: Numbers, grid: str, size: int) -> str:
        """Return the coordinates on an axis for numbers from -1 to 1, where they are not limited later."""
        shifted = numbers.of("Add", grid, 1.0)
        if self.has_corners:
            at = numbers.of("Mul", shifted, (size - 1) / 2)
        else:
            at = numbers.of("Mul", numbers.of("Sub", numbers.of("Mul", shifted, float(size)), 1.0), 0.5)
        at = numbers.of("Round", at) if len(self.offsets) == 1 else at
        return self.padded(numbers, at, size)

    def padded(self, numbers: Numbers, at: str, size: int) -> str:
        """Return coordinates that are reflected, or limited to the border."""
        if self.padding == b"reflection":
            ends = (0.0, size - 1.0) if self.has_corners else (-0.5, size - 0.5)
            return numbers.reflected(at, *ends)
        return numbers.clipped(at, size - 1) if self.padding == b"border" else at


def sampled(to: Replacement, x: str, coordinates: Sequence[str], how: Sampling) -> str:
    """Return the values of an image at coordinates, (vectors, channels, count): weighted sums of those of neighbours.

    There is a tensor of coordinates for each axis, (vectors, 1, count, 1, ...) with a 1 for each axis.
    """
    (vectors, channels, *sizes), numbers = to.shape(x), Numbers(to)
    count, rank, offsets = to.shape(coordinates[0])[2], len(sizes), how.offsets
    places, masks, weights = list[str](), list[str](), list[str]()
    for axis, (size, at) in enumerate(zip(sizes, coordinates, strict=True)):
        form = tuple(len(offsets) if other == axis else 1 for other in range(rank))
        beside = at
        if len(offsets) > 1:
            steps = to.constant(np.array(offsets).reshape(form), np.float32)
            beside = numbers.of("Add", numbers.of("Floor", at), steps)
            weights.append(numbers.weights(numbers.of("Abs", numbers.of("Sub", at, beside)), form, offsets))
        if how.padding == b"zeros":
            masks += [numbers.of("GreaterOrEqual", beside, 0.0), numbers.of("Less", beside, float(size))]
        places.append(numbers.clipped(how.padded(numbers, beside, size), size - 1))
    index = places[0]
    for size, place in zip(sizes[1:], places[1:], strict=True):
        index = numbers.of("Add", numbers.of("Mul", index, float(size)), place)
    whole, taken = math.prod(sizes), count * len(offsets) ** rank
    forms = (vectors, channels, whole, 1), (vectors, 1, taken, 1)
    result: Shape = (vectors, channels, count, *[len(offsets)] * rank)
    values = to.reshaped(values_at(to, x, to.inside(index, whole, FLOAT32), forms), result)
    if masks:
        inside = functools.reduce(lambda one, other: numbers.of("And", one, other), masks)
        values = numbers.of("Where", inside, values, 0.0)
    for axis in reversed(range(len(weights))):
        product = numbers.of("Mul", values, weights[axis])
        result = (*result[: 3 + axis], 1, *result[4 + axis :])
        values = to.add("ReduceSum", [product, to.constant([3 + axis])], result, keepdims=1)
    return to.reshaped(values, (vectors, channels, count))


def grid_sample(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a GridSample of an image and coordinates that are data."""
    x, grid = node.input
    of_grid, numbers = to.shape(grid), Numbers(to)
    if {to.dtype(x), to.dtype(grid)} != {FLOAT32} or to.values(x) is not None or to.values(grid) is not None:
        raise Unknown(node.name)
    vectors, channels, *sizes = to.shape(x)
    count, rank = math.prod(of_grid[1:-1]), len(sizes)
    offsets = NEIGHBOURS[attribute(node, "mode", b"linear")]
    how = Sampling(offsets, attribute(node, "padding_mode", b"zeros"), bool(attribute(node, "align_corners", 0)))
    coordinates = []
    for axis, size in enumerate(sizes):
        last = to.constant([rank - 1 - axis])
        part = to.add("Gather", [grid, last], (*of_grid[:-1], 1), axis=len(of_grid) - 1)
        coordinates.append(how.coordinate(numbers, to.reshaped(part, (vectors, 1, count, *[1] * rank)), size))
    return to.reshaped(sampled(to, x, coordinates, how), (vectors, channels, *of_grid[1:-1]))


def col2im(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a Col2Im: the values of each place of the image, in the order of the block, and their sums."""
    shape = to.shape(node.input[0])
    image, block = (to.required(node, position).tolist() for position in (1, 2))
    rank = len(image)
    strides, dilations, pads = (
        attribute(node, name, [value] * count)
        for name, value, count in (("strides", 1, rank), ("dilations", 1, rank), ("pads", 0, 2 * rank))
    )
    windows = [
        (size + pads[axis] + pads[axis + rank] - dilations[axis] * (block[axis] - 1) - 1) // strides[axis] + 1
        for axis, size in enumerate(image)
    ]
    vectors, channels = shape[0], shape[1] // math.prod(block)
    sources: dict[tuple[int, ...], list[int]] = {}
    for within in np.ndindex(*block):
        for window in np.ndindex(*windows):
            at = tuple(
                window[axis] * strides[axis] + within[axis] * dilations[axis] - pads[axis] for axis in range(rank)
            )
            place = int(np.ravel_multi_index((*within, *window), (*block, *windows)))
            sources.setdefault(at, []).append(place)
    size, most = math.prod(block) * math.prod(windows), max(map(len, sources.values()))
    places = np.full((vectors, most, channels, *image), vectors * channels * size)
    firsts = (np.arange(vectors * channels) * size).reshape(vectors, channels)
    for at in np.ndindex(*image):
        for number, place in enumerate(sources.get(at, ())):
            places[(slice(None), number, slice(None), *at)] = firsts + place
    lead = (1,) * (vectors == 1)  # it can be the number of vectors
    row = to.reshaped(node.input[0], (*lead, math.prod(shape)))
    ends = to.constant([*[0] * len(lead), 0, *[0] * len(lead), 1])
    padded = to.add("Pad", [row, ends], (*lead, math.prod(shape) + 1))  # a zero behind all values
    terms = to.picked(padded, places)
    return to.add("ReduceSum", [terms, to.constant([1])], (vectors, channels, *image), keepdims=0)


def einsum(to: Replacement, node: onnx.NodeProto) -> str:
    """Write an Einsum of one or two operands as Transpose, ReduceSum, Mul and MatMul."""
    equation = attribute(node, "equation", b"").decode().replace(" ", "")
    left, arrow, result = equation.partition("->")
    operands = left.split(",")
    if len(operands) != len(node.input) or len(operands) > 2:
        raise Unknown(node.name)
    shapes = [to.shape(tensor) for tensor in node.input]
    labels = [_labels(text, len(shape)) for text, shape in zip(operands, shapes, strict=True)]
    counts = "".join(labels)
    dots = max((text for text in map(_dots, labels)), key=len)
    result = (
        result.replace("...", dots)
        if arrow
        else dots + "".join(sorted(label for label in set(counts) - set(dots) if counts.count(label) == 1))
    )
    sizes: dict[str, int] = {}
    for text, shape in zip(labels, shapes, strict=True):
        for label, size in zip(text, shape, strict=True):
            if sizes.setdefault(label, size) != size and 1 not in (size, sizes[label]):
                raise Unknown(node.name)
            sizes[label] = max(sizes[label], size)
    terms = []
    for number, (text, tensor) in enumerate(zip(labels, node.input, strict=True)):
        others = result + "".join(labels[:number] + labels[number + 1 :])
        terms.append(_without_own(to, tensor, text, others))
    if any(to.shape(tensor)[place] != sizes[label] for text, tensor in terms for place, label in enumerate(text)):
        raise Unknown(node.name)  # a size of 1 that is repeated
    text, tensor = terms[0] if len(terms) == 1 else _product(to, terms, result)
    return _transposed(to, tensor, text, result)


def _labels(text: str, rank: int) -> str:
    """Return a label for each axis; those of the ellipsis are digits, the last one 0."""
    count = rank - len(text.replace("...", ""))
    return text.replace("...", "".join(str(number) for number in range(count - 1, -1, -1)))


def _dots(labels: str) -> str:
    return "".join(label for label in labels if label.isdigit())


def _without_own(to: Replacement, tensor: str, text: str, others: str) -> tuple[str, str]:
    """Return an operand with each label once, those of no other operand added up."""
    shape, kept = to.shape(tensor), "".join(dict.fromkeys(text))
    if len(kept) < len(text):
        numbers = np.arange(math.prod(shape)).reshape(shape)
        letters = {label: chr(ord("a") + number) for number, label in enumerate(kept)}
        places = np.einsum("".join(letters[label] for label in text) + "->" + "".join(letters.values()), numbers)
        text, tensor = kept, to.picked(tensor, places)
    over = [place for place, label in enumerate(text) if label not in others]
    if over:
        left = [place for place in range(len(text)) if place not in over]
        sizes = tuple(to.shape(tensor)[place] for place in left)
        tensor = to.add("ReduceSum", [tensor, to.constant(over)], sizes, keepdims=0)
        text = "".join(text[place] for place in left)
    return text, tensor


def _transposed(to: Replacement, tensor: str, text: str, order: str) -> str:
    """Return a tensor with the axes in this order."""
    if text == order:
        return tensor
    perm = [text.index(label) for label in order]
    return to.add("Transpose", [tensor], tuple(to.shape(tensor)[place] for place in perm), perm=perm)


def _product(to: Replacement, terms: list[tuple[str, str]], result: str) -> tuple[str, str]:
    """Return the labels of the product of two operands, and the product: a MatMul of labels that it adds up."""
    (first, a), (second, b) = terms
    batch = [label for label in first if label in second and label in result]
    summed = [label for label in first if label in second and label not in result]
    rows = [label for label in first if label not in second]
    columns = [label for label in second if label not in first]
    a = _transposed(to, a, first, "".join([*batch, *rows, *summed]))
    b = _transposed(to, b, second, "".join([*batch, *summed, *columns]))
    of_a, of_b = to.shape(a), to.shape(b)
    whole, depth = of_a[: len(batch)], math.prod(of_b[len(batch) : len(batch) + len(summed)])
    height, width = math.prod(of_a[len(batch) : len(batch) + len(rows)]), math.prod(of_b[len(batch) + len(summed) :])
    a, b = to.reshaped(a, (*whole, height, depth)), to.reshaped(b, (*whole, depth, width))
    operator = "MatMul" if summed else "Mul"
    product = to.add(operator, [a, b], (*whole, height, width))
    shape = (*whole, *of_a[len(batch) : len(batch) + len(rows)], *of_b[len(batch) + len(summed) :])
    return "".join([*batch, *rows, *columns]), to.reshaped(product, shape)


RULES: Mapping[str, Rule] = {
    "Col2Im": col2im,
    "Einsum": einsum,
    "GridSample": grid_sample,
}
