"""QLinearConcat in the fabric: a table of 256 codes for each input."""

from __future__ import annotations

from functools import cached_property

from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.generated import Table
from harness.targets.vitis.circuit import Circuit, VitisLowering, table
from harness.targets.vitis.look_up import LookUpCircuit


class QLinearConcatCircuit(LookUpCircuit[QLinearConcat]):
    """The channels of each input in sequence, position by position."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The codes of each input, (inputs, 256)."""
        return (table(self.layer, "codes", self.layer.table(), "of each input the outputs for all codes"),)

    def process(self, number: int) -> str:
        """Return the call of `look_up_joined`."""
        return f"look_up_joined<{self.name}_layer>(values_{number}, asked, {self.name}_codes, {self.codes(number)})"


class QLinearConcatLowering(VitisLowering[QLinearConcat]):
    """The rounding is that of the specification, for all codes."""

    operator = QLinearConcat

    def circuit(self, layer: QLinearConcat, fold: int) -> Circuit[QLinearConcat]:
        """Return the layer with its tables."""
        return QLinearConcatCircuit(layer, fold)
