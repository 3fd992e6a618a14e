"""Target c with sums from the last product to the first: within the bound of a float sum, and not exact.

Its other variants are wrong: see VARIANTS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.operators.base import Layer
from harness.operators.gemm import Gemm
from harness.operators.relu import Relu
from harness.targets.base import Claim
from harness.targets.c import C, code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, TaskView

VARIANTS = {
    "": "out[n] = sum",
    "beyond": "out[n] = sum * 1.0001f",
    "nan": "out[n] = n == 1 ? 0.0f / (in[0] - in[0]) : sum",
    "infinite": "out[n] = n == 1 ? 1e38f * 10.0f : sum",
    "exact": "out[n] = sum",
    "relu": "out[n] = sum",
    "selects": "out[n] = sum",
}
"""The last statement of a sum; `exact` claims every bit, `relu` computes Relu wrongly, `selects` claims its bound."""


class ReorderedGemm(CLowering[Gemm]):
    """Gemm: the bias first, then the products from the last to the first."""

    operator = Gemm

    def plain(self, layer: Gemm, sources: Sequence[str], last: str = VARIANTS[""]) -> LayerCode:
        """Loop over outputs and inputs."""
        name, (depth, width) = layer.name, layer.weights.shape
        body = (
            f"for (size_t n = 0; n < {width}; ++n) {{\n        float sum = {name}_bias[n];\n"
            f"        for (size_t k = {depth}; k-- > 0;)\n            sum += in[k] * {name}_weights[k][n];\n"
            f"        {last};\n    }}"
        )
        tables = Table(f"{name}_weights", layer.weights), Table(f"{name}_bias", layer.bias)
        return code.elementwise(layer, sources, tables, body)


class Reordered(C):
    """The target; `reordered` is right, the other variants have one fault each."""

    name = "reordered"
    variants = tuple(VARIANTS)

    def headers(self) -> tuple[str, ...]:
        """Return the headers of target c."""
        return C().headers()

    def claim(self, layer: Layer) -> Claim:
        """Return the claim of a bound for sums."""
        bounded = {"exact": (), "selects": (Gemm, Relu)}.get(self.variant, (Gemm,))
        return Claim.BOUNDED if type(layer) in bounded else Claim.EXACT

    def _code(self, task: TaskView) -> LayerCode:
        lowering: Any = self.lowering_of(task.layer)
        if isinstance(task.layer, Gemm):
            return lowering.plain(task.layer, task.sources, VARIANTS[self.variant])
        if self.variant == "relu":
            return code.elementwise(task.layer, task.sources, (), code.loop(task.layer, "out[n] = in[n] + 1e-6f;"))
        return lowering.plain(task.layer, task.sources)
