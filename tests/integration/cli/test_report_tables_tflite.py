"""`harness report --tables tflite`: errors, agreement, sizes and times of converted networks."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from harness.core.errors import EXIT_REQUEST
from harness.core.installation import ROOT
from tests.support.cli.command import User

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


def rows(file: Path) -> dict[str, dict[str, str]]:
    with file.open(newline="") as opened:
        return {row["network"]: row for row in csv.DictReader(opened)}


def test_the_tables_have_errors_of_floats_and_none_of_codes(user: User) -> None:
    folder = user.folder / "tables"
    models = ("acas_coc", "acas_reg50", "tiny_yolo_v2")
    asked = [word for model in models for word in ("--model", model)]
    ended = user.harness("report", "--tables", "tflite", "--seconds", "0.01", "-o", str(folder), "--json", *asked)
    assert ended.code == EXIT_REQUEST  # acas_reg50 is none of them
    asked = [word for model in ("acas_coc", "lenet5", "tiny_yolo_v2") for word in ("--model", model)]
    ended = user.harness("report", "--tables", "tflite", "--seconds", "0.01", "-o", str(folder), "--json", *asked)
    assert ended.code == 0, ended.err
    assert ended.document["wrong"] == []
    largest, agreement, latency = (rows(folder / f"{name}.csv") for name in ("errors_largest", "agreement", "latency"))
    assert float(largest["acas_coc"]["absolute"]) == 0
    assert 0 < float(largest["lenet5"]["absolute"]) < 1e-5
    assert float(largest["tiny_yolo_v2"]["paper_absolute"]) == 2.083778e-5
    assert (agreement["acas_coc"]["layers"], agreement["lenet5"]["layers"]) == ("identical", "within bound")
    assert agreement["lenet5"]["decisions"] == "100 of 100"
    assert int(agreement["acas_coc"]["onnx"]) == (ROOT / "models" / "acas_coc.onnx").stat().st_size
    assert float(latency["acas_coc"]["litert_1"]) > 0
    if not (ROOT / "models" / "tiny_yolo_v2.onnx").exists():
        assert "make it: .venv/bin/python -m models.tflite tiny_yolo_v2" in ended.err
    for page in ("tables.html", "tables.tex", "tables.md", "tables.json"):
        assert (folder / page).stat().st_size > 0
