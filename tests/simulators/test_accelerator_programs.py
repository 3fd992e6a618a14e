"""Programs with an item on a simulated accelerator: what all devices have in common, for each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.boards.profile import ItemProfile, Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.operators.obligations import ProofStep
from harness.plan import plan, planner
from harness.reference import SpecificationReference
from harness.targets import supports
from tests.integration.programs.test_operators import COMPILED, half_way_vectors, models
from tests.integration.programs.test_parts import everything
from tests.integration.programs.test_split import ITEMS
from tests.simulators.tiovx.boards import PC, with_dsp, with_tiovx_of_a_pc
from tests.simulators.vitis.boards import with_fabric, with_two_fabric_items
from tests.support import builders, dags, images
from tests.support.examples import ALL
from tests.support.programs.board_program import (
    BoardProgram,
    Patch,
    assert_same,
    build_patched,
    parse,
    references,
    refusal,
    run_sanitized,
    uniform_vectors,
    with_flags,
)
from tests.support.proof.trials import Workshop

VECTORS = 150  # no multiple of the block
FLAGS = ["-O0", "-Wall", "-Wextra", "-Wshadow", "-Werror"]
"""Compiler flags of all programs of simulators, so that their common sources are compiled once."""


@dataclass(frozen=True)
class Accelerator:
    """A simulated device: this machine's profile with it, and the targets of its items if not the profile's."""

    board: Callable[[Profile], Profile] = lambda host: host
    targets: Sequence[str] = ()
    settings: str = ""

    def plan(self, model: onnx.ModelProto, host: Profile, **choices: Any) -> plan.Plan:
        """Return the plan of a model for the device."""
        return planner.make(parse(model), self.board(host), self.targets or None, **choices)

    def build(self, made: plan.Plan, host: Profile, folder: Path, **choices: Any) -> BoardProgram:
        """Build the program of one of its plans."""
        return build_patched(made, self.board(host), folder, **({"flags": self.flags} | choices))

    @property
    def flags(self) -> list[str]:
        """Return the compiler flags of its programs."""
        return [*FLAGS, "-Wno-unknown-pragmas"] if self.settings == "vitis" else FLAGS


ACCELERATORS = {
    "tiovx:c7x": Accelerator(with_dsp, settings="tiovx"),
    "tiovx:mpu": Accelerator(lambda host: with_dsp(host, "mpu"), settings="tiovx"),
    "vitis": Accelerator(with_fabric, settings="vitis"),
    "cuda:layerwise": Accelerator(targets=["c", "cuda:layerwise"]),
    "cuda:fused": Accelerator(targets=["c", "cuda:fused"]),
}
# TI's own TIOVX, where there is one.
TIOVX_OF_A_PC = pytest.param(
    Accelerator(with_tiovx_of_a_pc), id="TIOVX for a PC", marks=pytest.mark.skipif(not PC, reason="no HARNESS_TIOVX_PC")
)


@pytest.fixture(scope="module", params=ACCELERATORS)
def program(
    request: pytest.FixtureRequest, host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory
) -> BoardProgram:
    """Items prepost on the processor and network on the device."""
    device = ACCELERATORS[request.param]
    kind = "dequantize" if device.targets else "float_output"
    model = builders.random_network(np.random.default_rng(7), (5, 19, 4, 3), argmax=True, **{kind: True})  # type: ignore[arg-type]
    made = device.plan(model, host, block=64)
    return device.build(made, host, tmp_path_factory.mktemp("program"), objects=objects)


@pytest.fixture(scope="module")
def vectors(program: BoardProgram) -> Array:
    return uniform_vectors(program.network, VECTORS, seed=8)


def assert_only_the_last_is_dumped(program: BoardProgram, folder: Path, expected: Array) -> None:
    last = len(program.network.layers) - 1
    [path] = folder.glob("??_*.npy")
    assert path.name == f"{last:02}_{program.network.layers[last].name}.npy"
    assert_same([np.load(path)], [expected])


@pytest.mark.half_of_cases
@pytest.mark.parametrize("block", [1, 37, 64])
@pytest.mark.parametrize("dump", ["all", "last"])
def test_blocks_and_dumps(program: BoardProgram, vectors: Array, tmp_path: Path, block: int, dump: str) -> None:
    expected = references(program.network, vectors)
    np.save(tmp_path / "vectors.npy", vectors)
    arguments = ["--vectors", tmp_path / "vectors.npy", "--out", tmp_path, "--block", block, "--dump", dump]
    assert program.run(*arguments).returncode == 0
    if dump == "all":
        assert_same(program.read_dumps(tmp_path), expected)
    else:
        assert_only_the_last_is_dumped(program, tmp_path, expected[-1])


of_any_network = pytest.mark.parametrize(
    "device",
    [*(pytest.param(ACCELERATORS[name], id=name) for name in ("tiovx:c7x", "tiovx:mpu", "vitis")), TIOVX_OF_A_PC],
)


@pytest.mark.half_of_cases
@of_any_network
@settings(COMPILED, max_examples=8 if ALL else 2)
@given(model=models(), block=st.sampled_from([1, 16, 1000]), seed=st.integers(0, 2**32 - 1))
def test_random_networks(
    model: onnx.ModelProto, block: int, seed: int, device: Accelerator, host: Profile, objects: Path, tmp_path: Path
) -> None:
    program = device.build(device.plan(model, host, block=block), host, tmp_path / "bundle", objects=objects)
    vectors = half_way_vectors(program.network, 203, seed)
    assert_same(program.activations(vectors, tmp_path / "out"), references(program.network, vectors))


@pytest.mark.parametrize(
    ("name", "split", "sync"),
    [
        ("tiovx:mpu", ["layer_1=prepost+network"], "flag"),
        ("tiovx:c7x", ["parallel"], "flag"),
        ("tiovx:c7x", ["quantize=prepost", "pipeline"], "barrier"),
        ("vitis", ["pipeline"], "barrier"),
        ("vitis", ["layer_1=prepost+network"], "flag"),
        ("cuda:layerwise", ["parallel"], "flag"),
        ("cuda:fused", ["parallel", "pipeline"], "barrier"),
        *(
            pytest.param(*each, marks=pytest.mark.campaign)
            for each in (
                ("tiovx:c7x", ["pipeline"], "barrier"),
                ("vitis", ["parallel"], "flag"),
                ("vitis", ["layer_1=prepost"], "barrier"),
                ("cuda:layerwise", ["pipeline"], "barrier"),
                ("cuda:fused", ["pipeline"], "barrier"),
                ("cuda:fused", ["layer_1=prepost+network"], "flag"),
            )
        ),
    ],
)
def test_splits_between_the_device_and_the_processor(
    name: str, split: list[str], sync: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    device = ACCELERATORS[name]
    model = builders.random_network(np.random.default_rng(7), (5, 9, 8, 3), dequantize=True, argmax=True)
    made = device.plan(model, host, block=16, split=split, sync=sync)
    assert_activations(device.build(made, host, tmp_path / "bundle", objects=objects), tmp_path / "out")


def assert_activations(program: BoardProgram, folder: Path) -> None:
    """All activations of 70 vectors are the specification's."""
    vectors = uniform_vectors(program.network, 70, seed=8)
    assert_same(program.activations(vectors, folder), SpecificationReference(program.network).activations(vectors))


