"""Nets for tests: small ones at random, and the firing rule once more in its plainest form."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from harness.plan.petri.net import Kind, Net, Tokens, Transition

Count = frozenset[tuple[Kind, int]]

KINDS: tuple[Kind, ...] = (("p", "red"), ("p", "blue"), ("q", "red"), ("r", ""))
ARCS = st.lists(
    st.builds(lambda kind, count: Tokens(*kind, count), st.sampled_from(KINDS), st.integers(1, 2)), max_size=3
)


@st.composite
def nets(draw: st.DrawFn) -> Net:
    count = draw(st.integers(1, 4))
    transitions = tuple(
        Transition(f"t{index}", tuple(draw(ARCS)), tuple(draw(ARCS)), sync=draw(st.booleans()))
        for index in range(count)
    )
    return Net("random", ("p", "q", "r"), transitions, tuple(draw(ARCS)))


@st.composite
def tidy_nets(draw: st.DrawFn) -> Net:
    """Nets whose kinds have one source each, which puts about as many tokens as the one or two that take them need."""
    names = [f"t{index}" for index in range(draw(st.integers(1, 5)))]
    arcs: dict[str, tuple[list[Tokens], list[Tokens]]] = {name: ([], []) for name in names}
    initial: list[Tokens] = []
    for place in ("a", "b", "c", "d", "e"):
        takers = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        needs = [Tokens(place, "", draw(st.integers(1, 2))) for _ in takers]
        for taker, need in zip(takers, needs, strict=True):
            arcs[taker][0].append(need)
        supply = sum(need.count for need in needs) + draw(st.sampled_from((0, 0, 0, 1, -1)))
        source = draw(st.sampled_from([None, None, *names]))
        (initial if source is None else arcs[source][1]).append(Tokens(place, "", supply))
    transitions = tuple(Transition(name, tuple(takes), tuple(puts)) for name, (takes, puts) in arcs.items())
    return Net("tidy", ("a", "b", "c", "d", "e"), transitions, tuple(initial))


def counted(tokens: tuple[Tokens, ...]) -> Count:
    total: Counter[Kind] = Counter()
    for each in tokens:
        total[each.kind] += each.count
    return frozenset((+total).items())


def successors(net: Net, marking: Count) -> dict[str, Count]:
    """What each enabled transition makes of a marking, by dictionaries."""
    found = {}
    for transition in net.transitions:
        there, need = Counter(dict(marking)), Counter(dict(counted(transition.consumes)))
        if all(there[kind] >= count for kind, count in need.items()):
            there.subtract(need)
            there.update(dict(counted(transition.produces)))
            found[transition.name] = frozenset((+there).items())
    return found


def reachable(net: Net, limit: int) -> set[Count] | None:
    """All markings, or None if there are more than `limit`."""
    found = {counted(net.initial)}
    waiting = list(found)
    while waiting:
        new = set(successors(net, waiting.pop()).values()) - found
        found |= new
        waiting.extend(new)
        if len(found) > limit:
            return None
    return found
