"""MaxPool of codes in the fabric (kernels/vitis/pool.hpp)."""

from __future__ import annotations

from harness.operators.max_pool import MaxPool
from harness.targets.vitis import contraction
from harness.targets.vitis.circuit import Circuit, VitisLowering
from harness.targets.vitis.image import CODE_BITS
from harness.targets.vitis.pool import PoolCircuit


class MaxPoolCircuit(PoolCircuit[MaxPool]):
    """The largest value, without a table."""

    @property
    def total_bits(self) -> int:
        """Those of a code."""
        return CODE_BITS

    @property
    def definitions(self) -> str:
        """The comparison, and no thresholds."""
        return f"static const maximum {self.name}_pooling = {{}};\n{contraction.definition(self.layer, ())}"


class MaxPoolLowering(VitisLowering[MaxPool]):
    """Comparisons of integers."""

    operator = MaxPool

    def circuit(self, layer: MaxPool, fold: int) -> Circuit[MaxPool]:
        """Return the layer behind a line buffer."""
        return MaxPoolCircuit(layer, fold)

    def unsupported(self, layer: MaxPool, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse float32."""
        return None if layer.of_codes else "it reads float32, and kernels in the fabric compare codes only"
