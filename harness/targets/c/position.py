"""Position in C: a binary search in the cuts of each value, with as many steps as the number of cuts says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.operators.position import NOT_FINITE, Position
from harness.operators.tensor import LARGEST
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class PositionLowering(CLowering[Position]):
    """The same steps for every value, without branches: `reached` is the number of cuts that are not above it."""

    operator = Position
    headers = ("saturate.h",)

    def plain(self, layer: Position, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002
        """Loop over the values."""
        cuts = Table(f"{layer.name}_table", layer.cuts, "ascending cuts of each value, then infinities")
        largest = literal(np.float32(LARGEST))
        lines = [
            f"for (size_t n = 0; n < {layer.size}u; ++n) {{",
            f"    const float *row = {cuts.name}[n];",
            "    const float x = in[n];",
            "    size_t reached = 0;",
            *(f"    {step}" for step in _steps(layer.cuts.shape[1])),
            "    const size_t on_cut = (size_t)(row[reached - (size_t)(reached > 0u)] == x);",
            f"    size_t finite = (size_t)(x >= -{largest}) & (size_t)(x <= {largest});",
            "    NOT_KNOWN(finite);",
            f"    out[n] = (uint8_t)({NOT_FINITE}u - finite * ({NOT_FINITE}u - 2u * reached + on_cut));",
            "}",
        ]
        return code.elementwise(layer, sources, (cuts,), "\n    ".join(lines))


def _steps(cuts: int) -> Iterator[str]:
    """Yield the steps: each halves the number of cuts among which the first one above x can be."""
    left = cuts
    while left > 1:
        half = left // 2
        yield f"reached += {half}u * (size_t)(row[reached + {half - 1}u] <= x);"
        yield "NOT_KNOWN(reached); /* or compilers write branches for small tables */"
        left -= half
    yield "reached += (size_t)(row[reached] <= x);"
    yield "NOT_KNOWN(reached);"
