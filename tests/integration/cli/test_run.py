"""`harness run` on this machine, from the command line to the evidence."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from harness.boards.workspace import find
from harness.core.console import Console
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.pipeline import attempt
from harness.pipeline.run import execute
from harness.runs.folder import RunFolder
from harness.runs.job import Request
from tests.support import builders
from tests.support.cli import kernels
from tests.support.cli.command import User
from tests.support.cli.kernels import HALF_AWAY, HALF_AWAY_CAUSE

MODEL = ROOT / "models" / "acas_coc.onnx"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


def test_identical(user: User) -> None:
    ended = user.harness("run", "--board", "host", "--model", "acas_coc", "--vectors", "25000", "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert document["verdict"] == "identical"
    assert document["vectors"] == 25000
    assert [layer["compared"] for layer in document["layers"]] == [
        25000 * width for width in (5, 50, 50, 50, 50, 50, 50, 50, 50, 5, 1)
    ]
    assert {layer["ran_on"] for layer in document["layers"]} == {"hardware"}
    assert {layer["differing"] for layer in document["layers"]} == {0}


@dataclass(frozen=True)
class CountingConsole(Console):
    """A silent console that keeps the steps of each progress bar."""

    steps: dict[str, list[int]] = field(default_factory=dict)

    @contextmanager
    def progress(self, text: str, total: int, done: int = 0) -> Iterator[Any]:
        steps = self.steps.setdefault(text, [])
        yield SimpleNamespace(advance=steps.append)
        assert sum(steps) == total - done


def test_a_run_with_one_chunk_shows_progress(tmp_path: Path, cache: Path) -> None:
    silent = Console.silent()
    console = CountingConsole(silent.out, silent.err, as_json=False)
    workspace = find(runs=tmp_path / "runs", environment=os.environ | {"HARNESS_CACHE": str(cache)})
    execute(Request("host", "acas_coc", vectors="500", trace=0), None, workspace, console)
    assert sorted(console.steps["acas_coc on host"]) == [166, 166, 168]


@pytest.mark.campaign
def test_a_network_with_a_million_activations_runs_in_small_chunks_and_blocks(user: User, tmp_path: Path) -> None:
    inputs, width, layers = 400, 40_000, 25
    names = ["wide", *(f"relu_{index}" for index in range(1, layers))]
    nodes = [onnx.helper.make_node("Concat", ["x"] * (width // inputs), ["wide"], name="wide", axis=1)]
    nodes += [onnx.helper.make_node("Relu", [source], [name], name=name) for source, name in itertools.pairwise(names)]
    box = {f"input_box_{end}": json.dumps([bound] * inputs) for end, bound in (("low", -1.0), ("high", 1.0))}
    model = builders.make_model(nodes, {}, {names[-1]: ("float32", width)}, width=inputs, metadata=box)
    (tmp_path / "wide.onnx").write_bytes(model.SerializeToString())
    words = ("run", "--board", "host", "--model", str(tmp_path / "wide.onnx"), "--vectors", "70", "--fetch", "mismatch")
    ended = user.harness(*words, "--trace", "0", "--json")
    assert ended.code == 0, ended.err
    document = json.loads((Path(ended.document["run"]) / "run.json").read_text())
    assert document["verdict"] == "identical"
    assert sum(layer["compared"] for layer in document["layers"]) == 70 * layers * width
    assert document["chunk"] == (512 << 20) // (4 * (inputs + width * 2 * layers)) == 67
    assert document["plan"]["block"] == (512 << 20) // (4 * (inputs + width * layers)) == 134
    for option, number, reason in (
        ("--chunk", "68", "--chunk 68: inputs, dumps and reference of a chunk take 519 MiB, and the limit is 512"),
        ("--block", "135", "the buffers of a block of 135 vectors take 516 MiB, and the memory budget is 512 MiB"),
    ):
        ended = user.harness(*words, option, number)
        assert ended.code == 2
        assert reason in ended.err
        assert f"use {option} {int(number) - 1} or less" in ended.err


def test_a_log_that_has_no_room_keeps_nobody_from_restoring_a_board(tmp_path: Path) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    with attempt.journal(RunFolder(tmp_path), Console.open(as_json=False), "go on") as notify:
        notify("connecting to the board")


def test_who_interrupts_a_run_that_is_finished_changes_nothing_of_its_evidence(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    folder.write_request({}, b"model")
    with suppress(KeyboardInterrupt), attempt.journal(folder, Console.open(as_json=False), "go on") as notify:
        notify("verdict: identical")
        folder.finish({})
        raise KeyboardInterrupt
    listed = json.loads((folder.path / "run.json").read_text())["files"]
    assert listed == {name: file_sha256(folder.path / name) for name in listed}


@pytest.mark.parametrize(
    "previous", ["wl", *(pytest.param(name, marks=pytest.mark.campaign) for name in ("wr", "sl", "sr"))]
)
def test_the_other_networks_are_identical_too(user: User, previous: str) -> None:
    ended = user.harness("run", "--board", "host", "--model", f"acas_{previous}", "--vectors", "2000", "--json")
    assert ended.code == 0, ended.err
    assert ended.document["verdict"] == "identical"
    assert sum(layer["compared"] for layer in ended.document["layers"]) == 2000 * (5 + 8 * 50 + 5 + 1)


def test_a_residual_network_is_identical_and_its_evidence_says_what_reads_what(user: User, tmp_path: Path) -> None:
    model = builders.random_network(np.random.default_rng(5), (5, 30, 30, 5), residual=2, per_column=True, argmax=True)
    onnx.save_model(model, tmp_path / "residual.onnx")
    ended = user.harness(
        "run", "--board", "host", "--model", str(tmp_path / "residual.onnx"), "--vectors", "2500", "--json"
    )
    assert ended.code == 0, ended.err
    document = ended.document
    assert document["verdict"] == "identical"
    layers = {layer["name"]: layer for layer in document["layers"]}
    assert layers["layer_1_sum_2"]["reads"] == ["layer_1_term_1", "layer_1_term_2"]
    assert layers["layer_1_term_2"]["reads"] == ["layer_0_quantize"]
    assert [layers[f"layer_1_{name}"]["compared"] for name in ("term_1", "sum_2", "quantize")] == [2500 * 30] * 3
    assert layers["quantize"]["reads"] == []


def test_the_run_folder_is_complete_and_its_hashes_hold(user: User) -> None:
    ended = user.harness(
        "run", "--board", "host", "--model", "acas_coc", "--vectors", "2500", "--chunk", "1000", "--json"
    )
    folder = Path(ended.document["run"])
    run = json.loads((folder / "run.json").read_text())
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == set(run["files"]) | {"run.json"}
    assert {"report.html", "junit.xml", "log.txt", "model.onnx", "stimuli.npy", "request.json"} < files
    for name, sha256 in run["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    dumped = [np.load(folder / "target" / f"{chunk:05}" / "05_dense_5.npy") for chunk in range(3)]
    right = [np.load(folder / "reference" / f"{chunk:05}" / "05_dense_5.npy") for chunk in range(3)]
    assert [part.shape for part in dumped] == [(1000, 50), (1000, 50), (500, 50)]
    assert all(np.array_equal(a, b) for a, b in zip(dumped, right, strict=True))
    assert np.load(folder / "stimuli.npy").shape == (2500, 5)


def test_fetch_mismatch_lets_no_equal_dump_travel(user: User) -> None:
    ended = user.harness(
        "run", "--board", "host", "--model", "acas_coc", "--vectors", "2000", "--fetch", "mismatch", "--json"
    )
    assert ended.document["verdict"] == "identical"
    folder = Path(ended.document["run"])
    assert not list((folder / "target").rglob("*.npy"))
    record = json.loads((folder / "chunks" / "00000.json").read_text())
    assert record["target_sha256"] == record["reference_sha256"]
    assert len(set(record["target_sha256"])) == 11


def test_without_json_a_person_reads_verdict_and_report(user: User) -> None:
    ended = user.harness("run", "--board", "host", "--model", str(MODEL), "--vectors", "1000")
    assert ended.code == 0
    assert "identical: all 411,000 activations of 11 layers over 1,000 vectors" in ended.out
    assert "dense_9" in ended.out
    assert "report.html" in ended.out


def test_vectors_from_a_file_with_nan(user: User, tmp_path: Path) -> None:
    vectors = np.random.default_rng(3).uniform(-0.5, 0.5, (50, 5)).astype(np.float32)
    vectors[7] = np.nan
    vectors[8] = np.inf
    np.save(tmp_path / "v.npy", vectors)
    ended = user.harness(
        "run", "--board", "host", "--model", "acas_coc", "--vectors", str(tmp_path / "v.npy"), "--json"
    )
    assert ended.code == 0, ended.err
    assert ended.document["vectors"] == 50
    quantised = np.load(Path(ended.document["run"]) / "target" / "00000" / "00_quantize_input.npy")
    assert quantised[7].tolist() == [0] * 5
    assert quantised[8].tolist() == [255] * 5


def test_an_interrupted_run_is_resumed_to_the_same_evidence(user: User) -> None:
    arguments = ("run", "--board", "host", "--model", "acas_coc", "--vectors", "3000", "--chunk", "1000", "--json")
    whole = Path(user.harness(*arguments).document["run"])
    broken = whole.with_name("broken")
    shutil.copytree(whole, broken)
    for name in ("run.json", "report.html", "junit.xml", "chunks/00001.json"):
        (broken / name).unlink()
    shutil.rmtree(broken / "target" / "00001")
    request = json.loads((broken / "request.json").read_text())
    for newer in ("split", "sync", "trace", "plan"):  # which a run of an older version does not have
        del request["request"][newer]
    (broken / "request.json").write_text(json.dumps(request))
    ended = user.harness("run", "--resume", broken.name, "--json")
    assert ended.code == 0, ended.err
    assert "resuming after 2,000 vectors" in ended.err
    undisturbed, resumed = (json.loads((folder / "run.json").read_text()) for folder in (whole, broken))
    changing = {"log.txt", "report.html", "junit.xml", "request.json"}
    assert resumed["layers"] == undisturbed["layers"]
    for name in {file for file in undisturbed["files"] if not file.endswith(".jsonl")} - changing:  # those hold times
        assert resumed["files"][name] == undisturbed["files"][name], name


def test_a_finished_run_is_not_resumed(user: User) -> None:
    arguments = ("run", "--board", "host", "--model", "acas_coc", "--vectors", "100", "--json")
    folder = user.harness(*arguments).document["run"]
    ended = user.harness("run", "--resume", folder)
    assert ended.code == 2
    assert "this run is finished" in ended.err


def test_a_run_begun_with_other_sources_is_not_resumed(user: User) -> None:
    arguments = ("run", "--board", "host", "--model", "acas_coc", "--vectors", "100", "--json")
    folder = Path(user.harness(*arguments).document["run"])
    (folder / "run.json").unlink()
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"bundle": "0" * 64}))
    ended = user.harness("run", "--resume", str(folder))
    assert ended.code == 2
    assert "started with bundle 0000000000000000" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--board", "xavie", "--model", "acas_coc"), "did you mean xavier?"),
        (("--board", "host", "--model", "acas_cok"), "did you mean acas_coc"),
        (("--board", "host", "--model", "missing.onnx"), "missing.onnx"),
        (("--board", "host"), "give --board and --model"),
        (("--board", "host", "--model", "acas_coc", "--vectors", "0"), "nothing would be compared"),
        (("--board", "host", "--model", "acas_coc", "--vectors", "-5"), "give a positive whole number of vectors"),
        (("--board", "host", "--model", "acas_coc", "--vectors", "1e3"), "--vectors 1e3: not a positive whole number"),
        (("--board", "host", "--model", "acas_coc", "--vectors", "²"), "vectors ²: No such file"),
        (("--board", "host", "--model", "acas_coc", "--vectors", "10k"), "hint: give a whole number of vectors, or"),
        (
            ("--board", "host", "--model", "acas_coc", "--vectors", "1" + "0" * 15),
            "or less, or a --run-folder on another disk",
        ),
        (("--board", "host", "--model", "acas_coc", "--cover", "nan"), "--cover nan: not a share"),
        (
            ("--board", "host", "--model", "lenet5", "--cover", "0.5"),
            "--cover: no layer of model 'lenet5' rounds to codes",
        ),
        (("--board", "host", "--model", "acas_coc", "--vectors", "missing.npy"), "missing.npy"),
        (("--board", "host", "--model", "acas_coc", "--items", "c"), "prepost, network"),
        (("--board", "host", "--model", "acas_coc", "--items", "c,cudda"), "unknown target 'cudda'"),
        (("--board", "host", "--model", "acas_coc", "--block", "0"), "--block"),
        (("--board", "host", "--model", "acas_coc", "--fetch", "some"), "'all', 'mismatch'"),
        (("--resume", "nowhere"), "unknown run 'nowhere'"),
    ],
)
def test_a_wrong_request_ends_with_2_and_says_what_to_do(user: User, arguments: tuple[str, ...], message: str) -> None:
    ended = user.harness("run", *arguments)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == "" or "identical" not in ended.out


def test_a_file_is_no_folder_of_runs(user: User, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    ended = user.harness("run", "--board", "host", "--model", "acas_coc", "--vectors", "10", "--json")
    assert ended.code == 2
    assert ended.document["error"].endswith(f"{tmp_path / 'runs'} is not a folder")


def test_with_json_a_wrong_request_is_a_document_too(user: User) -> None:
    ended = user.harness("run", "--board", "xavie", "--model", "acas_coc", "--json")
    assert ended.code == 2
    assert ended.document["error"] == "unknown board 'xavie'"
    assert ended.document["exit_code"] == 2


@pytest.mark.parametrize("damage", ["truncated", "text", "float"])
def test_a_wrong_model_ends_with_2(user: User, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "bad.onnx"
    content = {"truncated": MODEL.read_bytes()[:5000], "text": b"# not a network\n" * 50, "float": _float_network()}
    path.write_bytes(content[damage])
    ended = user.harness("run", "--board", "host", "--model", str(path))
    assert ended.code == 2
    assert "bad" in ended.err
    assert "hint:" in ended.err


def _float_network() -> bytes:
    node = onnx.helper.make_node("Det", ["x"], ["y"], name="det")
    kinds = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "float", kinds[:1], kinds[1:])
    opset = [onnx.helper.make_opsetid("", 19)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def changed_kernels(folder: Path, *changes: tuple[str, str, str]) -> dict[str, str]:
    """A copy of the checkout with (file under kernels/, old text, new text) changed; the environment that uses it."""
    for name in ("harness", "kernels", "simulators", "models", "boards.yaml"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / "copy" / name)
    kernels.change(folder / "copy" / "kernels", *changes)
    return {"PYTHONPATH": str(folder / "copy"), "PYTHONSAFEPATH": "1"}


RUN = ("run", "--board", "host", "--items", "c,c", "--model", "acas_coc", "--json")  # kernels that are changed


@pytest.fixture
def half_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of this process round half away from zero."""
    kernels.build_with(monkeypatch, tmp_path, HALF_AWAY)


