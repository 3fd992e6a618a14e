"""What is counted and claimed of a layer's differences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from harness.analysis.compare import Difference
from harness.analysis.diagnosis import Observation, diagnose, diagnose_finish, hypothesis_scoring
from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from tests.support.diagnosis.layers import case, causes, codes, found, network, qgemm, quantize

HALF = Fraction(1, 2)
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "rounding is half away from zero": lambda v: math.floor(v + HALF) if v > 0 else math.ceil(v - HALF),
    "rounding is half up": lambda v: math.floor(v + HALF),
    "rounding is half down": lambda v: math.ceil(v - HALF),
    "rounding is truncation toward zero": math.trunc,
    "rounding is down (floor)": math.floor,
    "rounding is up (ceil)": math.ceil,
}


def power_of_two(activations: str = "uint8") -> tuple[QGemm, QuantizeLinear]:
    """Layers with many ties."""
    net = network(activations=activations, power_of_two=True, zero_points=True)
    return qgemm(net), quantize(net)


def accumulators(layer: QGemm, inputs: Array) -> Array:
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    return (inputs.astype(np.int64) - layer.a_zero_point) @ weights + layer.bias


def products(layer: QGemm, inputs: Array) -> Array:
    return accumulators(layer, inputs).astype(np.float32) * layer.multiplier


def computed(v: Array, layer: QGemm | QuantizeLinear, rounding: Callable[[Fraction], int]) -> Array:
    """saturate(rounding(v) + zero point), one value after the other in exact arithmetic."""
    zero_point = layer.y_zero_point if isinstance(layer, QGemm) else layer.zero_point
    info = np.iinfo(layer.dtype)
    values = [min(max(rounding(Fraction(float(x))) + zero_point, info.min), info.max) for x in v.flat]
    return np.array(values, layer.dtype).reshape(v.shape)


def quarters(layer: QuantizeLinear) -> Array:
    """Inputs on every quarter of a code, beyond both ends of the range."""
    steps = np.arange(-1120, 1121) / 4
    columns = np.stack([np.roll(steps, shift) for shift in range(layer.input.size)], axis=1)
    return (columns * float(layer.scale)).astype(np.float32)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", ROUNDINGS)
def test_a_wrong_rounding_comes_first(name: str, activations: str) -> None:
    """Others may give the same here; the rounding alone is the most special of them."""
    gemm, first = power_of_two(activations)
    inputs, numbers = codes(gemm), quarters(first)
    assert causes(found(gemm, inputs, computed(products(gemm, inputs), gemm, ROUNDINGS[name])))[0] == name
    assert causes(found(first, numbers, computed(numbers / first.scale, first, ROUNDINGS[name])))[0] == name


def test_nan_and_infinity_are_no_contradiction() -> None:
    _, layer = power_of_two()
    inputs = quarters(layer)
    inputs[:6, 0] = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -0.0]
    with np.errstate(over="ignore"):
        v = np.clip(np.nan_to_num(inputs / layer.scale, nan=-1e9), -1e9, 1e9)
    assert causes(found(layer, inputs, computed(v, layer, math.floor))) == ["rounding is down (floor)"]


def test_the_text_is_a_sentence_with_the_counts() -> None:
    layer, _ = power_of_two()
    inputs = codes(layer)
    v, right = products(layer, inputs), layer.prepare()(inputs)
    ties = v - np.floor(v) == 0.5
    away = computed(v, layer, ROUNDINGS["rounding is half away from zero"])
    inside = (v > -layer.y_zero_point) & (v < 255 - layer.y_zero_point)
    differing, all_ties = (away != right).sum(), (ties & inside).sum()
    assert 0 < differing < all_ties
    assert found(layer, inputs, away).text.startswith(
        f"exactly {differing} of the {all_ties} accumulators at a tie differ, all away from zero: "
        "rounding is half away from zero; or "
    )
    down = computed(v, layer, math.floor)
    assert found(layer, inputs, down).text == (
        f"{(down != right).sum():,} of 4,800 accumulators differ, by one step, all down: "
        "rounding is down (floor); specification: half to even"
    )


def test_the_observation_counts_what_is_there() -> None:
    layer, _ = power_of_two()
    inputs = codes(layer, 50)
    right = layer.prepare()(inputs)
    v = np.clip(products(layer, inputs), -layer.y_zero_point, 255 - layer.y_zero_point)
    actual = right.copy()
    middle = np.argwhere((right > 20) & (right < 230))
    (a, b, c), (d, e, f) = middle[:3].T.tolist()[0], middle[:3].T.tolist()[1]
    actual[a, d] += 1
    actual[b, e] -= 3
    actual[c, f] += 7
    places = [(a, d), (b, e), (c, f)]
    outward = [step * math.copysign(1, v[place]) for place, step in zip(places, (1, -3, 7), strict=True)]
    ties = v - np.floor(v) == 0.5
    assert found(layer, inputs, actual).seen == Observation(
        values=300,
        differing=3,
        ties=ties.sum(),
        differing_ties=sum(bool(ties[place]) for place in places),
        away=sum(direction > 0 for direction in outward),
        toward=sum(direction < 0 for direction in outward),
        up=2,
        down=1,
        largest_step=7,
    )


def test_every_hypothesis_has_an_example() -> None:
    layer, _ = power_of_two()
    inputs = codes(layer)
    right = layer.prepare()(inputs)
    actual = computed(products(layer, inputs), layer, math.floor)
    vector, unit = np.argwhere(actual != right)[0].tolist()
    complete = diagnose(case(layer, inputs, actual, start=5000)).complete
    assert complete[0].example == Difference(5000 + vector, unit, int(right[vector, unit]), int(actual[vector, unit]))


def test_nothing_is_claimed_of_noise() -> None:
    layer, _ = power_of_two()
    inputs = codes(layer)
    noise = np.random.default_rng(10).integers(0, 256, (800, 6)).astype(np.uint8)
    diagnosis = found(layer, inputs, noise)
    assert "no known cause explains most of them: look at" in diagnosis.text
    assert all(hypothesis.contradicted for hypothesis in diagnosis.hypotheses)


def test_nothing_is_claimed_of_a_value_that_no_mistake_gives() -> None:
    layer, _ = power_of_two()
    inputs = codes(layer)
    expected = layer.prepare()(inputs)
    inside = np.argwhere((expected > 100) & (expected < 120))[0]
    actual = expected.copy()
    actual[tuple(inside)] ^= 0x80
    assert causes(found(layer, inputs, actual)) == []


def test_a_cause_that_should_have_changed_more_is_not_claimed() -> None:
    """Half of the ties rounded away: the others contradict."""
    layer, _ = power_of_two()
    inputs = codes(layer)
    expected = layer.prepare()(inputs)
    actual = computed(products(layer, inputs), layer, ROUNDINGS["rounding is half away from zero"])
    vectors = np.flatnonzero((actual != expected).any(axis=1))
    actual[vectors[::2]] = expected[vectors[::2]]
    diagnosis = found(layer, inputs, actual)
    assert causes(diagnosis) == []
    assert "no known cause explains all of them; nearest: rounding is half away from zero" in diagnosis.text
    assert diagnosis.ranked[0].explained == diagnosis.differing
    assert diagnosis.ranked[0].contradicted > 0


def test_equivalent_mistakes_are_never_offered() -> None:
    """With scales that are powers of two the order of m, and double precision, change nothing."""
    layer = qgemm(network(power_of_two=True))
    inputs = codes(layer)
    actual = computed(products(layer, inputs), layer, ROUNDINGS["rounding is half up"])
    diagnosis = found(layer, inputs, actual)
    equal = (
        "m = ",
        "m and the product are in double precision",
        "the sum is dequantised",
        "the product is not rounded",
    )
    offered = [h.cause for h in diagnosis.ranked if h.cause.startswith(equal) and "half away" not in h.cause]
    assert offered == []


def test_only_so_many_vectors_are_looked_at() -> None:
    layer, _ = power_of_two()
    limit = hypothesis_scoring.VECTORS_LOOKED_AT
    inputs = codes(layer, 2 * limit + 3000)
    actual = computed(products(layer, inputs[: limit + 1500]), layer, math.floor)
    expected = layer.prepare()(inputs)
    actual = np.concatenate([actual, expected[limit + 1500 :]])
    diagnosis = found(layer, inputs, actual)
    assert diagnosis.total == (actual != expected).sum() > diagnosis.differing
    assert (actual != expected)[:limit].sum() <= diagnosis.differing <= limit * layer.size
    best = diagnosis.ranked[0]
    assert best.cause == "rounding is down (floor)"
    assert best.explained == diagnosis.differing
    assert best.contradicted > 0  # by the right vectors, of which as many are looked at
    assert diagnosis.text.startswith(f"of the {diagnosis.differing:,} differing values looked at: ")


def test_accumulators_alone_are_enough_behind_the_sum() -> None:
    layer, _ = power_of_two()
    inputs = codes(layer)
    actual = computed(products(layer, inputs), layer, math.floor)
    whole = found(layer, inputs, actual)
    alone = diagnose_finish(3, layer, accumulators(layer, inputs), layer.prepare()(inputs), actual)
    assert causes(alone) == causes(whole) == ["rounding is down (floor)"]
    assert alone.seen == whole.seen
    assert alone.text == whole.text


def test_steps_of_float32_are_units_in_the_last_place() -> None:
    layer = qgemm(network(float_output=True))
    inputs = codes(layer, 20)
    right = layer.prepare()(inputs)
    actual = right.copy()
    actual[4, 2] = np.nextafter(right[4, 2], np.float32(np.inf))
    assert found(layer, inputs, actual).seen.largest_step == 1
    assert hypothesis_scoring.steps(np.float32([0, 1, -1]), np.float32([-0.0, 2, 1])).tolist() == [
        0,
        1 << 23,
        2 * 0x3F800000,
    ]


def test_findings_are_the_same_for_the_parts_and_the_whole() -> None:
    layer, _ = power_of_two()
    inputs = codes(layer)
    actual = computed(products(layer, inputs), layer, math.floor)
    first, second = (
        diagnose(case(layer, inputs[:300], actual[:300])),
        diagnose(case(layer, inputs[300:], actual[300:], start=300)),
    )
    whole = diagnose(case(layer, inputs, actual))
    assert first + second == dataclasses.replace(whole, hypotheses=(first + second).hypotheses)
    assert [h.cause for h in (first + second).complete] == [h.cause for h in whole.complete]
    assert (first + second).complete[0] == whole.complete[0]
