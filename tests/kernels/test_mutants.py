"""Every known way to compute a quantised network wrongly, built into a copy of the kernels: the bytes must show it.

A mutant changes the text of a kernel, or the constants, of an otherwise right program.  Where the diagnosis
knows the mistake it must name it, and where it does not it must not claim another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from harness import plan
from harness.diagnosis import diagnose
from harness.network import Array, Network, QGemm, QuantizeLinear
from harness.profile import Profile
from harness.stimuli import stimuli
from tests import builders
from tests.kernels.board_program import Patch, build_patched, compile_common, parse, references, with_flags
from tests.kernels.chains import chain, qgemm, quantize


@dataclass(frozen=True)
class Mutant:
    """A wrong program: `patches` of the kernels, and `change` of the constants of every QGemm.

    `subjects` are the networks that must show it; `cause` is how the diagnosis calls it, if it can.
    """

    name: str
    subjects: tuple[str, ...]
    patches: tuple[Patch, ...] = ()
    change: Callable[[QGemm], QGemm] = lambda layer: layer
    cause: str | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, vectors that can tell the mutants from it, all layers' right outputs."""

    network: Network
    vectors: Array
    expected: tuple[Array, ...]

    @classmethod
    def of(cls, network: Network, vectors: Array) -> Subject:
        return cls(network, vectors, references(network, vectors))


Run = Callable[[Mutant, Subject], tuple[Array, ...]]


# The formulas of the kernels, as they stand there.

SATURATE, QUANTIZE, QGEMM, ADD = (f"kernels/c/{name}.h" for name in ("saturate", "quantize_linear", "qgemm", "add"))
REQUANTIZE = "round_saturated((float)acc[n] * m[n], QMIN, QMAX, zy)"
ACCUMULATE = "sum[r] += a[k] * b[r * depth + k];"
SUM = "a[n] + b[n]"

# What some mutants need beside the formula that they replace.
HELPERS = """
static inline int32_t saturated(double q, int32_t qmin, int32_t qmax, int32_t zero_point)
{
    q += zero_point;
    return q < qmin ? qmin : q > qmax ? qmax : (int32_t)q;
}

/* x86's VPMADDUBSW */
static inline int32_t int16_saturated(int32_t sum)
{
    return sum < INT16_MIN ? INT16_MIN : sum > INT16_MAX ? INT16_MAX : sum;
}

/* gemmlowp: acc * m rounded twice, by a doubling high multiplication and a rounding shift, for 2^-31 < m < 1 */
static inline int32_t fixed_point(int32_t acc, float m)
{
    int exponent;
    const int64_t fraction = llround(frexp(m, &exponent) * 0x1p31);
    const int64_t product = acc * fraction;
    const int32_t high = (int32_t)((product + (product < 0 ? 1 - (1 << 30) : 1 << 30)) / (INT64_C(1) << 31));
    const int32_t mask = (1 << -exponent) - 1;
    return (high >> -exponent) + ((high & mask) > (mask >> 1) + (high < 0));
}

#endif
"""


def rounding(expression: str) -> tuple[Patch, ...]:
    return (Patch(SATURATE, "rintf(v)", expression),)


def requantizing(expression: str) -> tuple[Patch, ...]:
    return Patch(SATURATE, "\n#endif\n", HELPERS), Patch(QGEMM, REQUANTIZE, expression)


def adding(expression: str) -> tuple[Patch, ...]:
    return (Patch(ADD, SUM, expression),)


# A residual expansion of order 3, the program of which computes its first two additions together.

RESIDUAL_WIDTHS = (16, 24, 10)
DEPTH, WIDTH = RESIDUAL_WIDTHS[:2]


