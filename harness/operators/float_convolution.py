"""Float convolutions: what Conv and ConvTranspose share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants
from harness.operators.convolution import Convolution
from harness.operators.fault_models import FaultModel
from harness.operators.float_contraction import ORDER, FloatContraction, in_order, read_finite
from harness.operators.node import Node

BIAS = 2


@dataclass(frozen=True, eq=False)
class FloatConvolution(Convolution, FloatContraction):
    """Sums over windows, float32; the products of a sum are ordered by channel, row and column of the kernel."""

    roles = ("X", "W", "B")
    parameters = (1, 2)

    def constants(self) -> Constants:
        """Return weights and bias, then the window and the number of groups."""
        return {**super().constants(), "window": self.window.table(), "groups": self.groups}

    def facts(self) -> dict[str, Any]:
        """Return the facts of the sums and of the window."""
        return super().facts() | self.window.facts() | {"groups": self.groups}

    def summary(self) -> tuple[str, ...]:
        """Return weights, bias and the window."""
        return (*super().summary(), self.summary_of_window())

    def sum_faults(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of sums, and sums over the window before the channels."""
        yield from super().sum_faults(*inputs)
        if 1 < self.window.size < len(self.weights):
            order = np.arange(len(self.weights)).reshape(-1, self.window.size).T.reshape(-1)
            wrong = replace(self, weights=self.weights[order])
            sums = wrong.summed(inputs[0], lambda patch, w, bias: in_order(patch[:, order], w, bias))
            yield FaultModel("the products are added by row, column and channel (im2col)", ORDER, sums)


def read_bias(node: Node, width: int) -> npt.NDArray[np.float32]:
    """Return the finite bias of `width` channels, zeros if the node has none."""
    bias: npt.NDArray[np.float32] = read_finite(node, BIAS, "bias") if node.has(BIAS) else np.zeros(width, np.float32)
    if bias.shape != (width,):
        raise node.refusal(f"the bias has shape {bias.shape}", f"shape ({width},)")
    return bias
