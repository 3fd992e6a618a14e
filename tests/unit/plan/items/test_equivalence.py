from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plan.items.checks import examine
from harness.plan.items.equivalence import Equivalence, compare, equivalent
from harness.plan.items.graphs import External, Graph, ItemGraph, Operation
from harness.plan.petri.net import Net, Tokens, Transition
from tests.support.examples import examples
from tests.support.items.examples import (
    BRANCHES,
    LENET,
    SHAPE,
    as_printed,
    distribute,
    distributions,
    layered,
    op,
    relay,
    three_items,
)

Case = tuple[Graph, tuple[ItemGraph, ...]]
BOTH = "partial orders and firing side by side"


def test_the_papers_items_are_its_network() -> None:
    assert equivalent(BRANCHES, three_items()) == Equivalence(
        equal=True, counterexample="", decided_by=BOTH, network_markings=13, items_markings=21, compared_states=13
    )


def test_lenet_over_two_items() -> None:
    """The convolutions on one item, the rest on another: the paper's off-loading."""
    owners = {name: "FPGA" if name in {"o1", "o4"} else "ARM" for name in [f"o{n}" for n in range(1, 13)] + ["out"]}
    found = equivalent(LENET, distribute(LENET, owners))
    assert (found.equal, found.network_markings, found.items_markings) == (True, 14, 17)


def test_hand_overs_one_after_the_other_are_no_events() -> None:
    network = Graph("relay", ("x",), ("c",), (External("x", SHAPE), op("a", "relu", "x"), op("c", "relu", "a")))
    found = equivalent(network, relay())
    assert (found.equal, found.network_markings, found.items_markings, found.compared_states) == (True, 3, 5, 3)


def test_every_slip_of_listing_3_is_found_by_name() -> None:
    def says(**slip: Operation) -> str:
        return equivalent(BRANCHES, three_items(**slip)).counterexample

    assert says(o2=op("o2", "conv", "e1", "v3", "v4")) == (
        "the items cannot finish: o2 of ITEM2 never happens: e1 for ITEM2 never gets enough tokens"
    )
    assert says(o5=op("o5", "conv", "o1", "v5", "v6")) == (
        "the items can fire o1, o5 before o4, but in the network o5 comes after o4"
    )
    assert says(o7=op("o7", "flatten", "o5")) == (
        "the items can fire o1, o4, o5, o7 before o2, but in the network o7 comes after o2"
    )
    assert not equivalent(BRANCHES, as_printed()).equal


def test_an_order_that_only_the_network_permits_is_found() -> None:
    owners = {"o1": "A", "o2": "A", "o4": "A", "o3": "B", "o5": "B", "o6": "A", "o7": "A", "out": "A"}
    network = replace(
        BRANCHES,
        instructions=tuple(
            op("o5", "conv", "o4", "o2", "v6") if isinstance(each, Operation) and each.output == "o5" else each
            for each in BRANCHES.instructions
        ),
    )
    assert equivalent(BRANCHES, distribute(network, owners)).counterexample == (
        "the network can fire o1, o4, o5 before o2, but in the items o5 comes after o2"
    )


def test_the_operations_must_be_the_same() -> None:
    first, second, third = three_items()
    assert (
        equivalent(BRANCHES, [first, second]).counterexample
        == "o4 (conv): the items compute it 0 times, the network 1 times"
    )
    found = equivalent(BRANCHES, three_items(o2=op("o2", "relu", "o1", "v3", "v4")))
    assert found.counterexample == "o2 is conv in the network, but relu in the items"
    last = op("out", "gemm", "o7", "v9", "v10")
    less = replace(first, instructions=tuple(each for each in first.instructions if each != last))
    assert equivalent(BRANCHES, [less, second, third]).counterexample == (
        "out (gemm): the items compute it 0 times, the network 1 times"
    )
    more = replace(third, instructions=(*third.instructions, op("o9", "relu", "o4")))
    assert equivalent(BRANCHES, [first, second, more]).counterexample == (
        "o9 (relu): the items compute it 1 times, the network 0 times"
    )


def chain(*steps: tuple[str, str, str], sync: str = "", initial: str = "a") -> Net:
    transitions = tuple(
        Transition(name, tuple(map(Tokens, takes)), tuple(map(Tokens, puts)), sync=name == sync)
        for name, takes, puts in steps
    )
    return Net("chain", tuple("abcd"), transitions, tuple(map(Tokens, initial)))


def test_nets_with_conflicts_are_compared_by_firing_alone() -> None:
    choice = chain(("x", "a", "b"), ("y", "a", "c"))
    found = compare(choice, choice)
    assert (found.equal, found.decided_by, found.compared_states) == (True, "firing side by side", 3)
    greedy = chain(("x", "a", "b"), ("y", "b", "c"), ("s", "b", "d"), sync="s")
    found = compare(chain(("x", "a", "b"), ("y", "b", "c")), greedy)
    assert found.equal is False
    assert found.counterexample == "after x the network can continue with y, the items with the end, y"
    assert compare(choice, choice, limit=2).equal is None


def closure(sources: Sequence[Sequence[int]]) -> list[set[int]]:
    before: list[set[int]] = []
    for given_ in sources:
        before.append({each for source in given_ if source >= 0 for each in (source, *before[source])})
    return before


@pytest.mark.slow
@examples(150)
@given(st.data())
def test_equal_exactly_if_the_data_order_the_same(data: st.DataObject) -> None:
    """Two networks of the same operations, one of them distributed; often but one dependency apart."""
    count = data.draw(st.integers(2, 7))
    sources = [data.draw(st.lists(st.integers(-1, k - 1), min_size=1, max_size=2)) for k in range(count)]
    others = [list(each) for each in sources]
    at = data.draw(st.integers(0, count - 1))
    others[at] = data.draw(st.lists(st.integers(-1, at - 1), min_size=1, max_size=3))
    owners = {f"t{index}": f"item{data.draw(st.integers(0, 2))}" for index in range(count)}
    counts = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    found = equivalent(layered(sources, counts), distribute(layered(others, counts), owners))
    assert found.equal == (closure(sources) == closure(others))
    assert found.decided_by == BOTH
    assert bool(found.counterexample) != found.equal


@pytest.mark.slow
@examples(100)
@given(distributions())
def test_every_distribution_is_equivalent(case: Case) -> None:
    network, items = case
    found = equivalent(network, items)
    assert (found.equal, found.decided_by) == (True, BOTH)
    assert found.compared_states == found.network_markings


def wide(operations: int, items: int, reach: int) -> Case:
    """A network at random, each operation of which reads some of the `reach` before it."""
    random = Random(operations + reach)  # noqa: S311 - no secrets here
    sources = [
        [random.randint(max(-1, k - reach), k - 1) for _ in range(random.randint(1, 3))] for k in range(operations)
    ]
    network = layered(sources, [random.choice((0, 1, 1)) for _ in sources])
    return network, distribute(network, {f"t{k}": f"item{random.randrange(items)}" for k in range(operations)})


@pytest.mark.slow
def test_a_hundred_operations_on_eight_items_take_less_than_a_second() -> None:
    for reach in (2, 8, 32):
        network, items = wide(100, 8, reach)
        started = time.process_time()
        assert examine(items).holds
        assert equivalent(network, items).equal
        assert time.process_time() - started < 2