PARTS = {
    "tiovx:c7x": (("c", "tiovx:c7x"), ("rows", "channels")),
    "vitis": (("c", "vitis"), ("channels", "rows")),
    "two cores": (("tiovx:mpu", "tiovx:c7x"), ("channels", "rows")),
    "two in the fabric": (("vitis", "vitis:fold2"), ("rows", "channels")),
    "cuda:layerwise": (("c", "cuda:layerwise"), ("channels", "rows")),
    "cuda:fused": (("cuda:fused", "c"), ("channels", "rows")),
}


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("tiovx:c7x", {ProofStep.CONSTANTS}),
        pytest.param("vitis", {ProofStep.CONSTANTS}, marks=pytest.mark.campaign),
        *(pytest.param(name, set(ProofStep), marks=pytest.mark.campaign) for name in PARTS),
    ],
)
def test_parts_of_images_on_a_device(
    name: str, steps: set[ProofStep], host: Profile, objects: Path, tmp_path: Path
) -> None:
    """Channels or rows of every layer that can be divided are the layer's, and so says the proof."""
    names, ways = PARTS[name]
    items = {item: ItemProfile(target=each) for item, each in zip(ITEMS, ("c", *names), strict=True)}
    board = with_flags(host.model_copy(update={"items": items}), *ACCELERATORS["vitis"].flags)
    network = images.every_operator("int8", "conv", "largest", "means", "padded", "mean")
    layers = {layer.name: layer for layer in network.layers}
    words = [
        word
        for word in everything(network, *ways, over=ITEMS[1:])
        if all(supports(each, layers[word.partition("=")[0]]) for each in names)
    ]
    trial = Workshop(board, objects, tmp_path).trial(network, block=7, split=words)
    assert {task.item for task in trial.made.tasks} == {0, 1, 2}
    assert {task.runs > 1 for task in trial.made.tasks} == {False, True}
    vectors = uniform_vectors(network, 30, seed=8)
    assert_same(trial.program.activations(vectors, tmp_path / "out"), references(network, vectors))
    claims = [question.ask() for question in trial.questions() if question.step in steps]
    assert [claim for claim in claims if not claim.holds] == []
    assert len(claims) > (len(steps) > 1) * len(trial.made.tasks)


