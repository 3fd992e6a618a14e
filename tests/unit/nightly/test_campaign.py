from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.compare import NOTHING
from harness.core.outcome import Ending, Outcome
from harness.nightly import record, schedule
from harness.nightly.campaign import INTERRUPTED, Campaign, abandoned, resumed
from harness.nightly.job_commands import QUEUE_S
from harness.nightly.previous_nights import Past
from harness.nightly.record import Action, Begun, Entry, Night
from harness.nightly.schedule import Rules
from harness.runs.folder import ChunkRecord, RunFolder
from tests.support.identities import HOST
from tests.support.nightly.simulated import Answer, Command, Nobody, Simulated, commands, well

RULES = Rules(parallel=4, retries=1, until_s=None, until="", local=frozenset({"host"}))
LOST = Answer("inconclusive", "network", took_s=60.0)


def cells(boards: Sequence[str], models: Sequence[str], action: Action = "run") -> tuple[Entry, ...]:
    expect = Outcome.MEASURED if action == "measure" else Outcome.IDENTICAL
    pairs = enumerate(itertools.product(boards, models))
    return tuple(Entry(number, board, model, "", action, expect, 3600.0) for number, (board, model) in pairs)


@pytest.fixture(autouse=True)
def _no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept need not reach the disk: that takes three milliseconds each time."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


class Script:
    """All is well but for what is said of a board, attempt by attempt, check by check."""

    def __init__(self, **answers: Sequence[Answer]) -> None:
        self.left = {name: list(given) for name, given in answers.items()}

    def __call__(self, command: Command) -> Answer:
        kind = command.name.removeprefix("boards ") if command.name.startswith("boards") else "run"
        for name in (f"{command.board}_{kind}", kind):
            if self.left.get(name):
                return self.left[name].pop(0)
        return well(command)


def begin(runs: Path, entries: tuple[Entry, ...], name: str = "night") -> Night:
    return record.create(runs / "nights" / name, 1_000_000.0, "nightly.yaml", "ab", entries)


def campaign(night: Night, simulated: Simulated, rules: Rules = RULES, past: Past | None = None) -> Campaign:
    runs = night.folder.parents[1]
    return resumed(night, rules, commands(runs, night.name, past), simulated, Nobody())


def carry_out(night: Night, behave: Script, rules: Rules = RULES, past: Past | None = None) -> tuple[Night, Simulated]:
    simulated = Simulated(behave)
    campaign(night, simulated, rules, past).carry_out()
    record.end(night.folder, simulated.clock_s)
    return record.read(night.folder), simulated


def names(simulated: Simulated) -> list[str]:
    return [f"{command.board} {command.name}" for command in simulated.seen]


def test_a_night_of_two_boards(tmp_path: Path) -> None:
    night, simulated = carry_out(begin(tmp_path, cells(["a", "b"], ["x", "y"])), Script())
    assert names(simulated) == ["a boards check", "b boards check", "a run", "b run", "a run", "b run"]
    assert night.surprises() == []
    assert [night.results[number].run for number in range(4)] == [
        "night-000_a_x", "night-001_a_y", "night-002_b_x", "night-003_b_y"
    ]  # fmt: skip
    assert night.boards.keys() == {"a", "b"}
    assert simulated.most == 2
    assert simulated.clock_s == 1_000_000.0 + 5 + 2 * 600
    [attempt] = night.results[3].attempts
    assert (attempt.began_s, attempt.ended_s) == (1_000_605.0, 1_001_205.0)


def test_lost_connections_are_tried_again_in_the_same_folder_and_counted(tmp_path: Path) -> None:
    night, simulated = carry_out(begin(tmp_path, cells(["a"], ["x"])), Script(a_run=[LOST]))
    assert names(simulated) == ["a boards check", "a run", "a boards check", "a run"]
    assert simulated.seen[1].options["run_folder"] == str(tmp_path / "night-000_a_x")
    assert simulated.seen[3].options["resume"] == tmp_path / "night-000_a_x"
    result = night.results[0]
    assert (result.ending.outcome, result.retries) == (Outcome.IDENTICAL, 1)
    assert [str(attempt.ending) for attempt in result.attempts] == ["inconclusive (network)", "identical"]


