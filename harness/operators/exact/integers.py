"""Evaluation of expressions without floating point: each float32 is its bits, each operation integer arithmetic.

It is a second evaluation of the same graph; it shares no operation on floats with the first one (`evaluation.py`).  A
float32 is an int64 with the 32 bits; an integer is an int64, but for a uint64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat
from harness.operators.exact.evaluation import NUMPY, Evaluation
from harness.operators.exact.expression import BITS, COMPARISONS, FLOAT32, INT32, UINT64, Expression
from harness.operators.exact.stage_values import NONE_FIXED, Fixed, Program, arguments, each_step, histories
from harness.operators.exact.stages import Stage
from harness.operators.softfloat import INFINITY_BITS, NAN_BITS, SIGN_BIT, Integers, Magnitude

Bools: TypeAlias = npt.NDArray[np.bool_]
MASK = 0xFFFFFFFF
FRACTION_BITS = 23
ROOT_BITS = 26  # of a square root before it is rounded: two more than a significand has


def _is_nan(a: Integers) -> Bools:
    is_nan: Bools = a & ~SIGN_BIT > INFINITY_BITS
    return is_nan


def _key(a: Integers) -> Integers:
    """Return integers in the order of the numbers; -0 and 0 have the same one."""
    magnitude = a & ~SIGN_BIT
    return np.where(a & SIGN_BIT != 0, -magnitude, magnitude)


def _comparison(compare: Callable[[Integers, Integers], Bools]) -> Callable[[Integers, Integers], Bools]:
    """Return a comparison of float32 numbers, false where one is NaN."""
    return lambda a, b: compare(_key(a), _key(b)) & ~(_is_nan(a) | _is_nan(b))


def _divide(a: Integers, b: Integers) -> Integers:
    """Return the quotient of any two numbers: by 0 it is an infinity, and NaN of 0 / 0 and of two infinities."""
    size_a, size_b, sign = a & ~SIGN_BIT, b & ~SIGN_BIT, (a ^ b) & SIGN_BIT
    is_ordinary = (size_b > 0) & (size_b < INFINITY_BITS)
    quotient = softfloat.quotient(a, np.where(is_ordinary, b, 1)).astype(np.int64)
    quotient = np.where(size_b == 0, sign | INFINITY_BITS, quotient)
    quotient = np.where(size_b == INFINITY_BITS, sign, quotient)
    both = (size_a == size_b) & ((size_a == 0) | (size_a == INFINITY_BITS))
    return np.where(both | _is_nan(a) | _is_nan(b), NAN_BITS, quotient)


def _square_root(a: Integers) -> Integers:
    """Return the rounded root, bit by bit: NaN below 0, -0 of -0."""
    significand, exponent = softfloat.decode(a)
    # An even exponent, and a significand of 2 * ROOT_BITS bits or one less, so that its root has ROOT_BITS.
    shift = 2 * ROOT_BITS - 1 - softfloat.bit_length(significand)
    shift = shift + ((exponent - shift) & 1)
    rest, root = significand << shift, np.zeros_like(significand)
    for place in reversed(range(ROOT_BITS)):
        more = ((root << 1) + (1 << place)) << place
        fits = more <= rest
        rest = np.where(fits, rest - more, rest)
        root = np.where(fits, root | (1 << place), root)
    # The last bit is below the rounding bit, so that it can say "and some more".
    rounded = softfloat.shift_right_half_even(root | (rest != 0), np.full_like(root, ROOT_BITS - 24))
    magnitude = Magnitude(rounded, ((exponent - shift) >> 1) + ROOT_BITS - 24)
    bits = softfloat.encode(magnitude, np.zeros(a.shape, np.bool_)).astype(np.int64)
    bits = np.where(a & ~SIGN_BIT == 0, a, np.where(a == INFINITY_BITS, a, bits))
    return np.where(_is_nan(a) | ((a & SIGN_BIT != 0) & (a != SIGN_BIT)), NAN_BITS, bits)


NONE, HALF, MORE = 0, 2, 3
"""Rest behind the integer part of a number: none, a half, or more than a half; 1 is less than a half."""


def _rounding(away: Callable[[Integers, Integers, Bools], Bools]) -> Callable[[Integers], Integers]:
    """Return the rounding to an integer; `away` of integer part, rest and sign says where it is away from 0."""

    def rounded(a: Integers) -> Integers:
        size, is_negative = a & ~SIGN_BIT, a & SIGN_BIT != 0
        significand, exponent = softfloat.decode(a)
        places = np.clip(-exponent, 0, FRACTION_BITS + 2)
        whole = significand >> places
        rest = significand - (whole << places)
        following = np.where(rest == 0, NONE, HALF + np.sign((rest << 1) - (np.int64(1) << places)))
        magnitude = softfloat.from_integer(whole + away(whole, following, is_negative))
        bits = softfloat.encode(_normal(magnitude), is_negative).astype(np.int64) | (a & SIGN_BIT)
        return np.where((exponent >= 0) | (size >= INFINITY_BITS), a, bits)

    return rounded


def code_of(v: Integers, zero_point: Integers | int, dtype: np.dtype[Any]) -> Integers:
    """Return saturate(round_half_even(v) + zero_point) of float32 numbers by their bits; NaN gives the least code."""
    limits, magnitude = np.iinfo(dtype), softfloat.round_to_integer(softfloat.decode(v))
    codes = np.where(v & SIGN_BIT, -magnitude, magnitude) + zero_point
    return np.where(_is_nan(v), limits.min, codes.clip(limits.min, limits.max))


def _wrapped(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return integers modulo 2^n in the range of a type: uint64 of this type, else int64."""
    return values.astype(dtype).astype(np.uint64 if dtype == UINT64 else np.int64)


