"""QLinearConv in the fabric, grouped and depthwise ones too: process `convolve` (kernels/vitis/window.hpp)."""

from __future__ import annotations

from harness.operators.qlinear_conv import QLinearConv
from harness.targets.contraction import reaches_sentinel
from harness.targets.vitis.circuit import Circuit, VitisLowering
from harness.targets.vitis.windowed import WindowedCircuit


class QLinearConvLowering(VitisLowering[QLinearConv]):
    """Products are of codes and weights less their zero points: no partial sum leaves int32."""

    operator = QLinearConv

    def circuit(self, layer: QLinearConv, fold: int) -> Circuit[QLinearConv]:
        """Return the layer behind a line buffer."""
        return WindowedCircuit(layer, fold, layer.window, layer.groups, layer.input.shape[0])

    def unsupported(self, layer: QLinearConv, variant: str) -> str | None:  # noqa: ARG002 - all refuse the same
        """Refuse accumulators that reach the largest int32."""
        return reaches_sentinel(layer)
