"""What the columns of the readings are of, and of how many tasks each is the sum."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.plan import planner
from harness.runs.measurement.parts import interval, names_of, parts_of
from harness.runs.measurement.request import MeasurementOptions, Quantity, Scope
from tests.support import builders
from tests.support.identities import HOST
from tests.support.programs.board_program import parse


def asked(scope: Scope, quantity: Quantity = Quantity.INSTRUCTIONS) -> MeasurementOptions:
    return MeasurementOptions(10, scope, quantity, "idle", 0)


def job(host: Profile, *split: str, target: str = "c") -> Any:
    """Quantize, two dense layers, ArgMax."""
    net = parse(builders.random_network(np.random.default_rng(7), (5, 8, 4), argmax=True))
    planned = planner.make(net, host, ["c", target], 1, split)
    return SimpleNamespace(plan=planned, network=net, profile=host, identity=HOST)


@pytest.mark.parametrize(
    ("scope", "split", "tasks"),
    [
        ("network", (), [4]),
        ("network", ("parallel",), [6]),
        ("item", (), [2, 2]),
        ("item", ("parallel",), [4, 2]),
        ("layer", (), [1, 1, 1, 1]),
        ("layer", ("parallel",), [1, 2, 2, 1]),
    ],
)
def test_a_count_is_the_sum_of_so_many_tasks(
    host: Profile, scope: Scope, split: tuple[str, ...], tasks: list[int]
) -> None:
    found = parts_of(job(host, *split), asked(scope))
    assert [part.tasks for part in found] == tasks
    assert len(names_of(job(host, *split).plan, asked(scope))) == len(found)


@pytest.mark.parametrize(
    ("target", "alone"), [("c", True), ("litert:xnnpack", True), ("iree:static", True), ("cuda:fused", False)]
)
def test_an_item_of_a_device_waits_and_an_engine_on_a_core_does_not(host: Profile, target: str, alone: bool) -> None:
    parts = parts_of(job(host, target=target), asked("item"))
    assert [part.alone for part in parts] == [True, alone]


def test_the_networks_time_is_one_interval(host: Profile) -> None:
    assert [part.tasks for part in parts_of(job(host, "parallel"), asked("network", Quantity.TIME))] == [1]


def test_what_is_read_is_said_of_every_scope_and_split(host: Profile) -> None:
    whole = "from the start of the first task to the end of the last, hand-overs included"
    time = Quantity.TIME
    assert interval(job(host).plan, asked("network", time)) == whole
    staged = interval(job(host, "pipeline").plan, asked("network", time))
    assert staged == f"{whole}, through 3 stages and all that lies between their ticks"
    apart = "tasks, without the times at which items wait for each other"
    assert interval(job(host).plan, asked("network")) == f"the sum of the network's {apart}"
    assert interval(job(host, "parallel").plan, asked("item", time)) == f"the sum of the item's {apart}"
    assert interval(job(host).plan, asked("layer", time)) == f"the sum of the layer's {apart}"
    shared = interval(job(host, "parallel").plan, asked("layer", time))
    assert shared == f"the sum of the layer's {apart}; of a layer that several items share, what they take together"
