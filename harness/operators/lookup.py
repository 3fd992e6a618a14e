"""Base class of operators with a function of one code: QLinearLeakyRelu and QLinearSigmoid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Ability, Constants, fields, limits
from harness.operators.codes import Affine, DefinedCodes
from harness.operators.fault_models import FaultModel, Single
from harness.operators.float_errors import Errors
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, every_code
from harness.operators.region import UNIFORM
from harness.operators.rules import Rules
from harness.operators.tensor import INT8, UINT8
from harness.operators.text import Fragment, Text

LARGEST_DIFFERENCE = 255
DIVISION = "division by y_scale, in float32"
LOOKUP = Fragment(
    "lookup",
    5,
    """\
# The entry of a table at the place of each code; `low` is the least code.
fragment lookup(
    x: tensor<scalar>,                      # codes (vectors, N)
    table: tensor<scalar>,                  # (1, 256)
    low: integer)
-> (y: tensor<scalar>)
{
    place = constant<scalar>(shape = [1, 1, 256], value = [for n in range_of([0] * 256) yield scalar(n + low)]);
    is_place = select(unsqueeze(x, axes = [2]) == place, 1.0, 0.0);
    y = squeeze(sum_reduce(is_place * unsqueeze(table, axes = [1]), axes = [2]), axes = [2]);
}
""",
)


def fragment(name: str, order: int, operator: str, comment: str, parameters: str = "") -> Fragment:
    """Return the NNEF operation of an operator; `comment` states how its table is computed."""
    return Fragment(
        name,
        order,
        f"""\
# com.microsoft {operator}, uint8 or int8 (type).  The table is computed once, and its codes are the constant:
{comment}
fragment {name}(
    x: tensor<scalar>,                      # codes (vectors, N)
    table: tensor<integer>,                 # codes (1, 256)
    x_scale: scalar, x_zero_point: integer, # the table holds them
    y_scale: scalar, y_zero_point: integer,{parameters}
    low: integer, high: integer,            # the least and the greatest code
    type: string)
-> (y: tensor<scalar>)
{{
    entries = cast<scalar>(table);
    y = lookup(x, entries, low = low);
}}
""",
        (LOOKUP,),
    )


def reading(node: Node, position: int, of: str, dtype: np.dtype[Any]) -> Affine:
    """Return a quantisation all of whose codes stand for finite numbers."""
    quantisation = Affine.read(node, position, of, dtype)
    with np.errstate(over="ignore"):
        if not math.isfinite(np.float32(LARGEST_DIFFERENCE) * quantisation.scale):
            raise node.refusal(f"255 codes of scale {quantisation.scale:.8g} overflow", "a scale of 1.3e36 at most")
    return quantisation


@dataclass(frozen=True, eq=False)
class Lookup(DefinedCodes):
    """A layer with a function of one real number between two quantisations."""

    text = Text(
        roles=("x", "x_scale", "x_zero_point", "y_scale", "y_zero_point"),
        summary_of=lambda layer: (
            f"{text.floats(layer.x.scale)} to {text.floats(layer.y.scale)}",
            f"{layer.x.zero_point} to {layer.y.zero_point}",
            *(f"{name} {text.floats(getattr(layer, name))}" for name in layer.attributes),
        ),
    )
    errors = Ability(lambda layer: Errors(layer, bounds=layer.output_bounds))
    division = Ability(UNIFORM)
    operand_names = ("x",)
    adds_zero_point = True

    x: Affine
    y: Affine

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and the types of scales and zero points."""
        node.same(node.x, node.y).same_type(node.x, node.has(2), node.has(4)).per_tensor(1).per_tensor(3)

    @staticmethod
    def read_fields(node: Node) -> dict[str, Any]:
        """Return the fields of the layer that a node describes; ONNX Runtime 1.31 aborts without a zero point of y."""
        node.require_inputs(5, 5)
        source = node.activation(0, [UINT8, INT8])
        quantisations = {
            "x": reading(node, 1, "x", source.dtype),
            "y": Affine.read(node, 3, "y", source.dtype),
        }
        return fields(node, [source], source.shape, source.dtype) | quantisations

    def places(self, *inputs: Array) -> npt.NDArray[np.integer[Any]]:
        """Return the number of codes below each."""
        return inputs[0].astype(np.intp) - np.iinfo(self.dtype).min

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return the least and the greatest code of each interval of codes."""
        table, first, last = self.table(), self.places(*low), self.places(*high)
        spans = [table[begin : end + 1] for begin, end in zip(first[0], last[0], strict=True)]
        return np.array([[span.min() for span in spans]]), np.array([[span.max() for span in spans]])

    def reachable(self) -> Iterator[Single]:
        """Yield a row for each code."""
        for value in self.unrounded():
            yield np.full(self.size, value)

    def constants(self) -> Constants:
        """Return the table, and all numbers that it holds."""
        return {
            "table": self.table(),
            "x_scale": self.x.scale,
            "x_zero_point": self.x.zero_point,
            "y_scale": self.y.scale,
            "y_zero_point": self.y.zero_point,
            **{name: getattr(self, name) for name in self.attributes},
            **limits(self.dtype),
        }

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield all codes at every place."""
        yield every_code(self.size, self.size, self.dtype, self.prepare())

    def wrong_tables(self) -> Iterator[FaultModel]:
        """Yield those of the definition, and a table of codes of the other type."""
        yield from super().wrong_tables()
        cause = "the halves of the table are exchanged: codes are read as the other 8-bit type"
        yield FaultModel(cause, str(self.dtype), np.roll(self.table(), 128))
