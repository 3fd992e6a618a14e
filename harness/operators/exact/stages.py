"""Programs of the exact language: arrays of one expression each, or of a fold in a stated order, one after the other.

    o, k, i = axes(o=2, k=10, i=3)
    x = Source("x", (o, k, i))
    m = fold("m", (o, i), (k,), -np.inf, lambda m: larger(x[o, k, i], m))
    e = array("e", (o, k, i), exponential(x[o, k, i] - m[o, i]))
    s = fold("s", (o, i), (k,), 0, lambda s: s + e[o, k, i])
    y = array("y", (o, k, i), e[o, k, i] / s[o, i])

A place is an axis, an integer, or a sum of axes times integers.  The values of an array have the order of its axes, the
last one the fastest, so that an input of another shape is the same values with other axes.  A load with a guard has a
place that may be outside: it gives a number there, or its step of the fold is left out.

    w = fold("w", (p,), (i,), 0, lambda w: w + x.at(p * 2 + i - 1, SKIP))

Arrays of state can advance together along an axis, such as the sums of all values so far:

    [s] = recurrence(k, {"s": ((o, i), 0)}, lambda s: s[o, i] + x[o, k, i])
    y = array("y", (o, k, i), s[k + 1, o, i])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import (
    BOOL,
    FLOAT32,
    DefinitionError,
    Expression,
    Function,
    argument,
    converted,
    literal,
    ordered,
    substituted,
)
from harness.operators.exact.printing import inline, number


@dataclass(frozen=True, eq=False)
class Axis:
    """A loop variable from 0 to size - 1."""

    name: str
    size: int

    def __add__(self, other: Axis | Place | int) -> Place:
        return place(self) + other

    def __sub__(self, number: int) -> Place:
        return place(self) + -number

    def __mul__(self, step: int) -> Place:
        return place(self) * step


@dataclass(frozen=True)
class Place:
    """A sum of axes, each times an integer, and an integer."""

    steps: tuple[tuple[Axis, int], ...]
    constant: int = 0

    def __add__(self, other: Axis | Place | int) -> Place:
        second = place(other)
        return Place(self.steps + second.steps, self.constant + second.constant)

    def __sub__(self, number: int) -> Place:
        return self + -number

    def __mul__(self, step: int) -> Place:
        return Place(tuple((axis, step * own) for axis, own in self.steps), step * self.constant)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the sum."""
        return tuple(axis for axis, _ in self.steps)

    def is_inside(self, size: int) -> bool:
        """Return whether all values are from 0 to size - 1."""
        least = self.constant + sum(min(step * (axis.size - 1), 0) for axis, step in self.steps)
        return least >= 0 and self.last < size

    @property
    def last(self) -> int:
        """The largest value."""
        return self.constant + sum(max(step * (axis.size - 1), 0) for axis, step in self.steps)

    def text(self, names: Callable[[Axis], str]) -> str:
        """Return the sum as text of most languages; `names` gives the text of an axis."""
        terms = [(names(axis) if abs(step) == 1 else f"{names(axis)} * {abs(step)}", step)
                 for axis, step in self.steps if axis.size > 1]  # fmt: skip
        terms += [(str(abs(self.constant)), self.constant)] if self.constant else []
        added, subtracted = ([text for text, sign in terms if (sign > 0) is is_added] for is_added in (True, False))
        return " - ".join([" + ".join(added) or "0", *subtracted])


Places: TypeAlias = "Axis | Place | int | tuple[Axis | Place | int, ...]"


def place(value: Axis | Place | int) -> Place:
    """Return an axis or an integer as a place."""
    if isinstance(value, Place):
        return value
    return Place(((value, 1),)) if isinstance(value, Axis) else Place((), value)


class Outside(Enum):
    """A load without a number for places outside: there is none, or the step of the fold that reads it is left out."""

    NEVER = "never"
    SKIP = "skip"


SKIP = Outside.SKIP


class Guard(NamedTuple):
    """A place that may be outside, on the axis of an array with this number and size."""

    number: int
    place: Place
    size: int