@pytest.mark.parametrize(
    ("device", "split"),
    [
        (Accelerator(with_dsp, ["tiovx:mpu", "tiovx:c7x"]), ["layer_1=prepost"]),
        (Accelerator(with_dsp, ["tiovx:c7x", "tiovx:c7x"]), ["layer_1=prepost"]),
        (Accelerator(with_two_fabric_items, settings="vitis"), ["layer_1=left+right"]),
    ],
    ids=["tiovx, two cores", "tiovx, one core", "vitis"],
)
def test_two_items_share_the_device(
    device: Accelerator, split: list[str], host: Profile, objects: Path, tmp_path: Path
) -> None:
    model = builders.random_network(np.random.default_rng(7), (5, 9, 8, 3))
    made = device.plan(model, host, block=16, split=split)
    assert_activations(device.build(made, host, tmp_path / "bundle", objects=objects), tmp_path / "out")


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("device", "split"),
    [
        (ACCELERATORS["tiovx:c7x"], ["{first}=prepost"]),  # QuantizeLinear by target c, its codes go to the core
        (ACCELERATORS["vitis"], []),
        (Accelerator(targets=["cuda:fused", "cuda:layerwise"]), ["o3=prepost", "o5=prepost"]),
        (Accelerator(targets=["cuda:fused", "cuda:fused"]), ["o3=prepost", "o5=prepost"]),
    ],
    ids=["tiovx:c7x", "vitis", "cuda, two kinds", "cuda, one kind"],
)
def test_a_graph_that_branches(
    device: Accelerator, split: list[str], host: Profile, objects: Path, tmp_path: Path
) -> None:
    model = dags.listing_2()
    first = parse(model).layers[0].name
    made = device.plan(model, host, block=16, split=[each.format(first=first) for each in split])
    program = device.build(made, host, tmp_path / "bundle", objects=objects)
    assert_activations(program, tmp_path / "out")
    done = program.run("--vectors", tmp_path / "out/vectors.npy", "--out", tmp_path, "--dump", "last")
    assert (done.returncode, [line for line in done.stderr.splitlines() if not line.startswith("APP: ")]) == (0, [])
    vectors = np.load(tmp_path / "out/vectors.npy")
    assert_only_the_last_is_dumped(program, tmp_path, references(program.network, vectors)[-1])


