"""The value of every instruction that only computes: full opcode -> types and a function of numpy arrays.

The semantics are those of NVIDIA's "Parallel Thread Execution ISA", chapter 9.  An opcode stands here with its whole
name or it is not known: add.rn.f32 is no kind of add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.simulators.ptx.errors import PtxError

Array = npt.NDArray[Any]

SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
NAN = np.uint32(0x7FFFFFFF)
SIGN = np.uint32(1 << 31)


def dtype_of(kind: str) -> np.dtype[Any]:
    """The numpy type of a PTX type: s32, pred, ..."""
    if kind == "pred":
        return np.dtype(np.bool_)
    if kind == "f32":
        return np.dtype(np.float32)
    return np.dtype((SIGNED if kind[0] == "s" else UNSIGNED)[int(kind[1:])])


@dataclass(frozen=True)
class Operation:
    """`compute` takes values of the types `sources` and gives one of type `result`.

    `narrows` says that registers may be wider than these types: their low bits are taken, the result is extended.
    """

    result: str
    sources: tuple[str, ...]
    compute: Callable[..., Array]
    narrows: bool = False


def _all() -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for name, operation in (*_integers(), *_products(), *_bitwise(), *_comparisons(), *_conversions(), *_floats()):
        assert name not in found, name
        found[name] = operation
    return found


Named = Iterator[tuple[str, Operation]]


def _integers() -> Named:
    for kind in ("s16", "s32", "s64", "u16", "u32", "u64"):
        bits = f"u{kind[1:]}"
        # Modulo 2^n, which is the same for signed numbers.
        yield f"add.{kind}", Operation(bits, (bits, bits), np.add)
        yield f"sub.{kind}", Operation(bits, (bits, bits), np.subtract)
        yield f"mul.lo.{kind}", Operation(bits, (bits, bits), np.multiply)
        yield f"mad.lo.{kind}", Operation(bits, (bits, bits, bits), lambda a, b, c: a * b + c)
        yield f"div.{kind}", Operation(kind, (kind, kind), _divide)
        yield f"rem.{kind}", Operation(kind, (kind, kind), _remainder)
        yield f"min.{kind}", Operation(kind, (kind, kind), np.minimum)
        yield f"max.{kind}", Operation(kind, (kind, kind), np.maximum)
        if kind[0] == "s":
            yield f"neg.{kind}", Operation(bits, (bits,), lambda a: np.zeros_like(a) - a)
            yield f"abs.{kind}", Operation(kind, (kind,), np.abs)


def _divide(a: Array, b: Array) -> Array:
    quotient: Array = (a - _remainder(a, b)) // b
    return quotient


def _remainder(a: Array, b: Array) -> Array:
    """Of the sign of a, as in C."""
    if (b == 0).any():
        raise PtxError("division by zero")
    return np.fmod(a, b)


def _products() -> Named:
    for sign in "su":
        for bits in (16, 32):
            kind, wide = f"{sign}{bits}", f"{sign}{2 * bits}"
            yield f"mul.wide.{kind}", Operation(wide, (kind, kind), _wide(wide))
            yield f"mad.wide.{kind}", Operation(wide, (kind, kind, wide), _wide_sum(wide))
            yield f"mul.hi.{kind}", Operation(kind, (kind, kind), _high(kind, wide))
    yield "mul.hi.u64", Operation("u64", ("u64", "u64"), _high_u64)
    yield "mul.hi.s64", Operation("u64", ("u64", "u64"), _high_s64)
    for a in ("s32", "u32"):
        for b in ("s32", "u32"):
            yield f"dp4a.{a}.{b}", Operation("u32", ("u32", "u32", "u32"), _dot4(a[0] == "s", b[0] == "s"))


def _wide(wide: str) -> Callable[[Array, Array], Array]:
    dtype = dtype_of(wide)
    return lambda a, b: a.astype(dtype) * b.astype(dtype)


def _wide_sum(wide: str) -> Callable[[Array, Array, Array], Array]:
    multiply = _wide(wide)
    return lambda a, b, c: multiply(a, b) + c


def _high(kind: str, wide: str) -> Callable[[Array, Array], Array]:
    multiply, dtype, bits = _wide(wide), dtype_of(kind), int(kind[1:])
    return lambda a, b: (multiply(a, b) >> bits).astype(dtype)


def _high_u64(a: Array, b: Array) -> Array:
    """The upper half of 128 bits, of four products of halves: none of these sums leaves 64 bits."""
    low = np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> 32, b & low, b >> 32
    middle = a1 * b0 + (a0 * b0 >> 32)
    other = a0 * b1 + (middle & low)
    high: Array = a1 * b1 + (middle >> 32) + (other >> 32)
    return high


def _high_s64(a: Array, b: Array) -> Array:
    """A negative number's code is 2^64 more than the number."""
    zero = np.uint64(0)
    high: Array = _high_u64(a, b) - np.where(a >> 63 == 1, b, zero) - np.where(b >> 63 == 1, a, zero)
    return high


