"""Resize in C: copies, or linear interpolation with places and factors in tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.resize_linear import ResizeLinear
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class ResizeLinearLowering(CLowering[ResizeLinear]):
    """Six products and three sums per value."""

    operator = ResizeLinear
    headers = ("resize_linear.h",)

    def plain(self, layer: ResizeLinear, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/resize_linear.h."""
        tables = tuple(Table(f"{layer.name}_{role}", np.asarray(values)) for role, values in layer.constants().items())
        sizes = ", ".join(map(str, (*layer.input.shape, *layer.output.shape[1:])))
        names = ", ".join(f"{table.name}[0]" for table in tables)
        body = (
            f"const struct resizing sizes = {{{sizes}}};\n    {prefix}resize_linear_float32(&sizes, in, {names}, out);"
        )
        return code.elementwise(layer, sources, tables, body)

    def unrolled(self, layer: ResizeLinear, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the factors as literals."""
        _, height, width = layer.input.shape
        values = []
        for c, i, j in np.ndindex(*layer.output.shape):
            sides = []
            for row in layer.rows[:, i].tolist():
                at = [(c * height + row) * width + column for column in layer.columns[:, j].tolist()]
                factors = [literal(factor) for factor in layer.right[:, j]]
                sides.append(f"(in[{at[0]}] * {factors[0]} + in[{at[1]}] * {factors[1]})")
            values.append(f"{sides[0]} * {literal(layer.down[0, i])} + {sides[1]} * {literal(layer.down[1, i])}")
        return code.elementwise(layer, sources, (), code.assigned(values))
