"""Properties of all firing orders of a net that follow from its arcs, in time polynomial in its size.

A net is *conflict-free* when each kind of token comes from one source, suffices for all that take it, and no transition
can fire twice.  Then no firing ever disables another: every transition fires at most once, all maximal paths fire the
same ones and end in the same marking, so that one run shows how all end.  If all fire, the firing orders are exactly
the linear extensions of "must come before".  (Conflict-free nets are persistent; persistent nets are confluent:
Landweber and Robertson, "Properties of conflict-free and persistent Petri nets", Journal of the ACM, 1978.)
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.plan.petri.net import Kind, Marking, Net, Tokens


@dataclass(frozen=True)
class Conflict:
    """Transitions, by index, whose firing may depend on which is first; `reason` says what they do to tokens of `kind`.

    `kind` is None for a transition that may fire twice.
    """

    transitions: tuple[int, ...]
    kind: Kind | None
    reason: str


@dataclass(frozen=True)
class Run:
    """One path on which no transition fires twice, as long as can be, and the marking at its end."""

    path: tuple[int, ...]
    marking: Marking


@dataclass(frozen=True)
class Blockage:
    """Transitions that never fire, each of which waits for the next, the last for the first if `cycle`.

    Without a cycle there is one transition, and none is left that puts the tokens that it waits for.
    """

    transitions: tuple[int, ...]
    waits_for: tuple[Kind, ...]
    cycle: bool


def conflicts(net: Net) -> tuple[Conflict, ...]:
    """Return the conflicts of `net`; empty if it is conflict-free."""
    about_tokens = (*_several_sources(net), *_competitions(net))
    twice = (Conflict((index,), None, "may fire twice, with the tokens of others") for index in repeatable(net))
    return (*about_tokens, *twice)


def repeatable(net: Net) -> tuple[int, ...]:
    """Return the transitions that may fire twice: of everything that they take there is enough for that."""
    supply = _supply(net)
    return tuple(
        index
        for index, transition in enumerate(net.transitions)
        if all(supply[kind] >= 2 * count for kind, count in _counts(transition.consumes).items())
    )


def run(net: Net) -> Run:
    """Fire all enabled transitions in the order of the net, each at most once.

    Tokens are counted kind by kind: a marking in one number is as long as the net is large, and this takes many.
    """
    there, path = dict.fromkeys(net.kinds, 0) | _counts(net.initial), dict[int, None]()
    needs = [_counts(transition.consumes) for transition in net.transitions]
    candidates = list(range(len(needs)))  # sorted, so it is a heap
    while candidates:
        index = heapq.heappop(candidates)
        if index not in path and all(there[kind] >= count for kind, count in needs[index].items()):
            path[index] = None
            for kind, count in needs[index].items():
                there[kind] -= count
            for tokens in net.transitions[index].produces:
                there[tokens.kind] += tokens.count
            for follower in net.followers[index]:
                heapq.heappush(candidates, follower)
    return Run(tuple(path), net.marking(Tokens(*kind, count) for kind, count in there.items() if count))


def blockages(net: Net, stopped: Run) -> tuple[Blockage, ...]:
    """Return why the transitions that are not on the path of `stopped` never fire: one reason for every root cause."""
    stuck = [index for index in range(len(net.transitions)) if index not in stopped.path]
    waits = {index: _wait(net, stopped, index) for index in stuck}
    found = [Blockage((index,), (kind,), cycle=False) for index, (kind, source) in waits.items() if source is None]
    return (*found, *_cycles(waits))


def precedence(net: Net, path: tuple[int, ...], positions: Mapping[str, int]) -> dict[str, int]:
    """Return for every named transition on `path` those that fire before it in every order, as a set of bits.

    `positions` gives the bit of each name; transitions without one only pass on what comes before them.
    """
    before: dict[int, int] = {}
    for index in path:
        sources = {source for tokens in net.transitions[index].consumes for source in net.producers[tokens.kind]}
        before[index] = 0
        for source in sources:
            position = positions.get(net.transitions[source].name)
            before[index] |= before[source] | (0 if position is None else 1 << position)
    names = ((net.transitions[index].name, bits) for index, bits in before.items())
    return {name: bits for name, bits in names if name in positions}


def _supply(net: Net) -> dict[Kind, int]:
    """Return the number of all tokens of every kind if every transition fires once."""
    supply = dict.fromkeys(net.kinds, 0)
    for tokens in (*net.initial, *(tokens for t in net.transitions for tokens in t.produces)):
        supply[tokens.kind] += tokens.count
    return supply


def _counts(arcs: tuple[Tokens, ...]) -> dict[Kind, int]:
    counts: dict[Kind, int] = {}
    for tokens in arcs:
        counts[tokens.kind] = counts.get(tokens.kind, 0) + tokens.count
    return counts


def _several_sources(net: Net) -> Iterator[Conflict]:
    """Yield tokens of one kind that come from more than one transition, or from one and the beginning."""
    initially = {tokens.kind for tokens in net.initial}
    for kind, producers in net.producers.items():
        if len(producers) + (kind in initially) > 1:
            also = ", where some lie from the beginning" if kind in initially else ""
            yield Conflict(producers, kind, f"put tokens there{also}")


def _competitions(net: Net) -> Iterator[Conflict]:
    """Yield tokens of one kind that do not suffice for all that take them."""
    supply, demand = _supply(net), dict.fromkeys(net.kinds, 0)
    for tokens in (tokens for t in net.transitions for tokens in t.consumes):
        demand[tokens.kind] += tokens.count
    for kind, consumers in net.consumers.items():
        if 0 < supply[kind] < demand[kind] and len(consumers) > 1:
            yield Conflict(consumers, kind, f"compete for {supply[kind]} tokens and take {demand[kind]}")


def _wait(net: Net, stopped: Run, index: int) -> tuple[Kind, int | None]:
    """Return a kind that the transition lacks and a transition that could put it; first a kind without any."""
    counts = _counts(net.transitions[index].consumes).items()
    lacking = [kind for kind, count in counts if net.count(stopped.marking, kind) < count]
    waits = [(kind, next((p for p in net.producers[kind] if p not in stopped.path), None)) for kind in lacking]
    return min(waits, key=lambda wait: wait[1] is not None)


def _cycles(waits: Mapping[int, tuple[Kind, int | None]]) -> Iterator[Blockage]:
    """Yield every transition waits for one other, so each walk ends at a root or in a cycle."""
    seen: set[int] = set()
    for start in waits:
        walk: list[int] = []
        index: int | None = start
        while index is not None and index in waits and index not in seen:
            seen.add(index)
            walk.append(index)
            index = waits[index][1]
        if index is not None and index in walk:
            cycle = tuple(walk[walk.index(index) :])
            yield Blockage(cycle, tuple(waits[each][0] for each in cycle), cycle=True)
