"""Bounds of decisions against brute force through ONNX Runtime, their width, and their float64 errors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness import model
from harness.applications.decide import bounds, code_network
from harness.applications.decide.code_network import CodeNetwork, CodeStep
from harness.applications.decide.partition import Axis, partition
from harness.applications.decide.property import Rule, read
from harness.applications.decide.vnnlib import Comparison
from harness.core.installation import ROOT
from tests.support.decide.domains import Domain, random_domain

CODES = 14
NETWORKS: list[dict[str, Any]] = [
    {"float_output": True},
    {},
    {"activations": "int8"},
    {"activations": "int8", "zero_points": True, "per_column": True, "dequantize": True},
    {"weights": "uint8", "zero_points": True, "float_output": True},
    {"weights": "uint8", "zero_points": True, "per_column": True, "alpha": 3.0},
]
RULES = [Rule(greatest, ties) for greatest in (True, False) for ties in ("first", "last", "all")]  # type: ignore[arg-type]


def half_spaces(scores: npt.NDArray[np.float64]) -> Rule:
    """Comparisons of every kind; the constants are scores, and numbers between two scores."""
    limits = [Fraction(float(np.quantile(scores, each, method="nearest"))) for each in (0.3, 0.5, 0.7)]
    return Rule(
        half_spaces=(
            (Comparison(0, 1, strict=True), Comparison(2, 1, strict=False)),
            (Comparison(1, None, strict=False, constant=limits[1]),),
            (Comparison(2, None, strict=True, constant=limits[2]), Comparison(1, 0, strict=False)),
            (Comparison(0, None, strict=False, at_most=True, constant=limits[0]),),
            (Comparison(2, None, strict=True, at_most=True, constant=limits[0] + Fraction(1, 10**9)),),
        )
    )


def decisions_of(rule: Rule, scores: npt.NDArray[np.float64]) -> list[int]:
    """The set of decisions of each vector of scores, one after the other, with rational numbers."""
    found = []
    for row in scores:
        values = [Fraction(float(each)) for each in row]
        if not rule.half_spaces:
            best = max(values) if rule.greatest else min(values)
            places = [index for index, value in enumerate(values) if value == best]
            chosen = {"first": places[:1], "last": places[-1:], "all": places}[rule.ties]
            found.append(sum(1 << index for index in chosen))
            continue
        holding = [d for d, half in enumerate(rule.half_spaces) if all(holds(each, values) for each in half)]
        found.append(sum(1 << index for index in holding) or 1 << len(rule.half_spaces))
    return found


def holds(each: Comparison, values: list[Fraction]) -> bool:
    greater = values[each.left]
    lesser = each.constant if each.right is None else values[each.right]
    if each.at_most:
        greater, lesser = lesser, greater
    return greater > lesser if each.strict else greater >= lesser


class Reached:
    """All code vectors of a cube of codes, and their decisions according to ONNX Runtime."""

    def __init__(self, domain: Domain, start: npt.NDArray[np.int64]) -> None:
        self.network = code_network.of(model.parse(domain.model.SerializeToString(), "net"))
        self.start = start
        axes = [np.arange(each, each + CODES) for each in start]
        self.grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(start))
        self.scores = domain.scores(self.grid).astype(np.float64)

    def decisions(self, rule: Rule) -> npt.NDArray[np.uint8]:
        distinct, place = np.unique(self.scores, axis=0, return_inverse=True)
        return np.array(decisions_of(rule, distinct), np.uint8)[place.reshape(-1)]

    def boxes(self, count: int, random: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Boxes of codes in the cube, of one to all codes of each axis."""
        ends = np.sort(random.integers(0, CODES, (2, count, len(self.start))), axis=0)
        ends[1] = np.where(random.random(ends[1].shape) < 0.4, np.minimum(ends[0] + 2, ends[1]), ends[1])
        low, high = ends + self.start
        return low, high

    def in_box(
        self, sets: npt.NDArray[np.uint8], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint8]:
        cube = sets.reshape((CODES,) * len(self.start))
        found = [
            np.bitwise_or.reduce(
                cube[tuple(slice(a - s, b - s + 1) for a, b, s in zip(*ends, self.start, strict=True))], axis=None
            )
            for ends in zip(low, high, strict=True)
        ]
        return np.array(found, np.uint8)


