"""Cast (ONNX) between float32, integers and bool, from and to float16 and float64.

y[n] = x[n] in the other type, by the first line that has both types

    to bool                  x[n] is not 0; NaN is true
    from bool                1 or 0
    to float32               the nearest number, half to even
    from integer to integer  x[n] modulo 2^n
    from float32 to integer  the integer part, at least the least and at most the greatest integer; 0 for NaN
    float16, float64         the nearest number of the format, half to even; float16 by way of float32, which is exact

ONNX leaves a float32 outside of the type of integers undefined.  ONNX Runtime then gives the result of the processor's
conversion, which differs between processors: such a value is not compared with it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer, fields
from harness.operators.elements import errors_of, evaluation
from harness.operators.exact import formats, printing
from harness.operators.exact.expression import BITS, Expression, argument, bits, converted, equal, literal, select
from harness.operators.fault_models import FaultModel
from harness.operators.float_samples import of_samples
from harness.operators.index_range import IndexRange, passed
from harness.operators.integer_samples import of_values
from harness.operators.logic import NUMBERS, Logic
from harness.operators.node import Node, element_type
from harness.operators.obligations import Extent, Obligation
from harness.operators.order import unmoved
from harness.operators.rename import Rename
from harness.operators.rules import Rules
from harness.operators.tensor import (
    BOOL,
    EVERY_TYPE,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INTEGERS,
    SHORT,
    SHORT_INTEGERS,
    STORED,
    UINT8,
    UINT16,
    integer_limits,
    is_float,
    largest_of,
)

SINGLES = (FLOAT32, BOOL, UINT8, INT8, UINT16, INT16, FLOAT16, *SHORT)
"""Types whose numbers are float32 numbers."""
EXAMPLES = ((FLOAT32, BOOL), (BOOL, FLOAT32), (FLOAT32, INT8), (INT8, FLOAT32))


FLOATS = (FLOAT16, FLOAT32, FLOAT64)
"""The floats of NumPy."""


@functools.cache
def definition_of(source: np.dtype[Any], dtype: np.dtype[Any], *, saturates: bool = True) -> Expression:
    """Return the definition for two types that differ; DefinitionError if there is none."""
    return _converted(argument("operand_1", source), dtype, saturates=saturates)


def _converted(x: Expression, dtype: np.dtype[Any], *, saturates: bool = False) -> Expression:
    if x.dtype == dtype:
        return x
    if not {x.dtype, dtype}.isdisjoint(STORED):
        return _reformatted(x, dtype, saturates=saturates)
    if dtype == BOOL:
        return equal(x, 0) ^ True
    if x.dtype == BOOL:
        return select(x, literal(1, dtype), literal(0, dtype))
    return _whole(x, dtype) if x.dtype == FLOAT32 else converted(x, dtype)


def _reformatted(x: Expression, dtype: np.dtype[Any], *, saturates: bool) -> Expression:
    """Return the conversion from or to a type that is only stored, by way of a number, which rounds nothing."""
    if x.dtype == FLOAT64 and dtype == BOOL:
        return equal(bits(x) & 0x7FFFFFFFFFFFFFFF, 0) ^ True
    if x.dtype in STORED:
        return _converted(_number(x, dtype), dtype, saturates=saturates)
    if dtype in SHORT_INTEGERS:
        return formats.of_integer(_converted(x, INT32) if x.dtype in {BOOL, FLOAT32} else x, dtype)
    single = _converted(x, FLOAT32)
    if dtype == FLOAT64:
        return formats.to_double(single)
    return formats.of_single(single, dtype, saturates=saturates and dtype.itemsize == 1)


def _number(x: Expression, dtype: np.dtype[Any]) -> Expression:
    """Return a value of a stored type as float32 or int32, which is then converted to `dtype`."""
    if x.dtype == FLOAT64:
        return formats.of_double(x) if dtype == FLOAT32 else formats.odd_of_double(x)
    return formats.to_integer(x) if x.dtype in SHORT_INTEGERS else formats.to_single(x)


def _is_rounded_once(source: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether there is a definition of this conversion that rounds at most once."""
    if formats.E8M0 in {source, dtype}:
        return not {source, dtype}.isdisjoint({FLOAT32, FLOAT16})
    if source == FLOAT64:
        return dtype in {FLOAT32, FLOAT64, BOOL, *formats.FORMATS} - {formats.BFLOAT16}
    return dtype not in {FLOAT64, formats.BFLOAT16} or source in SINGLES


