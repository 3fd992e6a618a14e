"""QLinearAveragePool in C: one stage; each mean is a sum in float32, in the order of the window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class QLinearAveragePoolLowering(CLowering[QLinearAveragePool]):
    """Loops over channels, positions and the values of a window; no branch depends on data."""

    operator = QLinearAveragePool
    headers = ("qlinear_average_pool.h",)

    def plain(self, layer: QLinearAveragePool, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/qlinear_average_pool.h."""
        names = ("input_step", "input_zero_point", "output_step", "output_zero_point")
        numbers = ", ".join(f"{layer.name}_{name}[0]" for name in names)
        include = str(layer.count_include_pad).lower()
        operands = f"&window, {include}, {layer.input.shape[0]}, in, {numbers}, out"
        call = f"{prefix}qlinear_average_pool_{layer.dtype}({operands});"
        return code.elementwise(layer, sources, _tables(layer), f"{code.window(layer.window)}\n    {call}")

    def unrolled(self, layer: QLinearAveragePool, sources: Sequence[str]) -> LayerCode:
        """Write every operation."""
        windows = layer.window.sources(layer.input.shape[0]).reshape(layer.size, -1)
        counts = np.tile(layer.counts(), layer.input.shape[0])
        scale = literal(layer.x.scale)
        values = []
        for places, count in zip(windows.tolist(), counts.tolist(), strict=True):
            terms = (f"(float)(in[{at}] - {layer.x.zero_point}) * {scale}" for at in places if at >= 0)
            mean = f"({' + '.join(terms)}) / {count}.0f / {literal(layer.y.scale)} + {layer.y.zero_point}.0f"
            values.append(code.rounded(layer.dtype, mean))
        return code.elementwise(layer, sources, (), f"{code.zero_point('0')}\n    {code.assigned(values)}")


def _tables(layer: QLinearAveragePool) -> tuple[Table, ...]:
    return (
        Table(f"{layer.name}_input_step", np.atleast_1d(layer.x.scale), "x_scale"),
        Table(f"{layer.name}_input_zero_point", np.array([layer.x.zero_point], np.int32)),
        Table(f"{layer.name}_output_step", np.atleast_1d(layer.y.scale), "y_scale"),
        Table(f"{layer.name}_output_zero_point", np.array([layer.y.zero_point], np.int32)),
    )
