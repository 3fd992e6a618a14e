"""ReduceSum, ReduceMean, ReduceMax and ReduceMin in CUDA: loops over the reduced axes."""

from __future__ import annotations

import math

from harness.operators.reduce import Reduce
from harness.targets.cuda.broadcast import place
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

OPERATIONS = {"ReduceMax": "larger", "ReduceMin": "smaller", "ReduceSum": "add", "ReduceMean": "add"}


class ReduceLowering(VectorLowering[Reduce]):
    """One thread adds or compares the values of one output, row by row."""

    operator = Reduce

    def tables(self, layer: Reduce) -> tuple[Table, ...]:
        """Return the divisor of ReduceMean."""
        return tables_of(layer, layer.facts())

    def value(self, layer: Reduce) -> str:
        """Combine the values from the first on, or add them from 0 on."""
        shape = layer.input.shape
        steps = [(size, math.prod(shape[axis + 1 :])) for axis, size in enumerate(shape)]
        first = place([each for axis, each in enumerate(steps) if axis not in layer.axes])
        number = place([steps[axis] for axis in layer.axes], number="k")
        divided = [f"y = divide(y, {table.name}[0]);" for table in self.tables(layer)]
        return "\n".join(
            [
                *(["(void)n;"] if first == "0" else []),
                f"const unsigned first = {first};",
                f"float y = {'x_0[first]' if layer.chooses else '0.0f'};",
                f"for (unsigned k = 0; k < {layer.count}; ++k)",
                f"    y = {OPERATIONS[layer.operator]}(y, x_0[first + {number}]);",
                *divided,
                "return y;",
            ]
        )
