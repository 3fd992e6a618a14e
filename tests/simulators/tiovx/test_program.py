"""The program with an item under TIOVX: what it says of the core, what it refuses, what it does when one fails."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.plan import plan, planner
from harness.targets.tiovx.constants import KERNELS_VERSION
from harness.targets.tiovx.sources import kernels_digest
from tests.simulators.test_accelerator_programs import FLAGS
from tests.simulators.tiovx.boards import with_dsp
from tests.support import builders
from tests.support.programs.board_program import BoardProgram, Patch, build_patched, parse, refusal, uniform_vectors

VECTORS = 150  # no multiple of the block
CORES = {"c7x": "DSP_C7-1", "mpu": "MPU-0"}


@pytest.fixture(scope="module", params=CORES)
def core(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made_of(net_model: onnx.ModelProto, board: Profile, **choices: object) -> plan.Plan:
    return planner.make(parse(net_model), board, **choices)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def program(core: str, host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> BoardProgram:
    """Items prepost on the processor and network under TIOVX."""
    model = builders.random_network(np.random.default_rng(7), (5, 19, 4, 3), float_output=True, argmax=True)
    board = with_dsp(host, core)
    folder = tmp_path_factory.mktemp("program")
    return build_patched(made_of(model, board, block=64), board, folder, flags=FLAGS, objects=objects)


@pytest.fixture(scope="module")
def vectors(program: BoardProgram) -> Array:
    return uniform_vectors(program.network, VECTORS, seed=8)


def test_the_program_says_what_its_items_run_on(program: BoardProgram, core: str) -> None:
    done = program.run("--devices")
    assert done.returncode == 0, done.stderr
    device = f"host-simulation of TIOVX (double), {CORES[core]}, kernels {KERNELS_VERSION} ({kernels_digest()})"
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


@pytest.mark.parametrize("core", ["c7x"], indirect=True)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("init", r"TIOVX does not start \(appInit\): is another program using it"),
        ("missing=org.harness.qgemm", r"TIOVX refuses the graph of item network .*: either DSP_C7-1 has no kernels"),
        ("verify", r"TIOVX refuses the graph of item network"),
        (
            "old",
            rf"the kernels on DSP_C7-1 are older than this bundle \(version 0, expected {KERNELS_VERSION}\): build",
        ),
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


def test_an_object_that_is_kept_is_noticed(host: Profile, objects: Path, tmp_path: Path) -> None:
    """The double tells at the end: so nothing of the host's side leaks."""
    board = with_dsp(host)
    made = made_of(builders.random_network(np.random.default_rng(7), (5, 3)), board)
    patch = Patch("kernels/tiovx/tiovx.c", "    RELEASE(vxReleaseScalar, launch->name, launch->vectors);\n", "")
    program = build_patched(made, board, tmp_path, [patch], FLAGS, objects)
    assert "TIOVX double: " in program.run("--devices").stderr
