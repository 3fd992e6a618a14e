from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.outcome import Ending, Outcome
from harness.runs.history.night_record import Attempt, Entry, Health, Night, Result
from harness.runs.history.nights import Change, ChangeKind, Past, confirmed
from harness.runs.history.run_record import Run, State

ENTRY = Entry(0, "xavier", "acas_coc", "", "run", Outcome.IDENTICAL, 60.0)
SHORT = {"i": "identical", "d": "differs", "r": "regressed", "?": "inconclusive", "-": "not run", "v": "varies"}


def night(name: str, found: str, *, entry: Entry = ENTRY, ended: bool = True, quarantined: str | None = None) -> Night:
    """With one entry, which ended so; `.` is not yet."""
    outcome = Outcome(SHORT.get(found, "not run"))
    ending = Ending(outcome, f"because {name}", "network" if found == "?" else "")
    results = {} if found == "." else {0: Result(0, ending, (Attempt(1.0, 2.0, ending),), "run")}
    boards = {} if quarantined is None else {"xavier": Health("xavier", 1.0, quarantined)}
    return Night(Path(name), 1.0, 9.0 if ended else None, "nightly.yaml", "ab", (entry,), results, boards, {})


def changes(*found: str, last: Night | None = None) -> tuple[Change, ...]:
    """Of the last of these nights."""
    nights = [night(f"n{index}", one) for index, one in enumerate(found)] + ([last] if last else [])
    past = Past()
    for one in nights[:-1]:
        past.add(one)
    return past.changes(nights[-1])


@pytest.mark.parametrize(
    ("found", "kind", "before"),
    [
        ("id", ChangeKind.DIFFERS, "identical n0"),
        ("iiv", ChangeKind.DIFFERS, "identical n1"),
        ("ir", ChangeKind.REGRESSED, "identical n0"),
        ("rd", ChangeKind.DIFFERS, "regressed n0"),
        ("i?", ChangeKind.INCONCLUSIVE, "identical n0"),
        ("d?", ChangeKind.INCONCLUSIVE, "differs n0"),
        ("-?", ChangeKind.INCONCLUSIVE, "not run n0"),
        ("i-", ChangeKind.NOT_RUN, "identical n0"),
        ("di", ChangeKind.REPAIRED, "differs n0"),
        ("d?i", ChangeKind.REPAIRED, "differs n0"),
        ("i?i", ChangeKind.BACK, "identical n0"),
        ("i?d", ChangeKind.DIFFERS, "identical n0"),
        ("d", ChangeKind.DIFFERS, " "),
        ("?", ChangeKind.INCONCLUSIVE, " "),
    ],
)
def test_what_is_new(found: str, kind: ChangeKind, before: str) -> None:
    [change] = changes(*found)
    assert (change.kind, f"{change.before} {change.since}") == (kind, before)
    assert change.reason == f"because n{len(found) - 1}"
    assert change.entry == ENTRY


@pytest.mark.parametrize("found", ["i", "ii", "dd", "d?d", "??", "--", "d-d", "?i", "rr", "d-?d"])
def test_what_is_not_new(found: str) -> None:
    assert [
        change for change in changes(*found) if not change.kind.good and change.now != "inconclusive (network)"
    ] == []
    assert [change.kind for change in changes(*found)] in ([], [ChangeKind.INCONCLUSIVE])


def test_a_failure_between_two_wrong_results_repairs_nothing_and_makes_nothing_new() -> None:
    assert changes(*"d?d") == ()
    assert changes(*"d-d") == ()


def test_what_is_expected_is_no_change() -> None:
    wished = Entry(0, "xavier", "acas_coc", "", "run", Outcome.DIFFERS, 60.0)
    assert changes(last=night("a", "d", entry=wished)) == ()
    [change] = changes(*"i", last=night("b", "d", entry=wished))
    assert change.kind is ChangeKind.REPAIRED


def test_what_ought_to_differ_and_does_not_is_wrong() -> None:
    wished = Entry(0, "xavier", "acas_coc", "", "run", Outcome.DIFFERS, 60.0)
    [change] = changes(*"d", last=night("b", "i", entry=wished))
    assert change.kind is ChangeKind.DIFFERS
    assert changes(*"i", last=night("b", "i", entry=wished)) == ()  # nor was it the night before


def test_another_entry_is_another_thing() -> None:
    other = Entry(0, "xavier", "acas_coc", "c,c", "run", Outcome.IDENTICAL, 60.0)
    [change] = changes("d", last=night("b", "d", entry=other))
    assert (change.kind, change.before) == (ChangeKind.DIFFERS, "")


def test_what_may_still_come_has_not_changed() -> None:
    assert changes("i", last=night("b", ".", ended=False)) == ()
    [change] = changes("i", last=night("b", "."))
    assert (change.kind, change.reason) == (ChangeKind.NOT_RUN, "the night ended before its turn")


