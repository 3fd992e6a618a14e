"""Steps of recurrences in C: the code of their cell, which reads what the execution before wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.operators.recurrent_steps import RecurrentSteps
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.c.delay import before, beginning
from harness.targets.c.staged import StagedLowering
from harness.targets.generated import LayerCode, Table, literal

CELL = StagedLowering()


class RecurrentStepsLowering(CLowering[RecurrentSteps]):
    """The code of the cell, which reads the copy that was written before, and writes the other."""

    operator = RecurrentSteps
    headers = StagedLowering.headers

    def unsupported(self, layer: RecurrentSteps, variant: str) -> str | None:
        """Return why the code of the cell is refused."""
        return CELL.unsupported(layer.cell, variant)

    def plain(self, layer: RecurrentSteps, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Return the loops of the cell."""
        return _steps(layer, sources, CELL.plain)

    def generic(self, layer: RecurrentSteps, sources: Sequence[str]) -> LayerCode:
        """Return calls of a function that layers share."""
        return _steps(layer, sources, CELL.generic)

    def unrolled(self, layer: RecurrentSteps, sources: Sequence[str]) -> LayerCode:
        """Write every operation and every first state."""
        literals = [literal(value) for value in layer.begun(1)[0]]
        return _steps(layer, sources, CELL.unrolled, code.assigned(literals))


def _steps(
    layer: RecurrentSteps, sources: Sequence[str], cell: Callable[..., LayerCode], assigned: str = ""
) -> LayerCode:
    """Return the code of the cell and of the first states, which are a table unless they are `assigned`."""
    [source], (states, steps, hidden) = sources, layer.output.shape
    first = Table(f"{layer.name}_first", layer.first.reshape(-1), "states with which streams begin")
    filled = (
        f"for (size_t s = 0; s < {states}u; ++s)\n"
        f"        for (size_t t = 0; t < {steps}u; ++t)\n"
        f"            for (size_t u = 0; u < {hidden}u; ++u)\n"
        f"                out[(s * {steps}u + t) * {hidden}u + u] = {first.name}[s * {hidden}u + u];"
    )
    computed = cell(layer.cell, [before(layer), source])
    return beginning(layer, source, computed, assigned or filled, () if assigned else (first,))