def test_a_changed_rounding_is_found_and_named(user: User, tmp_path: Path) -> None:
    """One line of kernels/c in a copy of the checkout: the same command exits with 1 and names the cause."""
    ended = user.harness(*RUN, "--vectors", "12000", **changed_kernels(tmp_path, HALF_AWAY))
    assert ended.code == 1, ended.err
    document = ended.document
    assert document["verdict"] == "differs"
    first, *others = document["layers"]
    assert set(first["first_difference"]) == {"vector", "unit", "expected", "actual"}
    diagnosed = [diagnosis["layer"] for diagnosis in document["diagnoses"]]
    assert len(diagnosed) > 1
    assert document["diagnosis"]["layer"] == first["name"]
    assert document["diagnosis"]["layers"] == diagnosed
    assert document["diagnosis"]["cause"] == HALF_AWAY_CAUSE
    assert document["diagnosis"]["text"].startswith("one cause explains all ")
    assert document["diagnosis"]["text"].endswith(f"layers: {HALF_AWAY_CAUSE}; specification: half to even")
    assert document["diagnoses"][0]["text"].endswith(
        f"inputs at a tie differ, all away from zero: {HALF_AWAY_CAUSE}; specification: half to even"
    )
    junit = (Path(document["run"]) / "junit.xml").read_text()
    assert junit.count(document["diagnosis"]["text"]) == 1
    assert junit.count(f"diagnosis: see layer {first['name']}: one cause explains both") == len(diagnosed) - 1
    assert first["own"] == first["differing"] > 1000
    effects = [layer for layer in others if layer["differing"]]
    assert len(effects) > 5
    assert sum(layer["own"] for layer in effects) < 20, "ties are rare there; the rest follows from the first layer"


