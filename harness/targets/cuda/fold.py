"""Operators of any number of operands in CUDA: Sum, Mean, Max and Min."""

from __future__ import annotations

from functools import reduce

from harness.operators.extremum import Extremum
from harness.operators.fold import Fold
from harness.operators.sum import Mean, Sum
from harness.targets.cuda import broadcast
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table, literal

FUNCTIONS = {"Max": "larger", "Min": "smaller", "Sum": "add", "Mean": "add"}


class FoldLowering(VectorLowering[Fold]):
    """The operands are combined from left to right by a device function of two values."""

    operator = (Extremum, Sum, Mean)

    def tables(self, layer: Fold) -> tuple[Table, ...]:
        """Return the constant operands, one after the other, if there are any."""
        return tables_of(layer, layer.facts())

    def value(self, layer: Fold) -> str:
        """Combine a value of each operand."""
        function, arrays, inputs, begin = FUNCTIONS[layer.operator], [], 0, 0
        for term in layer.terms:
            arrays.append(f"x_{inputs}" if term is None else f"({layer.name}_terms + {begin})")
            inputs, begin = (inputs + 1, begin) if term is None else (inputs, begin + term.size)
        values = broadcast.values(layer.output.shape, arrays, layer.shapes)
        result = reduce(lambda first, second: f"{function}({first}, {second})", values)
        return f"return divide({result}, {literal(layer.divisor)});" if isinstance(layer, Mean) else f"return {result};"
