from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.plan.items.checks import Examination, examine
from harness.plan.items.graphs import External, Get, Graph, Instruction, ItemGraph, Operation, Send, Variable
from tests.support.examples import examples
from tests.support.items.examples import SHAPE, as_printed, distributions, op, replaced, shared, three_items

Case = tuple[Graph, tuple[ItemGraph, ...]]


def found(examination: Examination) -> dict[str, tuple[str, ...]]:
    """What each failing check says."""
    return {check.name: check.counterexamples for check in examination.checks if not check.holds}


def change(item: str, old: Instruction | None, *new: Instruction) -> tuple[ItemGraph, ...]:
    """The three items, one of which has `new` instead of `old`, or behind all others."""
    (graph,) = (each for each in three_items() if each.item == item)
    at = len(graph.instructions) if old is None else graph.instructions.index(old)
    instructions = (*graph.instructions[:at], *new, *graph.instructions[at + (old is not None) :])
    return replaced(three_items(), item, instructions)


def test_the_papers_items_are_sound() -> None:
    examination = examine(three_items())
    assert found(examination) == {}
    assert (examination.holds, examination.markings) == (True, 21)
    assert len(examination.checks) == 7


def test_listing_3_as_printed_is_wrong_by_name() -> None:
    """ITEM1 calls o4 what is o5 of ITEM3; ITEM2 reads e1, which it does not have, and never computes o2.

    The other slips, o7 of o4 and o5 of o1, are no mistakes between items: equivalence finds them.
    """
    examination = examine(as_printed())
    assert found(examination) == {
        "single assignment": (
            "o4 denotes different tensors: in ITEM1 what ITEM3 sends as vsync3; ITEM3 computes it (conv)",
        ),
        "memory": ("e1: ITEM2 reads it for o2, but it is ITEM1 that has it",),
        "order of the text": (
            "ITEM1 stops before o3 and waits for vsync2 of ITEM2",
            "ITEM2 stops before o2 and waits for e1",
        ),
        "final marking": ("o2 of ITEM2 never happens: e1 for ITEM2 never gets enough tokens",),
    }
    assert examination.checks[-1].path == ("o1", "vsync1", "o4", "o5", "vsync3", "o7", "out")


SEND_O3 = Send("vsync2", ("ITEM1",), "o3")
GET_O3 = Get("o3", "ITEM2", "vsync2")
O3 = op("o3", "conv", "o2", "v5", "v6")


