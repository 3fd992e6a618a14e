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
from harness.operators.code_sums import CodeSums
from harness.operators.contraction import Contraction, output_quantisation, weight_quantisation
from harness.operators.exact.expression import INT32, integer
from harness.operators.exact.stages import Axis, Source, Stage, constant, fold
from harness.operators.gemm import product_of_matrices
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.scaled_sum import Scales
from harness.operators.tensor import FLOAT32, INT8, UINT8, Tensor
from harness.operators.text import ROUND_HALF_EVEN, Fragment

FORMULA = """\
A (vectors, K) and B (K, N), or B (N, K) transposed where transB is 1, are codes; C is 0 where it is not read.
acc[n] = C[n] + sum over k of (A[k] - a_zero_point) * (B[k, n] - b_zero_point[n])      in int32
m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale              in float32, in this order; alpha is 1 if not given
v[n] = float32(acc[n]) * m[n]                                  in float32, the conversion rounded half to even
v[n] = min(max(v[n], LOW - y_zero_point), HIGH - y_zero_point)
y[n] = round_half_even(v[n]) + y_zero_point                    of A's type
Without y_scale and y_zero_point the output is float32:
y[n] = float32(acc[n]) * ((alpha * a_scale) * b_scale[n])
A b_scale, b_zero_point or C of one value serves every n."""
ACCUMULATOR = Fragment(
    "qgemm_accumulator",
    30,
    """\
# acc[n] = bias[n] + sum over k of (a[k] - a_zero_point) * (weights[k, n] - weights_zero_point[n])
# All of it is integer arithmetic, exact in int32, so that the order of the sum does not matter.
fragment qgemm_accumulator(
    a: tensor<scalar>,                      # codes (vectors, K)
    weights: tensor<integer>,               # int8 or uint8 (K, N)
    weights_zero_point: tensor<integer>,    # int32 (1, N)
    bias: tensor<integer>,                  # int32 (1, N)
    a_zero_point: integer)
-> (accumulator: tensor<scalar>)
{
    centered = cast<scalar>(weights) - cast<scalar>(weights_zero_point);
    accumulator = matmul(a - scalar(a_zero_point), centered) + cast<scalar>(bias);
}
""",
)
PARAMETERS = """\
    a: tensor<scalar>,                      # codes (vectors, K)
    weights: tensor<integer>,               # int8 or uint8 (K, N)
    weights_zero_point: tensor<integer>,    # int32 (1, N)
    bias: tensor<integer>,                  # int32 (1, N)
    multiplier: tensor<scalar>,             # float32 (1, N)
    b_scale: tensor<scalar>,                # float32 (1, N): the multiplier holds it
    alpha: scalar, a_scale: scalar,         # float32: the multiplier holds them"""
QGEMM = Fragment(
    "qgemm",
    40,
    f"""\
# com.microsoft QGemm, the quantised fully connected layer, -> uint8 or int8 (type).
# multiplier[n] = ((alpha * a_scale) * b_scale[n]) / y_scale, each of the three one IEEE float32 operation: computed
# once, and its bits are the constant.  The accumulator is rounded to float32, the product is one IEEE float32
# operation.
fragment qgemm(
{PARAMETERS}
    a_zero_point: integer,
    y_scale: scalar,                        # float32: the multiplier holds it
    y_zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>)
{{
    accumulator = qgemm_accumulator(a, weights, weights_zero_point, bias, a_zero_point = a_zero_point);
    code = round_half_even(accumulator * multiplier) + scalar(y_zero_point);
    y = clamp(code, scalar(low), scalar(high));
}}
""",
    (ROUND_HALF_EVEN, ACCUMULATOR),
)
QGEMM_FLOAT32 = Fragment(
    "qgemm_float32",
    41,
    f"""\
# com.microsoft QGemm with a float32 result.
# multiplier[n] = (alpha * a_scale) * b_scale[n], both of them one IEEE float32 operation: computed once, and its bits
# are the constant.  The accumulator is rounded to float32, the product is one IEEE float32 operation.
fragment qgemm_float32(
{PARAMETERS}
    a_zero_point: integer,
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>)
{{
    y = qgemm_accumulator(a, weights, weights_zero_point, bias, a_zero_point = a_zero_point) * multiplier;
}}
""",
    (ACCUMULATOR,),
)

BIAS = 6  # the position of C among the inputs
ACCUMULATORS = "alone/accumulators"