def test_a_measurement_is_not_resumed(tmp_path: Path) -> None:
    night, simulated = carry_out(begin(tmp_path, cells(["a"], ["x"], "measure")), Script(a_run=[LOST]))
    folders = [Path(one.options["run_folder"]).name for one in simulated.seen if one.name == "measure"]
    assert folders == ["night-000_a_x", "night-000_a_x_2"]
    assert night.results[0].run == "night-000_a_x_2"


@pytest.mark.parametrize("part", ["tool", "reference"])
def test_what_fails_the_same_way_again_is_not_tried_again(tmp_path: Path, part: str) -> None:
    night, simulated = carry_out(begin(tmp_path, cells(["a"], ["x"])), Script(a_run=[Answer("inconclusive", part)]))
    assert names(simulated) == ["a boards check", "a run"]
    assert str(night.results[0].ending) == f"inconclusive ({part})"


@pytest.mark.slow
def test_no_sequence_of_attempts_makes_identical_of_differs(tmp_path: Path) -> None:
    """All sequences of four, as a whole night with all that it keeps."""
    failed = [LOST, Answer("inconclusive", "board"), Answer("inconclusive", "tool"), Answer(code=4)]
    seen = Answer("inconclusive", "network", differs_so_far=True)
    sequences = list(itertools.product([*failed, seen, Answer("differs"), Answer("identical")], repeat=3))
    entries = cells([f"b{index}" for index in range(len(sequences))], ["x"])
    script = Script(**{f"b{index}_run": list(sequence) for index, sequence in enumerate(sequences)})
    night, _ = carry_out(begin(tmp_path, entries), script, Rules(400, 2, None, "", frozenset()))
    for index, sequence in enumerate(sequences):
        result = night.results[index]
        used = sequence[: len(result.attempts)]
        wrong = any(answer.verdict == "differs" or answer.differs_so_far for answer in used)
        assert (result.ending.outcome is Outcome.DIFFERS) == wrong
        assert (result.ending.outcome is Outcome.IDENTICAL) == (
            used[-1].verdict == "identical" and used[-1].code is None
        )
        assert not any(attempt.ending.outcome.final for attempt in result.attempts[:-1])


def test_what_chunks_show_counts_even_if_the_command_was_killed(tmp_path: Path) -> None:
    """At its limit a command says nothing of what it has found."""

    def behave(command: Command) -> Answer:
        if command.name == "run":
            wrong = NOTHING.__class__(**{**NOTHING.__dict__, "compared": 5, "differing": 1})
            folder = RunFolder(Path(command.options["run_folder"]))
            (folder.path / "chunks").mkdir()
            folder.write_chunk(ChunkRecord(0, 0, 5, (wrong,), ("",), ("",), (), ()), HOST)
            return Answer(took_s=1e9)
        return well(command)

    simulated = Simulated(behave)
    night = begin(tmp_path, cells(["a"], ["x"]))
    campaign(night, simulated).carry_out()
    ending = record.read(night.folder).results[0].ending
    assert ending.outcome is Outcome.DIFFERS
    assert ending.reason.endswith("not finished within its limit of 1h, last output: last words")


def test_a_run_that_was_finished_has_its_verdict_whatever_became_of_its_command(tmp_path: Path) -> None:
    def behave(command: Command) -> Answer:
        if command.name == "run":
            (Path(command.options["run_folder"]) / "run.json").write_text('{"verdict": "identical", "reason": "all"}')
            return Answer(code=-9)
        return well(command)

    night = begin(tmp_path, cells(["a"], ["x"]))
    campaign(night, Simulated(behave)).carry_out()
    assert record.read(night.folder).results[0].ending == Ending(Outcome.IDENTICAL, "all")


