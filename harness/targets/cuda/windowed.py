"""ConvTranspose in CUDA, which has a function of its own."""

from __future__ import annotations

from harness.operators.conv_transpose import ConvTranspose
from harness.targets.cuda.code import VectorLowering, tables_of, window
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
