"""Cycles and areas of launches: against Verilator, against a model that moves elements one a cycle, against counts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from benchmarks import rtl_core
from harness import model
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.operators.qgemm import QGemm
from harness.targets import TaskView
from harness.targets.vitis import contraction, fabric, kernel, records, rtl
from harness.targets.vitis import resources as resources_of
from harness.targets.vitis.build import COMPILER
from harness.targets.vitis.resources import K26, Resources
from harness.targets.vitis.rtl import LayerGeometry
from tests.simulators.vitis.rtl_simulation import build_chain, write_constants
from tests.support import builders
from tests.support.examples import examples
from tests.support.programs.board_program import parse
from tests.unit.targets.vitis.test_records import launches


def gemms(widths: Sequence[int], seed: int = 1, **options: object) -> tuple[QGemm, ...]:
    return rtl_core.gemms(parse(builders.random_network(np.random.default_rng(seed), widths, **options)))  # type: ignore[arg-type]


def in_a_row(layers: Sequence[QGemm]) -> list[TaskView]:
    """The launch of a chain of which the last layer's output is wanted."""
    sources = ["input_output", *(f"{layer.name}_output" for layer in layers)]
    return [TaskView(layer, (source,), layer is layers[-1]) for layer, source in zip(layers, sources, strict=False)]


def by_hand(layers: Sequence[QGemm]) -> tuple[int, int]:
    """Latency and interval of a chain as docs/boards/kv260-rtl.md has them."""
    latency = sum(layer.input.size + 3 + (0 if layer.dtype == np.float32 else 9) for layer in layers)
    return latency + layers[-1].size, max(max(layer.input.size, layer.size + 1) for layer in layers)


@pytest.mark.parametrize(
    ("widths", "floats"),
    [pytest.param((3, 2, 23, 1, 4), True, marks=pytest.mark.campaign), ((7, 9, 9), False), ((40, 5), True)],
)
def test_a_chain_takes_the_cycles_of_the_simulated_core(widths: tuple[int, ...], floats: bool, tmp_path: Path) -> None:
    layers = gemms(widths, float_output=floats)
    shapes = fabric.shapes(in_a_row(layers))
    assert shapes == tuple(rtl.shape(layer) for layer in layers)
    simulation = build_chain(tmp_path, layers)
    for layer in layers:
        write_constants(tmp_path, layer)
    codes = np.random.default_rng(3).integers(0, 256, (40, widths[0])).astype(np.uint8)
    fast, alone = (simulation.run(tmp_path, codes, widths[-1], rate) for rate in ("fast", "alone"))
    latency, interval = rtl.latency_cycles(shapes), rtl.interval_cycles(shapes)
    assert (latency, interval) == by_hand(layers)
    assert (alone.latencies, fast.intervals) == ({latency}, {interval})
    assert fast.cycles[-1, 1] - fast.cycles[0, 0] + 1 == rtl.total_cycles(shapes, len(codes))


@for_all(st.lists(st.integers(1, 60), min_size=2, max_size=8), st.booleans())
@examples(20)
def test_the_formula_of_records_is_that_of_a_chain(widths: list[int], floats: bool) -> None:
    layers = [LayerGeometry(*pair, codes=True) for pair in itertools.pairwise(widths)]
    layers[-1] = replace(layers[-1], codes=not floats)
    plain = sum(each.depth + 3 + 9 * each.codes for each in layers) + layers[-1].width
    assert rtl.latency_cycles(layers) == plain
    assert rtl.interval_cycles(layers) == max(max(each.depth, each.width + 1) for each in layers)


def simulate(
    shapes: Sequence[LayerGeometry], kept: Sequence[Sequence[int]], vectors: int, pause: int
) -> list[list[int]]:
    """For every vector the cycles in which the elements of its last record appear; element 0 enters in cycle 0.

    Of each layer two processes as kernels/vitis/layer.hpp has them, which do as much as the RTL core in a cycle.  One
    takes an element a cycle, adds, and passes on those in `kept` a cycle later; the other passes these on, then lets
    the sums leave one a cycle, of which the first takes one more.  Streams are as long as they need to be.  The next
    vector enters `pause` cycles after the one before.
    """
    first = shapes[0].record
    arriving = [[vector * max(first, pause) + index for index in range(first)] for vector in range(vectors)]
    for shape, passing in zip(shapes, kept, strict=True):
        arriving = _layer(shape, passing, arriving)
    return arriving


