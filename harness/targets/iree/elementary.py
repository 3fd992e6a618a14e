"""exp, exp - 1, tanh and the logistic function in MLIR, in the letters of harness/operators/elementary.py."""

from __future__ import annotations

from functools import reduce

import numpy as np

from harness.operators import elementary as e
from harness.targets.iree.builder import Block, Scalar


def exp(block: Block, x: Scalar) -> Scalar:
    """Add the exponential function of x."""
    above = _least(block, x, -e.BOUND)
    bound = block.number(e.BOUND, name="bound")
    v = block.select(block.compare("ogt", above, bound), bound, above)
    r, q, biased = _parts(block, v)
    s = block("arith.addf", block.number(e.ONE), r, name="s")
    d = block("arith.addf", block("arith.subf", block.number(e.ONE), s, name="d"), r, name="d")
    half = block("arith.shrui", biased, block.number(1, "i32"), name="half")
    total = block("arith.addf", s, block("arith.addf", d, q, name="rest"), name="total")
    first = block.product(total, _power(block, half))
    return block.product(first, _power(block, block("arith.subi", biased, half, name="half")), name="exp")


def exp_minus_one(block: Block, x: Scalar) -> Scalar:
    """Add the exponential function of x less 1, for x <= 0."""
    r, q, biased = _parts(block, _least(block, x, -e.MINUS_ONE_BOUND))
    power = _power(block, block("arith.subi", biased, block.number(127, "i32"), name="exponent"))
    scaled = block.product(block("arith.addf", r, q, name="sum"), power)
    less = block("arith.subf", power, block.number(e.ONE), name="less_one")
    return block("arith.addf", scaled, less, name="exp_minus_one")


def tanh(block: Block, x: Scalar) -> Scalar:
    """Add the hyperbolic tangent of x."""
    one, sign = block.number(e.ONE, name="one"), block.number(-(1 << 31), "i32", name="sign")
    m = block("math.absf", x, name="m")
    s = block.product(m, m, name="s")
    p = _polynomial(block, s, (e.T4, e.T3, e.T2, e.T1, e.T0))
    small = block("arith.addf", m, block.product(block.product(m, s), p), name="small")
    doubled = exp(block, block("arith.addf", m, m, name="doubled"))
    quotient = block("arith.divf", block.number(e.TWO), block("arith.addf", doubled, one), name="quotient")
    large = block("arith.subf", one, quotient, name="large")
    is_small = block.compare("olt", m, block.number(e.TANH_SMALL))
    bits = block("arith.bitcast", block.select(is_small, small, large), to="i32", name="bits")
    of_x = block("arith.andi", block("arith.bitcast", x, to="i32", name="bits"), sign, name="bits")
    return block("arith.bitcast", block("arith.ori", bits, of_x, name="bits"), to="f32", name="tanh")


def logistic(block: Block, x: Scalar) -> Scalar:
    """Add the logistic function of x, 1 / (1 + exp(-x))."""
    one = block.number(e.ONE, name="one")
    power = exp(block, block("arith.negf", block("math.absf", x, name="m"), name="less"))
    below = block.compare("olt", x, block.number(0, name="none"))
    y = block("arith.divf", block.select(below, power, one), block("arith.addf", one, power), name="quotient")
    corrected = block("arith.subf", power, block.product(power, y), name="corrected")
    is_small = block.compare("olt", x, block.number(e.LOGISTIC_SMALL))
    return block.select(is_small, corrected, y, name="logistic")


def _least(block: Block, x: Scalar, low: np.float32) -> Scalar:
    bound = block.number(low, name="bound")
    return block.select(block.compare("olt", x, bound), bound, x)


def _parts(block: Block, v: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Add r, q and n + 254 of exp(v) = 2^n (1 + r + q)."""
    rounder = block.number(e.ROUNDER, name="rounder")
    t = block("arith.addf", block.product(v, block.number(e.LOG2E)), rounder, name="t")
    n = block("arith.subf", t, rounder, name="n")
    a = block("arith.subf", v, block.product(n, block.number(e.LN2_HIGH)), name="a")
    b = block.product(n, block.number(e.LN2_LOW), name="b")
    r = block("arith.subf", a, b, name="r")
    c = block("arith.subf", block("arith.subf", a, r, name="c"), b, name="c")
    p = _polynomial(block, r, (e.E6, e.E5, e.E4, e.E3, e.E2))
    q = block("arith.addf", c, block.product(block.product(r, r), p), name="q")
    offset = block.number(int(e.ROUNDER_BITS) - 254, "i32", name="offset")
    return r, q, block("arith.subi", block("arith.bitcast", t, to="i32", name="bits"), offset, name="biased")


def _polynomial(block: Block, x: Scalar, coefficients: tuple[np.float32, ...]) -> Scalar:
    """Add Horner's scheme, from the last coefficient on."""
    first, *others = (block.number(each) for each in coefficients)
    return reduce(lambda p, each: block("arith.addf", block.product(p, x), each, name="p"), others, first)


def _power(block: Block, biased: Scalar) -> Scalar:
    """Return the float32 with this biased exponent."""
    bits = block("arith.shli", biased, block.number(23, "i32"), name="bits")
    return block("arith.bitcast", bits, to="f32", name="power")
