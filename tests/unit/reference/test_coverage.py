"""What is counted against a count by brute force: every accumulator within the bounds, one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

from harness import model as networks
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.counters import LayerCoverage, Met, Quantity, percent
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.reference import coverage
from harness.reference.coverage import Coverage, reachable_codes
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import stimuli
from tests.support.builders import make_model, random_network

Array = npt.NDArray[Any]
ROUNDING = (Quantity.CODES, Quantity.TIES, Quantity.SATURATED_LOW, Quantity.SATURATED_HIGH)


def parse(widths: tuple[int, ...], seed: int = 1, **options: Any) -> Network:
    return networks.parse(random_network(np.random.default_rng(seed), widths, **options).SerializeToString(), "test")


def one_gemm(weight: int, bias: int, multiplier: float, zero_point: int = 0) -> Network:
    """One input, one QGemm: acc = weight * a + bias, a from 0 to 255."""
    constants = {
        "one": np.float32(1),
        "zero": np.uint8(0),
        "weights": np.array([[weight]], np.int8),
        "weights_zero_point": np.int8(0),
        "bias": np.array([bias], np.int32),
        "b_scale": np.float32(multiplier),
        "y_zero_point": np.uint8(zero_point),
    }
    gemm = ["codes", "one", "zero", "weights", "b_scale", "weights_zero_point", "bias", "one", "y_zero_point"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["codes"], name="quantize"),
        helper.make_node("QGemm", gemm, ["y"], name="gemm", domain="com.microsoft"),
    ]
    model = make_model(nodes, constants, {"y": ("uint8", 1)}, width=1)
    return networks.parse(model.SerializeToString(), "one")


def covered(parsed: Network, vectors: Array, chunk: int = 100_000) -> tuple[LayerCoverage, ...]:
    counted = Coverage(parsed)
    activations = SpecificationReference(parsed).activations(vectors)
    for start in range(0, len(vectors), chunk):
        part = slice(start, start + chunk)
        counted.add(vectors[part], [values[part] for values in activations])
    return counted.result()


# Brute force.


@dataclass
class Steps:
    """What a list of (column, v) meets, one by one."""

    codes: set[Any] = field(default_factory=set)
    ties: set[Any] = field(default_factory=set)
    low: set[int] = field(default_factory=set)
    high: set[int] = field(default_factory=set)
    tied: int = 0
    below: int = 0
    above: int = 0

    def meet(self, layer: Layer, zero_point: int, column: int, v: float) -> None:
        """By Python's own round, half to even; v is exact in float64."""
        info = np.iinfo(layer.dtype)
        unclamped = round(min(max(v, -1e6), 1e6)) + zero_point
        self.codes.add((column, min(max(unclamped, info.min), info.max)))
        if abs(v) < 1e6 and v % 1 == 0.5 and info.min < v + zero_point < info.max:
            self.ties.add((column, v))
            self.tied += 1
        if unclamped < info.min:
            self.low.add(column)
            self.below += 1
        if unclamped > info.max:
            self.high.add(column)
            self.above += 1


def steps_of(layer: QGemm | QuantizeLinear, before_rounding: Array) -> Steps:
    steps = Steps()
    zero_point = layer.zero_point if isinstance(layer, QuantizeLinear) else layer.y_zero_point
    for row in before_rounding.tolist():
        for column, v in enumerate(row):
            steps.meet(layer, zero_point, column, v)
    return steps


def product(layer: QGemm, acc: Array) -> Array:
    return acc.astype(np.float32) * layer.multiplier


def accumulators(layer: QGemm, a: Array) -> Array:
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    acc: Array = (a.astype(np.int64) - layer.a_zero_point) @ weights + layer.bias
    return acc


def everything(layer: QGemm) -> Steps:
    low, high = layer.accumulator_bounds()
    columns = np.arange(low.min(), high.max() + 1)[:, None].repeat(len(low), axis=1)
    return steps_of(layer, product(layer, np.clip(columns, low, high)))


def expected(met: Steps, reachable: Steps, count: int) -> dict[Quantity, Met]:
    return {
        Quantity.CODES: Met(len(met.codes), len(reachable.codes), count),
        Quantity.TIES: Met(len(met.ties), len(reachable.ties), met.tied),
        Quantity.SATURATED_LOW: Met(len(met.low), len(reachable.low), met.below),
        Quantity.SATURATED_HIGH: Met(len(met.high), len(reachable.high), met.above),
    }


def check_gemm(layer: QGemm, a: Array, found: LayerCoverage) -> None:
    acc = accumulators(layer, a)
    low, high = layer.accumulator_bounds()
    pairs = {(column, value) for row in acc.tolist() for column, value in enumerate(row)}
    assert found[Quantity.ACCUMULATORS] == Met(len(pairs), int((high - low + 1).sum()), acc.size)
    if layer.dtype == np.float32:
        assert set(found) == {Quantity.ACCUMULATORS}
        return
    met = steps_of(layer, product(layer, acc))
    assert {quantity: found[quantity] for quantity in ROUNDING} == expected(met, everything(layer), acc.size)


