"""Functions of codes in C: the statements of definitions, and tables of 256 codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from harness.operators.base import Layer
from harness.operators.code_pairs import CodePairs
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.lookup import Lookup
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.c.pointwise import FunctionLowering
from harness.targets.generated import LayerCode, Table


class CodesLowering(FunctionLowering):
    """The statements of a definition."""

    operator: ClassVar[type[Layer] | tuple[type[Layer], ...]] = (CodePairs, DequantizeLinear)
    headers: ClassVar[tuple[str, ...]] = ("fused.h",)


class QuantizeLinearLowering(CodesLowering):
    """The same; `vector` has the instructions of kernels/c/quantize_vector.h."""

    operator = QuantizeLinear
    headers = ()

    def vector(self, layer: QuantizeLinear, sources: Sequence[str]) -> LayerCode:  # type: ignore[override]
        """Call kernels/c/quantize_vector.h."""
        scale, zero_point = code.affine(layer)
        call = f"quantize_vector_{layer.dtype}({layer.size}, in, {scale.name}[0], {zero_point.name}[0], out);"
        return code.elementwise(layer, sources, (scale, zero_point), call)


class LookupLowering(CLowering[Lookup]):
    """One access per value; `vector` has the instructions of kernels/c/lookup_vector.h."""

    operator = Lookup

    headers = ("lookup.h", "lookup_vector.h")

    def plain(self, layer: Lookup, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/lookup.h."""
        return _calling(f"{prefix}lookup", layer, sources)

    def vector(self, layer: Lookup, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/lookup_vector.h."""
        return _calling("lookup_vector", layer, sources)

    def inlined(self, layer: Lookup, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        of_layer = _table(layer)
        return code.elementwise(layer, sources, (of_layer,), code.loop(layer, f"out[n] = {entry(of_layer, 'in[n]')};"))

    def unrolled(self, layer: Lookup, sources: Sequence[str]) -> LayerCode:
        """Write every access."""
        of_layer = _table(layer)
        values = (entry(of_layer, f"in[{n}]") for n in range(layer.size))
        return code.elementwise(layer, sources, (of_layer,), code.assigned(values))


def entry(table: Table, value: str) -> str:
    """Return the entry of a code."""
    return f"{table.name}[{value} - ({np.iinfo(table.values.dtype).min})]"


def _table(layer: Lookup) -> Table:
    return Table(f"{layer.name}_table", layer.table(), "outputs for all codes, from the lowest on")


def _calling(function: str, layer: Lookup, sources: Sequence[str]) -> LayerCode:
    of_layer = _table(layer)
    call = f"{function}_{layer.dtype}({layer.size}, in, {of_layer.name}, out);"
    return code.elementwise(layer, sources, (of_layer,), call)
