"""QuantizeLinear (ONNX), float32 -> uint8 or int8, one scale for the tensor.

v = float32(x / scale)
q = saturate(round_half_even(v) + zero_point); every NaN gives QMIN
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators import softfloat, sweeps
from harness.operators.base import ALONE, Ability, Constants, Evaluate, fields, limits
from harness.operators.code_sums import Rounded
from harness.operators.codes import Conversion, thresholds_of
from harness.operators.counters import Counter, FindTies, LayerCoverage, RoundingCounter, Stimuli
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.exact import (
    CACHED_LAYERS,
    from_ordered,
    fused,
    ordered,
    quantised,
    saturate,
)
from harness.operators.exact.expression import INT32, Expression, argument, code
from harness.operators.fault_models import LITTLE_ENDIAN, TAIL_LANES, Codes, FaultModel, Single, wrong_roundings
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    Steps,
    mixed,
)
from harness.operators.rules import Rules
from harness.operators.softfloat import Integers
from harness.operators.sweeps import StepFunction, Sweep, Swept
from harness.operators.tensor import FLOAT32, INT8, UINT8, Tensor
from harness.operators.text import ROUND_HALF_EVEN, Fragment
from harness.operators.traits import Trait

NEIGHBOURS = 3
"""Floats on either side of every threshold that go through every column."""
LAST_COLUMNS = 1 << 28
"""Values of all columns in the sweeps for the last ones."""
SPREAD_VALUES = 1 << 22
"""Evenly spread bit patterns, over all columns."""
SPECIAL = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF], np.uint32)
DIVISION = "x / scale, divided in float32"
QUANTISED_TYPES = {onnx.TensorProto.UINT8: UINT8, onnx.TensorProto.INT8: INT8}

FORMULA = """\
v = x / scale                                                  in float32
v = min(max(v, LOW - zero_point), HIGH - zero_point)           NaN becomes LOW - zero_point
y = round_half_even(v) + zero_point                            uint8 or int8, as zero_point is"""
FRAGMENT = Fragment(
    "quantize_linear",
    10,
    """\
# ONNX QuantizeLinear, float32 -> uint8 or int8 (type).  Division and rounding are one IEEE float32 operation each.
fragment quantize_linear(
    x: tensor<scalar>,                      # float32 (vectors, N)
    scale: scalar,                          # float32
    zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    type: string)
