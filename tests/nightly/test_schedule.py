from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.nightly import schedule
from harness.nightly.record import Attempt, Entry
from harness.nightly.schedule import Cured, Job, Rules, Standing, State, Step
from harness.outcome import PARTS, Ending, Outcome

RULES = Rules(parallel=10, retries=1, until_s=None, until="", local=frozenset({"host"}))
FIT = Standing(Step.ATTEMPT)
GOOD = Ending(Outcome.IDENTICAL, "")
LOST = Ending(Outcome.INCONCLUSIVE, "lost", "network")
ENDINGS = [
    GOOD,
    Ending(Outcome.DIFFERS, "wrong"),
    *(Ending(Outcome.INCONCLUSIVE, "failed", part) for part in PARTS),
]


def entries(*cells: tuple[str, str, str]) -> tuple[Entry, ...]:
    return tuple(
        Entry(number, board, model, "", action, Outcome.IDENTICAL, 100.0)  # type: ignore[arg-type]
        for number, (board, model, action) in enumerate(cells)
    )


def grid(boards: str, models: str) -> tuple[Entry, ...]:
    return entries(*((board, model, "run") for board in boards for model in models))


def fit(order: tuple[Entry, ...], **rules: object) -> State:
    boards = {entry.board: FIT for entry in order}
    return State(dataclasses.replace(RULES, **rules), order, boards=boards)  # type: ignore[arg-type]


def tried(*endings: Ending, took_s: float = 1.0) -> tuple[Attempt, ...]:
    return tuple(Attempt(0.0, took_s, ending) for ending in endings)


def started(state: State, now_s: float = 0.0) -> list[tuple[str, int]]:
    return [(job.board, job.entry.number) for job in schedule.beginnings(state, now_s)]


def run(state: State, job: Job, ending: Ending = GOOD) -> State:
    return schedule.attempted(schedule.begun(state, job), job, Attempt(0.0, 1.0, ending))


def test_boards_work_side_by_side_each_at_one_thing() -> None:
    state = fit(grid("ab", "xy"))
    assert started(state) == [("a", 0), ("b", 2)]
    [first, _] = schedule.beginnings(state, 0.0)
    busy = schedule.begun(state, first)
    assert started(busy) == [("b", 2)]
    assert started(run(state, first)) == [("a", 1), ("b", 2)]


def test_no_more_boards_than_allowed_work_at_once() -> None:
    state = fit(grid("abcd", "x"), parallel=2)
    first, second = schedule.beginnings(state, 0.0)
    busy = schedule.begun(schedule.begun(state, first), second)
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
    [job] = schedule.beginnings(state, 0.0)
    after = run(state, job, LOST)
    checked = schedule.cured(after, Job("a", Step.CHECK, job.entry), Cured())
    assert started(checked) == [("a", 1)]


def test_a_board_is_checked_before_its_first_entry_and_after_a_failure_of_it() -> None:
    order = grid("a", "xy")
    state = State(RULES, order)
    [check] = schedule.beginnings(state, 0.0)
    assert check == Job("a", Step.CHECK, order[0])
    state = schedule.cured(schedule.begun(state, check), check, Cured())
    [attempt] = schedule.beginnings(state, 0.0)
    assert attempt == Job("a", Step.ATTEMPT, order[0])
    for part, due in (("network", Step.CHECK), ("board", Step.CHECK), ("tool", Step.ATTEMPT)):
        [after] = schedule.beginnings(run(state, attempt, Ending(Outcome.INCONCLUSIVE, "", part)), 0.0)
        assert after.step is due


def test_a_sick_board_is_switched_off_and_on_once_and_then_out_of_use() -> None:
    order = grid("ab", "x")
    check, cycle = (Job("a", step, order[0]) for step in (Step.CHECK, Step.CYCLE))
    sick = schedule.cured(State(RULES, order), check, Cured("no answer"))
    assert schedule.beginnings(sick, 0.0)[0] == cycle
    cycled = schedule.cured(sick, cycle, Cured())
    assert schedule.beginnings(cycled, 0.0)[0] == check
    gone = schedule.closed(schedule.cured(cycled, check, Cured("no answer")), 0.0)
    assert gone.standing("a").quarantined == "no answer, also after a power cycle"
    assert gone.results == {0: Ending(Outcome.NOT_RUN, "board a is quarantined: no answer, also after a power cycle")}
    assert [job.board for job in schedule.beginnings(gone, 0.0)] == ["b"]
    well = schedule.cured(cycled, check, Cured())
    assert schedule.beginnings(well, 0.0)[0] == Job("a", Step.ATTEMPT, order[0])


