"""Poolings in the fabric: process `pool` behind a line buffer (kernels/vitis/pool.hpp)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, TypeVar

from harness.operators.windowed import Windowed
from harness.targets.vitis import image, resources, rtl
from harness.targets.vitis.image import ImageCircuit
from harness.targets.vitis.resources import Resources

W = TypeVar("W", bound=Windowed)


class PoolCircuit(ImageCircuit[W]):
    """One value of a window at a time, all channels of a position in sequence.

    `definitions` are constants `<name>_pooling` and `<name>_rounding`.
    """

    headers: ClassVar[tuple[str, ...]] = ("image_layer.hpp", "window.hpp", "pool.hpp")
    total_cycles: ClassVar[int] = 1
    """The cycles from a total to the total with one more value."""

    @property
    @abstractmethod
    def total_bits(self) -> int:
        """The bits of a total."""

    @property
    def channels(self) -> int:
        """The totals that are added to in sequence."""
        return self.layer.input.shape[0]

    @property
    def interval(self) -> int:
        """The cycles from a value to the next: the total of its channel must be there."""
        return -(-self.total_cycles // self.channels)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The window, and the interval."""
        return {**super().sizes, **rtl.window_sizes(self.layer.window, self.channels), "INTERVAL": self.interval}

    def process(self, number: int) -> str:
        """Return the call of `pool`."""
        constants = f"{self.name}_pooling, {self.name}_rounding"
        return f"pool<{self.name}_layer>({self.codes(number)}, values_{number}, asked, {constants})"

    @property
    def compute_cycles(self) -> int:
        """A cycle for each code that enters the line buffer, and an interval for each value of each window."""
        return self.layer.input.size + self.layer.size * self.layer.window.size * self.interval

    @property
    def memories(self) -> Resources:
        """The line buffer, and the totals in LUTs."""
        totals = Resources(resources.luts(self.channels, self.total_bits), 0, 0)
        return image.line_buffer(self.layer.window, self.channels, at_once=1) + totals
