from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.applications.nightly import result_parser
from harness.applications.nightly.result_parser import Said
from harness.applications.nightly.schedule import Cured
from harness.boards.locks.lease_guard import BoardBusy
from harness.boards.locks.ticket import Owner
from harness.core.outcome import Ending, Outcome
from harness.runs.document import inconclusive
from harness.runs.job import Request
from tests.support.locks.holder import board


def said(code: int, *last: str, **document: Any) -> Said:
    return Said(code, json.dumps(document), last)


def attempt(said: Said, *, differs_so_far: bool = False) -> Ending:
    return result_parser.attempt(said, "30m", differs_so_far=differs_so_far)


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("identical", 0),
        ("measured", 0),
        ("valid", 0),
        ("not valid", 1),
        ("within bound", 1),
        ("differs", 1),
        ("varies", 1),
        ("regressed", 1),
    ],
)
def test_a_verdict_is_taken_as_it_is(verdict: str, code: int) -> None:
    assert attempt(said(code, verdict=verdict, reason="why")) == Ending(Outcome(verdict), "why")


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("identical", 1), ("within bound", 0), ("differs", 0), ("identical", 3), ("inconclusive", 0), ("fine", 0)],
)
def test_a_verdict_that_its_exit_code_contradicts_is_none(verdict: str, code: int) -> None:
    ending = attempt(said(code, "noted", verdict=verdict, reason="why"))
    assert ending.part == "tool"
    assert ending.reason == f"harness reported {verdict} and ended with exit code {code}, last output: noted"


def test_the_exit_code_of_an_accepted_verdict_is_0() -> None:
    document = {"verdict": "within bound", "reason": "all hold", "accepted": "within bound"}
    assert attempt(said(0, **document)) == Ending(Outcome.WITHIN_BOUND, "all hold")
    assert attempt(said(1, **document)).part == "tool"


@pytest.mark.parametrize(
    ("unit", "because", "reason"),
    [
        ("ns", "", "median 5 ns"),
        ("ns", "a virtual machine", "median 5 ns, not MET"),
        ("instructions", "x", "median 5 ns"),
    ],
)
def test_times_that_are_not_met_are_called_so(unit: str, because: str, reason: str) -> None:
    measured = {"unit": unit, "not_met_because": because}
    ending = attempt(said(0, verdict="measured", reason="median 5 ns", measured=measured))
    assert ending == Ending(Outcome.MEASURED, reason)


@pytest.mark.parametrize("part", ["board", "network", "tool", "reference"])
def test_what_failed_is_told(part: str) -> None:
    document = {"verdict": "inconclusive", "part": part, "reason": f"{part}: it is gone"}
    assert attempt(said(3, **document)) == Ending(Outcome.INCONCLUSIVE, "it is gone", part)


def test_a_counter_that_is_not_exact_is_the_boards() -> None:
    assert attempt(said(3, verdict="inconclusive", reason="counts")).part == "board"


def test_what_could_not_have_its_board_says_who_has_it(tmp_path: Path) -> None:
    """As the real commands say it."""
    with board(tmp_path, "soldering", 0), pytest.raises(BoardBusy) as caught, board(tmp_path, "run", 0):
        pass
    who = f"board xavier is in use by {Owner.me('soldering')} since "
    for document in (
        {"error": caught.value.message} | caught.value.details,
        inconclusive(Request("xavier", "acas_coc"), caught.value),
    ):
        assert result_parser.busy(said(3, **document), "xavier").startswith(who)
        assert result_parser.busy(said(2, **document), "xavier") == ""
        assert result_parser.busy(said(3, **document | {"differs_so_far": True}), "xavier") == ""
    assert result_parser.busy(said(3, reason="network: cut"), "xavier") == ""
    checked = [{"board": "xavier", "ok": False, "in_use": who}, {"board": "kv260", "ok": True, "in_use": ""}]
    assert result_parser.busy(said(3, boards=checked), "xavier") == who
    assert result_parser.busy(said(3, boards=checked), "kv260") == ""
    assert (
        result_parser.busy(said(3, boards=7), "xavier") == result_parser.busy(said(3, boards=[7, {}]), "xavier") == ""
    )


def test_a_limit_is_the_boards_and_told_with_the_last_words() -> None:
    ending = attempt(Said(124, "", ("connected", "waiting")))
    assert ending == Ending(
        Outcome.INCONCLUSIVE, "not finished within its limit of 30m, last output: connected / waiting", "board"
    )


