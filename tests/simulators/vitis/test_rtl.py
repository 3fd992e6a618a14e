"""The RTL core: the values and the cycles of Verilator's simulation, and what yosys makes of its sources."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rtl_core
from harness import model
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.targets.vitis import rtl
from harness.targets.vitis.rtl import LayerGeometry
from tests.integration.programs.test_operators import half_way_vectors
from tests.simulators.vitis.rtl_simulation import (
    Passed,
    Simulated,
    build_chain,
    build_layer,
    build_netlist,
    write_constants,
)
from tests.support import builders
from tests.support.programs.board_program import parse, references

VECTORS = 2048
"""At least 10,000 activations of the narrowest layer of the ACAS networks."""
LAYERS = tuple(f"dense_{index}" for index in range(1, 10))
TIES, ONE_COLUMN = "ties, wider and narrower", "one code, one column"
NETWORKS = {
    TIES: builders.random_network(
        np.random.default_rng(1), [6, 40, 9], weights="uint8", power_of_two=True, zero_points=True
    ),
    ONE_COLUMN: builders.random_network(
        np.random.default_rng(2), [5, 1, 1, 7], activations="int8", per_column=True, zero_points=True
    ),
}


@dataclass(frozen=True, eq=False)
class Case:
    """A layer with codes for it and what the reference makes of them."""

    layer: QGemm
    codes: Array
    output: Array

    def is_right(self, values: Array) -> bool:
        """Whether (vectors, N) uint32 of the core are the output, bit for bit, after the scaling of a float32 one."""
        if self.layer.dtype == np.float32:
            scaled = values.view(np.int32).astype(np.float32) * self.layer.multiplier
            return scaled.tobytes() == self.output.tobytes()
        return np.array_equal(values, self.output.view(np.uint8))

    @property
    def accumulators(self) -> Array:
        return self.layer.accumulate()(self.codes)


def cases(net: Network, count: int = VECTORS) -> list[Case]:
    """All its QGemms with the activations of these many vectors."""
    vectors = half_way_vectors(net, count, 3)
    activations = dict(zip((layer.output.name for layer in net.layers), references(net, vectors), strict=True))
    return [Case(each, activations[each.sources[0]], activations[each.output.name]) for each in rtl_core.gemms(net)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rtl")


@pytest.fixture(scope="module")
def simulated(folder: Path) -> Callable[[QGemm], Simulated]:
    """Simulations of layers: one for all that differ in nothing but their constants."""
    known: dict[str, Simulated] = {}

    def of(layer: QGemm) -> Simulated:
        name = "_".join(map(str, rtl_core.parameters(layer).values()))
        if name not in known:
            known[name] = build_layer(folder / name, layer)
        return known[name]

    return of


@pytest.fixture(scope="module")
def acas() -> dict[str, Case]:
    net = model.load(ROOT / "models" / "acas_coc.onnx")
    return {case.layer.name: case for case in cases(net)}


@pytest.fixture(scope="module")
def random() -> dict[str, list[Case]]:
    return {name: cases(parse(model)) for name, model in NETWORKS.items()}


def check(run: Callable[[Array, str], Passed], first: Case, last: Case, shapes: list[LayerGeometry]) -> None:
    """Values and cycles; `run` passes codes at a rate."""
    fast = run(first.codes, "fast")
    assert last.is_right(fast.values)
    assert fast.intervals == {rtl.interval_cycles(shapes)}
    assert fast.cycles[-1, 1] - fast.cycles[0, 0] + 1 == rtl.total_cycles(shapes, len(first.codes))
    assert last.is_right(run(first.codes, "stalls").values)
    alone = run(first.codes[:64], "alone")
    assert alone.latencies == {rtl.latency_cycles(shapes)}
    assert np.array_equal(alone.values, fast.values[:64])


def check_layer(simulation: Simulated, case: Case, folder: Path) -> None:
    constants = write_constants(folder, case.layer)
    width = case.layer.size
    check(lambda codes, rate: simulation.run(constants, codes, width, rate), case, case, [rtl.shape(case.layer)])


@pytest.mark.campaign
@pytest.mark.parametrize("name", LAYERS)
def test_the_layers_of_acas_are_the_reference(
    name: str, acas: dict[str, Case], simulated: Callable[[QGemm], Simulated], folder: Path
) -> None:
    case = acas[name]
    assert case.output.size >= 10_000
    check_layer(simulated(case.layer), case, folder)


@pytest.mark.parametrize(
    "name",
    [TIES, pytest.param(ONE_COLUMN, marks=pytest.mark.campaign)],  # as a layer of the chain of odd shapes has
)
def test_random_layers_are_the_reference(
    name: str, random: dict[str, list[Case]], simulated: Callable[[QGemm], Simulated], folder: Path
) -> None:
    for case in random[name]:
        check_layer(simulated(case.layer), case, folder)


def test_the_inputs_have_ties_and_reach_thresholds(acas: dict[str, Case], random: dict[str, list[Case]]) -> None:
    for case in [*list(acas.values())[:-1], *random[TIES]]:
        steps = case.layer.thresholds()
        assert sum(np.isin(case.accumulators[:, n], steps[n]).sum() for n in range(case.layer.size)) > 10
    for case in random[TIES]:
        halves = 2 * case.accumulators * case.layer.multiplier.astype(np.float64)  # of powers of two: exact
        assert (halves % 2 == 1).sum() > 20


@pytest.mark.campaign
def test_a_chain_of_acas_is_the_network(acas: dict[str, Case], folder: Path) -> None:
    check_chain(list(acas.values()), folder / "acas")


def test_a_chain_of_odd_shapes_is_the_network(folder: Path) -> None:
    """Its slowest layer is neither the first nor the last, and one has the name of a word of the language."""
    model = builders.random_network(np.random.default_rng(4), [3, 2, 23, 1, 4], activations="int8", float_output=True)
    first, *others = cases(parse(model))
    check_chain([replace(first, layer=replace(first.layer, name="wire")), *others], folder / "odd")


def check_chain(row: list[Case], folder: Path) -> None:
    layers = [case.layer for case in row]
    simulation = build_chain(folder, layers)
    for layer in layers:
        write_constants(folder, layer)
    shapes = [rtl.shape(layer) for layer in layers]
    check(lambda codes, rate: simulation.run(folder, codes, layers[-1].size, rate), row[0], row[-1], shapes)


@pytest.mark.parametrize(
    ("shapes", "latency", "interval"),
    [
        ([LayerGeometry(50, 50, codes=True)], 112, 51),
        ([LayerGeometry(50, 5, codes=False)], 58, 50),
        ([LayerGeometry(1, 1, codes=True)], 14, 2),
        (
            [
                LayerGeometry(5, 50, codes=True),
                *7 * [LayerGeometry(50, 50, codes=True)],
                LayerGeometry(50, 5, codes=False),
            ],
            509,
            51,
        ),
    ],
)
def test_cycles(shapes: list[LayerGeometry], latency: int, interval: int) -> None:
    assert (rtl.latency_cycles(shapes), rtl.interval_cycles(shapes)) == (latency, interval)
    assert rtl.total_cycles(shapes, 11) == latency + 10 * interval


def test_a_branch_is_refused() -> None:
    net = parse(builders.random_network(np.random.default_rng(5), [3, 4, 2], residual=2))
    with pytest.raises(RequestError, match="layer layer_0_term_2 does not read layer_0_term_1"):
        rtl_core.gemms(net)


MUTANTS = {
    "threshold greater than": ("level.sv", "threshold <= out_sum}", "threshold < out_sum}"),
    "address of thresholds off by one": ("level.sv", "ADDRESS_BITS'(in_count);", "ADDRESS_BITS'(in_count) + 1'b1;"),
    "column of thresholds off by one": ("level.sv", "BITS'(in_column) <<", "BITS'(in_column + 1'b1) <<"),
    "threshold changed while its sum waits": ("level.sv", "if (move) begin", "begin"),
    "address of weights off by one": ("accumulate.sv", "row <= weights[index];", "row <= weights[index+1'b1];"),
    "accumulator of 18 bits": (
        "accumulate.sv",
        "(product_first ? start : sum) + 32'(product);",
        "32'($signed(18'((product_first ? start : sum) + 32'(product))));",
    ),
    "weights of 8 bits": ("accumulate.sv", "weight = row[", "weight = $signed(row[n*WEIGHT_BITS+:8]); // ["),
    "bias forgotten": ("accumulate.sv", "product_first ? start", "product_first ? 0"),
    "zero point forgotten": ("accumulate.sv", "- 9'(ZERO_POINT)", ""),
    "code dropped on its way in": ("accumulate.sv", "<= {in_valid, index", "<= {in_valid && index != 3, index"),
    "sum dropped at the end": ("accumulate.sv", "out_valid = draining;", "out_valid = draining && out_column < 23;"),
    "buffer swap missing": ("accumulate.sv", "leaving[31:0];", "sums[32*out_column+:32];"),
    "buffer swap too early": ("accumulate.sv", "complete && draining;", "1'b0;"),
    "value lost when nobody takes it": ("requantize.sv", "!out_valid || out_ready;", "1'b1;"),
    "lowest code of the other type": ("requantize.sv", "SIGNED_OUTPUT != 0", "SIGNED_OUTPUT == 0"),
}  # fmt: skip


@pytest.fixture(scope="module")
def wide() -> Case:
    """More columns than codes, so that sums wait for room; sums of more than 18 bits; zero points."""
    options = {"weights": "uint8", "power_of_two": True, "zero_points": True}
    case = cases(parse(builders.random_network(np.random.default_rng(6), [20, 24], **options)), 512)[0]
    return with_largest_sums(case)


def with_largest_sums(case: Case) -> Case:
    """Behind the others a vector for every column that makes its sum as large as it can be."""
    weights = case.layer.weights.astype(np.int32) - case.layer.weights_zero_point
    codes = np.where(weights.T > 0, 255, 0).astype(np.uint8)
    largest = case.layer.prepare()(codes)
    return Case(case.layer, np.concatenate([case.codes, codes]), np.concatenate([case.output, largest]))


@pytest.mark.campaign
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, wide: Case, folder: Path) -> None:
    file, old, new = MUTANTS[name]
    own = folder / name.replace(" ", "_")
    simulation = build_layer(own, wide.layer, {file: (old, new)})
    assert not is_right(simulation, wide, own)


def is_right(simulation: Simulated, case: Case, folder: Path) -> bool:
    """Whether values come out, and the right ones, at either rate."""
    constants = write_constants(folder, case.layer)
    try:
        passed = [simulation.run(constants, case.codes, case.layer.size, rate) for rate in ("fast", "stalls")]
    except AssertionError:
        return False
    return all(case.is_right(each.values) for each in passed)


def test_the_layer_of_the_mutants_is_right(wide: Case, folder: Path) -> None:
    assert is_right(build_layer(folder / "wide", wide.layer), wide, folder / "wide")


@pytest.mark.campaign
def test_a_synthesised_layer_is_the_reference(folder: Path) -> None:
    """In cells of the family of which yosys has models of all but block memory."""
    options = {"weights": "uint8", "power_of_two": True, "zero_points": True}
    case = cases(parse(builders.random_network(np.random.default_rng(7), [3, 2], **options)), 600)[0]
    case = replace(case, layer=replace(case.layer, name="netlist"))  # its folder's name
    check_layer(build_netlist(folder, case.layer, "xc7", "-nobram"), case, folder)


@pytest.mark.campaign
def test_the_area_of_a_layer_is_counted() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "rtl.py"), "--shape", "4-3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    layer, total = document["layers"][0], document["total"]
    assert layer["area"] == total
    assert total["dsp"] == 3
    assert total["bram36"] == 0.5, "the last level's 384 thresholds"
    assert 3 * 32 * 2 + 8 * 32 < total["ff"] < 2000, "two banks of sums, and a sum at every level"
    assert 3 * 32 < total["lut"] < 2000
    assert document["chain_cycles"] == {"latency": 19, "interval": 4}
