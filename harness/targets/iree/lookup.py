"""Functions of one code in MLIR: a table of 256 codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from harness.operators.lookup import Lookup
from harness.targets.iree.function import Function, Value
from harness.targets.iree.lowering import IreeLowering

K = TypeVar("K", bound=Lookup)


class LookupLowering(IreeLowering[K]):
    """The table is that of the specification."""

    def emit(self, layer: K, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the accesses."""
        [x] = inputs
        table = function.constant("table", layer.table())
        return function.elementwise(layer.dtype, x.shape, [x], lambda block, code: block.entry(table, code, x.dtype))
