"""Reshape, Flatten and others in CUDA: the values are copied, because every activation has a buffer of its own."""

from __future__ import annotations

from harness.operators.rename import Rename
from harness.targets.cuda.code import VectorLowering


class RenameLowering(VectorLowering[Rename]):
    """One copy per value."""

    operator = Rename

    def value(self, layer: Rename) -> str:  # noqa: ARG002 - the same for all layers
        """Copy the value."""
        return "return x_0[n];"