def _layer(shape: LayerGeometry, passing: Sequence[int], arriving: list[list[int]]) -> list[list[int]]:
    taken, left = -1, -2
    leaving: list[list[int]] = []
    for record in arriving:
        assert len(record) == shape.record
        reads = [taken := max(arrival, taken + 1) for arrival in record]
        passed = [left := max(reads[index] + 1, left + 1) for index in passing]
        left = max(reads[-1] + shape.pipeline_cycles, left + 1)
        leaving.append([*passed, *(left := left + 1 for _ in range(shape.width))])
    return leaving


@for_all(launches(), st.booleans(), st.randoms(use_true_random=False))
def test_records_take_the_predicted_cycles(launch: list[TaskView], everything: bool, random: Random) -> None:
    flows = records.flows(launch, everything)
    shapes = [
        LayerGeometry(
            each.layer.input.size,
            each.layer.size,
            codes=random.choice([False, True]),
            others=flow.before.width - each.layer.input.size,
            kept=flow.kept_width,
        )
        for each, flow in zip(launch, flows, strict=True)
    ]
    kept = [[i for start, stop in records.kept_ranges(flow) for i in range(start, stop)] for flow in flows]
    [alone] = simulate(shapes, kept, 1, 0)
    assert alone[-1] + 1 == rtl.latency_cycles(shapes)
    many = simulate(shapes, kept, 30, 0)
    assert many[-1][-1] + 1 == rtl.total_cycles(shapes, 30)
    assert many[-1][-1] - many[-2][-1] == rtl.interval_cycles(shapes)
    paused = simulate(shapes, kept, 5, rtl.interval_cycles(shapes))
    assert {later[-1] - earlier[-1] for earlier, later in itertools.pairwise(paused)} == {rtl.interval_cycles(shapes)}


def test_a_record_that_is_wider_than_its_layer_is_counted() -> None:
    """x -> a, a -> b, x -> c; x is 30 elements, in front of a's 2."""
    [a, b], [c] = gemms((30, 2, 4)), gemms((30, 1), seed=2)
    launch = [
        TaskView(a, ("x",), is_output=False),
        TaskView(b, (records.output_of(a),), is_output=True),
        TaskView(replace(c, name="c"), ("x",), is_output=True),
    ]
    shapes = fabric.shapes(launch)
    assert [(each.record, each.depth, each.width, each.kept) for each in shapes] == [
        (30, 30, 2, 30), (32, 2, 4, 30), (34, 30, 1, 4),
    ]  # fmt: skip
    assert (rtl.latency_cycles(shapes), rtl.interval_cycles(shapes)) == (30 + 3 * 12 + 2 + 4 + 1, 35)
    full = fabric.shapes(launch, everything=True)
    assert [(each.record, each.kept) for each in full] == [(30, 30), (32, 32), (36, 36)]
    assert (rtl.latency_cycles(full), rtl.interval_cycles(full)) == (30 + 3 * 12 + 2 + 4 + 1, 38)


def memory_of(*columns: Array | list[int]) -> int:
    """The bits of a word that a memory with these columns must store."""
    return resources_of.stored_bits(np.array(columns, np.int32).T)


def test_bits_that_need_no_memory_are_not_counted() -> None:
    numbers = np.random.default_rng(1).permutation(100)
    assert memory_of(numbers) == 7
    assert memory_of(numbers + 4096) == 7, "always set"
    assert memory_of(numbers - 50) == 7, "the sign fills all bits above"
    assert memory_of(-numbers) > memory_of(numbers) - 1
    assert memory_of(numbers, numbers) == 7, "columns that are the same"
    assert memory_of(numbers, 127 - numbers) == 7, "complements"
    assert memory_of(numbers, np.random.default_rng(2).permutation(100)) == 14
    assert memory_of(np.arange(100)) == 0, "the address"
    assert memory_of([-255]) == 0
    assert memory_of([5, -9]) == 0, "the address, or its complement, or nothing"
    assert memory_of([0, -255, 255, 1]) == 3, "of 9 bits the lowest is that of the address, those above it are the sign"