def _truncated(v: Integers) -> npt.NDArray[np.uint64]:
    """Return the integer part of float32 numbers below 2^64 in magnitude, by their bits, modulo 2^64."""
    significand, exponent = softfloat.decode(v)
    whole = significand.astype(np.uint64) << np.clip(exponent, 0, 63).astype(np.uint64)
    whole = whole >> np.clip(-exponent, 0, 63).astype(np.uint64)
    return np.where(v & SIGN_BIT, np.uint64(0) - whole, whole)


def _nearest(a: Array) -> Integers:
    """Return the bits of the float32 nearest to integers, half to even."""
    is_negative = a < 0
    size = np.where(is_negative, np.uint64(0) - a.astype(np.uint64), a.astype(np.uint64))
    # Of more than 56 bits the last 8 are below the rounding bit, so that one says whether any is set.
    shift = np.where(size >> np.uint64(56) != 0, 8, 0).astype(np.uint64)
    rest = (size & ((np.uint64(1) << shift) - np.uint64(1))) != 0
    significand = ((size >> shift) | rest).astype(np.int64)
    excess = np.maximum(softfloat.bit_length(significand) - softfloat.SIGNIFICAND_BITS, 0)
    rounded = softfloat.shift_right_half_even(significand, excess)
    magnitude = _normal(softfloat.from_integer(rounded))
    exponent = magnitude.exponent + excess + shift.astype(np.int64)
    return softfloat.encode(Magnitude(magnitude.significand, exponent), is_negative).astype(np.int64)


def _normal(magnitude: Magnitude) -> Magnitude:
    """Return the magnitude with 24 significant bits, or 0."""
    shift = np.maximum(softfloat.SIGNIFICAND_BITS - softfloat.bit_length(magnitude.significand), 0)
    return Magnitude(magnitude.significand << shift, magnitude.exponent - shift)


FLOATS: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: softfloat.add(a, b).astype(np.int64),
    "subtract": lambda a, b: softfloat.add(a, b ^ SIGN_BIT).astype(np.int64),
    "multiply": lambda a, b: softfloat.product(a, b).astype(np.int64),
    "divide": _divide,
    "square_root": _square_root,
    "less": _comparison(np.less),
    "less_equal": _comparison(np.less_equal),
    "greater": _comparison(np.greater),
    "greater_equal": _comparison(np.greater_equal),
    "equal": _comparison(np.equal),
    "fused": lambda a, b, c: softfloat.fused(a, b, c).astype(np.int64),
    "negate": lambda a: a ^ SIGN_BIT,
    "absolute": lambda a: a & ~SIGN_BIT,
    "floor": _rounding(lambda _, following, negative: (following > NONE) & negative),
    "ceiling": _rounding(lambda _, following, negative: (following > NONE) & ~negative),
    "truncate": _rounding(lambda _, following, __: following > MORE),
    "round_half_even": _rounding(
        lambda whole, following, _: (following == MORE) | ((following == HALF) & (whole & 1 == 1))
    ),
}
"""The operations of float32 numbers, as bits."""
INTEGERS: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: (a + b) & MASK,
    "subtract": lambda a, b: (a - b) & MASK,
    "multiply": lambda a, b: (a.astype(np.uint64) * b.astype(np.uint64)).astype(np.int64) & MASK,
    **{name: NUMPY[name] for name in (*COMPARISONS, "and", "or", "xor")},
    "divide": np.floor_divide,
    "shift_left": lambda a, b: (a << b) & MASK,
    "shift_right": lambda a, b: a >> b,
    "bits": lambda a: a,
    "from_bits": lambda a: a,
    "integer": lambda a: a,
    "number": lambda a: softfloat.encode(_normal(softfloat.from_integer(a)), a < 0).astype(np.int64),
    "select": np.where,
}
"""The operations of integers and bools, and those that keep bits."""
SIGNED: Mapping[str, Callable[..., Any]] = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
"""The operations of int32 numbers, whose results are such numbers."""


