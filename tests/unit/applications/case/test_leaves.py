"""The choice of evidence, contradictions between leaves, and the states of goals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.applications.case.entries import CaseDocument, ElementEntry, LeafEntry, Origin
from harness.applications.case.leaves import RUN_KIND, Leaf, contradictions, evidence_of, read
from harness.applications.decide import certificate
from harness.applications.decide.certificate import consistent
from harness.applications.decide.job import read_stated
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model import load


def a_run(name: str, verdict: str = "identical", origin: Origin = "hardware", **more: Any) -> Leaf:
    """A run that compared activations, and a proof if `proof` says whether it holds."""
    date, bundle = more.get("date", "2026-01-01T00:00:00Z"), more.get("bundle", "b")
    entry = LeafEntry(
        kind=RUN_KIND, path=name, sha256="0", files={}, model_sha256=more.get("model", "m"), network_sha256=None,
        bundle=bundle, revision="r", board="x", date=date, origin=origin, where="",
    )  # fmt: skip
    proof = None if "proof" not in more else SimpleNamespace(holds=more["proof"])
    assessment = SimpleNamespace(sound=True, equivalence=SimpleNamespace(equal=True), checks=())
    document = SimpleNamespace(verdict=verdict, proof=proof, conformance=None, assessment=assessment)
    return Leaf(Path(name), entry, document)


def of(*leaves: Leaf) -> dict[str, Leaf]:
    return {leaf.name: leaf for leaf in leaves}


@pytest.mark.parametrize(
    ("leaves", "chosen", "shown"),
    [
        ((a_run("a", origin="emulation", date="2026-09"), a_run("b", origin="hardware")), "b", True),
        ((a_run("a", date="2026-01"), a_run("b", date="2026-02")), "b", True),
        ((a_run("a", "differs", origin="emulation"), a_run("b", date="2026-02")), "a", False),
        ((a_run("a", origin="simulation"), a_run("b", origin="emulation")), "a", True),
    ],
)
def test_refuting_evidence_comes_first_then_the_board_itself_then_the_newest(
    leaves: tuple[Leaf, ...], chosen: str, shown: bool
) -> None:
    found = evidence_of("comparison", of(*leaves))
    assert found is not None
    assert (found[0].name, found[1]) == (chosen, shown)


def test_only_the_board_itself_supports_a_goal_about_hardware() -> None:
    for origin, real in (("hardware", True), ("this machine", True), ("emulation", False), ("simulation", False)):
        found = evidence_of("real_comparison", of(a_run("a", origin=origin)))  # type: ignore[arg-type]
        assert (found is not None) == real, origin


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        ({"verdict": "identical"}, {"verdict": "differs"}, True),
        ({"verdict": "identical"}, {"verdict": "differs", "proof": False}, True),
        ({"verdict": "identical"}, {"verdict": "differs", "bundle": "another"}, False),
        ({"verdict": "identical"}, {"verdict": "within bound"}, False),
        ({"verdict": "identical"}, {"verdict": "differs", "model": "another"}, False),
        ({"verdict": "identical", "proof": True}, {"verdict": "identical"}, False),
    ],
)
def test_leaves_about_one_program_contradict_each_other(
    one: dict[str, Any], other: dict[str, Any], contradict: bool
) -> None:
    found = dict(contradictions(of(a_run("one", **one), a_run("other", **other))))
    assert set(found) == ({"one", "other"} if contradict else set())


def test_a_failed_leaf_fails_exactly_the_goals_above_it() -> None:
    def element(*supports: str, **more: Any) -> ElementEntry:
        return ElementEntry(text="t", label="l", supported_by=supports, **more)

    elements = {
        "G-1": element("S-1"), "S-1": element("G-2", "G-3", "G-4"), "G-2": element("Sn-a", "Sn-b"),
        "G-3": element("Sn-b"), "G-4": element(undeveloped=True), "Sn-a": element(leaf="a"), "Sn-b": element(leaf="b"),
    }  # fmt: skip
    leaves = {name: a_run(name).entry for name in "ab"}
    document = CaseDocument.model_construct(elements=elements, leaves=leaves)
    supported = dict.fromkeys(("G-2", "G-3", "Sn-a", "Sn-b"), "supported")
    assert document.states() == supported | dict.fromkeys(("G-1", "S-1", "G-4"), "undeveloped")
    emulated = document.model_copy(update={"leaves": leaves | {"a": a_run("a", origin="emulation").entry}})
    assert emulated.states() == document.states() | {"G-2": "emulated", "Sn-a": "emulated"}
    failed = {name for name, state in document.states({"a"}).items() if state == "failed"}
    assert failed == {"G-1", "S-1", "G-2", "Sn-a"}
    unchecked = {name for name, state in document.states((), {"a"}).items() if state == "not checked"}
    assert unchecked == failed
    assert document.leaves_below("G-2") == ["a", "b"]


def hybrid(folder: Path, decisions: str) -> Leaf:
    """A run of a hybrid model, which states its network and decision."""
    stated = json.dumps({"model_sha256": "m", "decisions_sha256": decisions})
    run = {
        "harness": {"version": "1", "revision": "r"}, "board": {"name": "x", "kind": "hardware"},
        "plan": {"items": [{"name": "all", "target": "c", "ran_on": "hardware"}]}, "bundle": {"sha256": "b"},
        "model": {"sha256": "h", "metadata": {"architecture": stated}}, "finished": "2026", "verdict": "identical",
    }  # fmt: skip
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(run))
    return read(folder, folder.parent)


def test_a_hybrid_item_is_evidence_for_its_network_and_its_decision_only(tmp_path: Path) -> None:
    leaf, plain = hybrid(tmp_path / "hybrid", "d"), a_run("plain")
    assert (leaf.entry.model_sha256, leaf.subject_sha256, leaf.entry.origin) == ("h", "m", "hardware")
    both = of(plain, leaf)
    assert evidence_of("safety_net", both) == (leaf, True)
    assert evidence_of("safety_net", of(plain)) is None
    assert evidence_of("comparison", both) == (plain, True)
    entry = plain.entry.model_copy(update={"kind": "decision"})
    for decided, wrong in (("d", set()), ("another", {"hybrid"})):
        decision = Leaf(Path("decision"), entry, SimpleNamespace(content={"decisions_sha256": decided}))
        assert {name for name, _ in contradictions(of(leaf, decision))} == wrong


CERTIFICATE = ROOT / "docs" / "evidence" / "decide" / "acas_coc.json"


def test_the_certificate_of_acas_coc_is_consistent() -> None:
    assert len(consistent(CERTIFICATE).slabs) == 241


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"first": 1,', '"first": 2,', "do not cover the domain once"),
        ('"code_vectors": 3093452141,', '"code_vectors": 3093452140,', "another number of code vectors"),
        ('"safe": 6891881', '"safe": 6891882', "counts are not the boxes"),
        ('"verdict": "violated"', '"verdict": "safe"', "verdict does not follow"),
        ('"slab_axis": 0,', "", "slab_axis"),
        ('"slab_axis": 0,', '"slab_axis": 5,', "has no axis 5"),
        ('"last": 240,', '"last": 999999999999,', "do not cover the domain|another number"),
    ],
)
def test_an_inconsistent_certificate_is_found(tmp_path: Path, old: str, new: str, error: str) -> None:
    text = CERTIFICATE.read_text()
    assert old in text
    (tmp_path / "c.json").write_text(text.replace(old, new, 1))
    with pytest.raises(RequestError, match=error):
        consistent(tmp_path / "c.json")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acas_coc"])
def test_the_counts_of_a_certificate_are_those_of_its_decisions(tmp_path: Path, name: str) -> None:
    source, network = CERTIFICATE.with_name(f"{name}.json"), load(ROOT / "models" / f"{name}.onnx")
    stated = read_stated(tmp_path, network, ROOT / "models" / f"{name}.property.yaml")
    document, decisions = certificate.read(source, stated)
    assert (document.counts.safe + document.counts.violated, decisions.size) == (7_356_800, 7_356_800)
    text = json.loads(source.read_text())
    text["counts"] |= {"safe": text["counts"]["safe"] + 1, "violated": text["counts"]["violated"] - 1}
    (tmp_path / source.name).write_text(json.dumps(text))
    with pytest.raises(RequestError, match=r"cannot read .*decisions\.xz"):
        certificate.read(tmp_path / source.name, stated)
    shutil.copy(source.with_suffix(certificate.PACKED), tmp_path)
    with pytest.raises(RequestError, match="its counts are not those of the decisions"):
        certificate.read(tmp_path / source.name, stated)
