"""QLinearAveragePool (com.microsoft): the mean of each window of an image (channels, height, width) or a sequence.

s = sum of float32((x - x_zero_point) * x_scale) over the values of the window in the image, row by row, in float32
v = float32(float32(float32(s / count) / y_scale) + y_zero_point)
y = saturate(round_half_even(v))                                                            uint8, int8

`count` is the number of values in the image, or with count_include_pad that of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, text
from harness.operators.base import Ability, Constants, Layer, fields, limits
from harness.operators.code_sums import Rounded
from harness.operators.codes import Affine, thresholds_of
from harness.operators.exact import CACHED_LAYERS, bits_of, from_ordered, quantised
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import INT32, Expression, code, integer, literal, number
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import Source, Stage, array, constant, fold, loads, program
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors
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
    mixed_parts,
    samples,
)
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.operators.rules import Rules
from harness.operators.staged_codes import StagedCodes
from harness.operators.tensor import INT8, UINT8
from harness.operators.text import ROUND_HALF_EVEN, Fragment, Text
from harness.operators.window import DEFAULTS, Window
from harness.operators.windowed import Windowed, pooled

FRAGMENT = Fragment(
    "qlinear_average_pool",
    47,
    """\
# com.microsoft QLinearAveragePool -> uint8 or int8 (type): the mean of each window.
# (a - a_zero_point) * a_scale is one IEEE float32 operation, and so is each addition of the sum, row by row; the mean,
# the division by y_scale and the addition of y_zero_point are three, then the number is rounded half to even.  Values
# outside the image are left out; they count if count_include_pad is true.
fragment qlinear_average_pool(
    a: tensor<scalar>,                      # codes (vectors, channels * height * width)
    window: tensor<integer>,                # int32 (6, 2): image, kernel, stride, dilation, padding before, output
    count_include_pad: logical,
    a_scale: scalar, a_zero_point: integer,
    y_scale: scalar, y_zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    (ROUND_HALF_EVEN,),
)
CODES = 256
Quotient = Callable[[Expression, Expression, Expression, Expression], Expression]
OF_INTEGERS: dict[str, Quotient] = {
    "the sum is one of integers, then dequantised": lambda s, count, x, y: s * x / count / y,
    "the sum is one of integers, multiplied by x_scale / (y_scale * count)": (
        lambda s, count, x, y: s * (x / (y * count))
    ),
    "the mean of integers is multiplied by x_scale / y_scale": lambda s, count, x, y: s / count * (x / y),
}
"""Wrong quotients of sums of integers."""