@pytest.mark.campaign
@pytest.mark.usefixtures("half_away")
def test_the_smallest_failing_vector_is_kept_and_fails_again(user: User) -> None:
    document = user.here(*RUN, "--vectors", "3000").document
    failing = document["failing"]
    assert (failing["layer"], failing["of_inputs"], failing["note"]) == ("quantize_input", 5, "")
    (used,) = failing["inputs"]
    vector = np.load(Path(document["run"]) / failing["file"])
    assert (vector.dtype, vector.shape) == (np.float32, (1, 5))
    assert np.flatnonzero(vector).tolist() == [used["index"]] == [failing["unit"]]
    assert used["value"] == vector[0, used["index"]]
    harness, *arguments = shlex.split(failing["replay"])
    assert harness == "harness"
    again = user.here(*arguments, "--json").document
    assert (again["verdict"], again["vectors"]) == ("differs", 1)
    difference = {"vector": 0} | {key: failing[key] for key in ("unit", "expected", "actual")}
    assert again["layers"][0]["first_difference"] == difference
    assert user.harness(*arguments, "--json").document["verdict"] == "identical", "with the right kernels"


@pytest.mark.usefixtures("half_away")
def test_what_a_run_that_differs_shows_stands_in_its_evidence(user: User) -> None:
    ended = user.here(*RUN[:-1], "--vectors", "2500", "--chunk", "1000")
    assert ended.code == 1
    folder = next((user.folder / "runs").iterdir())
    document = json.loads((folder / "run.json").read_text())
    out = " ".join(ended.out.split())
    for text in (document["diagnosis"]["cause"], document["failing"]["replay"], "its own"):
        assert " ".join(text.split()) in out
    looked_at = sum(diagnosis["looked_at"] for diagnosis in document["diagnoses"])
    layers = document["diagnosis"]["layers"]
    assert len(layers) > 1
    assert f"consistent with all {looked_at:,} differing values examined in {', '.join(layers)}" in out
    assert out.count("diagnosis of ") == 1
    changed = document["layers"][-1]["differing"]
    effect = {"layer": "select_advisory", "what": "decisions", "changed": changed, "of": 2500}
    assert document["effect"] == effect
    assert f"effect: {changed} of 2,500 decisions change (select_advisory)" in out
    page = (folder / "report.html").read_text()
    assert f'<p class="effect">{changed} of 2,500 decisions change.</p>' in page
    pictures = {picture["layer"]: picture for picture in document["pictures"]}
    for layer in document["layers"]:
        counts = [int(cell) for line in pictures[layer["name"]]["map"] for cell in line.split()]
        assert sum(counts) == sum(pictures[layer["name"]]["steps"]) == layer["differing"]
    assert pictures["quantize_input"]["tie_distances"][0] == document["layers"][0]["own"]
    assert "Smallest failing case" in page
    assert document["files"]["failing.npy"]


