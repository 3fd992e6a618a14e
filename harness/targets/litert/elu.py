"""Elu of float32 in TFLite: ELU."""

from __future__ import annotations

from harness.operators.elu import Elu
from harness.targets.base import Claim
from harness.targets.litert.lowering import ElementwiseLowering


class EluLowering(ElementwiseLowering[Elu]):
    """LiteRT's own approximation."""

    operator = Elu
    claim = Claim.BOUNDED
    tflite = "ELU"

    def unsupported(self, layer: Elu, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse a factor that TFLite does not have."""
        return None if layer.alpha == 1 else f"alpha is {layer.alpha}, and ELU has alpha 1"
