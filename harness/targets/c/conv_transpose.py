"""ConvTranspose in C: one stage of sums in the order of the formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.operators.conv_transpose import ConvTranspose
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.c.gemm import chain
from harness.targets.generated import LayerCode, Table, literal


class ConvTransposeLowering(CLowering[ConvTranspose]):
    """Weights have one row for each channel of the output."""

    operator = ConvTranspose
    headers = ("conv_transpose.h",)

    def unsupported(self, layer: ConvTranspose, variant: str) -> str | None:
        """Refuse unrolled code that no compiler finishes."""
        return code.too_long(len(layer.weights) * layer.size, variant)

    def plain(self, layer: ConvTranspose, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/conv_transpose.h."""
        name, inputs, width = layer.name, layer.input.shape[0] // layer.groups, layer.weights.shape[1]
        tables = (
            Table(f"{name}_weights", layer.weights.T, "transposed: one row a channel"),
            Table(f"{name}_bias", layer.bias),
        )
        operands = f"{layer.groups}, {inputs}, {width}, in, &{name}_weights[0][0], {name}_bias, out"
        call = f"{prefix}conv_transpose_float32(&window, {operands});"
        return code.elementwise(layer, sources, tables, f"{code.window(layer.window)}\n    {call}")

    def unrolled(self, layer: ConvTranspose, sources: Sequence[str]) -> LayerCode:
        """Write every product."""
        return code.elementwise(layer, sources, (), code.assigned(_sums(layer)))


def _sums(layer: ConvTranspose) -> Iterator[str]:
    for bias, weights, places in zip(layer.bias, layer.weights.T, layer.places(), strict=True):
        for of_sum in places.tolist():
            yield chain(bias, (f"in[{at}] * {literal(weights[k])}" for k, at in enumerate(of_sum) if at >= 0))