def summing(index: int, expression: str, before: str = "") -> tuple[Patch, ...]:
    """Layer layer_0_sum_<index> is the expression of t1, t2 and t3, and of what is computed before."""
    terms = " ".join(f"const float *t{k} = layer_0_term_{k}_output[v];" for k in (1, 2, 3)[:index])
    left = "layer_0_term_1" if index == 2 else f"layer_0_sum_{index - 1}"
    output = f"layer_0_sum_{index}_output[v]"
    call = f"add_float32({WIDTH}, {left}_output[v], layer_0_term_{index}_output[v], {output});"
    loop = f"{terms} {before} for (size_t n = 0; n < {WIDTH}; ++n) {output}[n] = {expression};"
    return (
        Patch("network.c", call, loop),
        Patch("network.c", '#include "qgemm.h"', '#include "qgemm.h"\n#include <math.h>'),
    )


ACCUMULATE_SECOND_TERM = (
    f"int32_t acc[{WIDTH}]; qgemm_accumulate_uint8({DEPTH}, {WIDTH}, quantize_output[v], "
    "&layer_0_term_2_weights[0][0], NULL, layer_0_term_2_offset, acc);"
)


# One QGemm whose accumulator can be given any value, with a scale for every column.

RNG = np.random.default_rng(20)
LADDER_INPUTS = 9  # of each sign: one weighs 1, the others 127
LADDER_REACH = 127 * (1 + 255 * (LADDER_INPUTS - 1)) - 1
A_SCALE, Y_SCALE = 0.0107, 13.7
B_SCALES = RNG.uniform(0.7, 2, 48).astype(np.float32)
Y_ZERO_POINT = 119


def ladder_network() -> Network:
    rungs = np.array([1] + [127] * (LADDER_INPUTS - 1), np.int8)
    width = len(B_SCALES)
    weights = np.tile(np.concatenate([rungs, -rungs])[:, None], (1, width))
    layer = qgemm(weights, np.zeros(width), B_SCALES, (Y_SCALE, Y_ZERO_POINT), A_SCALE)
    return chain([quantize(1, 0, "uint8"), layer], ("uint8", width), len(weights))


def ladder_vectors(acc: Array) -> Array:
    """Vectors that give these accumulators, within +-LADDER_REACH."""
    rungs, ones = np.divmod(np.abs(acc), 127)
    codes = [ones, *(np.clip(rungs - 255 * index, 0, 255) for index in range(LADDER_INPUTS - 1))]
    positive = np.stack(codes, axis=1)
    both = np.hstack([positive * (acc >= 0)[:, None], positive * (acc < 0)[:, None]])
    return both.astype(np.float32)


def near_ties(multiplier: Array) -> Array:
    """The accumulators whose product with some column's multiplier lies within 4 ulp of a tie, or on it."""
    acc = np.arange(-LADDER_REACH, LADDER_REACH + 1)
    near = np.zeros(len(acc), np.bool_)
    for m in multiplier:
        v = acc * np.float64(m)
        to_tie = np.abs(v - np.floor(v) - 0.5)
        near |= to_tie <= 4 * np.spacing(np.abs(v).astype(np.float32))
    return acc[near]


def on_codes(net: Network, count: int) -> Array:
    """The seeded stimuli, every input moved to the code that it would be rounded to."""
    layer = net.layers[0]
    assert isinstance(layer, QuantizeLinear)
    vectors = stimuli(net, count, seed=1).chunk(0, count)
    moved: Array = np.rint(vectors / layer.scale) * layer.scale
    return moved.astype(np.float32)


@pytest.fixture(scope="module")
def subjects() -> Mapping[str, Subject]:
    rng = np.random.default_rng(3)
    widths = (16, 24, 24, 10)
    pow2 = parse(builders.random_network(rng, widths, power_of_two=True, zero_points=True))
    ordinary = parse(builders.random_network(rng, widths, per_column=True, zero_points=True))
    ladder = ladder_network()
    steps = near_ties(ladder.layers[1].multiplier)  # type: ignore[attr-defined] # the second layer is a QGemm
    return {
        "pow2": Subject.of(pow2, on_codes(pow2, 4096)),
        "ordinary": Subject.of(ordinary, on_codes(ordinary, 4096)),
        "ladder": Subject.of(ladder, ladder_vectors(steps)),
        "input": input_subject(),
        "residual": residual_subject(),
    }


