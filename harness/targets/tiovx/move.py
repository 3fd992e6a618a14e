"""Operators that move codes, on a core (kernels/tiovx/target/codes.c): copies, or a table of each input."""

from __future__ import annotations

import numpy as np

from harness.operators.base import Layer
from harness.operators.concat import Concat
from harness.operators.move import Move
from harness.operators.qlinear_concat import QLinearConcat
from harness.operators.rename import Rename
from harness.operators.squeeze import Squeeze
from harness.operators.tensor import CODES
from harness.targets.generated import Table
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head

SOURCES = 4  # in protocol.h, too


class MoveLowering(TiovxLowering[Move]):
    """One copy per value, of the inputs one after the other."""

    operator = (Concat, Rename, Squeeze)

    def kernel_of(self, layer: Move) -> str:
        """Return the kernel for so many inputs."""
        return f"KERNEL_CODES_{len(layer.inputs)}"

    def inexact(self, layer: Move) -> str | None:
        """Refuse values that are no codes, other axes than the first, and more inputs than a kernel has."""
        if layer.dtype not in CODES:
            return f"its kernel copies uint8 or int8, not {layer.dtype}"
        if isinstance(layer, Concat) and layer.blocks > 1:
            return "its kernel joins inputs along the first axis only"
        return _too_many(layer)

    def constants(self, layer: Move) -> Constants:
        """Return no more than the sizes."""
        return with_head(layer, {})


class QLinearConcatLowering(TiovxLowering[QLinearConcat]):
    """One access per value."""

    operator = QLinearConcat

    def kernel_of(self, layer: QLinearConcat) -> str:
        """Return the kernel for so many inputs."""
        return f"KERNEL_CODES_{len(layer.inputs)}"

    def inexact(self, layer: QLinearConcat) -> str | None:
        """Refuse more inputs than a kernel has parameters for."""
        return _too_many(layer)

    def constants(self, layer: QLinearConcat) -> Constants:
        """Return the tables."""
        origin = "outputs for all codes of each input, from the lowest on"
        return with_head(layer, {"CODES": Table(f"{layer.name}_codes", layer.table().view(np.uint8), origin)})


def _too_many(layer: Layer) -> str | None:
    """Return why a layer has more inputs than a kernel has parameters for; or None."""
    count = len(layer.inputs)
    return f"{count} inputs, but its kernels have parameters for {SOURCES} at most" if count > SOURCES else None
