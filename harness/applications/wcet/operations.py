"""Arithmetic and decisions of processors on the values of an abstract execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from harness.applications.wcet.machine import Condition
from harness.applications.wcet.state import Flags, State
from harness.applications.wcet.values import (
    DATA,
    MASK,
    VARIES,
    Linear,
    NotAffineError,
    Unknown,
    Value,
    add,
    as_signed,
    divide,
    exact_sum,
    fit,
    is_negative,
    is_zero,
    known,
    multiply,
    signed,
    subtract,
    unknown,
    unsigned,
)

Binary: TypeAlias = Callable[[Value, Value], Value]


def of_number(value: Value, compute: Callable[[int], int]) -> Value:
    """Return a function of a number; of a form nothing is known."""
    if isinstance(value, Unknown):
        return value
    return VARIES if isinstance(value, Linear) else compute(value)


def of_numbers(a: Value, b: Value, compute: Callable[[int, int], int]) -> Value:
    """Return a function of two numbers; of forms nothing is known."""
    if isinstance(a, int) and isinstance(b, int):
        return compute(a, b)
    return unknown(a, b) or VARIES


def shift_right(value: Value, by: int, width: int) -> Value:
    """Return the low `width` bits, shifted right without their sign."""
    value = fit(value, width)
    return value if isinstance(value, Unknown) else attempt(lambda: divide(unsigned(value), 1 << by))


def shift_right_arithmetic(value: Value, by: int, width: int) -> Value:
    """Return the low `width` bits, shifted right with their sign."""
    if isinstance(value, Unknown):
        return value
    return attempt(lambda: _modulo(divide(signed(value, width), 1 << by), width))


def _modulo(value: int | Linear, width: int) -> Value:
    return value & ((1 << width) - 1) if isinstance(value, int) else fit(add(value, 0), width)


def attempt(compute: Callable[[], Value]) -> Value:
    """Return a result, or that nothing is known of it: it may never be needed."""
    try:
        return compute()
    except NotAffineError:
        return VARIES


def rotated(number: int, by: int, width: int) -> int:
    """Return the low `width` bits, rotated right."""
    number &= (1 << width) - 1
    return (number >> by | number << (width - by)) & ((1 << width) - 1)


def bit_and(width: int) -> Binary:
    """Return the function that computes the bits which two values of `width` bits share."""

    def compute(a: Value, b: Value) -> Value:
        if a == 0 or b == 0:
            return 0
        if isinstance(a, Linear) and isinstance(b, int):
            return attempt(lambda: _masked(a, b, width))
        if isinstance(b, Linear) and isinstance(a, int):
            return attempt(lambda: _masked(b, a, width))
        return of_numbers(a, b, lambda x, y: x & y)

    return compute


def _masked(form: Linear, mask: int, width: int) -> Value:
    """Return the bits of a form in a mask of the lowest bits or of all others."""
    whole = (1 << width) - 1
    low = mask if not mask & (mask + 1) else ~mask & whole
    if low & (low + 1):
        raise NotAffineError
    value = unsigned(form)
    multiple = multiply(divide(value, low + 1), low + 1)
    return multiple if low != mask else subtract(value, multiple)


def bit_or(a: Value, b: Value) -> Value:
    """Return the bits of both values."""
    if a == 0:
        return b
    return a if b == 0 else of_numbers(a, b, lambda x, y: x | y)


def bit_xor(a: Value, b: Value) -> Value:
    """Return the bits in which two values differ."""
    if a == 0:
        return b
    if a == b and not isinstance(a, Unknown):
        return 0
    return a if b == 0 else of_numbers(a, b, lambda x, y: x ^ y)


def inverted(value: Value) -> Value:
    """Return the value with all bits inverted, modulo 2^64."""
    return subtract(MASK, value)


def high_of_form(a: Value, b: Value) -> Value:
    """Return the upper half of a product of a form and a number: the quotient by which compilers divide."""
    form, factor = (a, b) if isinstance(a, Linear) else (b, a)
    if not isinstance(form, Linear) or not isinstance(factor, int):
        raise NotAffineError
    unsigned(form)
    return divide(
        Linear(form.constant * factor, {counter: own * factor for counter, own in form.factors.items()}), 1 << 64
    )


def truncated(a: int, b: int) -> int:
    """Return a quotient rounded towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