def test_a_wrong_request_is_loud_and_no_failure_of_the_board() -> None:
    ending = attempt(said(2, error="unknown board 'xavir'", hint="did you mean xavier?"))
    assert ending.part == "tool"
    assert ending.reason == "THE REQUEST IS INVALID, nothing was run: unknown board 'xavir'; did you mean xavier?"
    assert "Error: no such option" in attempt(Said(2, "", ("Error: no such option",))).reason


@pytest.mark.parametrize(
    ("code", "out", "told"),
    [
        (4, "", "exit code 4 without a verdict, last output: error: this is a bug"),
        (-9, "", "ended with signal 9"),
        (128 + 9, "", "ended with signal 9"),
        (0, "", "exit code 0 without"),
        (0, "[]", "exit code 0 without"),
        (0, "{} {}", "exit code 0 without"),
        (0, "[" * 10_000, "exit code 0 without"),
        (0, "1" * 10_000, "exit code 0 without"),
    ],
)
def test_whatever_else_a_command_does_is_the_tools(code: int, out: str, told: str) -> None:
    ending = attempt(Said(code, out, ("error: this is a bug",)))
    assert (ending.outcome, ending.part) == (Outcome.INCONCLUSIVE, "tool")
    assert told in ending.reason


@pytest.mark.parametrize("code", [2, 3, 4, 124, -9])
def test_what_differs_so_far_differs_whatever_stopped_it(code: int) -> None:
    ending = attempt(said(code, verdict="inconclusive", part="network", reason="network: cut"), differs_so_far=True)
    assert ending.outcome is Outcome.DIFFERS
    assert ending.reason.startswith("activations differ so far; then the run stopped: ")
    by_itself = attempt(said(3, verdict="inconclusive", part="board", reason="board: x", differs_so_far=True))
    assert by_itself == Ending(Outcome.DIFFERS, "activations differ so far; then the run stopped: x")


def test_what_was_begun_and_is_refused_is_told_as_that() -> None:
    refused = result_parser.attempt(
        said(2, error="another bundle", hint="new"), "30m", differs_so_far=False, resumes=True
    )
    assert refused.reason == "the unfinished run cannot be resumed: another bundle; new"


@pytest.mark.parametrize("ending", [Ending(Outcome.IDENTICAL, "all"), Ending(Outcome.INCONCLUSIVE, "cut", "network")])
def test_a_chunk_that_is_done_again_takes_nothing_back(ending: Ending) -> None:
    seen = result_parser.with_seen(ending, differed=True)
    assert (seen.outcome, seen.part) == (Outcome.DIFFERS, "")
    assert seen.reason.startswith("activations differ so far; ")
    assert seen.reason.endswith(f": {ending.reason}")
    assert result_parser.with_seen(ending, differed=False) == ending
    assert result_parser.with_seen(seen, differed=True) == seen


def test_nothing_is_good_without_its_evidence() -> None:
    good, bad = Ending(Outcome.IDENTICAL, "all"), Ending(Outcome.DIFFERS, "one")
    assert result_parser.settled(good, {"verdict": "identical"}) == good
    for run in (None, {}, {"verdict": "differs"}):
        assert result_parser.settled(good, run) == Ending(
            Outcome.INCONCLUSIVE, "harness reported identical, but its run.json does not", "tool"
        )
        assert result_parser.settled(bad, run) == bad
    valid = Ending(Outcome.VALID, "5 leaves are valid")
    assert result_parser.settled(valid, None) == valid, "the evidence of a case is the case"


def test_a_check_says_of_one_board_whether_it_is_fit() -> None:
    fit, sick = ({"board": "b", "ok": ok, "part": "network", "reason": "no route"} for ok in (True, False))
    assert result_parser.check(said(0, boards=[fit]), "b") == Cured()
    assert result_parser.check(said(3, boards=[sick]), "b") == Cured("no route")
    for contradiction in (said(3, boards=[fit]), said(0, boards=[sick]), said(0, boards=[]), said(0, boards=[fit] * 2)):
        assert result_parser.check(contradiction, "b").hopeless
    assert result_parser.check(said(0, boards=[fit]), "other").hopeless
    assert "gone mad" in result_parser.check(Said(4, "", ("gone mad",)), "b").sick
    assert result_parser.check(Said(124, "", ("booting",)), "b").sick.endswith(
        "not finished in time, last output: booting"
    )


def test_a_cycle_may_work_fail_or_be_impossible() -> None:
    assert result_parser.cycle(said(0)) == Cured()
    assert result_parser.cycle(said(2, error="no switch")) == Cured("", hopeless=True)
    assert result_parser.cycle(said(3, error="no answer")) == Cured("its power cycle failed: no answer", hopeless=True)