def reached_of(seed: int, network: dict[str, Any]) -> Reached:
    return Reached(random_domain(seed, codes=CODES, **network), np.random.default_rng(seed).integers(0, 256 - CODES, 3))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("network", NETWORKS)
def test_bounds_contain_every_decision(seed: int, network: dict[str, Any]) -> None:
    found, random = reached_of(seed, network), np.random.default_rng(seed)
    low, high = found.boxes(60, random)
    excluded = np.zeros(2, np.int64)
    for rule in (*RULES, half_spaces(found.scores)):
        sets = found.decisions(rule)
        of_vectors = bounds.interval(found.network, found.grid, found.grid).possible(rule)
        np.testing.assert_array_equal(of_vectors, sets, "bounds of one code vector are its decisions")
        reached = found.in_box(sets, low, high)
        zonotope = bounds.zonotope(found.network, rule, low, high)
        for index, each in enumerate((bounds.interval(found.network, low, high), zonotope)):
            possible = each.possible(rule)
            assert not (reached & ~possible).any(), (rule, index)
            excluded[index] += np.bitwise_count(np.uint8(2 ** len(rule.half_spaces or "abc") - 1) & ~possible).sum()
        assert (zonotope.corners >= low[:, None]).all()
        assert (zonotope.corners <= high[:, None]).all()
    assert excluded[1] >= excluded[0] > 0, "the bounds exclude something, the zonotope no less"


def chain(*steps: tuple[list[list[int]], list[int], float], scores: bool = True) -> CodeNetwork:
    """A network with these weights, offsets and multipliers; its last step has float32 scores."""
    found = [
        CodeStep(np.array(w), np.array(o), np.full(len(o), m, np.float32), 0, 0, 255, scores and i == len(steps) - 1)
        for i, (w, o, m) in enumerate(steps)
    ]
    quantiser: Any = None
    return CodeNetwork("net", "", quantiser, tuple(found), None, None, ())


def roundings() -> CodeNetwork:
    """Scores 2 rint(x / 2) and 4 rint(x / 4) - 1: equal but for the roundings, so that the first is greater by 1."""
    halves = CodeStep(np.array([[2, 1]]), np.zeros(2, np.int64), np.full(2, 0.25, np.float32), 0, 0, 255)
    last = CodeStep(np.array([[2, 0], [0, 4]]), np.array([0, -1]), np.ones(2, np.float32), 0, 0, 255, is_float=True)
    return replace(chain(([[1]], [0], 1.0)), steps=(halves, last))


