from __future__ import annotations

from harness.boards.tuning import differences
from tests.support.tuning.snapshots import snapshot


def test_counters_are_subtracted_core_by_core() -> None:
    before = snapshot(
        10.0, switches=100, core_switches={0: 1, 1: 2}, faults=5, major_faults=1, busy_ticks={0: 10},
        stolen_ticks={0: 1}, frequency_changes={0: 3}, throttle_events={"oc1": 1},
        interrupts={"timer": {0: 10, 1: 20}, "eth0": {0: 1, 1: 0}},
    )  # fmt: skip
    after = snapshot(
        12.5, switches=150, core_switches={0: 4, 1: 2}, faults=9, major_faults=1, busy_ticks={0: 60},
        stolen_ticks={0: 3}, frequency_changes={0: 3}, throttle_events={"oc1": 4},
        interrupts={"timer": {0: 12, 1: 25}, "eth0": {0: 1, 1: 9}},
    )  # fmt: skip
    found = differences(before, after)
    assert found.seconds == 2.5
    assert found.interrupts == {0: 2, 1: 14}
    assert found.named_interrupts == {"eth0": {0: 0, 1: 9}, "timer": {0: 2, 1: 5}}
    assert (found.switches, found.core_switches) == (50, {0: 3, 1: 0})
    assert (found.faults, found.major_faults) == (4, 0)
    assert (found.busy_ticks, found.stolen_ticks) == ({0: 50}, {0: 2})
    assert (found.frequency_changes, found.throttle_events) == ({0: 0}, {"oc1": 3})


def test_only_the_most_frequent_interrupts_are_named_and_none_that_did_not_come() -> None:
    zero = {f"irq{n}": {0: 0} for n in range(9)}
    found = differences(snapshot(interrupts=zero), snapshot(interrupts={f"irq{n}": {0: n} for n in range(9)}))
    assert list(found.named_interrupts) == ["irq8", "irq7", "irq6", "irq5", "irq4"]
    assert found.interrupts == {0: 36}
    assert differences(snapshot(interrupts=zero), snapshot(interrupts=zero)).named_interrupts == {}


def test_what_only_one_snapshot_knows_is_left_out() -> None:
    found = differences(snapshot(), snapshot(1.0, switches=7, core_switches={0: 5}, faults=1))
    assert (found.switches, found.faults, found.core_switches) == (None, None, {})


def test_an_interrupt_that_is_new_counts_from_zero() -> None:
    assert differences(snapshot(), snapshot(interrupts={"usb": {0: 3, 1: 0}})).interrupts == {0: 3, 1: 0}