@pytest.mark.parametrize(
    ("found", "reason"),
    [(Cured("", hopeless=True), "no answer"), (Cured("it smokes", hopeless=True), "no answer; it smokes")],
)
def test_a_board_that_cannot_be_switched_is_out_of_use(found: Cured, reason: str) -> None:
    order = grid("a", "x")
    sick = schedule.cured(State(RULES, order), Job("a", Step.CHECK, order[0]), Cured("no answer"))
    assert schedule.cured(sick, Job("a", Step.CYCLE, order[0]), found).standing("a").quarantined == reason


def test_a_check_that_tells_nothing_is_no_reason_to_switch_a_board_off() -> None:
    order = grid("a", "x")
    state = schedule.cured(State(RULES, order), Job("a", Step.CHECK, order[0]), Cured("bug", hopeless=True))
    assert state.standing("a").quarantined == "bug"


def test_nothing_begins_after_its_hour() -> None:
    state = fit(grid("a", "xyz"), until_s=50.0, until="06:00")
    [job] = schedule.beginnings(state, 49.9)
    assert started(state, 50.0) == []
    lost = run(state, job, LOST)
    ended = schedule.closed(lost, 50.0).results
    assert ended[0] == Ending(Outcome.INCONCLUSIVE, "lost; not tried again: it is after 06:00", "network")
    assert ended[1] == ended[2] == Ending(Outcome.NOT_RUN, "it is after 06:00")
    running = schedule.begun(state, job)
    assert schedule.closed(running, 50.0).results.keys() == {1, 2}
    assert schedule.closed(state, 49.9).results == {}


def test_this_machine_is_measured_first_and_alone() -> None:
    order = entries(("a", "x", "run"), ("host", "x", "measure"), ("host", "x", "run"), ("b", "x", "measure"))
    state = fit(order)
    assert started(state) == [("host", 1)]
    [job] = schedule.beginnings(state, 0.0)
    assert started(schedule.begun(state, job)) == []
    assert started(run(state, job)) == [("a", 0), ("host", 2), ("b", 3)]


def test_what_runs_beside_comes_to_its_end_before_this_machine_is_measured() -> None:
    """As after a failure: nothing new begins meanwhile."""
    order = entries(("a", "x", "run"), ("b", "x", "run"), ("host", "x", "measure"))
    busy = schedule.begun(fit(order), Job("a", Step.ATTEMPT, order[0]))
    assert started(busy) == []
    assert started(run(fit(order), Job("a", Step.ATTEMPT, order[0]))) == [("host", 2)]


def test_the_check_before_it_is_alone_too() -> None:
    order = entries(("a", "x", "run"), ("host", "x", "measure"))
    assert [(job.board, job.step) for job in schedule.beginnings(State(RULES, order), 0.0)] == [("host", Step.CHECK)]


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
    left_s = State(RULES, (entry,), attempts={0: attempts}).left_s(entry)
    assert left_s == 0.0
    assert schedule.conclusion(attempts, 5, left_s) == LOST


def test_what_is_begun_anew_needs_time_for_it() -> None:
    [entry] = grid("a", "x")
    job, refused = Job("a", Step.ATTEMPT, entry), Ending(Outcome.INCONCLUSIVE, "other sources", "tool")
    for took_s, results in ((1.0, {}), (100.0, {0: refused})):
        assert schedule.attempted(fit((entry,)), job, *tried(refused, took_s=took_s), anew=True).results == results


@given(st.data())
def test_every_night_ends_with_every_entry_and_within_its_rules(data: st.DataObject) -> None:
    """Whatever fails, in whatever order things end."""
    boards = data.draw(st.lists(st.sampled_from(["a", "b", "host"]), min_size=1, max_size=3, unique=True))
    cells = entries(*((board, model, action) for board in boards for model in "xy" for action in ("run", "measure")))
    parallel, retries = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    state = State(dataclasses.replace(RULES, parallel=parallel, retries=retries), schedule.fair(cells, {}))
    for _ in range(1000):
        for job in schedule.beginnings(state, 0.0):
            assert job.board not in state.running
            state = schedule.begun(state, job)
        busy = list(state.running.values())
        assert len(busy) <= parallel
        assert len(busy) == 1 or not any(job.board == "host" and job.entry.action == "measure" for job in busy)
        if not busy:
            break
        job = data.draw(st.sampled_from(busy))
        if job.step is Step.ATTEMPT:
            state = schedule.attempted(state, job, *tried(data.draw(st.sampled_from(ENDINGS))))
        else:
            state = schedule.cured(
                state, job, data.draw(st.sampled_from([Cured(), Cured("sick"), Cured("", hopeless=True)]))
            )
        state = schedule.closed(state, 0.0)
    assert state.results.keys() == {entry.number for entry in cells}
    for number, attempts in state.attempts.items():
        assert sum(one.ending.part in schedule.RETRIED for one in attempts) <= retries + 1
        assert (state.results[number].outcome is Outcome.IDENTICAL) == (attempts[-1].ending == GOOD)