def boards(*reasons: str | None, found: str = "i") -> list[tuple[ChangeKind, str, str, str]]:
    past = Past()
    nights = [night(f"n{index}", found, quarantined=reason) for index, reason in enumerate(reasons)]
    for one in nights[:-1]:
        past.add(one)
    told = [change for change in past.changes(nights[-1]) if change.entry is None]
    return [(change.kind, change.reason, change.before, change.since) for change in told]


def test_boards_go_and_come_back() -> None:
    assert boards("hot") == [(ChangeKind.QUARANTINED, "hot", "in use", "")]
    assert boards("", "hot") == [(ChangeKind.QUARANTINED, "hot", "in use", "n0")]
    assert boards("hot", "") == [(ChangeKind.BACK, "", "quarantined: hot", "n0")]
    assert boards("hot", None, "") == [(ChangeKind.BACK, "", "quarantined: hot", "n0")]
    assert boards("hot", "cold") == []
    assert boards("", "") == []


def test_of_a_quarantined_board_one_line_is_enough() -> None:
    past = Past()
    past.add(night("n0", "i", quarantined=""))
    [change] = past.changes(night("n1", "-", quarantined="hot"))
    assert (change.kind, change.board) == (ChangeKind.QUARANTINED, "xavier")


def test_the_gravest_comes_first() -> None:
    entries = tuple(Entry(n, f"b{n}", "m", "", "run", Outcome.IDENTICAL, 60.0) for n in range(4))
    past = Past()
    past.add(_many("n0", entries, "iidi"))
    found = past.changes(_many("n1", entries, "?iid"))
    assert [(change.kind, change.board) for change in found] == [
        (ChangeKind.DIFFERS, "b3"),
        (ChangeKind.INCONCLUSIVE, "b0"),
        (ChangeKind.REPAIRED, "b2"),
    ]


def _many(name: str, entries: tuple[Entry, ...], found: str) -> Night:
    results = {n: Result(n, Ending(Outcome(SHORT[one]), "")) for n, one in enumerate(found)}
    return Night(Path(name), 1.0, 9.0, "f", "ab", entries, results, {}, {})


def still_wrong(*found: str, last: Night | None = None) -> list[tuple[str, str, str]]:
    """What was wrong before the last of these nights, since when, and what it is now."""
    nights = [night(f"n{index}", one) for index, one in enumerate(found)] + ([last] if last else [])
    past = Past()
    for one in nights[:-1]:
        past.add(one)
    return [(one.told, one.since, one.now.partition(":")[0]) for one in past.still_wrong(nights[-1])]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("dd", ("differs", "n0", "")),
        ("iddd", ("differs", "n1", "")),
        ("d?d", ("differs", "n0", "")),
        ("d??", ("differs", "n0", "now inconclusive (network)")),
        ("d--", ("differs", "n0", "now not run")),
        ("rd", ("differs", "n0", "")),
        ("r?", ("regressed", "n0", "now inconclusive (network)")),
    ],
)
def test_what_is_still_wrong_stays_in_sight(found: str, told: tuple[str, str, str]) -> None:
    assert still_wrong(*found) == [told]


@pytest.mark.parametrize("found", ["d", "id", "di", "d?i", "??", "i?", "dii"])
def test_what_is_not_still_wrong(found: str) -> None:
    assert still_wrong(*found) == []


def test_what_is_wrong_and_no_more_in_the_night_stays_in_sight() -> None:
    other = Entry(0, "xavier", "acas_wl", "", "run", Outcome.IDENTICAL, 60.0)
    assert still_wrong("d", last=night("b", "i", entry=other)) == [("differs", "n0", "not in this night")]
    assert still_wrong("d", last=night("b", ".", ended=False)) == [("differs", "n0", "now not run")]


RUN = Run("run", State.FINISHED, "identical", board="xavier", action="run")


@pytest.mark.parametrize(
    ("run", "outcome", "why"),
    [
        (None, "inconclusive", "its evidence is missing: runs/run"),
        (replace(RUN, board="kv260"), "inconclusive", "runs/run is a run on kv260"),
        (replace(RUN, action="prove"), "inconclusive", "runs/run is a prove on xavier"),
        (replace(RUN, verdict="differs", reason="7 differ"), "differs", "runs/run differs: 7 differ"),
        (
            replace(RUN, verdict="unreadable", board="", reason="cut"),
            "inconclusive",
            "runs/run reports unreadable: cut",
        ),
        (replace(RUN, verdict="unfinished", differs_so_far=True), "differs", "runs/run differs"),
    ],
)
def test_a_good_result_without_its_evidence_is_none(run: Run | None, outcome: str, why: str) -> None:
    found = confirmed(night("n", "i"), {"run": run} if run else {}).results[0].ending
    assert (found.outcome, why in found.reason) == (outcome, True), found.reason


@pytest.mark.parametrize("found", "idr?")
def test_a_result_that_its_evidence_bears_out_is_left_as_it_is(found: str) -> None:
    one = night("n", found)
    assert confirmed(one, {"run": RUN}) == one


def test_a_wrong_result_needs_no_evidence() -> None:
    assert confirmed(night("n", "d"), {}) == night("n", "d")
