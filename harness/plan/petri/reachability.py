"""The markings that a net can reach, one after the other: the definition of a net's behaviour.

There can be very many: with n transitions that do not wait for each other 2^n.  `explore` stops at a limit and says so.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from harness.plan.petri.net import Marking, Net

LIMIT = 10_000


@dataclass(frozen=True, eq=False)
class Reachable:
    """Markings in the order in which they were found, nearest first.

    `steps` holds for each the marking and transition by which it was found (the initial marking: none), `enabled` what
    can fire in it.  Not `complete`: the limit was hit, and there are more.
    """

    net: Net
    steps: dict[Marking, tuple[Marking, int] | None]
    enabled: dict[Marking, tuple[int, ...]]
    complete: bool

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def dead(self) -> tuple[Marking, ...]:
        """The markings in which nothing can fire."""
        return tuple(marking for marking, enabled in self.enabled.items() if not enabled)

    def path(self, marking: Marking) -> tuple[str, ...]:
        """Return the names of fewest transitions that lead to `marking`; raise KeyError if it was not found."""
        names: list[str] = []
        step = self.steps[marking]
        while step is not None:
            before, transition = step
            names.append(self.net.transitions[transition].name)
            step = self.steps[before]
        return tuple(reversed(names))


def explore(net: Net, limit: int = LIMIT) -> Reachable:
    """Return at most `limit` markings that `net` reaches, breadth first; 0 excludes even the initial one."""
    if limit == 0:
        return Reachable(net, {}, {}, complete=False)
    steps: dict[Marking, tuple[Marking, int] | None] = {net.start: None}
    enabled = {net.start: net.enabled(net.start)}
    queue = deque([net.start])
    while queue:
        marking = queue.popleft()
        for transition in enabled[marking]:
            after = Marking(marking + net.changes[transition])
            if after in steps:
                continue
            if len(steps) >= limit:
                return Reachable(net, steps, enabled, complete=False)
            steps[after] = marking, transition
            enabled[after] = _enabled_after(net, after, enabled[marking], transition)
            queue.append(after)
    return Reachable(net, steps, enabled, complete=True)


def _enabled_after(net: Net, marking: Marking, before: tuple[int, ...], fired: int) -> tuple[int, ...]:
    """Return the enabled transitions: each was enabled before, or takes tokens that were just put."""
    candidates = dict.fromkeys((*before, *net.followers[fired]))
    return tuple(index for index in candidates if net.is_enabled(marking, index))
