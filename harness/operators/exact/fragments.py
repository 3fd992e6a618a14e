"""The functions of definitions as fragments of NNEF, which has no bits: powers of two and comparisons replace them.

A fragment whose function has no bits is derived; the others are written here and compared with the functions
(tests/unit/plan/nnef/test_fragments.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.operators.exact import functions, trigonometric
from harness.operators.exact.expression import Function
from harness.operators.exact.printing import statements
from harness.operators.text import ROUND_HALF_EVEN, Fragment


def _horner(x: str, coefficients: Sequence[float]) -> str:
    """Return a polynomial as text, the highest power first; a text with a sign in front would be another one."""
    highest, second, *others = coefficients
    if highest < 0:
        text = f"{_float(second)} - {_float(-highest)} * {x}"
    else:
        text = f"{_float(highest)} * {x} {_sign(second)} {_float(abs(second))}"
    for number in others:
        text = f"({text}) * {x} {_sign(number)} {_float(abs(number))}"
    return text


def _sign(number: float) -> str:
    return "-" if number < 0 else "+"


def _float(number: float) -> str:
    return str(np.float32(number))


def _fragment(function: Function, order: int, body: str, uses: tuple[Fragment, ...]) -> Fragment:
    comment = f"# {function.name}(x) by IEEE float32 operations in this order."
    head = f"fragment {function.name}(x: tensor<scalar>) -> (y: tensor<scalar>)"
    return Fragment(function.name, order, f"{comment}\n{head}\n{{\n{body}}}\n", uses)


def _derived(function: Function, order: int, uses: tuple[Fragment, ...]) -> Fragment:
    lines = "".join(f"    {name} = {text};\n" for name, text in statements(function.root))
    return _fragment(function, order, lines, uses)


NEAREST_EVEN = Fragment(
    "nearest_even",
    99,
    """\
# The integer nearest to x, and of two the even one; the sign stays, also that of zero.
fragment nearest_even(x: tensor<scalar>) -> (y: tensor<scalar>)
{
    y = select(x < 0.0, -round_half_even(-x), round_half_even(x));
}
""",
    (ROUND_HALF_EVEN,),
)
POWER = Fragment(
    "exp_power",
    78,
    f"""\
# The n of exp(v) = 2 ^ n * (1 + r + q), for |v| of at most {functions.BOUND}.
fragment exp_power(v: tensor<scalar>) -> (n: tensor<scalar>)
{{
    n = (v * {_float(functions.LOG2E)} + {functions.ROUNDER}) - {functions.ROUNDER};
}}
""",
)
REDUCED = Fragment(
    "exp_reduced",
    79,
    f"""\
# The r of exp(v) = 2 ^ n * (1 + r + q).
fragment exp_reduced(v: tensor<scalar>, n: tensor<scalar>) -> (r: tensor<scalar>)
{{
    r = (v - n * {_float(functions.LN2_HIGH)}) - n * {_float(functions.LN2_LOW)};
}}
""",
)
REST = Fragment(
    "exp_rest",
    80,
    f"""\
# The q of exp(v) = 2 ^ n * (1 + r + q).
fragment exp_rest(v: tensor<scalar>, n: tensor<scalar>, r: tensor<scalar>) -> (q: tensor<scalar>)
{{
    c = ((v - n * {_float(functions.LN2_HIGH)}) - r) - n * {_float(functions.LN2_LOW)};
    p = {_horner("r", functions.EXPONENTIAL)};
    q = c + (r * r) * p;
}}
""",
)
PARTS = (POWER, REDUCED, REST)
EXPONENTIAL = Fragment(
    "exponential",
    81,
    f"""\
# exp(x) by IEEE float32 operations in this order.
fragment exponential(x: tensor<scalar>) -> (y: tensor<scalar>)
{{
    above = select(x < -{functions.BOUND}, -{functions.BOUND}, x);
    v = select(above > {functions.BOUND}, {functions.BOUND}, above);
    n = exp_power(v);
    r = exp_reduced(v, n);
    q = exp_rest(v, n, r);
    s = 1.0 + r;
    d = (1.0 - s) + r;
    h = floor(n * 0.5);
    y = ((s + (d + q)) * 2.0 ^ h) * 2.0 ^ (n - h);
}}
""",
    PARTS,
)
MINUS_ONE = _fragment(functions.exponential_minus_one, 100, f"""\
    v = select(x < -{functions.MINUS_ONE_BOUND}, -{functions.MINUS_ONE_BOUND}, x);
    n = exp_power(v);
    r = exp_reduced(v, n);
    power = 2.0 ^ n;
    y = (r + exp_rest(v, n, r)) * power + (power - 1.0);
