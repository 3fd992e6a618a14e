"""The constants of a sum of products, for codes or for float32, before they have the layout of an operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.model.tflite.file import Scales
from harness.operators.codes import Affine


@dataclass(frozen=True, eq=False)
class Sums:
    """Weights (K, N) and bias (N,) of the tensor `name`; of codes the scales of the weights, and the output's `y`.

    `x_scale` is that of the input, by which TFLite wants the scale of the bias.
    """

    weights: Array
    bias: Array
    name: str
    weight_scales: npt.NDArray[np.float32] | None = None
    x_scale: np.float32 | float = 1.0
    y: Affine | None = None

    def scales(self, axis: int) -> tuple[Scales | None, Scales | None]:
        """Return the quantisation of weights whose channels lie along an axis, and of the bias."""
        if self.weight_scales is None:
            return None, None
        return Scales(self.weight_scales, 0, axis), Scales(self.weight_scales * np.float32(self.x_scale), 0)
