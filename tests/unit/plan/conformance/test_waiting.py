from __future__ import annotations

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.plan.conformance import Event, Waiting, arrange, waiting
from harness.plan.conformance.waiting import durations_ns
from harness.plan.plan import Plan
from tests.support.conformance.plans import chain, make
from tests.support.conformance.simulator import simulate


@pytest.fixture
def offloaded(host: Profile) -> Plan:
    """left: quantize, meet, meet, layer_1; right: meet, layer_0, meet"""
    return make(chain((3, 4)), host, "layer_0=right")


def events(execution: int, begin: int, slow: int) -> list[Event]:
    """left comes first to both barriers; the second is left `slow` ns later than layer_0's end."""
    times = [
        ("left", "layer", "quantize", 0, 10),
        ("left", "barrier", "quantize", 10, 20),
        ("right", "barrier", "quantize", 15, 20),
        ("right", "layer", "layer_0", 20, 60),
        ("left", "barrier", "layer_0", 20, 62 + slow),
        ("right", "barrier", "layer_0", 60, 62 + slow),
        ("left", "layer", "dequantize", 62 + slow, 80 + slow),
        ("left", "layer", "advisory", 80 + slow, 100 + slow),
    ]
    return [Event(execution, 0, item, kind, name, begin + b, begin + e) for item, kind, name, b, e in times]  # type: ignore[arg-type]


def test_waiting_is_counted_by_item_and_hand_over(offloaded: Plan) -> None:
    trace = arrange(offloaded, [*events(0, 1000, 0), *events(1, 2000, 100)], 2)
    assert durations_ns(trace).tolist() == [100, 200]
    assert waiting(offloaded, trace) == (
        Waiting("left", "quantize", 2, 10, 10, 10, 10, 20, 20 / 300),
        Waiting("left", "layer_0", 2, 92, pytest.approx(132), pytest.approx(141), 142, 184, 184 / 300),
        Waiting("left", None, 2, 0, 0, 0, 0, 0, 0),
        Waiting("right", "quantize", 2, 5, 5, 5, 5, 10, 10 / 300),
        Waiting("right", "layer_0", 2, 52, pytest.approx(92), pytest.approx(101), 102, 104, 104 / 300),
        Waiting("right", None, 2, 38, 38, 38, 38, 76, 76 / 300),
    )


def test_items_of_a_pipeline_wait_at_the_ends_of_ticks(host: Profile) -> None:
    plan = make(chain((3, 4)), host, "layer_0=right", "pipeline")
    assert [(task.name, task.stage) for task in plan.tasks][1:3] == [("layer_0", 1), ("dequantize", 2)]
    times = [  # ticks begin at 0, 100, 200, 300
        ("left", "quantize", 0, 0, 10),
        ("left", "quantize", 1, 100, 110),
        ("right", "layer_0", 0, 100, 140),
        ("left", "dequantize", 0, 200, 210),
        ("left", "advisory", 0, 210, 250),
        ("right", "layer_0", 1, 200, 220),
        ("left", "dequantize", 1, 300, 310),
        ("left", "advisory", 1, 310, 320),
    ]
    trace = arrange(plan, [Event(e, 0, item, "layer", name, b, end) for item, name, e, b, end in times], 2)
    assert durations_ns(trace).tolist() == [250, 220]
    left, right = waiting(plan, trace)
    assert (left.item, left.hand_over, left.count, left.sum_ns, left.max_ns) == ("left", None, 4, 30, 30)
    assert (right.item, right.hand_over, right.count, right.sum_ns, right.max_ns) == ("right", None, 2, 30, 30)
    assert left.share == right.share == 30 / 470


def test_shares_are_parts_of_the_executions(host: Profile) -> None:
    plan = make(chain(), host, "parallel", items=3)
    rows = waiting(plan, arrange(plan, simulate(plan, 50, np.random.default_rng(1)), 50))
    for item in plan.items:
        assert 0 < sum(row.share for row in rows if row.item == item.name) < 1
