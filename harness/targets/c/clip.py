"""Clip in C: two selections per value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.base import limits
from harness.operators.clip import Clip
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class ClipLowering(CLowering[Clip]):
    """One value at a time."""

    operator = Clip
    headers = ("clip.h",)

    def plain(self, layer: Clip, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/clip.h."""
        low, high = _bounds(layer)
        call = f"{prefix}clip_{layer.dtype}({layer.size}, in, {low.name}[0], {high.name}[0], out);"
        return code.elementwise(layer, sources, (low, high), call)

    def inlined(self, layer: Clip, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        low, high = _bounds(layer)
        return code.elementwise(layer, sources, (low, high), code.loop(layer, _clipped("n", low.name, high.name)))

    def unrolled(self, layer: Clip, sources: Sequence[str]) -> LayerCode:
        """Write every selection, with the bounds as literals."""
        low, high = literal(layer.low), literal(layer.high)
        values = [f"in[{n}]" for n in range(layer.size)]
        codes = limits(layer.dtype) if layer.of_codes else {}  # compilers warn of comparisons that are never true
        if layer.low != codes.get("low"):
            values = [f"({value} < {low} ? {low} : {value})" for value in values]
        if layer.high != codes.get("high"):
            values = [f"{value} > {high} ? {high} : {value}" for value in values]
        return code.elementwise(layer, sources, (), code.assigned(values))


def _bounds(layer: Clip) -> tuple[Table, Table]:
    low, high = np.atleast_1d(layer.low), np.atleast_1d(layer.high)
    return Table(f"{layer.name}_low", low), Table(f"{layer.name}_high", high)


def _clipped(n: str, low: str, high: str) -> str:
    raised = f"(in[{n}] < {low}[0] ? {low}[0] : in[{n}])"
    return f"out[{n}] = {raised} > {high}[0] ? {high}[0] : {raised};"
