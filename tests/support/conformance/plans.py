"""Plans for tests: by `harness.plan.plan` from words of --split, or from random networks and allocations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from harness.boards.profile import ItemProfile, Profile
from harness.model.network import Network
from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.scaled_sum import Scales
from harness.operators.tensor import FLOAT32, Tensor
from harness.plan import plan, planner, schedule
from harness.plan.plan import Cross, Item, Plan, Sync
from harness.plan.split import Share
from tests.support import builders
from tests.support.programs.board_program import parse

WIDTH = 4


def chain(widths: Sequence[int] = (3, 8, 8, 4)) -> Network:
    """quantize, layer_0, layer_1, ..., dequantize, advisory"""
    return parse(builders.random_network(np.random.default_rng(1), widths, dequantize=True, argmax=True))


def branches() -> Network:
    """quantize, then per layer two QGemms on the same codes, their sum and its QuantizeLinear."""
    return parse(builders.random_network(np.random.default_rng(1), (3, 8, 4), residual=2))


def make(network: Network, host: Profile, *split: str, items: int = 2, sync: Sync = "barrier") -> Plan:
    """On a board with items left, right, 2, 3, ...; left claims all operators."""
    operators = ("QuantizeLinear", "QGemm", "DequantizeLinear", "Add", "ArgMax")
    names = ["left", "right", *(f"item_{number}" for number in range(2, items))]
    profiles = {name: ItemProfile(target="c", operators=operators if name == "left" else ()) for name in names}
    return planner.make(network, host.model_copy(update={"items": profiles}), split=split, sync=sync)


def without(made: Plan, hand_over: str) -> Plan:
    """The plan without this hand-over."""
    gone = [each.name for each in made.hand_overs].index(hand_over)

    def renumbered(schedule: tuple[plan.Step, ...]) -> tuple[plan.Step, ...]:
        kept = (step for step in schedule if step != Cross(gone))
        return tuple(
            Cross(step.hand_over - 1) if isinstance(step, Cross) and step.hand_over > gone else step for step in kept
        )

    return dataclasses.replace(
        made,
        hand_overs=tuple(each for each in made.hand_overs if each.name != hand_over),
        schedules=tuple(map(renumbered, made.schedules)),
    )


def with_task(made: Plan, name: str, **changes: object) -> Plan:
    """The plan with another task of this name; its schedules stay."""
    tasks = (dataclasses.replace(task, **changes) if task.name == name else task for task in made.tasks)  # type: ignore[arg-type]
    return dataclasses.replace(made, tasks=tuple(tasks))


def dense(number: int, source: str) -> QGemm:
    """layer_<number> of WIDTH columns, all constants 1 or 0."""
    ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.int32)
    return QGemm(
        **_layer(number, "QGemm", (source,)),
        weights=np.ones((WIDTH, WIDTH), np.int8),
        weights_zero_point=zeros,
        bias=zeros,
        multiplier=ones,
        scales=Scales(np.float32(1), np.float32(1), ones, np.float32(1)),
        a_zero_point=0,
        y_zero_point=0,
        per_column=False,
    )


def _layer(number: int, operator: str, sources: tuple[str, ...]) -> dict[str, object]:
    name, kind = f"layer_{number}", np.dtype(np.uint8)
    return {
        "name": name,
        "node": name,
        "operator": operator,
        "inputs": tuple(Tensor(source, (WIDTH,), kind) for source in sources),
        "output": Tensor(f"t{number}", (WIDTH,), kind),
    }


def network_of(layers: Sequence[Layer]) -> Network:
    """A network whose input is called x."""
    return Network(
        "random", (Tensor("x", (WIDTH,), FLOAT32),), tuple(layers), np.zeros((2, WIDTH), np.float32), None, {}, "", b""
    )


@st.composite
def plans(draw: st.DrawFn, layers: int = 6, items: int = 3) -> Plan:
    """A random network of dense layers and sums, each computed by some of the items; both kinds of sync."""
    built: list[Layer] = []
    for number in range(draw(st.integers(1, layers))):
        tensors = st.sampled_from(["x"] if number == 0 else [f"t{index}" for index in range(number)])
        sources = draw(st.lists(tensors, min_size=1, max_size=2, unique=True))
        built.append(
            dense(number, sources[0])
            if len(sources) == 1
            else Add(**_layer(number, "Add", tuple(sources)), addend=None)  # type: ignore[arg-type]
        )
    chosen = st.lists(st.integers(0, items - 1), min_size=1, max_size=items, unique=True)
    shares = [_even(draw(chosen)[: None if isinstance(layer, QGemm) else 1]) for layer in built]
    tasks = planner.tasks_from(built, shares, pipeline=draw(st.booleans()))
    names = [Item(f"item_{number}", "c", None) for number in range(items)]
    return schedule.compose("board", network_of(built), 1, draw(st.sampled_from(["barrier", "flag"])), names, tasks)


def _even(items: Sequence[int]) -> tuple[Share, ...]:
    edges = [WIDTH * part // len(items) for part in range(len(items) + 1)]
    return tuple(Share(item, *edges[part : part + 2]) for part, item in enumerate(items))
