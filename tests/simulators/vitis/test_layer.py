"""The fabric's kernel in C simulation, against the integer specification."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.targets import Launch, TaskView
from harness.targets.vitis import kernel, records
from tests.integration.programs.test_operators import COMPILED
from tests.simulators.vitis import simulated
from tests.simulators.vitis.simulated import ACCUMULATE, FINISH, IDENTITY, TABLES, Kernel
from tests.support import builders
from tests.support.programs.board_program import parse


def chain(seed: int, widths: list[int], **options: object) -> list[QGemm]:
    net = parse(builders.random_network(np.random.default_rng(seed), widths, **options))  # type: ignore[arg-type]
    return [layer for layer in net.layers if isinstance(layer, QGemm)]


def codes(layer: Layer, count: int, seed: int) -> Array:
    limits = np.iinfo(layer.input.dtype)
    drawn = np.random.default_rng(seed).integers(limits.min, limits.max + 1, (count, layer.input.size))
    drawn[:2] = [[limits.min], [limits.max]]
    return drawn.astype(layer.input.dtype)


def branches(layers: list[QGemm]) -> Launch:
    """Three layers of the same input and output width: both others read the first, which is wanted, as are they."""
    first, second, third = layers
    return [
        TaskView(first, ("a",), is_output=True),
        TaskView(second, ("b",), is_output=True),
        TaskView(third, (records.output_of(first),), is_output=True),
    ]


def expected(launch: Launch, values: dict[str, Array]) -> dict[str, Array]:
    """Of every buffer its codes, or its accumulators where its type is float32."""
    values = dict(values)
    for work in launch:
        layer: Any = work.layer
        acc = layer.accumulate()(values[work.sources[0]])
        values[records.output_of(layer)] = acc if layer.dtype == np.float32 else layer.finish()(acc)
    return values


def given_codes(launch: Launch, count: int, seed: int) -> dict[str, Array]:
    readers = {source: work.layer for work in launch for source in work.sources}
    sources = [place.name for place in records.given(launch).places]
    return {source: codes(readers[source], count, seed + number) for number, source in enumerate(sources)}


def record(values: dict[str, Array], places: records.Record) -> Array:
    return np.concatenate([values[place.name].astype(np.int32) for place in places.places], axis=1)


def check(built: Kernel, seed: int) -> None:
    """The network, everything of it, its parts, its constants, its identity."""
    launch = built.launch
    values = expected(launch, given_codes(launch, 37, seed))
    inputs = record(values, records.given(launch))
    for everything in (False, True):
        wanted = record(values, records.made(launch, everything))
        assert np.array_equal(built.ask(inputs, wanted.shape[1], everything=everything), wanted)
    for number, layer in enumerate(built.layers):
        check_layer(built, number, layer, seed + number)
    words = [int(word, 16) for word in kernel.words(built.digest)]
    assert built.ask(np.zeros((1, 8)), 8, IDENTITY).astype(np.uint32).tolist() == [words]


def check_layer(built: Kernel, number: int, layer: QGemm, seed: int) -> None:
    own = codes(layer, 20, seed)
    acc = layer.accumulate()(own)
    assert np.array_equal(built.ask(own, layer.size, ACCUMULATE, number), acc)
    low, high = layer.accumulator_bounds()
    sweep = np.random.default_rng(seed).integers(low, high + 1, (50, layer.size))
    if layer.dtype != np.float32:
        edges = layer.thresholds().T
        sweep = np.clip(np.concatenate([sweep, edges - 1, edges]), low, high)
    right = sweep if layer.dtype == np.float32 else layer.finish()(sweep)
    assert np.array_equal(built.ask(sweep, layer.size, FINISH, number), right)
    held = simulated.told(layer)
    assert np.array_equal(built.ask(np.empty((1, 0)), len(held), TABLES, number)[0], held)


RANDOM = given(
    seed=st.integers(0, 2**32 - 1),
    widths=st.lists(st.integers(1, 60), min_size=2, max_size=4),
    types=st.sampled_from([("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]),
    per_column=st.booleans(),
    power_of_two=st.booleans(),
    float_output=st.booleans(),
)


@hypothesis_settings(COMPILED, max_examples=2)
@RANDOM
def test_random_chains(tmp_path: Path, **choices: Any) -> None:
    check_random(tmp_path, **choices)


@pytest.mark.campaign
@hypothesis_settings(COMPILED, max_examples=8)
@RANDOM
def test_more_random_chains(tmp_path: Path, **choices: Any) -> None:
    check_random(tmp_path, **choices)


def check_random(folder: Path, seed: int, widths: list[int], types: tuple[str, str], **options: bool) -> None:
    activations, weights = types
    layers = chain(seed, widths, activations=activations, weights=weights, zero_points=True, **options)
    check(simulated.build(simulated.launch_of(layers), folder / str(seed)), seed % 1000)


def test_branches_and_a_second_source(tmp_path: Path) -> None:
    layers = chain(8, [6, 6, 6, 6], zero_points=True)
    check(simulated.build(branches(layers), tmp_path), 8)


def test_rows_wider_than_an_element_of_a_stream_go_in_pieces(tmp_path: Path) -> None:
    """Vitis HLS refuses an element of more than 4096 bits."""
    layers = chain(10, [3, 128, 129, 257, 2], zero_points=True)
    check(simulated.build(simulated.launch_of(layers), tmp_path, "-O1", "-DELEMENT_BY_ELEMENT"), 10)
    text = (tmp_path / kernel.SOURCE).read_text()
    declared = re.findall(r"^ +(?:hls::stream<(row<\d+>) >|(wide_rows<\d+>)) rows_\d;", text, re.MULTILINE)
    assert ["".join(each) for each in declared] == ["row<128>", "wide_rows<129>", "wide_rows<257>", "row<2>"]


def test_element_by_element_as_in_the_fabric(tmp_path: Path) -> None:
    layers = chain(8, [6, 6, 6, 6], zero_points=True)
    check(simulated.build(branches(layers), tmp_path, "-O1", "-DELEMENT_BY_ELEMENT"), 8)


def test_a_table_for_all_columns_is_stored_once(tmp_path: Path) -> None:
    layers = chain(9, [6, 30], per_column=False)
    check(simulated.build(simulated.launch_of(layers), tmp_path), 9)
    assert "thresholds<1>" in (tmp_path / kernel.SOURCE).read_text()


MUTANTS = {
    "threshold off by one": ("held.level_3[t][reached] <= acc", "held.level_3[t][reached] < acc"),
    "levels swapped": ("held.level_1[t][reached] <= acc", "held.level_1[t][1 - reached] <= acc"),
    "accumulator narrowed": ("acc[n] += product", "acc[n] = (int16_t)acc[n] + product"),
    "zero point left out": ("value - held.input_zero_point", "value"),
    "bias left out": ("acc[n] = held.bias[n];", "acc[n] = 0;"),
    "inputs from the wrong place": ("LAYER::at(0, full)", "LAYER::at(0, full) * !full"),
    "another layer asked": ("asked.layer == LAYER::NUMBER;", "asked.layer != LAYER::NUMBER;"),
    "passed on behind its outputs": ("asked.everything ? LAYER::FULL_RECORD : LAYER::KEPT", "0u"),
    "another column's thresholds": ("TABLES == 1 ? 0 : n", "0 * n"),
}  # fmt: skip


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_is_found(mutant: str, tmp_path: Path) -> None:
    options = {"zero_points": True, "power_of_two": True, "activations": "int8", "weights": "int8", "per_column": True}
    simulated.build(
        simulated.launch_of(chain(5, [9, 24, 7], **options)), tmp_path, changed={"layer.hpp": MUTANTS[mutant]}
    )
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.simulators.vitis import simulated, test_layer\n"
        f"layers = test_layer.chain(5, [9, 24, 7], **{options!r})\n"
        "test_layer.check(simulated.load(simulated.launch_of(layers), Path(sys.argv[1])), 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "AssertionError" in done.stderr or "C simulation: a stream has" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("made[i] = in.read();", "made[i] = i ? in.read() : 0;", "elements that nobody reads"),
        ("out.write(given[i]);", "if (i != 3) out.write(given[i]);", "no element to read"),
    ],
)
def test_an_element_too_many_or_too_few_ends_the_simulation(old: str, new: str, said: str, tmp_path: Path) -> None:
    launch = simulated.launch_of(chain(5, [9, 4]))
    simulated.build(launch, tmp_path, changed={"layer.hpp": (old, new)})
    code = (
        "import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\n"
        f"library.{kernel.name_of(launch)}((ctypes.c_int32 * 9)(), (ctypes.c_int32 * 4)(), 1, 0, 0, 0, 9, 4)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "network.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode < 0
    assert f"C simulation: a stream has {said}" in done.stderr


def test_nothing_is_undefined(tmp_path: Path) -> None:
    layers = chain(6, [9, 24, 7], zero_points=True, activations="int8", weights="int8", float_output=True)
    flags = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    check(simulated.build(simulated.launch_of(layers), tmp_path, *flags), 3)
