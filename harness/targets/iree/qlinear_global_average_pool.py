"""QLinearGlobalAveragePool in MLIR: the int32 sum of each channel, then one rounding."""

from __future__ import annotations

from typing import ClassVar

from harness.operators.base import Layer
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.contraction import ContractionLowering
from harness.targets.iree.lowering import centred


class QLinearGlobalAveragePoolLowering(ContractionLowering[QLinearGlobalAveragePool]):
    """The weights are 1."""

    operator: ClassVar[type[Layer]] = QLinearGlobalAveragePool

    def sums(self, layer: QLinearGlobalAveragePool, function: Function, x: Value, bias: Value) -> Value:
        """Add the loop."""
        channels = len(layer.bias)
        values = function.reshape(x, (function.vectors, channels, x.size // (function.vectors * channels)))

        def body(block: Block, code: Scalar, acc: Scalar) -> Scalar:
            return block("arith.addi", acc, centred(block, code, x.dtype, layer.a_zero_point), name="sum")

        init = function.repeated(bias, "d1", values.shape[:2])
        return function.loops(init, [(values, "d0, d1, d2")], body, 1)
