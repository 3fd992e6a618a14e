from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.applications.nightly import schedule
from harness.applications.nightly.schedule import BoardJob, BoardState, Cured, JobKind, NightState, Rules
from harness.core.outcome import PARTS, Ending, Outcome
from harness.runs.history.night_record import Attempt, Entry

RULES = Rules(parallel=10, retries=1, until_s=None, until="", local=frozenset({"host"}))
FIT = BoardState(JobKind.ATTEMPT)
GOOD = Ending(Outcome.IDENTICAL, "")
LOST = Ending(Outcome.INCONCLUSIVE, "lost", "network")
ENDINGS = [GOOD, Ending(Outcome.DIFFERS, "wrong"), *(Ending(Outcome.INCONCLUSIVE, "failed", part) for part in PARTS)]


def entries(*cells: tuple[str, str, str]) -> tuple[Entry, ...]:
    return tuple(
        Entry(number, board, model, "", action, Outcome.IDENTICAL, 100.0)  # type: ignore[arg-type]
        for number, (board, model, action) in enumerate(cells)
    )


def grid(boards: str, models: str) -> tuple[Entry, ...]:
    return entries(*((board, model, "run") for board in boards for model in models))


def fit(order: tuple[Entry, ...], **rules: object) -> NightState:
    boards = {entry.board: FIT for entry in order}
    return NightState(dataclasses.replace(RULES, **rules), order, boards=boards)  # type: ignore[arg-type]


def tried(*endings: Ending, took_s: float = 1.0) -> tuple[Attempt, ...]:
    return tuple(Attempt(0.0, took_s, ending) for ending in endings)


def started(state: NightState, now_s: float = 0.0) -> list[tuple[str, int]]:
    return [(job.board, job.entry.number) for job in schedule.startable(state, now_s)]


def run(state: NightState, job: BoardJob, ending: Ending = GOOD) -> NightState:
    return schedule.attempted(schedule.start(state, job), job, Attempt(0.0, 1.0, ending))


def test_boards_work_side_by_side_each_at_one_thing() -> None:
    state = fit(grid("ab", "xy"))
    assert started(state) == [("a", 0), ("b", 2)]
    [first, _] = schedule.startable(state, 0.0)
    busy = schedule.start(state, first)
    assert started(busy) == [("b", 2)]
    assert started(run(state, first)) == [("a", 1), ("b", 2)]


def test_no_more_boards_than_allowed_work_at_once() -> None:
    state = fit(grid("abcd", "x"), parallel=2)
    first, second = schedule.startable(state, 0.0)
    busy = schedule.start(schedule.start(state, first), second)
    assert started(busy) == []
    assert started(schedule.attempted(busy, first, *tried(GOOD))) == [("c", 2)]


def test_who_was_finished_longest_ago_is_first_and_what_is_new_before_all() -> None:
    all_ = grid("ab", "xy")
    finished_s = {all_[0].key: 30.0, all_[1].key: 20.0, all_[2].key: 10.0}
    assert [entry.number for entry in schedule.fair(all_, finished_s)] == [3, 2, 1, 0]


def test_models_take_turns() -> None:
    cells = entries(*(("a", model, "run") for model in "xxxyyz"))
    assert [entry.model for entry in schedule.fair(cells, {})] == ["x", "y", "z", "x", "y", "x"]


def test_the_order_of_boards_does_not_depend_on_the_order_of_what_is_known() -> None:
    cells = grid("abc", "xy")
    finished_s = {entry.key: float(entry.number * 7 % 5) for entry in cells}
    orders = {
        tuple((entry.board, entry.model) for entry in schedule.fair(permuted, dict(reversed(finished_s.items()))))
        for permuted in itertools.permutations(cells, len(cells))
        if [entry.number for entry in permuted][:3] == [0, 1, 2]
    }
    assert len(orders) == 1


def test_a_second_try_comes_after_all_first_ones() -> None:
    state = fit(grid("a", "xy"))
    [job] = schedule.startable(state, 0.0)
    after = run(state, job, LOST)
    checked = schedule.cured(after, BoardJob("a", JobKind.CHECK, job.entry), Cured())
    assert started(checked) == [("a", 1)]


