from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.applications.nightly import checks, matrix
from harness.applications.nightly.command import taken
from harness.applications.nightly.matrix import NightSpec
from harness.applications.nightly.schedule import BoardJob, JobKind
from harness.boards.profile import BoardProfiles
from harness.boards.workspace import Workspace
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.core.outcome import Outcome
from tests.support.nightly.simulated import commands

GOOD = "matrices:\n  - boards: [host, xavier]\n    models: [acas_coc]\n"


@pytest.fixture
def read(tmp_path: Path, laboratory: BoardProfiles, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads a text as a file of the shipped laboratory."""
    workspace = Workspace(ROOT / "boards.yaml", ROOT / "models", tmp_path / "runs", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)

    def read(text: str) -> NightSpec:
        (tmp_path / "n.yaml").write_text(text)
        return matrix.read(Path("n.yaml"), taken(), checks.Checks(laboratory, workspace))

    return read


def test_every_board_meets_every_model_and_items(read: Any) -> None:
    spec = read(
        """
until: "06:00"
parallel: 3
retries: 2
matrices:
  - boards: [host, xavier]
    models: [acas_coc, acas_wl]
    items: ["c,c", [c, "c:vector"]]
    vectors: 1000
    chunk: 100
    split: [dense_2=network, pipeline]
    x64-quant-precision: false
    limit: 1h
    expect: differs
  - {action: measure, boards: [host], models: [acas_coc], samples: 10, against: 3}
"""
    )
    assert (spec.until, spec.parallel, spec.retries) == ("06:00", 3, 2)
    assert [(entry.board, entry.model, entry.items) for entry in spec.entries[:4]] == [
        ("host", "acas_coc", "c,c"),
        ("host", "acas_coc", "c,c:vector"),
        ("host", "acas_wl", "c,c"),
        ("host", "acas_wl", "c,c:vector"),
    ]
    assert [entry.number for entry in spec.entries] == list(range(9))
    first, last = spec.entries[0], spec.entries[-1]
    assert first.options == (
        "--vectors=1000",
        "--chunk=100",
        "--split=dense_2=network,pipeline",
        "--no-x64-quant-precision",
    )
    assert (first.limit_s, first.expect, first.action) == (3600.0, Outcome.DIFFERS, "run")
    assert (last.limit_s, last.expect, last.against, last.options) == (1800.0, Outcome.MEASURED, 3, ("--samples=10",))


def test_the_shipped_example_is_right(read: Any) -> None:
    assert read((ROOT / "nightly.yaml").read_text()).entries


def test_the_same_text_has_the_same_hash(read: Any) -> None:
    assert read(GOOD).sha256 == read(GOOD).sha256 != read(GOOD + "# more\n").sha256


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, Outcome.IDENTICAL),
        ({"accept": "bound"}, Outcome.WITHIN_BOUND),
        ({"accept": "bound", "expect": "identical"}, Outcome.IDENTICAL),
        ({"expect": "within bound"}, Outcome.WITHIN_BOUND),
    ],
)
def test_what_accepts_a_bound_expects_it(read: Any, keys: dict[str, str], expected: Outcome) -> None:
    [entry] = read(cell(**keys)).entries
    assert entry.expect is expected
    assert entry.options == (("--accept=bound",) if "accept" in keys else ())


def test_a_case_is_checked_and_is_valid_if_nothing_else_is_expected(read: Any, tmp_path: Path) -> None:
    [entry] = read(cell(action="case", reference="chunk")).entries
    assert (entry.key, entry.expect) == ("case host acas_coc --reference=chunk", Outcome.VALID)
    job = BoardJob("host", JobKind.ATTEMPT, entry)
    command = commands(tmp_path, "20260101-000000").of(job, 60.0, ())
    assert command.words == ("case", "check", "--board=host", "--model=acas_coc", "--reference=chunk", "--json")
    assert matrix.POSSIBLE["case"] == (Outcome.VALID, Outcome.NOT_VALID)


def cell(**changes: str) -> str:
    lines = {"boards": "[host]", "models": "[acas_coc]"} | changes
    return "matrices:\n" + "".join(
        f"  {'  ' if index else '- '}{key}: {value}\n" for index, (key, value) in enumerate(lines.items())
    )


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("- 1\n", "n.yaml", "expected a mapping with the key matrices", "docs/run-every-night.md"),
        ("", "n.yaml", "expected a mapping", ""),
        ("parallel: 2\n", "n.yaml", "'matrices' is missing", ""),
        ("matrices: []\n", "n.yaml:1", "at least 1 must be given", ""),
        ("matrixes: []\n", "n.yaml:1", "unknown key 'matrixes'", "matrices, notify, parallel, retries, until"),
        (GOOD + "retries: -1\n", "n.yaml:4", "greater than or equal to 0", ""),
        (GOOD + "retries: 1\nretries: 2\n", "n.yaml:5", "'retries' is repeated, first in line 4", ""),
        (GOOD + "until: 22:00\n", "n.yaml:4", '22:00 is 1320 in YAML, in base 60: write "22:00" or 1320', ""),
        (GOOD + 'until: "6 o\'clock"\n', "n.yaml:4", "time of day", ""),
        (cell(boards="[xavir]"), "n.yaml:2", "unknown board 'xavir'", "did you mean xavier?"),
        (cell(boards="[host, hots]"), "n.yaml:2", "unknown board 'hots'", "did you mean host?"),
        (cell(models="[acas_coc, acas_cok]"), "n.yaml:3", "unknown model 'acas_cok'", "did you mean acas_coc"),
        (cell(models="[]"), "n.yaml:3", "at least 1 must be given", ""),
        (cell(boards="host"), "n.yaml:2", "boards: Input should be a list, as [one, another], found 'host'", ""),
        (cell(action="rum"), "n.yaml:4", "'run', 'prove', 'measure' or 'case', found 'rum'", ""),
        (cell(vektors="5"), "n.yaml:4", "unknown key 'vektors'", "did you mean vectors? valid choices: accept, "),
        (cell(samples="5"), "n.yaml:4", "unknown key 'samples'", ""),
        (cell(resume="x"), "n.yaml:4", "unknown key 'resume'", ""),
        (cell(json="true"), "n.yaml:4", "unknown key 'json'", ""),
        (cell(chunk="many"), "n.yaml:4", "invalid value for '--chunk': 'many' is not a valid", "harness run --help"),
        (cell(chunk="0"), "n.yaml:4", "0 is not in the range x>=1", ""),
        (cell(vectors="0"), "n.yaml:2", "nothing would be compared", ""),
        (cell(vectors="gone.npy"), "n.yaml:2", "there is no file gone.npy", ""),
        (cell(vectors="x" * 5000), "n.yaml:2", "there is no file xxx", ""),
        (cell(vectors="{a: 1}"), "n.yaml:4", "vectors is a number, a text or a list of them", ""),
        (cell(vectors='"5\\n6"'), "n.yaml:4", "vectors is a number, a text or a list of them", ""),
        (cell(vectors="true"), "n.yaml:4", "vectors is a number or a text, found True", ""),
        (cell(**{"x64-quant-precision": "5"}), "n.yaml:4", "x64-quant-precision is true or false, found 5", ""),
        (cell(action="case", items="[c]"), "n.yaml:2", "no such option: --items", "harness check --help"),
        (cell(action="case", vectors="5"), "n.yaml:5", "unknown key 'vectors'", "reference"),
        (cell(action="case", expect="identical"), "n.yaml:5", "case never ends with 'identical'", "valid, not valid"),
        (cell(items="[c]"), "n.yaml:2", "board host has 2 items", ""),
        (cell(items='["c,nothing"]'), "n.yaml:2", "unknown target 'nothing'", ""),
        (cell(split="nowhere=network"), "n.yaml:2", "nowhere", ""),
        (cell(limit="90"), "n.yaml:4", "write a time with its unit, such as 90s, 30m or 8h, found 90", ""),
        (cell(limit="0s"), "n.yaml:4", "write a time with its unit", ""),
        (cell(expect="fine"), "n.yaml:4", "'identical'", ""),
        (cell(expect="measured"), "n.yaml:4", "run never ends with 'measured'", "identical, within bound, differs"),
        (cell(expect="inconclusive"), "n.yaml:4", "run never ends with 'inconclusive'", ""),
        (cell(action="measure", expect="regressed"), "n.yaml:5", "regressed needs a base to compare with", "against"),
        (cell(against="2"), "n.yaml:4", "run has no former run to compare with", "action: measure"),
        (cell(action="measure", block="2"), "n.yaml:2", "a measurement executes one vector at a time", ""),
        (cell(boards="[xavier]", action="measure", count="time"), "n.yaml:2", "its time would not be that of", ""),
        (cell(boards="[host, host]"), "n.yaml:2", "'run host acas_coc' is a duplicate of n.yaml:2", "keep one"),
        (GOOD + cell()[10:], "n.yaml:4", "'run host acas_coc' is a duplicate of n.yaml:2", ""),
    ],
)  # fmt: skip
def test_every_mistake_is_named_with_its_line(read: Any, text: str, place: str, message: str, hint: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(text)
    assert caught.value.message.startswith(f"{place}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_other_vectors_are_another_entry(read: Any) -> None:
    text = cell(vectors="5") + cell(vectors="6")[10:]
    assert [entry.key for entry in read(text).entries] == [
        "run host acas_coc --vectors=5",
        "run host acas_coc --vectors=6",
    ]


def test_a_file_of_vectors_is_seen_from_the_file(read: Any, tmp_path: Path) -> None:
    (tmp_path / "v.npy").touch()
    assert read(cell(vectors="v.npy")).entries[0].options == ("--vectors=v.npy",)


def test_a_file_that_is_not_there(tmp_path: Path, laboratory: BoardProfiles) -> None:
    checker = checks.Checks(laboratory, Workspace(tmp_path, tmp_path, tmp_path, tmp_path))
    with pytest.raises(RequestError, match="there is no such file"):
        matrix.read(tmp_path / "gone.yaml", taken(), checker)
    with pytest.raises(RequestError, match="cannot be read"):
        matrix.read(tmp_path, taken(), checker)
