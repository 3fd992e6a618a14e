"""Powers, determinants, cumulated products and the places of greatest values by operators that harness computes.

Pow       of an exponent that is a constant integer: products of squares from the highest bit of the exponent on;
          of another constant, or of a constant base: exp(exponent * log(base))
Det       by the cofactors of the first row
CumProd   products of the values 1, 2, 4, ... places before
MaxPool   with places: ArgMax of the values of each window
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.model.importer.replacement import Replacement, Rule, Shape, Unknown, attribute, with_attributes
from harness.operators.pow import POWERS
from harness.operators.tensor import BOOL, FLOAT32, INT64, is_float

MOST_EXPONENTS, LARGEST_EXPONENT = 8, 64
LARGEST_MATRIX = 4
"""Its determinant has 24 products."""


def power(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a Pow that no layer reads, with a constant exponent or base."""
    base, exponent = node.input
    exponents, bases = to.values(exponent), to.values(base)
    shape = np.broadcast_shapes(to.shape(base), to.shape(exponent))
    if exponents is None:
        if bases is None or bases.dtype != FLOAT32 or not (bases > 0).all():
            raise Unknown(node.name)
        logarithms = to.constant(np.log(bases.astype(np.float64)), FLOAT32)
        product = to.add("Mul", [to.cast(exponent, FLOAT32), logarithms], shape, FLOAT32)
        return to.add("Exp", [product], shape)
    different = [float(number) for number in np.unique(exponents)]
    is_read = to.dtype(base) == FLOAT32 and exponents.dtype in (FLOAT32, np.int32, INT64) and exponents.size == 1
    if bases is not None or (is_read and different[0] in (1, *POWERS)) or len(different) > MOST_EXPONENTS:
        raise Unknown(node.name)
    result = _power(to, node, base, different[0])
    for number in different[1:]:
        condition = to.constant(exponents == number, BOOL)
        result = to.add("Where", [condition, _power(to, node, base, number), result], shape, to.dtype(base))
    return result


def _power(to: Replacement, node: onnx.NodeProto, x: str, exponent: float) -> str:
    """Return a power of x."""
    shape, dtype = to.shape(x), to.dtype(x)
    if exponent == 0:
        return to.constant(np.ones(shape), dtype)
    if not exponent.is_integer() or (is_float(dtype) and abs(exponent) > LARGEST_EXPONENT):
        if dtype != FLOAT32:
            raise Unknown(node.name)
        logarithm = to.add("Log", [x], shape)
        return to.add("Exp", [to.add("Mul", [logarithm, to.constant(exponent, FLOAT32)], shape)], shape)
    if exponent < 0 and dtype != FLOAT32:
        raise Unknown(node.name)
    result = x
    for digit in f"{abs(int(exponent)):b}"[1:]:
        result = to.add("Mul", [result, result], shape)
        result = to.add("Mul", [result, x], shape) if digit == "1" else result
    return result if exponent > 0 else to.add("Reciprocal", [result], shape)