# Decisions


def decision(code: str) -> Condition:
    """Return the decision about the flags that a condition code of Arm names: eq, lo, ge, ..."""
    positive, negate = _CONDITIONS[code]

    def decide(state: State) -> bool | None:
        flags = state.flags
        if flags is VARIES:
            raise NotAffineError
        if flags is DATA or not isinstance(flags, Flags):
            return None
        if flags.kind != "nzcv":
            of = unknown(flags.a, flags.b)
            if of is DATA:
                return None
            if of is VARIES:
                raise NotAffineError
        return positive(flags) is not negate

    return decide


def _bits_set(flags: Flags) -> tuple[bool, bool, bool, bool]:
    """Return N, Z, C and V of numbers."""
    a, b, width = flags.a, flags.b, flags.width
    if not isinstance(a, int) or not isinstance(b, int):
        raise NotAffineError
    if flags.kind == "nzcv":
        return bool(a & 8), bool(a & 4), bool(a & 2), bool(a & 1)
    if flags.kind == "logic":
        return as_signed(a, width) < 0, a == 0, False, False
    whole = (1 << width) - 1
    other = b ^ whole if flags.kind == "sub" else b
    total = a + other + (flags.kind == "sub")
    result = total & whole
    overflow = as_signed(a, width) + as_signed(other, width) + (flags.kind == "sub") != as_signed(result, width)
    return as_signed(result, width) < 0, result == 0, total > whole, overflow


def _difference(flags: Flags) -> tuple[int | Linear, int | Linear]:
    """Return the two values of a comparison of forms; a sum is compared with the negative number."""
    return known(flags.a), known(subtract(0, flags.b) if flags.kind == "add" else flags.b)


def _has_forms(flags: Flags) -> bool:
    return isinstance(flags.a, Linear) or isinstance(flags.b, Linear)


def _equal(flags: Flags) -> bool:
    if not _has_forms(flags):
        return _bits_set(flags)[1]
    return is_zero(signed(known(subtract(*_difference(flags))), flags.width))


def _below(flags: Flags) -> bool:
    """Return whether a < b without signs: the carry is clear."""
    if not _has_forms(flags):
        return not _bits_set(flags)[2]
    if flags.kind != "sub":
        raise NotAffineError
    a, b = (known(fit(value, flags.width)) for value in (flags.a, flags.b))
    return is_negative(exact_sum(unsigned(a), unsigned(b), -1))


def _less(flags: Flags) -> bool:
    """Return whether a < b with signs."""
    if not _has_forms(flags):
        negative, _, _, overflow = _bits_set(flags)
        return negative is not overflow
    a, b = _difference(flags)
    return is_negative(exact_sum(signed(a, flags.width), signed(b, flags.width), -1))


def _negative(flags: Flags) -> bool:
    """Return whether the result of the operation is negative."""
    if not _has_forms(flags):
        return _bits_set(flags)[0]
    return is_negative(signed(known(subtract(*_difference(flags))), flags.width))


def _overflow(flags: Flags) -> bool:
    return _bits_set(flags)[3]


def _not_above(flags: Flags) -> bool:
    return _below(flags) or _equal(flags)


def _not_greater(flags: Flags) -> bool:
    if flags.kind == "sub" and _has_forms(flags):  # a <= b is a < b + 1, without a decision between < and =
        a, b = (signed(known(value), flags.width) for value in (flags.a, flags.b))
        return is_negative(exact_sum(a, exact_sum(b, 1, 1), -1))
    return _less(flags) or _equal(flags)


_CONDITIONS: dict[str, tuple[Callable[[Flags], bool], bool]] = {
    "eq": (_equal, False), "ne": (_equal, True), "lo": (_below, False), "hs": (_below, True), "cc": (_below, False),
    "cs": (_below, True), "ls": (_not_above, False), "hi": (_not_above, True), "lt": (_less, False),
    "ge": (_less, True), "le": (_not_greater, False), "gt": (_not_greater, True), "mi": (_negative, False),
    "pl": (_negative, True), "vs": (_overflow, False), "vc": (_overflow, True),
}  # fmt: skip
