"""ConvTranspose in C: one stage of sums in the order of the formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.operators.conv_transpose import ConvTranspose
from harness.targets.c import code
from harness.targets.c.code import CLowering
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
        tables = tuple(Table(f"{name}_{role}", values.reshape(-1)) for role, values in layer.numbers().items())
        operands = f"{layer.groups}, {inputs}, {width}, in, {name}_weights, {name}_bias, out"
        call = f"{prefix}conv_transpose_float32(&window, {operands});"
        return code.elementwise(layer, sources, tables, f"{code.window(layer.window)}\n    {call}")

    def unrolled(self, layer: ConvTranspose, sources: Sequence[str]) -> LayerCode:
        """Write every product."""
        return code.elementwise(layer, sources, (), code.assigned(_sums(layer)))


def _sums(layer: ConvTranspose) -> Iterator[str]:
    for bias, weights, places in zip(layer.bias, layer.weights.T, layer.places(), strict=True):
        for of_sum in places.tolist():
            terms = (f"in[{at}] * {literal(weights[k])}" for k, at in enumerate(of_sum) if at >= 0)
            yield " + ".join([literal(np.float32(bias + np.float32(0))), *terms])
