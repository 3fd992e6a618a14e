"""AveragePool and GlobalAveragePool of float32 in TFLite: AVERAGE_POOL_2D, whose sums have another order."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.average_pool import AveragePool
from harness.targets.base import Claim
from harness.targets.litert import windowed
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering, image


class AveragePoolLowering(LiteRtLowering[AveragePool]):
    """TFLite divides by the number of values in the image; padding that counts is an operator before."""

    operator = AveragePool
    claim = Claim.BOUNDED

    def unsupported(self, layer: AveragePool, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse windows and divisors that TFLite cannot have."""
        window = layer.window
        if max(window.dilation) > 1:
            return "AVERAGE_POOL_2D has no dilation"
        if reason := windowed.unsupported(window):
            return reason
        of_image = window.inside().sum(axis=1)
        padded = any(window.before) or any(reach > size for reach, size in zip(window.reach, window.shape, strict=True))
        divides_by_image = not padded or windowed.is_same(window)
        expected = of_image if divides_by_image else window.size
        return None if (layer.count == expected).all() else "TFLite would divide by other numbers of values"

    def emit(self, layer: AveragePool, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        x = image(graph, inputs[0], layer)
        return windowed.pool(graph, "AVERAGE_POOL_2D", x, layer.window, layer.output.name, None)
