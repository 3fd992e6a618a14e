"""Behaviour of the net of items: conflicts of its steps, and the ends of all its paths.

One run decides it (see `harness.plan.petri.structure`); markings that were counted besides must say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.errors import InfrastructureError
from harness.plan.petri.net import Kind, Marking, Net
from harness.plan.petri.reachability import Reachable
from harness.plan.petri.structure import Blockage, Conflict, blockages, conflicts, run


@dataclass(frozen=True)
class Check:
    """A property of all items, with its counterexample; `path` is a firing order that leads to it."""

    name: str
    statement: str
    counterexamples: tuple[str, ...] = ()
    path: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Nothing speaks against it."""
        return not self.counterexamples


def conflict_free(net: Net) -> Check:
    """Check by the arcs of the net that no step takes the tokens of another."""
    found = tuple(_conflict(net, conflict) for conflict in conflicts(net))
    return Check("no conflict", "no step takes what another needs", found)


def final_marking(net: Net, reachable: Reachable) -> Check:
    """Check that every path ends in the final marking: by one run, or by all markings if steps conflict.

    RuntimeError if `reachable` contradicts the run: a bug in here.
    """
    found, path = _by_markings(net, reachable) if conflicts(net) else _by_run(net, reachable)
    return Check("final marking", "every path ends with one token in each output and no other", found, path)


def name_of(net: Net, transition: int) -> str:
    """Return a transition as people know it: with its item."""
    step = net.transitions[transition]
    return f"{step.name} of {step.colour}" if step.colour else step.name


def why_stuck(net: Net) -> tuple[str, ...]:
    """Return why transitions of a conflict-free net never fire; empty if all do."""
    return tuple(_blockage(net, blockage) for blockage in blockages(net, run(net)))


def _conflict(net: Net, conflict: Conflict) -> str:
    who = " and ".join(name_of(net, index) for index in conflict.transitions)
    return f"{_place_of(conflict.kind)}: {who} {conflict.reason}" if conflict.kind else f"{who} {conflict.reason}"


def _by_run(net: Net, reachable: Reachable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    stopped = run(net)
    if set(reachable.dead) - {stopped.marking} or (reachable.complete and not reachable.dead):
        raise InfrastructureError(
            f"plan check: net {net.name}: a run ends where the counted markings do not",
            "nothing was decided about the plan; the fault is in this program: report it",
        )
    found = why_stuck(net) or tuple(_amiss(net, stopped.marking))
    return found, tuple(net.transitions[index].name for index in stopped.path) if found else ()


def _by_markings(net: Net, reachable: Reachable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    wrong = [marking for marking in reachable.dead if marking != net.end]
    if wrong:
        path = reachable.path(wrong[0])
        return tuple(f"after {', '.join(path) or 'nothing'}: {text}" for text in _amiss(net, wrong[0])), path
    if not reachable.complete:
        return (f"not decided: steps conflict, and there are more than {len(reachable)} markings",), ()
    return (() if reachable.dead else ("no path ends",)), ()


def _blockage(net: Net, blockage: Blockage) -> str:
    steps = [name_of(net, index) for index in blockage.transitions]
    if not blockage.cycle:
        return f"{steps[0]} never happens: {_place_of(blockage.waits_for[0])} never gets enough tokens"
    needs = (f"{step} needs {place}" for step, (place, _) in zip(steps, blockage.waits_for, strict=True))
    items = dict.fromkeys(net.transitions[index].colour for index in blockage.transitions)
    who = f"{' and '.join(items)} wait for each other" if len(items) > 1 else "a cycle"
    return f"{who}: {', '.join(needs)}"


def _amiss(net: Net, marking: Marking) -> Iterator[str]:
    """Yield the differences between a marking and the final one."""
    for kind in net.kinds:
        there, wanted = net.count(marking, kind), net.count(net.end, kind)
        if there != wanted:
            yield f"{_place_of(kind)} ends with {there} tokens instead of {wanted}"


def _place_of(kind: Kind) -> str:
    place, colour = kind
    return f"{place} for {colour}" if colour else place
