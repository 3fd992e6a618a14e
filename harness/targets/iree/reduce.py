"""ReduceSum, ReduceMean, ReduceMax and ReduceMin in MLIR: one loop over the values of each output, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.reduce import Reduce
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, chosen, ends


class ReduceLowering(IreeLowering[Reduce]):
    """The reduced axes are the innermost loops, in their order."""

    operator = Reduce

    def emit(self, layer: Reduce, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops; a mean is the quotient of the sum."""
        [x] = inputs
        reduced = [axis + 1 for axis in layer.axes]
        kept = [axis for axis in range(len(x.shape)) if axis not in reduced]
        loops = {axis: f"d{n}" for n, axis in enumerate((*kept, *reduced))}
        largest = layer.operator == "ReduceMax"
        first = ends(x.dtype)[not largest] if layer.chooses else 0.0
        init = function.filled(first, tuple(x.shape[axis] for axis in kept), x.dtype)

        def body(block: Block, value: Scalar, found: Scalar) -> Scalar:
            if layer.chooses:
                return chosen(block, value, found, x.dtype, largest=largest)
            return block("arith.addf", found, value, name="sum")

        def mean(block: Block, total: Scalar) -> Scalar:
            return block.quotient(total, block.number(layer.count, name="count"), name="y")

        places = ", ".join(loops[axis] for axis in range(len(x.shape)))
        made = function.loops(init, [(x, places)], body, len(reduced))
        if layer.operator == "ReduceMean":
            made = function.elementwise(layer.dtype, made.shape, [made], mean, products=True)
        return function.reshape(made, (function.vectors, *layer.output.shape))
