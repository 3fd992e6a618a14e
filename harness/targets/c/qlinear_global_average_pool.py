"""QLinearGlobalAveragePool in C: a stage that accumulates and a stage that rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.contraction import stages
from harness.targets.generated import LayerCode, Table, literal


class QLinearGlobalAveragePoolLowering(CLowering[QLinearGlobalAveragePool]):
    """One multiplier serves all channels."""

    operator = QLinearGlobalAveragePool
    headers = ("qlinear_global_average_pool.h",)

    def plain(self, layer: QLinearGlobalAveragePool, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/qlinear_global_average_pool.h."""
        name, sizes = layer.name, f"{layer.size}, {layer.image}"
        sums = f"{prefix}qlinear_global_average_pool_sum_{layer.dtype}({sizes}, in, {name}_input_zero_point[0], out);"
        values = f"{layer.size}, in, {name}_multiplier[0], {name}_output_zero_point[0], out"
        finish = f"{prefix}qlinear_global_average_pool_finish_{layer.dtype}({values});"
        return code.two_stages(layer, sources, stages(layer), _tables(layer), sums, finish)

    def unrolled(self, layer: QLinearGlobalAveragePool, sources: Sequence[str]) -> LayerCode:
        """Write every term."""
        sums = (
            " + ".join(f"(in[{channel * layer.image + p}] - {layer.a_zero_point})" for p in range(layer.image))
            for channel in range(layer.size)
        )
        multiplier = literal(layer.multiplier[0])
        codes = (code.rounded(layer.dtype, f"(float)in[{n}] * {multiplier}") for n in range(layer.size))
        finish = f"{code.zero_point(str(layer.y_zero_point))}\n    {code.assigned(codes)}"
        return code.two_stages(layer, sources, stages(layer), (), code.assigned(sums), finish)


def _tables(layer: QLinearGlobalAveragePool) -> tuple[Table, ...]:
    origin = "float32 bits of x_scale / (y_scale * positions)"
    return (
        Table(f"{layer.name}_input_zero_point", np.array([layer.a_zero_point], np.int32)),
        Table(f"{layer.name}_multiplier", layer.multiplier[:1], origin),
        Table(f"{layer.name}_output_zero_point", np.array([layer.y_zero_point], np.int32)),
    )
