"""QuantizeLinear in C: one division and one rounding per value."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, literal


class QuantizeLinearLowering(CLowering[QuantizeLinear]):
    """One value at a time; `vector` has the instructions of kernels/c/quantize_vector.h."""

    operator = QuantizeLinear

    def plain(self, layer: QuantizeLinear, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/quantize_linear.h."""
        return _calling(f"{prefix}quantize_linear", layer, sources)

    def vector(self, layer: QuantizeLinear, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/quantize_vector.h."""
        return _calling("quantize_vector", layer, sources)

    def inlined(self, layer: QuantizeLinear, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        scale, zero_point = code.affine(layer)
        loop = code.loop(layer, f"out[n] = {code.rounded(layer.dtype, 'in[n] / scale')};")
        lines = (code.not_known("float", "scale", f"{scale.name}[0]"), code.zero_point(f"{zero_point.name}[0]"), loop)
        return code.elementwise(layer, sources, (scale, zero_point), "\n    ".join(lines))

    def unrolled(self, layer: QuantizeLinear, sources: Sequence[str]) -> LayerCode:
        """Write every rounding."""
        values = code.assigned(code.rounded(layer.dtype, f"in[{n}] / scale") for n in range(layer.size))
        scale = code.not_known("float", "scale", literal(layer.scale))
        zero_point = code.zero_point(str(layer.zero_point))
        return code.elementwise(layer, sources, (), f"{scale}\n    {zero_point}\n    {values}")


def _calling(function: str, layer: QuantizeLinear, sources: Sequence[str]) -> LayerCode:
    scale, zero_point = code.affine(layer)
    call = f"{function}_{layer.dtype}({layer.size}, in, {scale.name}[0], {zero_point.name}[0], out);"
    return code.elementwise(layer, sources, (scale, zero_point), call)