def _dot4(a_signed: bool, b_signed: bool) -> Callable[[Array, Array, Array], Array]:
    def dot(a: Array, b: Array, c: Array) -> Array:
        total = c
        for byte in range(4):
            total = total + (_byte(a, byte, a_signed) * _byte(b, byte, b_signed)).view(np.uint32)
        return total

    return dot


def _byte(word: Array, number: int, signed: bool) -> Array:
    upmost: Array = word << np.uint32(24 - 8 * number)
    byte: Array = upmost.view(np.int32) >> 24 if signed else (upmost >> 24).view(np.int32)
    return byte


def _bitwise() -> Named:
    for kind in ("pred", "b16", "b32", "b64"):
        yield f"and.{kind}", Operation(kind, (kind, kind), np.bitwise_and)
        yield f"or.{kind}", Operation(kind, (kind, kind), np.bitwise_or)
        yield f"xor.{kind}", Operation(kind, (kind, kind), np.bitwise_xor)
        yield f"not.{kind}", Operation(kind, (kind,), np.invert)
    for bits in (16, 32, 64):
        yield f"shl.b{bits}", Operation(f"b{bits}", (f"b{bits}", "u32"), _shift_left)
        for sign in "bsu":
            yield f"shr.{sign}{bits}", Operation(f"{sign}{bits}", (f"{sign}{bits}", "u32"), _shift_right)
    yield "prmt.b32", Operation("b32", ("b32", "b32", "b32"), _permute)
    yield "bfe.u32", Operation("u32", ("u32", "u32", "u32"), _extract)
    yield "bfe.s32", Operation("s32", ("s32", "u32", "u32"), _extract)
    yield "bfi.b32", Operation("b32", ("b32", "b32", "u32", "u32"), _insert)
    yield "bfi.b64", Operation("b64", ("b64", "b64", "u32", "u32"), _insert)


def _shift_left(a: Array, by: Array) -> Array:
    """By 32 or more, of 32 bits, is 0."""
    bits = 8 * a.itemsize
    shifted: Array = np.where(by < bits, a << np.minimum(by, bits - 1).astype(a.dtype), a.dtype.type(0))
    return shifted


