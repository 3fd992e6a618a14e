"""Sums of products of codes: FULLY_CONNECTED and convolutions of int8, or of float32 where these are not exact.

XNNPACK computes saturate(round_half_even(float32(acc) * m) + zero_point) with m = (x_scale * w_scale) / y_scale in
float32, on all processors: the specification.  Where weights less their zero points are not int8, or the output is
float32, the codes less their zero point, weights and bias are whole float32 numbers.  If no partial sum exceeds 2^24,
float32 sums them exactly in any order, contracted or not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from harness.operators.codes import Affine
from harness.operators.contraction import Contraction
from harness.targets.litert.graph import FLOAT, INT8, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering
from harness.targets.litert.sums import Sums

C = TypeVar("C", bound=Contraction)
SEARCHED = 1 << 10
"""Scales of weights on either side of the nearest one that are tried."""


class ContractionLowering(LiteRtLowering[C]):
    """One operator for int8; for float32 the numbers of the codes, the sums, the products with m, and the rounding."""

    def unsupported(self, layer: C, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse sums that neither int8 nor float32 can hold."""
        if self._of_codes(layer) is not None:
            return None
        accumulator = layer.accumulator()
        if accumulator is None or not accumulator.float32_exact:
            return (
                "its weights less their zero points are not int8 or its scales have no int8 form, and sums exceed 2^24"
            )
        return None

    def emit(self, layer: C, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the sums and their rounding."""
        [x] = inputs
        scales = self._of_codes(layer)
        if scales is None:
            return self._emit_floats(layer, graph, x)
        codes, y = graph.codes(x, Affine(layer.scales.a, layer.a_zero_point)), layer.scales.y
        quantisation = None if y is None else Affine(y, layer.y_zero_point)
        weights = centred(layer).astype(np.int8)
        sums = Sums(weights, layer.bias, layer.output.name, scales, layer.scales.a, quantisation)
        return self.sums(layer, graph, codes, sums)

    def _emit_floats(self, layer: C, graph: Graph, x: Value) -> Value:
        name = layer.output.name
        numbers = graph.cast(x, FLOAT, f"{name}/codes")
        zero_point = np.array([layer.a_zero_point - x.offset], np.float32)
        differences = graph.binary("SUB", numbers, zero_point, f"{name}/differences")
        weights, bias = centred(layer).astype(np.float32), layer.bias.astype(np.float32)
        added = self.sums(layer, graph, differences, Sums(weights, bias, f"{name}/sums"))
        y = layer.scales.y
        m = layer.multiplier.reshape((1,) * (len(added.shape) - 1) + (-1,))
        product = graph.binary("MUL", added, m, name if y is None else f"{name}/scaled")
        return product if y is None else graph.rounded(product, Affine(y, layer.y_zero_point), layer.dtype, name)

    @abstractmethod
    def sums(self, layer: C, graph: Graph, x: Value, sums: Sums) -> Value:
        """Add the operator."""

    def _of_codes(self, layer: C) -> npt.NDArray[np.float32] | None:
        """Return the scales of int8 weights with which XNNPACK has the layer's multiplier; None if there are none."""
        weights = centred(layer)
        if layer.scales.y is None or weights.min() < np.iinfo(INT8).min or weights.max() > np.iinfo(INT8).max:
            return None
        return weight_scales(layer)


def centred(layer: Contraction) -> npt.NDArray[np.int32]:
    """Return the weights less their zero points, int32 (K, N)."""
    difference: npt.NDArray[np.int32] = layer.weights.astype(np.int32) - layer.weights_zero_point
    return difference


def weight_scales(layer: Contraction) -> npt.NDArray[np.float32] | None:
    """Return float32 w (N,) for which (x_scale * w) / y_scale is the multiplier; None if a channel has none.

    Each operation is rounded to float32, as XNNPACK does.
    """
    x, y = layer.scales.a, layer.scales.y
    if y is None:
        return None
    given = np.broadcast_to(np.asarray(layer.scales.b, np.float32), layer.multiplier.shape)
    with np.errstate(all="ignore"):
        if np.array_equal(((x * given) / y).view(np.uint32), layer.multiplier.view(np.uint32)):
            return given.copy()
    nearest = (layer.multiplier.astype(np.float64) * float(y) / float(x)).astype(np.float32)
    steps = np.arange(-SEARCHED, SEARCHED + 1, dtype=np.int32)
    steps = steps[np.argsort(np.abs(steps), kind="stable")]
    near = (nearest.view(np.int32)[:, None] + steps).view(np.float32)
    tried: npt.NDArray[np.float32] = np.concatenate([given[:, None], near], axis=1)
    with np.errstate(all="ignore"):
        found = ((x * tried) / y).view(np.uint32) == layer.multiplier.view(np.uint32)[:, None]
    return tried[np.arange(len(tried)), found.argmax(axis=1)] if found.any(axis=1).all() else None
