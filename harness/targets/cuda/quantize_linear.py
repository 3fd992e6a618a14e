"""QuantizeLinear in CUDA."""

from __future__ import annotations

from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.cuda.code import CudaLowering, affine_tables, c_type, of_one_value
from harness.targets.generated import Table


class QuantizeLinearLowering(CudaLowering[QuantizeLinear]):
    """One value at a time."""

    operator = QuantizeLinear
    streams = True

    def tables(self, layer: QuantizeLinear) -> tuple[Table, ...]:
        """Return scale and zero point."""
        return affine_tables(layer)

    def function(self, layer: QuantizeLinear) -> str:
        """Quantise one value."""
        result = f"quantize<{c_type(layer.dtype)}>(x, {layer.name}_scale[0], {layer.name}_zero[0])"
        return of_one_value(layer, f"{c_type(layer.input.dtype)} x", result)