def test_a_board_that_fails_its_check_is_quarantined_and_the_rest_goes_on(tmp_path: Path) -> None:
    sick = Answer("inconclusive", "network", took_s=60.0, reason="no route")
    no_switch = Answer(code=2, took_s=1.0)
    script = Script(a_check=[sick], a_cycle=[no_switch])
    night, simulated = carry_out(begin(tmp_path, cells(["a", "b"], ["x", "y"])), script)
    assert "a run" not in names(simulated)
    assert night.boards["a"].quarantined == "no route"
    assert night.boards["b"].quarantined == ""
    assert [night.results[number].ending for number in (0, 1)] == [
        Ending(Outcome.NOT_RUN, "board a is quarantined: no route")
    ] * 2
    assert [night.results[number].ending.outcome for number in (2, 3)] == [Outcome.IDENTICAL] * 2


def test_a_board_that_comes_back_after_a_power_cycle_goes_on(tmp_path: Path) -> None:
    sick = Answer("inconclusive", "board", took_s=60.0, reason="no answer")
    night, simulated = carry_out(begin(tmp_path, cells(["a"], ["x"])), Script(a_check=[sick]))
    assert names(simulated) == ["a boards check", "a boards cycle", "a boards check", "a run"]
    assert night.surprises() == []


# Boards that somebody outside the night has


def test_a_board_that_somebody_has_is_waited_for_while_others_work(tmp_path: Path) -> None:
    simulated, watcher = Simulated(well), Nobody()

    def holder(board: str) -> str:
        assert board not in simulated.running
        return "ana has a" if board == "a" and simulated.clock_s < 1_003_000.0 else ""

    night = begin(tmp_path, cells(["a", "b"], ["x", "y"]))
    rules = dataclasses.replace(RULES, parallel=1)
    resumed(night, rules, commands(tmp_path, night.name), simulated, watcher, holder).carry_out()
    assert names(simulated) == ["b boards check", "b run", "b run", "a boards check", "a run", "a run"]
    assert watcher.awaits == [{}, {"a": "ana has a"}, {}]
    ended = record.read(night.folder)
    assert (ended.surprises(), ended.boards["a"].quarantined) == ([], "")
    assert [result.retries for result in ended.results.values()] == [0] * 4
    assert simulated.clock_s == pytest.approx(1_003_000.0 + 5 + 2 * 600, abs=2.0)


def test_a_board_that_stays_somebody_elses_is_no_failure(tmp_path: Path) -> None:
    simulated = Simulated(well)
    night = begin(tmp_path, cells(["a", "b"], ["x"]))
    given = (commands(tmp_path, night.name), simulated, Nobody())
    resumed(night, RULES, *given, lambda board: "ana has a" * (board == "a")).carry_out()
    ended = record.read(night.folder)
    assert ended.results[0].ending == Ending(Outcome.NOT_RUN, "ana has a; the night could not lock it for 1h")
    assert (ended.results[1].ending.outcome, "a" in ended.boards) == (Outcome.IDENTICAL, False)
    assert simulated.clock_s == pytest.approx(1_003_600.0, abs=3.0)


def test_a_board_whose_entries_have_ended_is_not_shown_as_waited_for(tmp_path: Path) -> None:
    """While others come to their end."""
    simulated, shown = Simulated(well), {}

    class Clocked(Nobody):
        def awaited(self, taken: Mapping[str, str]) -> None:
            shown[simulated.clock_s] = dict(taken)

    night = begin(tmp_path, cells(["a", "b"], ["x"]))
    given = (commands(tmp_path, night.name), simulated, Clocked())
    rules = dataclasses.replace(RULES, until_s=1_000_060.0, until="06:00")
    resumed(night, rules, *given, lambda board: "ana has a" * (board == "a")).carry_out()
    assert shown[1_000_000.0] == {"a": "ana has a"}
    assert [at_s for at_s, taken in shown.items() if not taken] == [pytest.approx(1_000_060.0, abs=2.0), 1_000_605.0]


