from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.errors import BoardError
from harness.plan.conformance import Event, arrange, read
from harness.plan.conformance.trace import Gap
from harness.plan.plan import Plan, Sync
from tests.support.conformance.plans import chain, make
from tests.support.conformance.simulator import simulate, write

GOOD = '{"execution": 12, "vector": 120, "item": "right", "layer": "dense_1", "begin_ns": 3, "end_ns": 5}'


@pytest.fixture
def made(host: Profile) -> Plan:
    return make(chain(), host, "layer_0=right")


@pytest.mark.parametrize("sync", ["barrier", "flag"])
def test_what_was_written_is_read(host: Profile, tmp_path: Path, sync: Sync) -> None:
    events = simulate(make(chain(), host, "parallel", sync=sync), 7, np.random.default_rng(1))
    assert list(read(write(events, tmp_path / "trace.jsonl"))) == events
    assert {event.kind for event in events} == {"layer", sync}


def test_a_line_is_an_event(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{GOOD}\n{GOOD.replace('layer', 'flag')}\n")
    assert list(read(path)) == [
        Event(12, 120, "right", "layer", "dense_1", 3, 5),
        Event(12, 120, "right", "flag", "dense_1", 3, 5),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GOOD[:-9], "line 2: not JSON"),
        ("", "line 2: not JSON"),
        ("[1, 2]", "line 2: not the line of a trace"),
        (GOOD.replace('"vector": 120, ', ""), "line 2: not the line of a trace"),
        (GOOD.replace("{", '{"more": 1, '), "line 2: not the line of a trace"),
        (GOOD.replace("{", '{"flag": "dense_1", '), "line 2: not the line of a trace"),
        (GOOD.replace("layer", "task"), "line 2: not the line of a trace"),
        (GOOD.replace("12,", "-12,"), "line 2: a count or a name is none"),
        (GOOD.replace("12,", "1.5,"), "line 2: a count or a name is none"),
        (GOOD.replace("12,", "true,"), "line 2: a count or a name is none"),
        (GOOD.replace("5}", f"{2**63}}}"), "line 2: a count or a name is none"),
        (GOOD.replace('"right"', "7"), "line 2: a count or a name is none"),
        (GOOD.replace("5}", "1}"), "line 2: the step ends 2 ns before it begins"),
    ],
)
def test_what_is_no_trace_is_a_failure_of_the_board(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(BoardError, match=f"^trace.jsonl, {message}"):
        list(read(path))


def test_a_trace_that_cannot_be_read_is_a_failure_of_the_board(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="cannot read the trace"):
        list(read(tmp_path / "none.jsonl"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(BoardError, match="cannot read the trace"):
        list(read(tmp_path / "binary"))


def test_events_in_any_order_become_one_row_an_execution(made: Plan) -> None:
    events = simulate(made, 5, np.random.default_rng(1))
    trace = arrange(made, events[::-1], 5)
    assert (trace.executions, trace.events, trace.gaps) == (5, len(events), ())
    column = [(c.name, c.kind) for c in trace.columns].index(("layer_1", "layer"))
    found = [event for event in events if event.name == "layer_1"]
    assert trace.begin_ns[:, column].tolist() == [event.begin_ns for event in found]
    assert trace.end_ns[:, column].tolist() == [event.end_ns for event in found]


def test_steps_that_are_missing_or_there_twice_are_gaps(made: Plan) -> None:
    events = simulate(made, 3, np.random.default_rng(1))
    missing = next(event for event in events if (event.name, event.execution) == ("layer_1", 1))
    trace = arrange(made, [*(event for event in events if event != missing), events[-1]], 3)
    names = [(gap.execution, trace.columns[gap.column].name, gap.times) for gap in trace.gaps]
    assert names == [(1, "layer_1", 0), (2, events[-1].name, 2)]
    assert arrange(made, [], 1).gaps[0] == Gap(0, 0, 0)


def test_a_step_that_the_plan_does_not_have_is_refused(made: Plan) -> None:
    for item, kind, name in (("left", "layer", "layer_0"), ("right", "flag", "quantize"), ("who", "layer", "layer_0")):
        with pytest.raises(BoardError, match=f"{kind} {name} of item {item}, a step that the plan does not have"):
            arrange(made, [Event(0, 0, item, kind, name, 1, 2)], 1)  # type: ignore[arg-type]


def test_an_execution_too_many_is_refused(made: Plan) -> None:
    with pytest.raises(BoardError, match=r"execution 3 of 3$"):
        arrange(made, simulate(made, 4, np.random.default_rng(1)), 3)
