"""Operators of windows over images in CUDA: the code of poolings and convolutions, see kernels/cuda/windows.cuh."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from harness.operators.base import Layer
from harness.operators.float_convolution import FloatConvolution
from harness.operators.window import Window
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

L = TypeVar("L", bound=Layer)
C = TypeVar("C", bound=FloatConvolution)


def window(of_layer: Window) -> str:
    """Return the definition of the constant `window`."""
    return f"constexpr Window window = {{{', '.join(map(str, of_layer.table().reshape(-1)))}}};"


class WindowLowering(VectorLowering[L]):
    """One thread reads the values of one window."""

    fuses = False


class ConvolutionLowering(WindowLowering[C]):
    """Weights have one column for each channel of the output."""

    sum_of_products: ClassVar[str]
    """The name of the device function."""

    def tables(self, layer: C) -> tuple[Table, ...]:
        """Return weights and bias."""
        return tables_of(layer, {"weights": layer.weights, "bias": layer.bias})

    def value(self, layer: C) -> str:
        """Add the products of the windows that the output needs."""
        name, (_, width) = layer.name, layer.weights.shape
        sizes = f"{layer.input.shape[0] // layer.groups}, {width // layer.groups}, {width}"
        arguments = f"window, {sizes}, x_0, &{name}_weights[0][0], {name}_bias, n"
        return f"{window(layer.window)}\nreturn {self.sum_of_products}({arguments});"
