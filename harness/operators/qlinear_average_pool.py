"""QLinearAveragePool (com.microsoft): the mean of each window of an image (channels, height, width) or a sequence.

s = sum of float32((x - x_zero_point) * x_scale) over the values of the window in the image, row by row, in float32
v = float32(float32(float32(s / count) / y_scale) + y_zero_point)
y = saturate(round_half_even(v))                                                            uint8, int8

`count` is the number of values in the image, or with count_include_pad that of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, text
from harness.operators.base import Ability, Constants, Evaluate, Layer, fields, limits
from harness.operators.code_sums import Rounded
from harness.operators.codes import Affine, thresholds_of
from harness.operators.counters import FindTies, Stimuli
from harness.operators.exact import CACHED_LAYERS, bits_of, from_ordered, quantised, saturate
from harness.operators.exact.expression import argument, code
from harness.operators.fault_models import HALF_TO_EVEN, Codes, FaultModel, Single, as_other_type, half_away
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
from harness.operators.sum_orders import OrderedSum, SumOrder
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
RIGHT = "s / count / y_scale + y_zero_point, three roundings, then rounded to an integer"
ORDER = "float32((x - x_zero_point) * x_scale) are added row by row, each sum rounded to float32"


@dataclass(frozen=True, eq=False)
class QLinearAveragePool(Windowed):
    """The float32 mean of each window, quantised.

    A node whose only window is the whole image is read as QLinearGlobalAveragePool, as ONNX Runtime computes it.
    Measured with ONNX Runtime 1.31.1 on x86-64: no value differs in 2,000 random choices of shapes, windows, padding,
    scales and zero points.
    """

    errors = Ability(partial(Errors, rising=True))
    sum_order = Ability(lambda layer: SumOrder(layer, layer.ordered_sum))
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
    stimuli = Ability(lambda layer: Stimuli(find_ties=layer.find_ties))
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
        shape = (source.shape[0], *window.output[3 - len(source.shape) :])
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
        inside = self.window.inside().sum(axis=(2, 3)).reshape(-1)
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

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def thresholds(self) -> npt.NDArray[np.int64]:
        """Return the least sum that reaches each code above QMIN, as `ordered` int64 (counts, 255).

        The counts are the different ones of `counts`, in their order.
        """
        count = np.unique(self.counts()).astype(np.float32)[:, None]
        y_scale, y_zero_point = np.array([self.y.scale]), np.array([self.y.zero_point], np.float32)
        definition = code(
            argument("s") / argument("count") / argument("y_scale") + argument("y_zero_point"), 0, self.dtype
        )
        return thresholds_of(definition, "s", {"count": count, "y_scale": y_scale, "y_zero_point": y_zero_point})

    def check_table(self, table: Array) -> tuple[int, str]:
        """Compare both sides of every threshold; division, addition and rounding are monotone between them."""
        counts = np.unique(self.counts())
        if len(table) != len(counts):
            return 0, f"there are thresholds for {len(table)} counts, not {len(counts)}"
        cases = 0
        for count, thresholds in zip(counts.tolist(), table.astype(np.int64), strict=True):
            ends = softfloat.INFINITY_BITS
            keys = np.unique(np.clip([thresholds, thresholds - 1], 1 - ends, ends - 1))
            sums = from_ordered(keys)
            with np.errstate(over="ignore"):
                v = sums / np.float32(count) / self.y.scale + np.float32(self.y.zero_point)
            expected = saturate(v, self.dtype, 0)
            found = quantised(np.searchsorted(thresholds, keys, side="right"), self.dtype)
            cases += len(keys)
            for at in np.flatnonzero(expected != found):
                where = f"count {count}: sum {sums[at]!s}"
                return cases, f"{where} becomes {found[at]} by its thresholds, {expected[at]} by the formula"
        return cases, ""

    def prepare(self) -> Evaluate:
        """Return the function that computes each operation as one of NumPy's in float32, which IEEE 754 determines."""
        return lambda x: self.codes.nearest(self._unrounded(x))

    def _unrounded(self, x: Array) -> Single:
        """Return v, (n, size); infinity saturates."""
        with np.errstate(over="ignore"):
            v = self._means(x) / self.y.scale + np.float32(self.y.zero_point)
        return v.reshape(len(x), -1)

    @property
    def codes(self) -> Codes:
        """The codes; the zero point is part of the float32 that are rounded."""
        return Codes(0, self.dtype)

    def before_rounding(self, *inputs: Array) -> Single:
        """Return the number that each value is rounded from, clamped."""
        return self.codes.clamp(self._unrounded(*inputs))

    def find_ties(self) -> FindTies:
        """Find means half way between two codes."""

        def find(x: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
            v = self._unrounded(x)
            with np.errstate(invalid="ignore"):  # infinity is no tie
                ties = (v - np.floor(v) == 0.5) & (v > self.codes.low) & (v < self.codes.high)
            return self.codes.nearest(v), ties

        return find

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of windows."""
        differences = self._differences(inputs[0])
        terms = np.moveaxis(differences.reshape(*differences.shape[:4], -1), 4, 0).astype(np.float32) * self.x.scale
        divisors, zero_point = self._divisors(), np.float32(self.y.zero_point)

        def finish(sums: Array) -> Array:
            return self.codes.nearest((sums / divisors / self.y.scale + zero_point).reshape(len(sums), -1))

        return OrderedSum(terms, finish)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong roundings, orders of operations, divisors, windows and types."""
        [x] = inputs
        yield from self.sum_order.faults(x)
        with np.errstate(all="ignore"):
            for cause, right, v in (*self._wrong_roundings(x), *self._wrong_means(x)):
                yield FaultModel(cause, right, self.codes.nearest(v.reshape(len(x), -1)))
            integers = np.clip(np.rint(self._unrounded(x)), -(2.0**31), 2.0**31).astype(np.int64)
        wrapped = integers.astype(np.uint8).view(self.dtype)
        yield FaultModel("wrap-around instead of saturation", "saturation to the range of the type", wrapped)

    def _wrong_roundings(self, x: Array) -> Iterator[tuple[str, str, Array]]:
        """Yield cause, right operation and the number that is rounded half to even in place of v."""
        v, late = self._unrounded(x).astype(np.float64), self._means(x) / self.y.scale
        yield "the zero point of y is added after rounding", RIGHT, np.rint(late) + np.float64(self.y.zero_point)
        yield "the zero point of y is left out", RIGHT, late
        yield "rounding is half away from zero", HALF_TO_EVEN, half_away(v)
        yield "rounding is down (floor)", HALF_TO_EVEN, np.floor(v)
        yield "rounding is up (ceil)", HALF_TO_EVEN, np.ceil(v)
        yield "rounding is truncation toward zero", HALF_TO_EVEN, np.trunc(v)

    def _wrong_means(self, x: Array) -> Iterator[tuple[str, str, Array]]:
        """Yield the same for other orders of operations, divisors, windows and types."""
        sx, sy, count, zero_point = self.x.scale, self.y.scale, self._divisors(), np.float32(self.y.zero_point)
        differences, sums = self._differences(x), self._sums(self._differences(x))
        total = differences.sum(axis=(4, 5), dtype=np.int64)
        whole: Single = total.astype(np.float32)
        by_columns = differences.swapaxes(4, 5)
        quotients = {
            "the sum is multiplied by 1 / count": sums * (1 / count) / sy,
            "the mean is multiplied by 1 / y_scale": sums / count * (1 / sy),
            "the sum is divided by count * y_scale": sums / (count * sy),
            "the sum is one of integers, then dequantised": whole * sx / count / sy,
            "the sum is one of integers, multiplied by x_scale / (y_scale * count)": whole * (sx / (sy * count)),
            "the mean of integers is multiplied by x_scale / y_scale": whole / count * (sx / sy),
            "the mean is in double precision": total * np.float64(sx) / count.astype(np.float64) / np.float64(sy),
            "the sum goes column by column": self._sums(by_columns) / count / sy,
        }
        for cause, quotient in quotients.items():
            yield cause, ORDER, quotient.astype(np.float32) + zero_point
        for cause, wrong, divisor in self._wrong_windows(x, differences):
            yield cause, "the windows of the node", self._sums(wrong) / divisor / sy + zero_point
        misread = as_other_type(x).astype(np.int16) - x
        of_other = differences + self.window.views(misread.reshape(len(x), self.input.shape[0], -1), 0)
        cause = f"the codes are read as {as_other_type(x).dtype}"
        yield cause, str(self.dtype), self._sums(of_other) / count / sy + zero_point

    def _wrong_windows(self, x: Array, differences: Array) -> Iterator[tuple[str, Array, Single]]:
        """Yield cause, differences (n, channels, *output, *kernel) and divisors."""
        count, size, inside = self._divisors(), np.float32(self.window.size), self.window.inside()
        yield "the zero point of x is left out", differences + self.x.zero_point * inside, count
        if not inside.all():
            other = inside.sum(axis=(2, 3)).astype(np.float32) if self.count_include_pad else np.full_like(count, size)
            cause = "padding does not count" if self.count_include_pad else "padding counts"
            yield cause, differences, other
            yield "padding is the code 0", differences - self.x.zero_point * ~inside, count
        for name, axis in (("row", 4), ("column", 5)):
            if differences.shape[axis] > 1:
                part = differences[:, :, :, :, : -1 if axis == 4 else None, : -1 if axis == 5 else None]
                yield f"the last {name} of the window is left out", part, count
        images = x.reshape(len(x), *self.window.shape, self.input.shape[0]).transpose(0, 3, 1, 2)
        yield "the channels are read as the last axis", self._differences(images.reshape(x.shape)), count

    def _differences(self, x: Array) -> Array:
        """Return x - x_zero_point in all windows, int16 (n, channels, *output, *kernel); 0 outside the image."""
        images = (x.astype(np.int16) - self.x.zero_point).reshape(len(x), self.input.shape[0], -1)
        return self.window.views(images, 0)

    def _divisors(self) -> Single:
        return self.counts().astype(np.float32).reshape(self.window.output)

    def _sums(self, differences: Array) -> Single:
        """Return the sums of windows, in their order; a value outside the image adds 0, which changes no sum."""
        sums: Single = np.zeros(differences.shape[:4], np.float32)
        for place in np.ndindex(differences.shape[4:]):
            sums += differences[..., *place].astype(np.float32) * self.x.scale
        return sums

    def _means(self, x: Array) -> Single:
        return self._sums(self._differences(x)) / self._divisors()

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
