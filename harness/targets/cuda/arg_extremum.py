"""ArgMax and ArgMin in CUDA."""

from __future__ import annotations

from harness.operators.arg_extremum import ArgExtremum
from harness.targets.cuda.code import CudaLowering, FusedTask, c_type, tile_type
from harness.targets.generated import TaskView


class ArgExtremumLowering(CudaLowering[ArgExtremum]):
    """One thread searches the values of a vector."""

    operator = ArgExtremum

    def function(self, layer: ArgExtremum) -> str:
        """Search an array."""
        return _function(layer, f"const {c_type(layer.input.dtype)} *x", "x")

    def operands(self, task: TaskView) -> str:  # noqa: ARG002 - the same for all tasks
        """Return the vector's first value."""
        return "&x_0[at.v * pitch_0]"

    def fused_function(self, layer: ArgExtremum) -> str:
        """Search a tile."""
        return _function(layer, "const uint32_t *x", f"{tile_type(layer.input)}{{x}}")

    def fused_operands(self, task: FusedTask) -> tuple[str, str]:
        """Return the vector's tile."""
        return f"&{task.operands[0]}[v]", "unsigned"


def _function(layer: ArgExtremum, parameter: str, values: str) -> str:
    flags = f"{layer.input.size}, {str(layer.largest).lower()}, {str(layer.last).lower()}"
    head = f"ONE_CODE int32_t {layer.name}_compute({parameter})"
    return f"{head}\n{{\n    return arg_extremum<{flags}>({values});\n}}"
