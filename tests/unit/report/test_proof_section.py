from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as RichConsole

from harness.analysis.proof_document import ProofDocument
from harness.core.console import Console
from harness.report import html
from harness.report.proof_section import parts
from harness.report.terminal import show


def _claim(layer: str | None, **changes: Any) -> dict[str, Any]:
    return {
        "step": "requantization",
        "shows": "every sum becomes the right activation",
        "layer": layer,
        "answered_by": "program",
        "statement": "every reachable accumulator becomes the code of the specification",
        "method": "all integers",
        "cases": 1000,
        "complete": True,
        "holds": True,
        "counterexample": None,
        "time_s": 0.5,
    } | changes


CONSTANTS = {"shows": "the program holds the model's constants", "statement": "all bits", "step": "constants"}
BROKEN = {"holds": False, "counterexample": "column 2: 17 becomes 5, expected 4"}


@pytest.fixture
def proof() -> dict[str, Any]:
    claims = [_claim(None, **CONSTANTS), *(_claim(f"dense_{index}") for index in (1, 2, 3))]
    return {"schema": 1, "holds": True, "claims": claims, "assumptions": ["Silicon is <silicon>."], "wall_s": 2.0}


def test_without_a_proof_there_are_no_parts() -> None:
    assert parts(None) == ()


def test_claims_that_say_the_same_of_several_layers_are_one_line(proof: dict[str, Any]) -> None:
    constants, requantization = parts(ProofDocument.view(proof))
    assert (constants.shows, constants.lines[0].layers) == ("the program holds the model's constants", ())
    (line,) = requantization.lines
    assert (line.layers, line.cases, line.time_s) == (("dense_1", "dense_2", "dense_3"), 3000, 1.5)
    assert (line.complete, line.counterexamples) == (True, ())


def test_a_line_is_complete_only_if_all_its_claims_are(proof: dict[str, Any]) -> None:
    proof["claims"][2]["complete"] = False
    assert not parts(ProofDocument.view(proof))[1].lines[0].complete


def test_a_counterexample_is_shown_with_its_layer(proof: dict[str, Any]) -> None:
    proof["claims"][2] |= BROKEN
    assert parts(ProofDocument.view(proof))[1].lines[0].counterexamples == (
        "dense_2: column 2: 17 becomes 5, expected 4",
    )


def test_wrong_sums_that_no_vector_tells_apart_are_shown(identical: dict[str, Any], proof: dict[str, Any]) -> None:
    proof["claims"][2]["unseparated"] = ["the terms are added pairwise", "4 partial sums"]
    line = "Layer dense_2: no vector tells the specification from: the terms are added pairwise; 4 partial sums"
    assert line in told(identical | {"proof": proof, "reason": "all"})
    assert f"<p>{line}.</p>" in html(identical | {"proof": proof, "reason": "shown; all equal"})


REFERENCE = {"answered_by": "reference", "cases": 2**32, "time_s": 1.2}


def test_the_terminal_never_adds_up_cases_and_times_of_different_sides(
    identical: dict[str, Any], proof: dict[str, Any]
) -> None:
    """Three sides and a sample take 5.1 s together, in an elapsed time of 2.0 s."""
    sampled = _claim("dense_3", complete=False, cases=7, time_s=0.1)
    sanitizer = _claim(None, answered_by="another side", cases=50, time_s=1.8)
    proof["claims"] += [_claim("dense_1", **REFERENCE), sampled, sanitizer]
    lines = told(identical | {"proof": proof, "reason": "all"})
    rows = [re.split(r" {2,}", line.strip()) for line in lines if " every case " in line or " samples " in line]
    first, second = "the program holds the model's constants", "every sum becomes the right activation"
    assert rows == [
        [first, "program", "every case", "1,000", "0.5 s", "holds"],
        [second, "program", "every case", "3,000", "1.5 s", "holds"],
        ["reference", "every case", "4,294,967,296", "1.2 s", "holds"],
        ["program", "samples", "7", "0.1 s", "holds"],
        ["another side", "every case", "50", "1.8 s", "holds"],
    ]
    sides = "program: 4,007 cases in 2.1 s; reference: 4,294,967,296 cases in 1.2 s; another side: 50 cases in 1.8 s"
    effort = f"{sides}; these ran in parallel; elapsed 2.0 s"
    assert effort in lines
    assert f"{effort}." in html(identical | {"proof": proof, "reason": "all"})


def test_the_terminal_shows_what_does_not_hold_with_its_layer(identical: dict[str, Any], proof: dict[str, Any]) -> None:
    proof["claims"][2] |= BROKEN
    lines = told(identical | {"proof": proof | {"holds": False}, "verdict": "differs", "reason": "the proof fails"})
    assert [line.split("FAILS, ")[1] for line in lines if "FAILS" in line] == [
        "layer dense_2: column 2: 17 becomes 5, expected 4"
    ]


def told(document: dict[str, Any]) -> list[str]:
    """Return the lines that the terminal shows."""
    out = io.StringIO()
    console = RichConsole(file=out, width=200, highlight=False)
    show(
        document | {"coverage": {"text": ""}, "conformance": None},
        Path("report.html"),
        Console(console, console, as_json=False),
    )
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_page_shows_claims_and_assumptions(identical: dict[str, Any], proof: dict[str, Any]) -> None:
    page = html(identical | {"proof": proof, "reason": "shown for every input; all are identical"})
    assert "<h2>Proof</h2>" in page
    assert "Shown for every input." in page
    assert "every reachable accumulator becomes the code of the specification" in page
    assert "<code>dense_1</code> … <code>dense_3</code> (3)" in page
    assert "Silicon is &lt;silicon&gt;." in page
    assert "Does not hold" not in page


def test_the_page_shows_what_does_not_hold(identical: dict[str, Any], proof: dict[str, Any]) -> None:
    proof["claims"][2] |= BROKEN
    run = identical | {"proof": proof | {"holds": False}, "verdict": "differs", "reason": "the proof fails; all equal"}
    assert "Does not hold.</strong> dense_2: column 2: 17 becomes 5, expected 4" in html(run)


def test_a_refuted_proof_is_never_shown_as_identical(identical: dict[str, Any], proof: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the verdict is identical, but 0 layers differ and a claim"):
        html(identical | {"proof": proof | {"holds": False}, "reason": ""})


def test_a_run_without_a_proof_says_nothing_of_one(identical: dict[str, Any]) -> None:
    assert "Proof" not in html(identical)
