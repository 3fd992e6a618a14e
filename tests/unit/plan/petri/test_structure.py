from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given

from harness.plan.items.graphs import Graph
from harness.plan.items.translation import translate
from harness.plan.petri.net import Net, Tokens, Transition
from harness.plan.petri.reachability import explore
from harness.plan.petri.structure import blockages, conflicts, precedence, repeatable, run
from tests.support.examples import examples
from tests.support.items.examples import LENET, networks
from tests.support.petri.nets import tidy_nets


def net_of(*transitions: Transition, initial: tuple[Tokens, ...] = (Tokens("a"),)) -> Net:
    return Net("net", ("a", "b", "c"), transitions, initial)


def step(name: str, takes: str, puts: str, count: int = 1) -> Transition:
    return Transition(name, tuple(map(Tokens, takes)), tuple(Tokens(place, "", count) for place in puts))


def reasons(net: Net) -> list[tuple[tuple[int, ...], str]]:
    return [(conflict.transitions, conflict.reason) for conflict in conflicts(net)]


def test_two_that_need_one_token_compete() -> None:
    assert reasons(net_of(step("x", "a", "b"), step("y", "a", "c"))) == [((0, 1), "compete for 1 tokens and take 2")]


def test_two_sources_of_one_kind_conflict() -> None:
    twice = net_of(step("x", "a", "b"), step("y", "c", "b"), step("z", "b", ""))
    assert ((0, 1), "put tokens there") in reasons(twice)
    again = net_of(step("x", "a", "b"), step("z", "b", ""), initial=(Tokens("a"), Tokens("b")))
    assert ((0,), "put tokens there, where some lie from the beginning") in reasons(again)


def test_a_transition_that_finds_enough_for_two_firings_is_repeatable() -> None:
    initial = (Tokens("a", "", 2),)
    greedy = net_of(step("x", "a", ""), step("y", "ab", ""), initial=(*initial, Tokens("b")))
    assert repeatable(greedy) == (0,)
    found = explore(greedy)
    assert ("x", "x") in {found.path(marking) for marking in found.dead}
    assert repeatable(net_of(Transition("x", (), (Tokens("a"),)))) == (0,)


def test_a_blockage_is_a_cycle_or_what_nobody_puts() -> None:
    circular = net_of(step("x", "b", "c"), step("y", "c", "b"), step("z", "a", ""))
    (found,) = blockages(circular, run(circular))
    assert (set(found.transitions), set(found.waits_for), found.cycle) == ({0, 1}, {("b", ""), ("c", "")}, True)
    starved = net_of(step("x", "ab", "c"), step("y", "c", ""))
    (found,) = blockages(starved, run(starved))
    assert (found.transitions, found.waits_for, found.cycle) == ((0,), (("b", ""),), False)
    short = net_of(step("x", "a", "b"), Transition("y", (Tokens("b", "", 2),), ()))
    (found,) = blockages(short, run(short))
    assert (found.transitions, found.waits_for, found.cycle) == ((1,), (("b", ""),), False)


@pytest.mark.slow
@examples(150, suppress_health_check=[HealthCheck.filter_too_much])
@given(tidy_nets())
def test_conflict_free_nets_end_where_one_run_ends(net: Net) -> None:
    assume(not conflicts(net))
    found = explore(net, 1000)
    assert found.complete
    assert found.dead == (run(net).marking,)
    assert len(found.path(found.dead[0])) == len(run(net).path)


@examples(60)
@given(networks(6))
def test_precedence_is_what_holds_on_every_path(graph: Graph) -> None:
    net = translate(graph)
    positions = {t.name: index for index, t in enumerate(net.transitions)}
    found = precedence(net, run(net).path, positions)
    reachable = explore(net)
    always = dict.fromkeys(positions, -1)
    for marking, enabled in reachable.enabled.items():
        fired = sum(1 << positions[name] for name in reachable.path(marking))
        for index in enabled:
            always[net.transitions[index].name] &= fired
    assert found == always


def test_the_chain_of_lenet_orders_everything() -> None:
    net = translate(LENET)
    positions = {t.name: index for index, t in enumerate(net.transitions)}
    assert list(precedence(net, run(net).path, positions).values()) == [(1 << index) - 1 for index in range(13)]
