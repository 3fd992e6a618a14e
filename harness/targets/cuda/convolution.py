"""Convolutions of float32 in CUDA: sums in the order of the formula."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from harness.operators.conv import Conv
from harness.operators.conv_transpose import ConvTranspose
from harness.operators.float_convolution import FloatConvolution
from harness.targets.cuda.code import VectorLowering, tables_of, window
from harness.targets.generated import Table

C = TypeVar("C", bound=FloatConvolution)


class ConvolutionLowering(VectorLowering[C]):
    """One thread adds the products of one output; weights have one column for each channel of the output."""

    sum_of_products: ClassVar[str]
    """The name of the device function."""

    def tables(self, layer: C) -> tuple[Table, ...]:
        """Return weights and bias."""
        return tables_of(layer, {"weights": layer.weights, "bias": layer.bias})

    def value(self, layer: C) -> str:
        """Add the products of the windows that the output needs."""
        name, (_, width) = layer.name, layer.weights.shape
        sizes = f"{window(layer.window)}, {layer.input.shape[0] // layer.groups}, {width // layer.groups}, {width}"
        return f"return {self.sum_of_products}<{sizes}>(x_0, &{name}_weights[0][0], {name}_bias, n);"


class ConvLowering(ConvolutionLowering[Conv]):
    """One thread adds the products of one output."""

    operator = Conv
    sum_of_products = "conv"


class ConvTransposeLowering(ConvolutionLowering[ConvTranspose]):
    """One thread adds the products of one output."""

    operator = ConvTranspose
    sum_of_products = "conv_transpose"
