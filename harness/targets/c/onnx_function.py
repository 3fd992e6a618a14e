"""Operators of hybrid networks in C: tables and comparisons, without jumps that depend on data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.operators.cell_union import CellUnion
from harness.operators.check_positions import CheckPositions
from harness.operators.hybrid_select import BITS, HybridSelect
from harness.operators.position import NOT_FINITE, Position
from harness.operators.tensor import LARGEST
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class PositionLowering(CLowering[Position]):
    """The same comparisons with all cuts of its axis for every value, and no jump that depends on one.

    A binary search would take fewer steps, but which cuts it reads depends on data: a bound of execution time then has
    no second source for its loops.
    """

    operator = Position
    headers = ("saturate.h",)

    def plain(self, layer: Position, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002
        """Loop over the values."""
        cuts = Table(f"{layer.name}_table", layer.cuts, "ascending cuts of each value, then infinities")
        largest = literal(np.float32(LARGEST))
        lines = [
            f"for (size_t n = 0; n < {layer.size}u; ++n) {{",
            f"    const float *row = {cuts.name}[n];",
            "    NOT_KNOWN(row); /* or compilers put small tables into instructions, and compare with jumps */",
            "    const float x = in[n];",
            "    uint32_t count = 0;",
            f"    for (size_t i = 0; i < {layer.cuts.shape[1]}u; ++i)",
            "        count += (uint32_t)(row[i] <= x) + (uint32_t)(row[i] < x);",
            f"    uint32_t finite = (uint32_t)(x >= -{largest}) & (uint32_t)(x <= {largest});",
            "    NOT_KNOWN(finite);",
            f"    out[n] = (uint8_t)({NOT_FINITE}u - finite * ({NOT_FINITE}u - count));",
            "}",
        ]
        return code.elementwise(layer, sources, (cuts,), "\n    ".join(lines))


class CheckPositionsLowering(CLowering[CheckPositions]):
    """The union of one entry of each row."""

    operator = CheckPositions

    def plain(self, layer: CheckPositions, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002
        """Loop over the values."""
        flags = Table(f"{layer.name}_table", layer.flags, "failed checks of every position")
        lines = (
            "uint32_t failed = 0;",
            f"for (size_t n = 0; n < {layer.input.size}u; ++n)",
            f"    failed |= {flags.name}[n][in[n]];",
            "out[0] = (int64_t)failed;",
        )
        return code.elementwise(layer, sources, (flags,), "\n    ".join(lines))


class HybridSelectLowering(CLowering[HybridSelect]):
    """Both branches are computed, and masks of all bits or none choose the values."""

    operator = HybridSelect

    def plain(self, layer: HybridSelect, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002
        """Search the lowest bit from the highest down, then choose."""
        lines = (
            "const int64_t checks = in_2[0] + in_3[0];",
            "const uint64_t advisories = (uint64_t)in_1[0];",
            "uint64_t lowest = 0;",
            f"for (uint64_t n = 0; n < {BITS}u; ++n) {{",
            f"    const uint64_t bit = {BITS - 1}u - n;",
            "    const uint64_t taken = 0u - ((advisories >> bit) & 1u);",
            "    lowest = (bit & taken) | (lowest & ~taken);",
            "}",
            "const uint64_t passed = 0u - (uint64_t)(checks == 0);",
            "out[0] = (int64_t)(((uint64_t)in_0[0] & passed) | (lowest & ~passed));",
            "out[1] = checks;",
        )
        return code.of_inputs(layer, sources, "\n    ".join(lines))


class CellUnionLowering(CLowering[CellUnion]):
    """2^axes times one look-up an axis, whatever the point; bit k of `side` chooses the cell of axis k."""

    operator = CellUnion

    def plain(self, layer: CellUnion, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002
        """Loop over the choices."""
        cells = Table(f"{layer.name}_table_cells", layer.cells, "lower and upper cell of every position, by axes")
        levels = [
            Table(f"{layer.name}_table_{axis}", level, f"children of the nodes of axis {axis}")
            for axis, level in enumerate(layer.levels)
        ]
        lines = [
            "uint32_t set = 0;",
            f"for (size_t side = 0; side < {1 << len(levels)}u; ++side) {{",
            "    size_t node = 0;",
            *(f"    {step}" for step in _steps(cells, levels)),
            "    set |= (uint32_t)node;",
            "}",
            "out[0] = (int64_t)set;",
        ]
        return code.elementwise(layer, sources, (cells, *levels), "\n    ".join(lines))


def _steps(cells: Table, levels: Sequence[Table]) -> Iterator[str]:
    for axis, level in enumerate(levels):
        yield f"node = {level.name}[node][{cells.name}[{2 * axis}u + ((side >> {axis}u) & 1u)][in[{axis}]]];"