def determinant(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a Det of float32 matrices of up to 4 rows."""
    *lead, rows, columns = to.shape(node.input[0])
    if rows != columns or rows > LARGEST_MATRIX or to.dtype(node.input[0]) != FLOAT32:
        raise Unknown(node.name)
    whole, one = to.reshaped(node.input[0], (*lead, rows * rows)), (*lead, 1)

    def cofactors(row: int, left: list[int]) -> str:
        """Return the determinant of the rows from `row` on and the columns that are left."""
        total = ""
        for place, column in enumerate(left):
            entry = to.add("Gather", [whole, to.constant([row * rows + column])], one, axis=len(lead))
            others = left[:place] + left[place + 1 :]
            term = to.add("Mul", [entry, cofactors(row + 1, others)], one) if others else entry
            total = to.add("Sub" if place % 2 else "Add", [total, term], one) if total else term
        return total

    return to.reshaped(cofactors(0, [*range(rows)]), tuple(lead))


def cumulated_product(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a CumProd along a constant axis."""
    shape = to.shape(node.input[0])
    axis = int(to.required(node, 1).item()) % len(shape)
    is_reverse = bool(attribute(node, "reverse", 0))
    y: str = node.input[0]

    def moved(tensor: str, places: int) -> str:
        """Return the values so many places before, and 1 in the place of those outside."""
        pads = np.zeros((2, len(shape)), np.int64)
        pads[int(is_reverse), axis] = places
        one = to.constant(1, to.dtype(tensor))
        longer = tuple(size + places * (place == axis) for place, size in enumerate(shape))
        padded = to.add("Pad", [tensor, to.constant(pads.reshape(-1)), one], longer)
        first = places if is_reverse else 0
        ends = [to.constant([number]) for number in (first, first + shape[axis], axis)]
        return to.add("Slice", [padded, *ends], shape)

    places = 1
    while places < shape[axis]:
        y = to.add("Mul", [y, moved(y, places)], shape)
        places *= 2
    if attribute(node, "exclusive", 0):
        y = moved(y, 1)
    if y == node.input[0]:
        return to.add("Identity", [y], shape)
    return y


def max_pool(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a MaxPool with the places of the greatest values, of two axes, among all of the input in a row."""
    if len(node.output) < 2 or not node.output[1]:
        raise Unknown(node.name)
    shape = to.shape(node.input[0])
    kernel, strides, dilations, pads = (
        attribute(node, name, default)
        for name, default in (("kernel_shape", []), ("strides", [1, 1]), ("dilations", [1, 1]), ("pads", [0] * 4))
    )
    is_plain = attribute(node, "auto_pad", b"NOTSET") == b"NOTSET" and not attribute(node, "ceil_mode", 0)
    if len(shape) != 4 or len(kernel) != 2 or not is_plain or to.dtype(node.input[0]) != FLOAT32:
        raise Unknown(node.name)
    vectors, channels, *image = shape
    counts = [
        (image[axis] + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1) // strides[axis] + 1
        for axis in range(2)
    ]
    firsts = [np.arange(counts[axis]) * strides[axis] - pads[axis] for axis in range(2)]
    steps = [np.arange(kernel[axis]) * dilations[axis] for axis in range(2)]
    rows, columns = (
        firsts[axis].reshape((1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1))
        + steps[axis].reshape((-1, 1, 1, 1) if axis == 0 else (1, -1, 1, 1))
        for axis in range(2)
    )
    size = image[0] * image[1]
    inside = (rows >= 0) & (rows < image[0]) & (columns >= 0) & (columns < image[1])
    places = np.where(inside, rows * image[1] + columns, size)
    planes: Shape = (vectors, channels, size + 1)
    row = to.reshaped(node.input[0], (vectors, channels, size))
    ends = [to.constant([0, 0, 0, 0, 0, 1]), to.constant(-np.inf, FLOAT32)]
    padded = to.add("Pad", [row, *ends], planes)
    values = to.add("Gather", [padded, to.constant(places.reshape(-1))], (vectors, channels, places.size), axis=2)
    windows = to.reshaped(values, (vectors, channels, kernel[0] * kernel[1], counts[0] * counts[1]))
    result = vectors, channels, counts[0] * counts[1]
    chosen = to.add("ArgMax", [windows], result, INT64, axis=2, keepdims=0)
    whole = [to.add(operator, [chosen, to.constant(kernel[1])], result) for operator in ("Div", "Mod")]
    is_rows = not attribute(node, "storage_order", 0)
    strides_of_places = (image[1], 1) if is_rows else (1, image[0])
    at = to.constant(_places(channels, size, firsts, strides_of_places).reshape(channels, -1))
    for step, dilation, stride in zip(whole, dilations, strides_of_places, strict=True):
        at = to.add("Add", [at, to.add("Mul", [step, to.constant(dilation * stride)], result)], result, INT64)
    to.add("Reshape", [at, to.constant((vectors, channels, *counts))], output=node.output[1])
    to.nodes.append(with_attributes(node, storage_order=None))
    del to.nodes[-1].output[1:]


def _places(channels: int, size: int, firsts: list[Array], strides: tuple[int, int]) -> Array:
    """Return the places of the first values of all windows, among all values of a vector."""
    planes = np.arange(channels).reshape(-1, 1, 1) * size
    return np.asarray(planes + firsts[0].reshape(-1, 1) * strides[0] + firsts[1] * strides[1])


RULES: Mapping[str, Rule] = {
    "CumProd": cumulated_product,
    "Det": determinant,
    "MaxPool": max_pool,
    "Pow": power,
}
