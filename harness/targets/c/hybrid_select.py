"""HybridSelect in C: both branches are computed, and one is taken without a jump."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.hybrid_select import BITS, HybridSelect
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode


class HybridSelectLowering(CLowering[HybridSelect]):
    """Masks of all bits or none choose the values."""

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
