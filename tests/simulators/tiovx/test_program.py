"""The program with an item under TIOVX: what it says of the core, what it refuses, what it does when one fails."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.plan import plan
from harness.reference import SpecificationReference
from harness.targets import codegen
from harness.targets.tiovx.sources import kernels_digest
from tests.integration.programs.test_operators import COMPILED, half_way_vectors, models
from tests.simulators.tiovx.boards import PC, with_dsp, with_tiovx_of_a_pc
from tests.support import builders, dags
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
)

VECTORS = 150  # no multiple of the block
CORES = {"c7x": "DSP_C7-1", "mpu": "MPU-0"}


@pytest.fixture(scope="module", params=CORES)
def core(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made_of(net_model: onnx.ModelProto, board: Profile, **choices: object) -> plan.Plan:
    return plan.make(parse(net_model), board, **choices)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def program(core: str, host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> BoardProgram:
    """Items prepost on the processor and network under TIOVX."""
    model = builders.random_network(np.random.default_rng(7), (5, 19, 4, 3), float_output=True, argmax=True)
    board = with_dsp(host, core)
    folder = tmp_path_factory.mktemp("program")
    return build_patched(made_of(model, board, block=64), board, folder, flags=["-O1"], objects=objects)


@pytest.fixture(scope="module")
def vectors(program: BoardProgram) -> Array:
    return uniform_vectors(program.network, VECTORS, seed=8)


def test_the_program_says_what_its_items_run_on(program: BoardProgram, core: str) -> None:
    done = program.run("--devices")
    assert done.returncode == 0, done.stderr
    device = f"host-simulation of TIOVX (double), {CORES[core]}, kernels 1 ({kernels_digest()})"
    assert json.loads(done.stdout) == {"done": True, "bundle": "patched", "devices": {"network": device}}


def test_no_name_of_the_program_is_seen_by_the_library(program: BoardProgram) -> None:
    """Where one of TIOVX's own has the same, it would call ours."""
    listed = subprocess.run(["nm", program.path], capture_output=True, text=True, check=True).stdout
    kinds = {name: kind for kind, name in re.findall(r" (\w) (\w+)$", listed, re.MULTILINE)}
    assert {kinds[name] for name in ("allocate", "fail", "tiovx_run", "module_load")} == {"t"}


def test_what_tiovx_prints_is_not_among_the_json_lines(program: BoardProgram, vectors: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path)
    assert json.loads(done.stdout)["vectors"] == VECTORS
    assert done.stdout.count("\n") == 1
    assert "APP" in done.stderr


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
        [path] = tmp_path.glob("??_*.npy")
        assert_same([np.load(path)], [expected[-1]])


@pytest.mark.parametrize("core", ["c7x"], indirect=True)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("init", r"TIOVX does not start \(appInit\): is another program using it"),
        ("missing=org.harness.qgemm", r"TIOVX refuses the graph of item network .*: either DSP_C7-1 has no kernels"),
        ("verify", r"TIOVX refuses the graph of item network"),
        ("old", r"the kernels on DSP_C7-1 are older than this bundle \(version 0, expected 1\): build and install"),
        ("other", r"the kernels on DSP_C7-1 were made of other sources \(.*\) than this bundle \(\w{16}\): build"),
        ("memory@3", r"vxCreate\w+ \(\w+\): status -8 of TIOVX: use a smaller --block"),
        ("fail@5", r"the kernel's process callback \(\w+\): status -\d+ of TIOVX: see what TIOVX has said above"),
    ],
)
def test_what_fails_is_named_with_what_to_do(
    program: BoardProgram, vectors: Array, tmp_path: Path, fault: str, expected: str
) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path, HARNESS_DOUBLE_FAULT=fault)
    assert re.search(expected, refusal(done)), done.stderr
    # What it leaves to the core would stay there.
    assert ("APP: Deinit" in done.stderr) is (fault != "init")
    assert "not released" not in done.stderr