def _shift_right(a: Array, by: Array) -> Array:
    """By 32 or more, of 32 bits, is 0, or the sign everywhere."""
    bits = 8 * a.itemsize
    shifted: Array = a >> np.minimum(by, bits - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(by < bits, shifted, a.dtype.type(0))


def _permute(a: Array, b: Array, selection: Array) -> Array:
    """Four bytes of the eight in b:a, chosen by half bytes; bit 3 asks for the byte's sign everywhere in it."""
    eight = b.astype(np.uint64) << 32 | a
    result = np.zeros(np.broadcast_shapes(eight.shape, selection.shape), np.uint32)
    for number in range(4):
        choice = selection >> np.uint32(4 * number) & 15
        byte = (eight >> (choice & 7).astype(np.uint64) * 8).astype(np.uint32) & 0xFF
        byte = np.where(choice & 8, np.where(byte & 0x80, 0xFF, 0), byte).astype(np.uint32)
        result |= byte << np.uint32(8 * number)
    return result


def _extract(a: Array, position: Array, length: Array) -> Array:
    """`length` bits from `position` on, of the number continued with its sign (or 0) above bit 31."""
    wide = a.astype(np.int64 if a.dtype.kind == "i" else np.uint64)
    unused = (64 - np.minimum(length & 0xFF, 32)).astype(wide.dtype)
    upmost = wide >> np.minimum(position & 0xFF, 63).astype(wide.dtype) << np.minimum(unused, 63)
    return np.where(length & 0xFF, upmost >> np.minimum(unused, 63), 0).astype(a.dtype)


def _insert(a: Array, b: Array, position: Array, length: Array) -> Array:
    """`length` bits of a, at `position` of b; bits above the type are left out."""
    one, ones = b.dtype.type(1), b.dtype.type(0) - b.dtype.type(1)
    field = np.where(length & 0xFF >= 8 * b.itemsize, ones, _shift_left(one, length & 0xFF) - one).astype(b.dtype)
    mask = _shift_left(field, position & 0xFF)
    inserted: Array = b & ~mask | _shift_left(a, position & 0xFF) & mask
    return inserted


ORDERED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _comparisons() -> Named:
    for name, compare in ORDERED.items():
        kinds = [f"{sign}{bits}" for sign in "su" for bits in (16, 32, 64)]
        kinds += ["b16", "b32", "b64"] if name in {"eq", "ne"} else []
        for kind in kinds:
            yield f"setp.{name}.{kind}", Operation("pred", (kind, kind), compare)
        yield f"setp.{name}.f32", Operation("pred", ("f32", "f32"), _unless_nan(compare))
        yield f"setp.{name}u.f32", Operation("pred", ("f32", "f32"), _or_nan(compare))
    yield "setp.num.f32", Operation("pred", ("f32", "f32"), lambda a, b: ~_nan(a, b))
    yield "setp.nan.f32", Operation("pred", ("f32", "f32"), _nan)
    for kind in [f"{sign}{bits}" for sign in "bsu" for bits in (16, 32, 64)] + ["f32"]:
        yield f"selp.{kind}", Operation(kind, (kind, kind, "pred"), _select)


def _integer_part(kind: str) -> Callable[[Array], Array]:
    """Toward zero, the nearest integer of the type beyond it, 0 for NaN."""
    limits, dtype = np.iinfo(dtype_of(kind)), dtype_of(kind)

    def converted(a: Array) -> Array:
        inside = (a >= np.float32(limits.min)) & (a < np.float32(limits.max))
        whole = np.where(inside, a, 0).astype(dtype)
        return np.where(a >= np.float32(limits.max), dtype.type(limits.max),
                        np.where(a < np.float32(limits.min), dtype.type(limits.min), whole))  # fmt: skip

    return converted


def _select(a: Array, b: Array, p: Array) -> Array:
    return np.where(p, a, b)


def _nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _unless_nan(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: compare(a, b) & ~_nan(a, b)


def _or_nan(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: compare(a, b) | _nan(a, b)


def _conversions() -> Named:
    kinds = [f"{sign}{bits}" for sign in "su" for bits in (8, 16, 32, 64)]
    for to in kinds:
        for source in kinds:
            yield f"cvt.{to}.{source}", Operation(to, (source,), _converted(to), narrows=True)
    for kind in kinds:
        yield f"cvt.rn.f32.{kind}", Operation("f32", (kind,), lambda a: a.astype(np.float32), narrows=True)
        yield f"cvt.rzi.{kind}.f32", Operation(kind, ("f32",), _integer_part(kind), narrows=True)
    yield "cvt.rni.s32.f32", Operation("s32", ("f32",), _round)
    for rounding, function in (("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil), ("rzi", np.trunc)):
        yield f"cvt.{rounding}.f32.f32", Operation("f32", ("f32",), function)
    for kind in ["pred", "f32"] + [f"{sign}{bits}" for sign in "bsu" for bits in (16, 32, 64)]:
        yield f"mov.{kind}", Operation(kind, (kind,), lambda a: a)


def _converted(to: str) -> Callable[[Array], Array]:
    dtype = dtype_of(to)
    return lambda a: a.astype(dtype)


def _round(x: Array) -> Array:
    """To nearest, half to even; beyond int32 to its ends, NaN to 0."""
    rounded = np.rint(x).astype(np.float64)
    return np.where(np.isnan(x), 0, np.clip(rounded, -(2.0**31), 2.0**31 - 1)).astype(np.int32)


def _floats() -> Named:
    two = ("f32", "f32")
    yield "mul.rn.f32", Operation("f32", two, lambda a, b: _canonical(a * b))
    yield "add.rn.f32", Operation("f32", two, lambda a, b: _canonical(a + b))
    yield "sub.rn.f32", Operation("f32", two, lambda a, b: _canonical(a - b))
    yield "div.rn.f32", Operation("f32", two, lambda a, b: _canonical(a / b))
    yield "sqrt.rn.f32", Operation("f32", ("f32",), lambda a: _canonical(np.sqrt(a)))
    yield "rcp.rn.f32", Operation("f32", ("f32",), lambda a: _canonical(np.float32(1) / a))
    yield "fma.rn.f32", Operation("f32", (*two, "f32"), _fused)
    yield "neg.f32", Operation("u32", ("u32",), lambda a: a ^ SIGN)
    yield "abs.f32", Operation("u32", ("u32",), lambda a: a & ~SIGN)
    yield "min.f32", Operation("f32", two, _extremum(np.fmin, np.bitwise_or))
    yield "max.f32", Operation("f32", two, _extremum(np.fmax, np.bitwise_and))


def _fused(a: Array, b: Array, c: Array) -> Array:
    """Round once: the product is exact in float64, its sum with c is rounded to odd there."""
    product, term = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + term
    of_term = total - product
    lost = (product - (total - of_term)) + (term - of_term)
    inexact = np.isfinite(total) & (lost != 0) & (total.view(np.int64) % 2 == 0)
    odd = np.where(inexact, np.nextafter(total, np.copysign(np.inf, lost)), total)
    return _canonical(odd.astype(np.float32))


def _canonical(x: Array) -> Array:
    """A GPU has one NaN."""
    return np.where(np.isnan(x), NAN.view(np.float32), x)


def _extremum(choose: Callable[..., Array], sign: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    """The other number where one is NaN; -0 is less than 0."""

    def extremum(a: Array, b: Array) -> Array:
        same = sign(a.view(np.uint32), b.view(np.uint32)).view(np.float32)
        return _canonical(np.where(a == b, same, choose(a, b)))

    return extremum


OPERATIONS = _all()
