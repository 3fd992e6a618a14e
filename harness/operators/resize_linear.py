"""Linear Resize (ONNX) of float32 images (channels, height, width), at the coordinates of resampling.py.

y = top * (1 - dy) + bottom * dy, top = left * (1 - dx) + right * dx, bottom likewise      each operation is rounded

left and right are the values before and after the coordinate, clamped to the image; dx and dy its distances to the
former.  1 - dx is rounded to float32, once, on the host.  ONNX Runtime multiplies four values by products of factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, fields
from harness.operators.elements import Elements, Operand, errors_of
from harness.operators.exact.expression import Expression
from harness.operators.fault_models import Single
from harness.operators.float_errors import UNDERFLOW, gamma, within_range
from harness.operators.node import Node
from harness.operators.order import Places, numbered
from harness.operators.resampling import Resampling
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment
from harness.operators.traits import Trait

LINEAR = Fragment(
    "resize_linear_float32",
    107,
    """\
# ONNX Resize, linear: between the columns before and after, then between the rows, each operation rounded to float32.
fragment resize_linear_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * height * width)
    rows: tensor<integer>,                  # int32 (2, height of y): the rows before and after
    columns_of_x: tensor<integer>,          # int32 (2, width of y)
    down: tensor<scalar>,                   # float32 (2, height of y): their factors
    right: tensor<scalar>,                  # float32 (2, width of y)
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class ResizeLinear(Elements):
    """Values between rows and columns: int32 (2, size of the output) each; `down` and `right` are their factors."""

    ONNX = ()  # Resize reads its nodes
    errors = Ability(lambda layer: replace(errors_of(layer), bounds=None, rounding=None))
    traits = Trait.NONE
    text = Elements.text.but(
        "between columns, then between rows, in float32, each operation rounded",
        ("X", "roi", "scales", "sizes"),
        (LINEAR,),
        facts_of=lambda layer: dict(layer.constants()),
        summary_of=lambda _: (),
    )
    names = ("top_left", "top_right", "bottom_left", "bottom_right", "left", "right", "top", "bottom")

    alternatives: ClassVar = {
        "the rows are interpolated first": lambda a, b, c, d, left, right, top, bottom: (
            (a * top + c * bottom) * left + (b * top + d * bottom) * right
        ),
        "the four values are multiplied by products of factors": lambda a, b, c, d, left, right, top, bottom: (
            a * (top * left) + b * (top * right) + c * (bottom * left) + d * (bottom * right)
        ),
        "the factors are exchanged": lambda a, b, c, d, left, right, top, bottom: (
            (a * right + b * left) * bottom + (c * right + d * left) * top
        ),
        "the value before is taken": lambda *operands: operands[0],
    }

    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    down: Single
    right: Single

    @staticmethod
    def value(*operands: Expression) -> Expression:
        """Return the definition for four values, two factors along the row, and two along the column."""
        top_left, top_right, bottom_left, bottom_right, left, right, top, bottom = operands
        return (top_left * left + top_right * right) * top + (bottom_left * left + bottom_right * right) * bottom

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a linear node."""
        return cls.of(node, Resampling.read(node))

    @classmethod
    def of(cls, node: Node, resampling: Resampling) -> Self:
        """Return the layer for these coordinates; raise RequestError for other inputs than images."""
        source, shape, at = resampling.source, resampling.shape, resampling.coordinates
        if len(shape) != 3 or shape[0] != source.shape[0]:
            raise node.refusal(f"it resizes {source.shape} to {shape}", "images (channels, height, width), linear")
        (rows, down), (columns, right) = (_linear(*each) for each in zip(at[1:], source.shape[1:], strict=True))
        bound = source.bound * (1 + gamma(8))
        written = fields(node, [source], shape, FLOAT32, bound if bound < LARGEST else np.inf, negative_zero=True)
        return cls(**written, rows=rows, columns=columns, down=down, right=right)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands in the order of the definition."""
        _, height, width = self.output.shape
        factors = [("right", (1, 1, width), values) for values in self.right]
        factors += [("down", (1, height, 1), values) for values in self.down]
        constants = (Operand("", shape, values.reshape(shape), role) for role, shape, values in factors)
        values = [Operand("", self.output.shape)] * 4
        pairs = zip(self.names, [*values, *constants], strict=True)
        return tuple(operand._replace(name=name) for name, operand in pairs)

    @cached_property
    def places(self) -> list[Places]:
        """The places of the four values for each value of the output."""
        x = numbered(self.input.shape)
        return [x[:, rows][..., columns] for rows in self.rows for columns in self.columns]

    def arguments(self, values: Sequence[Array], fixed: Sequence[Array | None] | None = None) -> dict[str, Array]:
        """Return the values of all operands by name."""
        taken = iter(values[0][:, places] for places in self.places)
        constants = (operand.values for operand in self.operands)
        return {name: next(taken) if factors is None else factors * (fixed is None)
                for name, factors in zip(self.names, constants, strict=True)}  # fmt: skip

    def constants(self) -> Constants:
        """Return places and factors, (2, size of the output) each."""
        return {"rows": self.rows, "columns_of_x": self.columns, "down": self.down, "right": self.right}

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:
        """Return the error bounds of two orders of the four products, whose factors are products of two others."""
        magnitudes = np.asarray(self.linear([np.abs(inputs[0].astype(np.float64))]))
        return within_range(2 * gamma(6) * magnitudes + 8 * UNDERFLOW, magnitudes).reshape(output.shape)


def _linear(at: Single, size: int) -> tuple[npt.NDArray[np.int32], Single]:
    """Return the places before and after, int32 (2, n), and their factors, float32 (2, n)."""
    inside = np.clip(at, np.float32(0), np.float32(size - 1))
    before = inside.astype(np.int32)
    after = np.minimum(before + 1, size - 1).astype(np.int32)
    distance = inside - before.astype(np.float32)
    return np.stack([before, after]), np.stack([np.float32(1) - distance, distance])
