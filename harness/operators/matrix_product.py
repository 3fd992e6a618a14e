"""MatMul (ONNX), float32, of two activations, or of a constant and an activation behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Constants, fields
from harness.operators.exact.stages import Axis, Source, Stage, fold, formula, program
from harness.operators.fault_models import FaultModel
from harness.operators.float_contraction import read_finite
from harness.operators.float_errors import gamma
from harness.operators.node import Node
from harness.operators.staged import ROUNDED, Staged
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment

FACTORS = "a {shape} and b {other} cannot be multiplied: a has {columns} columns, b {rows} rows"
Shape = tuple[int, ...]


def definition(a: Shape, b: Shape, *, constant: bool = False) -> Stage:
    """Return the sums of products of matrices, the last two axes; axes before them of size 1 are repeated.

    With `constant`, `a` is a table of the layer, and b the input.
    """
    outer = [Axis(f"o{number}", max(pair)) for number, pair in enumerate(zip(a[:-2], b[:-2], strict=True))]
    r, m, k = Axis("r", a[-2]), Axis("m", b[-1]), Axis("k", a[-1])
    names = ("a", "x") if constant else ("x", "x1")
    first, second = (_source(name, shape) for name, shape in zip(names, (a, b), strict=True))
    places = [[axis if size > 1 else 0 for axis, size in zip(outer, shape, strict=False)] for shape in (a, b)]

    def step(y: Any) -> Any:
        return y + first[(*places[0], r, k)] * second[(*places[1], k, m)]

    return fold("y", (*outer, r, m), (k,), 0, step)


def _source(name: str, shape: Shape) -> Source:
    return Source(name, tuple(Axis(f"{name}{axis}", size) for axis, size in enumerate(shape)), is_constant=name == "a")


FORMULA = formula(program(definition((2, 2), (2, 2))))


def _fragment(name: str, order: int, factor: str) -> Fragment:
    return Fragment(
        name,
        order,
        f"""\
# ONNX MatMul whose second factor is an activation: {ROUNDED}.
#     {FORMULA[0]}
fragment {name}(
{factor}    axes: tensor<integer>,                  # int32 (2, axes): the sizes of both factors
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )


FRAGMENTS = (
    _fragment(
        "matrix_product",
        131,
        """\
    x: tensor<scalar>,                      # float32 (vectors, N)
    x1: tensor<scalar>,                     # float32 (vectors, M)
""",
    ),
    _fragment(
        "matrix_product_of_constant",
        132,
        """\
    x1: tensor<scalar>,                     # float32 (vectors, M)
    a: tensor<scalar>,                      # float32, the first factor
""",
    ),
)


@dataclass(frozen=True, eq=False)
class MatrixProduct(Staged):
    """y[r, m] = a[r, 0] * b[0, m] + ... + a[r, K - 1] * b[K - 1, m], from k = 0 on, for each matrix of the others."""

    ONNX: ClassVar[tuple[tuple[str, str], ...]] = ()
    text = Staged.text.but("\n".join(FORMULA), ("A", "B"), FRAGMENTS, chosen=lambda layer: layer.constant is not None)

    shapes: tuple[Shape, Shape]
    constant: Array | None

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a MatMul whose second factor is an activation; MatMul reads those with a constant one."""
        node.require_inputs(2, 2)
        node.attributes({})
        second = node.activation(1, [FLOAT32])
        constant = read_finite(node, 0, "factor") if node.inputs[0] in node.constants else None
        if constant is not None:
            constant = constant.reshape((1,) * (len(second.shape) - constant.ndim) + constant.shape)
        sources = [second] if constant is not None else [node.activation(0, [FLOAT32]), second]
        shapes = (sources[0].shape if constant is None else constant.shape, second.shape)
        _require_factors(node, *shapes)
        outer = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
        depth = shapes[0][-1]
        first = sources[0].bound if constant is None else float(np.abs(constant).max())
        bound = depth * first * second.bound * (1 + 2 * gamma(depth + 1))
        written = fields(
            node, sources, (*outer, shapes[0][-2], shapes[1][-1]), FLOAT32, bound if bound < LARGEST else math.inf
        )
        return cls(**written, shapes=shapes, constant=constant)

    def definition(self) -> Stage:
        """Return the definition for the shapes of the factors."""
        return definition(*self.shapes, constant=self.constant is not None)

    def numbers(self) -> dict[str, Array]:
        """Return the constant factor, if there is one."""
        return {} if self.constant is None else {"a": self.constant}

    def constants(self) -> Constants:
        """Return the sizes of both factors, and the constant one."""
        factors = {name: values.reshape(-1) for name, values in self.numbers().items()}
        return {**factors, "axes": np.array(self.shapes, np.int32)}

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield a factor that is read as if it were transposed, and the mutants of the definition."""
        for number, (values, shape) in enumerate(zip(inputs, self._read_shapes, strict=True)):
            if shape[-1] > 1 and shape[-2] > 1:
                matrices = values.reshape(len(values), *shape[:-2], shape[-1], shape[-2])
                other = np.ascontiguousarray(np.swapaxes(matrices, -1, -2)).reshape(values.shape)
                wrong = self.prepare()(*inputs[:number], other, *inputs[number + 1 :])
                yield FaultModel(f"factor {'AB'[number]} is read by columns", "by rows", wrong)
        yield from super().fault_models(*inputs)

    @property
    def _read_shapes(self) -> tuple[Shape, ...]:
        return self.shapes if self.constant is None else self.shapes[1:]


def _require_factors(node: Node, a: Shape, b: Shape) -> None:
    """Refuse shapes, of one vector, whose product would mix vectors, or that do not fit each other."""
    if len(a) < 2 or len(b) < 2 or len(a) != len(b):
        raise node.refusal(
            f"the factors have the shapes (vectors, {a}) and (vectors, {b})",
            "two factors of the same number of axes, at least two of them behind that of the vectors",
        )
    try:
        np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError as error:
        raise node.refusal(
            f"the axes before the matrices, {a[:-2]} and {b[:-2]}, differ", "equal ones, or 1"
        ) from error
    if a[-1] != b[-2]:
        raise node.refusal(FACTORS.format(shape=a, other=b, columns=a[-1], rows=b[-2]), "factors that fit each other")


def is_product(node: Node) -> bool:
    """Return whether the second factor of a MatMul is an activation."""
    return len(node.inputs) == 2 and node.inputs[1] not in node.constants
