"""The uint8 codes of an activation: value = (code - zero_point) * scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.model.float_network import Floats32

CODE_MAX = 255
_SMALLEST_SCALE = np.finfo(np.float32).tiny  # smaller ones are subnormal, which no target has to support


@dataclass(frozen=True)
class Codes:
    """One scale (float32, normal) and one zero point (0..255) for a tensor, as QGemm's a_scale requires."""

    scale: np.float32
    zero_point: int = 0

    @property
    def range(self) -> tuple[float, float]:
        """The values of the first and the last code."""
        return -self.zero_point * float(self.scale), (CODE_MAX - self.zero_point) * float(self.scale)

    def rounded(self, values: npt.NDArray[np.floating[Any]]) -> Floats32:
        """Return `values` after QuantizeLinear and back, float32 of the same shape: clamped multiples of the scale."""
        steps = np.rint(values.astype(np.float32) / self.scale)
        clamped = np.clip(steps, -self.zero_point, CODE_MAX - self.zero_point)
        return np.asarray(clamped * self.scale, dtype=np.float32)


def codes_for(low: float, high: float) -> Codes:
    """Return the finest codes that span low..high and 0; the zero point is 0 where low is not negative.

    A range of 0 alone, or too small for a normal float32 scale, gets codes that span 0..1.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / CODE_MAX)
    if scale < _SMALLEST_SCALE:
        return Codes(np.float32(1 / CODE_MAX))
    return Codes(scale, int(np.clip(np.rint(-low / float(scale)), 0, CODE_MAX)))
