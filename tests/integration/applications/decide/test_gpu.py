"""`harness decide --gpu`: the simulated driver of a GPU runs the kernel; the decisions are those of a core."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.targets.cuda import SIMULATION
from tests.support.cli.command import TIMEOUT_S, Ended, User
from tests.support.decide import gpu_driver
from tests.support.decide.domains import random_domain


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the simulated driver."""
    return gpu_driver.build(tmp_path_factory.mktemp("driver")).parent


def arguments(folder: Path) -> list[str]:
    """A decision with several decisions in some boxes."""
    domain = random_domain(0, argmax=True, float_output=True)
    model, stated = domain.write(folder, property="robust", axes=domain.axes())
    return ["decide", "--model", str(model), "--property", str(stated), "--json"]


def in_a_new_process(user: User, *command: str, **environment: str) -> Ended:
    """A command whose process starts with this environment."""
    process = user.start(*command, **environment)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return Ended(process.returncode, out, err)


def test_the_decisions_are_those_of_a_core(driver: Path, cache: Path, tmp_path: Path) -> None:
    user, command = User(tmp_path, cache), arguments(tmp_path)
    on_core = user.harness(*command)
    on_gpu = in_a_new_process(user, *command, "--gpu", LD_LIBRARY_PATH=str(driver))
    assert on_gpu.code == on_core.code == 1, on_gpu.err
    found = [np.load(Path(ended.document["run"]) / "decisions.npy") for ended in (on_core, on_gpu)]
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) > 2
    document = json.loads((Path(on_gpu.document["run"]) / "decide.json").read_text())
    assert {slab["kernel"] for slab in document["slabs"]} == {f"CUDA on {SIMULATION}, sm_72"}
    assert "a second on one GPU" in (Path(on_gpu.document["run"]) / "report.html").read_text()
    verified = user.harness("verify", str(on_gpu.document["run"]), "--json")
    assert verified.document["stands"], verified.out


def test_without_a_gpu_it_says_so(cache: Path, tmp_path: Path) -> None:
    ended = User(tmp_path, cache).harness(*arguments(tmp_path), "--gpu", LD_LIBRARY_PATH="/nowhere")
    assert ended.code == 3
    assert "no NVIDIA driver" in ended.err
    assert "decide without --gpu" in ended.err


def test_bounds_are_not_for_a_gpu(cache: Path, tmp_path: Path) -> None:
    ended = User(tmp_path, cache).harness(*arguments(tmp_path), "--gpu", "--bounds")
    assert ended.code == 2
    assert "--bounds computes on processors only" in ended.err
