"""Operators that move codes in the fabric: another order of a vector, and inputs joined, with tables or without."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from harness.operators.concat import Concat
from harness.operators.move import Move
from harness.operators.qlinear_concat import QLinearConcat
from harness.operators.rename import Rename
from harness.operators.squeeze import Squeeze
from harness.operators.tensor import CODES
from harness.targets.generated import Table
from harness.targets.vitis import resources
from harness.targets.vitis.circuit import Circuit, VitisLowering, channels_of, table
from harness.targets.vitis.codes import LookUpCircuit
from harness.targets.vitis.image import CODE_BITS, ImageCircuit
from harness.targets.vitis.resources import Resources


class RenameCircuit(ImageCircuit[Rename]):
    """Process `reorder` (kernels/vitis/rename.hpp): all codes of a vector enter before the first leaves."""

    headers = ("image_layer.hpp", "rename.hpp")

    @property
    def sizes(self) -> Mapping[str, int]:
        """The channels before and after."""
        channels = {"CHANNELS": channels_of(self.layer.input), "CHANNELS_OUT": channels_of(self.layer.output)}
        return {**super().sizes, **channels}

    def process(self, number: int) -> str:
        """Return the call of `reorder`."""
        return f"reorder<{self.name}_layer>({self.codes(number)}, values_{number}, asked)"

    @property
    def compute_cycles(self) -> int:
        """A cycle for each code on its way in, and one on its way out."""
        return 2 * self.layer.size

    @property
    def memories(self) -> Resources:
        """The codes of a vector."""
        return Resources(0, 0, resources.block_rams(self.layer.size, CODE_BITS))


class ConcatCircuit(ImageCircuit[Concat]):
    """The channels of each input in sequence, position by position (kernels/vitis/look_up.hpp)."""

    headers = ("image_layer.hpp", "look_up.hpp")

    @property
    def sizes(self) -> Mapping[str, int]:
        """The channels of the output."""
        return {**super().sizes, "CHANNELS_OUT": channels_of(self.layer.output)}

    def process(self, number: int) -> str:
        """Return the call of `look_up_joined`."""
        return f"look_up_joined<{self.name}_layer>(values_{number}, asked, no_table(), {self.codes(number)})"

    @property
    def compute_cycles(self) -> int:
        """A cycle for each value."""
        return self.layer.size


class MoveLowering(VitisLowering[Move]):
    """Codes move, nothing is computed."""

    operator = (Concat, Rename, Squeeze)

    def circuit(self, layer: Move, fold: int) -> Circuit[Any]:
        """Return the layer."""
        return ConcatCircuit(layer, fold) if isinstance(layer, Concat) else RenameCircuit(layer, fold)  # type: ignore[arg-type]

    def unsupported(self, layer: Move, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse what is no code, and to join inputs along other axes than the first of a vector."""
        if layer.dtype not in CODES:
            return f"it moves {layer.dtype}, and streams in the fabric are of codes"
        is_inner = isinstance(layer, Concat) and layer.blocks > 1
        return "it joins inputs along another axis than their channels" if is_inner else None


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
