"""Add in CUDA: the second term is an activation or a constant table."""

from __future__ import annotations

from harness.operators.add import Add
from harness.targets.cuda.code import CudaLowering, FusedTask, of_one_value
from harness.targets.generated import Table, TaskView


class AddLowering(CudaLowering[Add]):
    """One addition per value."""

    operator = Add

    def unsupported(self, layer: Add, variant: str) -> str | None:  # noqa: ARG002 - both variants
        """Return that it adds terms of one size, if a term is repeated."""
        return "it adds terms of one size only, without broadcasting" if layer.broadcasts else None

    def tables(self, layer: Add) -> tuple[Table, ...]:
        """Return the constant term, if there is one."""
        addend = layer.facts()["addend"]
        return () if addend is None else (Table(f"{layer.name}_addend", addend, computed=True),)

    def function(self, layer: Add) -> str:
        """Add two values."""
        return of_one_value(layer, "float a, float b", "add(a, b)")

    def operands(self, task: TaskView) -> str:
        """Return both terms."""
        constant = f"{super().operands(task)}, {task.layer.name}_addend[at.n]"
        return super().operands(task) if len(task.sources) > 1 else constant

    def fused_operands(self, task: FusedTask) -> tuple[str, str]:
        """Return both terms."""
        terms, index = super().fused_operands(task)
        return terms if len(task.sources) > 1 else f"{terms}, {task.layer.name}_addend[n]", index
