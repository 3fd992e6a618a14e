"""Functions of codes on a core: tables of all pairs, and thresholds."""

from __future__ import annotations

import numpy as np

from harness.operators.code_pairs import CodePairs
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.generated import Table
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head


class CodePairsLowering(TiovxLowering[CodePairs]):
    """One access per value (kernels/tiovx/target/code_pairs.c)."""

    operator = CodePairs

    def kernel_of(self, layer: CodePairs) -> str:
        """Return the kernel for one or two activations."""
        return f"KERNEL_CODE_PAIRS_{len(layer.inputs)}"

    def inexact(self, layer: CodePairs) -> str | None:
        """Refuse activations that are repeated along an axis."""
        return "it repeats an activation along an axis" if layer.broadcasts else None

    def constants(self, layer: CodePairs) -> Constants:
        """Return the table, by the code of the first activation, then by the other code; and the constant operand."""
        codes = np.ascontiguousarray(layer.by_activation(layer.table())).view(np.uint8)
        parts = {"CODES": Table(f"{layer.name}_codes", codes, "outputs for all pairs of codes, from the lowest on")}
        if layer.operand is not None:
            parts["OPERAND"] = Table(f"{layer.name}_{layer.operand_role}", layer.operand.view(np.uint8))
        return with_head(layer, parts)


class QuantizeLinearLowering(TiovxLowering[QuantizeLinear]):
    """Compare each value with the thresholds."""

    operator = QuantizeLinear
    kernel = "KERNEL_QUANTIZE_LINEAR"

    def constants(self, layer: QuantizeLinear) -> Constants:
        """Return the thresholds of all values."""
        steps = layer.thresholds().astype(np.int32)
        origin = "the least float32, as ordered numbers, that become each code above the lowest"
        table = Table(f"{layer.name}_thresholds", steps[None], origin)
        return with_head(layer, {"TABLE": table})
