"""Each instruction's value, against Python's integers and fractions, on the edges of its types above all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from harness.targets.cuda import ptx
from tests.simulators.ptx import steps
from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.operations import Array
from tests.simulators.ptx.texts import evaluate

pytestmark = pytest.mark.campaign  # the stand-in itself; what runs on it is tested in make test

EDGES = {
    16: [0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x100, 0x1234, 0x7FFF, 0x8000, 0x8001, 0xFF80, 0xFFFE, 0xFFFF],
    32: [0, 1, 2, 7, 0x80, 0xFF, 0xFFFF, 0x12345678, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFEDCBA98, 0xFFFFFFFF],
    64: [0, 1, 3, 0xFFFFFFFF, 1 << 32, 0x123456789ABCDEF0, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1],
}
Function = Callable[..., int]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def number(value: int, kind: str) -> int:
    """What bits mean as a type."""
    return signed(value, int(kind[1:])) if kind[0] == "s" else value


def operands(*kinds: str) -> list[Array]:
    """Every combination of edges, as unsigned arrays."""
    combined = itertools.product(*(EDGES[int(kind[1:])] for kind in kinds))
    columns = zip(*combined, strict=True)
    return [np.array(column, f"uint{kind[1:]}") for column, kind in zip(columns, kinds, strict=True)]


def check(opcode: str, kinds: list[str], bits: int, expected: Function, *columns: Array) -> None:
    """Of every row, the instruction's value is Python's, modulo 2^bits."""
    arrays = list(columns) or operands(*kinds)
    rows = zip(*(array.tolist() for array in arrays), strict=True)
    right = [expected(*(number(v, k) for v, k in zip(row, kinds, strict=True))) % (1 << bits) for row in rows]
    for at in range(0, len(right), 1000):
        part = [array[at : at + 1000] for array in arrays]
        assert evaluate(opcode, f"uint{bits}", *part).tolist() == right[at : at + 1000]


TWO: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("kind", ["s16", "s32", "s64", "u16", "u32", "u64"])
@pytest.mark.parametrize("name", TWO)
def test_integers(name: str, kind: str) -> None:
    check(f"{name}.{kind}", [kind, kind], int(kind[1:]), TWO[name])


@pytest.mark.parametrize("kind", ["s16", "s32", "s64", "u16", "u32", "u64"])
def test_upper_half_of_a_product(kind: str) -> None:
    bits = int(kind[1:])
    check(f"mul.hi.{kind}", [kind, kind], bits, lambda a, b: a * b >> bits)


@pytest.mark.parametrize("kind", ["s16", "s32", "u16", "u32"])
def test_wide_products(kind: str) -> None:
    bits = int(kind[1:])
    check(f"mul.wide.{kind}", [kind, kind], 2 * bits, lambda a, b: a * b)
    wide = f"{kind[0]}{2 * bits}"
    a, b = operands(kind, kind)
    c = np.resize(np.array(EDGES[2 * bits], f"uint{2 * bits}"), len(a))
    check(f"mad.wide.{kind}", [kind, kind, wide], 2 * bits, lambda a, b, c: a * b + c, a, b, c)


@pytest.mark.parametrize("kind", ["s16", "s32", "s64", "u16", "u32", "u64"])
def test_multiply_and_add(kind: str) -> None:
    a, b = operands(kind, kind)
    check(f"mad.lo.{kind}", [kind] * 3, int(kind[1:]), lambda a, b, c: a * b + c, a, b, a[::-1].copy())


@pytest.mark.parametrize("kind", ["s16", "s32", "s64", "u16", "u32", "u64"])
def test_division_cuts_towards_zero(kind: str) -> None:
    bits = int(kind[1:])
    a, b = (array[operands(kind, kind)[1] != 0] for array in operands(kind, kind))
    lowest = (a == 1 << (bits - 1)) & (b == (1 << bits) - 1)  # whose quotient no type of its size has
    a, b = a[~lowest], b[~lowest]

    def quotient(a: int, b: int) -> int:
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)

    check(f"div.{kind}", [kind, kind], bits, quotient, a, b)
    check(f"rem.{kind}", [kind, kind], bits, lambda a, b: a - b * quotient(a, b), a, b)


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(PtxError, match="division by zero"):
        evaluate("div.u32", "uint32", np.array([1], "uint32"), np.array([0], "uint32"))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_signs_and_bits(bits: int) -> None:
    signed_kind, kind = f"s{bits}", f"b{bits}"
    check(f"neg.{signed_kind}", [signed_kind], bits, lambda a: -a)
    check(f"abs.{signed_kind}", [signed_kind], bits, abs)
    check(f"and.{kind}", [kind, kind], bits, lambda a, b: a & b)
    check(f"or.{kind}", [kind, kind], bits, lambda a, b: a | b)
    check(f"xor.{kind}", [kind, kind], bits, lambda a, b: a ^ b)
    check(f"not.{kind}", [kind], bits, lambda a: ~a)


def test_predicates() -> None:
    p, q = np.array([[a, b] for a in (False, True) for b in (False, True)]).T.copy()
    assert (evaluate("and.pred", "bool", p, q) == (p & q)).all()
    assert (evaluate("or.pred", "bool", p, q) == (p | q)).all()
    assert (evaluate("xor.pred", "bool", p, q) == (p ^ q)).all()
    assert (evaluate("not.pred", "bool", p) == ~p).all()
    assert (evaluate("mov.pred", "bool", p) == p).all()


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_by_all_bits_and_more(bits: int) -> None:
    values = EDGES[bits]
    amounts = [0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 1 << 31]
    columns = zip(*itertools.product(values, amounts), strict=True)
    a, by = (np.array(column, dtype) for column, dtype in zip(columns, (f"uint{bits}", "uint32"), strict=True))
    check(f"shl.b{bits}", [f"b{bits}", "u32"], bits, lambda a, n: a << min(n, 64), a, by)
    check(f"shr.u{bits}", [f"u{bits}", "u32"], bits, lambda a, n: a >> n, a, by)
    check(f"shr.b{bits}", [f"b{bits}", "u32"], bits, lambda a, n: a >> n, a, by)
    check(f"shr.s{bits}", [f"s{bits}", "u32"], bits, lambda a, n: a >> n, a, by)


WORDS = np.random.default_rng(0).integers(0, 1 << 32, (3, 500), dtype=np.uint32)
WORDS[0, :4] = WORDS[1, :4] = [0x80808080, 0xFFFFFFFF, 0x7F7F7F7F, 0x80FF017F]


@pytest.mark.parametrize("a_kind", ["s32", "u32"])
@pytest.mark.parametrize("b_kind", ["s32", "u32"])
def test_four_products(a_kind: str, b_kind: str) -> None:
    def dot(a: int, b: int, c: int) -> int:
        pairs = zip(a.to_bytes(4, "little"), b.to_bytes(4, "little"), strict=True)
        return c + sum(number(x, f"{a_kind[0]}8") * number(y, f"{b_kind[0]}8") for x, y in pairs)

    check(f"dp4a.{a_kind}.{b_kind}", ["u32"] * 3, 32, dot, *WORDS)


def test_four_products_of_extremes() -> None:
    """By hand: 255 * 127 four times, -128 * -128 four times, 255 * -128 four times, 255 * 255 four times."""
    high, low, most = (np.array([word], np.uint32) for word in (0x7F7F7F7F, 0x80808080, 0xFFFFFFFF))
    ten = np.array([10], np.uint32)
    assert evaluate("dp4a.u32.s32", "int32", most, high, ten).tolist() == [129550]
    assert evaluate("dp4a.s32.s32", "int32", low, low, ten).tolist() == [65546]
    assert evaluate("dp4a.u32.s32", "int32", most, low, ten).tolist() == [-130550]
    assert evaluate("dp4a.s32.u32", "int32", low, most, ten).tolist() == [-130550]
    assert evaluate("dp4a.u32.u32", "int32", most, most, ten).tolist() == [260110]


def test_bytes_are_permuted() -> None:
    a, b = np.array([0x33221100], np.uint32), np.array([0x77E65504], np.uint32)
    assert evaluate("prmt.b32", "uint32", a, b, 0x3210).tolist() == [0x33221100]
    assert evaluate("prmt.b32", "uint32", a, b, 0x7654).tolist() == [0x77E65504]
    assert evaluate("prmt.b32", "uint32", a, b, 0x0617).tolist() == [0x00E61177]
    assert evaluate("prmt.b32", "uint32", a, b, 0xE0FD).tolist() == [0xFF000000]  # bit 3: the sign of the byte
    assert evaluate("prmt.b32", "uint32", a, b, 0x10000).tolist() == [0]  # only 16 bits count


def bit_field(extended: bool) -> Function:
    """Bit i is bit position + i of a; above bit 31, and from `length` on, the last of these, or 0."""

    def field(a: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        sign = (a >> min(position + length - 1, 31)) & 1 if length and extended else 0
        bits = [(a >> (position + i)) & 1 if i < length and position + i <= 31 else sign for i in range(32)]
        return sum(bit << i for i, bit in enumerate(bits))

    return field


def test_bit_fields() -> None:
    places = [0, 1, 7, 8, 24, 31, 32, 40, 255, 256]
    rows = itertools.product([0, 0x12345678, 0x7FFFFFFF, 0x80000000, 0xFEDCBA98, 0xFFFFFFFF], places, places)
    a, position, length = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    check("bfe.u32", ["u32"] * 3, 32, bit_field(extended=False), a, position, length)
    check("bfe.s32", ["s32", "u32", "u32"], 32, bit_field(extended=True), a, position, length)

    def inserted(bits: int, a: int, b: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        for i in range(min(length, max(bits - position, 0))):
            b = b & ~(1 << position + i) | ((a >> i) & 1) << position + i
        return b

    check("bfi.b32", ["u32"] * 4, 32, partial(inserted, 32), a, a[::-1].copy(), position, length)
    wide = a.astype(np.uint64) << 32 | a[::-1]
    kinds = ["u64", "u64", "u32", "u32"]
    check("bfi.b64", kinds, 64, partial(inserted, 64), wide, wide[::-1].copy(), position, length)


COMPARED: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("kind", ["s16", "s32", "s64", "u16", "u32", "u64"])
@pytest.mark.parametrize("name", COMPARED)
def test_integer_comparisons(name: str, kind: str) -> None:
    a, b = operands(kind, kind)
    right = [COMPARED[name](number(x, kind), number(y, kind)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert evaluate(f"setp.{name}.{kind}", "bool", a, b).tolist() == right


FLOATS = np.array(
    [
        *(0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x00800001),  # 0, subnormal, least
        *(0x3F800000, 0xBF800000, 0x3F800001, 0x3FC00000, 0x40490FDB, 0x3EAAAAAB, 0x4B7FFFFF, 0x4B800001),
        *(0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001),  # ends, infinite, NaN
        *(0x1FFFFFFF, 0x20000001, 0x5F000000, 0xDF000001, 0x34000000, 0xB3800000, 0x4EFFFFFF, 0x00000003),
    ],
    np.uint32,
).view(np.float32)
PAIRS = [array.ravel() for array in np.meshgrid(FLOATS, FLOATS)]
CANONICAL_NAN = 0x7FFFFFFF


@pytest.mark.parametrize("name", COMPARED)
def test_float_comparisons(name: str) -> None:
    """With a NaN an ordered one is false, an unordered one true."""
    a, b = PAIRS
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    nan = [math.isnan(x) or math.isnan(y) for x, y in pairs]
    right = [COMPARED[name](x, y) for x, y in pairs]
    assert evaluate(f"setp.{name}.f32", "bool", a, b).tolist() == [r and not n for r, n in zip(right, nan, strict=True)]
    assert evaluate(f"setp.{name}u.f32", "bool", a, b).tolist() == [r or n for r, n in zip(right, nan, strict=True)]


def test_whether_numbers() -> None:
    a, b = PAIRS
    nan = (np.isnan(a) | np.isnan(b)).tolist()
    assert evaluate("setp.nan.f32", "bool", a, b).tolist() == nan
    assert evaluate("setp.num.f32", "bool", a, b).tolist() == [not n for n in nan]


def rounded(value: Fraction, negative_zero: bool) -> int:
    """The bits of the float32 nearest to a number, half to even; beyond the largest, infinite."""
    if value == 0:
        return 1 << 31 if negative_zero else 0
    sign, value = (1 << 31 if value < 0 else 0), abs(value)
    exponent = -149
    while value / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    scaled = value / Fraction(2) ** exponent
    significand = math.floor(scaled)
    half = scaled - significand - Fraction(1, 2)
    significand += half > 0 or (half == 0 and significand % 2 == 1)
    # A subnormal's or normal's code: the significand's top bit carries into the exponent.
    code = significand if exponent == -149 else significand + ((exponent + 149) << 23)
    return sign | min(code, 0x7F800000)


EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "div": lambda a, b: a / b,
}


def is_negative_zero(name: str, a: float, b: float) -> bool:
    negative = [math.copysign(1, x) < 0 for x in (a, b)]
    if name == "sub":
        return negative == [True, False]
    return all(negative) if name == "add" else negative[0] != negative[1]


@pytest.mark.parametrize("name", EXACT)
def test_float_operations(name: str) -> None:
    """Of finite numbers, subnormal ones too, the exact result rounded once."""
    rng = np.random.default_rng(1)
    some = rng.integers(0, 1 << 32, (2, 1000), dtype=np.uint32).view(np.float32)
    a, b = (np.concatenate(both) for both in zip(PAIRS, some, strict=True))
    finite = np.isfinite(a) & np.isfinite(b) & ((b != 0) | (name != "div"))
    a, b = a[finite], b[finite]
    right = [
        rounded(EXACT[name](Fraction(x), Fraction(y)), is_negative_zero(name, x, y))
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    for at in range(0, len(a), 1000):
        part = slice(at, at + 1000)
        found = evaluate(f"{name}.rn.f32", "float32", a[part].copy(), b[part].copy()).view(np.uint32)
        assert found.tolist() == right[part]


def test_square_roots() -> None:
    """The root of x lies between the middles of the float32 beside it: exactly, by the squares of these."""
    x = np.random.default_rng(2).integers(0, 0x7F800000, 1000, dtype=np.uint32)
    x[:4] = 0, 1, 0x007FFFFF, 0x7F7FFFFF
    roots = evaluate("sqrt.rn.f32", "float32", x.view(np.float32))
    for value, root in zip(x.view(np.float32).tolist(), roots, strict=True):
        below, above = (
            (Fraction(float(root)) + Fraction(float(np.nextafter(root, np.float32(end))))) / 2 for end in (-1, np.inf)
        )
        assert root == value == 0 or below**2 < Fraction(value) < above**2


def special(opcode: str, *values: float) -> int:
    arrays = [np.array([value], np.float32) for value in values]
    return int(evaluate(opcode, "float32", *arrays).view(np.uint32)[0])


def test_infinite_and_nan() -> None:
    inf, nan = math.inf, math.nan
    assert special("div.rn.f32", 1, 0) == 0x7F800000
    assert special("div.rn.f32", 1, -0.0) == 0xFF800000
    assert special("div.rn.f32", 0, 0) == CANONICAL_NAN
    assert special("div.rn.f32", 1, -inf) == 0x80000000
    assert special("mul.rn.f32", 0, inf) == CANONICAL_NAN
    assert special("add.rn.f32", inf, -inf) == special("sub.rn.f32", inf, inf) == CANONICAL_NAN
    assert special("sqrt.rn.f32", -1) == CANONICAL_NAN
    assert special("sqrt.rn.f32", -0.0) == 0x80000000
    assert special("add.rn.f32", nan, 1) == CANONICAL_NAN
    assert special("mul.rn.f32", 2e38, 2) == 0x7F800000


def test_extremes_of_floats() -> None:
    nan = math.nan
    assert special("min.f32", 0.0, -0.0) == special("min.f32", -0.0, 0.0) == 0x80000000
    assert special("max.f32", 0.0, -0.0) == special("max.f32", -0.0, 0.0) == 0
    assert special("min.f32", nan, 2) == special("max.f32", 2, nan) == 0x40000000
    assert special("min.f32", nan, nan) == special("max.f32", nan, nan) == CANONICAL_NAN
    assert special("max.f32", -1, 2) == special("min.f32", 3, 2) == 0x40000000
    assert special("neg.f32", 0.0) == 0x80000000
    assert special("abs.f32", -1.5) == 0x3FC00000


def test_a_fused_multiply_add_rounds_once() -> None:
    """The sum of a product that is half way between two numbers, and a term of which float64 keeps nothing."""
    rng = np.random.default_rng(1)
    a, b, c = (rng.normal(0, 1, 20000).astype(np.float32) for _ in range(3))
    c *= np.float32(2) ** rng.integers(-40, 20, len(c)).astype(np.float32)
    a[:3], b[:3], c[:3] = np.float32(1 + 2**-12), np.float32(1 + 2**-12), [2.0**-80, -(2.0**-80), 0]
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    right = [rounded(value, negative_zero=False) for value in exact]
    assert evaluate("fma.rn.f32", "float32", a, b, c).view(np.uint32).tolist() == right


def test_float_to_integer() -> None:
    """Half to even; beyond int32 its ends; NaN is 0."""
    ties = {0.5: 0, 1.5: 2, 2.5: 2, -0.5: 0, -1.5: -2, -2.5: -2, 0.49999997: 0, 0.50000006: 1, 8388607.5: 8388608}
    ends = {2147483520.0: 2147483520, 2147483648.0: 2147483647, -2147483648.0: -2147483648}
    beyond = {math.inf: 2147483647, -math.inf: -2147483648, 1e30: 2147483647, -1e30: -2147483648, 1e-45: 0}
    values = ties | ends | beyond
    x = np.array([*values, math.nan], np.float32)
    assert evaluate("cvt.rni.s32.f32", "int32", x).tolist() == [*values.values(), 0]


def test_integer_to_float() -> None:
    """16777217 lies half way between two, as do 16777219 and 33554434 + 1."""
    n = np.array([0, 1, -1, 16777217, 16777219, -16777217, 2147483647, -2147483648, 33554435, 123456789], np.int32)
    right = [rounded(Fraction(int(i)), negative_zero=False) for i in n]
    assert evaluate("cvt.rn.f32.s32", "float32", n).view(np.uint32).tolist() == right


KINDS = [f"{sign}{bits}" for sign in "su" for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_integer_conversions(to: str, source: str) -> None:
    """The low bits of the register, as the source type, cut to the target type and extended by its sign."""
    for register, target in itertools.product((16, 32, 64), (16, 32, 64)):
        if register >= int(source[1:]) and target >= int(to[1:]):

            def convert(a: int, target: int = target) -> int:
                value = number(a % (1 << int(source[1:])), source)
                return number(value % (1 << int(to[1:])), to) % (1 << target)

            check(f"cvt.{to}.{source}", [f"u{register}"], target, convert)


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "s16", "s32", "s64", "u16", "u32", "u64"])
def test_selection_and_copies(kind: str) -> None:
    (a,) = operands(kind)
    p = np.arange(len(a)) % 3 == 0
    assert evaluate(f"selp.{kind}", f"uint{kind[1:]}", a, a[::-1].copy(), p).tolist() == (
        np.where(p, a, a[::-1]).tolist()
    )
    assert evaluate(f"mov.{kind}", f"uint{kind[1:]}", a).tolist() == a.tolist()


def test_selection_and_copies_of_floats_keep_every_bit() -> None:
    p = np.arange(len(FLOATS)) % 2 == 0
    found = evaluate("selp.f32", "float32", FLOATS, FLOATS[::-1].copy(), p).view(np.uint32)
    assert found.tolist() == np.where(p, FLOATS.view(np.uint32), FLOATS[::-1].view(np.uint32)).tolist()
    assert evaluate("mov.f32", "float32", FLOATS).tobytes() == FLOATS.tobytes()


def test_what_the_inspection_lets_pass_is_what_the_interpreter_knows() -> None:
    assert set(steps.KNOWN) == set(ptx.KNOWN)