ANA = "board a is in use by ana"
QUICKER = Answer("inconclusive", "board", took_s=60.0, reason=f"{ANA}; not free after 60 s", in_use=ANA)


@pytest.mark.parametrize("action", ["run", "measure"])
def test_where_somebody_was_quicker_nothing_was_tried(tmp_path: Path, action: Action) -> None:
    """After the look, before the command stood in the queue."""
    night, simulated = carry_out(begin(tmp_path, cells(["a"], ["x"], action)), Script(a_run=[QUICKER] * 5))
    assert names(simulated) == ["a boards check", *[f"a {action}"] * 6]
    assert (night.results[0].retries, night.surprises()) == (0, [])
    assert simulated.clock_s == pytest.approx(1_000_005.0 + 5 * (60 + schedule.REFUSED_S) + 600, abs=10.0)
    assert [path.name for path in tmp_path.glob("night-*")] == ["night-000_a_x"]


def test_boards_that_are_refused_in_turns_do_not_keep_a_night_from_its_end(tmp_path: Path) -> None:
    """On other hosts: each may be tried again while the only job stands in the queue for the other."""
    night = begin(tmp_path, cells(["a", "b"], ["x"]))
    script = Script(a_run=[QUICKER] * 99, b_run=[QUICKER] * 99)
    ended, simulated = carry_out(night, script, dataclasses.replace(RULES, parallel=1))
    assert [str(result.ending) for result in ended.results.values()] == ["not run"] * 2
    assert simulated.clock_s - 1_000_000.0 < 3 * schedule.LONGEST_WAIT_S


@pytest.mark.parametrize("action", ["run", "measure"])
def test_what_stands_in_the_queue_for_its_board_loses_nothing_of_its_limit(tmp_path: Path, action: Action) -> None:
    night = begin(tmp_path, cells(["a"], ["x"], action))
    late = dataclasses.replace(well(Command(action, "a", {})), took_s=3600.0 + QUEUE_S)
    assert carry_out(night, Script(a_run=[late]))[0].surprises() == []


def test_a_difference_is_not_forgotten_because_somebody_was_quicker(tmp_path: Path) -> None:
    seen = dataclasses.replace(QUICKER, differs_so_far=True)
    night, _ = carry_out(begin(tmp_path, cells(["a"], ["x"])), Script(a_run=[seen]))
    assert night.results[0].ending.outcome is Outcome.DIFFERS


def test_a_board_in_use_is_neither_checked_nor_switched_off_nor_quarantined(tmp_path: Path) -> None:
    """Its holder may be restarting it: no SSH server answers."""
    in_use = Answer("inconclusive", "board", took_s=5.0, reason="reachable: no SSH server answers", in_use=ANA)
    sick = Answer("inconclusive", "board", took_s=5.0, reason="no answer")
    script = Script(a_check=[in_use, sick, in_use], a_cycle=[QUICKER])
    night, simulated = carry_out(begin(tmp_path, cells(["a"], ["x"])), script)
    steps = ["check", "check", "cycle", "cycle", "check", "check"]
    assert names(simulated) == [*(f"a boards {step}" for step in steps), "a run"]
    assert (night.boards["a"].quarantined, night.surprises()) == ("", [])


def test_a_night_that_is_killed_while_it_waits_goes_on(tmp_path: Path) -> None:
    night = begin(tmp_path, cells(["a"], ["x"]))
    carry_out(night, Script(a_run=[QUICKER]), dataclasses.replace(RULES, until_s=1_000_080.0, until="06:00"))
    [path] = (night.folder / "begun").iterdir()
    assert record.read(night.folder).results[0].ending == Ending(
        Outcome.NOT_RUN, "it is after 06:00; board a is in use by ana"
    )
    (night.folder / "entries" / path.name).unlink()
    (night.folder / "ended.json").unlink()
    assert record.read(night.folder).begun[0].began_s is None, "it does not count as interrupted"


