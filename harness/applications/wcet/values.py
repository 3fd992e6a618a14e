"""Values of registers and memory in an abstract execution: numbers, linear forms of loop counters, or unknown.

A value is an `int` below 2^64, a `Linear` form, `DATA` (it may depend on activations), or `VARIES` (it depends on loop
counters in a way that is not followed).  A linear form stands for its value modulo 2^64.  Each counter has a limit: the
forms hold for all its values from 0 to limit - 1, and every decision about a form lowers the limits as far as needed.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

WORD = 64
MASK = (1 << WORD) - 1
UNLIMITED = 1 << 30
"""The limit of a counter of which nothing is known yet: more iterations are followed in several steps."""


class Unknown(enum.Enum):
    """A value that is not known."""

    DATA = "data"
    VARIES = "varies"


DATA: Final = Unknown.DATA
VARIES: Final = Unknown.VARIES


class NotAffineError(Exception):
    """A decision does not follow from linear forms: the loops have to be executed one iteration after the other."""


@dataclass(eq=False)
class Counter:
    """The number of completed iterations of a loop, from 0 to limit - 1; of two counters the inner is the younger.

    A counter is open while the decisions of an iteration can still lower its limit.
    """

    limit: int = UNLIMITED
    is_open: bool = True
    age: int = 0


_ages = itertools.count()


def counter(limit: int = UNLIMITED) -> Counter:
    """Return a new counter, younger than all others."""
    return Counter(limit, age=next(_ages))


@dataclass(frozen=True)
class Linear:
    """constant + sum of factors times counters; no factor is 0, and there is at least one."""

    constant: int
    factors: Mapping[Counter, int]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linear) and self.constant == other.constant and self.factors == other.factors

    def __hash__(self) -> int:
        return hash((self.constant, frozenset(self.factors.items())))

    @property
    def range(self) -> tuple[int, int]:
        """Return the lowest and the highest value within the limits."""
        return self.range_without(None)

    def range_without(self, of: Counter | None) -> tuple[int, int]:
        """Return the lowest and the highest value within the limits where one counter is 0."""
        low = high = self.constant
        for each, factor in self.factors.items():
            if each is of:
                continue
            end = factor * (each.limit - 1)
            low, high = low + min(end, 0), high + max(end, 0)
        return low, high

    def at(self, of: Counter, value: int) -> Value:
        """Return the form where a counter has a value."""
        factor = self.factors.get(of)
        if factor is None:
            return self
        rest = {each: own for each, own in self.factors.items() if each is not of}
        return linear(self.constant + factor * value, rest)


Value: TypeAlias = int | Linear | Unknown


def linear(constant: int, factors: Mapping[Counter, int]) -> int | Linear:
    """Return the form, or the number that it is."""
    return Linear(constant & MASK, factors) if factors else constant & MASK


def unknown(*values: Value) -> Unknown | None:
    """Return what a result of these values is if one of them is unknown; None if all are known."""
    if DATA in values:
        return DATA
    return VARIES if VARIES in values else None


def known(value: Value) -> int | Linear:
    """Return a value that is known; NotAffineError otherwise."""
    if isinstance(value, Unknown):
        raise NotAffineError
    return value


def exact_sum(a: int | Linear, b: int | Linear, sign: int) -> int | Linear:
    """Return a + b or a - b without reducing it."""
    factors = dict(a.factors) if isinstance(a, Linear) else {}
    if isinstance(b, Linear):
        for each, factor in b.factors.items():
            total = factors.pop(each, 0) + sign * factor
            if total:
                factors[each] = total
    constant = (a if isinstance(a, int) else a.constant) + sign * (b if isinstance(b, int) else b.constant)
    return Linear(constant, factors) if factors else constant


def _sum(a: int | Linear, b: int | Linear, sign: int) -> int | Linear:
    """Return a + b or a - b modulo 2^64."""
    total = exact_sum(a, b, sign)
    return total & MASK if isinstance(total, int) else linear(total.constant, total.factors)


def add(a: Value, b: Value) -> Value:
    """Return a + b modulo 2^64."""
    if type(a) is int and type(b) is int:
        return (a + b) & MASK
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return unknown(a, b) or VARIES
    return _sum(a, b, 1)


def subtract(a: Value, b: Value) -> Value:
    """Return a - b modulo 2^64."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return unknown(a, b) or VARIES
    return _sum(a, b, -1)


