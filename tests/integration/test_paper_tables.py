"""`python -m benchmarks.tables`: sizes as binutils reads them, wrong outputs, converted networks."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tables import builds
from benchmarks.tables.__main__ import command
from harness.build.bundle import PROGRAM
from harness.core.errors import EXIT_REQUEST, RequestError
from harness.core.installation import ROOT
from harness.model.text.facts import parameter_count
from tests.support.cli.command import TIMEOUT_S, Ended, User

TABLES = (sys.executable, "-m", "benchmarks.tables")
REQUEST = ("acetone", "--model", "acas_reg50", "--items", "c:inlined", "--seconds", "0.005")


def run(user: User, *words: str) -> Ended:
    process = user.start(*words, program=TABLES, PYTHONPATH=str(ROOT))
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in err, err
    return Ended(process.returncode, out, err)


def table(document: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [each for each in document["tables"] if each["name"] == name]
    return dict(found)


def row(document: dict[str, Any], of: str, **names: str) -> dict[str, Any]:
    [found] = [
        each for each in table(document, of)["rows"] if all(each[key]["value"] == value for key, value in names.items())
    ]
    return {key: cell.get("value") for key, cell in found.items()}


def arguments(folder: Path) -> tuple[str, ...]:
    return (*REQUEST, "--json", "-o", str(folder / "tables"))


def test_tables_of_one_network(tmp_path: Path, cache: Path) -> None:
    peer = {"name": "tract, float", "is_ours": False, "version": "0", "times": None, "failure": "absent"}
    machine = {"processor": "P", "load": "0", "date": "2026-01-01"}
    document = {"shape": "acas_reg50", "machine": machine, "command": "run_peers.py", "results": [peer]}
    (tmp_path / "peers.json").write_text(json.dumps(document))
    user = User(tmp_path, cache)
    ended = run(user, *arguments(tmp_path), "--board", "host", "--peers", str(tmp_path / "peers.json"))
    assert (ended.code, ended.document["wrong"]) == (0, [])
    found = ended.document
    assert json.loads((tmp_path / "tables" / "tables.json").read_text()) == {
        key: value for key, value in found.items() if key != "wrong"
    }

    assert row(found, "networks", network="reg50") == {
        "network": "reg50", "parameters": 15_855, "parameters_paper": None, "flop": 31_355, "flop_paper": None,
    }  # fmt: skip
    verdict = row(found, "semantics", network="reg50")
    assert (verdict["verdict"], verdict["paper_V1"]) == ("identical: 2 of 2", 2.0265e-6)
    assert 0 < verdict["error"] < 1e-5
    time = row(found, "times_O0", code="c:inlined (V2)")
    assert time["paper"] == 243_195
    assert 0 < time["host_minimum"] <= time["host_mean"]
    [absent] = [each for each in table(found, "times_O3")["rows"] if each["code"]["value"] == "tract, float"]
    assert absent["host_minimum"]["missing"] == "absent"

    memory = row(found, "memory", code="c:inlined (V2)", level="O0")
    assert (memory["paper_text"], memory["paper_stack"]) == (18_556, 158)
    assert memory["constants"] >= 4 * 15_855  # all parameters are float32 constants
    assert memory["bss"] == 4 * (5 + 14 * 50 + 5)  # the input and the buffers of 15 layers
    whole = row(found, "programs", code="c:inlined (V2)", level="O0")
    [origin] = {text for text in found["sources"] if "-O0" in text and "ELF" in text}
    bundle = cache / "bundles" / origin.partition("bundle ")[2][:16] / PROGRAM
    sizes = subprocess.run(["size", bundle], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
    assert [whole["text"] + whole["constants"], whole["data"], whole["bss"]] == [int(each) for each in sizes[:3]]

    read = list(csv.DictReader((tmp_path / "tables" / "memory.csv").open()))
    assert int(read[0]["text"]) == memory["text"]
    assert "ACETONE" in (tmp_path / "tables" / "tables.html").read_text()


def test_a_wrong_output_is_told(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = builds.checked

    def one_bit(network: Any) -> builds.Checked:
        case = right(network)
        exact = case.exact.copy()
        exact.view(np.uint32)[0, 2] ^= 1
        assert parameter_count(network) == 15_855
        return dataclasses.replace(case, exact=exact)

    monkeypatch.setattr(builds, "checked", one_bit)
    ended = User(tmp_path, cache).here(*arguments(tmp_path), "--board", "host", command=command)
    assert ended.code == 1
    document = json.loads(ended.out)
    assert document["wrong"] == [f"acas_reg50, c:inlined {level} on host" for level in ("-O0", "-O3")]
    verdict = row(document, "semantics", network="reg50")
    assert (verdict["verdict"], verdict["error"]) == ("differs: 2 of 2", None)
    assert row(document, "times_O0", code="c:inlined (V2)")["host_minimum"] is None


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-gcc") is None, reason="there is no aarch64-linux-gnu-gcc here")
def test_a_board_out_of_reach_still_has_sizes_and_bounds(tmp_path: Path, cache: Path) -> None:
    user = User(tmp_path, cache).with_local("kv260: {address: {host: 127.0.0.1, port: 1}}")
    ended = run(user, *arguments(tmp_path), "--board", "kv260")
    assert ended.code == 0, ended.err
    both = {"code": "c:inlined (V2)", "level": "O0", "board": "kv260"}
    memory, worst = (row(ended.document, name, **both) for name in ("memory", "wcet"))
    assert (memory["constants"] >= 4 * 15_855, memory["bss"]) == (True, 4 * (5 + 14 * 50 + 5))
    products = 5 * 50 + 6 * 50 * 50 + 50 * 5
    assert 10 * products < worst["bound"] < 40 * products
    assert (worst["counted"], worst["paper"]) == (None, 5_617_830)
    assert 0 < memory["stack"] < 1000
    skipping = run(user, *arguments(tmp_path), "--board", "kv260", "--seconds", "0").document
    unreached, skipped = (table(each, "wcet")["rows"][0]["counted"]["missing"] for each in (ended.document, skipping))
    assert "127.0.0.1" in unreached
    assert skipped == builds.NOT_EXECUTED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "lenet"), "unknown model 'lenet'"),
        (("--items", "cuda"), "unknown target 'cuda'"),
        (("--board", "nowhere"), "nowhere"),
        (("--peers", "missing.json"), "missing.json: no document of run_peers.py"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], message: str, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(RequestError, match=message):
        User(tmp_path, cache).here("acetone", *words, command=command)


def rows(file: Path) -> dict[str, dict[str, str]]:
    with file.open(newline="") as opened:
        return {row["network"]: row for row in csv.DictReader(opened)}


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="the extra litert is not installed")
def test_the_tables_have_errors_of_floats_and_none_of_codes(tmp_path: Path, cache: Path) -> None:
    user, folder = User(tmp_path, cache, ROOT / "boards.yaml"), tmp_path / "tables"
    models = ("acas_coc", "acas_reg50", "tiny_yolo_v2")
    asked = [word for model in models for word in ("--model", model)]
    ended = run(user, "tflite", "--seconds", "0.01", "-o", str(folder), "--json", *asked)
    assert ended.code == EXIT_REQUEST  # acas_reg50 is none of them
    asked = [word for model in ("acas_coc", "lenet5", "tiny_yolo_v2") for word in ("--model", model)]
    ended = run(user, "tflite", "--seconds", "0.01", "-o", str(folder), "--json", *asked)
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