@dataclass(frozen=True, eq=False)
class QLinearAveragePool(Windowed, StagedCodes):
    """The float32 mean of each window, quantised.

    A node whose only window is the whole image is read as QLinearGlobalAveragePool, as ONNX Runtime computes it.
    Measured with ONNX Runtime 1.31.1 on x86-64: no value differs in 2,000 random choices of shapes, windows, padding,
    scales and zero points.
    """

    errors = Ability(partial(Errors, rising=True))
    ONNX = (("com.microsoft", "QLinearAveragePool"),)
    text = Text(
        """\
s = sum of (X - x_zero_point) * x_scale over a window, row by row       in float32, each operation rounded
v = s / count / y_scale + y_zero_point                         in float32; count: values in the image, or of the kernel
y = round_half_even(v)                                         clamped to uint8 or int8""",
        ("X", "x_scale", "x_zero_point", "y_scale", "y_zero_point"),
        (FRAGMENT,),
        facts_of=lambda layer: (
            layer.window.facts() | {name: value for name, value in layer.constants().items() if name != "window"}
        ),
        summary_of=lambda layer: (
            f"{text.floats(layer.x.scale)} to {text.floats(layer.y.scale)}",
            f"{layer.x.zero_point} to {layer.y.zero_point}",
            f"kernel {'x'.join(map(str, layer.window.kernel))}",
        ),
    )
    rounded = Ability(lambda layer: Rounded(layer.y.zero_point, before=layer.before_rounding, check=layer.check_table))

    count_include_pad: bool
    x: Affine
    y: Affine

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of windows of codes, one channel each."""
        pooled(node)
        node.same_type(node.x, node.has(2)).same_type(node.y, node.has(4)).per_tensor(1).per_tensor(3)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node over images or sequences whose sums are finite."""
        node.require_inputs(5, 5)
        source = node.activation(0, [UINT8, INT8])
        attributes = node.attributes(DEFAULTS | {"ceil_mode": 0, "channels_last": 0, "count_include_pad": 0})
        if attributes["channels_last"]:
            raise node.refusal("channels_last is 1", "channels_last 0: images (vectors, channels, height, width)")
        window = Window.of_pooling(node, source, attributes)
        padded = attributes["auto_pad"] == b"NOTSET" and any(attributes["pads"])
        if window.kernel == window.shape and window.positions == 1 and not padded:
            return QLinearGlobalAveragePool.of(node, source)
        x, y = (Affine.read(node, position, name, source.dtype) for position, name in ((1, "x"), (3, "y")))
        with np.errstate(over="ignore"):
            if not np.isfinite(x.scale * np.float32(CODES * window.size)):
                raise node.refusal(f"the scale of x is {x.scale}", "a smaller one: a sum could overflow")
        shape = (source.shape[0], *window.result(source))
        include = bool(attributes["count_include_pad"])
        return cls(**fields(node, [source], shape, source.dtype), window=window, count_include_pad=include, x=x, y=y)

    def constants(self) -> Constants:
        """Return the window, then the numbers."""
        return {
            "window": self.window.table(),
            "count_include_pad": self.count_include_pad,
            "a_scale": self.x.scale,
            "a_zero_point": self.x.zero_point,
            "y_scale": self.y.scale,
            "y_zero_point": self.y.zero_point,
            **limits(self.dtype),
        }

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the divisor of each position, int64 (positions,)."""
        inside = self.window.inside().sum(axis=1)
        return np.full_like(inside, self.window.size) if self.count_include_pad else inside

    def terms(self) -> tuple[npt.NDArray[np.int64], int]:
        """Return float32((x - x_zero_point) * x_scale) for all codes, int64 (256,), and the exponent of its unit.

        The unit is the last place of x_scale, of which every term and every sum is a multiple.
        """
        bits = bits_of(self.x.dequantised(self.dtype))
        magnitude, exponent = (
            softfloat.decode(bits),
            int(softfloat.decode(bits_of(np.atleast_1d(self.x.scale))).exponent[0]),
        )
        values = magnitude.significand << np.maximum(magnitude.exponent - exponent, 0)
        return np.where(bits & softfloat.SIGN_BIT, -values, values), exponent

    def numbers(self) -> Mapping[str, Any]:
        """Return the divisors, the scales and the zero points."""
        return self._numbers | {"count": self.counts().astype(np.float32)}

    @property
    def _numbers(self) -> dict[str, Any]:
        """The scales and the zero points."""
        return {
            "input_step": self.x.scale,
            "input_zero_point": np.int32(self.x.zero_point),
            "output_step": self.y.scale,
            "output_zero_point": np.int32(self.y.zero_point),
        }

    def definition(self) -> Stage:
        """Return the rounded quotient of the sum of each window."""
        return self._quotient(lambda s, count, _, y_scale: s / count / y_scale)

    def _quotient(self, quotient: Quotient, *, is_of_integers: bool = False, is_late: bool = False) -> Stage:
        """Return the definition with another quotient of sum, count and both scales.

        Sums of integers are not dequantised; a late zero point is added after the rounding.
        """
        out, over, value = self.loads()
        scales = constant("input_step"), constant("output_step")
        input_zero_point, zero_point = (constant(f"{place}_zero_point", INT32) for place in ("input", "output"))
        difference = integer(value) - input_zero_point
        if is_of_integers:
            s = fold("s", out, over, literal(0, INT32), lambda s: s + difference)
        else:
            s = fold("s", out, over, 0, lambda s: s + number(difference) * scales[0])
        total = number(s[out]) if is_of_integers else s[out]
        v = quotient(total, Source("count", out[1:], is_constant=True)[out[1:]], *scales)
        y = code(v, zero_point, self.dtype) if is_late else code(v + number(zero_point), 0, self.dtype)
        return array("y", out, y)

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def thresholds(self) -> npt.NDArray[np.int64]:
        """Return the least sum that reaches each code above QMIN, as `ordered` int64 (counts, 255).

        The counts are the different ones of `counts`, in their order.
        """
        root, names = self._rounding()
        numbers = self._numbers | {"count": np.unique(self.counts()).astype(np.float32)[:, None]}
        return thresholds_of(root, names.pop("s"), {name: np.atleast_1d(numbers[role]) for role, name in names.items()})

    def _rounding(self) -> tuple[Expression, dict[str, str]]:
        """Return the last expression of the definition, and the names of its values by those of the arrays."""
        root = self.program.result.root
        return root, {source.name: node.name for node, source, _ in loads(root)}

    def check_table(self, table: Array) -> tuple[int, str]:
        """Compare both sides of every threshold; division, addition and rounding are monotone between them."""
        counts, (root, names) = np.unique(self.counts()), self._rounding()
        if len(table) != len(counts):
            return 0, f"there are thresholds for {len(table)} counts, not {len(counts)}"
        cases = 0
        for count, thresholds in zip(counts.tolist(), table.astype(np.int64), strict=True):
            ends = softfloat.INFINITY_BITS
            keys = np.unique(np.clip([thresholds, thresholds - 1], 1 - ends, ends - 1))
            sums = from_ordered(keys)
            numbers = self._numbers | {"count": np.float32(count), "s": sums}
            expected = Evaluation(root).at_once({name: numbers[role] for role, name in names.items()})
            found = quantised(np.searchsorted(thresholds, keys, side="right"), self.dtype)
            cases += len(keys)
            for at in np.flatnonzero(expected != found):
                where = f"count {count}: sum {sums[at]!s}"
                return cases, f"{where} becomes {found[at]} by its thresholds, {expected[at]} by the formula"
        return cases, ""

    def alternatives(self) -> Iterator[tuple[str, Program]]:
        """Yield other orders of operations, and other divisors."""
        late = self._quotient(lambda s, count, _, y: s / count / y, is_late=True)
        yield "the zero point of y is added after rounding", Program(program(late), self.numbers())
        joint = self._quotient(lambda s, count, _, y: s / (count * y))
        yield "the sum is divided by count * y_scale", Program(program(joint), self.numbers())
        for cause, quotient in OF_INTEGERS.items():
            other = self._quotient(quotient, is_of_integers=True)
            yield cause, Program(program(other), self.numbers())
        inside = self.window.inside()
        if not inside.all():
            other_window = replace(self, count_include_pad=not self.count_include_pad)
            cause = "padding does not count" if self.count_include_pad else "padding counts"
            yield cause, other_window.program

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of the definition, and channels in another layout."""
        yield from super().fault_models(*inputs)
        [x] = inputs
        last = x.reshape(len(x), -1, self.input.shape[0]).swapaxes(1, 2).reshape(x.shape)
        yield FaultModel("the channels are read as the last axis", "they are the first", self.prepare()(last))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no floats
        """Yield each value of a window alone, vectors of a few codes, and random ones."""
        evaluate, codes = self.prepare(), all_codes(self.dtype)
        place = np.tile(self.window.alignments()[0], self.input.shape[0])

        def single_values() -> Iterator[Array]:
            for of_window in range(self.window.size):
                for others in (self.x.zero_point, int(codes[-1]), int(codes[0])):
                    yield np.where(place == of_window, codes[:, None], self.dtype.type(others))

        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "every mean has each value of its window, and every zero point and scale is accounted for",
            "each value of a window at each of its 256 codes, all others at the zero point, highest or lowest code",
            3 * CODES * self.window.size * self.size,
            Outputs(single_values, evaluate),
        )
        count = samples(self.size)

        def others() -> Iterator[Array]:
            yield from mixed_parts(codes, self.input.size)
            yield np.random.default_rng(0).choice(codes, (count, self.input.size))

        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "the values of a window add up",
            f"{MIXED}; {count:,} random vectors; not complete",
            (VECTORS + count) * self.size,
            Outputs(others, evaluate),
            complete=False,
        )
        yield self.of_pairs(self.x.zero_point)

    def assumptions(self) -> Iterator[str]:
        """Yield that sums of more than two values are samples."""
        yield (
            "QLinearAveragePool adds and rounds the values of a window in the same way for all codes: each value alone "
            "at each code, any pair of codes of two values, vectors of a few codes, and random vectors were tried."
        )
