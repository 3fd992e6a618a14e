"""Every mutant shows on a network that was made to show it, and the diagnosis names it there, or nothing.

`tests.campaigns.mutation` has the mutants, and tries all of them on all kinds of networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.analysis.diagnosis import cases, diagnose
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.plan import planner
from harness.reference.stimuli import stimuli
from tests.campaigns.mutation.mutants import (
    INPUT,
    MULTIPLIER,
    MUTANTS,
    OTHERS,
    PRODUCT,
    ROUNDING,
    SCHEDULE,
    SUM,
    Mutant,
)
from tests.campaigns.mutation.networks import Subject
from tests.support import builders
from tests.support.programs.board_program import build_patched, parse, with_flags
from tests.support.programs.chains import chain, qgemm, quantize

Run = Callable[[Mutant, Subject], tuple[Array, ...]]


# One QGemm whose accumulator can be given any value, with a scale for every column.

RNG = np.random.default_rng(20)
LADDER_INPUTS = 9  # of each sign: one weighs 1, the others 127
LADDER_REACH = 127 * (1 + 255 * (LADDER_INPUTS - 1)) - 1
A_SCALE, Y_SCALE = 0.0107, 13.7
B_SCALES = RNG.uniform(0.7, 2, 48).astype(np.float32)
Y_ZERO_POINT = 119
BIAS = 12_345


def ladder_network() -> Network:
    rungs = np.array([1] + [127] * (LADDER_INPUTS - 1), np.int8)
    width = len(B_SCALES)
    weights = np.tile(np.concatenate([rungs, -rungs])[:, None], (1, width))
    layer = qgemm(weights, np.full(width, BIAS), B_SCALES, (Y_SCALE, Y_ZERO_POINT), A_SCALE)
    return chain([quantize(1, 0, "uint8"), layer], ("uint8", width), len(weights))


def ladder_vectors(acc: Array) -> Array:
    """Vectors that give these accumulators, within +-LADDER_REACH of the bias."""
    sums = acc - BIAS
    rungs, ones = np.divmod(np.abs(sums), 127)
    codes = [ones, *(np.clip(rungs - 255 * index, 0, 255) for index in range(LADDER_INPUTS - 1))]
    positive = np.stack(codes, axis=1)
    both = np.hstack([positive * (sums >= 0)[:, None], positive * (sums < 0)[:, None]])
    return both.astype(np.float32)


def near_ties(multiplier: Array) -> Array:
    """The accumulators whose product with some column's multiplier lies within 4 ulp of a tie, or on it."""
    acc = np.arange(BIAS - LADDER_REACH, BIAS + LADDER_REACH + 1)
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
        "residual": random_subject((16, 24, 10), residual=3, per_column=True),
        "ragged": random_subject((7, 6, 5), zero_points=True, dequantize=True, argmax=True),
        "large": large_subject(),
    }


def random_subject(widths: tuple[int, ...], **options: Any) -> Subject:
    net = parse(builders.random_network(np.random.default_rng(9), widths, **options))
    return Subject.of(net, on_codes(net, 4096))


def large_subject() -> Subject:
    """Accumulators that a float32 cannot hold exactly."""
    layer = qgemm(np.ones((2, 3), np.int8), np.full(3, 1 << 25), np.array([0.7, 0.3, 0.9]), None)
    net = chain([quantize(1, 0, "uint8"), layer], ("float32", 3), 2)
    return Subject.of(net, np.arange(400, dtype=np.float32).reshape(-1, 2))


def input_subject() -> Subject:
    """QuantizeLinear alone, on all codes and the middles between them, the next float32 on both sides, and specials."""
    scale = 0.0236721
    net = chain([quantize(scale, 101, "uint8")], ("uint8", 1), 1)
    exact = (np.arange(-600, 601) / 2).astype(np.float32) * np.float32(scale)
    specials = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 2**31 * scale, 2**32])
    values = np.concatenate([exact, np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf), specials])
    return Subject.of(net, values.astype(np.float32)[:, None])


@pytest.fixture(scope="module")
def board(host: Profile) -> Profile:
    return with_flags(host, "-O1", "-march=native")


ROUNDED = ("pow2", "ordinary", "input")
CODE = {mutant.name: mutant for mutant in MUTANTS if mutant not in SCHEDULE}

