"""QLinearSoftmax (com.microsoft) over the last axis, uint8 or int8; N values of it are a row.

t[i] = float32(exp((i - 255 + r) * x_scale)), i = 0 .. 255, in float64
       r = (logf(float32(largest float32 / N)) - 5) / x_scale, so that no sum of N entries overflows
e[n] = t[255 + x[n] - max(x)];  s = e[0] + e[1] + ... in this order;  c = floor(float32(1 / y_scale))
v = float32(float32(e[n] * c) / s)
y = saturate(round_half_even(v) + y_zero_point)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import softfloat, text
from harness.operators.base import Ability, Constants, Evaluate, Layer, fields, limits
from harness.operators.code_sums import Rounded
from harness.operators.codes import Affine, rounded
from harness.operators.counters import VALUES
from harness.operators.exact import CACHED_LAYERS, bits_of
from harness.operators.fault_models import Codes, FaultModel, Single, wrong_roundings
from harness.operators.lookup import LOOKUP
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    all_codes,
    every_byte,
    mixed,
    samples,
)
from harness.operators.rules import Rules
from harness.operators.sum_orders import OrderedSum, SumOrder
from harness.operators.tensor import INT8, LARGEST, UINT8
from harness.operators.text import ROUND_HALF_EVEN, Fragment, Text
from harness.operators.traits import Trait

RESERVED = 5.0
"""The natural logarithm of the room that is left above the largest sum."""
ORDER = "exponentials of x - max(x) from a table, summed in the order of the columns, then a product and a quotient"
FRAGMENT = Fragment(
    "qlinear_softmax",
    54,
    """\
# com.microsoft QLinearSoftmax of rows of `length` values, uint8 or int8 (type).  The table holds
# exp((i - 255) * x_scale) times a constant for i = 0 .. 255: computed once, and its bits are the constant.
# inverse = floor(1 / y_scale).  The sum is one of float32 in the order of the columns; product and quotient are one
# IEEE float32 operation each.
fragment qlinear_softmax(
    x: tensor<scalar>,                      # codes (vectors, N)
    table: tensor<scalar>,                  # float32 (1, 256)
    length: integer,
    inverse: scalar,
    x_scale: scalar,                        # the table holds it
    y_zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    type: string)
-> (y: tensor<scalar>)
{
    rows = reshape(x, shape = [0, -1, length]);
    place = reshape(rows - max_reduce(rows, axes = [2]) + scalar(high), shape = [0, -1]);
    entry = reshape(lookup(place, table, low = low), shape = [0, -1, length]);
    code = round_half_even(entry * inverse / sum_reduce(entry, axes = [2])) + scalar(y_zero_point);
    y = reshape(clamp(code, scalar(low), scalar(high)), shape = [0, -1]);
}
""",
    (ROUND_HALF_EVEN, LOOKUP),
)


@dataclass(frozen=True, eq=False)
class QLinearSoftmax(Layer):
    """y = saturate(round_half_even(e[n] * c / s) + y_zero_point).

    Measured with ONNX Runtime 1.31.1 on x86-64: 0 of 1,478,440 values differ, over 144 random choices of scales, zero
    points and up to 1,100 columns.  If 1 / y_scale is not rounded down, 1,454 differ; with a Softmax of float32 1,403.
    """

    ONNX = (("com.microsoft", "QLinearSoftmax"),)
    sum_order = Ability(lambda layer: SumOrder(layer, layer.ordered_sum))
    rounded = Ability(lambda layer: Rounded(layer.y.zero_point, before=layer.before_rounding))
    traits = Trait.NONE
    text = Text(
        """\
