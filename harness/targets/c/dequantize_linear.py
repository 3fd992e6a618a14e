"""DequantizeLinear in C: one multiplication per value."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.dequantize_linear import DequantizeLinear
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, literal


class DequantizeLinearLowering(CLowering[DequantizeLinear]):
    """One value at a time."""

    operator = DequantizeLinear

    def plain(self, layer: DequantizeLinear, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/dequantize_linear.h."""
        scale, zero_point = code.affine(layer)
        arguments = f"{layer.size}, in, {scale.name}[0], {zero_point.name}[0], out"
        call = f"{prefix}dequantize_linear_{layer.input.dtype}({arguments});"
        return code.elementwise(layer, sources, (scale, zero_point), call)

    def inlined(self, layer: DequantizeLinear, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        scale, zero_point = code.affine(layer)
        product = f"(float)(in[n] - {zero_point.name}[0]) * {scale.name}[0]"
        return code.elementwise(layer, sources, (scale, zero_point), code.loop(layer, f"out[n] = {product};"))

    def unrolled(self, layer: DequantizeLinear, sources: Sequence[str]) -> LayerCode:
        """Write every multiplication."""
        scale = literal(layer.scale)
        products = (f"(float)(in[{n}] - {layer.zero_point}) * {scale}" for n in range(layer.size))
        return code.elementwise(layer, sources, (), code.assigned(products))
