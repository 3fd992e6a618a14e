"""ArgMax and ArgMin in C: one pass over the values, without branches that depend on data."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.arg_extremum import ArgExtremum
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode


class ArgExtremumLowering(CLowering[ArgExtremum]):
    """One comparison per value."""

    operator = ArgExtremum

    def plain(self, layer: ArgExtremum, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/arg_extremum.h."""
        flags = f"{str(layer.largest).lower()}, {str(layer.last).lower()}"
        call = f"arg_extremum_{layer.input.dtype}({layer.input.size}, in, {flags});"
        return code.elementwise(layer, sources, (), f"out[0] = {prefix}{call}")

    def inlined(self, layer: ArgExtremum, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        loop = f"    for (size_t n = 1; n < {layer.input.size}u; ++n)\n        {_choose(layer, 'n')}"
        return code.elementwise(layer, sources, (), f"size_t best = 0;\n{loop}\n    out[0] = (int64_t)best;")

    def unrolled(self, layer: ArgExtremum, sources: Sequence[str]) -> LayerCode:
        """Write every comparison."""
        choices = [_choose(layer, n) for n in range(1, layer.input.size)]
        lines = ["size_t best = 0;", *choices, "out[0] = (int64_t)best;"]
        return code.elementwise(layer, sources, (), "\n    ".join(lines))


def _choose(layer: ArgExtremum, column: int | str) -> str:
    """Return the statement that replaces `best` if in[column] is better, without a branch."""
    comparison = {(True, False): ">", (True, True): ">=", (False, False): "<", (False, True): "<="}
    better = f"(size_t)(in[{column}] {comparison[layer.largest, layer.last]} in[best])"
    return f"best = best + ({column} - best) * {better};"
