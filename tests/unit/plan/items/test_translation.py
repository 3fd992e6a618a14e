from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from harness.core.errors import RequestError
from harness.plan.items.graphs import External, Get, Graph, ItemGraph, Operation, Send
from harness.plan.items.translation import fixed_places, permit, translate, translate_items
from harness.plan.petri.net import Net, Tokens
from harness.plan.petri.reachability import explore
from harness.plan.petri.structure import conflicts
from tests.support.examples import examples
from tests.support.items.examples import (
    BRANCHES,
    LENET,
    SHAPE,
    distributions,
    layered,
    op,
    parameters,
    relay,
    shared,
    three_items,
)


def sizes(net: Net) -> tuple[int, int, int, int]:
    """Places, transitions, tokens at the beginning, reachable markings."""
    return len(net.places), len(net.transitions), sum(tokens.count for tokens in net.initial), len(explore(net))


def arcs(net: Net, name: str) -> tuple[set[Tokens], set[Tokens]]:
    (transition,) = (each for each in net.transitions if each.name == name)
    return set(transition.consumes), set(transition.produces)


def test_lenet_has_the_papers_numbers() -> None:
    """The paper's example 4: 11 tokens in the initial marking, one in the final one, and "24 states".

    24 is the number of places (e1, v1 to v10, o1 to o12, out), the states of figure 4 in the sense of its circles.
    The 13 operations have a single possible order (example 3), so that 14 markings are reachable.
    """
    net = translate(LENET)
    assert sizes(net) == (24, 13, 11, 14)
    assert explore(net).dead == (net.end,)
    assert net.tokens(net.end) == (Tokens("out"),)


def test_listing_2_has_two_branches() -> None:
    """Figure 5: o1, v5 and v6 are needed twice; 1 + 3 * 3 + 3 markings: before, in and behind the branches."""
    net = translate(BRANCHES)
    assert sizes(net) == (19, 8, 13, 13)
    assert arcs(net, "o1") == ({Tokens("e1"), Tokens("v1"), Tokens("v2")}, {Tokens("o1", "", 2)})
    assert Tokens("v5", "", 2) in net.initial


def test_three_items_share_places_and_synchronise() -> None:
    """Figure 6: the places of listing 2, and three syncs more; tokens of o1 go from item 1 to items 2 and 3.

    Before the branches there are two markings now, for o1 and vsync1, and in each branch four, for its own sync: 2 +
    4 * 4 + 3.
    """
    net = translate_items(three_items())
    assert sizes(net) == (19, 11, 13, 21)
    assert set(net.places) == set(translate(BRANCHES).places)
    assert net.colours == ("ITEM1", "ITEM2", "ITEM3")
    assert {tokens for tokens in net.initial if tokens.place == "v5"} == {Tokens("v5", "ITEM2"), Tokens("v5", "ITEM3")}
    assert arcs(net, "o1")[1] == {Tokens("o1", "ITEM1")}
    assert arcs(net, "vsync1") == ({Tokens("o1", "ITEM1")}, {Tokens("o1", "ITEM2"), Tokens("o1", "ITEM3")})
    assert arcs(net, "o6")[0] == {Tokens("o3", "ITEM1"), Tokens("o5", "ITEM1")}
    assert [t.name for t in net.transitions if t.sync] == ["vsync1", "vsync2", "vsync3"]


def test_a_reader_gets_as_many_tokens_as_it_has_uses() -> None:
    network = layered([[-1], [0, 0], [0]], [1, 1, 1])
    net = translate_items([_whole("A", network, "t0", "B"), _rest("B", network, "A", "t0")])
    assert arcs(net, "sync") == ({Tokens("t0", "A")}, {Tokens("t0", "B", 3)})
    assert arcs(net, "t1")[0] == {Tokens("t0", "B", 2), Tokens("w1", "B")}


