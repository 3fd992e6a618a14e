"""QLinearGlobalAveragePool on a core: sums in int32, then thresholds."""

from __future__ import annotations

from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets import contraction
from harness.targets.generated import Stage, Table
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head
from harness.targets.tiovx.qgemm import offset


class QLinearGlobalAveragePoolLowering(TiovxLowering[QLinearGlobalAveragePool]):
    """Add the codes of each channel; one row of thresholds serves all channels, whose bounds are the same."""

    operator = QLinearGlobalAveragePool
    kernel = "KERNEL_QLINEAR_GLOBAL_AVERAGE_POOL"

    def inexact(self, layer: QLinearGlobalAveragePool) -> str | None:
        """Refuse accumulators that reach the largest int32."""
        return contraction.reaches_sentinel(layer)

    def stages(self, layer: QLinearGlobalAveragePool) -> tuple[Stage, ...]:
        """Return the stages from quantised values to sums, and from sums to the output."""
        return contraction.stages(layer)

    def constants(self, layer: QLinearGlobalAveragePool) -> Constants:
        """Return offsets and thresholds."""
        origin = "the least sums that become each code above the lowest"
        parts = {
            "OFFSET": Table(f"{layer.name}_offset", offset(layer), "-zx * P"),
            "TABLE": Table(f"{layer.name}_thresholds", layer.thresholds()[:1], origin),
        }
        return with_head(layer, parts)
