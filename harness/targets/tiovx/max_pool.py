"""MaxPool of codes on a core."""

from __future__ import annotations

from harness.operators.max_pool import MaxPool
from harness.targets.tiovx import windows
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head


class MaxPoolLowering(TiovxLowering[MaxPool]):
    """Compare codes as uint8; outside the image is the lowest."""

    operator = MaxPool
    kernel = "KERNEL_MAX_POOL"

    def inexact(self, layer: MaxPool) -> str | None:
        """Refuse float32 values."""
        return None if layer.of_codes else "its kernel compares uint8 or int8, not float32"

    def constants(self, layer: MaxPool) -> Constants:
        """Return the windows."""
        return with_head(
            layer, {"WINDOW": windows.part(layer.name, layer.window, outside=0, groups=layer.input.shape[0])}
        )
