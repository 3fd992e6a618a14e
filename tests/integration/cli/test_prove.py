"""`harness prove` on this machine, from the command line to the evidence; with one small network, as it takes long."""

from __future__ import annotations

import json
import platform
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from harness import model
from harness.analysis.proof import Claim, ProofStep, Question, Side, races
from harness.cli.main import cli
from harness.core.errors import EXIT_INFRASTRUCTURE, RequestError, ToolError
from harness.core.file_digest import file_sha256
from harness.operators import obligations, sweeps
from harness.operators.qgemm import QGemm
from harness.pipeline import prove as run_proof
from harness.runs.folder import ANSWERS, RunFolder, content_sha256, differs_so_far, write_json
from tests.integration.cli.conftest import FEW_FLOATS
from tests.support import builders
from tests.support.cli import kernels
from tests.support.cli.command import Ended, User

VECTORS = 300
MODEL = builders.random_network(np.random.default_rng(5), (4, 6, 3), argmax=True, per_column=True)
LAYERS = model.parse(MODEL.SerializeToString(), "small").layers
SWEEPS_FEW_FLOATS = f"from harness.cli import main; from harness.operators import sweeps; sweeps.FLOATS = {FEW_FLOATS}"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path, clean_checkout: None) -> User:  # noqa: ARG001 - its effect
    folder = tmp_path_factory.mktemp("prove")
    onnx.save_model(MODEL, folder / "small.onnx")
    return User(folder, cache)


def runs(user: User) -> set[Path]:
    """All run folders."""
    return set((user.folder / "runs").glob("*"))


def asked_of_the_board(user: User, run: Path) -> bool:
    """Whether a stage's answer lies on this machine as a board."""
    return any((user.cache / "host" / "runs").glob(f"{run.name}*/out0/*_accumulate.npy"))


@dataclass(frozen=True)
class Interrupted:
    """What a proof left behind that was interrupted while board and reference were at work."""

    folder: Path
    files: set[str]
    log: str