def residual_subject() -> Subject:
    net = parse(builders.random_network(np.random.default_rng(9), RESIDUAL_WIDTHS, residual=3, per_column=True))
    return Subject.of(net, on_codes(net, 4096))


def input_subject() -> Subject:
    """QuantizeLinear alone, on all codes and the middles between them, and the next float32 on both sides."""
    scale = 0.0236721
    net = chain([quantize(scale, 101, "uint8")], ("uint8", 1), 1)
    exact = (np.arange(-600, 601) / 2).astype(np.float32) * np.float32(scale)
    values = np.concatenate([exact, np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf)])
    return Subject.of(net, values.astype(np.float32)[:, None])


@pytest.fixture(scope="module")
def board(host: Profile) -> Profile:
    return with_flags(host, "-O1", "-march=native")


@pytest.fixture(scope="module")
def common(subjects: Mapping[str, Subject], board: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = plan.make(subjects["input"].network, board)
    return compile_common(made, board, tmp_path_factory.mktemp("common"))


def scales_on_board(layer: QGemm) -> QGemm:
    """The table of multipliers holds b_scale, from which the patched formula computes m."""
    return dataclasses.replace(layer, multiplier=B_SCALES)


def literal(scale: float) -> str:
    """The float32 of the scale, in C."""
    return f"{float(np.float32(scale)).hex()}f"


A, Y = literal(A_SCALE), literal(Y_SCALE)
EVERYWHERE = ("pow2", "ordinary", "input")

MUTANTS = [
    Mutant("round half away", EVERYWHERE, rounding("roundf(v)"), cause="round half away from zero"),
    Mutant("round half up", EVERYWHERE, rounding("floor(v + 0.5)"), cause="round half up"),
    Mutant("round half down", EVERYWHERE, rounding("ceil(v - 0.5)"), cause="round half down"),
    Mutant("truncate", EVERYWHERE, rounding("truncf(v)"), cause="truncation toward zero"),
    Mutant("floor", EVERYWHERE, rounding("floorf(v)"), cause="rounding down (floor)"),
    Mutant("ceil", EVERYWHERE, rounding("ceilf(v)"), cause="rounding up (ceil)"),
    Mutant(
        "zero point before rounding",
        ("pow2", "input"),
        (Patch(SATURATE, "rintf(v) + zero_point", "rintf(v + (float)zero_point)"),),
        cause="zero point added before rounding",
    ),
    Mutant(
        "saturate at 254",
        ("ordinary", "input"),
        (Patch(SATURATE, "qmax - zero_point", "qmax - 1 - zero_point"),),
        cause="saturation one step too early",
    ),
    Mutant(
        "wrap instead of saturation",
        ("ordinary", "input"),
        (
            Patch(SATURATE, "v = v > low ? v : low;", "(void)low;"),
            Patch(SATURATE, "v = v < high ? v : high;", "(void)high;"),
        ),
        cause="wrap-around instead of saturation",
    ),
    Mutant(
        "reciprocal of the input scale",
        ("input",),
        (Patch(QUANTIZE, "x[i] / scale", "x[i] * (1 / scale)"),),
        cause="multiplication by 1 / scale",
    ),
    Mutant(
        "fused multiply-add",
        ("ladder", "pow2"),
        requantizing("saturated(rintf(fmaf((float)acc[n], m[n], (float)zy)), QMIN, QMAX, 0)"),
        cause="fused multiply-add",
    ),
    Mutant(
        "product in double",
        ("ladder",),
        requantizing("saturated(rint((double)acc[n] * m[n]), QMIN, QMAX, zy)"),
        cause="product in double precision",
    ),
    Mutant(
        "m and product in double",
        ("ladder",),
        requantizing(f"saturated(rint((double)acc[n] * ((double){A} * m[n] / {Y})), QMIN, QMAX, zy)"),
        scales_on_board,
    ),
    Mutant(
        "m in double, rounded to float",
        ("ladder",),
        requantizing(f"round_saturated((float)acc[n] * (float)((double){A} * m[n] / {Y}), QMIN, QMAX, zy)"),
        scales_on_board,
    ),
    Mutant(
        "m by reciprocal",
        ("ladder",),
        requantizing(f"round_saturated((float)acc[n] * ({A} * m[n] * (1 / {Y})), QMIN, QMAX, zy)"),
        scales_on_board,
    ),
    Mutant(
        "m in another order",
        ("ladder",),
        requantizing(f"round_saturated((float)acc[n] * ({A} * (m[n] / {Y})), QMIN, QMAX, zy)"),
        scales_on_board,
    ),
    Mutant(
        "dequantised, then divided",
        ("ladder",),
        requantizing(f"round_saturated((float)acc[n] * ({A} * m[n]) / {Y}, QMIN, QMAX, zy)"),
        scales_on_board,
    ),
    Mutant(
        "fixed point with two roundings",
        ("pow2",),
        requantizing("saturated(fixed_point(acc[n], m[n]), QMIN, QMAX, zy)"),
    ),
    Mutant(
        "int16 saturation of pairs",
        ("ordinary",),
        (
            Patch(SATURATE, "\n#endif\n", HELPERS),
            Patch(
                QGEMM,
                ACCUMULATE,
                "sum[r] += k % 2 ? 0 : int16_saturated("
                "a[k] * b[r * depth + k] + (k + 1 < depth ? a[k + 1] * b[r * depth + k + 1] : 0));",
            ),
        ),
        cause="int16 saturation of pairs",
    ),
    Mutant(
        "bias dropped",
        ("ordinary",),
        change=lambda layer: dataclasses.replace(layer, bias=np.zeros_like(layer.bias)),
        cause="bias left out",
    ),
    Mutant(
        "input zero point dropped",
        ("ordinary",),
        change=lambda layer: dataclasses.replace(layer, a_zero_point=0),
        cause="input zero point left out",
    ),
    Mutant(
        "weight zero point dropped",
        ("ordinary",),
        change=lambda layer: dataclasses.replace(layer, weights_zero_point=np.zeros_like(layer.weights_zero_point)),
        cause="weight zero point left out",
    ),
    Mutant(
        "output zero point dropped",
        ("ordinary",),
        change=lambda layer: dataclasses.replace(layer, y_zero_point=0),
        cause="zero point left out",
    ),
    Mutant(
        "last input dropped",
        ("ordinary",),
        change=lambda layer: dataclasses.replace(
            layer, weights=np.vstack([layer.weights[:-1], layer.weights_zero_point.astype(layer.weights.dtype)[None]])
        ),
        cause="last input left out of the sum",
    ),
    Mutant("second term dropped", ("residual",), adding("a[n]; (void)b"), cause="second term left out"),
    Mutant("second term subtracted", ("residual",), adding("a[n] - b[n]"), cause="second term subtracted"),
    Mutant(
        "sum truncated",
        ("residual",),
        (
            Patch(ADD, SUM, "towards_zero((double)a[n] + b[n])"),
            Patch(
                ADD,
                "static inline void add",
                "#include <math.h>\nstatic inline float towards_zero(double x)\n"
                "{\n    const float y = (float)x;\n    return fabs(y) > fabs(x) ? nextafterf(y, 0) : y;\n}\n\n"
                "static inline void add",
            ),
        ),
        cause="truncation toward zero",
    ),
    Mutant("three terms summed in double", ("residual",), summing(3, "(float)((double)t1[n] + t2[n] + t3[n])")),
    Mutant("terms summed in another order", ("residual",), summing(3, "t1[n] + (t2[n] + t3[n])")),
    Mutant(
        "product and sum fused",
        ("residual",),
        summing(2, "fmaf((float)acc[n], layer_0_term_2_multiplier[n], t1[n])", ACCUMULATE_SECOND_TERM),
    ),
    Mutant(
        "transposed weights",
        ("ordinary",),
        change=lambda layer: dataclasses.replace(
            layer, weights=layer.weights.T if layer.input_width == layer.width else layer.weights
        ),
    ),
]

# Written differently, but the same function.
EQUIVALENT = [
    Mutant("nothing changed", ("pow2", "ordinary", "ladder", "input", "residual")),
    Mutant("two terms summed in double, then rounded", ("residual",), adding("(float)((double)a[n] + b[n])")),
    Mutant(
        "product recomputed, not fused",
        ("residual",),
        summing(2, "t1[n] + (float)acc[n] * layer_0_term_2_multiplier[n]", ACCUMULATE_SECOND_TERM),
    ),
    Mutant(
        "saturation after rounding",
        ("pow2", "ordinary", "ladder", "input"),
        (
            Patch(SATURATE, "v = v > low ? v : low;", "v = rintf(v);\n    v = v > low ? v : low;"),
            Patch(SATURATE, "(int32_t)rintf(v)", "(int32_t)v"),
        ),
    ),
    Mutant(
        "m computed on the board as specified",
        ("ladder",),
        requantizing(f"round_saturated((float)acc[n] * ({A} * m[n] / {Y}), QMIN, QMAX, zy)"),
        scales_on_board,
    ),
]


def cases(mutants: Sequence[Mutant]) -> list[object]:
    return [
        pytest.param(mutant, subject, id=f"{mutant.name}, {subject}")
        for mutant in mutants
        for subject in mutant.subjects
    ]


@pytest.fixture
def run(board: Profile, common: Path, tmp_path: Path) -> Run:
    def run(mutant: Mutant, subject: Subject) -> tuple[Array, ...]:
        net = subject.network
        changed = (mutant.change(layer) if isinstance(layer, QGemm) else layer for layer in net.layers)
        made = plan.make(dataclasses.replace(net, layers=tuple(changed)), board)
        program = build_patched(made, board, tmp_path / "bundle", mutant.patches, common=common)
        return program.activations(subject.vectors, tmp_path)

    return run


def first_difference(actual: Sequence[Array], expected: Sequence[Array]) -> int | None:
    """The index of the first layer that differs."""
    pairs = enumerate(zip(actual, expected, strict=True))
    return next((index for index, (found, right) in pairs if found.tobytes() != right.tobytes()), None)


@pytest.mark.parametrize(("mutant", "name"), cases(EQUIVALENT))
def test_an_equivalent_program_is_identical(
    mutant: Mutant, name: str, subjects: Mapping[str, Subject], run: Run
) -> None:
    subject = subjects[name]
    assert first_difference(run(mutant, subject), subject.expected) is None


@pytest.mark.parametrize(("mutant", "name"), cases(MUTANTS))
def test_a_mutant_is_found_and_its_cause_named(
    mutant: Mutant, name: str, subjects: Mapping[str, Subject], run: Run
) -> None:
    subject = subjects[name]
    actual, expected = run(mutant, subject), subject.expected
    first = first_difference(actual, expected)
    assert first is not None
    layers = subject.network.layers
    written = {"x": subject.vectors} | {layer.output: v for layer, v in zip(layers, expected, strict=True)}
    inputs = [written[source] for source in layers[first].sources]
    found = diagnose(first, layers[first], inputs, expected[first], actual[first])
    explained = found.text.startswith(f"all {found.differing} differing values looked at are explained by")
    assert explained == (mutant.cause is not None), found.text
    assert (mutant.cause or "") in found.text


def test_the_ladder_reaches_every_accumulator(subjects: Mapping[str, Subject]) -> None:
    """Also between the near-ties: at the very least, 1,000 of these are needed to tell the subtle mutants apart."""
    layer = subjects["ladder"].network.layers[1]
    assert isinstance(layer, QGemm)
    acc = np.array([0, 1, -1, 126, 127, -128, 12345, LADDER_REACH, -LADDER_REACH])
    assert ((ladder_vectors(acc).astype(int) @ layer.weights.astype(int)) == acc[:, None]).all()
    assert len(subjects["ladder"].vectors) > 1000
