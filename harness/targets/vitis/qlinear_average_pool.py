"""QLinearAveragePool in the fabric: float32 sums by integers, then thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from harness.core.arrays import Array
from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.targets.generated import Table, initialiser
from harness.targets.vitis import contraction, resources
from harness.targets.vitis.circuit import Circuit, VitisLowering, bind, table
from harness.targets.vitis.pool import PoolCircuit
from harness.targets.vitis.resources import Resources
from harness.targets.vitis.rtl import REQUANTIZE_CYCLES

TERM_DIGITS = 32  # of 255 times a number of 24 digits


class QLinearAveragePoolCircuit(PoolCircuit[QLinearAveragePool]):
    """Multiples of a unit, each sum rounded to 24 digits (kernels/vitis/qlinear_average_pool.hpp)."""

    headers = (*PoolCircuit.headers, "qlinear_average_pool.hpp", "rounded_sum.h", "scaled.h", "thresholds.h")
    total_cycles = 8

    @property
    def total_bits(self) -> int:
        """Those of as many terms as a window has values, and a sign."""
        return TERM_DIGITS + self.layer.window.size.bit_length() + 1

    @cached_property
    def own(self) -> tuple[Table, Table, Table]:
        """Terms of all codes by their bits, int32 (256, 2), of which the first is the lower half; rows; exponent."""
        layer, (terms, exponent) = self.layer, self.layer.terms()
        by_bits = np.roll(terms, np.iinfo(layer.dtype).min)
        _, rows = np.unique(layer.counts(), return_inverse=True)
        origin = f"float32((x - {layer.x.zero_point}) * {layer.x.scale!s}) of all codes in units of 2^{exponent}"
        return (
            table(layer, "terms", by_bits.view(np.int32).reshape(-1, 2), f"{origin}, lower half first"),
            table(layer, "rows", rows, "of the thresholds, by position"),
            table(layer, "exponent", np.array([exponent])),
        )

    @cached_property
    def rounding(self) -> tuple[Table, ...]:
        """Levels for each number of values of a window, and the lowest code."""
        return contraction.rounding(self.layer, QLinearAveragePool.thresholds)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All constants."""
        return (*self.own, *self.rounding)

    def replaced(self) -> Array | None:
        """Return the thresholds."""
        return self.layer.thresholds()

    @property
    def definitions(self) -> str:
        """The structs `mean` and `thresholds`."""
        terms, rows, exponent = (each.values for each in self.own)
        whole = initialiser(terms.view(np.int64)[:, 0])
        values = f"{{{whole}, {initialiser(rows)}, {exponent[0]}}}"
        means = f"static const mean<{len(rows)}> {self.name}_pooling = {values};"
        return f"{means}\n{contraction.definition(self.layer, self.rounding)}"

    @property
    def storage(self) -> Sequence[str]:
        """The pragmas of terms, rows and levels."""
        memories = {name: resources.weights_in_bram(len(each.values)) for name, each in self._memories.items()}
        return [
            *(bind(f"{self.name}_pooling.{name}", in_bram=in_bram) for name, in_bram in memories.items()),
            *contraction.storage(self.layer, self.rounding),
        ]

    @property
    def memories(self) -> Resources:
        """Line buffer and totals, terms, rows and levels."""
        own = (each.values.reshape(len(each.values), -1) for each in self._memories.values())
        held = [resources.memory(each, in_bram=resources.weights_in_bram(len(each))) for each in own]
        return resources.total([super().memories, *held, contraction.area(self.layer, QLinearAveragePool.thresholds)])

    @property
    def _memories(self) -> dict[str, Table]:
        return dict(zip(("terms", "rows"), self.own, strict=False))

    @property
    def pipeline(self) -> int:
        """The cycles from the last value of a window to its code."""
        return self.total_cycles + REQUANTIZE_CYCLES


class QLinearAveragePoolLowering(VitisLowering[QLinearAveragePool]):
    """Rounded sums of integers."""

    operator = QLinearAveragePool

    def circuit(self, layer: QLinearAveragePool, fold: int) -> Circuit[QLinearAveragePool]:
        """Return the layer behind a line buffer."""
        return QLinearAveragePoolCircuit(layer, fold)
