"""Sums of products: FULLY_CONNECTED and convolutions, of float32 in another order; of codes int8, or exact float32.

XNNPACK computes saturate(round_half_even(float32(acc) * m) + zero_point) with m = (x_scale * w_scale) / y_scale in
float32, on all processors: the specification.  Where weights less their zero points are not int8, or the output is
float32, the codes less their zero point, weights and bias are whole float32 numbers.  If no partial sum exceeds 2^24,
float32 sums them exactly in any order, contracted or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from harness.operators.base import Layer
from harness.operators.codes import Affine
from harness.operators.contraction import Contraction
from harness.operators.conv import Conv
from harness.operators.convolution import Convolution
from harness.operators.float_contraction import FloatContraction
from harness.operators.gemm import Gemm
from harness.operators.linear import Linear
from harness.operators.mat_mul import MatMul
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_conv import QLinearConv
from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.base import Claim
from harness.targets.litert import windowed
from harness.targets.litert.graph import FLOAT, INT8, PLAIN, Graph, Value, offset_of, stored_type
from harness.targets.litert.lowering import LiteRtLowering, rows_of
from harness.targets.litert.sums import Sums

C = TypeVar("C", bound=Contraction)
SEARCHED = 1 << 10
"""Scales of weights on either side of the nearest one that are tried."""


class FloatContractionLowering(LiteRtLowering[FloatContraction]):
    """A value outside the image is 0."""

    operator = (Conv, Gemm, MatMul)
    claim = Claim.BOUNDED

    def unsupported(self, layer: FloatContraction, variant: str) -> str | None:  # noqa: ARG002 - all refuse the same
        """Refuse windows that TFLite cannot have."""
        return _more_windows(layer)

    def emit(self, layer: FloatContraction, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        return add_sums(layer, graph, inputs[0], Sums(layer.weights, layer.bias, layer.output.name))


class ContractionLowering(LiteRtLowering[C]):
    """One operator for int8; for float32 the numbers of the codes, the sums, the products with m, and the rounding.

    A value outside the image has the zero point, which PAD of int8 writes.
    """

    operator: ClassVar[type[Layer] | tuple[type[Layer], ...]] = (QGemm, QLinearConv, QLinearMatMul)

    def unsupported(self, layer: C, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse windows that TFLite cannot have, and sums that neither int8 nor float32 can hold."""
        if (refusal := _more_windows(layer)) or self._of_codes(layer) is not None:
            return refusal
        if not layer.accumulator().float32_exact:
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

    def sums(self, layer: C, graph: Graph, x: Value, sums: Sums) -> Value:
        """Add the operator."""
        return add_sums(layer, graph, x, sums)

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


def _more_windows(layer: Linear) -> str | None:
    return windowed.unsupported(layer.window) if isinstance(layer, Convolution) else None


def add_sums(layer: Linear, graph: Graph, x: Value, sums: Sums) -> Value:
    """Add a convolution or FULLY_CONNECTED."""
    if isinstance(layer, Convolution):
        return windowed.convolve(layer, graph, x, sums)
    return _fully_connected(layer, graph, x, sums)


def _fully_connected(layer: Linear, graph: Graph, x: Value, sums: Sums) -> Value:
    """Add the sums over the last axis; a vector may have several rows, and the weights have the order of the input."""
    depth, width = sums.weights.shape
    rows = x.size // depth
    if rows > 1:
        x = graph.plain(x)
    matrix = np.ascontiguousarray(rows_of(sums.weights, x).T)
    flat = graph.reshape(x, (rows, depth))
    of_weights, of_bias = sums.scales(0)
    constants = [
        graph.constant(f"{sums.name}/weights", matrix, of_weights),
        graph.constant(f"{sums.name}/bias", sums.bias, of_bias),
    ]
    return graph.call(
        "FULLY_CONNECTED",
        [flat.tensor, *constants],
        sums.name,
        Value(flat.tensor, flat.shape, flat.dtype, offset=offset_of(layer.dtype)),
        shape=(rows, width),
        dtype=stored_type(layer.dtype) if sums.y is not None else flat.dtype,
        scales=sums.y,
        options={**PLAIN, "keepNumDims": False},
    )
