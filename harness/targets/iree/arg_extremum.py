"""ArgMax and ArgMin in MLIR: one loop that keeps the extreme value and its place."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.arg_extremum import ArgExtremum
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, chosen, ends


class ArgExtremumLowering(IreeLowering[ArgExtremum]):
    """Two loops: the extreme value, then the first or the last place that has it; both in any order."""

    operator = ArgExtremum

    def emit(self, layer: ArgExtremum, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs
        worst = ends(x.dtype)[not layer.largest]

        def extreme(block: Block, value: Scalar, best: Scalar) -> Scalar:
            return chosen(block, value, best, x.dtype, largest=layer.largest)

        def place(block: Block, value: Scalar, best: Scalar, found: Scalar) -> Scalar:
            column = block("arith.index_cast", block.index(1), to="i64", name="column")
            nearer = block("arith.maxsi" if layer.last else "arith.minsi", column, found)
            return block.select(block.compare("oeq" if value.type == "f32" else "eq", value, best), nearer, found)

        best = function.loops(function.filled(worst, (function.vectors,), x.dtype), [(x, "d0, d1")], extreme, 1)
        none = -1 if layer.last else x.shape[1]
        found = function.filled(none, (function.vectors,), layer.dtype)
        found = function.loops(found, [(x, "d0, d1"), (best, "d0")], place, 1)
        return function.reshape(found, (function.vectors, *layer.output.shape))
