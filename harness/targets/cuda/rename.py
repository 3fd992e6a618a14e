"""Reshape and Flatten in CUDA: a copy in the layer's own kernel; in a fused one the same tile."""

from __future__ import annotations

from harness.operators.rename import Rename
from harness.targets.cuda.code import CudaLowering, FusedTask, c_type, of_one_value


class RenameLowering(CudaLowering[Rename]):
    """One copy per value, unless the words of both tiles are the same."""

    operator = Rename
    renames = True

    def function(self, layer: Rename) -> str:
        """Return the value."""
        return of_one_value(layer, f"{c_type(layer.input.dtype)} x", "x")

    def fused_function(self, task: FusedTask) -> str:
        """Return the same, or nothing."""
        return "" if task.in_place else super().fused_function(task)

    def steps(self, task: FusedTask) -> list[str]:
        """Copy the values, or nothing."""
        return [] if task.in_place else super().steps(task)
