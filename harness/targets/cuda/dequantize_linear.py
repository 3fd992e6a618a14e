"""DequantizeLinear in CUDA."""

from __future__ import annotations

from harness.operators.dequantize_linear import DequantizeLinear
from harness.targets.cuda.code import CudaLowering, affine_tables, c_type, of_one_value
from harness.targets.generated import Table


class DequantizeLinearLowering(CudaLowering[DequantizeLinear]):
    """One value at a time."""

    operator = DequantizeLinear

    def tables(self, layer: DequantizeLinear) -> tuple[Table, ...]:
        """Return scale and zero point."""
        return affine_tables(layer)

    def function(self, layer: DequantizeLinear) -> str:
        """Dequantise one value."""
        result = f"dequantize(x, {layer.name}_scale[0], {layer.name}_zero[0])"
        return of_one_value(layer, f"{c_type(layer.input.dtype)} x", result)
