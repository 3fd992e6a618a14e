from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plan.petri.net import Net, Tokens, Transition
from tests.support.examples import examples
from tests.support.petri.nets import counted, nets, successors

HAND_ON = Net(
    "two",
    ("a", "b"),
    (
        Transition("work", (Tokens("a", "red", 2),), (Tokens("b", "red"),), "red"),
        Transition("give", (Tokens("b", "red"),), (Tokens("b", "blue", 3),), "red", sync=True),
    ),
    (Tokens("a", "red", 3),),
    (Tokens("b", "blue", 3),),
)


def test_firing_takes_tokens_of_the_colour_and_puts_others() -> None:
    net = HAND_ON
    assert net.enabled(net.start) == (0,)
    worked = net.fire(net.start, 0)
    assert net.tokens(worked) == (Tokens("a", "red", 1), Tokens("b", "red", 1))
    assert net.enabled(worked) == (1,)
    assert net.tokens(net.fire(worked, 1)) == (Tokens("a", "red", 1), Tokens("b", "blue", 3))


def test_a_transition_without_its_tokens_does_not_fire() -> None:
    with pytest.raises(ValueError, match="transition give of net two is not enabled"):
        HAND_ON.fire(HAND_ON.start, 1)


def test_kinds_colours_and_neighbours_follow_from_the_arcs() -> None:
    assert HAND_ON.kinds == (("a", "red"), ("b", "red"), ("b", "blue"))
    assert HAND_ON.colours == ("red", "blue")
    assert HAND_ON.followers == ((1,), ())
    assert HAND_ON.count(HAND_ON.end, ("b", "blue")) == 3


@pytest.mark.slow
@examples(200)
@given(nets(), st.data())
def test_packed_markings_fire_as_dictionaries_do(net: Net, data: st.DataObject) -> None:
    marking = net.start
    for _ in range(12):
        expected = successors(net, counted(net.tokens(marking)))
        enabled = net.enabled(marking)
        assert [net.transitions[index].name for index in enabled] == list(expected)
        if not enabled:
            break
        fired = data.draw(st.sampled_from(enabled))
        marking = net.fire(marking, fired)
        assert counted(net.tokens(marking)) == expected[net.transitions[fired].name]
    assert net.marking(net.tokens(marking)) == marking