def multiply(a: Value, b: Value) -> Value:
    """Return a * b modulo 2^64."""
    if a == 0 or b == 0:
        return 0
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return unknown(a, b) or VARIES
    if isinstance(a, Linear) and isinstance(b, Linear):
        return VARIES
    if isinstance(a, int) and isinstance(b, int):
        return a * b & MASK
    return _scaled(a, b) if isinstance(b, int) else _scaled(b, a)


def _scaled(form: int | Linear, factor: int | Linear) -> Value:
    if not isinstance(form, Linear) or not isinstance(factor, int):
        return VARIES
    factor = as_signed(factor, WORD)
    return linear(form.constant * factor, {each: own * factor for each, own in form.factors.items()})


def as_signed(number: int, width: int) -> int:
    """Return the number that the low `width` bits represent in two's complement."""
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def require(form: Linear, low: int | None, high: int | None) -> None:
    """Lower the limit of the youngest counter so that low <= form <= high; NotAffineError if no iteration is left.

    The condition holds then for all values of all counters within their limits.
    """
    lowest, highest = form.range
    if (low is None or low <= lowest) and (high is None or highest <= high):
        return
    youngest = max(form.factors, key=lambda each: each.age)
    factor = form.factors[youngest]
    lowest, highest = form.range_without(youngest)
    if (low is not None and lowest < low) or (high is not None and highest > high):
        raise NotAffineError
    room = (
        high - highest if factor > 0 and high is not None else lowest - low if factor < 0 and low is not None else None
    )
    if room is not None:
        youngest.limit = min(youngest.limit, room // abs(factor) + 1)


def fit(value: Value, width: int) -> Value:
    """Return the value modulo 2^width; below 64 bits an exact value, from 0 to 2^width - 1."""
    if isinstance(value, int):
        return value & ((1 << width) - 1)
    if isinstance(value, Unknown) or width >= WORD:
        return value
    found = Linear(value.constant - (value.constant >> width << width), value.factors)
    require(found, 0, (1 << width) - 1)
    return found


def signed(value: int | Linear, width: int) -> int | Linear:
    """Return the low `width` bits as a number from -2^(width-1) to 2^(width-1) - 1; forms of any integers."""
    if isinstance(value, int):
        return as_signed(value, width)
    half = 1 << (width - 1)
    found = Linear(value.constant - ((value.constant + half) >> width << width), value.factors)
    require(found, -half, half - 1)
    return found


def unsigned(value: int | Linear) -> int | Linear:
    """Return the exact value from 0 to 2^64 - 1."""
    if isinstance(value, Linear):
        require(value, 0, MASK)
    return value


def extend(value: Value, width: int, to: int = WORD) -> Value:
    """Return the low `width` bits, sign-extended, modulo 2^to."""
    if isinstance(value, Unknown) or width == to == WORD:
        return value
    found = signed(value, width)
    return found & ((1 << to) - 1) if isinstance(found, int) else fit(linear(found.constant, found.factors), to)


def divide(value: int | Linear, divisor: int) -> int | Linear:
    """Return floor(value / divisor) of an exact value (`fit` or `signed`) and a positive divisor."""
    if isinstance(value, int):
        return value // divisor
    if all(factor % divisor == 0 for factor in value.factors.values()):
        return Linear(value.constant // divisor, {each: own // divisor for each, own in value.factors.items()})
    quotient = value.constant // divisor
    require(value, quotient * divisor, quotient * divisor + divisor - 1)
    return quotient


def is_zero(value: int | Linear) -> bool:
    """Decide whether an exact value is 0 for all iterations."""
    if isinstance(value, int):
        return value == 0
    if value.constant == 0:
        raise NotAffineError
    require(value, *((1, None) if value.constant > 0 else (None, -1)))
    return False


def is_negative(value: int | Linear) -> bool:
    """Decide whether an exact value is below 0 for all iterations."""
    if isinstance(value, int):
        return value < 0
    below = value.constant < 0
    require(value, *((None, -1) if below else (0, None)))
    return below