def test_a_measurement_of_this_machine_runs_alone(tmp_path: Path) -> None:
    entries = (*cells(["a", "b"], ["x"]), Entry(2, "host", "x", "", "measure", Outcome.MEASURED, 3600.0))
    beside = []

    def behave(command: Command) -> Answer:
        if command.name == "measure":
            beside.append(dict(simulated.running))
        return well(command)

    simulated = Simulated(behave)
    campaign(begin(tmp_path, entries), simulated).carry_out()
    assert beside == [{}]
    assert names(simulated)[:2] == ["host boards check", "host measure"]


def test_a_measurement_is_compared_with_the_last_of_its_key(tmp_path: Path) -> None:
    entries = (Entry(0, "a", "x", "", "measure", Outcome.MEASURED, 3600.0, (), 2),)
    compared = []
    for count in range(4):
        answer = [Answer("regressed")] if count == 1 else []
        night, simulated = carry_out(
            begin(tmp_path, entries, f"night{count}"), Script(a_run=answer), past=Past.read(tmp_path)
        )
        compared.append([path.name for path in simulated.seen[-1].options["against"]])
        assert night.ended_s
    assert compared == [[], ["night0-000_a_x"], ["night0-000_a_x"], ["night2-000_a_x", "night0-000_a_x"]]


def wrong(folder: Path) -> None:
    """A finished chunk of a run in which something differs."""
    (folder / "chunks").mkdir(parents=True, exist_ok=True)
    (folder / "request.json").write_text("{}")
    differing = dataclasses.replace(NOTHING, compared=5, differing=1)
    RunFolder(folder).write_chunk(ChunkRecord(0, 0, 5, (differing,), ("",), ("",), (), ()), HOST)


def interrupted(runs: Path, action: Action = "run", **begun: Any) -> Night:
    """A night that was killed in the midst of its only entry, whose run can be gone on with."""
    night = begin(runs, cells(["a"], ["x"], action))
    (runs / "night-000_a_x").mkdir()
    (runs / "night-000_a_x" / "request.json").write_text("{}")
    record.keep_begun(night.folder, Begun(0, (), 1_000_000.0, "night-000_a_x", **begun))
    return record.read(night.folder)


def going_on(night: Night, behave: Callable[[Command], Answer], rules: Rules = RULES) -> tuple[Night, Simulated]:
    simulated = Simulated(behave, folders={str(night.folder.parents[1] / "night-000_a_x"): "a"})
    campaign(night, simulated, rules).carry_out()
    return record.read(night.folder), simulated


REFUSED = Answer(code=2, took_s=1.0)


def test_a_run_whose_sources_have_changed_is_begun_anew_and_that_is_told(tmp_path: Path) -> None:
    night, simulated = going_on(interrupted(tmp_path), Script(a_run=[REFUSED, LOST]))
    given = [
        one.options.get("resume") or Path(one.options["run_folder"]) for one in simulated.seen if one.name == "run"
    ]
    assert [path.name for path in given] == ["night-000_a_x", "night-000_a_x_2", "night-000_a_x_2"]
    assert simulated.seen[-1].options["resume"], "its second attempt goes on in the new folder"
    result = night.results[0]
    assert [str(attempt.ending) for attempt in result.attempts] == [
        "inconclusive (tool)", "inconclusive (network)", "identical"
    ]  # fmt: skip
    assert result.attempts[0].ending.reason.startswith("the unfinished run cannot be resumed: ")
    assert (result.ending.outcome, result.run) == (Outcome.IDENTICAL, "night-000_a_x_2")