-> (y: tensor<scalar>)
{
    code = round_half_even(x / scale) + scalar(zero_point);
    y = clamp(code, scalar(low), scalar(high));
}
""",
    (ROUND_HALF_EVEN,),
)


FUSED = {
    "Add": ("sum", "QLinearAdd", 2),
    "Mul": ("product", "QLinearMul", 2),
    "AveragePool": ("mean", "QLinearAveragePool", 1),
    "GlobalAveragePool": ("mean", "QLinearAveragePool", 1),
    "Softmax": ("Softmax", "QLinearSoftmax", 1),
}
"""The nouns of operators that ONNX Runtime fuses with as many DequantizeLinear before and a QuantizeLinear behind."""


def _require_unfused(node: Node, source: Tensor, zero_point: Any) -> None:
    """Refuse to quantise an operation on results of DequantizeLinear that ONNX Runtime fuses.

    ONNX Runtime computes these layers as one, with other roundings, unless all activations are outputs.  Measured
    with ONNX Runtime 1.31, all pairs of codes and 150 random choices of scales and zero points: QLinearAdd gives
    other codes for 34 of them, QLinearMul for 6, QLinearConcat for none.
    QLinearSoftmax gives other codes for most vectors.  A Relu before the least code as zero point is left out.
    """
    operation = node.writer(source.name)
    if operation is not None and operation.operator == "Relu" and zero_point == np.iinfo(zero_point.dtype).min:
        operation = node.writer(operation.sources[0])
    noun, operator, inputs = FUSED.get(operation.operator if operation else "", ("", "", 0))
    if operation is None or not noun or len(operation.inputs) < inputs:
        return
    sources = [node.writer(source) for source in operation.sources]
    if all(isinstance(other, DequantizeLinear) and other.input.dtype == zero_point.dtype for other in sources):
        results = "two results" if len(operation.inputs) > 1 else "a result"
        raise node.refusal(
            f"quantises the {noun} of {results} of DequantizeLinear ({operation.node!r}): ONNX Runtime would "
            f"compute all of this as one {operator}, with other roundings",
            f"harness models import FILE -o NAME, which writes it as {operator}",
        )


@dataclass(frozen=True, eq=False)
class QuantizeLinear(Conversion):
    """q = saturate(round_half_even(float32(x / scale)) + zero_point)."""

    ONNX = (("", "QuantizeLinear"),)
    traits = Trait.ELEMENTWISE | Trait.QUANTISER
    stimuli = Ability(
        lambda layer: Stimuli(
            lambda _: _Counter(layer), layer.find_ties, layer.boundaries, layer.representable, takes_every_input=True
        )
    )
    rounded = Ability(
        lambda layer: Rounded(
            layer.zero_point, "inputs", ProofStep.QUANTIZATION, layer.before_rounding, layer.check_table,
            Swept(layer, lambda: sweeps.float_sweep(1), lambda: [layer.step_function()], layer.isolate),
        )
    )  # fmt: skip
    text = Conversion.text.but(FORMULA, fragments=(FRAGMENT,))

    @cached_property
    def definition(self) -> Expression:
        """The definition."""
        return code(argument("x") / argument("scale"), argument("zero_point", INT32), self.dtype)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the shape stays, and the type of the codes."""
        node.same_shape(node.x, node.y)
        node.scaled_by_axis()
        if zero_point := node.has(2):
            node.same_type(zero_point, node.y)
        else:
            node.is_type(node.y, node.attribute("output_dtype", 0) or np.uint8)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with one scale and one zero point."""
        node.require_inputs(2, 3)
        source = node.activation(0, [FLOAT32])
        # `axis` and `saturate` say nothing about per-tensor 8-bit integers.
        attributes = node.attributes({"axis": 1, "saturate": 1, "block_size": 0, "output_dtype": 0, "precision": 0})
        node.require_per_tensor(attributes, list(QUANTISED_TYPES))
        stated = QUANTISED_TYPES.get(attributes["output_dtype"])
        zero_point = node.single(2, "zero point", [UINT8, INT8]) if node.has(2) else np.zeros((), stated or UINT8)[()]
        if stated not in (None, zero_point.dtype):
            raise node.refusal(
                f"output_dtype is {stated}, the zero point {zero_point.dtype}", "give both the same type"
            )
        scale = node.scale(1, "scale")
        _require_unfused(node, source, zero_point)
        return cls(**fields(node, [source], source.shape, zero_point.dtype), scale=scale, zero_point=int(zero_point))

    def constants(self) -> Constants:
        """Return scale, zero point and the codes at which the result saturates."""
        return self.text.facts() | limits(self.dtype)

    def prepare(self) -> Evaluate:
        """Return q = QMIN + the number of thresholds <= x."""
        steps = self.thresholds()

        def quantize(x: Array) -> Array:
            return quantised(np.searchsorted(steps, ordered(x), side="right"), self.dtype)

        return quantize

    def find_ties(self) -> FindTies:
        """Find float32(x / scale) half way between two values."""
        evaluate, limits = self.prepare(), np.iinfo(self.dtype)

        def find(x: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
            with np.errstate(over="ignore", invalid="ignore"):  # infinity is no tie
                v = x / self.scale
                tie = v - np.floor(v) == 0.5
            return evaluate(x), tie & (v > limits.min - self.zero_point) & (v < limits.max - self.zero_point)

        return find

    def boundaries(self) -> tuple[Array, Array]:
        """Return the last input before and the first of every value, and those half way between two values."""
        steps = self.thresholds()
        near = from_ordered(np.unique(steps[:, None] + np.arange(-3, 3)))
        with np.errstate(over="ignore", invalid="ignore"):  # a large scale has boundaries at infinity
            quotient = near / self.scale
            ties = near[quotient - np.floor(quotient) == 0.5]
        boundaries = from_ordered(np.unique([steps - 1, steps]))
        return boundaries[np.isfinite(boundaries)], ties

    def representable(self) -> tuple[float, float]:
        """Return the range of the quantised values and one step more on each side."""
        limits, largest = np.iinfo(self.dtype), float(np.finfo(np.float32).max)
        steps = (limits.min - 1 - self.zero_point, limits.max + 1 - self.zero_point)
        low, high = (min(max(step * float(self.scale), -largest), largest) for step in steps)
        return low, high

    def check_table(self, table: Array) -> tuple[int, str]:
        """Compare both sides of every threshold; division, clamping and rounding are monotone between them."""
        [thresholds] = table
        keys = np.unique([*thresholds, *(thresholds - 1), -softfloat.INFINITY_BITS, 0, softfloat.INFINITY_BITS])
        keys = keys[np.abs(keys) <= softfloat.INFINITY_BITS]
        x = from_ordered(keys.astype(np.int64))
        expected = saturate(x / self.scale, self.dtype, self.zero_point)
        found = quantised(np.searchsorted(thresholds, keys, side="right"), self.dtype)
        wrong = np.flatnonzero(expected != found)
        if not len(wrong):
            return len(keys), ""
        at = wrong[0]
        return len(keys), f"{x[at]!s} becomes {found[at]} by its thresholds, {expected[at]} by the formula"

    def before_rounding(self, *inputs: Array) -> Single:
        """Return float32(x / scale), clamped to the range of the values."""
        return Codes(self.zero_point, self.dtype).clamp(_divided(inputs[0], self.scale))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong divisions, roundings, ranges and treatments of NaN."""
        [x] = inputs
        codes = Codes(self.zero_point, self.dtype)
        v = _divided(x, self.scale)
        yield from wrong_roundings(v, codes)
        yield from _wrong_divisions(x, self.scale, codes)
        cause = "NaN becomes the zero point"
        yield FaultModel(cause, "the lowest code", codes.nearest(np.where(np.isnan(x), np.float32(0), v)))
        cause = "numbers beyond int32 become its lowest: saturation comes after the conversion to int32"
        beyond = codes.nearest(np.where(v >= np.float32(2**31), np.float32(-np.inf), v))
        yield FaultModel(cause, "saturation before the conversion", beyond)
        swapped = _divided(x, self.scale.byteswap())
        yield FaultModel("the bytes of the scale are in the other order", LITTLE_ENDIAN, codes.nearest(swapped))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:
        """Yield all floats or the thresholds, and the independence of columns."""
        sweep = sweeps.float_sweep(self.size)
        if extent.all_floats:
            yield Obligation(
                ProofStep.QUANTIZATION,
                StageKind.COMPUTE,
                "every float32, NaN and infinities included, becomes the code of the specification",
                "all 2^32 bit patterns pass through the deployed code; every place where the code changes is compared",
                sweep.cases,
                Steps(self._staircases, sweep, _float_text),
            )
            yield from self._of_last_columns()
        spread = max(SPREAD_VALUES // self.size, 1)
        notable = self._notable_floats(spread)
        argument = (
            "; between two of them the code cannot change, as division by a positive constant, clamping and rounding "
            "are monotone"
        )
        yield Obligation(
            ProofStep.QUANTIZATION,
            StageKind.COMPUTE,
            "the code changes exactly at the thresholds of the specification, in every column",
            f"{2 * NEIGHBOURS} neighbours of all 255 thresholds, special values and {spread:,} evenly spread bit "
            f"patterns pass through every column{'' if extent.all_floats else argument}",
            notable.size * self.size,
            Outputs(lambda: [np.repeat(notable[:, None], self.size, axis=1)], self.prepare()),
        )
        yield Obligation(
            ProofStep.QUANTIZATION,
            StageKind.COMPUTE,
            "what becomes of an input does not depend on what other columns hold",
            f"{MIXED}, NaN and infinities among them",
            VECTORS * self.size,
            Outputs(lambda: [mixed(self._notable_floats(1024), self.size)], self.prepare()),
        )

    def _of_last_columns(self) -> Iterator[Obligation]:
        """Yield the largest floats below saturation, of both signs, in the columns that vector code computes apart."""
        magnitudes = np.abs(self.thresholds())
        alone = min(
            (self.size % lanes for lanes in TAIL_LANES if self.size % lanes), default=min(self.size, TAIL_LANES[-1])
        )
        high = int(magnitudes.max()) + NEIGHBOURS
        count = max(min((high - int(magnitudes.min())) // alone, LAST_COLUMNS // (2 * self.size)), 1)
        parts = np.arange(self.size, dtype=np.int64)[::-1] % alone + 1
        for name, sign in (("positive", 0), ("negative", sweeps.NEGATIVE)):
            sweep = Sweep(sign + high - count * parts, np.full(self.size, count, np.int64))
            yield Obligation(
                ProofStep.QUANTIZATION,
                StageKind.COMPUTE,
                f"the largest {name} floats before saturation become the right codes in the last columns, too",
                f"the {count * alone:,} bit patterns before saturation pass through the last {alone} columns; every "
                "place where the code changes is compared",
                sweep.cases,
                Steps(self._staircases, sweep, _float_text),
            )

    def isolate(self, node: onnx.NodeProto) -> tuple[list[onnx.ValueInfoProto], Callable[[Array], dict[str, Array]]]:
        """Feed the node with float32 bits."""
        node.input[0] = ALONE
        inputs = [onnx.helper.make_tensor_value_info(ALONE, onnx.TensorProto.FLOAT, [None, None])]
        return inputs, lambda bits: {ALONE: bits.view(np.float32)}

    def step_function(self) -> StepFunction:
        """Return the layer as a function of the bits of a float32, 0 to 2^32 - 1.

        The output rises along the positive numbers, falls along the negative ones, and is QMIN for every NaN.
        """
        thresholds = self.thresholds()
        rising = thresholds[thresholds > 0]
        falling = sweeps.NEGATIVE + 1 - thresholds[thresholds <= 0]
        infinity = softfloat.INFINITY_BITS
        edges = [0, infinity + 1, sweeps.NEGATIVE, sweeps.NEGATIVE + infinity + 1]
        starts = np.unique(np.concatenate([edges, rising, falling]))
        keys = ordered(starts.astype(np.uint32).view(np.float32))
        return sweeps.merged(starts, np.searchsorted(thresholds, keys, side="right"), self.dtype)

    def _staircases(self) -> list[StepFunction]:
        return [self.step_function()] * self.size

    def _notable_floats(self, spread: int) -> npt.NDArray[np.float32]:
        """Return neighbours of all thresholds, evenly spread bit patterns, and special values."""
        edges = self.thresholds()[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS)
        near = from_ordered(np.clip(edges, -softfloat.INFINITY_BITS, softfloat.INFINITY_BITS)).reshape(-1)
        evenly = np.linspace(0, sweeps.FLOATS - 1, spread).astype(np.uint32).view(np.float32)
        return np.concatenate([near, evenly, np.append(SPECIAL, SPECIAL | sweeps.NEGATIVE).view(np.float32)])

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def thresholds(self) -> Integers:
        """Return the smallest x that reaches each value above QMIN, as `ordered` int64 (255,)."""
        return thresholds_of(self.definition, "x", self.numbers)


def _divided(x: Single, scale: np.float32) -> Single:
    return _without_nan((x / scale).astype(np.float32))


def _without_nan(v: Single) -> Single:
    """Replace NaN, which becomes the lowest code, by minus infinity."""
    return np.where(np.isnan(v), np.float32(-np.inf), v)


def _wrong_divisions(x: Single, scale: np.float32, codes: Codes) -> Iterator[FaultModel]:
    reciprocal = np.float32(1) / scale
    v = _without_nan((x * reciprocal).astype(np.float32))
    yield FaultModel("multiplication by 1 / scale instead of division", DIVISION, codes.nearest(v))
    fused_sum = fused(x, reciprocal, np.float32(codes.zero_point))
    cause = "multiplication by 1 / scale, fused with the addition of the zero point (FMA)"
    yield FaultModel(cause, DIVISION, saturate(fused_sum, codes.dtype, 0))
    inverse = x.astype(np.float64) * (1 / np.float64(scale))
    nearest = codes.nearest(np.where(np.isnan(inverse), -np.inf, inverse))
    yield FaultModel("multiplication by 1 / scale in double precision", DIVISION, nearest)
    double = x.astype(np.float64) / np.float64(scale)
    nearest = codes.nearest(np.where(np.isnan(double), -np.inf, double))
    yield FaultModel("the division is in double precision", DIVISION, nearest)


class _Counter(Counter):
    """v = float32(x / scale); reachable is what some float32 x gives, infinity included."""

    def __init__(self, layer: QuantizeLinear) -> None:
        self._layer = layer
        self._met, self._all = (RoundingCounter(layer.output, layer.zero_point) for _ in range(2))
        steps = layer.thresholds()
        beside_steps = from_ordered(np.append(steps - 1, steps))
        decisive = np.append(beside_steps, np.array([-np.inf, np.inf], np.float32))
        for value in decisive:  # one by one: a layer may have a million columns
            self._all.add(self._quotient(np.full((1, layer.size), value)))
        self.reachable = self._all

    def add(self, *values: Array) -> None:
        x, _ = values
        self._met.add(self._quotient(x))

    def result(self) -> LayerCoverage:
        return self._met.result_of(self._all)

    def _quotient(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            v = x / self._layer.scale
        return np.where(np.isnan(v), -np.inf, v)  # NaN becomes QMIN


def _float_text(bits: int) -> str:
    return f"{np.uint32(bits).view(np.float32)!s} ({bits:#010x})"