@pytest.mark.parametrize(
    ("words", "bits", "halves"),
    [
        (513, 1, 1),
        (1024, 18, 1),
        (1024, 19, 2),
        (6400, 15, 6),
        (512, 36, 1),
        (16384, 1, 1),
        (18433, 1, 2),
        (65, 0, 0),
        (65, 240, 7),
        (3, 37, 2),
    ],
)
def test_block_rams_have_at_least_the_bits_and_ports(words: int, bits: int, halves: int) -> None:
    assert resources_of.block_rams(words, bits) == halves / 2


def test_no_layer_of_acas_takes_less_block_ram_than_counted() -> None:
    """What yosys takes is in docs/boards/kv260-rtl.md; it keeps copies of signs, else it saves what is counted here."""
    layers = rtl_core.gemms(model.load(ROOT / "models" / "acas_coc.onnx"))
    counted = [resources([layer]).bram36 for layer in layers]
    page = (ROOT / "docs" / "boards" / "kv260-rtl.md").read_text(encoding="utf-8")
    taken = [float(row.split("|")[6]) for row in page.splitlines() if row.startswith("| dense_")]
    assert len(taken) == len(counted) == 9
    assert all(here <= there for here, there in zip(counted, taken, strict=True)), (counted, taken)
    assert (counted[6], counted[0] < taken[0]) == (6, True)


def test_a_lut_holds_two_bits_of_32_words_or_one_of_more() -> None:
    assert [resources_of.luts(words, 9) for words in (2, 32, 33, 512)] == [5, 5, 9, 9]


def resources(layers: Sequence[QGemm]) -> Resources:
    return fabric.count([in_a_row(layers)])


def test_products_are_counted_for_every_column() -> None:
    assert resources(gemms((5, 7, 3, 11))).dsp == 7 + 3 + 11


@pytest.mark.parametrize(("depth", "in_bram"), [(64, False), (65, True)])
def test_weights_change_from_luts_to_block_ram(depth: int, in_bram: bool) -> None:
    """A float32 output has no thresholds, so that there is nothing else; random weights of 8 bits, K words of N."""
    [layer] = gemms((depth, 30), float_output=True)
    assert resources_of.weights_in_bram(depth) == in_bram
    found = resources([layer])
    assert found == (Resources(0, 30, 3.5) if in_bram else Resources(8 * 30, 30, 0))


def test_weights_less_their_zero_points_may_have_9_bits() -> None:
    [layer] = gemms((60, 10), weights="uint8", float_output=True)
    spread = np.random.default_rng(1).permutation(600).reshape(60, 10).astype(np.uint8)
    spread[0] = 255
    shifted = replace(layer, weights=spread, weights_zero_point=np.full(10, 100, np.int32))
    assert resources([shifted]).lut == 9 * 10


def test_tables_of_columns_that_are_the_same_are_stored_once() -> None:
    [layer] = gemms((70, 40), per_column=True)
    same = replace(
        layer,
        weights=np.repeat(layer.weights[:, :1], 40, axis=1),
        bias=np.repeat(layer.bias[:1], 40),
        multiplier=np.repeat(layer.multiplier[:1], 40),
    )
    assert len(contraction.thresholds(same)) == 1
    assert resources([same]).bram36 == 0.5, "the weights: eight bits, whatever N is"
    assert resources([layer]).bram36 > 3


def test_every_step_of_the_search_has_its_memory() -> None:
    """Beside the weights, which here are LUTs; 50 columns, so that steps 0 to 3 are LUTs and the others block RAM."""
    [layer] = gemms((9, 50), per_column=True)
    levels = rtl.threshold_levels(contraction.thresholds(layer))
    bits = [resources_of.stored_bits(level.reshape(-1, 1)) for level in levels]
    weights = resources_of.luts(9, resources_of.stored_bits(contraction.centred(layer)))
    in_luts = sum(resources_of.luts(50 * 2**step, bits[step]) for step in range(4))
    in_ram = sum(resources_of.block_rams(50 * 2**step, bits[step]) for step in range(4, 8))
    assert min(bits) > 10
    assert resources([layer]) == Resources(weights + in_luts, 50, in_ram)