def test_a_board_is_checked_before_its_first_entry_and_after_a_failure_of_it() -> None:
    order = grid("a", "xy")
    state = NightState(RULES, order)
    [check] = schedule.startable(state, 0.0)
    assert check == BoardJob("a", JobKind.CHECK, order[0])
    state = schedule.cured(schedule.start(state, check), check, Cured())
    [attempt] = schedule.startable(state, 0.0)
    assert attempt == BoardJob("a", JobKind.ATTEMPT, order[0])
    for part, due in (("network", JobKind.CHECK), ("board", JobKind.CHECK), ("tool", JobKind.ATTEMPT)):
        [after] = schedule.startable(run(state, attempt, Ending(Outcome.INCONCLUSIVE, "", part)), 0.0)
        assert after.kind is due


def test_a_sick_board_is_switched_off_and_on_once_and_then_out_of_use() -> None:
    order = grid("ab", "x")
    check, cycle = (BoardJob("a", step, order[0]) for step in (JobKind.CHECK, JobKind.CYCLE))
    sick = schedule.cured(NightState(RULES, order), check, Cured("no answer"))
    assert schedule.startable(sick, 0.0)[0] == cycle
    cycled = schedule.cured(sick, cycle, Cured())
    assert schedule.startable(cycled, 0.0)[0] == check
    gone = schedule.closed(schedule.cured(cycled, check, Cured("no answer")), 0.0)
    assert gone.state_of("a").quarantined == "no answer, also after a power cycle"
    assert gone.results == {0: Ending(Outcome.NOT_RUN, "board a is quarantined: no answer, also after a power cycle")}
    assert [job.board for job in schedule.startable(gone, 0.0)] == ["b"]
    well = schedule.cured(cycled, check, Cured())
    assert schedule.startable(well, 0.0)[0] == BoardJob("a", JobKind.ATTEMPT, order[0])


@pytest.mark.parametrize(
    ("found", "reason"),
    [(Cured("", hopeless=True), "no answer"), (Cured("it smokes", hopeless=True), "no answer; it smokes")],
)
def test_a_board_that_cannot_be_switched_is_out_of_use(found: Cured, reason: str) -> None:
    order = grid("a", "x")
    sick = schedule.cured(NightState(RULES, order), BoardJob("a", JobKind.CHECK, order[0]), Cured("no answer"))
    assert schedule.cured(sick, BoardJob("a", JobKind.CYCLE, order[0]), found).state_of("a").quarantined == reason


def test_a_check_that_tells_nothing_is_no_reason_to_switch_a_board_off() -> None:
    order = grid("a", "x")
    state = schedule.cured(
        NightState(RULES, order), BoardJob("a", JobKind.CHECK, order[0]), Cured("bug", hopeless=True)
    )
    assert state.state_of("a").quarantined == "bug"


def test_nothing_begins_after_its_hour() -> None:
    state = fit(grid("a", "xyz"), until_s=50.0, until="06:00")
    [job] = schedule.startable(state, 49.9)
    assert started(state, 50.0) == []
    lost = run(state, job, LOST)
    ended = schedule.closed(lost, 50.0).results
    assert ended[0] == Ending(Outcome.INCONCLUSIVE, "lost; not retried: it is after 06:00", "network")
    assert ended[1] == ended[2] == Ending(Outcome.NOT_RUN, "it is after 06:00")
    running = schedule.start(state, job)
    assert schedule.closed(running, 50.0).results.keys() == {1, 2}
    assert schedule.closed(state, 49.9).results == {}


ONE = {"host": "this-machine", "local-gpu": "this-machine", "a": "a", "b": "b"}


def test_boards_that_are_one_machine_work_one_after_the_other() -> None:
    order = entries(("host", "x", "run"), ("local-gpu", "x", "run"), ("a", "x", "run"), ("local-gpu", "y", "run"))
    state = fit(order, places=ONE)
    assert started(state) == [("host", 0), ("a", 2)]
    [host, _] = schedule.startable(state, 0.0)
    assert started(schedule.start(state, host)) == [("a", 2)]
    assert started(run(state, host)) == [("local-gpu", 1), ("a", 2)]
    assert started(run(run(state, host), BoardJob("local-gpu", JobKind.ATTEMPT, order[1]))) == [
        ("a", 2),
        ("local-gpu", 3),
    ]


def test_one_of_two_names_that_is_quarantined_does_not_keep_the_other_from_its_work() -> None:
    order = entries(("host", "x", "run"), ("local-gpu", "x", "run"))
    state = fit(order, places=ONE)
    sick = dataclasses.replace(state, boards={**state.boards, "host": BoardState(quarantined="no compiler")})
    assert started(sick) == [("local-gpu", 1)]


