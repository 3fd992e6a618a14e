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
from harness.operators.elements import errors_of
from harness.operators.exact import formats, printing
from harness.operators.exact.expression import Expression, argument, bits, converted, equal, literal, select
from harness.operators.fault_models import FaultModel
from harness.operators.float_samples import of_samples
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
    INTEGERS,
    STORED,
    UINT8,
    UINT16,
    integer_limits,
)  # fmt: skip

TO_DOUBLE = (FLOAT32, BOOL, UINT8, INT8, UINT16, INT16)
"""Types whose numbers are float32 numbers."""
EXAMPLES = ((FLOAT32, BOOL), (BOOL, FLOAT32), (FLOAT32, INT8), (INT8, FLOAT32))


@functools.cache
def definition_of(source: np.dtype[Any], dtype: np.dtype[Any]) -> Expression:
    """Return the definition for two types that differ; DefinitionError if there is none."""
    return _converted(argument("operand_1", source), dtype)


def _converted(x: Expression, dtype: np.dtype[Any]) -> Expression:
    if x.dtype == dtype:
        return x
    if not {x.dtype, dtype}.isdisjoint(STORED):
        return _reformatted(x, dtype)
    if dtype == BOOL:
        return equal(x, 0) ^ True
    if x.dtype == BOOL:
        return select(x, literal(1, dtype), literal(0, dtype))
    return _whole(x, dtype) if x.dtype == FLOAT32 else converted(x, dtype)


def _reformatted(x: Expression, dtype: np.dtype[Any]) -> Expression:
    """Return the conversion from or to float16 or float64, by way of float32, which rounds nothing."""
    if x.dtype == FLOAT64 and dtype == BOOL:
        return equal(bits(x) & 0x7FFFFFFFFFFFFFFF, 0) ^ True
    if x.dtype in STORED:
        return _converted(formats.of_half(x) if x.dtype == FLOAT16 else formats.of_double(x), dtype)
    single = _converted(x, FLOAT32)
    return formats.to_half(single) if dtype == FLOAT16 else formats.to_double(single)


def _is_of_double(source: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether there is a definition of this conversion to or from float64."""
    return dtype in {FLOAT32, FLOAT64, BOOL} if source == FLOAT64 else source in {*TO_DOUBLE, FLOAT16}


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
    if source.kind != "f":
        return NUMBERS[source]
    with np.errstate(over="ignore"):
        if dtype in INTEGERS:
            return around_limits(dtype).astype(source)
        factors = 1 + np.array([-(2.0**-11), -(2.0**-25), -(2.0**-40), 0, 2.0**-40, 2.0**-25, 2.0**-11])
        numbers = np.outer([*ENDS, 1, 1 / 3], np.concatenate([factors, factors / 2, factors * 1.5])).reshape(-1)
        return np.concatenate([numbers, -numbers, [0, -0.0, np.inf, -np.inf]]).astype(source)


@dataclass(frozen=True, eq=False)
class Cast(Logic):
    """A value in another type."""

    ONNX = (("", "Cast"),)
    errors = Ability(lambda layer: replace(errors_of(layer), exact=not layer.is_limited))
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
        number = node.attributes({"to": 0, "saturate": 1, "round_mode": b"up"})["to"]
        kinds = {onnx.helper.np_dtype_to_tensor_dtype(kind): kind for kind in (*EVERY_TYPE, *STORED)}
        source = node.activation(0, (*EVERY_TYPE, *STORED))
        if number not in kinds:
            types = ", ".join(map(str, kinds.values()))
            raise node.refusal(f"casts {source.dtype} to {element_type(number)}", f"one of the types {types}")
        dtype = kinds[number]
        if FLOAT64 in {source.dtype, dtype} and not _is_of_double(source.dtype, dtype):
            accepted = f"float64 from {', '.join(map(str, (*TO_DOUBLE, FLOAT16)))}, and to float32 or bool"
            raise node.refusal(f"casts {source.dtype} to {dtype}", accepted)
        if dtype == source.dtype:
            written = fields(node, [source], source.shape, source.dtype, source.bound)
            return Rename(**{**written, "output": replace(source, name=node.output)}, order=unmoved(source.shape))
        bound = np.inf
        if dtype in {BOOL, FLOAT32} and source.dtype not in STORED:
            bound = 1.0 if BOOL in {dtype, source.dtype} else float(-integer_limits(source.dtype)[0])
        if dtype == FLOAT32 and source.dtype.kind == "u":
            bound = float(np.float32(integer_limits(source.dtype)[1]))
        return cls(**fields(node, [source], source.shape, dtype, bound), terms=(None,))

    @property
    def definition(self) -> Expression:
        """The definition for both types."""
        return definition_of(self.input.dtype, self.dtype)

    @property
    def is_limited(self) -> bool:
        """True if a value can be outside of the type, where ONNX defines nothing."""
        return self.input.dtype in {FLOAT32, FLOAT16} and self.dtype in INTEGERS

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:
        """Return infinity where ONNX defines nothing, else 0; None if every bit must agree."""
        if not self.is_limited:
            return None
        low, high = integer_limits(self.dtype)
        x = inputs[0].astype(np.float64)
        return np.where(((x > low - 1) | (x == low)) & (x < high + 1), 0.0, np.inf).reshape(output.shape)

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
        if high < np.finfo(x.dtype).max:
            least = np.where((x >= low) & (x < high + 1), evaluate(x), self.dtype.type(low))
            yield FaultModel("a value outside of the type becomes the least integer", right, least)

    def _wrong_formats(self, x: Array) -> Iterator[FaultModel]:
        y, right = self.prepare()(x), "y = x in the other format"
        if self.dtype.kind != "f":
            yield FaultModel("the result is negated", right, ~y)
            return
        yield FaultModel("the sign is the other one", right, np.negative(y))
        if x.dtype.kind == "f":
            least = np.finfo(FLOAT16 if FLOAT16 in {x.dtype, y.dtype} else FLOAT32).tiny
            yield FaultModel("a subnormal number is 0", right, np.where(np.abs(y) < least, y * y.dtype.type(0), y))
        if self.dtype.itemsize < x.dtype.itemsize:
            is_beyond = np.abs(y.astype(np.float64)) > np.abs(x.astype(np.float64))
            yield FaultModel(
                "the result is rounded toward zero", "half to even",
                np.where(is_beyond, np.nextafter(y, y.dtype.type(0)), y),
            )  # fmt: skip

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
