from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from harness.failing import replay_line
from harness.jobs import Request


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, []),
        ({"vectors": "500", "seed": 7, "chunk": 100, "fetch": "mismatch"}, []),
        ({"items": ("c", "cuda"), "block": 8}, ["--items", "c,cuda", "--block", "8"]),
        ({"x64_quant_precision": True}, ["--x64-quant-precision"]),
    ],
)
def test_the_replay_runs_the_vector_as_the_run_ran_its_own(asked: dict[str, object], options: list[str]) -> None:
    request = Request(board="xavier", model="my models/a.onnx", **asked)  # type: ignore[arg-type]
    line = shlex.split(replay_line(request, Path("/elsewhere/failing.npy")))
    given = ["--board", "xavier", "--model", "my models/a.onnx", "--vectors", "/elsewhere/failing.npy"]
    assert line == ["harness", "run", *given, *options]


def test_a_path_below_the_present_folder_is_given_from_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    line = replay_line(Request(board="host", model="acas_coc"), tmp_path / "runs" / "one" / "failing.npy")
    assert line.endswith("--vectors runs/one/failing.npy")
