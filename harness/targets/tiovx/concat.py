"""Concat of codes along the first axis of a vector, on a core: the values are copied."""

from __future__ import annotations

from harness.operators.concat import Concat
from harness.operators.tensor import CODES
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head
from harness.targets.tiovx.qlinear_concat import kernel_of, too_many


class ConcatLowering(TiovxLowering[Concat]):
    """One copy per value (kernels/tiovx/target/codes.c)."""

    operator = Concat

    def kernel_of(self, layer: Concat) -> str:
        """Return the kernel for so many inputs."""
        return kernel_of(layer)

    def inexact(self, layer: Concat) -> str | None:
        """Refuse values that are no codes, other axes than the first, and more inputs than a kernel has."""
        if layer.dtype not in CODES:
            return f"its kernel copies uint8 or int8, not {layer.dtype}"
        return "its kernel joins inputs along the first axis only" if layer.blocks > 1 else too_many(layer)

    def constants(self, layer: Concat) -> Constants:
        """Return no more than the sizes."""
        return with_head(layer, {})
