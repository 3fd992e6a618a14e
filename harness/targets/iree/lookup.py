"""Functions of one code in MLIR: a table of 256 codes."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.lookup import Lookup
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.lowering import IreeLowering


class LookupLowering(IreeLowering[Lookup]):
    """The table is that of the specification."""

    operator = Lookup

    def emit(self, layer: Lookup, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the accesses."""
        [x] = inputs
        table = function.constant("table", layer.table())
        return function.elementwise(layer.dtype, x.shape, [x], lambda block, code: block.entry(table, code, x.dtype))
