"""MaxPool of codes in the fabric: process `max_pool` behind a line buffer (kernels/vitis/window.hpp)."""

from __future__ import annotations

from collections.abc import Mapping

from harness.operators.max_pool import MaxPool
from harness.targets.vitis import image, rtl
from harness.targets.vitis.circuit import Circuit, VitisLowering
from harness.targets.vitis.image import ImageCircuit
from harness.targets.vitis.resources import Resources


class MaxPoolCircuit(ImageCircuit[MaxPool]):
    """One value of a window a cycle, channel by channel."""

    headers = ("image_layer.hpp", "window.hpp")

    @property
    def sizes(self) -> Mapping[str, int]:
        """The window."""
        return {**super().sizes, **rtl.window_sizes(self.layer.window, self.layer.input.shape[0])}

    def process(self, number: int) -> str:
        """Return the call of `max_pool`."""
        return f"max_pool<{self.name}_layer>({self.codes(number)}, values_{number}, asked)"

    @property
    def compute_cycles(self) -> int:
        """A cycle for each code that enters the line buffer, and for each value of each window."""
        return self.layer.input.size + self.layer.size * self.layer.window.size

    @property
    def memories(self) -> Resources:
        """The line buffer."""
        return image.line_buffer(self.layer.window, self.layer.input.shape[0], at_once=1)


class MaxPoolLowering(VitisLowering[MaxPool]):
    """Comparisons of integers."""

    operator = MaxPool

    def circuit(self, layer: MaxPool, fold: int) -> Circuit[MaxPool]:
        """Return the layer behind a line buffer."""
        return MaxPoolCircuit(layer, fold)

    def unsupported(self, layer: MaxPool, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse float32."""
        return None if layer.of_codes else "it reads float32, and kernels in the fabric compare codes only"