class IntegerEvaluation(Evaluation):
    """A prepared graph whose values are integers and bools; arguments and results have the types of the language."""

    def __init__(self, root: Expression) -> None:
        super().__init__(root)
        self._constants = [None if value is None else as_integers(np.asarray(value)) for value in self._constants]

    def _operation(self, node: Expression) -> Callable[..., Any]:
        if node.operation == "code":
            return lambda v, zero_point: code_of(v, zero_point, node.dtype)
        if node.dtype == INT32 and node.operation in SIGNED:
            return SIGNED[node.operation]
        if node.operation in {"bits", "from_bits"}:
            return INTEGERS[node.operation]
        if node.operation == "convert":
            return self._conversion(node)
        if node.operands[0].dtype == UINT64 and node.operation in NUMPY:
            return NUMPY[node.operation] if node.operation != "divide" else np.floor_divide
        is_of_floats = node.operands[0].dtype == FLOAT32 and node.operation in FLOATS
        return FLOATS[node.operation] if is_of_floats else INTEGERS[node.operation]

    @staticmethod
    def _conversion(node: Expression) -> Callable[[Array], Array]:
        if node.dtype == FLOAT32:
            return _nearest
        is_float = node.operands[0].dtype == FLOAT32
        return lambda x: _wrapped(_truncated(x) if is_float else x, node.dtype)

    def __call__(self, arguments: Mapping[str, Array | np.generic]) -> Array:
        """Return the values for arguments by name; arrays have one shape, which the result has, too."""
        return self._typed(self._values({name: as_integers(np.asarray(value)) for name, value in arguments.items()}))

    def broadcast(self, arguments: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Return the values of this shape for arrays with as many axes; one of size 1 along an axis is repeated."""
        return np.broadcast_to(self(arguments), shape)

    def _typed(self, values: Array) -> Array:
        if self._root.dtype == FLOAT32:
            return values.astype(np.uint32).view(np.float32)
        if self._root.dtype in BITS:
            return values.astype(BITS[self._root.dtype]).view(self._root.dtype)
        return values.astype(self._root.dtype)


def as_integers(values: Array) -> Array:
    """Return the bits of floats, and integers themselves, as int64; bools and uint64 stay."""
    if values.dtype in BITS:
        return as_integers(values.view(BITS[values.dtype]))
    return values if values.dtype in {np.dtype(np.bool_), UINT64} else values.astype(np.int64)


def canonical(values: Array) -> Array:
    """Return the bits of float32 numbers, one and the same for every NaN; other values stay."""
    if values.dtype != FLOAT32:
        return values
    return np.where(np.isnan(values), np.uint32(NAN_BITS), values.view(np.uint32))


def of_stages(program: Program, inputs: Sequence[Array]) -> Array:
    """Return the values of the last stage; each step of a fold is computed for all values that have it."""
    values, vectors = program.read(inputs), len(inputs[0])

    def value(stage: Stage, fixed: Fixed = NONE_FIXED) -> Array:
        first = stage.root if stage.accumulator is None else stage.start
        begun = IntegerEvaluation(first)(arguments(first, values, stage, (), vectors, fixed))
        result = np.array(np.broadcast_to(begun, (vectors, *stage.shape)), order="C")
        if stage.accumulator is not None:
            step = IntegerEvaluation(stage.root)
            for _, box, [read] in each_step(stage, [values], vectors, fixed):
                result[box] = step({**read, stage.accumulator.name: result[box]})
        return result

    for item in program.stages:
        if isinstance(item, Stage):
            values[id(item)] = value(item)
        else:
            values |= histories(item, values, value)
    return values[id(program.result)].reshape(vectors, -1)
