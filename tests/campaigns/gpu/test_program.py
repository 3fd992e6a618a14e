"""The program and the code that a bundle brings to the GPU: self-test, random networks, the PTX, the sanitizer."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.arrays import Array
from harness.model.network import Network
from harness.plan import planner
from harness.targets import KERNELS as SOURCES
from harness.targets.cuda import nvrtc, tensor
from harness.targets.cuda.build import OLDEST
from tests.campaigns.gpu import device
from tests.campaigns.gpu.device import Device, narrowed
from tests.integration.programs.test_operators import COMPILED, half_way_vectors, models
from tests.simulators.cuda.test_networks import wide_models
from tests.simulators.cuda.test_self_test import CASES
from tests.simulators.cuda.test_tensor import wide_images
from tests.support import builders
from tests.support.programs.board_program import BoardProgram, assert_same, parse, references, uniform_vectors

KERNELS = ["cuda:layerwise", "cuda:fused", "cuda:tensor"]


def build(net: Network, board: Profile, target: str, cache: Path, block: int = 64) -> BoardProgram:
    """As every command builds it, with all layers on the GPU, whichever item."""
    built = bundle.build(codegen.generate(planner.make(net, board, [target] * len(board.items), block)), board, cache)
    return BoardProgram(built.folder / bundle.PROGRAM, net, built.sha256, built.compiler)


@pytest.fixture(scope="session")
def narrow(board: Profile, gpu: Device) -> Profile:
    """With code for this GPU, if the compiler has any."""
    return narrowed(board, gpu.arch)


@pytest.fixture(scope="session")
def small(narrow: Profile, cache: Path) -> dict[str, BoardProgram]:
    """The program of a small network with every kind of kernel."""
    net = parse(builders.random_network(np.random.default_rng(7), (5, 50, 40, 3), dequantize=True, argmax=True))
    return {target: build(net, narrow, target, cache) for target in KERNELS}


def device_of(program: BoardProgram) -> str:
    """What it says after its self-test."""
    done = program.run("--devices")
    assert (done.returncode, done.stderr) == (0, "")
    devices: dict[str, str] = json.loads(done.stdout)["devices"]
    [found] = set(devices.values())
    return found


@pytest.mark.parametrize("target", KERNELS)
def test_the_program_takes_the_gpu_and_its_own_code(target: str, small: dict[str, BoardProgram], gpu: Device) -> None:
    found = device_of(small[target])
    assert found.startswith(f"{gpu.description}, ")
    if gpu.arch in nvrtc.supported():
        assert found.endswith(f", cubin for {gpu.arch}")


def self_test_cases() -> Array:
    """Rows as in self_test.h, uint32 (cases, 5)."""
    header = (SOURCES / "cuda/self_test.h").read_text()
    operations = re.findall(r"^    ([A-Z_0-9]+),", header, re.MULTILINE)
    return np.array([[operations.index(str(name)), *words] for name, *words in CASES], np.uint32)


@pytest.mark.parametrize("target", KERNELS)
def test_the_gpu_computes_the_cases_of_the_self_test(target: str, small: dict[str, BoardProgram], gpu: Device) -> None:
    cases = self_test_cases()
    results = np.zeros(len(cases), np.uint32)
    with device.opened(small[target].path.parent, gpu) as driver:
        given, made = driver.allocate(cases.nbytes), driver.allocate(results.nbytes)
        assert driver.put(given, cases) == 0
        count = ctypes.c_uint32(len(cases))
        assert driver.launch(driver.function("self_test"), [count, given, made], block=(128, 1, 1)) == 0
        assert driver.get(results, made) == 0
        assert driver.synchronize() == 0
    wrong = np.flatnonzero(results != cases[:, 4])
    assert not wrong.size, [(CASES[case], hex(results[case])) for case in wrong]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", KERNELS)
@settings(COMPILED, max_examples=6)
@given(model=models() | wide_models(), block=st.sampled_from([1, 16, 64, 1000]), seed=st.integers(0, 2**32 - 1))
def test_random_networks(
    model: onnx.ModelProto, block: int, seed: int, target: str, narrow: Profile, cache: Path, tmp_path: Path
) -> None:
    net = parse(model)
    vectors = half_way_vectors(net, 2003, seed)
    found = build(net, narrow, target, cache, block).activations(vectors, tmp_path / "out")
    assert_same(found, references(net, vectors))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", KERNELS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_wide_images(dtype: str, target: str, narrow: Profile, cache: Path, tmp_path: Path) -> None:
    net = wide_images(dtype)
    vectors = uniform_vectors(net, 203, seed=5)
    assert_same(build(net, narrow, target, cache).activations(vectors, tmp_path / "out"), references(net, vectors))


@pytest.mark.parametrize("target", KERNELS)
def test_what_the_driver_compiles_from_ptx_computes_the_same(
    target: str, board: Profile, gpu: Device, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of a GPU for which the program has no cubin; the simulation plays one that reads this PTX."""
    if gpu.simulated:
        monkeypatch.setenv("HARNESS_SIMULATED_ARCH", "90")
        monkeypatch.setenv("HARNESS_SIMULATED_DRIVER", "11080")
    oldest = f"sm_{tensor.OLDEST if target == 'cuda:tensor' else OLDEST}"
    if gpu.arch == oldest:
        pytest.skip(f"no GPU older than {oldest} has the instructions that the kernels need")
    net = parse(builders.random_network(np.random.default_rng(8), (5, 50, 40, 3), dequantize=True, argmax=True))
    program = build(net, narrowed(board, oldest), target, cache)
    assert device_of(program).endswith(f", compiled by the driver from PTX for {oldest}")
    vectors = uniform_vectors(net, 2003, seed=8)
    assert_same(program.activations(vectors, tmp_path / "out"), references(net, vectors))


def sanitizer() -> str | None:
    """NVIDIA's compute-sanitizer, on PATH or where CUDA is usually installed."""
    installed = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
    return shutil.which("compute-sanitizer") or next(map(str, reversed(installed)), None)


@pytest.mark.parametrize("target", KERNELS)
@pytest.mark.parametrize(
    ("tool", "clean"),
    [("memcheck", "ERROR SUMMARY: 0 errors"), ("racecheck", "RACECHECK SUMMARY: 0 hazards displayed")],
    ids=["memcheck", "racecheck"],
)
def test_the_sanitizer_finds_nothing(
    tool: str, clean: str, target: str, small: dict[str, BoardProgram], tmp_path: Path
) -> None:
    """With a last block of fewer vectors, and all dumps."""
    found = sanitizer()
    if not found:
        pytest.skip("compute-sanitizer is neither on PATH nor under /usr/local/cuda*/bin: install the CUDA toolkit's")
    program = small[target]
    vectors = uniform_vectors(program.network, 150, seed=9)
    np.save(tmp_path / "vectors.npy", vectors)
    command = [found, "--tool", tool, "--error-exitcode", "9", *program.command]
    arguments = ["--vectors", str(tmp_path / "vectors.npy"), "--out", str(tmp_path)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=250)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert clean in said
    assert_same(program.read_dumps(tmp_path), references(program.network, vectors))
