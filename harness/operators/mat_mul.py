"""MatMul (ONNX), float32, with constant weights (K, N): Gemm without bias, of each row of the vectors' last axis.

Of two activations it is a MatrixProduct.

acc  = 0
acc  = acc + A[r, k] * B[k, n]                         for k = 0 to K - 1: the product is rounded, then the sum
y[r, n] = acc
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer, fields
from harness.operators.fault_models import FaultModel
from harness.operators.gemm import FRAGMENT, Gemm, read_matrix
from harness.operators.linear import Linear
from harness.operators.matrix_product import MatrixProduct, is_product
from harness.operators.node import Node
from harness.operators.region import Division
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32
from harness.operators.tensor_facts import Variable
from harness.operators.text import Fragment

OF_ROWS = Fragment(
    "mat_mul_rows",
    117,
    """\
# ONNX MatMul of several rows: y[r, n] is the sum of A[r, k] * weights[k, n] from k = 0 on; each product and each sum is
# one IEEE float32 operation.
fragment mat_mul_rows(
    x: tensor<scalar>,                      # float32 (vectors, rows * K)
    weights: tensor<scalar>,                # float32 (K, N)
    bias: tensor<scalar>,                   # float32 (1, N): 0
    columns: integer[],                     # which columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class MatMul(Gemm):
    """The dense sum without bias, of each row."""

    # the columns of several rows are not adjacent
    division = Ability[Division](lambda layer: Division(layer) if layer.positions > 1 else Linear.division.func(layer))
    ONNX = (("", "MatMul"),)
    text = Gemm.text.but(
        """\
acc = 0
acc = acc + A[r, k] * B[k, n]                            for k = 0 to K - 1, each operation rounded to float32
y[r, n] = acc                                            for each row r of the last axis""",
        ("A", "B"),
        (FRAGMENT, OF_ROWS),
        parameters=(1,),
        chosen=lambda layer: layer.positions > 1,
        facts_of=lambda layer: Gemm.text.facts_of(layer) | ({"rows": layer.positions} if layer.positions > 1 else {}),
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the product of matrices, the axes before which are broadcast."""
        node.same_type(node.x, node.input(1), node.y)
        product(node, node.x, node.input(1))

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node; one whose second input is an activation as MatrixProduct."""
        if is_product(node):
            return MatrixProduct.read(node)
        node.require_inputs(2, 2)
        node.attributes({})
        source = node.activation(0, [FLOAT32])
        weights = read_matrix(node, source.shape[-1])
        written = fields(node, [source], (*source.shape[:-1], weights.shape[1]), FLOAT32)
        layer = cls(**written, weights=weights, bias=np.zeros(weights.shape[1], np.float32))
        return replace(layer, output=replace(layer.output, bound=layer.bound_of_output()))

    def patches(self, values: Array, padding: int) -> Iterator[tuple[slice, Array]]:  # noqa: ARG002 - none is padded
        """Yield all channels and the rows, (n * rows, K)."""
        yield slice(None), values.reshape(-1, len(self.weights))

    def by_channel(self, values: Array) -> Array:
        """Return the values with their columns, (n * rows, N)."""
        return values.reshape(-1, self.weights.shape[1])

    def arranged(self, values: Array) -> Array:
        """Return the inverse of `by_channel`."""
        return values.reshape(-1, self.size)

    def spread(self, values: Array) -> Array:
        """Return one value for each column, (N,), as one for each value of the output, (size,)."""
        return np.tile(values, self.positions)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of sums, and rows and columns that are exchanged."""
        yield from super().fault_models(*inputs)
        if self.positions > 1:
            right = self.prepare()(*inputs).reshape(len(inputs[0]), self.positions, -1)
            exchanged = np.ascontiguousarray(right.swapaxes(1, 2)).reshape(len(right), -1)
            yield FaultModel("the columns are stored one after the other", "the rows are", exchanged)


def product(node: Rules, a: Variable, b: Variable) -> None:
    """State the shapes of a product of matrices: the axes before the last two are broadcast, vectors have one axis."""

    def shapes(rank_a: int, rank_b: int) -> None:
        node.require(rank_a > 0 and rank_b > 0, "a factor has no axis")
        node.equals(a.size(-1), b.size(max(rank_b - 2, 0)))
        rows, columns = int(rank_a > 1), int(rank_b > 1)
        rank = max(rank_a, rank_b, 2) - 2 + rows + columns
        node.equals(node.y.rank, rank)
        if rows:
            node.equals(node.y.size(rank - 1 - columns), a.size(-2))
        if columns:
            node.equals(node.y.size(rank - 1), b.size(-1))
        for axis in range(rank - rows - columns):
            back = axis - (rank - rows - columns) - 2
            sources = [each.size(back) for each, own in ((a, rank_a), (b, rank_b)) if own >= -back]
            node.broadcast_sizes(node.y.size(axis), sources)

    node.given(a.rank, b.rank).then(shapes)