def test_a_wrong_request_is_not_begun_anew_for_ever(tmp_path: Path) -> None:
    night, simulated = going_on(interrupted(tmp_path), Script(a_run=[REFUSED] * 9))
    assert names(simulated) == ["a boards check", "a run", "a run"]
    assert night.results[0].ending.reason.startswith("THE REQUEST IS INVALID")


def test_what_is_refused_after_it_showed_a_difference_differs(tmp_path: Path) -> None:
    night = interrupted(tmp_path)
    wrong(tmp_path / "night-000_a_x")
    ended, simulated = going_on(night, Script(a_run=[REFUSED]))
    assert names(simulated) == ["a boards check", "a run"]
    assert ended.results[0].ending.outcome is Outcome.DIFFERS


def test_what_is_refused_and_cannot_be_read_is_not_begun_anew(tmp_path: Path) -> None:
    """It may have shown a difference."""
    night = interrupted(tmp_path)
    wrong(tmp_path / "night-000_a_x")
    (tmp_path / "night-000_a_x" / "chunks" / "00000.json").write_text('{"of": "another version"}')
    ended, simulated = going_on(night, Script(a_run=[REFUSED]))
    assert names(simulated) == ["a boards check", "a run"]
    assert str(ended.results[0].ending) == "inconclusive (tool)"


def test_a_difference_outlives_its_damaged_chunk(tmp_path: Path) -> None:
    """A power cut takes its dumps, the chunk is done again, and the board, which is not always wrong, is right."""
    night = interrupted(tmp_path)
    wrong(tmp_path / "night-000_a_x")

    def behave(command: Command) -> Answer:
        if command.name == "run":
            (tmp_path / "night-000_a_x" / "chunks" / "00000.json").unlink()
        return well(command)

    ended, _ = going_on(night, behave)
    assert ended.results[0].ending == Ending(
        Outcome.DIFFERS, "activations differ so far; the repetition was identical: as simulated"
    )


@pytest.mark.parametrize("why", ["late", "quarantined", "nobody goes on"])
def test_a_difference_is_not_lost_where_its_night_is_not_gone_on_with(tmp_path: Path, why: str) -> None:
    night = interrupted(tmp_path)
    wrong(tmp_path / "night-000_a_x")
    if why == "nobody goes on":
        [result] = abandoned(night, tmp_path)
        record.keep_result(night.folder, result)
        ended = record.read(night.folder)
    else:
        until_s = 1.0 if why == "late" else None
        script = Script(a_check=[Answer(code=4)])
        ended, simulated = going_on(night, script, dataclasses.replace(RULES, until_s=until_s, until="06:00"))
        assert "a run" not in names(simulated)
    assert ended.results[0].ending.outcome is Outcome.DIFFERS
    assert ended.results[0].run == "night-000_a_x"


def test_a_verdict_is_not_lost_where_nobody_goes_on(tmp_path: Path) -> None:
    night = interrupted(tmp_path)
    assert list(abandoned(night, tmp_path)) == []
    run = tmp_path / "night-000_a_x" / "run.json"
    run.write_text('{"verdict": "differs", "reason": "one"}')
    for written_s, ended_s in ((1_000_060.0, 1_000_060.0), (5.0, 1_000_000.0)):  # the clock was set back
        os.utime(run, (written_s, written_s))
        [result] = abandoned(night, tmp_path)
        assert (result.ending, result.run) == (Ending(Outcome.DIFFERS, "one"), "night-000_a_x")
        assert result.attempts == (record.Attempt(1_000_000.0, ended_s, result.ending),)


def test_a_measurement_that_came_to_nothing_when_its_night_was_killed_is_tried_again(tmp_path: Path) -> None:
    night = interrupted(tmp_path, "measure")
    run = tmp_path / "night-000_a_x" / "run.json"
    run.write_text('{"verdict": "inconclusive", "reason": "counter"}')
    os.utime(run, (1_000_060.0, 1_000_060.0))
    ended, _ = going_on(night, Script())
    assert [str(attempt.ending) for attempt in ended.results[0].attempts] == ["inconclusive (board)", "measured"]
    assert ended.results[0].run == "night-000_a_x_2"


