"""Programs of the exact language: arrays of one expression each, or of a fold in a stated order, one after the other.

    o, k, i = axes(o=2, k=10, i=3)
    x = Source("x", (o, k, i))
    m = fold("m", (o, i), (k,), -np.inf, lambda m: larger(x[o, k, i], m))
    e = array("e", (o, k, i), exponential(x[o, k, i] - m[o, i]))
    s = fold("s", (o, i), (k,), 0, lambda s: s + e[o, k, i])
    y = array("y", (o, k, i), e[o, k, i] / s[o, i])

A place is an axis, an integer, or a sum of axes times integers.  The values of an array have the order of its axes, the
last one the fastest, so that an input of another shape is the same values with other axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from harness.operators.exact.expression import (
    FLOAT32,
    DefinitionError,
    Expression,
    argument,
    literal,
    ordered,
    substituted,
)
from harness.operators.exact.printing import inline


@dataclass(frozen=True, eq=False)
class Axis:
    """A loop variable from 0 to size - 1."""

    name: str
    size: int

    def __add__(self, other: Axis | Place | int) -> Place:
        return place(self) + other

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

    def __mul__(self, step: int) -> Place:
        return Place(tuple((axis, step * own) for axis, own in self.steps), step * self.constant)

    @property
    def last(self) -> int:
        """The largest value; steps are not negative."""
        return self.constant + sum(step * (axis.size - 1) for axis, step in self.steps)

    def text(self, names: Callable[[Axis], str]) -> str:
        """Return the sum as text of most languages; `names` gives the text of an axis."""
        terms = [names(axis) if step == 1 else f"{names(axis)} * {step}" for axis, step in self.steps if axis.size > 1]
        return " + ".join([*terms, *([str(self.constant)] if self.constant or not terms else [])])


Places: TypeAlias = "Axis | Place | int | tuple[Axis | Place | int, ...]"


def place(value: Axis | Place | int) -> Place:
    """Return an axis or an integer as a place."""
    if isinstance(value, Place):
        return value
    return Place(((value, 1),)) if isinstance(value, Axis) else Place((), value)


@dataclass(frozen=True, eq=False)
class Indexed:
    """Values of one type along axes."""

    name: str
    axes: tuple[Axis, ...]
    dtype: np.dtype[Any] = FLOAT32

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
        stated = tuple(place(value) for value in (places if isinstance(places, tuple) else (places,)))
        inside = [at.constant >= 0 and at.last < size for at, size in zip(stated, self.shape, strict=False)]
        if len(stated) != len(self.axes) or not all(inside):
            raise DefinitionError(f"a value of {self.name} {self.shape} at {places} is outside; use one place an axis")
        names = ", ".join(at.text(lambda axis: axis.name) for at in stated)
        return Expression("load", (), self.dtype, name=f"{self.name}[{names}]", load=(self, stated))


@dataclass(frozen=True, eq=False)
class Source(Indexed):
    """An input of a program, or constants of the layer."""

    is_constant: bool = False


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


def array(name: str, over: Sequence[Axis], value: Expression) -> Stage:
    """Return the array of an expression."""
    return Stage(name, tuple(over), value.dtype, root=value, start=literal(0))


def fold(
    name: str, out: Sequence[Axis], over: Sequence[Axis], start: float | Expression, step: Callable[..., Expression]
) -> Stage:
    """Return the array of folds: from `start` on, `step` of the value so far, along `over` in this order."""
    first = start if isinstance(start, Expression) else literal(start)
    accumulator = argument(name, first.dtype)
    root = step(accumulator)
    return Stage(name, tuple(out), first.dtype, root=root, start=first, over=tuple(over), accumulator=accumulator)


def loads(root: Expression) -> Iterator[tuple[Expression, Indexed, tuple[Place, ...]]]:
    """Yield each load of a graph: its node, the array and the places."""
    for node in ordered(root):
        if node.load is not None:
            yield node, *node.load


def program(result: Stage) -> tuple[Stage, ...]:
    """Return the stages that a result needs, each behind those that it reads; the last one is the result."""
    stages: dict[int, Stage] = {}

    def add(stage: Stage) -> None:
        if id(stage) in stages:
            return
        for root in (stage.start, stage.root):
            for _, source, _ in loads(root):
                if isinstance(source, Stage):
                    add(source)
        stages[id(stage)] = stage

    add(result)
    return tuple(stages.values())


def sources(stages: Sequence[Stage]) -> tuple[Source, ...]:
    """Return the inputs and the constants that stages read, in the order of their first use."""
    used: dict[int, Source] = {}
    for stage in stages:
        for root in (stage.start, stage.root):
            used |= {id(source): source for _, source, _ in loads(root) if isinstance(source, Source)}
    return tuple(used.values())


def replaced(stages: Sequence[Stage], old: Stage, new: Stage) -> tuple[Stage, ...]:
    """Return the program with another stage in the place of one; later stages read the new one."""
    place = stages.index(old)
    copies: dict[int, Indexed] = {id(old): new}
    changed = [*stages[:place], new]
    for stage in stages[place + 1 :]:
        roots = [_reading(root, copies) for root in (stage.root, stage.start)]
        copy = replace(stage, root=roots[0], start=roots[1])
        copies[id(stage)] = copy
        changed.append(copy)
    return tuple(changed)


def _reading(root: Expression, copies: dict[int, Indexed]) -> Expression:
    values = {id(node): replace(node, load=(copies[id(source)], places))
              for node, source, places in loads(root) if id(source) in copies}  # fmt: skip
    return substituted(root, values)


def formula(stages: Sequence[Stage]) -> list[str]:
    """Return a line of text for each stage, a fold with its steps."""
    lines = []
    for stage in stages:
        target = f"{stage.name}[{', '.join(axis.name for axis in stage.axes)}]"
        if not stage.over:
            lines.append(f"{target} = {inline(stage.root)}")
            continue
        order = ", ".join(axis.name for axis in stage.over)
        lines.append(f"{target} = {inline(stage.start)}, then {inline(stage.root)} for {order} from 0 on")
    return lines


def with_axis(stage: Stage, old: Axis, new: Axis) -> Stage:
    """Return a fold along another axis in the place of one."""

    def moved(at: Place) -> Place:
        return Place(tuple((new if axis is old else axis, step) for axis, step in at.steps), at.constant)

    values = {id(node): replace(node, load=(source, tuple(map(moved, places))))
              for node, source, places in loads(stage.root)}  # fmt: skip
    over = tuple(new if axis is old else axis for axis in stage.over)
    return replace(stage, root=substituted(stage.root, values), over=over)