def test_outputs_of_several_values_are_counted_by_vectors(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="rows")]
    box = {"input_box_low": "[-1, -1, -1]", "input_box_high": "[1, 1, 1]"}
    model = builders.make_model(nodes, {"w": np.eye(3, dtype=np.float32)}, {"y": ("float32", 3)}, width=3, metadata=box)
    (tmp_path / "rows.onnx").write_bytes(model.SerializeToString())
    words = (
        "run",
        "--board",
        "host",
        "--model",
        str(tmp_path / "rows.onnx"),
        "--items",
        "c:vector,c:vector",
        "--trace",
        "0",
    )
    kernels.build_with(monkeypatch, tmp_path, ("c/gemm_vector.h", "spread(0.0f)", "spread(a[0] < 0 ? 0.25f : 0.0f)"))
    ended = user.here(*words, "--vectors", "500", "--chunk", "300")
    assert ended.code == 1, ended.err
    folder = next((user.folder / "runs").iterdir())
    wrong = [
        np.load(folder / "reference" / chunk / "00_rows.npy") != np.load(folder / "target" / chunk / "00_rows.npy")
        for chunk in ("00000", "00001")
    ]
    changed = sum(int(chunk.any(axis=1).sum()) for chunk in wrong)
    assert changed < sum(int(chunk.sum()) for chunk in wrong)
    document = json.loads((folder / "run.json").read_text())
    assert document["effect"] == {"layer": "rows", "what": "outputs", "changed": changed, "of": 500}
    assert f"effect: {changed} of 500 outputs change (rows)" in " ".join(ended.out.split())


