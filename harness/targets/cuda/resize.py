"""Resize in CUDA: copies, or linear interpolation with places and factors in tables."""

from __future__ import annotations

from typing import Any

from harness.operators.resize_linear import ResizeLinear
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class ResizeLinearLowering(VectorLowering[ResizeLinear]):
    """Six products and three sums per value."""

    operator = ResizeLinear

    def tables(self, layer: ResizeLinear) -> tuple[Table, ...]:
        """Return places and factors."""
        constants: Any = layer.constants()
        return tables_of(layer, constants)

    def value(self, layer: ResizeLinear) -> str:
        """Call kernels/cuda/floats.cuh."""
        sizes = ", ".join(map(str, (*layer.input.shape[1:], *layer.output.shape[1:])))
        tables = ", ".join(f"&{table.name}[0][0]" for table in self.tables(layer))
        return f"return resize_linear<{sizes}>(x_0, {tables}, n);"