NETWORKS = {
    "ordinary": parse((2, 4, 3)),
    "powers of two": parse((2, 4, 3), 2, power_of_two=True),
    "int8, zero points, per column": parse((2, 4, 3), 3, activations="int8", zero_points=True, per_column=True),
    "float output": parse((2, 4, 3), 4, float_output=True),
    "a tie at the highest accumulator, rounded down": one_gemm(1, -2, 0.5),
    "a tie at the highest accumulator, rounded up": one_gemm(1, 0, 0.5),
    "a tie at the lowest accumulator, rounded up": one_gemm(1, 3, 0.5),
    "saturated at both ends": one_gemm(2, -9, 1.0, zero_point=5),
    "codes that no accumulator gives": one_gemm(1, 0, 1.75),
}


@pytest.mark.half_of_cases
@pytest.mark.slow
@pytest.mark.parametrize("case", NETWORKS)
def test_gemms_are_counted_as_by_brute_force(case: str) -> None:
    parsed = NETWORKS[case]
    vectors = stimuli(parsed, 700, seed=3).chunk(0, 700)
    activations = SpecificationReference(parsed).activations(vectors)
    found = covered(parsed, vectors)
    checked = 0
    for layer, a, quantities in zip(parsed.layers[1:], activations, found[1:], strict=False):
        assert isinstance(layer, QGemm)
        check_gemm(layer, a, quantities)
        checked += 1
    assert checked == len(parsed.layers) - 1


@pytest.mark.slow
def test_the_cases_have_what_they_are_for() -> None:
    """Without ties, saturations and gaps the comparison above would compare nothing of them."""
    gemms = {case: parsed.layers[1] for case, parsed in NETWORKS.items()}
    counts = {case: everything(layer) for case, layer in gemms.items() if isinstance(layer, QGemm)}
    assert len(counts["powers of two"].ties) > 100
    assert max(counts["a tie at the highest accumulator, rounded up"].ties) == (0, 127.5)
    assert max(counts["a tie at the highest accumulator, rounded down"].ties) == (0, 126.5)
    assert min(counts["a tie at the lowest accumulator, rounded up"].ties) == (0, 1.5)
    assert counts["saturated at both ends"].low == counts["saturated at both ends"].high == {0}
    assert len(counts["codes that no accumulator gives"].codes) == 147


def test_the_input_is_counted_as_by_brute_force_nan_and_infinity_included() -> None:
    parsed = parse((3, 2), 5, zero_points=True)
    layer = parsed.layers[0]
    assert isinstance(layer, QuantizeLinear)
    vectors = stimuli(parsed, 2000, seed=3, special=True).chunk(0, 2000)
    given = np.where(np.isnan(vectors), np.float32(-np.inf), vectors)  # what the operator makes of NaN
    assert np.isnan(vectors).any()
    with np.errstate(over="ignore"):
        met = steps_of(layer, given / layer.scale)
    found = covered(parsed, vectors)[0]
    ties = found[Quantity.TIES].reachable
    assert found == {
        Quantity.CODES: Met(len(met.codes), 3 * 256, 6000),
        Quantity.TIES: Met(len(met.ties), ties, met.tied),
        Quantity.SATURATED_LOW: Met(len(met.low), 3, met.below),
        Quantity.SATURATED_HIGH: Met(len(met.high), 3, met.above),
    }
    assert found[Quantity.SATURATED_LOW].met == 3


@pytest.mark.parametrize("power_of_two", [True, False])
def test_reachable_ties_of_the_input_are_those_of_all_floats_beside_the_half_way_points(power_of_two: bool) -> None:
    parsed = parse((3, 2), 6, power_of_two=power_of_two)
    layer = parsed.layers[0]
    assert isinstance(layer, QuantizeLinear)
    half_way = (np.arange(255) + 0.5) * float(layer.scale)
    bits = half_way.astype(np.float32).view(np.int32)[:, None] + np.arange(-8, 9, dtype=np.int32)
    quotient = bits.view(np.float32) / layer.scale
    ties = int((quotient == np.arange(255)[:, None] + np.float32(0.5)).any(axis=1).sum())
    assert covered(parsed, np.zeros((1, 3), np.float32))[0][Quantity.TIES] == Met(0, 3 * ties, 0)
    assert (ties == 255) == power_of_two


def test_a_residual_network_counts_what_its_sums_are_rounded_to_and_nothing_of_add() -> None:
    parsed = parse((2, 5, 3), 7, residual=2, power_of_two=True)
    vectors = stimuli(parsed, 3000, seed=1).chunk(0, 3000)
    outputs = {layer.output.name: index for index, layer in enumerate(parsed.layers)}
    activations = SpecificationReference(parsed).activations(vectors)
    found = covered(parsed, vectors)
    assert {layer.operator for layer, met in zip(parsed.layers, found, strict=True) if not met} == {"Add"}
    index = next(i for i, layer in enumerate(parsed.layers) if i and isinstance(layer, QuantizeLinear))
    layer = parsed.layers[index]
    assert isinstance(layer, QuantizeLinear)
    met = steps_of(layer, activations[outputs[layer.sources[0]]] / layer.scale)
    assert met.tied > 0
    assert found[index][Quantity.TIES] == Met(len(met.ties), 5 * 255, met.tied)
    assert found[index][Quantity.CODES] == Met(len(met.codes), 5 * 256, 15000)


