"""The benchmarks can be run: they build on the kernels as they are, contenders agree.  No time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
