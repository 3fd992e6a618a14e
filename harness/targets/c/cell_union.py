"""CellUnion in C: the decision diagram is followed for every choice of lower and upper cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.operators.cell_union import CellUnion
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table


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