""", PARTS)  # fmt: skip
TANGENT = _fragment(functions.hyperbolic_tangent, 101, f"""\
    m = abs(x);
    s = m * m;
    small = m + (m * s) * ({_horner("s", functions.TANH)});
    large = 1.0 - 2.0 / (exponential(m + m) + 1.0);
    magnitude = select(m < 0.625, small, large);
    y = select(x < 0.0, -magnitude, select(x > 0.0, magnitude, x));
""", (EXPONENTIAL,))  # fmt: skip
LOGISTIC = _derived(functions.logistic, 102, (EXPONENTIAL,))
LOGARITHM = _fragment(functions.logarithm, 103, f"""\
    scaled = select(x < 1.1754944e-38, x * 8388608.0, x);
    near = floor(log2(scaled));
    quotient = scaled * 2.0 ^ (-near);
    e = near + select(quotient < 1.0, -1.0, select(quotient < 2.0, 0.0, 1.0));
    m = scaled * 2.0 ^ (-e);
    is_above = m >= 1.4142135;
    k = e + select(is_above, 1.0, 0.0) - select(x < 1.1754944e-38, 23.0, 0.0);
    f = select(is_above, m * 0.5, m) - 1.0;
    s = f / (2.0 + f);
    z = s * s;
    square = (f * f) * 0.5;
    rest = z * ({_horner("z", functions.LOGARITHM)});
    ln = k * {_float(functions.LN2_HIGH)} - ((square - (s * (square + rest) + k * {_float(functions.LN2_LOW)})) - f);
    at_end = select(x < 0.0, (x - x) / (x - x), -1.0 / abs(x));
    y = select(x > 0.0, select(x <= 3.4028235e38, ln, x), at_end);
""", ())  # fmt: skip
ONE_PLUS = _derived(functions.logarithm_of_one_plus, 104, (LOGARITHM,))
ERROR = _fragment(functions.error_function, 105, f"""\
    m = abs(x);
    s = m * m;
    v = select(m > 4.0, 4.0, m);
    small = m + m * ({_horner("s", functions.ERROR)});
    large = 1.0 - exponential({_horner("v", functions.COMPLEMENT)});
    magnitude = select(m < 0.921875, small, large);
    y = select(x < 0.0, -magnitude, select(x > 0.0, magnitude, x));
""", (EXPONENTIAL,))  # fmt: skip
USES: Mapping[Function, tuple[Fragment, ...]] = {
    trigonometric.arctangent: (),
    trigonometric.arcsine: (),
    trigonometric.arccosine: (),
    trigonometric.hyperbolic_sine: (MINUS_ONE, EXPONENTIAL),
    trigonometric.hyperbolic_cosine: (EXPONENTIAL,),
    trigonometric.inverse_hyperbolic_sine: (LOGARITHM, ONE_PLUS),
    trigonometric.inverse_hyperbolic_cosine: (LOGARITHM, ONE_PLUS),
    trigonometric.inverse_hyperbolic_tangent: (LOGARITHM, ONE_PLUS),
}
WAVES = (trigonometric.sine, trigonometric.cosine, trigonometric.tangent)
"""Functions of integers of 64 bits, which NNEF does not have: their fragments have no body."""
TRIGONOMETRIC = (
    *(_derived(each, 106 + place, used) for place, (each, used) in enumerate(USES.items())),
    *(
        Fragment(
            each.name,
            114 + place,
            f"# {each.name}(x) by IEEE float32 operations and integers of 64 bits, which have no text here.\n"
            f"fragment {each.name}(x: tensor<scalar>) -> (y: tensor<scalar>);\n",
        )
        for place, each in enumerate(WAVES)
    ),
)

FUNCTIONS: Mapping[str, Fragment] = {
    fragment.name: fragment
    for fragment in (
        *TRIGONOMETRIC,
        NEAREST_EVEN,
        EXPONENTIAL,
        MINUS_ONE,
        TANGENT,
        LOGISTIC,
        LOGARITHM,
        ONE_PLUS,
        ERROR,
    )
}
"""The fragments by the names of functions and operations that NNEF does not have."""