@dataclass(frozen=True, eq=False)
class QGemm(Contraction):
    """The dense contraction; every output has weights for all inputs."""

    ONNX = (("com.microsoft", "QGemm"),)
    text = Contraction.text.but(
        FORMULA,
        ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point"),
        (QGEMM, QGEMM_FLOAT32),
        parameters=(3, 6),
        chosen=lambda layer: layer.scales.y is None,
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the product of matrices of codes, and an output of codes or float32."""
        product_of_matrices(
            node, node.x, node.input(3), node.has(6), *(bool(node.attribute(each, 0)) for each in ("transA", "transB"))
        )
        node.same_type(node.x, node.has(2)).same_type(node.input(3), node.has(5)).is_type(node.has(6), np.int32)
        node.same_type(node.y, node.has(8)) if node.has(8) else node.is_type(node.y, np.float32)
        node.per_channel(4, node.y.size(1))
        for position in (1, 7):
            node.per_tensor(position)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant weights whose accumulators fit into int32."""
        node.require_inputs(6, 9)
        source = node.vector(0, [UINT8, INT8])
        attributes = node.attributes({"alpha": 1.0, "transA": 0, "transB": 0})
        if attributes["transA"]:
            raise node.refusal("transA is 1", "transA 0: a vector is a row")
        weights = read_weights(node, source, transposed=bool(attributes["transB"]))
        width = weights.shape[1]
        b_scale, weights_zero_point = weight_quantisation(node, 4, weights.dtype, width)
        y_scale, y_zero_point = output_quantisation(node, 7, source.dtype)
        scales = Scales(
            alpha=np.float32(attributes["alpha"]),
            a=node.scale(1, "scale of a"),
            b=np.broadcast_to(b_scale.reshape(-1), width),
            y=y_scale,
        )
        return cls.of(node, source, weights, weights_zero_point, _bias(node, width), scales, y_zero_point)

    @classmethod
    def of(
        cls,
        node: Node,
        source: Tensor,
        weights: Array,
        weights_zero_point: Array,
        bias: npt.NDArray[np.int32],
        scales: Scales,
        y_zero_point: int,
    ) -> Self:
        """Return the layer with these constants; refuse sums beyond int32 and multipliers that are not normal."""
        multiplier, width = scales.multiplier(), weights.shape[1]
        node.normal(multiplier, "multiplier alpha * a_scale * b_scale / y_scale")
        layer = cls(
            **fields(node, [source], (width,), FLOAT32 if scales.y is None else source.dtype),
            weights=weights,
            weights_zero_point=np.broadcast_to(weights_zero_point, width).astype(np.int32),
            bias=bias,
            multiplier=multiplier,
            scales=scales,
            a_zero_point=int(node.single(2, "zero point of a", [source.dtype])),
            y_zero_point=y_zero_point,
            per_column=weights_zero_point.size > 1,
        )
        layer.require_int32(node)
        return layer if scales.y is not None else replace(layer, output=replace(layer.output, bound=layer._bound()))

    def summed(self) -> Stage:
        """Return the sum of each column."""
        n, k = Axis("n", self.size), Axis("k", self.input.size)
        weight = Source("weights", (n, k), self.weights.dtype, is_constant=True)[n, k]
        zero_point = Source("weights_zero_point", (n,), INT32, is_constant=True)[n]
        a = integer(Source("x", (k,), self.input.dtype)[k]) - constant("input_zero_point", INT32)
        bias = Source("bias", (n,), INT32, is_constant=True)[n]
        return fold("acc", (n,), (k,), bias, lambda acc: acc + a * (integer(weight) - zero_point))

    def code_sums(self) -> CodeSums:
        """Return the layer with its zero points folded into weights and offset."""
        weights = self.weights.astype(np.int64) - self.weights_zero_point
        offset = self.bias - self.a_zero_point * weights.sum(axis=0)
        return CodeSums(weights, offset, self.multiplier, self.y_zero_point)

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


def read_weights(node: Node, source: Tensor, *, transposed: bool) -> Array:
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


def _bias(node: Node, width: int) -> npt.NDArray[np.int32]:
    if not node.has(BIAS):
        return np.zeros(width, np.int32)
    bias = node.constant(BIAS, "bias", [np.dtype(np.int32)])
    if bias.shape not in ((), (1,), (width,), (1, width)):
        raise node.refusal(f"the bias has shape {bias.shape}", f"shape (), (1,), ({width},) or (1, {width})")
    return np.broadcast_to(bias.reshape(-1), width).astype(np.int32)