# Boards that somebody outside the night has


def taken(state: NightState, now_s: float, **boards: str) -> NightState:
    return schedule.closed(schedule.looked_at(state, boards, now_s), now_s)


def test_a_board_that_somebody_has_is_let_be_until_it_is_free() -> None:
    state = fit(grid("ab", "x"), until_s=90_000.0, until="06:00")
    waits = taken(state, 0.0, a="ana has it")
    assert (started(waits), schedule.awaited(waits)) == ([("b", 1)], {"a": "ana has it"})
    later = taken(waits, 80_000.0, a="ana has it")
    assert (later.results, later.left_s(later.order[0])) == ({}, 100.0)
    again = taken(later, 80_001.0)
    assert (started(again), schedule.awaited(again)) == ([("a", 0), ("b", 1)], {})


def test_the_hour_at_which_a_night_ends_ends_waiting_and_tells_for_whom() -> None:
    state = fit(grid("a", "x"), until_s=50.0, until="06:00")
    [ending] = taken(taken(state, 0.0, a="ana has it"), 50.0, a="ana has it").results.values()
    assert ending == Ending(Outcome.NOT_RUN, "it is after 06:00; ana has it")


def test_a_night_without_such_an_hour_waits_as_long_as_a_command() -> None:
    state = taken(fit(grid("ab", "x")), 1000.0, a="ana has it")
    assert taken(state, 4599.0, a="bo has it").results == {}
    gone = taken(state, 4600.0, a="bo has it")
    assert gone.results == {0: Ending(Outcome.NOT_RUN, "bo has it; the night could not lock it for 1h")}
    assert not schedule.awaited(gone)


def test_a_board_that_was_free_in_between_is_waited_for_anew() -> None:
    [entry] = grid("a", "x")
    state = taken(taken(fit((entry,), parallel=0), 0.0, a="ana has it"), 3000.0)
    assert taken(taken(state, 3001.0, a="ana has it"), 6600.0, a="ana has it").results == {}
    had = run(taken(fit((entry,)), 0.0, a="ana has it"), BoardJob("a", JobKind.ATTEMPT, entry), LOST)
    assert taken(taken(had, 3001.0, a="ana has it"), 6600.0, a="ana has it").results == {}


def test_who_was_refused_once_and_has_had_the_board_since_is_refused_no_more() -> None:
    order, job = grid("a", "xy"), BoardJob("a", JobKind.ATTEMPT, grid("a", "x")[0])
    refused = schedule.stood_back(schedule.start(fit(order), job), job, "ana has it", 0.0)
    had = taken(run(refused, job), 10.0)
    assert started(had) == [("a", 1)]
    again = taken(taken(taken(had, 20.0, a="bo has it"), 3000.0), 3001.0, a="bo has it")
    assert taken(again, 6600.0, a="bo has it").results.keys() == {0}


def test_a_job_that_did_not_get_its_board_is_as_if_it_had_not_begun() -> None:
    [entry] = grid("a", "x")
    job = BoardJob("a", JobKind.ATTEMPT, entry)
    back = schedule.stood_back(schedule.start(fit((entry,)), job), job, "ana has it", 10.0)
    assert (back.attempts, back.state_of("a"), back.running) == ({}, FIT, {})
    waits = taken(back, 10.0)
    assert (started(waits), waits.taken) == ([], {"a": "ana has it"})
    assert started(taken(back, 9.0)) == [("a", 0)], "the clock was set back"
    tries = taken(waits, 40.0)
    assert started(tries) == [("a", 0)]
    again = schedule.stood_back(schedule.start(tries, job), job, "ana has it", 3700.0)
    assert taken(again, 3700.0).results == {
        0: Ending(Outcome.NOT_RUN, "ana has it; the night could not lock it for 1h")
    }


def test_this_machine_is_measured_first_and_alone() -> None:
    order = entries(("a", "x", "run"), ("host", "x", "measure"), ("host", "x", "run"), ("b", "x", "measure"))
    state = fit(order)
    assert started(state) == [("host", 1)]
    [job] = schedule.startable(state, 0.0)
    assert started(schedule.start(state, job)) == []
    assert started(run(state, job)) == [("a", 0), ("host", 2), ("b", 3)]


