"""QGemm (com.microsoft): the quantised fully connected layer, inputs (vectors, K), outputs (vectors, N).

acc[n] = bias[n] + sum_k (a[k] - a_zero_point) * (weights[k, n] - weights_zero_point[n])    in int32
m[n]   = ((alpha * a_scale) * b_scale[n]) / y_scale        float32; the division only for an integer output
y[n]   = saturate(round_half_even(float32(acc[n]) * m[n]) + y_zero_point)                   uint8, int8
y[n]   = float32(acc[n]) * m[n]                                                             float32
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators.base import ALONE, fields
from harness.operators.contraction import Contraction, Scales
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, INT8, UINT8, Tensor

BIAS = 6  # the position of C among the inputs
ACCUMULATORS = "alone/accumulators"


@dataclass(frozen=True, eq=False)
class QGemm(Contraction):
    """The dense contraction; every output has weights for all inputs."""

    ONNX = (("com.microsoft", "QGemm"),)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant weights whose accumulators fit into int32."""
        node.require_inputs(6, 9)
        source = node.activation(0, [UINT8, INT8])
        attributes = node.attributes({"alpha": 1.0, "transA": 0, "transB": 0})
        if attributes["transA"]:
            raise node.refusal("transA is 1", "transA 0: a vector is a row")
        weights = _weights(node, source, transposed=bool(attributes["transB"]))
        width = weights.shape[1]
        b_scale, weights_zero_point = _weight_quantisation(node, weights)
        y_scale, y_zero_point = _output_quantisation(node, source)
        scales = Scales(
            alpha=np.float32(attributes["alpha"]),
            a=node.scale(1, "scale of a"),
            b=np.broadcast_to(b_scale.reshape(-1), width),
            y=y_scale,
        )
        multiplier = scales.multiplier()
        node.normal(multiplier, "multiplier alpha * a_scale * b_scale / y_scale")
        layer = cls(
            **fields(node, [source], (width,), FLOAT32 if y_scale is None else source.dtype),
            weights=weights,
            weights_zero_point=np.broadcast_to(weights_zero_point, width).astype(np.int32),
            bias=_bias(node, width),
            multiplier=multiplier,
            scales=scales,
            a_zero_point=int(node.single(2, "zero point of a", [source.dtype])),
            y_zero_point=y_zero_point,
            per_column=b_scale.size > 1,
        )
        layer.require_int32(node)
        return layer if y_scale is not None else replace(layer, output=replace(layer.output, bound=layer._bound()))

    def slice(self, start: int, stop: int, name: str) -> Self:
        """Return some columns: a column depends on no other, so the parts side by side are the layer, bit for bit."""
        taken = slice(start, stop)
        return replace(
            self,
            name=name,
            output=replace(self.output, shape=(stop - start,)),
            weights=self.weights[:, taken],
            weights_zero_point=self.weights_zero_point[taken],
            bias=self.bias[taken],
            multiplier=self.multiplier[taken],
            scales=replace(self.scales, b=self.scales.b[taken]),
        )

    def isolate(self, node: onnx.NodeProto) -> tuple[list[onnx.ValueInfoProto], Callable[[Array], dict[str, Array]]]:
        """Feed the node with its input zero point, so that all products are 0, and accumulators as its bias."""
        element_type = onnx.helper.np_dtype_to_tensor_dtype(self.input.dtype)
        node.input[0] = ALONE
        node.input.extend([""] * (BIAS + 1 - len(node.input)))
        node.input[BIAS] = ACCUMULATORS
        inputs = [
            onnx.helper.make_tensor_value_info(ALONE, element_type, [None, None]),
            onnx.helper.make_tensor_value_info(ACCUMULATORS, onnx.TensorProto.INT32, [None, None]),
        ]

        def feed(bits: Array) -> dict[str, Array]:
            zeros = np.full((len(bits), self.input.size), self.a_zero_point, self.input.dtype)
            return {ALONE: zeros, ACCUMULATORS: bits.view(np.int32)}

        return inputs, feed

    def _bound(self) -> float:
        """Return the largest |y| of a float32 output."""
        largest = np.maximum(*map(np.abs, self.accumulator_bounds()))
        with np.errstate(over="ignore"):
            return float((largest.astype(np.float32) * self.multiplier).max())


def _weights(node: Node, source: Tensor, *, transposed: bool) -> Array:
    """Return B as (K, N), of a type that ONNX Runtime multiplies with the input's."""
    accepted = [UINT8, INT8] if source.dtype == UINT8 else [INT8]
    weights = node.constant(3, f"weight for a {source.dtype} input", accepted)
    if weights.ndim == 2 and transposed:
        weights = np.ascontiguousarray(weights.T)
    if weights.ndim != 2 or weights.shape[0] != source.size or weights.size == 0:
        shape = "(N, K)" if transposed else "(K, N)"
        raise node.refusal(
            f"the weights have shape {node.constants[node.inputs[3]].shape}, the input has width {source.size}",
            f"shape {shape} with K = {source.size} and N of 1 or more",
        )
    return weights


def _weight_quantisation(node: Node, weights: Array) -> tuple[Array, Array]:
    """Return b_scale and b_zero_point, both of shape (), (1,) or (N,), as ONNX Runtime requires."""
    scale = node.normal(node.constant(4, "scale of b", [FLOAT32]), "scale of b")
    zero_point = node.constant(5, "zero point of b", [weights.dtype])
    if scale.shape != zero_point.shape or scale.shape not in ((), (1,), (weights.shape[1],)):
        raise node.refusal(
            f"scale and zero point of b have shapes {scale.shape} and {zero_point.shape}",
            f"the same shape for both: (), (1,) or ({weights.shape[1]},)",
        )
    return scale, zero_point


def _bias(node: Node, width: int) -> npt.NDArray[np.int32]:
    if not node.has(BIAS):
        return np.zeros(width, np.int32)
    bias = node.constant(BIAS, "bias", [np.dtype(np.int32)])
    if bias.shape not in ((), (1,), (width,), (1, width)):
        raise node.refusal(f"the bias has shape {bias.shape}", f"shape (), (1,), ({width},) or (1, {width})")
    return np.broadcast_to(bias.reshape(-1), width).astype(np.int32)


def _output_quantisation(node: Node, source: Tensor) -> tuple[np.float32 | None, int]:
    """Return y_scale and y_zero_point; (None, 0) for a float32 output."""
    if node.has(7) != node.has(8):
        raise node.refusal(
            "has only one of y_scale and y_zero_point", f"both, for a {source.dtype} output, or none, for float32"
        )
    if not node.has(7):
        return None, 0
    return node.scale(7, "scale of y"), int(node.single(8, "zero point of y", [source.dtype]))
