"""`harness run --labels`: numbers against counts from the dumps, a wrong board, forged numbers, bad files."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from harness import Lab, targets
from harness.boards import workspace
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.graph import load, parse
from harness.model.stream import stream
from harness.plan import planner
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import stimuli
from harness.report import reports
from harness.runs import accuracy, labels
from harness.runs.accuracy import LabelOptions
from harness.runs.verification import ClaimState, VerificationScope, verify
from harness.runs.verification.folder import Evidence, read
from tests.support import builders
from tests.support.cli.command import Ended, User
from tests.support.cli.history import History

pytestmark = pytest.mark.usefixtures("revisions_asked_once")

COUNT, CLASSES, WIDTH = 250, 3, 4
SCORES = "02_layer_1.npy"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path, clean_checkout: None) -> User:  # noqa: ARG001 - its effect
    """A user with a quantised model, a float model with the same input, vectors and classes."""
    found = User(tmp_path_factory.mktemp("user"), cache)
    rng = np.random.default_rng(58)
    onnx.save(builders.random_network(rng, (WIDTH, 6, CLASSES), float_output=True), found.folder / "small.onnx")
    onnx.save(float_network(rng), found.folder / "floats.onnx")
    vectors = stimuli(load(found.folder / "small.onnx"), COUNT, 1).chunk(0, COUNT)  # with ties
    np.save(found.folder / "vectors.npy", vectors)
    np.save(found.folder / "classes.npy", rng.integers(0, CLASSES, COUNT))
    np.save(found.folder / "targets.npy", rng.normal(size=(COUNT, CLASSES)))
    return found


def float_network(rng: np.random.Generator) -> onnx.ModelProto:
    weights = numpy_helper.from_array(rng.normal(size=(WIDTH, CLASSES)).astype(np.float32), "weights")
    node = helper.make_node("MatMul", ["x", "weights"], ["y"])
    tensors = [helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", WIDTH), ("y", CLASSES))]
    graph = helper.make_graph([node], "floats", tensors[:1], tensors[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def a_run(user: User, *options: str, labels: str = "classes.npy", **environment: str) -> Ended:
    files = {name: str(user.folder / name) for name in ("small.onnx", "vectors.npy", labels)}
    given = ("--model", files["small.onnx"], "--vectors", files["vectors.npy"], "--labels", files[labels])
    plan = ("--board", "host", "--items", "c,c", "--chunk", "100", "--trace", "0", "--json")
    return user.harness("run", *plan, *given, *options, **environment)


@pytest.fixture(scope="module")
def judged(user: User) -> Ended:
    return a_run(user, "--float-model", str(user.folder / "floats.onnx"))


def dumped(folder: Path, kind: str) -> np.ndarray:
    return np.concatenate([np.load(path) for path in sorted(folder.glob(f"{kind}/*/{SCORES}"))])


def column(document: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [each for each in document["accuracy"]["columns"] if each["name"] == name]
    return dict(found)


def test_numbers_of_all_columns_are_counts_of_their_outputs(user: User, judged: Ended) -> None:
    assert judged.code == 0, judged.err
    document, folder = judged.document, Path(judged.document["run"])
    assert [each["name"] for each in document["accuracy"]["columns"]] == ["float model", "reference", "board"]
    labels, vectors = np.load(user.folder / "classes.npy"), np.load(user.folder / "vectors.npy")
    session = onnxruntime.InferenceSession(str(user.folder / "floats.onnx"), providers=["CPUExecutionProvider"])
    outputs = {
        "float model": session.run(None, {"x": vectors})[0],
        "reference": dumped(folder, "reference"),
        "board": dumped(folder, "target"),
    }
    for name, scores in outputs.items():
        decisions = scores.argmax(axis=1)
        found = column(document, name)
        assert found["numbers"] == {
            "top-1": np.mean(decisions == labels), "right": int((decisions == labels).sum()), "no class": 0,
        }  # fmt: skip
        matrix = np.zeros((CLASSES, CLASSES), int)
        np.add.at(matrix, (labels, decisions), 1)
        assert found["confusion"] == matrix.tolist()
    kept = json.loads((folder / "run.json").read_text())
    assert kept["accuracy"] == document["accuracy"]
    assert "Confusion matrices" in (folder / "report.html").read_text()


def errors(values: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    apart = values.astype(np.float64) - wanted
    r2 = 1 - (apart**2).sum(axis=0) / ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=0)
    return {"MAE": np.abs(apart).mean(), "RMSE": np.sqrt((apart**2).mean()), "R2": r2.mean()}


def test_a_wrong_board_has_other_errors_than_the_reference(user: User, history: History) -> None:
    done = a_run(user, labels="targets.npy", **history.wrong)
    assert (done.code, done.document["verdict"]) == (1, "differs")
    folder, wanted = Path(done.document["run"]), np.load(user.folder / "targets.npy")
    found = {}
    for kind, name in (("reference", "reference"), ("target", "board")):
        found[name] = column(done.document, name)["numbers"]
        assert found[name] == pytest.approx(errors(dumped(folder, kind), wanted) | {"not finite": 0})
    assert found["board"]["MAE"] != found["reference"]["MAE"]
    assert done.document["accuracy"]["metric"] == "regression"
    assert done.document["accuracy"]["float_absent"].startswith("the model does not name its float original")


@pytest.mark.campaign
def test_dumps_that_stay_on_the_board_change_no_number(user: User, judged: Ended) -> None:
    done = a_run(user, "--fetch", "mismatch")
    assert not list(Path(done.document["run"]).glob("target/*/*"))
    for name in ("reference", "board"):
        assert column(done.document, name) == column(judged.document, name)
    evidence = read(Path(done.document["run"]))
    assert evidence
    found = claims(evidence)
    assert found["accuracy"] is found["files"] is ClaimState.OK


def test_a_resumed_run_has_the_same_numbers(user: User, judged: Ended, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(judged.document["run"], folder)
    for name in ("run.json", "report.html", "junit.xml", "chunks/00001.json"):
        (folder / name).unlink()
    refused = user.harness("run", "--resume", str(folder), "--labels", str(user.folder / "classes.npy"))
    assert (refused.code, "--resume uses the plan, the folder, the labels" in refused.err) == (2, True)
    done = user.harness("run", "--resume", str(folder), "--json")
    assert done.code == 0, done.err
    assert done.document["accuracy"] == judged.document["accuracy"]
    (folder / "run.json").unlink()
    (folder / "labels.npz").unlink()
    lost = user.harness("run", "--resume", str(folder))
    assert (lost.code, "labels.npz: the labels of the run are missing" in lost.err) == (2, True)


def claims(evidence: Evidence) -> dict[str, ClaimState]:
    scope = VerificationScope(workspace.find(), reports, reference="none", rebuild=False)
    return {claim.name: claim.state for claim in verify(evidence, scope, Console.open(as_json=True).progress)}


def test_a_forged_number_is_refused(judged: Ended) -> None:
    evidence = read(Path(judged.document["run"]))
    assert evidence
    assert claims(evidence)["accuracy"] is ClaimState.OK
    for forge in (
        lambda entry: entry["columns"][2]["numbers"].update({"top-1": 1.0}),
        lambda entry: entry["columns"][0]["numbers"].update(right=entry["columns"][0]["numbers"]["right"] + 1),
        lambda entry: entry["columns"][1]["confusion"][0].reverse(),
        lambda entry: entry["columns"].pop(0),
        lambda entry: entry.update(labels_sha256="0" * 64),
        lambda entry: entry.update(float_absent="it was not at hand"),
    ):
        run = copy.deepcopy(dict(evidence.run))
        forge(run["accuracy"])
        assert claims(Evidence(evidence.path, run))["accuracy"] is ClaimState.WRONG
    without = {key: value for key, value in evidence.run.items() if key != "accuracy"}
    assert claims(Evidence(evidence.path, without))["accuracy"] is ClaimState.WRONG


def test_other_labels_in_the_folder_are_found(judged: Ended, user: User, tmp_path: Path) -> None:
    folder = tmp_path / "forged"
    shutil.copytree(judged.document["run"], folder)
    labels = np.load(user.folder / "classes.npy")
    np.savez(folder / "labels.npz", classes=dumped(folder, "target").argmax(axis=1))
    evidence = read(folder)
    assert evidence
    found = claims(evidence)
    assert found["accuracy"] is found["files"] is ClaimState.WRONG
    assert len(labels) == COUNT


def test_forms_of_files_are_read_alike(user: User, judged: Ended) -> None:
    classes = np.load(user.folder / "classes.npy")
    (user.folder / "classes.csv").write_text("class\n" + "\n".join(map(str, classes)) + "\n")
    np.savez(user.folder / "classes.npz", classes.astype(np.uint8))
    for name in ("classes.csv", "classes.npz"):
        assert column(a_run(user, labels=name).document, "board") == column(judged.document, "board")


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (np.zeros(COUNT - 1, np.int64), (), f"{COUNT - 1} labels for {COUNT} vectors"),
        (np.full(COUNT, CLASSES), (), "class 3 in row 0"),
        (np.r_[np.zeros(COUNT - 1, np.int64), -1], (), f"class -1 in row {COUNT - 1}"),
        (np.zeros(COUNT, np.float32), ("--metric", "accuracy"), "float32 of shape (250,), --metric accuracy"),
        (np.full((COUNT, CLASSES), np.nan), (), "NaN or infinite in row 0"),
        (np.zeros((COUNT, 2)), (), "float64 of shape (250, 2), --metric regression"),
        (np.full(COUNT, "cat"), (), "an array of <U3"),
        (np.zeros(COUNT, np.int64), ("--metric", "detection"), "--metric detection does not fit small"),
        (np.zeros(COUNT, np.int64), ("--float-model", "acas_coc"), "its input is float32 of 5 values"),
        (np.zeros(COUNT, np.int64), ("--float-model", "nowhere"), "unknown model 'nowhere'"),
    ],
)
def test_wrong_labels_are_refused_before_the_board_is_touched(
    user: User, values: np.ndarray, options: tuple[str, ...], message: str
) -> None:
    np.save(user.folder / "wrong.npy", values)
    before = sorted((user.folder / "runs").iterdir())
    done = a_run(user, *options, labels="wrong.npy")
    assert done.code == 2
    assert message in done.document["error"]
    assert sorted((user.folder / "runs").iterdir()) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.csv", "1\ntwo\n", "row 1: 'two' is not a number"),
        ("bad.csv", "1,2\n3\n", "its rows do not have the same number of columns"),
        ("bad.npy", "no array", "cannot be read"),
        ("bad.npz", "no archive", "cannot be read"),
        ("missing.npy", None, "No such file"),
    ],
)
def test_files_that_are_no_labels_are_refused(user: User, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (user.folder / name).write_text(content)
    done = a_run(user, labels=name)
    assert done.code == 2
    assert message in done.document["error"]


def test_codes_are_no_values_and_steps_of_a_stream_have_no_labels(tmp_path: Path) -> None:
    codes = builders.random_network(np.random.default_rng(1), (WIDTH, CLASSES))
    np.save(tmp_path / "targets.npy", np.zeros((2, CLASSES)))
    with pytest.raises(RequestError, match="the output of codes is uint8 codes"):
        labels.read(tmp_path / "targets.npy", parse(codes.SerializeToString(), "codes"), 2)
    steps = stream(load(ROOT / "models" / "kws_causal_int8.onnx"), 2).network
    profile = targets.load_boards(ROOT / "boards.yaml").board("host")
    with pytest.raises(RequestError, match="the vectors of a stream are steps"):
        accuracy.labelled(LabelOptions("any.npy"), planner.make(steps, profile), stimuli(steps, steps.steps, 1), None)


@pytest.mark.parametrize("name", ["large.npy", "large.npz", "large.csv"])
def test_labels_that_take_too_much_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(labels, "MEMORY_BUDGET", 1 << 20)
    network, path = load(ROOT / "models" / "lenet5_int8.onnx"), tmp_path / name
    values = np.zeros((200_000, 10), np.float32)
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez_compressed(path, values)
        assert path.stat().st_size < 1 << 20
    else:
        path.write_text("0,0,0,0,0,0,0,0,0,0\n" * 60_000)
    with pytest.raises(RequestError, match="MiB, and the limit is 1 MiB"):
        labels.read(path, network, len(values))


def test_labels_need_vectors_of_a_file(user: User) -> None:
    labels = str(user.folder / "classes.npy")
    done = user.harness("run", "--board", "host", "--model", "acas_coc", "--vectors", "250", "--labels", labels)
    assert (done.code, "labels are those of vectors from a file" in done.err) == (2, True)
    alone = user.harness("run", "--board", "host", "--model", "acas_coc", "--metric", "accuracy")
    assert (alone.code, "--metric and --float-model are those of labels" in alone.err) == (2, True)


def test_decisions_of_argmax_are_judged_in_python(tmp_path: Path) -> None:
    lab, rng = Lab(ROOT, runs=tmp_path / "runs"), np.random.default_rng(1)
    vectors = rng.uniform(-0.3, 0.3, (40, 5)).astype(np.float32)
    run = lab.run("host", "acas_coc", vectors=vectors, labels=np.zeros(40, np.int64), trace=0)
    decisions = run.layers["select_advisory"].target[:, 0]
    [*_, board] = run.document["accuracy"]["columns"]
    assert board["numbers"] == {"top-1": np.mean(decisions == 0), "right": int((decisions == 0).sum()), "no class": 0}
    with pytest.raises(RequestError, match="--metric regression does not fit acas_coc"):
        lab.run("host", "acas_coc", vectors=vectors, labels=np.zeros((40, 1)), metric="regression")


@pytest.mark.slow
def test_boxes_of_a_detector(user: User) -> None:
    rng = np.random.default_rng(4)
    vectors = rng.uniform(0, 1, (6, 3, 32, 32)).astype(np.float32)
    np.save(user.folder / "images.npy", vectors)
    reference = SpecificationReference(load(ROOT / "models" / "yolo_nms_tiny.onnx"))
    boxes, _, rows = reference.activations(vectors.reshape(6, -1))[-3:]
    found = [
        (vector, *row) for vector, selected in enumerate(rows.reshape(6, -1, 3)) for row in selected if row[2] >= 0
    ]
    assert found, "the network detects something"
    lines = ["vector,class,y1,x1,y2,x2"]
    for vector, _, category, box in found:
        x, y, width, height = boxes[vector].reshape(-1, 4)[box].astype(float)
        lines.append(f"{vector},{category},{y - height / 2},{x - width / 2},{y + height / 2},{x + width / 2}")
    (user.folder / "boxes.csv").write_text("\n".join(lines))
    given = ("--board", "host", "--model", "yolo_nms_tiny", "--vectors", str(user.folder / "images.npy"))
    done = user.harness("run", *given, "--labels", str(user.folder / "boxes.csv"), "--trace", "0", "--json")
    assert done.code == 0, done.err
    numbers = column(done.document, "board")["numbers"]
    assert numbers == {"mAP, IoU 0.5": 1.0, "mAP, IoU 0.5 to 0.95": 1.0, "labels": len(found), "detections": len(found)}