@pytest.mark.parametrize(
    ("name", "fault", "expected"),
    [
        ("tiovx:c7x", "hang@2", "item network: DSP_C7-1 has not answered for 1 seconds: use a smaller --block"),
        ("vitis", "hang@3", "layer_0_kernel in the fabric has not answered for 1 seconds: use a smaller --block"),
    ],
)
def test_a_device_that_does_not_answer_is_not_waited_for(
    name: str, fault: str, expected: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    device = ACCELERATORS[name]
    hasty = host.model_copy(update={device.settings: {"timeout_s": 1}})
    made = device.plan(builders.random_network(np.random.default_rng(7), (5, 3)), hasty)
    program = device.build(made, hasty, tmp_path / "bundle", objects=objects)
    np.save(tmp_path / "vectors.npy", uniform_vectors(program.network, 10, seed=1))
    start = time.monotonic()
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path, HARNESS_DOUBLE_FAULT=fault)
    assert time.monotonic() - start >= 1
    assert expected in refusal(done)


TRANSFER = "if (node->parts[i].bytes)"


@pytest.mark.parametrize(
    ("name", "wrong", "missing"),
    [
        (
            "tiovx:c7x",  # lost on the way to the core
            Patch("kernels/tiovx/tiovx.c", TRANSFER, f"{TRANSFER[:-1]} && (usage == VX_READ_ONLY || i != OFFSET))"),
            "layer_0_offset",
        ),
        (
            "tiovx:c7x",  # lost on the way back
            Patch("kernels/tiovx/tiovx.c", TRANSFER, f"{TRANSFER[:-1]} && (usage != VX_READ_ONLY || i != OFFSET))"),
            "layer_0_offset",
        ),
        (
            "vitis",
            Patch(
                "kernels/vitis/layer.hpp",
                "tell(held.bias, out);",
                "for (unsigned n = 0; n < WIDTH; ++n) out.write(held.bias[n] + (n == 1));",
            ),
            "layer_0_bias",
        ),
    ],
)
def test_the_constants_are_read_back_from_the_device(
    name: str, wrong: Patch, missing: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    """A constant that the device has wrong is wrong in the tables, not only in the results."""
    device = ACCELERATORS[name]
    made = device.plan(builders.random_network(np.random.default_rng(7), (5, 3)), host)
    tables = {table.name: table.values for code in codegen.generate(made).tasks for table in code.tables}
    for folder, patches, expected in (("right", [], set[str]()), ("wrong", [wrong], {missing})):
        program = device.build(made, host, tmp_path / folder, patches=patches, objects=objects)
        (tmp_path / f"{folder}_tables").mkdir()
        assert program.run("--tables", "--out", tmp_path / f"{folder}_tables").returncode == 0
        found = {name: np.load(tmp_path / f"{folder}_tables" / f"{name}.npy") for name in tables}
        same = {name: np.array_equal(found[name], np.atleast_2d(values)) for name, values in tables.items()}
        assert {name for name, equal in same.items() if not equal} == expected


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", ACCELERATORS)
def test_the_sources_compile_without_a_warning(name: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    """The program compiles as C and its device code as C++; the model has all operators of the target."""
    residual = {"residual": 2, "argmax": True} if name.startswith("cuda") else {"float_output": True}
    model = builders.random_network(np.random.default_rng(7), (5, 9, 3), zero_points=True, **residual)  # type: ignore[arg-type]
    device = ACCELERATORS[name]
    if device.targets:
        device = Accelerator(targets=[name, name])
    device.build(device.plan(model, host, block=16), host, tmp_path, objects=objects)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("tiovx:c7x", "-O0"),
        *(pytest.param(*each, marks=pytest.mark.campaign) for each in (("tiovx:mpu", "-O1"), ("vitis", "-O0"))),
    ],
)
def test_the_address_and_undefined_behaviour_sanitizers_find_nothing(
    name: str, level: str, host: Profile, tmp_path: Path
) -> None:
    device = ACCELERATORS[name]
    model = builders.random_network(np.random.default_rng(7), (5, 9, 3), zero_points=True, float_output=True)
    flags = [level, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = device.build(device.plan(model, host, block=16), host, tmp_path / "bundle", flags=flags)
    vectors = uniform_vectors(program.network, 70, seed=8)
    done = run_sanitized(program, vectors, tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same(program.read_dumps(tmp_path), references(program.network, vectors))
