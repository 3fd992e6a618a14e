"""The loops and constants of a recurrence: one that begins with stated states, and one that continues another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.operators.exact.expression import Expression, select
from harness.operators.exact.stages import Axis, Place, Source, Stage, array, fold, place


@dataclass(frozen=True)
class Sizes:
    """The steps, the values of x in each, and those of a state; `gates` are sums for each value of a state."""

    steps: int
    inputs: int
    hidden: int
    gates: int


class Cell:
    """The loop variables and constants of a definition: weights w and r by gate, input and state, and biases b.

    The weights of the values of a state lie side by side, so that a compiler vectorises their sums in the stated order.
    `at` is the place of a step in x.
    """

    def __init__(self, sizes: Sizes, biases: int, *, reverse: bool) -> None:
        axes = (("t", sizes.steps), ("u", sizes.hidden), ("i", sizes.inputs), ("j", sizes.hidden), ("g", sizes.gates))
        self.t, self.u, self.i, self.j, self.g = (Axis(name, size) for name, size in axes)
        self.at: Axis | Place = place(self.t) * -1 + (sizes.steps - 1) if reverse else self.t
        self.x = Source("x", (self.t, self.i))
        self.w = Source("w", (self.g, self.i, self.u), is_constant=True)
        self.r = Source("r", (self.g, self.j, self.u), is_constant=True)
        self.b = Source("b", (Axis("p", biases), self.u), is_constant=True)

    def of_input(self, name: str, gates: Axis, first: int = 0) -> Stage:
        """Return the sums of gates from their biases on, with the products of x and w."""
        gate = gates + first
        start = self.b[gate, self.u]
        return fold(
            name,
            (gates, self.u),
            (self.i,),
            start,
            lambda a: a + self.x[self.at, self.i] * self.w[gate, self.i, self.u],
        )

    def of_state(self, name: str, gates: Axis, start: Expression, h: Any, first: int = 0) -> Stage:
        """Return the sums of gates from `start` on, with the products of the state h and r."""
        gate = gates + first
        return fold(name, (gates, self.u), (self.j,), start, lambda a: a + h[self.j] * self.r[gate, self.j, self.u])

    def states(self, initial: Mapping[str, str]) -> dict[str, tuple[tuple[Axis, ...], Any]]:
        """Return the states; each begins with 0, or with the source that `initial` names: a constant, or x1, x2."""
        starts = {
            state: Source(name, (self.u,), is_constant=not name.startswith("x"))[self.u] if name else 0
            for state, name in initial.items()
        }
        return {state: ((self.u,), start) for state, start in starts.items()}

    def history(self, h: Any, *_: Any) -> Stage:
        """Return the first state after each step, at the place of the step in x."""
        after = self.t + 1 if self.at is self.t else place(self.t) * -1 + self.t.size
        return array("y", (self.t, self.u), h[after, self.u])


class CarriedCell(Cell):
    """The same for steps that continue others: the first source is what those wrote, the second is x.

    All states after each step are written, (states, steps, hidden).
    """

    def __init__(self, sizes: Sizes, biases: int, states: int) -> None:
        super().__init__(sizes, biases, reverse=False)
        self.s = Axis("s", states)
        self.before = Source("x", (self.s, Axis("k", sizes.steps), self.u))
        self.x = Source("x1", (self.t, self.i))
        self.number = Source("number", (self.s,), is_constant=True)

    def states(self, initial: Mapping[str, str]) -> dict[str, tuple[tuple[Axis, ...], Any]]:
        """Return the states; each begins with that after the last of the steps before."""
        last = self.t.size - 1
        return {state: ((self.u,), self.before[place, last, self.u]) for place, state in enumerate(initial)}

    def history(self, h: Any, *others: Any) -> Stage:
        """Return all states after each step; the number of a state chooses the second one."""
        after = h[self.t + 1, self.u]
        for other in others:
            after = select(self.number[self.s] > 0, other[self.t + 1, self.u], after)
        return array("y", (self.s, self.t, self.u), after)
