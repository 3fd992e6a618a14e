"""QLinearGlobalAveragePool in CUDA: sums of the values of a channel."""

from __future__ import annotations

from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets.cuda.code import c_type
from harness.targets.cuda.contraction import ContractionLowering, finish_four, one_output, zero_points
from harness.targets.generated import Table

ORIGIN = "float32 bits of x_scale / (y_scale * positions)"


class QLinearGlobalAveragePoolLowering(ContractionLowering[QLinearGlobalAveragePool]):
    """One multiplier serves all channels."""

    operator = QLinearGlobalAveragePool

    def tables(self, layer: QLinearGlobalAveragePool) -> tuple[Table, ...]:
        """Return multiplier and zero points."""
        multiplier = Table(f"{layer.name}_multiplier", layer.multiplier[:1], ORIGIN, computed=True)
        return (multiplier, *zero_points(layer, "input", "output"))

    def function(self, layer: QLinearGlobalAveragePool) -> str:
        """Accumulate and finish one channel."""
        return one_output(layer, f"sum_of_image<{layer.image}>(a, {layer.name}_input_zero_point[0], n)", scale="0")

    def fused_function(self, layer: QLinearGlobalAveragePool) -> str:
        """Accumulate and finish four channels."""
        m = f"{layer.name}_multiplier[0]"
        sums = f"sum_image<{c_type(layer.input.dtype)}, {layer.image}>(a, {layer.name}_input_zero_point[0], g)"
        head = f"ONE_CODE Accumulators<1, 1> {layer.name}_accumulate(const uint32_t *a, unsigned g, unsigned)"
        return f"{head}\n{{\n    return {sums};\n}}\n\n{finish_four(layer, f'make_float4({m}, {m}, {m}, {m})')}"