# The networks that show each mutant.
SHOWN_BY: dict[str, tuple[str, ...]] = {mutant.name: ("ladder",) for mutant in (*PRODUCT, *MULTIPLIER)}
SHOWN_BY |= {mutant.name: ("ordinary",) for mutant in SUM}
SHOWN_BY |= {mutant.name: ROUNDED for mutant in ROUNDING}
SHOWN_BY |= {mutant.name: ("input",) for mutant in INPUT}
SHOWN_BY |= {mutant.name: ("residual" if mutant.name.startswith("Add") else "ragged",) for mutant in OTHERS}
SHOWN_BY |= {
    "clamp after round": ("pow2", "ordinary", "ladder", "input"),
    "+ zp in float before rint": ("pow2", "input"),
    "sat clamp one code early": ("ordinary", "input"),
    "wrap instead of clamp": ("ordinary", "input"),
    "m computed on the board as specified": ("ordinary", "ladder", "residual"),
    "FMA: rint(fmaf(acc, m, zp))": ("ladder", "pow2"),
    "bias added after scaling in float": ("ladder", "residual"),
    "bias added after scaling, fused": ("ladder", "residual"),
    "gemmlowp Q31, two roundings": ("pow2", "ladder"),
    "float output: acc not rounded first": ("large",),
    "float output: truncated": ("residual",),
    "float output: through float16": ("residual",),
    "byte order of m": ("ordinary",),
    "products beyond a multiple of 8 inputs left out": ("ragged",),
    "column tail not computed": ("ordinary", "ragged"),
}


@pytest.fixture
def run(board: Profile, objects: Path, tmp_path: Path) -> Run:
    def run(mutant: Mutant, subject: Subject) -> tuple[Array, ...]:
        planned = planner.make(subject.network, board)
        program = build_patched(
            mutant.plan(planned), board, tmp_path / "bundle", mutant.patches(planned), objects=objects
        )
        return program.activations(subject.vectors, tmp_path)

    return run


def first_difference(actual: Sequence[Array], expected: Sequence[Array]) -> int | None:
    """The index of the first layer that differs."""
    pairs = enumerate(zip(actual, expected, strict=True))
    return next((index for index, (found, right) in pairs if found.tobytes() != right.tobytes()), None)


IN_TEST = 4
"""One of so many mutants is tried by `make test`, all of them by `make campaigns`."""


def parameters(*, equivalent: bool) -> list[object]:
    chosen = [name for name in SHOWN_BY if CODE[name].equivalent is equivalent]
    return [
        pytest.param(
            CODE[name], subject, id=f"{name}, {subject}", marks=[pytest.mark.campaign] if number % IN_TEST else []
        )
        for number, name in enumerate(chosen)
        for subject in SHOWN_BY[name]
    ]


def test_every_mutant_is_tried() -> None:
    assert set(SHOWN_BY) == set(CODE)


@pytest.mark.parametrize(("mutant", "name"), parameters(equivalent=True))
def test_an_equivalent_program_is_identical(
    mutant: Mutant, name: str, subjects: Mapping[str, Subject], run: Run
) -> None:
    subject = subjects[name]
    assert first_difference(run(mutant, subject), subject.expected) is None


@pytest.mark.parametrize(("mutant", "name"), parameters(equivalent=False))
def test_a_mutant_is_found_and_its_cause_named(
    mutant: Mutant, name: str, subjects: Mapping[str, Subject], run: Run
) -> None:
    subject = subjects[name]
    actual = dict(enumerate(run(mutant, subject)))
    found = [diagnose(case) for case in cases(subject.network, subject.vectors, subject.expected, actual) if case.own]
    assert found
    for diagnosis in found:
        causes = {hypothesis.cause for hypothesis in diagnosis.complete}
        assert causes & set(mutant.causes) if mutant.causes else not causes, diagnosis.text


def test_the_ladder_reaches_every_accumulator(subjects: Mapping[str, Subject]) -> None:
    """Also between the near-ties: at the very least, 1,000 of these are needed to tell the subtle mutants apart."""
    layer = subjects["ladder"].network.layers[1]
    assert isinstance(layer, QGemm)
    sums = np.array([0, 1, -1, 126, 127, -128, 12345, LADDER_REACH, -LADDER_REACH])
    acc = ladder_vectors(sums + BIAS).astype(int) @ layer.weights.astype(int) + layer.bias
    assert (acc == sums[:, None] + BIAS).all()
    assert len(subjects["ladder"].vectors) > 1000
