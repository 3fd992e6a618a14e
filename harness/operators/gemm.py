"""Gemm (ONNX), float32: the fully connected layer, inputs (vectors, K), outputs (vectors, N).

w[k, n] = alpha * B[k, n],  bias[n] = beta * C[n]      each rounded to float32, on the host
acc     = bias[n] + 0
acc     = acc + A[k] * w[k, n]                         for k = 0 to K - 1: the product is rounded, then the sum
y[n]    = acc
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer, fields
from harness.operators.exact.stages import Axis, Source, Stage, fold
from harness.operators.float_contraction import FloatContraction, read_finite
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.staged import Staged
from harness.operators.tensor import FLOAT32
from harness.operators.tensor_facts import Variable
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "gemm",
    44,
    """\
# ONNX Gemm and MatMul: y[n] is the bias plus the products A[k] * weights[k, n], added from k = 0 on; each product and
# each sum is one IEEE float32 operation.
fragment gemm(
    x: tensor<scalar>,                      # float32 (vectors, K)
    weights: tensor<scalar>,                # float32 (K, N)
    bias: tensor<scalar>,                   # float32 (1, N)
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)
DEFAULTS = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}


@dataclass(frozen=True, eq=False)
class Gemm(FloatContraction, Staged):
    """The dense sum; every output has weights for all inputs."""

    ONNX = (("", "Gemm"),)
    text = FloatContraction.text.but(
        """\
A (vectors, K) and B (K, N), or B (N, K) transposed where transB is 1; C is 0 where it is not read.
acc = beta * C[n]                                        in float32, and -0 counts as 0
acc = acc + A[k] * (alpha * B[k, n])                     for k = 0 to K - 1, each operation rounded to float32
y[n] = acc""",
        ("A", "B", "C"),
        (FRAGMENT,),
        parameters=(1, 2),
    )

    def definition(self) -> Stage:
        """Return the sum of products of each row."""
        (depth, width), rows = self.weights.shape, self.positions
        r, m, k = Axis("r", rows), Axis("m", width), Axis("k", depth)
        x, bias = Source("x", (r, k)), Source("bias", (m,), is_constant=True)
        weights = Source("weights", (k, m), is_constant=True)
        return fold("y", (r, m), (k,), bias[m] + 0, lambda y: y + x[r, k] * weights[k, m])

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the product of matrices, and that the bias is broadcast."""
        node.same_type(*node.given_inputs, node.y)
        flags = [bool(node.attribute(name, 0)) for name in ("transA", "transB")]
        product_of_matrices(node, node.x, node.input(1), node.has(2), *flags)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node with constant, finite weights."""
        node.require_inputs(2, 3)
        source = node.vector(0, [FLOAT32])
        attributes = node.attributes(DEFAULTS)
        if attributes["transA"]:
            raise node.refusal("transA is 1", "transA 0: a vector is a row")
        weights = read_matrix(node, source.size, transposed=bool(attributes["transB"]))
        bias = np.zeros(weights.shape[1], np.float32)
        if node.has(2):
            given = read_finite(node, 2, "bias")
            if given.shape not in ((), (1,), bias.shape, (1, *bias.shape), (1, 1)):
                raise node.refusal(f"the bias has shape {given.shape}", f"shape (), (1,), {bias.shape} or (1, N)")
            bias = np.broadcast_to(given.reshape(-1), bias.shape)
        with np.errstate(over="ignore"):
            factors = (_times(attributes["alpha"], weights), _times(attributes["beta"], bias))
        if not all(np.isfinite(factor).all() for factor in factors):
            raise node.refusal("alpha * B or beta * C overflows", "weights that float32 has")
        layer = cls(**fields(node, [source], bias.shape, FLOAT32), weights=factors[0], bias=factors[1])
        return replace(layer, output=replace(layer.output, bound=layer.bound_of_output()))


def _times(factor: float, values: Array) -> Array:
    """Return the float32 product; 1, the usual factor, needs no memory for it."""
    return values if factor == 1 else np.float32(factor) * values


def read_matrix(node: Node, depth: int, *, transposed: bool = False) -> Array:
    """Return the constant matrix B as (K, N) with K = `depth`."""
    weights = read_finite(node, 1, "weight")
    if weights.ndim == 2 and transposed:
        weights = np.ascontiguousarray(weights.T)
    if weights.ndim != 2 or weights.shape[0] != depth or weights.size == 0:
        shape = "(N, K)" if transposed else "(K, N)"
        raise node.refusal(
            f"the weights have shape {node.constants[node.inputs[1]].shape}, the input has width {depth}",
            f"shape {shape} with K = {depth} and N of 1 or more",
        )
    return weights


def product_of_matrices(
    node: Rules, a: Variable, b: Variable, bias: Variable | None, transposed_a: bool, transposed_b: bool
) -> None:
    """State the shapes of a product of two matrices, one of which may be transposed, and a bias."""
    for matrix in (a, b, node.y):
        node.equals(matrix.rank, 2)
    node.equals(a.size(1 - transposed_a), b.size(int(transposed_b)))
    node.equals(node.y.size(0), a.size(int(transposed_a))).equals(node.y.size(1), b.size(1 - transposed_b))
    if bias is not None:
        node.broadcast(node.y, [node.y, bias])
