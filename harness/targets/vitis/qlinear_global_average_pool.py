"""QLinearGlobalAveragePool in the fabric: sums of channels, rounded by thresholds."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets.contraction import reaches_sentinel
from harness.targets.generated import Table
from harness.targets.vitis.circuit import Circuit, VitisLowering, table
from harness.targets.vitis.image import SumsCircuit


class QLinearGlobalAveragePoolCircuit(SumsCircuit[QLinearGlobalAveragePool]):
    """One code a cycle, added to the sum of its channel (kernels/vitis/qlinear_global_average_pool.hpp)."""

    headers = ("image_layer.hpp", "qlinear_global_average_pool.hpp")

    def __init__(self, layer: QLinearGlobalAveragePool, fold: int) -> None:
        super().__init__(layer, fold)
        self.part = layer.size

    @property
    def lanes(self) -> int:
        """The channels."""
        return self.layer.size

    @cached_property
    def sums(self) -> tuple[Table, ...]:
        """The input zero point."""
        return (table(self.layer, "input_zero_point", np.array([self.layer.a_zero_point])),)

    def process(self, number: int) -> str:
        """Return the call of `sum_channels`."""
        streams = f"{self.codes(number)}, told_{number}, rows_{number}"
        return f"sum_channels<{self.name}_layer>({streams}, asked, {self.layer.a_zero_point})"

    @property
    def compute_cycles(self) -> int:
        """A cycle for each code."""
        return self.layer.input.size


class QLinearGlobalAveragePoolLowering(VitisLowering[QLinearGlobalAveragePool]):
    """Sums of integers."""

    operator = QLinearGlobalAveragePool

    def circuit(self, layer: QLinearGlobalAveragePool, fold: int) -> Circuit[QLinearGlobalAveragePool]:
        """Return the layer."""
        return QLinearGlobalAveragePoolCircuit(layer, fold)

    def unsupported(self, layer: QLinearGlobalAveragePool, variant: str) -> str | None:  # noqa: ARG002 - as others
        """Refuse accumulators that reach the largest int32."""
        return reaches_sentinel(layer)
