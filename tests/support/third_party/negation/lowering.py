"""Neg in C, in every variant of the target."""

from __future__ import annotations

from collections.abc import Sequence

from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode
from negation.neg import Neg


class NegLowering(CLowering[Neg]):
    """One change of sign per value."""

    operator = Neg

    def plain(self, layer: Neg, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the values."""
        return code.elementwise(layer, sources, (), code.loop(layer, "out[n] = -in[n];"))