e[n] = exp((x[n] - max(x)) * x_scale), times a constant        a table of float32
v[n] = (e[n] * floor(1 / y_scale)) / (e[0] + e[1] + ...)       in float32; the sum in the order of the last axis
y[n] = round_half_even(v[n]) + y_zero_point                    clamped to uint8 or int8""",
        ("x", "x_scale", "x_zero_point", "y_scale", "y_zero_point"),
        (FRAGMENT,),
        summary_of=lambda layer: (
            f"{text.floats(layer.x_scale)} to {text.floats(layer.y.scale)}",
            str(layer.y.zero_point),
        ),
    )

    x_scale: np.float32
    y: Affine

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and the types of scales and zero points."""
        node.same(node.x, node.y).same_type(node.x, node.has(2), node.has(4)).per_tensor(1).per_tensor(3)
        node.given(node.x.rank).then(lambda rank: node.axis(node.attribute("axis", -1), rank))

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node over the last axis."""
        node.require_inputs(5, 5)
        source = node.activation(0, [UINT8, INT8])
        attributes = node.attributes({"axis": -1, "opset": 0})
        last = len(source.shape)
        if attributes["axis"] not in (last, -1):
            raise node.refusal(f"axis is {attributes['axis']}", f"axis {last} or -1: the last one")
        node.single(2, "zero point of x", [source.dtype])  # differences to the maximum do not depend on it
        x_scale, y = node.scale(1, "scale of x"), Affine.read(node, 3, "y", source.dtype)
        layer = cls(**fields(node, [source], source.shape, source.dtype), x_scale=x_scale, y=y)
        with np.errstate(over="ignore"):
            if not np.isfinite(layer.table()[-1] * layer.inverse):
                inverse = f"{layer.inverse:.8g}"
                raise node.refusal(
                    f"an exponential times 1 / y_scale, {inverse}, overflows", "more values, or a larger y_scale"
                )
        return layer

    @property
    def length(self) -> int:
        """The number of values of a row."""
        return self.input.shape[-1]

    @property
    def inverse(self) -> np.float32:
        """The largest integer up to float32(1 / y_scale)."""
        one, scale = bits_of(np.ones(1, np.float32)), bits_of(np.atleast_1d(self.y.scale))
        return np.float32(np.floor(softfloat.quotient(one, scale).view(np.float32)[0]))

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def table(self) -> Single:
        """Return the exponentials t, float32 (256,), each rounded from float64, that from 40 decimal digits."""
        context = Context(prec=40)
        largest, size = (bits_of(np.array([value], np.float32)) for value in (LARGEST, self.length))
        logarithm = context.ln(Decimal(float(softfloat.quotient(largest, size).view(np.float32)[0])))
        scale = float(self.x_scale)
        shift = max(0.0, float(np.float32(float(logarithm))) - RESERVED) / scale
        exponents = (Decimal((place - (VALUES - 1) + shift) * scale) for place in range(VALUES))
        return np.array([float(context.exp(exponent)) for exponent in exponents], np.float32)

    def prepare(self) -> Evaluate:
        """Return the function that sums in integer arithmetic, column by column."""
        table, inverse = bits_of(self.table()), bits_of(np.atleast_1d(self.inverse))

        def evaluate(x: Array) -> Array:
            entries = table[self._places(x)]
            total = entries[:, 0]
            for column in range(1, self.length):
                total = softfloat.add(total, entries[:, column]).astype(np.int64)
            products = softfloat.product(entries, inverse).astype(np.int64)
            v = softfloat.quotient(products, total[:, None]).view(np.float32)
            return rounded(v, self.y.zero_point, self.dtype).reshape(x.shape)

        return evaluate

    def _places(self, x: Array) -> Array:
        """Return the places of exponentials in the table, (rows of all vectors, length)."""
        codes = x.astype(np.intp).reshape(-1, self.length)
        places: Array = codes - codes.max(axis=1, keepdims=True) + VALUES - 1
        return places

    def constants(self) -> Constants:
        """Return the table, and the numbers of the formula."""
        return {
            "table": self.table(),
            "length": self.length,
            "inverse": self.inverse,
            "x_scale": self.x_scale,
            "y_zero_point": self.y.zero_point,
            **limits(self.dtype),
        }

    def before_rounding(self, *inputs: Array) -> Single:
        """Return the float32 that each output is rounded from, clamped."""
        return self._codes.clamp(self._quotients(self.table()[self._places(inputs[0])])).reshape(inputs[0].shape)

    @property
    def _codes(self) -> Codes:
        return Codes(self.y.zero_point, self.dtype)

    def _quotients(self, entries: Single, inverse: np.float32 | None = None) -> Single:
        total = np.cumsum(entries, axis=1, dtype=np.float32)[:, -1:]
        quotients: Single = entries * (self.inverse if inverse is None else inverse) / total
        return quotients

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of exponentials of all rows, (rows,)."""
        entries = self.table()[self._places(inputs[0])]
        products = entries * self.inverse
        shape = inputs[0].shape
        return OrderedSum(entries.T, lambda sums: self._codes.nearest(products / sums[:, None]).reshape(shape))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong sums, inverses, tables and roundings."""
        [x] = inputs
        places, table, codes = self._places(x), self.table(), self._codes
        entries = table[places]
        yield from self.sum_order.faults(x)
        with np.errstate(all="ignore"):
            yield from wrong_roundings(self._quotients(entries).reshape(x.shape), codes)
            total = entries.astype(np.float64).sum(axis=1, keepdims=True)
            v = {
                "the last column is left out of the sum": entries
                * self.inverse
                / (total - entries[:, -1:]).astype(np.float32),
                "the inverse of y_scale is not rounded down": self._quotients(entries, 1 / self.y.scale),
                "the largest code is not subtracted": self._quotients(
                    table[x.astype(np.intp).reshape(places.shape) - codes.low]
                ),
                "the exponentials have base 2": self._quotients(
                    np.exp2((places - (VALUES - 1)) * self.x_scale).astype(np.float32)
                ),
            }
            for cause, wrong in v.items():
                yield FaultModel(cause, ORDER, codes.nearest(wrong).reshape(x.shape))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no floats
        """Yield codes that differ little and much, the largest in every column; not every vector can be tried."""
        count = VALUES + VECTORS + 2 * samples(self.size) + self.size
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "exponentials are summed in the order of the columns and divided, rounded as IEEE 754 says",
            f"{count:,} vectors: all codes in every column, near each other and far apart; {MIXED}; not complete",
            count * self.size,
            Outputs(self._vectors, self.prepare()),
            complete=False,
        )

    def _vectors(self) -> list[Array]:
        rng, low, shape = np.random.default_rng(0), np.iinfo(self.dtype).min, (samples(self.size), self.size)
        near = rng.integers(0, VALUES - 16, (shape[0], 1)) + rng.integers(0, 16, shape)
        one_large = 40 + 200 * np.eye(self.size, dtype=np.int64)
        drawn = np.concatenate([rng.integers(0, VALUES, shape), near, one_large]) + low
        return [every_byte(self.size, self.dtype), mixed(all_codes(self.dtype), self.size), drawn.astype(self.dtype)]

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that sums of samples show the order and the roundings."""
        yield "QLinearSoftmax rounds its sums and quotients as IEEE 754 requires: vectors were tried, not every one."
