"""Reshape, Flatten and others of codes in the fabric: process `reorder` (kernels/vitis/rename.hpp)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.operators.rename import Rename
from harness.targets.vitis import resources
from harness.targets.vitis.circuit import Circuit, VitisLowering, channels_of
from harness.targets.vitis.image import CODE_BITS, ImageCircuit
from harness.targets.vitis.resources import Resources

CODES = (np.dtype(np.uint8), np.dtype(np.int8))


class RenameCircuit(ImageCircuit[Rename]):
    """All codes of a vector enter before the first leaves."""

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


class RenameLowering(VitisLowering[Rename]):
    """Codes move, nothing is computed."""

    operator = Rename

    def circuit(self, layer: Rename, fold: int) -> Circuit[Rename]:
        """Return the layer."""
        return RenameCircuit(layer, fold)

    def unsupported(self, layer: Rename, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse what is no code."""
        return None if layer.dtype in CODES else f"it moves {layer.dtype}, and streams in the fabric are of codes"