def test_a_core_that_does_not_answer_is_not_waited_for(host: Profile, objects: Path, tmp_path: Path) -> None:
    board = with_dsp(host)
    board = board.model_copy(update={"tiovx": {"timeout_s": 1}})
    made = made_of(builders.random_network(np.random.default_rng(7), (5, 3)), board)
    program = build_patched(made, board, tmp_path / "bundle", flags=["-O1"], objects=objects)
    np.save(tmp_path / "vectors.npy", uniform_vectors(program.network, 10, seed=1))
    begun = time.monotonic()
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path, HARNESS_DOUBLE_FAULT="hang@2")
    assert 1 <= time.monotonic() - begun < 20
    assert re.search(r"item network: DSP_C7-1 has not answered for 1 seconds: use a smaller --block", refusal(done))


def test_the_cores_own_times_are_written_if_times_are_asked_for(
    program: BoardProgram, vectors: Array, tmp_path: Path
) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    arguments = ["--vectors", tmp_path / "vectors.npy", "--out", tmp_path, "--block", 50]
    program.run(*arguments)
    assert not list(tmp_path.glob("times_*"))
    assert program.run(*arguments, "--time", "network", "--repeat", 2).returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "times_network.jsonl").read_text().splitlines()]
    layers = [layer.name for layer in program.network.layers[:-1]]
    assert [row.get("node") for row in rows] == [None, *layers]
    assert {row["executions"] for row in rows} == {6}
    nodes = sum(row["average_ns"] for row in rows[1:])
    assert 0 < nodes <= rows[0]["average_ns"] + 1000 * len(layers)
    assert all(row["least_ns"] <= row["average_ns"] <= row["greatest_ns"] for row in rows)


# The third is TI's own TIOVX, where there is one.
BOARDS = [
    pytest.param(with_dsp, id="double, c7x"),
    pytest.param(lambda host: with_dsp(host, "mpu"), id="double, mpu"),
    pytest.param(
        with_tiovx_of_a_pc, id="TIOVX for a PC", marks=pytest.mark.skipif(not PC, reason="no HARNESS_TIOVX_PC")
    ),
]