def test_a_memory_of_thresholds_with_more_than_512_words_is_block_ram() -> None:
    assert [resources_of.level_in_bram(words) for words in (1, 512, 513)] == [False, False, True]


def test_what_is_in_block_ram_is_what_the_kernel_says() -> None:
    """By its pragmas, memory by memory."""
    for depth, width in ((70, 3), (5, 40)):
        layers = gemms((depth, width))
        text = kernel.of_launch(in_a_row(layers)).text
        levels = [level.values for level in contraction.rounding(layers[0], contraction.thresholds)[:-1]]
        assert text.count("impl=bram") == (depth > 64) + sum(level.size > 512 for level in levels)
        assert text.count("impl=lutram") == (depth <= 64) + sum(level.size <= 512 for level in levels)


def test_areas_of_launches_add_up() -> None:
    one, other = gemms((5, 7)), gemms((70, 9), seed=2)
    assert fabric.count([in_a_row(one), in_a_row(other)]) == resources(one) + resources(other)


def test_a_shortage_names_all_that_the_board_has_too_little_of() -> None:
    assert fabric.resource_shortage(K26) is None
    assert fabric.resource_shortage(replace(K26, dsp=1_249)) == "needs at least 1,249 DSP, the K26 has 1,248"
    assert fabric.resource_shortage(Resources(200_000, 5_000, 144.5)) == (
        "needs at least 5,000 DSP, the K26 has 1,248; at least 144.5 BRAM36, the K26 has 144; "
        "at least 200,000 LUT, the K26 has 117,120"
    )


def test_a_folding_that_suffices_is_proposed() -> None:
    """Twice the columns that the K26 has multipliers for; the cycles are those of the folded layer, block by block."""
    launches = [in_a_row(gemms((8, 1_300), float_output=True))]
    said = fabric.shortage(launches) or ""
    assert said.startswith(
        "needs at least 1,300 DSP, the K26 has 1,248; target vitis:fold2 takes 650 of 1,248 DSP (52 %)"
    )
    assert said.endswith("and 1,301 cycles from a vector to the next instead of 1,301")
    assert fabric.shortage(launches, 2) is None
    [folded] = fabric.shapes(launches[0], 2)
    assert (folded.record, folded.interval_cycles) == (8, 1_301)
    assert fabric.count(launches, 16).dsp == 82, "a share of 81.25 columns, rounded up"


def test_items_that_fold_differently_must_fit_together(host: Profile) -> None:
    launches = [in_a_row(gemms((8, 800), float_output=True)), in_a_row(gemms((8, 900), seed=2, float_output=True))]
    half, whole = ([kernel.of_launch(launch, fold)] for launch, fold in zip(launches, (2, 1), strict=True))
    with pytest.raises(RequestError, match=r"the fabric needs at least 1,300 DSP, the K26 has 1,248"):
        COMPILER.sources([half, whole], host)
    assert COMPILER.sources([half, [kernel.of_launch(launches[1], 2)]], host)


def test_constants_that_no_folding_makes_fewer_are_named() -> None:
    """Thresholds of each column."""
    launches = [in_a_row(gemms((3, 1_300), per_column=True))]
    said = fabric.shortage(launches) or ""
    assert re.search(r"; no folding suffices, as fold16 needs at least [\d,.]+ BRAM36, the K26 has 144$", said), said


def test_the_estimate_for_acas() -> None:
    """A shared fabric, and a line for each kernel under its name."""
    layers = rtl_core.gemms(model.load(ROOT / "models" / "acas_coc.onnx"))
    launches = [in_a_row(layers[:8]), in_a_row(layers[8:])]
    area, first, second = fabric.estimate(launches, 300)
    assert area.startswith("fabric of the K26: at least 405 of 1,248 DSP (32 %), ")
    assert [kernel.name_of(launch) for launch in launches] == [line.partition(":")[0] for line in (first, second)]
    assert "501 cycles for a vector, 51 to the next (406 with all activations); at 300 MHz 1.67 µs and 0.17 µs" in first
    assert "58 cycles for a vector, 50 to the next (56 with all activations); at 300 MHz 0.19 µs and 0.17 µs" in second
    assert all("predicted by the cycle model of the RTL core, not measured" in line for line in (first, second))