def test_what_runs_beside_comes_to_its_end_before_this_machine_is_measured() -> None:
    """As after a failure: nothing new begins meanwhile."""
    order = entries(("a", "x", "run"), ("b", "x", "run"), ("host", "x", "measure"))
    busy = schedule.start(fit(order), BoardJob("a", JobKind.ATTEMPT, order[0]))
    assert started(busy) == []
    assert started(run(fit(order), BoardJob("a", JobKind.ATTEMPT, order[0]))) == [("host", 2)]


def test_the_check_before_it_is_alone_too() -> None:
    order = entries(("a", "x", "run"), ("host", "x", "measure"))
    assert [(job.board, job.kind) for job in schedule.startable(NightState(RULES, order), 0.0)] == [
        ("host", JobKind.CHECK)
    ]


@pytest.mark.parametrize("retries", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_retry_never_makes_a_verdict_another(length: int, retries: int) -> None:
    """All sequences of how attempts can end."""
    for sequence in itertools.product(ENDINGS, repeat=length):
        attempts = tried(*sequence)
        seen = [ending for ending in sequence if ending.outcome.final]
        ending = schedule.conclusion(attempts, retries, 1.0)
        if seen:
            assert ending == seen[0]
        else:
            assert ending in {None, sequence[-1]}
        again = sequence[-1].part in schedule.RETRIED and not seen
        failures = [ending for ending in sequence if ending.part in schedule.RETRIED]
        assert (ending is None) == (again and len(failures) <= retries)


def test_what_has_used_its_limit_is_not_tried_again() -> None:
    [entry] = grid("a", "x")
    attempts = tried(LOST, took_s=100.0)
    left_s = NightState(RULES, (entry,), attempts={0: attempts}).left_s(entry)
    assert left_s == 0.0
    assert schedule.conclusion(attempts, 5, left_s) == LOST


def test_what_is_begun_anew_needs_time_for_it() -> None:
    [entry] = grid("a", "x")
    job, refused = BoardJob("a", JobKind.ATTEMPT, entry), Ending(Outcome.INCONCLUSIVE, "other sources", "tool")
    for took_s, results in ((1.0, {}), (100.0, {0: refused})):
        assert schedule.attempted(fit((entry,)), job, *tried(refused, took_s=took_s), anew=True).results == results


@pytest.mark.slow
@given(st.data())
def test_every_night_ends_with_every_entry_and_within_its_rules(data: st.DataObject) -> None:
    """Whatever fails, in whatever order things end."""
    names = ["a", "b", "host", "local-gpu"]
    boards = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    cells = entries(*((board, model, action) for board in boards for model in "xy" for action in ("run", "measure")))
    parallel, retries = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    rules = dataclasses.replace(RULES, parallel=parallel, retries=retries, places=ONE)
    state = NightState(rules, schedule.fair(cells, {}))
    for now_s in range(0, 1_000_000, 1000):
        seen = data.draw(st.sets(st.sampled_from(boards), max_size=1)) - state.running.keys()
        state = schedule.closed(schedule.looked_at(state, dict.fromkeys(seen, "ana"), now_s), now_s)
        for job in schedule.startable(state, 0.0):
            assert job.board not in state.running
            state = schedule.start(state, job)
        busy = list(state.running.values())
        assert len(busy) <= parallel
        assert not {"host", "local-gpu"} <= {job.board for job in busy}
        assert len(busy) == 1 or not any(job.board == "host" and job.entry.action == "measure" for job in busy)
        if not busy and not schedule.awaited(state):
            break
        if not busy:
            continue
        job = data.draw(st.sampled_from(busy))
        if data.draw(st.integers(0, 9)) == 9:
            state = schedule.stood_back(state, job, "bo", now_s)
        elif job.kind is JobKind.ATTEMPT:
            state = schedule.attempted(state, job, *tried(data.draw(st.sampled_from(ENDINGS))))
        else:
            state = schedule.cured(
                state, job, data.draw(st.sampled_from([Cured(), Cured("sick"), Cured("", hopeless=True)]))
            )
    assert state.results.keys() == {entry.number for entry in cells}
    for number, attempts in state.attempts.items():
        assert sum(one.ending.part in schedule.RETRIED for one in attempts) <= retries + 1
        if attempts:
            assert (state.results[number].outcome is Outcome.IDENTICAL) == (attempts[-1].ending == GOOD)
