"""Reshape and Flatten in C: the values are copied, because every activation has a buffer of its own."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.rename import Rename
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode


class RenameLowering(CLowering[Rename]):
    """One copy per value, in all variants with loops."""

    operator = Rename

    def plain(self, layer: Rename, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the values."""
        return code.elementwise(layer, sources, (), code.loop(layer, "out[n] = in[n];"))

    def unrolled(self, layer: Rename, sources: Sequence[str]) -> LayerCode:
        """Write every copy."""
        return code.elementwise(layer, sources, (), code.assigned(f"in[{n}]" for n in range(layer.size)))
