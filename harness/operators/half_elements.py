"""Add, Sub, Mul, Div, Neg and Abs (ONNX) of float16, with broadcasting.

y[n] = float16(value(float32(a[n]), float32(b[n])))

A sum, a difference, a product or a quotient of float16 numbers that is rounded to float32, then to float16, is the one
that is rounded once: 24 bits are more than twice 11, and one (Figueroa, When is double rounding innocuous?, 1995).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability
from harness.operators.cast import special_values
from harness.operators.exact import formats, mutations, printing
from harness.operators.exact.expression import Expression, argument, ordered, substituted
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors
from harness.operators.fold import Listed, fragments, names_of
from harness.operators.integer_elements import IntegerElements, Options
from harness.operators.integer_samples import of_values
from harness.operators.obligations import Extent, Obligation
from harness.operators.tensor import FLOAT16

OPERANDS = {"Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Neg": 1, "Abs": 1}
"""The operators, and the numbers of their operands."""
FIRST_ORDER = 240
TEXTS = {
    name: fragments(f"{name.lower()}_of_float16", FIRST_ORDER + number, f"ONNX {name} of float16, rounded once.")
    for number, name in enumerate(OPERANDS)
}


@functools.cache
def definition_of(operator: str) -> Expression:
    """Return the definition of an operator of float32 numbers."""
    from harness.operators import by_onnx_name

    kind: Any = by_onnx_name()["", operator]
    return cast("Expression", kind.value(*(argument(name) for name in names_of(OPERANDS[operator]))))


@functools.lru_cache(maxsize=256)
def of_halves(root: Expression) -> Expression:
    """Return a definition of float32 numbers for float16 numbers, rounded to float16."""
    arguments = [place for place in ordered(root) if place.operation == "argument"]
    values = {id(place): formats.to_single(argument(place.name, FLOAT16)) for place in arguments}
    return formats.of_single(substituted(root, values), FLOAT16)


@dataclass(frozen=True, eq=False)
class HalfElements(IntegerElements):
    """The value of an operator's definition for the float16 numbers at each place; every NaN is the same one."""

    ONNX = ()
    text = Listed.text.but(
        lambda operator: f"y = float16({printing.inline(definition_of(operator))}), of float16",
        (),
        tuple(fragment for pair in TEXTS.values() for fragment in pair),
        chosen=lambda layer: 2 * [*TEXTS].index(layer.operator) + any(term is not None for term in layer.terms),
        summary_of=lambda layer: tuple(f"{term.size} float16" for term in layer.terms if term is not None),
    )
    errors = Ability[Errors](lambda layer: Errors(layer, specified=layer.specified))
    types: ClassVar[Sequence[np.dtype[Any]]] = (FLOAT16,)
    takes_infinities = True

    @classmethod
    def read(cls, node: Any) -> Self:
        """Read a node of operands whose shapes fit, one of them an activation."""
        if node.operator not in OPERANDS:
            raise node.refusal("reads float16", f"{', '.join(OPERANDS)} of float16, or a Cast to float32 before it")
        return super().read(node)

    @classmethod
    def options_of(cls, node: Any) -> Options:
        """Return none; refuse attributes."""
        node.attributes({})
        return ()

    @property
    def stated(self) -> Expression:
        """The definition."""
        return self.definition

    @property
    def definition(self) -> Expression:
        """The definition for float16 numbers."""
        return of_halves(definition_of(self.operator))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - of floats
        """Yield special values and random bits."""
        yield of_values(self, "results are rounded to float16 once", special_values(FLOAT16, FLOAT16))

    def assumptions(self) -> Iterator[str]:
        """Yield that the values are samples."""
        yield f"{self.operator} of float16 is rounded as IEEE 754 requires: random and special values were tried."

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the mutants of the definition, wrong constants, and results rounded toward zero."""
        arguments, root = self.arguments(inputs), definition_of(self.operator)
        right = f"y = {printing.inline(root)}, rounded to float16"
        for cause, wrong in mutations.mutants(root):
            if "multiplied by 1 /" in cause or (self.operator == "Abs" and cause.startswith("the sign")):
                continue  # it changes nothing in float16
            yield FaultModel(cause, right, self._computed(of_halves(wrong), arguments))
        for cause, constants in self._wrong_constants():
            yield FaultModel(cause, right, self._computed(self.definition, {**arguments, **constants}))
        if len(self.terms) > 1:
            single = {name: values.astype(np.float32) for name, values in arguments.items()}
            exact, y = self._computed(root, single), self._computed(self.definition, arguments)
            is_beyond = np.abs(y.astype(np.float32)) > np.abs(exact)
            shorter = np.where(is_beyond, np.nextafter(y, np.float16(0)), y)
            yield FaultModel("the result is rounded toward zero", "half to even", shorter)
