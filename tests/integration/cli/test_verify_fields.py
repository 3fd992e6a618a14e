"""Every entry of run.json belongs to a claim that falls when it is edited, or is said to be believed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.analysis import proof
from harness.analysis.proof import Proof, ProofStep, Question, Side
from harness.boards import workspace
from harness.core.console import Console
from harness.core.installation import ROOT
from harness.report import reports
from harness.runs.verification import Claim, ClaimState, VerificationScope, verify
from harness.runs.verification.fields import BELIEVED, COMMON, MEASUREMENTS, RUNS, claim_of, paths, table_of
from harness.runs.verification.folder import Evidence, read
from tests.integration.cli.test_verify import differing, identical, model, user
from tests.integration.cli.test_verify_measured import base, compared

__all__ = ["base", "compared", "differing", "identical", "model", "user"]  # fixtures

pytestmark = pytest.mark.usefixtures("revisions_asked_once")

UNTOUCHED = {
    "bundle": "built again only",
    "proof": "tests/unit/runs/verification/test_proved.py",
    "answers": "tests/unit/runs/verification/test_proved.py",
}
QUICK = {"fields", "files", "content", "request", "model", "plan", "vectors", "sources", "measured", "numbers"}
Place = tuple[str | int, ...]


def leaves(value: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """All values that are no containers, or are empty, by their places."""
    if isinstance(value, dict | list) and value:
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(entry, (*at, key))
    else:
        yield at, value


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "x"


def entries(evidence: Evidence) -> dict[str, tuple[Place, Any]]:
    """One place for each entry of the table that the document has, the first."""
    table, found = table_of(evidence), {}
    for place, value in leaves(evidence.run):
        path = ".".join(key.replace(".", "_") for key in place if isinstance(key, str))
        name = next(name for name in _names(path) if name in table)
        found.setdefault(name, (place, value))
    return found


def _names(path: str) -> Iterator[str]:
    while path:
        yield from (path, f"{path}.")
        path = path.rpartition(".")[0]


def edited(evidence: Evidence, place: Place, value: Any) -> Evidence:
    run = copy.deepcopy(dict(evidence.run))
    inner: Any = run
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = other(value)
    return Evidence(evidence.path, run)


def checked(evidence: Evidence, claim_name: str = "") -> dict[str, Claim]:
    """The claims, but for the reports, in which every entry may show; the reference where that claim needs it."""
    scope = VerificationScope(
        workspace.find(), reports, reference="none" if claim_name in QUICK else "all", rebuild=False
    )
    claims = verify(evidence, scope, Console.open(as_json=True).progress)
    return {claim.name: claim for claim in claims if claim.name != "reports"}


def falls(claim: Claim) -> bool:
    return claim.state is ClaimState.WRONG or (claim.needed and claim.state is ClaimState.UNCHECKED)


@pytest.mark.parametrize("share", ["an entry of each claim", pytest.param("all", marks=pytest.mark.campaign)])
@pytest.mark.parametrize(("kind", "table"), [("differing", COMMON | RUNS), ("compared", MEASUREMENTS)])
def test_an_edited_entry_makes_its_claim_fall(
    kind: str, table: Mapping[str, str], share: str, request: pytest.FixtureRequest
) -> None:
    evidence, wrong = read(request.getfixturevalue(kind)), []
    assert evidence
    checks = {name: table.get(name, BELIEVED) for name in entries(evidence)}
    tried = [name for name, claim in checks.items() if claim not in {BELIEVED, *UNTOUCHED}]
    if share != "all":
        tried = list({checks[name]: name for name in tried}.values())
    for name in tried:
        place, value = entries(evidence)[name]
        fallen = {claim.name for claim in checked(edited(evidence, place, value), table[name]).values() if falls(claim)}
        if table[name] not in fallen:
            wrong.append(f"{name} at {place} makes fall {fallen or 'nothing'}, expected {table[name]}")
    assert len({checks[name] for name in tried}) > 5
    assert not wrong


@pytest.mark.parametrize("kind", ["differing", "base"])
def test_what_is_said_to_be_believed_is(kind: str, request: pytest.FixtureRequest) -> None:
    evidence = read(request.getfixturevalue(kind))
    assert evidence
    table, forged = table_of(evidence), evidence
    for name, (place, value) in entries(evidence).items():
        if table[name] == BELIEVED and value not in (None, [], {}):  # of another type it would be no such document
            forged = edited(forged, place, value)
    assert forged != evidence
    assert not [claim for claim in checked(forged).values() if falls(claim)]


@pytest.mark.parametrize("kind", ["differing", "base"])
def test_a_document_of_an_earlier_version_has_fewer_entries(kind: str, request: pytest.FixtureRequest) -> None:
    evidence = read(request.getfixturevalue(kind))
    assert evidence
    later = {"graph", "launches", "effect", "previous"}
    assert evidence.run.keys() >= later - ({"effect"} if kind == "base" else set())
    earlier = {key: value for key, value in evidence.run.items() if key not in later}
    assert not [claim for claim in checked(Evidence(evidence.path, earlier)).values() if falls(claim)]


def test_an_entry_that_nobody_knows_is_not_believed(identical: Path) -> None:
    evidence = read(identical)
    assert evidence
    for path, run in (
        ("approved", dict(evidence.run) | {"approved": "by all"}),
        ("bundle.trust", dict(evidence.run) | {"bundle": dict(evidence.run["bundle"]) | {"trust": True}}),
        ("verdict\u200b", dict(evidence.run) | {"verdict\u200b": "identical"}),
    ):
        fields = checked(Evidence(evidence.path, run))["fields"]
        assert falls(fields)
        assert path in fields.text


def test_the_page_names_all_that_is_believed() -> None:
    page = (ROOT / "docs/check-evidence.md").read_text() + (ROOT / "docs/reference/claims.md").read_text()
    believed = sorted(name.rstrip(".") for name, claim in (COMMON | RUNS | MEASUREMENTS).items() if claim == BELIEVED)
    missing = [name for name in believed if f"`{name}`" not in page]
    assert not missing


def test_the_most_exact_entry_counts() -> None:
    table = {"a.": "x", "a.b": BELIEVED, "c": "y"}
    found = {path: claim_of(path, table) for path in ("a", "a.b", "a.b.c", "a.c", "b", "ab", "c", "c.d", "")}
    assert {path: name for path, name in found.items() if name} == {
        "a": "x", "a.b": BELIEVED, "a.b.c": "x", "a.c": "x", "c": "y",
    }  # fmt: skip


@pytest.mark.parametrize("section", ["stimuli", "failing", "proof", "proof.claims", "measured", "outputs", "bundle"])
def test_nothing_is_let_through_beside_what_a_claim_looks_at(section: str) -> None:
    assert claim_of(f"{section}.approved", COMMON | RUNS | MEASUREMENTS) is None


def test_a_document_of_another_schema_is_not_checked(identical: Path) -> None:
    evidence = read(identical)
    assert evidence
    claims = checked(Evidence(evidence.path, dict(evidence.run) | {"schema": 1}))
    assert list(claims) == ["files", "content", "fields"], "nothing else is looked at"
    assert claims["fields"].state is ClaimState.UNCHECKED
    assert claims["fields"].text.startswith("run.json is of schema 1, this version knows 2: verify it with the version")


def test_all_entries_of_a_proof_are_known() -> None:
    question = Question(ProofStep.OTHERS, Side.BOARD, "layer", "it is so", "by asking", 1, True, lambda _: "")
    for claims, taken in (((question.ask(),), ["nothing"]), ((), [])):
        document = {"proof": proof.document(Proof(claims), taken, [], 1.0)}
        assert not [path for path in paths(document) if claim_of(path, COMMON | RUNS) is None]
