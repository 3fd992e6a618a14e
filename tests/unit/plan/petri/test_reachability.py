from __future__ import annotations

import pytest
from hypothesis import given

from harness.plan.petri.net import Net, Tokens, Transition
from harness.plan.petri.reachability import explore
from tests.support.examples import examples
from tests.support.petri.nets import counted, nets, reachable, successors


def independent(count: int) -> Net:
    """Transitions that do not wait for each other."""
    names = [f"p{index}" for index in range(count)]
    transitions = tuple(Transition(f"t{name}", (Tokens(name),), ()) for name in names)
    return Net("independent", tuple(names), transitions, tuple(Tokens(name) for name in names))


def test_independent_transitions_reach_all_subsets_and_one_end() -> None:
    found = explore(independent(5))
    assert len(found) == 32
    assert found.complete
    assert [found.net.tokens(marking) for marking in found.dead] == [()]


def test_the_limit_is_kept_and_told() -> None:
    assert (len(explore(independent(5), 31)), explore(independent(5), 31).complete) == (31, False)
    assert explore(independent(5), 32).complete


@pytest.mark.slow
@examples(100)
@given(nets())
def test_all_markings_are_found_with_a_path_to_each(net: Net) -> None:
    expected = reachable(net, 50)
    found = explore(net, 50)
    assert found.complete == (expected is not None)
    if expected is not None:
        assert {counted(net.tokens(marking)) for marking in found.steps} == expected
        assert {counted(net.tokens(marking)) for marking in found.dead} == {
            m for m in expected if not successors(net, m)
        }
    for marking in found.steps:
        reached = counted(net.initial)
        for name in found.path(marking):
            reached = successors(net, reached)[name]
        assert reached == counted(net.tokens(marking))
