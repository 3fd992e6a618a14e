"""QLinearMatMul (ONNX) with constant weights (K, N): QGemm without bias, of other inputs.

acc[n] = sum_k (a[k] - a_zero_point) * (b[k, n] - b_zero_point[n])            in int32
m[n]   = (a_scale * b_scale[n]) / y_scale                                     float32
y[n]   = saturate(round_half_even(float32(acc[n]) * m[n]) + y_zero_point)     uint8, int8
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators.base import ALONE
from harness.operators.contraction import weight_quantisation
from harness.operators.mat_mul import product
from harness.operators.node import Node
from harness.operators.qgemm import QGemm, read_weights
from harness.operators.rules import Rules
from harness.operators.scaled_sum import Scales
from harness.operators.tensor import INT8, UINT8

ALONE_ZERO_POINT = "alone/zero_point"
WEIGHTS, SCALES, WEIGHTS_ZERO_POINT = "alone/weights", "alone/scales", "alone/weights_zero_point"
DIGIT = 127
"""Largest weight and input of a node that is computed alone."""


@dataclass(frozen=True, eq=False)
class QLinearMatMul(QGemm):
    """The dense contraction without bias."""

    ONNX = (("", "QLinearMatMul"),)
    text = QGemm.text.but(
        """\
A (vectors, K) and B (K, N) are codes.
acc[n] = sum over k of (A[k] - a_zero_point) * (B[k, n] - b_zero_point[n])     in int32
m[n] = (a_scale * b_scale[n]) / y_scale                        in float32, in this order
v[n] = float32(acc[n]) * m[n]                                  in float32, the conversion rounded half to even
y[n] = round_half_even(v[n]) + y_zero_point                    clamped to uint8 or int8
A b_scale or b_zero_point of one value serves every n.""",
        ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "y_scale", "y_zero_point"),
        parameters=(3,),
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the product of matrices of codes."""
        product(node, node.x, node.input(3))
        node.same_type(node.y, node.has(7)).same_type(node.x, node.has(2)).same_type(node.input(3), node.has(5))
        for position in (1, 4, 6):
            node.quantised(position)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant weights whose accumulators fit into int32."""
        node.require_inputs(8, 8)
        source = node.vector(0, [UINT8, INT8])
        node.attributes({})
        weights = read_weights(node, source, transposed=False)
        width = weights.shape[1]
        b_scale, weights_zero_point = weight_quantisation(node, 4, weights.dtype, width)
        scales = Scales(
            alpha=np.float32(1),
            a=node.scale(1, "scale of a"),
            b=np.broadcast_to(b_scale.reshape(-1), width),
            y=node.scale(6, "scale of y"),
        )
        y_zero_point = int(node.single(7, "zero point of y", [source.dtype]))
        return cls.of(node, source, weights, weights_zero_point, np.zeros(width, np.int32), scales, y_zero_point)

    def isolate(self, node: onnx.NodeProto) -> tuple[list[onnx.ValueInfoProto], Callable[[Array], dict[str, Array]]]:
        """Feed the node with a row and, for each vector, a matrix whose columns are the digits of the accumulators.

        Digit 0 is multiplied with 1, the others with 127.
        """
        low, high = self.accumulator_bounds()
        digits = 2 + int(max(-low.min(), high.max()) + DIGIT) // (DIGIT * DIGIT)
        row = np.full((1, 1, digits), DIGIT, self.input.dtype)
        row[..., 0] = 1
        per_column = [None, 1, self.size] if self.per_column else []
        for position, name in ((0, ALONE), (2, ALONE_ZERO_POINT), (3, WEIGHTS), (4, SCALES), (5, WEIGHTS_ZERO_POINT)):
            node.input[position] = name
        codes = onnx.helper.np_dtype_to_tensor_dtype(self.input.dtype)
        inputs = [
            onnx.helper.make_tensor_value_info(ALONE, codes, row.shape),
            onnx.helper.make_tensor_value_info(ALONE_ZERO_POINT, codes, []),
            onnx.helper.make_tensor_value_info(WEIGHTS, onnx.TensorProto.INT8, [None, digits, self.size]),
            onnx.helper.make_tensor_value_info(WEIGHTS_ZERO_POINT, onnx.TensorProto.INT8, per_column),
            onnx.helper.make_tensor_value_info(SCALES, onnx.TensorProto.FLOAT, per_column),
        ]

        def feed(bits: Array) -> dict[str, Array]:
            of_127, of_1 = np.divmod(bits.view(np.int32).astype(np.int64)[:, None], DIGIT)
            shape = (len(bits), 1, self.size) if self.per_column else ()
            least, more = np.divmod(of_127, digits - 1)
            others = least.astype(np.int8) + (np.arange(digits - 1)[:, None] < more)
            return {
                ALONE: row,
                ALONE_ZERO_POINT: np.zeros((), self.input.dtype),
                WEIGHTS: np.concatenate([of_1.astype(np.int8), others.astype(np.int8)], axis=1),
                WEIGHTS_ZERO_POINT: np.zeros(shape, np.int8),
                SCALES: np.broadcast_to(self.scales.b, shape) if self.per_column else self.scales.b[:1].reshape(shape),
            }

        return inputs, feed