def _whole(x: Expression, dtype: np.dtype[Any]) -> Expression:
    """Return the integer part of a float32, within the type."""
    low, high = integer_limits(dtype)
    is_inside = (x >= low) & (x < high + 1)
    whole = converted(select(is_inside, x, 0), dtype)
    limited = select(x < low, literal(low, dtype), whole)
    return select(x >= high + 1, literal(high, dtype), limited)


def around_limits(dtype: np.dtype[Any]) -> Array:
    """Return float32 numbers around the limits of a type of integers, with and without fractions, (n,)."""
    low, high = integer_limits(dtype)
    ends = np.array([low, high + 1], np.float32)
    near = np.concatenate([ends, *(np.nextafter(ends, np.float32(end)) for end in (-np.inf, np.inf))])
    return np.concatenate([NUMBERS[FLOAT32], near, ends + np.float32(0.5), ends - np.float32(0.5),
                           np.array([0.5, -0.5, 1.5, -1.5, 1e30, -1e30, np.inf, -np.inf], np.float32)])  # fmt: skip


ENDS = (65504, 65520, 65536, 2.0**-14, 2.0**-24, 2.0**-126, 2.0**-149, 2.0**128, float(np.finfo(np.float32).max))
"""Numbers at which formats of floats end, or become subnormal."""


def special_values(source: np.dtype[Any], dtype: np.dtype[Any]) -> Array:
    """Return values of a type at its limits and at those of the type that it is converted to, (n,)."""
    if source in SHORT and source.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(source)
    if not is_float(source):
        return NUMBERS[source]
    with np.errstate(over="ignore"):
        if dtype in INTEGERS:
            return around_limits(dtype).astype(source)
        factors = 1 + np.array([-(2.0**-11), -(2.0**-25), -(2.0**-40), 0, 2.0**-40, 2.0**-25, 2.0**-11])
        numbers = np.outer([*ENDS, 1, 1 / 3], np.concatenate([factors, factors / 2, factors * 1.5])).reshape(-1)
        if dtype in SHORT and dtype.itemsize == 1:
            numbers = np.append(numbers, _beside_codes(dtype))
        return np.concatenate([numbers, -numbers, [0, -0.0, np.inf, -np.inf]]).astype(source)


def _beside_codes(dtype: np.dtype[Any]) -> Array:
    """Return the positive numbers of a type of a byte, those between two of them, and those beside these, (n,)."""
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    numbers = np.unique(np.abs(codes[np.isfinite(codes)]))
    between = (numbers[1:] + numbers[:-1]) / 2
    ends = np.concatenate([numbers, between, [2 * numbers[-1] - between[-1]]])
    return np.concatenate([np.nextafter(ends, np.float32(end)) for end in (0, np.inf)] + [ends])


