"""LeakyRelu in C: one multiplication and one selection per value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.leaky_relu import LeakyRelu
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class LeakyReluLowering(CLowering[LeakyRelu]):
    """One value at a time."""

    operator = LeakyRelu
    headers = ("leaky_relu.h",)

    def plain(self, layer: LeakyRelu, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/leaky_relu.h."""
        alpha = _alpha(layer)
        call = f"{prefix}leaky_relu_float32({layer.size}, in, {alpha.name}[0], out);"
        return code.elementwise(layer, sources, (alpha,), call)

    def inlined(self, layer: LeakyRelu, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        alpha = _alpha(layer)
        body = code.loop(layer, f"out[n] = {_selected('in[n]', f'{alpha.name}[0]')};")
        return code.elementwise(layer, sources, (alpha,), body)

    def unrolled(self, layer: LeakyRelu, sources: Sequence[str]) -> LayerCode:
        """Write every selection, with the factor as a literal."""
        values = (_selected(f"in[{n}]", literal(layer.alpha)) for n in range(layer.size))
        return code.elementwise(layer, sources, (), code.assigned(values))


def _alpha(layer: LeakyRelu) -> Table:
    return Table(f"{layer.name}_alpha", np.atleast_1d(layer.alpha))


def _selected(x: str, alpha: str) -> str:
    return f"{x} < 0.0f ? {alpha} * {x} : {x}"
