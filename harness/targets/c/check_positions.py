"""CheckPositions in C: one look-up per value."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.check_positions import CheckPositions
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table


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
