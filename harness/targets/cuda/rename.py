"""Reshape and Flatten in CUDA: a copy in the layer's own kernel; in a fused one the same tile."""

from __future__ import annotations

from harness.operators.rename import Rename
from harness.targets.cuda.code import CudaLowering, FusedTask, c_type, in_same_words, of_one_value


class RenameLowering(CudaLowering[Rename]):
    """One copy per value, unless the words of both tiles are the same."""

    operator = Rename
    renames = True

    def function(self, layer: Rename) -> str:
        """Return the value."""
        return of_one_value(layer, f"{c_type(layer.input.dtype)} x", "x")

    def fused_function(self, layer: Rename) -> str:
        """Return the same, or nothing."""
        return "" if in_same_words(layer.input, layer.output) else super().fused_function(layer)

    def steps(self, task: FusedTask) -> list[str]:
        """Copy the values, or nothing."""
        return [] if in_same_words(task.layer.input, task.layer.output) else super().steps(task)
