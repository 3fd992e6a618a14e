"""The program with an item on the GPU: what it says of the GPU, what it refuses, what it does when one fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.plan import planner
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import builders
from tests.support.programs.board_program import BoardProgram, Patch, build_patched, parse, uniform_vectors

EXIT_SYSTEM = 4
VECTORS = 150  # no multiple of the block


@pytest.fixture(scope="module", params=["cuda:layerwise", "cuda:fused"])
def program(
    request: pytest.FixtureRequest, host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory
) -> BoardProgram:
    """Items prepost on the processor and network on the GPU."""
    net = parse(builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), dequantize=True, argmax=True))
    plan = planner.make(net, host, ["c", request.param], block=64)
    return build_patched(plan, host, tmp_path_factory.mktemp("program"), flags=FLAGS, objects=objects)


@pytest.fixture(scope="module")
def vectors(program: BoardProgram) -> Array:
    return uniform_vectors(program.network, VECTORS, seed=8)


def run(program: BoardProgram, *arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """With these settings of the stand-in's."""
    environment = os.environ | {f"HARNESS_SIMULATED_{name}": value for name, value in settings.items()}
    command = [*program.command, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def message(done: subprocess.CompletedProcess[str]) -> str:
    """Of a program that gave up: its one line, and nothing that could be taken for a result."""
    assert (done.returncode, done.stdout) == (EXIT_SYSTEM, "")
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


def test_the_program_says_what_its_items_run_on(program: BoardProgram) -> None:
    done = run(program, "--devices")
    assert (done.returncode, done.stderr) == (0, "")
    device = "host-simulation of CUDA, sm_72, driver for CUDA 11.4, cubin for sm_72"
    assert json.loads(done.stdout) == {"done": True, "bundle": "patched", "devices": {"network": device}}


def test_an_architecture_without_a_cubin_takes_the_ptx(program: BoardProgram) -> None:
    device = json.loads(run(program, "--devices", ARCH="87", DRIVER="11080").stdout)["devices"]["network"]
    assert device.endswith("sm_87, driver for CUDA 11.8, compiled by the driver from PTX for sm_72")


@pytest.mark.parametrize(("scope", "executions"), [("item", 6), ("layer", 6), ("network", 0), ("none", None)])
def test_the_gpus_own_times_are_kept(
    program: BoardProgram, vectors: Array, tmp_path: Path, scope: str, executions: int | None
) -> None:
    """Three blocks, twice, without the warm-up; no events where the time of the whole network is wanted."""
    np.save(tmp_path / "vectors.npy", vectors)
    asked = ("--time", scope, "--repeat", 2, "--warmup", 5, "--dump", "none")
    done = run(program, "--vectors", tmp_path / "vectors.npy", "--out", tmp_path, *asked)
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path / "times_network.jsonl"
    if executions is None:
        assert not path.exists()
        return
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["executions"] for line in lines] == [executions] * (1 if executions else 0)
    host_ns = np.load(tmp_path / "time.npy").max()
    assert all(0 < line["least_ns"] <= line["average_ns"] <= line["greatest_ns"] <= host_ns for line in lines)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"FAULT": "cuInit=100"}, r"cuInit \(starting the driver\): CUDA_ERROR_NO_DEVICE \(100\): the driver sees"),
        ({"DRIVER": "10020"}, r"the NVIDIA driver is for CUDA 10\.2, the code needs 11\.0 or later: update the driver"),
        ({"ARCH": "61"}, r"is sm_61, for which the program holds no code: add sm_61 to cuda\.archs"),
        ({"ARCH": "87", "DRIVER": "11040"}, r"cuModuleLoadData .*UNSUPPORTED_PTX_VERSION \(222\): set cuda\.ptx"),
        ({"FAULT": "cuMemAlloc_v2=2"}, r"cuMemAlloc_v2 .*CUDA_ERROR_OUT_OF_MEMORY \(2\): use a smaller --block"),
        ({"FAULT": "cuCtxCreate_v2=46"}, r"CUDA_ERROR_DEVICE\w* \(46\): another process has the GPU"),
        ({"FAULT": "cuStreamSynchronize=702@9"}, r"cuStreamSynchronize .*LAUNCH_TIMEOUT \(702\): the kernel ran"),
        ({"FAULT": "cuGraphLaunch=999@2"}, r"cuGraphLaunch \(\w+_launch\): CUDA_ERROR_UNKNOWN \(999\): the GPU"),
        ({"FAULT": "cuGraphLaunch=4711"}, r"an error unknown to the driver \(4711\): see the board's kernel log"),
    ],
)
def test_what_fails_is_named_with_what_to_do(
    program: BoardProgram, vectors: Array, tmp_path: Path, settings: dict[str, str], expected: str
) -> None:
    np.save(tmp_path / "vectors.npy", np.concatenate([vectors] * 4))
    done = run(program, "--vectors", tmp_path / "vectors.npy", "--out", tmp_path, **settings)
    assert re.search(expected, message(done)), done.stderr


def test_a_board_without_a_driver_is_told_so(program: BoardProgram) -> None:
    done = subprocess.run([str(program.path), "--devices"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        pytest.skip("this machine has an NVIDIA driver")
    assert re.fullmatch(
        r"inference: no NVIDIA driver: libcuda\.so\.1: .*; install it, or choose another target with --items",
        message(done),
    )


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [
        ("__fmul_rn", "return fabsf(a * b) < 0x1p-126f ? 0 : a * b;"),
        ("__fmul_rn", "return (float)((double)a * b * (1 + 0x1p-25));"),
        ("__fdiv_rn", "return a * (1 / b);"),
        ("__float2int_rn", "return (int)roundf(value);"),
    ],
)
def test_a_gpu_that_computes_anything_else_is_refused(
    host: Profile, objects: Path, tmp_path: Path, operation: str, wrong: str
) -> None:
    net = parse(builders.random_network(np.random.default_rng(7), (5, 3)))
    header = "simulators/cuda/cuda_on_cpu.h"
    text = Path(header).read_text()
    found = re.search(rf"{operation}\([^)]*\)\n{{\n", text)
    assert found
    patch = Patch(header, found[0], f"{found[0]}    {wrong}\n")
    plan = planner.make(net, host, ["c", "cuda:layerwise"])
    done = run(build_patched(plan, host, tmp_path, [patch], FLAGS, objects), "--devices")
    assert re.search(r"does not compute the specification: case \d+ of the self-test", message(done))
