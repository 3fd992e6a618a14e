"""ArgMax and ArgMin in CUDA."""

from __future__ import annotations

from harness.operators.arg_extremum import ArgExtremum
from harness.targets.cuda.code import VectorLowering


class ArgExtremumLowering(VectorLowering[ArgExtremum]):
    """One thread searches the values of a vector."""

    operator = ArgExtremum

    def value(self, layer: ArgExtremum) -> str:
        """Search the vector; the only output has the number 0."""
        flags = f"{layer.input.size}, {str(layer.largest).lower()}, {str(layer.last).lower()}"
        return f"(void)n;\nreturn arg_extremum<{flags}>(x_0);"