@dataclass(frozen=True, eq=False)
class Cast(Logic):
    """A value in another type."""

    ONNX = (("", "Cast"),)
    errors = Ability(lambda layer: replace(errors_of(layer), exact=not layer.is_limited))
    saturates: bool = True

    text = Logic.text.but(
        "; ".join(f"y = {printing.inline(definition_of(*kinds))}, from {kinds[0]} to {kinds[1]}" for kinds in EXAMPLES),
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the shape stays, and the type."""
        node.is_type(node.y, node.attribute("to", 0)).same_shape(node.x, node.y)

    @classmethod
    def read(cls, node: Node) -> Layer:  # type: ignore[override]
        """Read a node from one of the types to another, or to that of its input, which changes nothing."""
        attributes = node.attributes({"to": 0, "saturate": 1, "round_mode": b"up"})
        number = attributes["to"]
        kinds = {onnx.helper.np_dtype_to_tensor_dtype(kind): kind for kind in (*EVERY_TYPE, *STORED)}
        source = node.activation(0, (*EVERY_TYPE, *STORED))
        if number not in kinds:
            types = ", ".join(map(str, kinds.values()))
            raise node.refusal(f"casts {source.dtype} to {element_type(number)}", f"one of the types {types}")
        dtype = kinds[number]
        if not _is_rounded_once(source.dtype, dtype):
            raise node.refusal(f"casts {source.dtype} to {dtype}", "a Cast to float32 before it: it then rounds twice")
        if dtype == source.dtype:
            written = fields(node, [source], source.shape, source.dtype, source.bound)
            return Rename(**{**written, "output": replace(source, name=node.output)}, order=unmoved(source.shape))
        bound = np.inf
        if dtype in {BOOL, FLOAT32} and source.dtype not in STORED:
            bound = 1.0 if BOOL in {dtype, source.dtype} else float(-integer_limits(source.dtype)[0])
        if dtype == FLOAT32 and source.dtype.kind == "u":
            bound = float(np.float32(integer_limits(source.dtype)[1]))
        if dtype == formats.E8M0 and attributes["round_mode"] != b"up":
            raise node.refusal(f"round_mode is {attributes['round_mode'].decode(errors='replace')!r}", "up")
        written = fields(node, [source], source.shape, dtype, bound)
        return cls(**written, terms=(None,), saturates=bool(attributes["saturate"]))

    @property
    def definition(self) -> Expression:
        """The definition for both types."""
        return definition_of(self.input.dtype, self.dtype, saturates=self.saturates)

    @property
    def is_limited(self) -> bool:
        """True if a value can be outside of the type, where ONNX defines nothing."""
        return is_float(self.input.dtype) and self.dtype in {*INTEGERS, *SHORT_INTEGERS}

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:
        """Return infinity where ONNX defines nothing, or ONNX Runtime rounds twice, else 0; None if all bits agree."""
        if self.input.dtype == FLOAT64 and self.dtype in formats.FORMATS:
            twice = evaluation(definition_of(FLOAT32, self.dtype, saturates=self.saturates))
            rounded = twice({"operand_1": inputs[0].astype(np.float32)}).reshape(output.shape)
            return np.where(rounded == output, 0.0, np.inf)
        if self.dtype == formats.E8M0:
            return np.where(np.signbit(inputs[0]), np.inf, 0.0).reshape(output.shape)
        if not self.is_limited:
            return None
        low, high = integer_limits(self.dtype)
        x = inputs[0].astype(np.float64)
        is_fixed = ((x > low - 1) | (x == low)) & (x < high + 1)
        if self.dtype in SHORT_INTEGERS:  # ONNX Runtime rounds fractions
            is_fixed &= x == np.trunc(x)
        return np.where(is_fixed, 0.0, np.inf).reshape(output.shape)

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return those of a float32; a bool is 0 or 1."""
        if self.input.dtype in STORED:
            ends = np.full((1, self.size), np.inf, np.float32)
            return -ends, ends
        return self.prepare()(*low), self.prepare()(*high)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples, and values around the limits of both types."""
        statement, dtype = "values are converted as specified", self.input.dtype
        if dtype == FLOAT32:
            yield from of_samples(self, statement)
        special = special_values(dtype, self.dtype)
        yield of_values(self, f"{statement}, at the limits of both types", special)

    def assumptions(self) -> Iterator[str]:
        """Yield that conversions are samples."""
        yield "Cast converts numbers and does nothing else with them: random values and those at limits were tried."

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the mutants but for another sign, which changes no bool, and wrong conversions of numbers."""
        if self.is_limited:  # mutants of its comparisons do nothing: a limit is itself an integer
            yield from self._wrong_parts(inputs[0])
            return
        if not {self.input.dtype, self.dtype}.isdisjoint(STORED):
            yield from self._wrong_formats(inputs[0])
            return
        for model in super().fault_models(*inputs):
            if self.dtype != BOOL or not model.cause.startswith("the sign of"):
                yield model
        if BOOL not in {self.input.dtype, self.dtype}:
            yield from self._wrong_integers(inputs[0])

    def _wrong_parts(self, x: Array) -> Iterator[FaultModel]:
        evaluate, right = self.prepare(), printing.inline(self.definition)
        low, high = integer_limits(self.dtype)
        roundings = {"half to even": np.rint, "up": np.ceil} | ({"down": np.floor} if low < 0 else {})
        for rounding, function in roundings.items():
            yield FaultModel(f"a fraction is rounded {rounding}", "it is left out", evaluate(function(x)))
        yield FaultModel("the sign of operand_1 is changed", right, evaluate(-x))
        if high < largest_of(x.dtype):
            least = np.where((x >= low) & (x < high + 1), evaluate(x), self.dtype.type(low))
            yield FaultModel("a value outside of the type becomes the least integer", right, least)

    def _wrong_formats(self, x: Array) -> Iterator[FaultModel]:
        y, right = self.prepare()(x), "y = x in the other format"
        if not is_float(self.dtype):
            words = y if self.dtype == BOOL else y.view(f"u{y.itemsize}")
            yield FaultModel("the result is negated", right, np.invert(words).view(self.dtype))
            return
        words = y.view(BITS[self.dtype])
        if self.dtype == formats.E8M0:
            yield FaultModel("the result is the next power of two", right, (words + words.dtype.type(1)).view(y.dtype))
            return
        sign = formats.FORMATS[self.dtype].sign if self.dtype in formats.FORMATS else 8 * words.itemsize - 1
        yield FaultModel("the sign is the other one", right, (words ^ words.dtype.type(1 << sign)).view(y.dtype))
        if x.dtype in FLOATS and self.dtype in FLOATS:
            least = np.finfo(FLOAT16 if FLOAT16 in {x.dtype, y.dtype} else FLOAT32).tiny
            yield FaultModel("a subnormal number is 0", right, np.where(np.abs(y) < least, y * y.dtype.type(0), y))
        if is_float(x.dtype) and self.dtype.itemsize < x.dtype.itemsize:
            is_beyond = np.abs(y.astype(np.float64)) > np.abs(x.astype(np.float64))
            nearer = (words - is_beyond).astype(words.dtype).view(y.dtype)
            yield FaultModel("the result is rounded toward zero", "half to even", nearer)

    def _wrong_integers(self, x: Array) -> Iterator[FaultModel]:
        right = printing.inline(self.definition)
        if self.dtype == FLOAT32 or self.dtype.itemsize > x.itemsize:
            other = x.view(f"{'i' if x.dtype.kind == 'u' else 'u'}{x.itemsize}")
            yield FaultModel("the sign of the input's type is another", right, other.astype(self.dtype))
        if self.dtype != FLOAT32:
            (low, high), (least, most) = integer_limits(x.dtype), integer_limits(self.dtype)
            if low < least or high > most:
                ends = x.dtype.type(max(low, least)), x.dtype.type(min(high, most))
                limited = np.clip(x, *ends).astype(self.dtype)
                yield FaultModel("a value outside of the type becomes its end", right, limited)


@passed.register
def _converted_range(layer: Cast, before: IndexRange) -> IndexRange:
    """Return a range in another type, as far as that has its values."""
    least, greatest = integer_limits(layer.dtype)
    low, high = ([min(max(int(end), least), greatest) for end in ends] for ends in (before.low, before.high))
    return replace(before, low=np.array(low, layer.dtype), high=np.array(high, layer.dtype))
