"""Relu (ONNX), float32 or int8 codes, which are compared as they are: their zero point plays no part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer, fields
from harness.operators.counters import Stimuli
from harness.operators.elements import Elements, divided, errors_of
from harness.operators.exact import from_ordered, ordered
from harness.operators.exact.expression import Expression, select
from harness.operators.fault_models import FaultModel, as_other_type
from harness.operators.float_errors import Perturbed
from harness.operators.integer_elements import IntegerElements, reads_integers
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, every_code, of_comparisons
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32, INT8, WIDE_INTEGERS
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "relu_float32",
    70,
    """\
# ONNX Relu: a comparison, which rounds nothing; -0.0 stays.
fragment relu_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = select(x < 0.0, 0.0, x);
}
""",
)
CODES = Fragment(
    "relu_codes",
    68,
    """\
# ONNX Relu of int8 codes: a comparison.
fragment relu_codes(
    x: tensor<scalar>,                      # codes (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = select(x < 0.0, 0.0, x);
}
""",
)


@dataclass(frozen=True, eq=False)
class Comparison(Elements):
    """A layer that compares float32 numbers or codes with bounds; the second of its fragments is for codes."""

    division = Ability(divided)
    text = Elements.text.but(chosen=lambda layer: layer.of_codes)
    stimuli = Ability(lambda layer: Stimuli(boundaries=layer.boundaries))
    errors = Ability(lambda layer: replace(errors_of(layer), piecewise_monotone=True, slopes=layer.slopes_within))

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay."""
        node.same(node.x, node.y)

    @property
    def places(self) -> tuple[float, ...]:
        """The numbers with which it compares."""
        return (0.0,)

    @property
    def of_codes(self) -> bool:
        """True if it reads codes."""
        return self.dtype.kind != "f"

    def slopes_within(self, at: Perturbed) -> Array:
        """Return 1 between the bounds; NaN where a value is beyond one, or may cross it."""
        (low, high), evaluate = at.ends(), self.prepare()
        kept = (evaluate(low) == low) & (evaluate(high) == high) & (at.output == at.values[0])
        return np.where(kept, 1, np.nan)

    def boundaries(self) -> tuple[Array, Array]:
        """Return the places and the adjacent numbers; nothing is rounded."""
        keys = np.unique(ordered(np.array(self.places, np.float32))[:, None] + np.arange(-1, 2))
        neighbours = from_ordered(keys)
        return neighbours[np.isfinite(neighbours)], np.empty(0, np.float32)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of the definition, and codes that are compared as those of the other type."""
        yield from super().fault_models(*inputs)
        if self.of_codes:
            misread = {name: as_other_type(value) for name, value in self.arguments(inputs).items()}
            names = tuple(operand.name for operand in self.operands)
            other = self._computed(self.defined(names, misread[names[0]].dtype), misread)
            right = f"they are {self.dtype}"
            yield FaultModel("codes are compared as the other 8-bit type", right, as_other_type(other))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield numbers around the bounds, or all codes; nothing is rounded."""
        if self.of_codes:
            return iter([every_code(self.size, self.size, self.dtype, self.prepare())])
        return of_comparisons(self.boundaries()[0], self.size, self.prepare())

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that float32 numbers are only compared."""
        if self.of_codes:
            return
        yield "Relu and Clip compare numbers and do nothing else with them: numbers around each bound were tried."


@dataclass(frozen=True, eq=False)
class Relu(Comparison):
    """y[n] = 0 if x[n] < 0, else x[n]; -0 and NaN stay."""

    ONNX = (("", "Relu"),)
    names = ("x",)
    text = Comparison.text.but("y[n] = 0 if x[n] < 0, else x[n], so that -0 stays -0", ("x",), (FRAGMENT, CODES))
    alternatives = {  # noqa: RUF012
        "negative numbers are kept": lambda x: x,
        "-0 becomes 0": lambda x: select(x <= 0, 0, x),
        "the absolute value is taken": abs,
        "positive numbers become 0": lambda x: select(x > 0, 0, x),
        "negative numbers become -0": lambda x: select(x < 0, -0.0, x),
    }

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return select(x < 0, 0, x)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node of float32 values, codes or other integers of any shape; ONNX has no Relu of uint8."""
        if reads_integers(node, WIDE_INTEGERS):
            return IntegerElements.read(node)
        node.require_inputs(1, 1)
        node.attributes({})
        source = node.activation(0, [FLOAT32, INT8])
        written = fields(node, [source], source.shape, source.dtype, source.bound, negative_zero=source.negative_zero)
        return cls(**written)