def test_what_takes_the_machine_down_each_time_is_not_gone_on_with_for_ever(tmp_path: Path) -> None:
    """Its night is gone on with after every reboot; one that ends elsewhere does not count."""
    night, times = interrupted(tmp_path), 1
    while times < 9:
        campaign(night, Simulated(well))  # interrupted before it comes to its turn
        killed = campaign(record.read(night.folder), Simulated(Script(a_run=[Answer(code=-9)]), folders={
            str(tmp_path / "night-000_a_x"): "a"
        }))  # fmt: skip
        with suppress(Killed), pytest.MonkeyPatch.context() as patch:
            patch.setattr(killed, "_end_attempt", died)
            killed.carry_out()
            break
        night, times = record.read(night.folder), times + 1
    assert times == INTERRUPTED + 1
    ending = record.read(night.folder).results[0].ending
    assert ending.part == "tool"
    assert ending.reason.startswith(f"{INTERRUPTED + 1} interruptions of the night during this entry")


def died(*_given: object) -> str:
    raise Killed


def test_what_is_too_late_is_told_so_also_where_the_hour_strikes_just_then(tmp_path: Path) -> None:
    class Striking(Simulated):
        def now_s(self) -> float:
            self.clock_s += 10.0
            return self.clock_s

    night, simulated = begin(tmp_path, cells(["a"], ["x"])), Striking(well)
    campaign(night, simulated, dataclasses.replace(RULES, until_s=1_000_015.0, until="06:00")).carry_out()
    assert record.read(night.folder).results[0].ending == Ending(Outcome.NOT_RUN, "it is after 06:00")


class Killed(Exception):
    """As if by SIGKILL: nothing more is written."""


@pytest.mark.slow
@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_night_that_is_killed_at_any_moment_goes_on_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    """At each thing that it writes, before or after; then gone on with to its end."""
    entries = (*cells(["a", "b"], ["x", "y"]), Entry(4, "b", "x", "", "measure", Outcome.MEASURED, 3600.0))
    write, moments = record.write_json, 0
    for moments in itertools.count(1):
        runs, left = tmp_path / str(moments), iter(range(moments, -1, -1))

        def dying(path: Path, document: Mapping[str, Any], left: Iterator[int] = left) -> None:
            last = next(left, 1) == 0
            if written or not last:
                write(path, document)
            if last:
                raise Killed

        night = begin(runs, entries)
        killed = Simulated(Script(a_run=[LOST]))
        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(record, "write_json", dying)
            campaign(night, killed).carry_out()
            break  # it came to its end before
        going_on = Simulated(well, killed.clock_s + 60, folders=killed.folders)
        campaign(record.read(night.folder), going_on).carry_out()
        ended = record.read(night.folder)
        assert ended.results.keys() == {0, 1, 2, 3, 4}
        assert ended.surprises() == []
        assert [Path(ended.results[number].run).name.split("_")[1] for number in range(5)] == list("aabbb")
        verdicts = [*killed.ended, *going_on.ended]
        assert len(verdicts) == len(set(verdicts)) == 5
    assert moments > 12


def test_a_run_that_was_finished_when_the_night_was_killed_is_taken_over(tmp_path: Path) -> None:
    night = begin(tmp_path, cells(["a"], ["x"]))
    record.keep_begun(night.folder, record.Begun(0, (), 1_000_100.0, "night-000_a_x"))
    (tmp_path / "night-000_a_x").mkdir()
    (tmp_path / "night-000_a_x" / "run.json").write_text('{"verdict": "differs", "reason": "wrong"}')
    ended, simulated = carry_out(record.read(night.folder), Script())
    assert simulated.seen == []
    assert ended.results[0].ending == Ending(Outcome.DIFFERS, "wrong")
    assert ended.results[0].run == "night-000_a_x"