class Load(NamedTuple):
    """A load: a place on each axis of an array, and its value where one is outside."""

    source: Indexed
    places: tuple[Place, ...]
    outside: Outside | np.generic

    @property
    def guards(self) -> list[Guard]:
        """The places that may be outside."""
        pairs = zip(self.places, self.source.shape, strict=True)
        return [Guard(number, at, size) for number, (at, size) in enumerate(pairs) if not at.is_inside(size)]


def loaded(load: Load) -> Expression:
    """Return the expression of a load."""
    moment = [load.source.time.name] if isinstance(load.source, State) else []
    names = ", ".join([*moment, *(at.text(lambda axis: axis.name) for at in load.places)])
    other = f" else {number(load.outside)}" if isinstance(load.outside, np.generic) else ""
    return Expression("load", (), load.source.dtype, name=f"{load.source.name}[{names}{other}]", load=load)


def _places(places: Places) -> tuple[Place, ...]:
    return tuple(place(value) for value in (places if isinstance(places, tuple) else (places,)))


@dataclass(frozen=True, eq=False)
class Indexed:
    """Values of one type along axes."""

    name: str
    axes: tuple[Axis, ...]
    dtype: np.dtype[Any] = FLOAT32

    def __post_init__(self) -> None:
        if self.dtype == BOOL:
            raise DefinitionError(f"{self.name} would be an array of bools; use select(condition, 1, 0)")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    def __getitem__(self, places: Places) -> Expression:
        """Return the value at one place an axis; DefinitionError for a place outside."""
        stated = _places(places)
        if not self._has(stated):
            raise DefinitionError(f"a value of {self.name} {self.shape} at {places} is outside; use one place an axis")
        return self._load(stated, Outside.NEVER)

    def at(self, places: Places, outside: Outside | float) -> Expression:
        """Return the value at one place an axis; where one is outside, this number, or with SKIP no step of a fold."""
        stated = _places(places)
        if len(stated) != len(self.axes):
            raise DefinitionError(f"a value of {self.name} {self.shape} at {places}; use one place an axis")
        if self._has(stated):
            return self._load(stated, Outside.NEVER)
        if any(step < 0 for at in stated for _, step in at.steps):
            raise DefinitionError(f"a value of {self.name} at {places} that may be outside; use steps of 0 or more")
        return self._load(stated, outside if isinstance(outside, Outside) else self.dtype.type(outside))

    def _has(self, places: Sequence[Place]) -> bool:
        inside = [at.is_inside(size) for at, size in zip(places, self.shape, strict=False)]
        return len(places) == len(self.axes) and all(inside)

    def _load(self, places: tuple[Place, ...], outside: Outside | np.generic) -> Expression:
        return loaded(Load(self, places, outside))


@dataclass(frozen=True, eq=False)
class Source(Indexed):
    """An input of a program, or constants of the layer."""

    is_constant: bool = False


def constant(name: str, dtype: np.dtype[Any] = FLOAT32) -> Expression:
    """Return a constant of the layer that is one number."""
    return Source(name, (), dtype, is_constant=True)[()]


@dataclass(frozen=True, eq=False, kw_only=True)
class State(Indexed):
    """The values of an array before a step of a recurrence along the axis `time`; its steps alone read them."""

    time: Axis


@dataclass(frozen=True, eq=False, kw_only=True)
class History(Indexed):
    """The values of a state at the start, and after each step of the recurrence; the first axis numbers these."""

    recurrence: Recurrence


