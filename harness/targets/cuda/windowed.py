"""Operators over windows in CUDA that have functions of their own: ConvTranspose and QLinearAveragePool."""

from __future__ import annotations

import numpy as np

from harness.operators.conv_transpose import ConvTranspose
from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.targets.cuda.code import VectorLowering, c_type, tables_of, window
from harness.targets.generated import Table


class ConvTransposeLowering(VectorLowering[ConvTranspose]):
    """One thread adds the products of one output; weights have one row for each channel of the output."""

    operator = ConvTranspose

    def tables(self, layer: ConvTranspose) -> tuple[Table, ...]:
        """Return weights and bias."""
        return tables_of(layer, {role: values.reshape(-1) for role, values in layer.numbers().items()})

    def value(self, layer: ConvTranspose) -> str:
        """Add the products of the windows that the output needs."""
        inputs, outputs = layer.input.shape[0] // layer.groups, layer.weights.shape[1] // layer.groups
        sizes = f"{window(layer.window)}, {inputs}, {outputs}"
        return f"return conv_transpose<{sizes}>(x_0, {layer.name}_weights, {layer.name}_bias, n);"


class QLinearAveragePoolLowering(VectorLowering[QLinearAveragePool]):
    """One value at a time."""

    operator = QLinearAveragePool

    def tables(self, layer: QLinearAveragePool) -> tuple[Table, ...]:
        """Return scales and zero points."""
        numbers = {
            "input_step": layer.x.scale,
            "input_zero_point": np.int32(layer.x.zero_point),
            "output_step": layer.y.scale,
            "output_zero_point": np.int32(layer.y.zero_point),
        }
        return tuple(
            Table(f"{layer.name}_{name}", np.atleast_1d(value), computed=True) for name, value in numbers.items()
        )

    def value(self, layer: QLinearAveragePool) -> str:
        """Compute the mean of a window."""
        kinds = f"{c_type(layer.dtype)}, {window(layer.window)}, {str(layer.count_include_pad).lower()}"
        numbers = ", ".join(f"{table.name}[0]" for table in self.tables(layer))
        return f"return average_pool<{kinds}>(x_0, {numbers}, n);"