@pytest.fixture(scope="module")
def interrupted(user: User) -> Interrupted:
    model = str(user.folder / "small.onnx")
    given = ("--board", "host", "--model", model, "--vectors", str(VECTORS), "--floats", "thresholds")
    # The questions are those of the resumed proof: an answer that took long is kept, and this process may be slow.
    process = user.start("prove", *given, program=[sys.executable, "-c", f"{SWEEPS_FEW_FLOATS}; main.main()"])
    while not any(asked_of_the_board(user, folder) for folder in runs(user)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Traceback" not in err
    (folder,) = runs(user)
    assert f"resume with: harness run --resume {folder}" in err
    files = {path.name for path in folder.iterdir()}
    return Interrupted(folder, files, (folder / "log.txt").read_text())


@pytest.fixture(scope="module")
def proved(user: User, interrupted: Interrupted) -> Ended:
    """The same, resumed in this process, where the reference sweeps few floats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "FLOATS", FEW_FLOATS)
        return user.here("run", "--resume", str(interrupted.folder), "--json")


@pytest.mark.campaign
def test_the_reference_sweeps_all_floats(user: User) -> None:
    given = ("--board", "host", "--model", str(user.folder / "small.onnx"), "--vectors", "10", "--json")
    claims = user.harness("prove", *given, "--floats", "thresholds").document["proof"]["claims"]
    [swept] = [each for each in claims if (each["step"], each["answered_by"]) == ("quantization", "reference")]
    assert (swept["cases"], swept["holds"]) == (2**32, True)


@pytest.mark.campaign
def test_an_interrupted_proof_is_none(interrupted: Interrupted) -> None:
    kept = {"attempts.jsonl", "chunks", "log.txt", "model.onnx", "plan", "request.json", "stimuli.npy"}
    assert interrupted.files == kept
    assert "stopped: interrupted (Ctrl-C)" in interrupted.log


def test_a_right_program_is_proved_and_run(proved: Ended) -> None:
    assert proved.code == 0, proved.err
    document = proved.document
    assert document["verdict"] == "identical"
    assert document["reason"].startswith("shown for every input, by ")
    assert "bit for bit those of the reference" in document["reason"]
    assert document["reason"].endswith(f"in deployment mode all {VECTORS:,} outputs are the same")
    assert [layer["compared"] for layer in document["layers"]] == [VECTORS * layer.size for layer in LAYERS]
    assert document["proof"]["holds"]
    assert all(claim["holds"] and claim["counterexample"] is None for claim in document["proof"]["claims"])


def test_every_layer_is_asked_in_every_step_that_concerns_it(proved: Ended) -> None:
    claims = proved.document["proof"]["claims"]
    board = {(claim["step"], claim["layer"]) for claim in claims if claim["answered_by"] == Side.BOARD.value}
    reference = {(claim["step"], claim["layer"]) for claim in claims if claim["answered_by"] == Side.REFERENCE.value}
    rounded = {("quantization", "quantize"), ("requantization", "layer_0"), ("requantization", "layer_1")}
    summed = {("accumulation", "layer_0"), ("accumulation", "layer_1")}
    whole = {("constants", None), ("execution", None), ("composition", None)}
    assert board == {("others", "advisory")} | whole | rounded | summed
    assert reference == {("constants", None)} | rounded | summed
    assert [claim["step"] for claim in claims] == sorted(
        (claim["step"] for claim in claims), key=[step.name.lower() for step in ProofStep].index
    )


def test_the_cases_are_all_that_there_are(proved: Ended) -> None:
    claims = proved.document["proof"]["claims"]

    def cases(step: str, side: Side, layer: str) -> list[int]:
        return [
            claim["cases"]
            for claim in claims
            if (claim["step"], claim["answered_by"], claim["layer"]) == (step, side.value, layer)
        ]

    assert cases("quantization", Side.REFERENCE, "quantize") == [FEW_FLOATS]
    for layer in LAYERS:
        if isinstance(layer, QGemm):
            low, high = layer.accumulator_bounds()
            reachable = [int((high - low + 1).sum())]
            assert cases("requantization", Side.BOARD, layer.name) == [*reachable, obligations.VECTORS * layer.size]
            assert cases("requantization", Side.REFERENCE, layer.name) == reachable
            assert cases("accumulation", Side.BOARD, layer.name)[0] == 256 * layer.input.size * layer.size


def test_the_proof_is_part_of_the_evidence(proved: Ended) -> None:
    folder = Path(proved.document["run"])
    run = json.loads((folder / "run.json").read_text())
    proof = json.loads((folder / "proof.json").read_text())
    assert run["proof"] == proof == proved.document["proof"]
    assert "proof.json" in run["files"]
    assert {each["item"] for each in proof["fp_environment"]} == {"prepost", "network"}
    assert run["board"]["environment"]["fp_environment"].startswith("network: ")
    assert run["deployed"] == {"compared": VECTORS, "differing": 0, "first": None, "own": 0}
    assert json.loads((folder / "request.json").read_text())["request"]["floats"] == "thresholds"
    report = (folder / "report.html").read_text()
    for claim in proof["claims"]:
        assert claim["statement"].split("(")[0].replace("'", "&#39;") in report
    assert any("monotone" in sentence for sentence in proof["assumptions"])


@pytest.mark.usefixtures("few_floats")
def test_what_the_program_answered_is_computed_again(user: User, proved: Ended) -> None:
    ended = user.here("verify", proved.document["run"], "--json", "--no-rebuild")
    found = {claim["claim"]: (claim["state"], claim["text"]) for claim in ended.document["claims"]}
    holding = [claim for claim in proved.document["proof"]["claims"] if claim["answered_by"] == Side.BOARD.value]
    assert ended.code == 0, ended.out
    assert found["proof"][0] == "ok"
    assert found["answers"] == ("ok", f"the answers of the program to {len(holding)} claims are right, computed again")


@pytest.mark.usefixtures("few_floats")
def test_what_is_claimed_of_the_program_s_file_follows_again_from_a_rebuilt_one(user: User, proved: Ended) -> None:
    ended = user.here("verify", proved.document["run"], "--json", "--reference", "none")
    found = {claim["claim"]: (claim["state"], claim["text"]) for claim in ended.document["claims"]}
    of_file = [claim for claim in proved.document["proof"]["claims"] if claim["answered_by"] == Side.FILE.value]
    assert ended.code == 0, ended.out
    assert len(of_file) >= 4
    assert found["structure"] == (
        "ok",
        f"{len(of_file)} claims about the program's file follow again from its machine code",
    )


@pytest.mark.usefixtures("few_floats")
def test_a_claim_of_another_file_does_not_follow_from_the_rebuilt_one(
    user: User, proved: Ended, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(proved.document["run"], tmp_path / "copy"))
    proof, run = (json.loads((copy / name).read_text()) for name in ("proof.json", "run.json"))
    claim = next(claim for claim in proof["claims"] if claim["answered_by"] == Side.FILE.value)
    claim["answers_sha256"] = "0" * 64
    write_json(copy / "proof.json", proof)
    files = run["files"] | {"proof.json": file_sha256(copy / "proof.json")}
    write_json(copy / "run.json", run | {"proof": proof, "files": files, "content_sha256": content_sha256(files)})
    ended = user.here("verify", str(copy), "--json", "--reference", "none")
    found = {claim["claim"]: (claim["state"], claim["text"]) for claim in ended.document["claims"]}
    assert (ended.code, ended.document["stands"]) == (1, False)
    assert [name for name, (state, _) in found.items() if state == "not ok"] == ["structure"]
    assert f"proof.json, {claim['statement']}, counterexample and hash" in found["structure"][1]


def broken_off(proved: Ended, name: str, *lost: str) -> Path:
    """A copy of the run without its end and without these files."""
    whole = Path(proved.document["run"])
    folder = whole.with_name(name)
    shutil.copytree(whole, folder)
    for file in ("run.json", "report.html", "junit.xml", *lost):
        (folder / file).unlink()
    return folder


def test_a_resumed_run_keeps_its_proof(user: User, proved: Ended) -> None:
    folder = broken_off(proved, "with_proof", "chunks/00000.json")
    before = (folder / "proof.json").read_bytes()
    ended = user.harness("run", "--resume", str(folder), "--json")
    assert ended.code == 0, ended.err
    assert (folder / "proof.json").read_bytes() == before
    assert ended.document["reason"] == proved.document["reason"]


@pytest.fixture
def answered(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_proof: None) -> Path:  # noqa: ARG001
    """A run of which ThreadSanitizer ended the proof when a part of it was answered; every answer is kept."""
    monkeypatch.setattr(run_proof, "KEPT_S", 0.0)
    model = shutil.copy(user.folder / "small.onnx", tmp_path)
    given = ("--board", "host", "--model", str(model), "--vectors", "50", "--trace", "0", "--floats", "thresholds")

    def fails(*_: object) -> str:
        kept = folder_of(tmp_path) / ANSWERS
        while not (kept.exists() and kept.read_bytes().count(b"\n") > 20):  # the last line may not be whole yet
            time.sleep(0.02)
        raise ToolError("ThreadSanitizer failed", "try again")

    with monkeypatch.context() as patch:
        patch.setattr(races, "find_race", fails)
        ended = User(tmp_path, user.cache).here("prove", *given)
    assert ended.code == EXIT_INFRASTRUCTURE, ended.err
    assert "error: ThreadSanitizer failed" in ended.err
    return folder_of(tmp_path)


def folder_of(tmp_path: Path) -> Path:
    [folder] = (tmp_path / "runs").iterdir()
    return folder


def answers_of(folder: Path) -> list[dict[str, Any]]:
    return list(RunFolder(folder).answers())


def change_answers(folder: Path, **changes: Any) -> None:
    """Change the first answer: entries of the line, or of its claim."""
    first, *others = answers_of(folder)
    line = {key: changes.get(key, value) for key, value in first.items()}
    line["claim"] = first["claim"] | {key: value for key, value in changes.items() if key in first["claim"]}
    (folder / ANSWERS).write_text("".join(f"{json.dumps(each)}\n" for each in [line, *others]))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that are asked in this process."""
    found: list[str] = []
    ask = Question.ask

    def noted(question: Question) -> Claim:
        found.append(question.statement)
        return ask(question)

    monkeypatch.setattr(Question, "ask", noted)
    return found


def resumed(user: User, folder: Path) -> Ended:
    return User(folder.parents[1], user.cache).here("run", "--resume", str(folder), "--json")


def test_a_resumed_proof_asks_what_is_left(user: User, answered: Path, asked: list[str]) -> None:
    kept = len(answers_of(answered))
    ended = resumed(user, answered)
    assert ended.code == 0, ended.err
    claims = ended.document["proof"]["claims"]
    assert f"{kept} of {len(claims)} questions were answered by an earlier attempt" in ended.err
    assert len(asked) == len(claims) - kept
    assert ended.document["proof"]["holds"]
    assert not (answered / ANSWERS).exists()
    items = {each["item"] for each in json.loads((answered / "proof.json").read_text())["fp_environment"]}
    assert items == {"prepost", "network"}


def test_answers_of_another_revision_are_asked_again(user: User, answered: Path, asked: list[str]) -> None:
    kept = len(answers_of(answered))
    change_answers(answered, revision="0123456789ab")
    ended = resumed(user, answered)
    assert ended.code == 0, ended.err
    assert len(asked) == len(ended.document["proof"]["claims"]) - kept + 1


def test_a_counterexample_is_kept(user: User, answered: Path) -> None:
    """The program might not repeat it."""
    change_answers(answered, holds=False, counterexample="column 3")
    ended = resumed(user, answered)
    assert ended.code == 1, ended.err
    assert "column 3" in ended.document["reason"]


def test_a_counterexample_of_another_revision_ends_the_run(user: User, answered: Path) -> None:
    change_answers(answered, revision="0123456789ab", holds=False, counterexample="column 3")
    with pytest.raises(RequestError, match="0123456789ab of harness found a counterexample, this is"):
        resumed(user, answered)


@pytest.mark.parametrize("damage", ["form", "question", "cut"])
def test_damaged_answers_are_refused(user: User, answered: Path, damage: str) -> None:
    """A line that was cut short may have been a counterexample."""
    if damage == "cut":
        (answered / ANSWERS).write_bytes((answered / ANSWERS).read_bytes()[:-9])
    else:
        change_answers(answered, statement=3 if damage == "form" else "it is so")
    with pytest.raises(RequestError, match=rf"{ANSWERS}: damaged, or written by another version"):
        resumed(user, answered)


# A program that is wrong at one accumulator, which no vector meets: what a run cannot find.


@pytest.fixture
def changed_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last layer's last column: its largest accumulator becomes another code, in this process."""
    formula = "(Y##_t)round_saturated((float)acc[n] * m[n], QMIN, QMAX, zy)"
    wrong = f"(Y##_t)({formula} ^ (acc[n] == {unmet()} && n == 2 && width == 3))"
    kernels.build_with(monkeypatch, tmp_path, ("c/qgemm.h", formula, wrong))


def unmet() -> int:
    """The largest accumulator of the last layer's last column."""
    layer = LAYERS[2]
    assert isinstance(layer, QGemm)
    return int(layer.accumulator_bounds()[1][-1])


@pytest.mark.usefixtures("changed_kernels", "small_proof")
def test_a_program_differs_that_no_vector_shows(user: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--board", "host", "--items", "c,c", "--model", str(user.folder / "small.onnx"), "--vectors", str(VECTORS)]
    assert cli.main(["--runs", str(tmp_path / "runs"), "prove", *given], standalone_mode=False) == 1
    out = capsys.readouterr().out
    (folder,) = (tmp_path / "runs").iterdir()
    run = json.loads((folder / "run.json").read_text())
    assert run["verdict"] == "differs"
    assert [layer["differing"] for layer in run["layers"]] == [0] * len(LAYERS)
    refuted = [claim for claim in run["proof"]["claims"] if not claim["holds"]]
    assert (refuted[0]["step"], refuted[0]["layer"]) == ("requantization", "layer_1")
    assert {claim["step"] for claim in refuted} == {"requantization", "execution"}, "where the schedule calls it, too"
    counterexample = f"column 2: {unmet()} becomes "
    assert refuted[0]["counterexample"].startswith(counterexample)
    assert run["reason"].startswith(f"the proof fails, layer layer_1: {counterexample}")
    assert f"differs: the proof fails, layer layer_1: {counterexample}" in out
    assert "FAILS, layer layer_1" in out
    assert "identical" not in out
    report, junit = ((folder / name).read_text() for name in ("report.html", "junit.xml"))
    assert counterexample in report
    assert 'failures="2"' in junit
    assert f"layer_1: {counterexample}" in junit


# A program that is wrong only while it measures times.


@pytest.fixture
def kernels_wrong_when_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The item that reads the clock at its first task changes the network's input then."""
    read = "            worker->intervals[i].begin = meter_read();"
    spoilt = "((float *)network.inputs->values)[0] = 0;"
    wrong = f"{read}\n        if (reading.begin && i == 0 && worker == schedule.workers) {spoilt}"
    kernels.build_with(monkeypatch, tmp_path, ("program/schedule.c", read, wrong))


@pytest.mark.usefixtures("kernels_wrong_when_timed", "small_proof")
def test_a_program_that_is_wrong_in_deployment_mode_differs(
    user: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--board", "host", "--items", "c,c", "--model", str(user.folder / "small.onnx"), "--vectors", str(VECTORS)]
    more = ["--block", "1", "--trace", "0"]
    assert cli.main(["--runs", str(tmp_path / "runs"), "prove", *given, *more], standalone_mode=False) == 1
    (folder,) = (tmp_path / "runs").iterdir()
    run = json.loads((folder / "run.json").read_text())
    assert run["verdict"] == "differs"
    assert [layer["differing"] for layer in run["layers"]] == [0] * len(LAYERS)
    assert 0 < run["deployed"]["differing"] <= run["deployed"]["compared"] == VECTORS
    assert "in deployment mode (--dump last, with or without times) " in run["reason"]
    refuted = [claim["counterexample"] for claim in run["proof"]["claims"] if not claim["holds"]]
    assert refuted[-2] == "layer advisory differs when times are measured"
    assert refuted[-1].startswith("with --time network, layer ")
    record = json.loads((folder / "chunks" / "00000.json").read_text())
    assert record["deployed"]["sha256"] != record["reference_sha256"][-1] == record["target_sha256"][-1]
    assert differs_so_far(folder)
    assert "differs:" in capsys.readouterr().out
    junit = (folder / "junit.xml").read_text()
    steps = {claim["step"] for claim in run["proof"]["claims"] if not claim["holds"]}
    assert f'failures="{len(steps) + 1}"' in junit
    assert "outputs differ with --dump last, with or without times" in junit


# A program whose code is not understood.


@pytest.mark.usefixtures("small_proof")
def test_a_program_with_unknown_instructions_is_neither_proved_nor_refuted(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop, unknown = "const size_t rest = width % QGEMM_ROWS; ", "pause" if platform.machine() == "x86_64" else "yield"
    kernels.build_with(monkeypatch, tmp_path, ("c/qgemm.h", loop, f'{loop}__asm__ volatile("{unknown}"); '))
    given = ["--board", "host", "--items", "c,c", "--model", str(user.folder / "small.onnx"), "--vectors", str(VECTORS)]
    code = cli.main(["--runs", str(tmp_path / "runs"), "prove", *given], standalone_mode=False)
    assert code == EXIT_INFRASTRUCTURE
    assert (
        f"is not understood: function layer_0_accumulate has the instruction {unknown} at 0x" in capsys.readouterr().err
    )
    (folder,) = (tmp_path / "runs").iterdir()
    assert not (folder / "proof.json").exists()


# What is refused.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--board": "hots"}, "did you mean host?"),
        ({"--board": None}, "give --board and --model"),
        ({"--model": "acas_cok"}, "did you mean acas_coc"),
        ({"--vectors": "0"}, "nothing would be compared"),
        ({"--floats": "some"}, "'all', 'thresholds'"),
    ],
)
def test_a_wrong_request_ends_with_2_and_says_what_to_do(user: User, change: dict[str, Any], message: str) -> None:
    given = {"--board": "host", "--model": "acas_coc", "--vectors": "10"} | change
    arguments = [part for option, value in given.items() if value for part in (option, value)]
    before = runs(user)
    ended = user.harness("prove", *arguments)
    assert ended.code == 2
    assert message in ended.err
    assert "identical" not in ended.out
    assert runs(user) == before
