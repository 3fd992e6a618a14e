from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.runs.counterexample import replay_line
from harness.runs.folder import RunFolder
from harness.runs.job import Job, Request


def job(folder: Path, **asked: object) -> Job:
    """As far as the line needs one."""
    request = dataclasses.replace(Request(board="xavier", model="a.onnx"), **asked)  # type: ignore[arg-type]
    return cast("Job", SimpleNamespace(request=request, folder=RunFolder(folder)))


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, []),
        ({"vectors": "500", "seed": 7, "chunk": 100, "items": ("c", "cuda"), "block": 8, "split": ("pipeline",)}, []),
        ({"x64_quant_precision": False}, ["--no-x64-quant-precision"]),
    ],
)
def test_the_replay_runs_the_vector_by_the_plan_of_its_run(asked: dict[str, object], options: list[str]) -> None:
    folder = Path("/elsewhere/my runs/one")
    line = shlex.split(replay_line(job(folder, **asked)))
    assert line == ["harness", "run", "--plan", f"{folder}/plan", "--vectors", f"{folder}/failing.npy", *options]


def test_a_path_below_the_present_folder_is_given_from_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    line = replay_line(job(tmp_path / "runs" / "one"))
    assert line == "harness run --plan runs/one/plan --vectors runs/one/failing.npy"