@pytest.mark.usefixtures("half_away")
def test_a_run_tells_what_changed_since_the_one_before(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.runs.document.revision", lambda: "0123456789ab")
    words = ("run", "--board", "host", "--model", "acas_coc", "--vectors", "600", "--chunk", "600")
    assert user.here(*words).code == 1
    assert user.harness(*words, "--trace", "0").code == 0
    first, second = sorted((user.folder / "runs").glob("2*"), key=lambda path: (path / "run.json").stat().st_mtime_ns)
    one, two = (json.loads((folder / "run.json").read_text()) for folder in (first, second))
    assert one["previous"] is None
    since = two["previous"]
    assert (since["run"], since["started"], since["verdict"]) == (first.name, one["started"], "differs")
    assert since["results"][0] == {"topic": "verdict", "base": "differs", "new": "identical"}
    differing = {layer["name"]: f"{layer['differing']:,}" for layer in one["layers"] if layer["differing"]}
    assert {change["topic"]: change["base"] for change in since["layers"]} == differing
    assert {"program", "harness"} <= {change["topic"] for change in since["causes"]}
    assert f'href="../{first.name}/report.html"' in (second / "report.html").read_text()


def test_a_failure_that_does_not_come_again_is_said_to_be_none_of_the_values(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 3,000th rounding of a process is wrong, whatever is rounded."""
    once = "static unsigned calls; return ((int32_t)rintf(v) + zero_point) ^ (++calls == 3000);"
    kernels.build_with(monkeypatch, tmp_path, ("c/saturate.h", "return (int32_t)rintf(v) + zero_point;", once))
    ended = user.here(*RUN, "--vectors", "2000", "--chunk", "2000")
    assert ended.code == 1
    failing = ended.document["failing"]
    assert failing["note"] == "it does not fail again when run alone: timing or stale data"
    assert (failing["layer"], failing["vector"], failing["replay"]) == ("quantize_input", 599, "")
    assert not (Path(ended.document["run"]) / "failing.npy").exists()
    assert ended.document["layers"][0]["own"] == 1


def test_a_board_that_fails_while_the_vector_is_minimised_changes_no_verdict(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program refuses single vectors."""
    start = "record_open(options, counts.vectors, counts.samples);"
    refuse = f'if (counts.vectors == 1) fail(EXIT_SYSTEM, "out of order"); {start}'
    kernels.build_with(monkeypatch, tmp_path, HALF_AWAY, ("program/inference.c", start, refuse))
    ended = user.here(*RUN, "--vectors", "2000")
    assert ended.code == 1, ended.err
    assert ended.document["verdict"] == "differs"
    failing = ended.document["failing"]
    assert failing["note"].startswith("the search for a smaller one ended: board: ")
    assert "out of order" in failing["note"]
    folder = Path(ended.document["run"])
    kept, stimuli = np.load(folder / "failing.npy"), np.load(folder / "stimuli.npy")
    assert np.array_equal(kept[0], stimuli[failing["vector"]])