@pytest.mark.parametrize(
    ("items", "check", "text"),
    [
        (
            change("ITEM2", SEND_O3),
            "sends and gets",
            "vsync2: ITEM1 gets it from ITEM2, which does not send it; no item does",
        ),
        (change("ITEM1", GET_O3), "sends and gets", "vsync2: ITEM2 sends it to ITEM1, which does not get it"),
        (change("ITEM1", GET_O3), "memory", "o3: ITEM1 reads it for o6, but it is ITEM2 that has it"),
        (
            change("ITEM2", SEND_O3, replace(SEND_O3, destinations=("ITEM3",))),
            "sends and gets",
            "vsync2: ITEM1 gets it from ITEM2, which sends it to ITEM3 only",
        ),
        (
            change("ITEM2", SEND_O3, replace(SEND_O3, destinations=("ITEM1", "ITEM9"))),
            "sends and gets",
            "vsync2: ITEM2 sends it to ITEM9, which does not get it; there is no such item, only ITEM1, ITEM2, ITEM3",
        ),
        (
            change("ITEM1", GET_O3, replace(GET_O3, source="ITEM3")),
            "sends and gets",
            "vsync2: ITEM1 gets it from ITEM3, which does not send it; ITEM2 does",
        ),
        (
            change("ITEM3", None, Send("vsync2", ("ITEM1",), "o4")),
            "one writer",
            "vsync2 is sent 2 times: by ITEM2 (of o3) and by ITEM3 (of o4)",
        ),
        (
            change("ITEM3", None, Send("vsync2", ("ITEM1",), "o4")),
            "sends and gets",
            "vsync2: ITEM3 uses it without declaring it a variablesync",
        ),
        (
            change("ITEM2", SEND_O3, replace(SEND_O3, destinations=("ITEM3",))),
            "final marking",
            "o6 of ITEM1 never happens: o3 for ITEM1 never gets enough tokens",
        ),
        (change("ITEM1", GET_O3), "final marking", "o6 of ITEM1 never happens: o3 for ITEM1 never gets enough tokens"),
        (change("ITEM2", O3, O3, O3), "single assignment", "o3: ITEM2 gives it a value twice"),
        (change("ITEM2", O3, O3, O3), "no conflict", "o3 for ITEM2: o3 of ITEM2 and o3 of ITEM2 put tokens there"),
        (
            change("ITEM3", None, op("o3", "relu", "o4")),
            "single assignment",
            "o3 denotes different tensors: in ITEM1 what ITEM2 sends as vsync2; ITEM3 computes it (relu)",
        ),
        (
            change("ITEM3", Variable("v5", SHAPE, "variable5"), Variable("v5", SHAPE, "other")),
            "single assignment",
            (
                "v5 denotes different tensors: in ITEM2 the parameter 'variable5' of shape [1, 1]; "
                "in ITEM3 the parameter 'other' of shape [1, 1]"
            ),
        ),
        (
            change("ITEM1", op("o6", "concat", "o3", "o5"), op("o6", "concat", "o3", "vsync3")),
            "memory",
            "vsync3: ITEM1 reads a shared variable for o6 without get_var",
        ),
        (
            change("ITEM1", op("out", "gemm", "o7", "v9", "v10")),
            "memory",
            "out: ITEM1 reads it for the outputs of DNN1, but no item has it",
        ),
        (
            change("ITEM1", op("out", "gemm", "o7", "v9", "v10")),
            "final marking",
            "out for ITEM1 ends with 0 tokens instead of 1",
        ),
        (
            change("ITEM2", op("o2", "conv", "o1", "v3", "v4")),
            "order of the text",
            "ITEM2 stops before o3 and waits for o2",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_found_by_name(items: tuple[ItemGraph, ...], check: str, text: str) -> None:
    assert text in found(examine(items))[check]


def waiting(*, crossed: bool) -> tuple[ItemGraph, ...]:
    """Two items that get before they send: `crossed`, each sends what it computes from what it gets."""
    first = ItemGraph(
        "LEFT",
        ("x", "t"),
        ("s", "b"),
        (
            External("x", SHAPE),
            Get("c", "RIGHT", "t"),
            op("a", "relu", "c" if crossed else "x"),
            Send("s", ("RIGHT",), "a"),
            op("b", "add", "c", "x"),
        ),
        "LEFT",
        shared("s", "t"),
    )
    second = ItemGraph(
        "RIGHT", ("s",), ("t",), (Get("a", "LEFT", "s"), op("c", "relu", "a"), Send("t", ("LEFT",), "c")),
        "RIGHT", shared("s", "t"),
    )  # fmt: skip
    return first, second


def test_a_cycle_between_items_is_named() -> None:
    assert found(examine(waiting(crossed=True)))["final marking"] == (
        (
            "LEFT and RIGHT wait for each other: "
            "a of LEFT needs c, t of RIGHT needs c, c of RIGHT needs a, s of LEFT needs a"
        ),
    )


def test_an_order_of_the_text_that_cannot_be_followed_is_found_though_another_could() -> None:
    assert found(examine(waiting(crossed=False))) == {
        "order of the text": (
            "LEFT stops before c and waits for t of RIGHT",
            "RIGHT stops before a and waits for s of LEFT",
        )
    }


def test_without_counting_the_answer_is_the_same() -> None:
    for items in (three_items(), as_printed(), waiting(crossed=True), waiting(crossed=False)):
        assert examine(items, limit=0).checks == examine(items).checks
    assert examine(three_items(), limit=20).markings is None


def test_nets_with_conflicts_are_decided_by_their_markings_or_not_at_all() -> None:
    twice = change("ITEM2", O3, O3, O3)
    examination = examine(twice)
    assert examination.markings == 32
    assert found(examination)["final marking"][0].endswith("o3 for ITEM2 ends with 1 tokens instead of 0")
    assert "not decided" in found(examine(twice, limit=5))["final marking"][0]


@examples(120)
@given(distributions())
def test_every_distribution_is_sound(case: Case) -> None:
    examination = examine(case[1])
    assert found(examination) == {}
    assert examination.markings


def exchanges(items: tuple[ItemGraph, ...], kind: type[Send | Get]) -> list[tuple[ItemGraph, int]]:
    return [(item, at) for item in items for at, each in enumerate(item.instructions) if isinstance(each, kind)]


@examples(60)
@given(distributions(), st.data())
def test_a_dropped_send_is_found(case: Case, data: st.DataObject) -> None:
    sends = exchanges(case[1], Send)
    assume(sends)
    item, at = data.draw(st.sampled_from(sends))
    send = item.instructions[at]
    assert isinstance(send, Send)
    says = found(examine(replaced(case[1], item.item, item.instructions[:at] + item.instructions[at + 1 :])))
    assert {text.split(":")[0] for text in says["sends and gets"]} == {send.shared}
    assert len(says["sends and gets"]) == len(send.destinations)
    assert says["final marking"]


@examples(60)
@given(distributions(), st.data())
def test_a_get_from_the_wrong_item_is_found(case: Case, data: st.DataObject) -> None:
    gets = exchanges(case[1], Get)
    assume(gets)
    item, at = data.draw(st.sampled_from(gets))
    get = item.instructions[at]
    assert isinstance(get, Get)
    wrong = data.draw(st.sampled_from([each.item for each in case[1] if each.item != get.source] + ["nobody"]))
    changed = (*item.instructions[:at], replace(get, source=wrong), *item.instructions[at + 1 :])
    says = found(examine(replaced(case[1], item.item, changed)))
    assert (
        f"{get.shared}: {item.item} gets it from {wrong}, which does not send it; {get.source} does"
        in says["sends and gets"]
    )
    assert says["final marking"]


@examples(60)
@given(distributions(), st.data())
def test_a_second_writer_is_found(case: Case, data: st.DataObject) -> None:
    sends = exchanges(case[1], Send)
    assume(sends)
    writer, at = data.draw(st.sampled_from(sends))
    send = writer.instructions[at]
    assert isinstance(send, Send)
    other = data.draw(st.sampled_from([each for each in case[1] if each.item != writer.item]))
    own = [each.output for each in other.instructions if isinstance(each, Operation)]
    second = Send(send.shared, send.destinations, own[0])
    says = found(examine(replaced(case[1], other.item, (*other.instructions, second))))
    assert says["one writer"][0].startswith(f"{send.shared} is sent 2 times: by ")