@dataclass(frozen=True, eq=False, kw_only=True)
class Stage(Indexed):
    """Computed values: `root` at each place; in a fold from `start` on, `root` for each step along the axes `over`.

    The steps of a fold have the order of `over`, the last axis the fastest; `accumulator` in `root` is the value so
    far.
    """

    root: Expression
    start: Expression
    over: tuple[Axis, ...] = ()
    accumulator: Expression | None = None

    @property
    def steps(self) -> int:
        """The number of steps of a fold, 1 of an array."""
        return math.prod(axis.size for axis in self.over)

    @property
    def is_sum(self) -> bool:
        """True if each step adds a term that does not depend on the sum."""
        if self.accumulator is None or self.root.operation != "add" or self.root.operands[0] is not self.accumulator:
            return False
        return all(node is not self.accumulator for node in ordered(self.root.operands[1]))

    @property
    def is_extremum(self) -> bool:
        """True if each step takes a term that does not depend on the value so far, if it is larger, or smaller."""
        root = self.root
        if root.operation != "select" or root.operands[0].operation not in {"less", "greater"}:
            return False
        term, other = root.operands[1:]
        is_own = other is self.accumulator and root.operands[0].operands == (term, other)
        return is_own and all(node is not self.accumulator for node in ordered(term))


def array(name: str, over: Sequence[Axis], value: Expression) -> Stage:
    """Return the array of an expression."""
    if any(skipping(value)):
        raise DefinitionError(f"{name} has no step to leave out; use a number for places outside")
    return Stage(name, tuple(over), value.dtype, root=value, start=literal(0))


def fold(
    name: str, out: Sequence[Axis], over: Sequence[Axis], start: float | Expression, step: Callable[..., Expression]
) -> Stage:
    """Return the array of folds: from `start` on, `step` of the value so far, along `over` in this order."""
    first = start if isinstance(start, Expression) else literal(start)
    accumulator = argument(name, first.dtype)
    root = step(accumulator)
    if any(skipping(first)):
        raise DefinitionError(f"{name} begins with a value that may be outside; use a number for places outside")
    for _, at, _ in guards(root):
        if len(set(at.axes) & set(out)) > 1 or not set(at.axes) & set(over):
            raise DefinitionError(
                f"{name} leaves out steps by several of its axes, or by none of the fold; use one place"
            )
    return Stage(name, tuple(out), first.dtype, root=root, start=first, over=tuple(over), accumulator=accumulator)


def narrowed(stage: Stage, dtype: np.dtype[Any]) -> Stage:
    """Return the array of a stage in another type; the stage itself if it has this type."""
    return stage if stage.dtype == dtype else array("y", stage.axes, converted(stage[stage.axes], dtype))


@dataclass(frozen=True, eq=False)
class Recurrence:
    """Arrays of state that advance together along the axis `time`, from its first place on.

    `starts` are their values before the first step.  `stages` compute a step from `states`, the values before it; the
    last ones, one a state, are the values after it.
    """

    time: Axis
    states: tuple[State, ...]
    starts: tuple[Stage, ...]
    stages: tuple[Stage, ...]

    @cached_property
    def histories(self) -> tuple[History, ...]:
        """The values of each state at the start and after each step."""
        moments = Axis(self.time.name, self.time.size + 1)
        return tuple(History(state.name, (moments, *state.axes), state.dtype, recurrence=self) for state in self.states)

    @property
    def steps(self) -> int:
        """The number of steps of its longest fold along all of `time`."""
        return self.time.size * max(stage.steps for stage in self.stages)

    @property
    def results(self) -> tuple[Stage, ...]:
        """The stage of each state after a step."""
        return self.stages[-len(self.states) :]

    @cached_property
    def as_fold(self) -> Stage | None:
        """The fold whose first n steps give the state after n steps; None if it reads a state at another place."""
        [state, *others], [root, *_] = self.states, [stage.root for stage in self.results]
        own = tuple(place(axis) for axis in state.axes)
        before = [(node, places) for node, source, places in loads(root) if source is state]
        if others or len(self.stages) > 1 or any(places != own for _, places in before):
            return None
        accumulator = argument(state.name, state.dtype)
        step = substituted(root, {id(node): accumulator for node, _ in before})
        start = self.starts[0].root
        return Stage(state.name, state.axes, state.dtype, root=step, start=start, over=(self.time,),
                     accumulator=accumulator)  # fmt: skip


