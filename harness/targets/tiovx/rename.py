"""Reshape, Flatten and others that keep all codes, on a core: the values are copied."""

from __future__ import annotations

from harness.operators.rename import Rename
from harness.operators.tensor import CODES
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head


class RenameLowering(TiovxLowering[Rename]):
    """One copy per value (kernels/tiovx/target/codes.c)."""

    operator = Rename
    kernel = "KERNEL_CODES_1"

    def inexact(self, layer: Rename) -> str | None:
        """Refuse values that are no codes."""
        return None if layer.dtype in CODES else f"its kernel copies uint8 or int8, not {layer.dtype}"

    def constants(self, layer: Rename) -> Constants:
        """Return no more than the sizes."""
        return with_head(layer, {})