def test_the_noise_of_roundings_is_necessary(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rule = roundings(), Rule()
    low, high = np.array([[0]]), np.array([[10]])
    every = np.arange(11)[:, None]
    reached = np.bitwise_or.reduce(bounds.interval(network, every, every).possible(rule))
    assert reached == 0b11, "6 gives the scores 6 and 7"
    assert bounds.zonotope(network, rule, low, high).possible(rule) == [0b11]
    monkeypatch.setattr(bounds, "ROUNDING", 0.0)
    assert bounds.zonotope(network, rule, low, high).possible(rule) == [0b01], "unsound"


def test_brute_force_finds_bounds_without_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ROUNDING", 0.0)
    missing = 0
    for seed, network in itertools.product(range(4), NETWORKS[:2]):
        found = reached_of(seed, network)
        low, high = found.boxes(200, np.random.default_rng(seed))
        reached = found.in_box(found.decisions(RULES[0]), low, high)
        missing += np.count_nonzero(reached & ~bounds.zonotope(found.network, RULES[0], low, high).possible(RULES[0]))
    assert missing > 0


@pytest.mark.parametrize(("limit", "expected"), [(0, 0b01), (255, 0b11)])
def test_codes_that_are_clamped_are_equal(limit: int, expected: int) -> None:
    """Score 1 is greater by 2 before the clamp; where both become 255, the first one is chosen."""
    network = chain(([[1, 1]], [0, 2], 1.0), scores=False)
    rule = Rule(ties="first", greatest=limit == 255)
    found = bounds.zonotope(network, rule, np.array([[100], [100]]), np.array([[120], [255]])).possible(rule)
    assert found.tolist() == ([0b10, 0b11] if limit == 255 else [0b01, 0b01])
    assert expected == found[1]


def test_numbers_that_differ_by_one_can_have_equal_codes() -> None:
    """(2 x + 1) / 2 and (2 x + 3) / 2 lie half way between two integers: 1.5 and 2.5 both become 2."""
    network, rule = chain(([[2, 2]], [1, 3], 0.5), scores=False), Rule(ties="first")
    every = np.arange(100)[:, None]
    reached = np.bitwise_or.reduce(bounds.interval(network, every, every).possible(rule))
    assert reached == 0b11
    assert bounds.zonotope(network, rule, every[:1], every[-1:]).possible(rule) == [0b11]
    wider = chain(([[2, 2]], [1, 4], 0.5), scores=False)
    assert bounds.zonotope(wider, rule, every[:1], every[-1:]).possible(rule) == [0b10]


def test_the_error_of_sums_covers_their_roundings() -> None:
    random = np.random.default_rng(0)
    weights, offset = random.integers(-255, 256, (20, 3)), random.integers(-(10**6), 10**6, 3)
    step = CodeStep(weights, offset, np.ones(3, np.float32), 0, 0, 255)
    scales = 10.0 ** random.uniform(-3, 3, (1, 12, 20))
    form = bounds._Form(random.normal(size=(1, 20)), random.normal(size=(1, 12, 20)) * scales, random.random((1, 20)))
    sums, [error] = form.sums(step)

    def exactly(values: npt.NDArray[np.float64], n: int) -> Fraction:
        return sum((Fraction(float(v)) * int(w) for v, w in zip(values, weights[:, n], strict=True)), Fraction(0))

    for n in range(3):
        differences = [exactly(form.centre[0], n) + int(offset[n]) - Fraction(float(sums.centre[0, n]))]
        differences += [exactly(form.parts[0, s], n) - Fraction(float(sums.parts[0, s, n])) for s in range(12)]
        differences += [
            Fraction(float(form.own[0, k])) * int(weights[k, n]) - Fraction(float(sums.parts[0, 12 + k, n]))
            for k in range(20)
        ]
        size = abs(sums.centre[0, n]) + sums.own[0, n]
        assert 0 < sum(map(abs, differences)) < error[n] < 1e-10 * size


def acas_boxes(count: int) -> tuple[CodeNetwork, Rule, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    network = model.load(ROOT / "models" / "acas_coc.onnx")
    codes = code_network.of(network)
    stated = read(ROOT / "models" / "acas_coc.property.yaml", codes)
    boxes = partition(stated.axes, codes, network.normalisation)
    numbers = np.random.default_rng(0).integers(0, boxes.boxes, count)
    _, low, high = boxes.rows(numbers)
    return codes, stated.rule, low, high


def test_the_zonotope_decides_more_boxes_of_an_acas_network_than_intervals() -> None:
    network, rule, low, high = acas_boxes(60)
    single = [
        int(np.count_nonzero(np.bitwise_count(each.possible(rule)) == 1))
        for each in (bounds.interval(network, low, high), bounds.zonotope(network, rule, low, high))
    ]
    assert single[0] < 5
    assert single[1] > 15, single


def test_rows_are_the_products_of_runs_of_codes() -> None:
    domain = random_domain(2)
    network = code_network.of(model.parse(domain.model.SerializeToString(), "net"))
    axes = [
        Axis(f"x{index}", "", tuple(map(Fraction, map(float, cuts))), wraps=index > 0)
        for index, cuts in enumerate(domain.cuts)
    ]
    boxes = partition(axes, network, None)
    numbers = np.arange(boxes.boxes)
    owner, low, high = boxes.rows(numbers)
    intervals = boxes.intervals(numbers)
    np.testing.assert_array_equal(intervals, np.argwhere(np.ones(boxes.shape)))
    assert len(owner) > len(numbers), "boxes at the ends have more"
    for number in numbers:
        expected = {(*a, *b) for a, b in boxes.code_boxes(intervals[number])}
        assert {(*a, *b) for a, b in zip(low[owner == number], high[owner == number], strict=True)} == expected
