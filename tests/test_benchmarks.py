"""The benchmarks can be run: they build on the kernels as they are, contenders agree.  No time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.workspace import ROOT


def run(cache: Path, script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments, "--json"]
    environment = os.environ | {"HARNESS_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_one_inference(cache: Path) -> None:
    core = str(max(os.sched_getaffinity(0)))
    results = run(cache, "inference.py", "--shape", "5-6-4", "--passes", "1", "--core", core)["results"]
    assert [result["weights"] for result in results] == ["int8", "uint8"]


def test_a_split(cache: Path) -> None:
    found = run(cache, "split.py", "--shape", "5-6-4", "--blocks", "1000", "--rounds", "1")
    ways = ["one core", "parallel layers, barriers", "parallel layers, flags", "pipeline of two stages"]
    assert [result["name"] for result in found["results"]] == ways
    assert [crossing["sync"] for crossing in found["crossings"]] == ["barrier", "flag"]


GPU = ("gpu.py", "--shape", "5-6-4", "--vectors", "70", "--launches", "2", "--executions", "20", "--compilations", "1",
       "--wait", "spin")  # fmt: skip


@pytest.fixture(scope="module")
def simulated(cache: Path) -> dict[str, Any]:
    return run(cache, *GPU, "--simulated")


def test_a_simulated_gpu_is_marked_and_meets_no_target(simulated: dict[str, Any]) -> None:
    assert [each["kernels"] for each in simulated["built"]] == ["fused", "layerwise"]
    assert simulated["gpu"]["name"] == "host-simulation of CUDA"
    times = simulated["launches"] + simulated["one_vector"]
    assert len(times) == 2 + 2
    assert all(each["simulated"] and each["median_us"] > 0 for each in times)
    assert all(each["bounds_us"] == {} and each["over_bound"] is None for each in simulated["launches"])
    assert simulated["targets"][-1].endswith(": not measured, this is host-simulation of CUDA")


@pytest.mark.usefixtures("simulated")
def test_a_simulation_in_the_place_of_the_driver_is_no_gpu(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = next(cache.glob("bundles/*/stand-in/libcuda.so.1"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in.parent))
    found = run(cache, *GPU)
    assert found["no_gpu_time_because"].startswith("libcuda.so.1 is a host-simulation of CUDA")
    assert (found["gpu"], found["launches"], found["one_vector"]) == (None, [], [])
    assert not any("GPU time" in target for target in found["targets"])
    assert all(each["bundle_bytes"] > 10_000 and each["compile_one_s"] > 0 for each in found["built"])