def test_dequantize_counts_the_codes_that_it_reads() -> None:
    parsed = parse((2, 4), 8, activations="int8", dequantize=True)
    vectors = stimuli(parsed, 500, seed=1).chunk(0, 500)
    read = SpecificationReference(parsed).activations(vectors)[-2]
    pairs = {(column, code) for row in read.tolist() for column, code in enumerate(row)}
    assert covered(parsed, vectors)[-1] == {Quantity.CODES_READ: Met(len(pairs), 4 * 256, 2000)}


def test_arg_max_counts_the_columns_that_it_chose_and_those_of_equals() -> None:
    parsed = parse((2, 4), 9, argmax=True)
    vectors = stimuli(parsed, 3000, seed=1).chunk(0, 3000)
    *_, scores, chosen = SpecificationReference(parsed).activations(vectors)
    equals = [
        column for row, [column] in zip(scores.tolist(), chosen.tolist(), strict=True) if row.count(row[column]) > 1
    ]
    assert len(equals) > 10
    assert covered(parsed, vectors)[-1] == {
        Quantity.CHOSEN: Met(len(set(chosen.ravel().tolist())), 4, 3000),
        Quantity.CHOSEN_OF_EQUALS: Met(len(set(equals)), 3, len(equals)),
    }


# Sums.


@pytest.mark.half_of_cases
@pytest.mark.parametrize("chunk", [1, 511, 512, 513, 1700])
def test_chunks_of_any_size_add_up_to_the_same(chunk: int) -> None:
    parsed = parse((3, 8, 4), 10, argmax=True, power_of_two=True)
    vectors = stimuli(parsed, 1700, seed=1).chunk(0, 1700)
    assert covered(parsed, vectors[::-1].copy(), chunk) == covered(parsed, vectors)


def test_a_gemm_that_is_given_every_code_meets_all_that_is_reachable() -> None:
    found = covered(one_gemm(1, -100, 2.5), np.arange(256, dtype=np.float32)[:, None])[1]
    assert {quantity: met.met for quantity, met in found.items()} == {
        quantity: met.reachable for quantity, met in found.items()
    }
    assert found[Quantity.ACCUMULATORS].met == 256
    assert found[Quantity.TIES].met == 51


def test_maps_that_would_take_too_much_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = parse((2, 4, 3), 11)
    sizes = [covered(parsed, np.zeros((1, 2), np.float32))[index][Quantity.ACCUMULATORS].reachable for index in (1, 2)]
    monkeypatch.setattr(coverage, "LARGEST_MAPS", sum(sizes) - 1)
    _, first, second = covered(parsed, np.zeros((1, 2), np.float32))
    assert first[Quantity.ACCUMULATORS].reachable == sizes[0]
    assert set(second) == set(ROUNDING)


def test_reachable_codes_are_those_of_every_accumulator() -> None:
    layer = NETWORKS["codes that no accumulator gives"].layers[1]
    assert isinstance(layer, QGemm)
    table = reachable_codes(layer)
    assert table is not None
    assert {(int(column), int(code)) for column, code in np.argwhere(table)} == everything(layer).codes
    assert reachable_codes(NETWORKS["float output"].layers[-1]) is None


# Words.


def test_the_sentence_names_the_layer_of_which_the_least_was_met() -> None:
    parsed = parse((2, 4, 3), 1)
    half, most = Met(1, 2, 9), Met(9, 10, 9)
    ties = {Quantity.TIES: Met(3, 4000, 3)}
    layers = (
        {Quantity.CODES: most, Quantity.TIES: Met(5, 6, 7)},
        {Quantity.CODES: half} | ties,
        {Quantity.CODES: most},
    )
    sentence = coverage.describe(parsed, layers)
    assert sentence == (
        f"coverage: 86.3 % of the reachable codes ({parsed.layers[1].name} 50.0 %, the least), "
        "3 of 4,000 ties behind the first layer"
    )
    accumulators = {Quantity.ACCUMULATORS: Met(1, 8, 1)}
    all_counted = (layers[0], layers[1] | accumulators, layers[2] | accumulators)
    assert "coverage: 12.5 % of the reachable accumulators, 86.3 %" in coverage.describe(parsed, all_counted)
    assert coverage.describe(parsed, (*layers[:2], layers[2] | accumulators)) == sentence


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(0, 5, "0.0 %"), (9_999, 10_000, "99.9 %"), (3, 3, "100.0 %"), (0, 0, "100.0 %")]
)
def test_a_percentage_is_rounded_down(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text
