"""LRN in MLIR: the sum of squares over neighbouring channels, then roots and a quotient."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.lrn import Lrn
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering


class LrnLowering(IreeLowering[Lrn]):
    """A channel that does not exist is 0, whose square changes no sum."""

    operator = Lrn

    def emit(self, layer: Lrn, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        [x] = inputs
        before = (layer.length - 1) // 2
        channels = function.pad(x, (0, before, 0, 0), (0, layer.length - 1 - before, 0, 0), 0)

        def add(block: Block, value: Scalar, _: Scalar, found: Scalar) -> Scalar:
            return block("arith.addf", found, block.product(value, value), name="sum")

        def finish(block: Block, value: Scalar, total: Scalar) -> Scalar:
            scaled = block.product(block.number(layer.factor, name="factor"), total)
            d = block("arith.addf", block.number(layer.bias, name="bias"), scaled, name="d")
            return block("arith.divf", value, _power(block, d, layer.quarters), name="y")

        init = function.filled(0, x.shape, x.dtype)
        sizes = function.empty((layer.length,), x.dtype)  # only a shape, that of the loop
        sums = function.loops(init, [(channels, "d0, d1 + d4, d2, d3"), (sizes, "d4")], add, 1, products=True)
        return function.elementwise(layer.dtype, x.shape, [x, sums], finish, products=True)


def _power(block: Block, d: Scalar, quarters: int) -> Scalar:
    """Add d^(quarters / 4)."""
    if quarters == 4:
        return d
    root = block("math.sqrt", d, name="root")
    if quarters == 2:
        return root
    fourth = block("math.sqrt", root, name="root")
    return fourth if quarters == 1 else block.product(root, fourth, name="power")
