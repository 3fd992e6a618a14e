"""Decision of the paper's property 3: the items compute the network.

The firing orders of the items' net, with the hand-overs (`sync`) left out, must be exactly those of the network's net:
all that respect the data, and no other.  A layer that is split over items must occur in the network as its parts
(`harness.plan.items.description.refined`).

Both nets are conflict-free if the checks hold, and each operation fires once.  Then the firing orders are the linear
extensions of a partial order, and two partial orders with the same linear extensions are equal (Szpilrajn, "Sur
l'extension de l'ordre partiel", 1930).  So the two orders are compared.  Where the nets are small the same is decided
once more, from the firing rule alone: both are fired side by side, and must offer the same operations all along.

Source: Gauffriau, De Albuquerque Silva, Pagetti, ERTS 2024, section IV.C.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.errors import InfrastructureError
from harness.plan.items.behaviour import why_stuck
from harness.plan.items.graphs import Graph, ItemGraph
from harness.plan.items.translation import translate, translate_items
from harness.plan.petri.net import Marking, Net
from harness.plan.petri.reachability import LIMIT, Reachable, explore
from harness.plan.petri.structure import conflicts, precedence, run

NETWORK, ITEMS = "the network", "the items"
END = "the end"  # no name of an operation


@dataclass(frozen=True)
class Equivalence:
    """The decision whether the two nets have the same firing orders; if not, an order that only one of them permits.

    `equal` is None if it was not decided, which happens only to nets with conflicts and too many markings.  The counts
    are None where they are above the limit: the markings of either net (those of the items are not counted if those of
    the network are too many), and the pairs of states in which both were fired side by side.
    """

    equal: bool | None
    counterexample: str
    decided_by: str
    network_markings: int | None
    items_markings: int | None
    compared_states: int | None


def equivalent(network: Graph, items: Sequence[ItemGraph], limit: int = LIMIT) -> Equivalence:
    """Compare `network`, in which split layers occur as their parts, with `items`; count at most `limit` markings.

    RequestError if two items have one name; InfrastructureError if two ways to decide contradict each other.
    """
    return compare(translate(network), translate_items(items), limit)


def compare(network: Net, items: Net, limit: int = LIMIT) -> Equivalence:
    """Decide whether two nets have the same complete firing orders of their operations, which exclude `sync`."""
    reached = explore(network, limit)
    handing = explore(items, limit) if reached.complete else None
    by_firing, states = _by_firing(reached, handing, limit) if handing and handing.complete else (None, None)
    if different := _different_operations(network, items):
        ways: dict[str, str | None] = {"the operations": different}
    else:
        ways = {"partial orders": _by_structure(network, items), "firing side by side": by_firing}
    found = [answer for answer in ways.values() if answer is not None]
    if len({bool(answer) for answer in found}) > 1:
        raise InfrastructureError(
            f"plan check: the two ways to compare nets contradict each other: {found}",
            "nothing was decided about the plan; the fault is in this program: report it",
        )
    return Equivalence(
        equal=not found[0] if found else None,
        counterexample=found[0] if found else "",
        decided_by=" and ".join(way for way, answer in ways.items() if answer is not None),
        network_markings=_count(reached),
        items_markings=_count(handing),
        compared_states=states,
    )


def _count(reached: Reachable | None) -> int | None:
    return len(reached) if reached and reached.complete else None


def _by_structure(network: Net, items: Net) -> str | None:
    """Return a counterexample, empty without one; None for nets with conflicts.  Operations must be the same."""
    if conflicts(network) or conflicts(items):
        return None
    for who, net in ((NETWORK, network), (ITEMS, items)):
        if stuck := why_stuck(net):
            return f"{who} cannot finish: {stuck[0]}"
    return _different_order(network, items)


def _operations(net: Net) -> Counter[tuple[str, str]]:
    return Counter((t.name, t.label) for t in net.transitions if not t.sync)


def _different_operations(network: Net, items: Net) -> str:
    wanted, theirs = _operations(network), _operations(items)
    for name, operation in wanted | theirs:
        expected, found = wanted[name, operation], theirs[name, operation]
        if expected == found == 1:
            continue
        others = [label for (each, label), count in theirs.items() if each == name and label != operation]
        if expected and others:
            return f"{name} is {operation} in {NETWORK}, but {others[0]} in {ITEMS}"
        return f"{name} ({operation}): {ITEMS} compute it {found} times, {NETWORK} {expected} times"
    return ""


@dataclass(frozen=True)
class _Difference:
    """An order that `free` permits; `bound` does not, because its last operation comes after `late` there."""

    order: tuple[str, ...]
    late: str
    free: str
    bound: str

    def __str__(self) -> str:
        allows = f"{self.free} can fire {', '.join(self.order)} before {self.late}"
        return f"{allows}, but in {self.bound} {self.order[-1]} comes after {self.late}"


def _different_order(network: Net, items: Net) -> str:
    """Describe a shortest order that only one of the two permits; empty without one."""
    positions = {name: bit for bit, (name, _) in enumerate(_operations(network))}
    nets = {NETWORK: network, ITEMS: items}
    before = {who: precedence(net, run(net).path, positions) for who, net in nets.items()}
    found = [
        difference
        for free, bound in ((NETWORK, ITEMS), (ITEMS, NETWORK))
        for difference in _differences(free, bound, before, positions)
    ]
    return str(min(found, key=lambda each: len(each.order))) if found else ""


def _differences(
    free: str, bound: str, before: Mapping[str, Mapping[str, int]], positions: Mapping[str, int]
) -> Iterator[_Difference]:
    """Yield each operation that must wait in `bound` and not in `free`, where it can fire after just its needs."""
    for name in positions:
        needs = before[free][name]
        if waits := before[bound][name] & ~needs:
            order = (each for each in before[free] if needs >> positions[each] & 1)
            late = next(each for each in before[bound] if waits >> positions[each] & 1)
            yield _Difference((*order, name), late, free, bound)


Markings = frozenset[Marking]


def _by_firing(network: Reachable, items: Reachable, limit: int) -> tuple[str | None, int | None]:
    """Fire both side by side: a counterexample, empty if there is none, and how many pairs of states were compared.

    A state is all markings that the operations so far can have led to; both are None if there are more than `limit`
    pairs.
    """
    first = _settled(network, [network.net.start]), _settled(items, [items.net.start])
    orders: dict[tuple[Markings, Markings], tuple[str, ...]] = {first: ()}
    queue = deque([first])
    while queue:
        left, right = state = queue.popleft()
        here, there = _offers(network, left), _offers(items, right)
        if set(here) != set(there):
            return _disagreement(orders[state], here, there), len(orders)
        for name in sorted(here.keys() - {END}):
            pair = _settled(network, here[name]), _settled(items, there[name])
            if pair not in orders:
                orders[pair] = (*orders[state], name)
                queue.append(pair)
        if len(orders) > limit:
            return None, None
    return "", len(orders)


def _settled(reached: Reachable, markings: Iterable[Marking]) -> Markings:
    """Return `markings`, and all that any number of hand-overs can make of them."""
    found = set(markings)
    queue = list(found)
    while queue:
        marking = queue.pop()
        after = {after for sync, _, after in _firings(reached, marking) if sync}
        queue.extend(after - found)
        found |= after
    return frozenset(found)


def _offers(reached: Reachable, markings: Markings) -> dict[str, list[Marking]]:
    """Return the operations that can fire, by name, each with the markings after it; END if nothing can fire."""
    offers: dict[str, list[Marking]] = {}
    for marking in markings:
        if not reached.enabled[marking]:
            offers[END] = []
        for sync, name, after in _firings(reached, marking):
            if not sync:
                offers.setdefault(name, []).append(after)
    return offers


def _firings(reached: Reachable, marking: Marking) -> Iterator[tuple[bool, str, Marking]]:
    net = reached.net
    for index in reached.enabled[marking]:
        yield net.transitions[index].sync, net.transitions[index].name, net.fire(marking, index)


def _disagreement(order: tuple[str, ...], network_offers: Iterable[str], items_offers: Iterable[str]) -> str:
    """Describe the operations that can follow an order in only one of the nets."""
    after = f"after {', '.join(order)}" if order else "at the beginning"
    here, there = (", ".join(sorted(offers)) for offers in (network_offers, items_offers))
    return f"{after} {NETWORK} can continue with {here}, {ITEMS} with {there}"
