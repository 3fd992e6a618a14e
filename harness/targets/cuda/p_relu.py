"""PRelu in CUDA."""

from __future__ import annotations

from harness.operators.p_relu import PRelu
from harness.targets.cuda import broadcast
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class PReluLowering(VectorLowering[PRelu]):
    """One multiplication and one selection per value; the slope is repeated along axes."""

    operator = PRelu

    def tables(self, layer: PRelu) -> tuple[Table, ...]:
        """Return the slope."""
        return tables_of(layer, {"slope": layer.slope.reshape(-1)})

    def value(self, layer: PRelu) -> str:
        """Call the function of LeakyRelu."""
        operands = broadcast.values(layer.output.shape, ["x_0", f"{layer.name}_slope"], layer.shapes)
        return f"return leaky_relu({', '.join(operands)});"
