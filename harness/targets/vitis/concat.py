"""Concat of codes along the channels in the fabric."""

from __future__ import annotations

from collections.abc import Mapping

from harness.operators.concat import Concat
from harness.targets.vitis.circuit import Circuit, VitisLowering, channels_of
from harness.targets.vitis.image import ImageCircuit
from harness.targets.vitis.rename import CODES


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


class ConcatLowering(VitisLowering[Concat]):
    """Codes move, nothing is computed."""

    operator = Concat

    def circuit(self, layer: Concat, fold: int) -> Circuit[Concat]:
        """Return the layer."""
        return ConcatCircuit(layer, fold)

    def unsupported(self, layer: Concat, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse what is no code, and other axes than the first of a vector."""
        if layer.dtype not in CODES:
            return f"it moves {layer.dtype}, and streams in the fabric are of codes"
        return "it joins inputs along another axis than their channels" if layer.blocks > 1 else None