def recurrence(
    time: Axis,
    states: Mapping[str, tuple[Sequence[Axis], float | Expression]],
    step: Callable[..., Expression | Sequence[Expression]],
) -> tuple[History, ...]:
    """Return the arrays of state: at place 0 of their first axis the start, at n + 1 the values after step n.

    `states` has the axes of each and its start; `step` gives an expression for each, of the values before the step.
    """
    starts = [start if isinstance(start, Expression) else literal(start) for _, start in states.values()]
    pairs = zip(states.items(), starts, strict=True)
    before = tuple(State(name, tuple(axes), start.dtype, time=time) for (name, (axes, _)), start in pairs)
    values = step(*before)
    values = [values] if isinstance(values, Expression) else values
    first, results = ([array(state.name, state.axes, value) for state, value in zip(before, roots, strict=True)]
                      for roots in (starts, values))  # fmt: skip
    inner: dict[int, Stage] = {}
    for result in results:
        _find_inner(result, time, inner)
    others = [stage for stage in inner.values() if stage not in results]
    return Recurrence(time, before, tuple(first), (*others, *results)).histories


def _find_inner(stage: Stage, time: Axis, inner: dict[int, Stage]) -> bool:
    """Return whether a stage belongs to the steps: it, or one that it reads, reads a state or a place along `time`."""
    is_inner = False
    for _, source, places in all_loads(stage):
        of_stage = isinstance(source, Stage) and _find_inner(source, time, inner)
        at_time = time not in (*stage.axes, *stage.over) and any(time in at.axes for at in places)
        is_inner |= of_stage or at_time or isinstance(source, State)
    if is_inner:
        inner[id(stage)] = stage
    return is_inner


Item: TypeAlias = Stage | Recurrence
"""A stage, or the stages of a recurrence: a program computes them together."""


def computed(item: Item) -> tuple[Stage, ...]:
    """Return the stages of an item, those of starts first."""
    return (item,) if isinstance(item, Stage) else (*item.starts, *item.stages)


def arrays(item: Item) -> tuple[Indexed, ...]:
    """Return the arrays that an item gives to later ones."""
    return (item,) if isinstance(item, Stage) else item.histories


def loads(root: Expression) -> Iterator[tuple[Expression, Indexed, tuple[Place, ...]]]:
    """Yield each load of a graph: its node, the array and the places."""
    for node in ordered(root):
        if node.load is not None:
            yield node, node.load.source, node.load.places


def all_loads(item: Item) -> Iterator[tuple[Expression, Indexed, tuple[Place, ...]]]:
    """Yield each load of the stages of an item."""
    for stage in computed(item):
        for root in (stage.start, stage.root):
            yield from loads(root)


def skipping(root: Expression) -> Iterator[Load]:
    """Yield the loads that leave out steps of a fold."""
    for node in ordered(root):
        if node.load is not None and node.load.outside is SKIP:
            yield node.load


def guards(root: Expression) -> list[Guard]:
    """Return the places of which one outside leaves out a step."""
    return [*dict.fromkeys(guard for load in skipping(root) for guard in load.guards)]


def program(result: Stage) -> tuple[Item, ...]:
    """Return the items that a result needs, each behind those that it reads; the last one is the result."""
    items: dict[int, Item] = {}

    def add(item: Item) -> None:
        if id(item) in items:
            return
        own = computed(item)
        for _, source, _ in all_loads(item):
            if isinstance(source, Stage) and source not in own:
                add(source)
            elif isinstance(source, History):
                add(source.recurrence)
        items[id(item)] = item

    add(result)
    return tuple(items.values())


def sources(items: Sequence[Item]) -> tuple[Source, ...]:
    """Return the inputs and the constants that items read, in the order of their first use."""
    used: dict[int, Source] = {}
    for item in items:
        used |= {id(source): source for _, source, _ in all_loads(item) if isinstance(source, Source)}
    return tuple(used.values())