@pytest.mark.parametrize("board_of", BOARDS)
@settings(COMPILED, max_examples=6)
@given(
    model=models(),
    block=st.sampled_from([1, 16, 1000]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_networks(
    model: onnx.ModelProto,
    block: int,
    seed: int,
    board_of: Callable[[Profile], Profile],
    host: Profile,
    objects: Path,
    tmp_path: Path,
) -> None:
    board = board_of(host)
    program = build_patched(
        made_of(model, board, block=block), board, tmp_path / "bundle", flags=["-O1"], objects=objects
    )
    vectors = half_way_vectors(program.network, 203, seed)
    assert_same(program.activations(vectors, tmp_path / "out"), references(program.network, vectors))


@pytest.mark.parametrize(
    ("core", "split", "sync"),
    [
        ("c7x", ["pipeline"], "barrier"),
        ("mpu", ["layer_1=prepost+network"], "flag"),
        ("c7x", ["parallel"], "flag"),
        ("c7x", ["quantize=prepost", "pipeline"], "barrier"),
    ],
)
def test_splits_between_the_core_and_the_processor(
    core: str, split: list[str], sync: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    model = builders.random_network(np.random.default_rng(7), (5, 9, 8, 3), dequantize=True, argmax=True)
    board = with_dsp(host, core)
    made = made_of(model, board, block=16, split=split, sync=sync)
    program = build_patched(made, board, tmp_path / "bundle", flags=["-O1"], objects=objects)
    vectors = uniform_vectors(program.network, 70, seed=8)
    expected = SpecificationReference(program.network).activations(vectors)
    assert_same(program.activations(vectors, tmp_path / "out"), expected)


@pytest.mark.parametrize("targets", [["tiovx:mpu", "tiovx:c7x"], ["tiovx:c7x", "tiovx:c7x"]])
def test_two_items_share_tiovx(targets: list[str], host: Profile, objects: Path, tmp_path: Path) -> None:
    board = with_dsp(host)
    model = builders.random_network(np.random.default_rng(7), (5, 9, 8, 3))
    made = made_of(model, board, targets=targets, block=16, split=["layer_1=prepost"])
    program = build_patched(made, board, tmp_path / "bundle", flags=["-O1"], objects=objects)
    vectors = uniform_vectors(program.network, 70, seed=8)
    expected = SpecificationReference(program.network).activations(vectors)
    assert_same(program.activations(vectors, tmp_path / "out"), expected)


def test_the_processor_divides_where_the_plan_says_so(host: Profile, objects: Path, tmp_path: Path) -> None:
    """QuantizeLinear by target c, its codes go to the core."""
    board = with_dsp(host)
    net = parse(dags.listing_2())
    made = plan.make(net, board, block=16, split=[f"{net.layers[0].name}=prepost"])
    program = build_patched(made, board, tmp_path / "bundle", flags=["-O1"], objects=objects)
    vectors = uniform_vectors(net, 70, seed=8)
    assert_same(program.activations(vectors, tmp_path / "out"), SpecificationReference(net).activations(vectors))


@pytest.mark.parametrize("core", CORES)
def test_the_sources_compile_without_a_warning(core: str, host: Profile, tmp_path: Path) -> None:
    board = with_dsp(host, core)
    model = builders.random_network(np.random.default_rng(7), (5, 9, 3), zero_points=True, float_output=True)
    flags = ["-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror"]
    build_patched(made_of(model, board, block=16), board, tmp_path, flags=flags)


@pytest.mark.parametrize("core", CORES)
def test_the_address_and_undefined_behaviour_sanitizers_find_nothing(core: str, host: Profile, tmp_path: Path) -> None:
    board = with_dsp(host, core)
    model = builders.random_network(np.random.default_rng(7), (5, 9, 3), zero_points=True, float_output=True)
    flags = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = build_patched(made_of(model, board, block=16), board, tmp_path / "bundle", flags=flags)
    vectors = uniform_vectors(program.network, 70, seed=8)
    done = run_sanitized(program, vectors, tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same(program.read_dumps(tmp_path), references(program.network, vectors))


def test_an_object_that_is_kept_is_noticed(host: Profile, objects: Path, tmp_path: Path) -> None:
    """The double tells at the end: so nothing of the host's side leaks."""
    board = with_dsp(host)
    made = made_of(builders.random_network(np.random.default_rng(7), (5, 3)), board)
    patch = Patch("kernels/tiovx/tiovx.c", "    RELEASE(vxReleaseScalar, launch->name, launch->vectors);\n", "")
    program = build_patched(made, board, tmp_path, [patch], ["-O1"], objects)
    assert "TIOVX double: " in program.run("--devices").stderr


@pytest.mark.parametrize("reached", ["usage == VX_READ_ONLY || i != OFFSET", "usage != VX_READ_ONLY || i != OFFSET"])
def test_the_constants_are_read_back_from_the_core(reached: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    """What is lost on the way to the core, or back, is missing in the tables, not only in the results."""
    board = with_dsp(host)
    made = made_of(builders.random_network(np.random.default_rng(7), (5, 3)), board)
    tables = {table.name: table.values for code in codegen.generate(made).tasks for table in code.tables}
    lost = Patch("kernels/tiovx/tiovx.c", "if (node->parts[i].bytes)", f"if (node->parts[i].bytes && ({reached}))")
    for folder, patches in (("right", []), ("wrong", [lost])):
        program = build_patched(made, board, tmp_path / folder, patches, ["-O1"], objects)
        (tmp_path / f"{folder}_tables").mkdir()
        assert program.run("--tables", "--out", tmp_path / f"{folder}_tables").returncode == 0
        found = {name: np.load(tmp_path / f"{folder}_tables" / f"{name}.npy") for name in tables}
        same = {name: np.array_equal(found[name], np.atleast_2d(values)) for name, values in tables.items()}
        assert {name for name, equal in same.items() if not equal} == (
            set() if folder == "right" else {"layer_0_offset"}
        )
