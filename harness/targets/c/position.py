"""Position in C: each value is compared with all cuts of its axis.

A binary search would take fewer steps, but which cuts it reads depends on data: a bound of execution time then has no
second source for its loops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.position import NOT_FINITE, Position
from harness.operators.tensor import LARGEST
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class PositionLowering(CLowering[Position]):
    """The same comparisons for every value, and no jump that depends on one."""

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
