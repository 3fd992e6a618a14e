"""QLinearSoftmax in C: the largest code, a sum of exponentials from a table, and one quotient per value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.qlinear_softmax import QLinearSoftmax
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class QLinearSoftmaxLowering(CLowering[QLinearSoftmax]):
    """Three passes over the values, without branches that depend on data."""

    operator = QLinearSoftmax
    headers = ("qlinear_softmax.h",)

    def plain(self, layer: QLinearSoftmax, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/qlinear_softmax.h."""
        table, inverse, zero_point = _tables(layer)
        numbers = f"{table.name}, {inverse.name}[0], {zero_point.name}[0]"
        row = f"r * {layer.length}u"
        call = f"{prefix}qlinear_softmax_{layer.dtype}({layer.length}, &in[{row}], {numbers}, &out[{row}]);"
        call = f"for (size_t r = 0; r < {layer.size // layer.length}u; ++r)\n        {call}"
        return code.elementwise(layer, sources, (table, inverse, zero_point), call)

    def inlined(self, layer: QLinearSoftmax, sources: Sequence[str]) -> LayerCode:
        """Loop over the rows, and over their values."""
        tables, length = _tables(layer), layer.length
        each = f"for (size_t n = first; n < first + {length}u; ++n)\n        "
        value = f"{_entry(layer, 'n')} * {tables[1].name}[0] / sum"
        lines = (
            code.zero_point(f"{tables[2].name}[0]"),
            f"for (size_t first = 0; first < {layer.size}u; first += {length}u) {{",
            "int32_t highest = in[first];",
            f"{each}highest = (in[n] > highest) ? in[n] : highest;",
            f"const int32_t shift = {VALUES_BELOW} - highest;",
            "float sum = 0.0f;",
            f"{each}sum += {_entry(layer, 'n')};",
            f"{each}out[n] = {code.rounded(layer.dtype, value)};",
            "}",
        )
        return code.elementwise(layer, sources, tables, "\n    ".join(lines))

    def unrolled(self, layer: QLinearSoftmax, sources: Sequence[str]) -> LayerCode:
        """Write every comparison, addition and quotient; the table of exponentials stays."""
        inverse, lines = literal(layer.inverse), [code.zero_point(str(layer.y.zero_point)), "int32_t highest, shift;"]
        lines.append("float sum;")
        for first in range(0, layer.size, layer.length):
            columns = range(first, first + layer.length)
            lines.append(f"highest = in[{first}];")
            lines += [f"highest = (in[{n}] > highest) ? in[{n}] : highest;" for n in columns[1:]]
            lines += [f"shift = {VALUES_BELOW} - highest;", f"sum = {_entry(layer, first)};"]
            lines += [f"sum += {_entry(layer, n)};" for n in columns[1:]]
            for n in columns:
                lines.append(f"out[{n}] = {code.rounded(layer.dtype, f'{_entry(layer, n)} * {inverse} / sum')};")
        return code.elementwise(layer, sources, _tables(layer)[:1], "\n    ".join(lines))


VALUES_BELOW = 255
"""The number of codes below the highest, whose exponential is the last of the table."""


def _entry(layer: QLinearSoftmax, column: int | str) -> str:
    return f"{layer.name}_table[in[{column}] + shift]"


def _tables(layer: QLinearSoftmax) -> tuple[Table, Table, Table]:
    name = layer.name
    return (
        Table(f"{name}_table", layer.table(), "exp((i - 255) * x_scale) times a constant"),
        Table(f"{name}_inverse", np.atleast_1d(layer.inverse), "floor(1 / y_scale)"),
        Table(f"{name}_y_zero_point", np.array([layer.y.zero_point], np.int32)),
    )
