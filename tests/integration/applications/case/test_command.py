"""`harness case`: a case of a small network on this machine, and what a changed byte of each leaf does to it."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import pytest
import yaml

from harness import report
from harness.applications.case import gsn
from harness.applications.case.build import canonical
from harness.applications.case.check import Checked, Verification, Verifier, check, judged, read_leaves
from harness.applications.case.entries import CaseDocument, content_sha256
from harness.applications.case.leaves import Leaf
from harness.applications.case.page import pages
from harness.boards import workspace
from harness.boards.workspace import Workspace
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.runs.folder import content_sha256 as content_of_run
from harness.runs.verification import Claim, VerificationScope
from tests.support.cli.command import Ended, User
from tests.support.decide.domains import random_domain

pytestmark = [
    pytest.mark.usefixtures("revisions_asked_once"),
    pytest.mark.skipif(shutil.which("dot") is None, reason="there is no Graphviz: apt-get install graphviz"),
]
BOARD = ("--board", "host", "--items", "c,c")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path, clean_checkout: None) -> User:  # noqa: ARG001 - its effect
    (cache / "engines").mkdir(exist_ok=True)
    return User(tmp_path_factory.mktemp("user"), cache)


@pytest.fixture(scope="module")
def model(user: User) -> Path:
    """A network with a property beside it, a run of it and a decision."""
    domain = random_domain(1, argmax=True)
    path, stated = domain.write(user.folder, property="robust", axes=domain.axes(), network_ties="all")
    stated.rename(path.with_name("net.property.yaml"))
    asked = ("--model", str(path), "--vectors", "60", "--trace", "4", "--json")
    assert user.harness("run", *BOARD, *asked).code == 0
    assert user.harness("decide", "--model", str(path), "--json").code in {0, 1}
    return path


def build(user: User, model: Path, *more: str) -> Ended:
    return user.here("case", "build", *BOARD, "--model", str(model), "--no-run", "--json", *more)


@pytest.fixture(scope="module")
def case(user: User, model: Path) -> Path:
    ended = build(user, model)
    assert ended.code == 0, ended.err
    return Path(ended.document["case"])


@pytest.fixture(scope="module")
def space(user: User) -> Workspace:
    return workspace.find(runs=user.folder / "runs", environment=os.environ | {"HARNESS_CACHE": str(user.cache)})


@pytest.fixture(scope="module")
def verifier(space: Workspace) -> Verifier:
    """Verify a leaf; one whose bytes are the same is verified once."""
    verification = Verification(
        VerificationScope(space, report.reports, rebuild=False), Console.open(as_json=True).progress
    )
    known: dict[str, tuple[Claim, ...]] = {}

    def verify(leaf: Leaf) -> tuple[Claim, ...]:
        key = json.dumps(leaf.entry.to_json())
        if key not in known:
            known[key] = tuple(verification(leaf))
        return known[key]

    return verify


@pytest.fixture(scope="module")
def checked(space: Workspace, verifier: Verifier) -> Callable[[Path], Checked]:
    return lambda folder: check(folder, space, pages, verifier)


@contextmanager
def changed(path: Path, content: bytes | None = None) -> Iterator[None]:
    """Change the last byte of a file, or all of it; afterwards it is as before."""
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]) if content is None else content)
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def read(case: Path) -> CaseDocument:
    return CaseDocument.read(case / "case.json")


def leaf_states(found: Checked) -> dict[str, str]:
    return {leaf.name: leaf.state.value for leaf in found.leaves}


def goals_above(document: CaseDocument, leaf: str) -> set[str]:
    """The goals above a leaf, by following the relations upwards from its solutions, one step at a time."""
    above = {name for name, one in document.elements.items() if one.leaf == leaf}
    while more := {name for name, one in document.elements.items() if above & set(one.supported_by)} - above:
        above |= more
    return {name for name in above if name.startswith("G-")}


def test_a_case_binds_each_leaf_and_says_what_is_missing(case: Path, model: Path) -> None:
    document = read(case)
    assert {leaf.kind for leaf in document.leaves.values()} == {"run", "decision", "file"}
    for name, leaf in document.leaves.items():
        assert (case / leaf.path).resolve().name == name
        assert all(file_sha256(case / leaf.path / file) == sha256 for file, sha256 in leaf.files.items())
    [run] = (leaf for leaf in document.leaves.values() if leaf.kind == "run")
    assert (run.board, run.origin, run.where) == ("host", "this machine", "on this machine")
    assert document.model.sha256 == file_sha256(model) == run.model_sha256
    states = document.states()
    assert {states[goal] for goal in ("G-C1", "G-C2b", "G-C2c", "G-B4", "G-B2a", "G-D1b")} == {"supported"}
    assert {states[goal] for goal in ("G-C2a", "G-C2", "G-D4a", "G-Top")} == {"undeveloped"}
    missing = document.elements["G-C2a"]
    assert missing.command == f"harness prove --board host --model {model} --items=c,c"
    assert "G-C2a" in document.undeveloped_below("G-D2")
    assert [each.name for each in sorted(case.iterdir())] == [
        *("argument.svg", "case.json", "case.yaml", "evidence", "index.html", "objectives.csv")
    ]


def test_the_argument_is_a_valid_module_of_gsn2x(case: Path) -> None:
    module = yaml.safe_load((case / "case.yaml").read_text())
    assert list(gsn.problems(module)) == []
    texts = {key for name, one in module.items() for key in one if not isinstance(one[key], str)}
    assert texts == {"supportedBy", "inContextOf", "undeveloped", "classes"}, "gsn2x reads other attributes as texts"
    solution = module["Sn-Comparison"]
    assert {"url", "path", "sha256", "revision", "board", "date", "origin"} <= solution.keys()
    assert solution["origin"] == "this machine"


def test_the_whole_command_verifies_every_leaf(user: User, case: Path) -> None:
    ended = user.here("case", "check", "last", "--json", "--reference", "chunk")
    assert {each["text"] for each in ended.document["leaves"] if each["state"] != "valid"} == set()
    assert {each["text"] for each in ended.document["claims"] if each["state"] != "ok"} == set()
    assert ended.code == 0
    assert ended.document["case"] == str(case)


def test_a_changed_byte_of_any_leaf_fails_exactly_the_goals_above_it(
    case: Path, checked: Callable[[Path], Checked], verifier: Verifier
) -> None:
    document, whole = read(case), checked(case)
    assert (whole.exit_code, whole.failed) == (0, [])
    files = [(name, case / leaf.path / file) for name, leaf in document.leaves.items() for file in leaf.files or ("",)]
    assert len(files) > 40
    for number, (leaf, file) in enumerate(files):
        with changed(file):  # of most, only what depends on the changed bytes is computed again
            found = (
                judged(document, read_leaves(document, case), lambda _: None, verifier)
                if number % 20
                else checked(case)
            )
        assert leaf_states(found) == {name: "forged" if name == leaf else "valid" for name in document.leaves}, file
        assert set(found.failed) == goals_above(document, leaf), file
        assert found.exit_code == 1


def test_missing_and_added_files_reject_a_leaf(case: Path, checked: Callable[[Path], Checked]) -> None:
    document = read(case)
    [run] = (name for name, leaf in document.leaves.items() if leaf.kind == "run")
    folder = case.parent / run
    for move, state in ((folder, "missing"), (folder / "log.txt", "forged")):
        away = case.parent / "away"
        move.rename(away)
        found = checked(case)
        away.rename(move)
        assert leaf_states(found)[run] == state
        assert set(found.failed) == goals_above(document, run)
    (folder / "more").touch()
    found = checked(case)
    (folder / "more").unlink()
    assert (leaf_states(found)[run], found.exit_code) == ("forged", 1)


@pytest.mark.parametrize("name", ["case.json", "case.yaml", "index.html", "objectives.csv", "argument.svg"])
def test_a_changed_file_of_the_case_is_found(case: Path, checked: Callable[[Path], Checked], name: str) -> None:
    content = (case / name).read_bytes()
    at = len(content) // 2
    with changed(case / name, content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]):
        found = checked(case)
    assert (found.exit_code, found.failed) == (1, [])
    assert "not ok" in {claim.state.value for claim in found.case}


def rewritten(case: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    """`case.json` with a change, and all hashes as if it had been written so."""
    content = json.loads((case / "case.json").read_text())
    change(content)
    document = CaseDocument.from_json(content)
    return canonical(document.model_copy(update={"content_sha256": content_sha256(document)}))


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a goal that is developed": lambda case: case["elements"]["G-C2a"].pop("undeveloped"),
    "another text": lambda case: case["elements"]["G-C2b"].update(text="Everything was proved."),
    "hardware": lambda case: [leaf.update(origin="hardware") for leaf in case["leaves"].values() if leaf["board"]],
    "another limit": lambda case: case["objectives"][0].update(limits="none"),
    "another model": lambda case: case["model"].update(sha256="0" * 64),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_document_is_found(case: Path, checked: Callable[[Path], Checked], forged: str) -> None:
    with changed(case / "case.json", rewritten(case, FORGED[forged])):
        found = checked(case)
    assert found.exit_code == 1


def test_a_leaf_with_consistent_hashes_and_a_wrong_claim_is_forged(
    case: Path, checked: Callable[[Path], Checked]
) -> None:
    [run] = (name for name, leaf in read(case).leaves.items() if leaf.kind == "run")
    path = case.parent / run / "run.json"
    document = json.loads(path.read_text())
    document["layers"][0]["compared"] += 1
    document["content_sha256"] = content_of_run(document["files"])
    content = f"{json.dumps(document, indent=1)}\n".encode()
    with changed(path, content):
        sha256 = file_sha256(path)

        def bind(case_document: dict[str, Any]) -> None:
            case_document["leaves"][run]["sha256"] = case_document["leaves"][run]["files"]["run.json"] = sha256

        with changed(case / "case.json", rewritten(case, bind)):
            found = checked(case)
    [text] = (leaf.text for leaf in found.leaves if leaf.name == run)
    assert leaf_states(found)[run] == "forged"
    assert "verdict" in text


def test_another_model_property_or_compiler_makes_leaves_stale(
    user: User, case: Path, model: Path, checked: Callable[[Path], Checked]
) -> None:
    document = read(case)
    kinds = {leaf.kind: name for name, leaf in document.leaves.items()}
    with changed(model.with_name("net.property.yaml"), b"property: robust\n"):
        found = checked(case)
    assert {name for name, state in leaf_states(found).items() if state == "stale"} == {
        kinds["decision"],
        kinds["file"],
    }
    other = onnx.load(model)
    other.producer_name = "another"
    with changed(model, other.SerializeToString()):
        found = checked(case)
    assert {name for name, state in leaf_states(found).items() if state == "stale"} == {kinds["decision"], kinds["run"]}
    boards = user.folder / "flags.yaml"
    boards.write_text((ROOT / "boards.yaml").read_text().replace("[-O3, -march=native]", "[-O2, -march=native]"))
    ended = user.here("case", "check", str(case), "--json", "--boards", str(boards))
    states = {each["leaf"]: (each["state"], each["text"]) for each in ended.document["leaves"]}
    assert ended.code == 1
    assert states[kinds["run"]][0] == "stale"
    assert "kernels, flags or generated code changed" in states[kinds["run"]][1]


def test_two_cases_are_compared(user: User, case: Path, model: Path) -> None:
    assert user.here("case", "diff", str(case), str(case), "--json").document["changes"] == []
    [run] = (case.parent / name for name, leaf in read(case).leaves.items() if leaf.kind == "run")
    other = Path(build(user, model, "--evidence", str(run)).document["case"])
    ended = user.here("case", "diff", str(case), str(other), "--json")
    assert ended.code == 1
    topics = {change["topic"] for change in ended.document["changes"]}
    assert {"state G-B2a", "element Sn-Decision", "element G-B2a: undeveloped"} <= topics
    assert not any("G-C" in topic for topic in topics)
    shutil.rmtree(other)


def test_a_certificate_with_other_counts_than_its_decisions_is_no_evidence(
    user: User, model: Path, checked: Callable[[Path], Checked], tmp_path: Path
) -> None:
    [decision] = (user.folder / "runs").glob("*_decide_net")
    certificate, document = tmp_path / "net.json", json.loads((decision / "decide.json").read_text())
    certificate.write_text(json.dumps(document))
    with pytest.raises(RequestError, match=r"cannot read .*net\.decisions\.xz"):
        build(user, model, "--evidence", str(certificate))
    packed = certificate.with_name("net.decisions.xz")
    packed.write_bytes(lzma.compress(np.load(decision / "decisions.npy").tobytes()))
    case = Path(build(user, model, "--evidence", str(certificate)).document["case"])
    assert (case / "evidence" / packed.name).read_bytes() == packed.read_bytes()
    assert leaf_states(checked(case))["net.json"] == "valid"
    counts = document["counts"]
    one, other, *_ = counts["by_decision"]
    for change in (
        {"safe": counts["safe"] + 1, "violated": counts["violated"] - 1},
        {"by_decision": counts["by_decision"] | {one: counts["by_decision"][other], other: counts["by_decision"][one]}},
    ):
        forged = json.dumps(document | {"counts": counts | change})
        certificate.write_text(forged)
        with pytest.raises(RequestError, match="its counts are not those of the decisions"):
            build(user, model, "--evidence", str(certificate))
        sha256 = file_sha256(certificate)

        def bind(case_document: dict[str, Any], sha256: str = sha256) -> None:
            case_document["leaves"]["net.json"]["sha256"] = case_document["files"]["evidence/net.json"] = sha256

        with (
            changed(case / "evidence" / "net.json", forged.encode()),
            changed(case / "case.json", rewritten(case, bind)),
        ):
            found = checked(case)
        assert (leaf_states(found)["net.json"], found.exit_code) == ("forged", 1)
    shutil.rmtree(case)


@pytest.mark.campaign
@pytest.mark.usefixtures("small_proof")
def test_one_command_runs_what_is_missing_and_uses_it_again(user: User, model: Path) -> None:
    words = ("case", "build", *BOARD, "--model", str(model), "--json")
    ended = user.here(*words)
    assert (ended.code, ended.document["failures"]) == (0, []), ended.out
    document = read(Path(ended.document["case"]))
    assert {leaf.kind for leaf in document.leaves.values()} == {"run", "measurement", "decision", "file"}
    states = ended.document["states"]
    assert {states[goal] for goal in ("G-C2", "G-C2a", "G-D1", "G-D2", "G-D4c", "G-E")} == {"supported"}
    assert states["G-D4d"] == "undeveloped", "the machine code of this machine is not followed"
    assumptions = [one.text for name, one in document.elements.items() if name.startswith("A-C2a-")]
    [proof] = (Path(ended.document["case"], leaf.path) for leaf in document.leaves.values() if leaf.kind == "run")
    assert assumptions == json.loads((proof / "proof.json").read_text())["assumptions"]
    before = {path for path in (user.folder / "runs").iterdir() if "_case_" not in path.name}
    again = user.here(*words)
    assert before == {path for path in (user.folder / "runs").iterdir() if "_case_" not in path.name}
    assert again.document["leaves"] == ended.document["leaves"]
    for built in (ended, again):
        shutil.rmtree(built.document["case"])


@pytest.mark.campaign
def test_a_night_checks_the_newest_case_of_a_board_and_model(user: User, case: Path, model: Path) -> None:
    night = user.folder / "night.yaml"
    cell = f"action: case, boards: [host], models: ['{model}'], reference: chunk, rebuild: false"
    night.write_text(f"matrices: [{{{cell}}}]\n")
    ended = user.harness("nightly", str(night), "--json")
    assert (ended.code, [each["outcome"] for each in ended.document["entries"]]) == (0, ["valid"]), ended.out
    with changed(case / "objectives.csv"):
        ended = user.harness("nightly", str(night), "--new", "--json")
    assert (ended.code, [each["outcome"] for each in ended.document["entries"]]) == (1, ["not valid"]), ended.out


def test_a_board_that_fails_leaves_its_goals_undeveloped_and_the_exit_code_says_so(user: User, model: Path) -> None:
    boards = user.folder / "gone.yaml"
    shipped = (ROOT / "boards.yaml").read_text()
    boards.write_text(
        shipped.replace("host:\n", "gone:\n", 1).replace(
            "  local: true\n", "  address: {host: 127.0.0.1, port: 9, user: nobody}\n", 1
        )
    )
    words = ("--board", "gone", "--items", "c,c", "--model", str(model), "--boards", str(boards))
    ended = user.here("case", "build", *words, "--json")
    assert ended.code == 3, ended.out
    assert [failure.partition(":")[0] for failure in ended.document["failures"]] == ["prove", "run", "measure", "wcet"]
    assert {"G-C2a", "G-C2b", "G-D4c"} <= set(ended.document["undeveloped"])
    shutil.rmtree(ended.document["case"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "--board", "host"), "give --board and --model"),
        (("build", *BOARD, "--model", "net.onnx", "--evidence", "nothing"), "unknown run 'nothing'"),
        (("build", *BOARD, "--model", "net.onnx", "--evidence", "net.onnx"), "this file is no evidence"),
        (("check", "."), "there is no case.json"),
        (("check", "nothing"), "unknown run 'nothing'"),
        (("check", "--board", "host"), "give CASE, or --board and --model"),
        (("check", "--board", "host", "--model", "nothing"), "there is no case of nothing on host"),
    ],
)
def test_invalid_requests_end_with_2(user: User, model: Path, words: tuple[str, ...], message: str) -> None:
    placed = [str(model) if word == "net.onnx" else word for word in words]
    with pytest.raises((RequestError, click.UsageError), match=message):
        user.here("case", *placed, "--json")
