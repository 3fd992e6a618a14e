"""Functions of one code in C: a table of 256 codes, in all variants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.lookup import Lookup
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table


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
