"""Compute the figures of docs/reference/fabric.md for a DPU's arithmetic again; what rounds how, by example."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.core.installation import ROOT


def test_a_tenth_of_the_documented_vectors(cache: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "dpu.py"), "--vectors", "10000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, cwd=cache)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    by_name = {layer["name"]: layer for layer in document["layers"]}
    assert list(by_name) == [f"dense_{number}" for number in range(1, 9)]
    second = by_name["dense_2"]
    assert second["codes"] == 500_000
    assert 0.2 < second["differing"] / second["codes"] < 0.23
    assert second["largest"] > 50
    assert 0 < second["rounded_up"] < second["halves"]
    assert 0.11 < document["outputs_differing"] / 10_000 < 0.13
