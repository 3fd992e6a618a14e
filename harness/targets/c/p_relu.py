"""PRelu in C: one multiplication and one selection per value."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.p_relu import PRelu
from harness.targets.c import broadcast, code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class PReluLowering(CLowering[PRelu]):
    """Loops over the axes along which the slope is repeated."""

    operator = PRelu

    def plain(self, layer: PRelu, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the axes of the output."""
        slope = Table(f"{layer.name}_slope", layer.slope.reshape(-1))
        operands = list(zip(("in", slope.name), layer.shapes, strict=True))
        body = broadcast.loops(layer.output.shape, operands, _selected)
        return code.elementwise(layer, sources, (slope,), body)

    def unrolled(self, layer: PRelu, sources: Sequence[str]) -> LayerCode:
        """Write every selection, with the slopes as literals."""
        values = (_selected((f"in[{n}]", literal(slope))) for n, slope in enumerate(layer.slopes))
        return code.elementwise(layer, sources, (), code.assigned(values))


def _selected(operands: Sequence[str]) -> str:
    x, slope = operands
    return f"{x} < 0.0f ? {slope} * {x} : {x}"