def replaced(items: Sequence[Item], old: Stage, new: Stage) -> tuple[Item, ...]:
    """Return the program with another stage in the place of one; later stages read the new one."""
    first = next(number for number, item in enumerate(items) if old in computed(item))
    copies: dict[int, Indexed] = {}
    changed = [*items[:first]]

    def copied(stage: Stage) -> Stage:
        source = new if stage is old else stage
        copy = replace(source, root=_reading(source.root, copies), start=_reading(source.start, copies))
        copies[id(stage)] = copy
        return copy

    for item in items[first:]:
        if isinstance(item, Stage):
            changed.append(copied(item))
            continue
        copy = replace(item, starts=tuple(map(copied, item.starts)), stages=tuple(map(copied, item.stages)))
        copies |= {id(was): now for was, now in zip(item.histories, copy.histories, strict=True)}
        changed.append(copy)
    return tuple(changed)


def _reading(root: Expression, copies: dict[int, Indexed]) -> Expression:
    values = {id(node): replace(node, load=node.load._replace(source=copies[id(source)]))
              for node, source, _ in loads(root) if node.load and id(source) in copies}  # fmt: skip
    return substituted(root, values)


def formula(items: Sequence[Item]) -> list[str]:
    """Return a line of text for each stage, a fold with its steps."""
    lines = []
    for item in items:
        if isinstance(item, Stage):
            lines.append(_line(item))
            continue
        lines += [_line(start, "0") for start in item.starts]
        inner = [_line(stage) for stage in item.stages[: -len(item.states)]]
        inner += [_line(stage, f"{item.time.name} + 1") for stage in item.results]
        lines.append(f"for {item.time.name} from 0 on: {'; '.join(inner)}")
    return lines


def _line(stage: Stage, moment: str = "") -> str:
    """Return the text of a stage; `moment` is the place on the first axis of a history."""
    places = [moment] if moment else []
    target = f"{stage.name}[{', '.join([*places, *(axis.name for axis in stage.axes)])}]"
    if not stage.over:
        return f"{target} = {inline(stage.root)}"
    order = ", ".join(axis.name for axis in stage.over)
    inside = " and ".join(dict.fromkeys(loaded(load).name for load in skipping(stage.root)))
    where = f" where {inside} exists" if inside else ""
    return f"{target} = {inline(stage.start)}, then {inline(stage.root)} for {order} from 0 on{where}"


def with_axis(stage: Stage, old: Axis, new: Axis) -> Stage:
    """Return a fold along another axis in the place of one."""
    over = tuple(new if axis is old else axis for axis in stage.over)
    return replace(stage, root=with_places(stage.root, {old: place(new)}), over=over)


def with_places(root: Expression, others: Mapping[Axis, Place]) -> Expression:
    """Return an expression that has places in the place of axes."""

    def moved(at: Place) -> Place:
        steps = [others.get(axis, place(axis)) * step for axis, step in at.steps]
        return sum(steps, Place((), at.constant))

    values = {id(node): replace(node, load=node.load._replace(places=tuple(map(moved, places))))
              for node, _, places in loads(root) if node.load}  # fmt: skip
    return substituted(root, values)


def is_free_of_order(stage: Stage, stages: Sequence[Stage]) -> bool:
    """Return whether a fold is an extremum with the same results of the program in any order of its steps.

    The order decides which of the zeros 0 and -0 it is.  That changes nothing if the extremum is only subtracted, and
    the differences are only arguments of functions that have the same bits for 0 and -0.
    """
    if not stage.is_extremum:
        return False
    return all(_ignores_zero(other.root, stage) for other in stages) and stage is not stages[-1]


def _ignores_zero(root: Expression, stage: Stage) -> bool:
    read = [node for node, source, _ in loads(root) if source is stage]
    users = [node for node in ordered(root) if any(operand in read for operand in node.operands)]
    calls_of = [node for node in ordered(root) if any(operand in users for operand in node.operands)]
    if any(node.operation != "subtract" or node.operands[1] not in read for node in users) or root in [*read, *users]:
        return False
    return all(node.function is not None and node.operation == "call" and _is_even_at_zero(node.function)
               for node in calls_of)  # fmt: skip


def _is_even_at_zero(function: Function) -> bool:
    zeros = np.array([0.0, -0.0], np.float32)
    positive, negative = Evaluation(function.root)({function.argument.name: zeros}).view(np.uint32)
    return bool(positive == negative)
