"""Softmax in C: the largest value, exponentials of differences, their sum in order, and one quotient per value."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.softmax import Softmax
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode


class SoftmaxLowering(CLowering[Softmax]):
    """Four passes over each row, without branches that depend on data."""

    operator = Softmax
    headers = ("softmax.h",)

    def plain(self, layer: Softmax, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/softmax.h."""
        if layer.inner > 1:
            sizes = f"{layer.rows // layer.inner}, {layer.length}, {layer.inner}"
            return code.elementwise(layer, sources, (), f"{prefix}softmax_axis_float32({sizes}, in, out);")
        return code.elementwise(layer, sources, (), f"{prefix}softmax_float32({layer.rows}, {layer.length}, in, out);")

    def inlined(self, layer: Softmax, sources: Sequence[str]) -> LayerCode:
        """Loop over rows and columns; call the plain code if a row is not adjacent."""
        if layer.inner > 1:
            return self.plain(layer, sources)
        columns = "for (size_t n = {}; n < last; ++n)\n            {}"
        lines = (
            f"const size_t first = row * {layer.length}, last = first + {layer.length};",
            "float highest = in[first];",
            columns.format("first + 1", "highest = (in[n] > highest) ? in[n] : highest;"),
            columns.format("first", "out[n] = exp_of_difference(in[n], highest, bound);"),
            "float sum = out[first];",
            columns.format("first + 1", "sum += out[n];"),
            columns.format("first", "out[n] = out[n] / sum;"),
        )
        body = "\n        ".join(lines)
        loop = f"for (size_t row = 0; row < {layer.rows}; ++row) {{\n        {body}\n    }}"
        return code.elementwise(layer, sources, (), f"{_bound()}\n    {loop}")

    def unrolled(self, layer: Softmax, sources: Sequence[str]) -> LayerCode:
        """Write every comparison, exponential, addition and quotient."""
        lines = [_bound(), "float highest, sum;"]
        for row in range(layer.rows):
            first = row // layer.inner * layer.length * layer.inner + row % layer.inner
            columns = range(first, first + layer.length * layer.inner, layer.inner)
            lines += [
                f"highest = in[{first}];",
                *(f"highest = (in[{n}] > highest) ? in[{n}] : highest;" for n in columns[1:]),
                *(f"out[{n}] = exp_of_difference(in[{n}], highest, bound);" for n in columns),
                f"sum = out[{first}];",
                *(f"sum += out[{n}];" for n in columns[1:]),
                *(f"out[{n}] = out[{n}] / sum;" for n in columns),
            ]
        return code.elementwise(layer, sources, (), "\n    ".join(lines))


def _bound() -> str:
    return code.not_known("float", "bound", "EXP_BOUND")
