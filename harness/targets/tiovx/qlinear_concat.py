"""QLinearConcat on a core: a table of 256 codes for each input."""

from __future__ import annotations

import numpy as np

from harness.operators.base import Layer
from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.generated import Table
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head

SOURCES = 4  # in protocol.h, too


def kernel_of(layer: Layer) -> str:
    """Return the kernel for the inputs of a layer, one after the other."""
    return f"KERNEL_CODES_{len(layer.inputs)}"


def too_many(layer: Layer) -> str | None:
    """Return why a layer has more inputs than a kernel has parameters for; or None."""
    count = len(layer.inputs)
    return f"{count} inputs, but its kernels have parameters for {SOURCES} at most" if count > SOURCES else None


class QLinearConcatLowering(TiovxLowering[QLinearConcat]):
    """One access per value (kernels/tiovx/target/codes.c)."""

    operator = QLinearConcat

    def kernel_of(self, layer: QLinearConcat) -> str:
        """Return the kernel for so many inputs."""
        return kernel_of(layer)

    def inexact(self, layer: QLinearConcat) -> str | None:
        """Refuse more inputs than a kernel has parameters for."""
        return too_many(layer)

    def constants(self, layer: QLinearConcat) -> Constants:
        """Return the tables."""
        origin = "outputs for all codes of each input, from the lowest on"
        return with_head(layer, {"CODES": Table(f"{layer.name}_codes", layer.table().view(np.uint8), origin)})