def _whole(item: str, network: Graph, name: str, reader: str) -> ItemGraph:
    """The item that computes the first operation of `network` and sends it."""
    kept = [each for each in network.instructions if each.output in {"x", "w0", name}]  # type: ignore[union-attr]
    return ItemGraph(item, ("x",), ("sync",), (*kept, Send("sync", (reader,), name)), item, shared("sync"))


def _rest(item: str, network: Graph, source: str, name: str) -> ItemGraph:
    kept = [each for each in network.instructions if each.output not in {"x", "w0", name}]  # type: ignore[union-attr]
    return ItemGraph(item, ("sync",), network.outputs, (Get(name, source, "sync"), *kept), item, shared("sync"))


def test_what_is_got_can_be_sent_on_from_the_place_of_its_origin() -> None:
    net = translate_items(relay())
    assert net.places == ("x", "a", "c")
    assert arcs(net, "t") == ({Tokens("a", "B")}, {Tokens("a", "C")})
    assert explore(net).dead == (net.end,)


def test_an_output_keeps_a_token_whoever_reads_it_too() -> None:
    network = replace(layered([[-1], [0], [0]], [1, 1, 1]), outputs=("t0", "t2"))
    net = translate(network)
    assert arcs(net, "t0")[1] == {Tokens("t0", "", 3)}
    assert arcs(net, "t1")[1] == set()
    assert net.tokens(explore(net).dead[0]) == (Tokens("t0"), Tokens("t2"))


def test_the_arcs_alone_would_let_an_operation_fire_twice() -> None:
    """o2 = relu(o1); o3 = add(o1, o2): without its permit relu takes both tokens of o1, and add never fires."""
    residual = Graph(
        "residual",
        ("e1",),
        ("o3",),
        (External("e1", SHAPE), op("o1", "relu", "e1"), op("o2", "relu", "o1"), op("o3", "add", "o1", "o2")),
    )
    net = translate(residual)
    assert set(net.places) - {"e1", "o1", "o2", "o3"} == {permit("o2")}
    assert explore(net).dead == (net.end,)
    bare = replace(
        net,
        transitions=tuple(
            replace(t, consumes=tuple(tokens for tokens in t.consumes if tokens.place != permit("o2")))
            for t in net.transitions
        ),
        initial=tuple(tokens for tokens in net.initial if tokens.place != permit("o2")),
    )
    stuck = [bare.tokens(marking) for marking in explore(bare).dead]
    assert (Tokens("o2", "", 2),) in stuck


def test_a_send_of_what_its_own_item_reads_needs_a_permit() -> None:
    items = three_items()
    first = replace(
        items[0],
        instructions=tuple(
            op("o7", "add", "o6", "o1") if isinstance(each, Operation) and each.output == "o7" else each
            for each in items[0].instructions
        ),
    )
    net = translate_items([first, *items[1:]])
    assert set(net.places) - set(translate(BRANCHES).places) == {permit("vsync1")}
    assert explore(net).dead == (net.end,)


def test_parameters_and_permits_are_no_tensors_of_an_inference() -> None:
    fixed = fixed_places(three_items())
    assert {each.output for each in parameters(*range(1, 11))} | {permit("vsync1"), permit("o1")} <= fixed
    assert fixed.isdisjoint({"e1", "o1", "out"})


def test_items_need_different_names() -> None:
    first, second, _ = three_items()
    with pytest.raises(RequestError, match="item ITEM1 is described 2 times"):
        translate_items([first, replace(second, item="ITEM1")])


@examples(150)
@given(distributions())
def test_every_distribution_has_a_net_in_which_nobody_takes_from_others(
    case: tuple[Graph, tuple[ItemGraph, ...]],
) -> None:
    network, items = case
    whole, net = translate(network), translate_items(items)
    assert conflicts(whole) == conflicts(net) == ()
    assert {t.name for t in net.transitions if not t.sync} == {t.name for t in whole.transitions}
    assert {place for place in whole.places if not place.startswith("once(")} == {
        place for place in net.places if not place.startswith("once(")
    }
    assert [tokens.place for tokens in whole.final] == sorted(tokens.place for tokens in net.final)