def test_attempts_before_the_night_was_killed_still_count(tmp_path: Path) -> None:
    night = begin(tmp_path, cells(["a"], ["x"]))
    lost = record.Attempt(1.0, 2.0, Ending(Outcome.INCONCLUSIVE, "lost", "network"))
    record.keep_begun(night.folder, record.Begun(0, (lost,), None, "night-000_a_x"))
    ended, _ = carry_out(record.read(night.folder), Script(a_run=[LOST]))
    assert ended.results[0].ending.outcome is Outcome.INCONCLUSIVE
    assert ended.results[0].retries == 1


def test_a_folder_in_which_nothing_was_done_is_made_anew(tmp_path: Path) -> None:
    """Killed between its making and its request."""
    (tmp_path / "night-000_a_x" / "chunks").mkdir(parents=True)
    night, simulated = carry_out(begin(tmp_path, cells(["a"], ["x"])), Script())
    assert simulated.seen[-1].options["run_folder"] == str(tmp_path / "night-000_a_x")
    assert night.surprises() == []


def test_nobody_starves_where_nights_are_too_short(tmp_path: Path) -> None:
    """In each of six nights there is time for two of six entries."""
    entries, turns = cells(["a"], ["u", "v", "w", "x", "y", "z"]), []
    for count in range(6):
        rules = Rules(1, 0, 1_000_000.0 + count * 86400 + 1000.0, "06:00", frozenset())
        night = begin(tmp_path, entries, f"night{count}")
        simulated = Simulated(well, 1_000_000.0 + count * 86400)
        campaign(night, simulated, rules, Past.read(tmp_path)).carry_out()
        turns += [one.options["model"] for one in simulated.seen if one.name == "run"]
    assert turns == list("uvwxyz" * 2)


@pytest.mark.slow
def test_fifty_boards_five_models(tmp_path: Path) -> None:
    """A night of the simulated laboratory; benchmarks/laboratory.py makes thirty and takes the time."""
    entries = cells([f"board{index}" for index in range(50)], ["v", "w", "x", "y", "z"])
    night, simulated = carry_out(begin(tmp_path, entries), Script(), Rules(50, 1, None, "", frozenset()))
    assert night.surprises() == []
    assert simulated.most == 50
    assert simulated.clock_s == 1_000_000.0 + 5 + 5 * 600
    assert schedule.fair(entries, Past.read(tmp_path).finished_s(simulated.clock_s))[0].board == "board0"


def test_a_model_of_a_long_name_has_a_folder(tmp_path: Path) -> None:
    night = begin(tmp_path, cells(["a"], [f"{'m' * 250}.onnx", f"{'m' * 249}n.onnx"]))
    ended, _ = carry_out(night, Script())
    assert ended.surprises() == []
    runs = {result.run for result in ended.results.values()}
    assert len(runs) == 2
    assert all((tmp_path / run / "run.json").exists() for run in runs)


def test_a_night_whose_clock_was_wrong_makes_nobody_starve(tmp_path: Path) -> None:
    """All were tried in it, years ahead; in each night afterwards there is time for two."""
    entries, turns = cells(["a"], ["u", "v", "w", "x", "y", "z"]), []
    campaign(begin(tmp_path, entries, "night9"), Simulated(well, 9e8)).carry_out()
    for count in range(3):
        rules = Rules(1, 0, 1_000_000.0 + count * 86400 + 1000.0, "06:00", frozenset())
        simulated = Simulated(well, 1_000_000.0 + count * 86400)
        campaign(begin(tmp_path, entries, f"night{count}"), simulated, rules, Past.read(tmp_path)).carry_out()
        turns += [one.options["model"] for one in simulated.seen if one.name == "run"]
    assert sorted(turns) == list("uvwxyz")
