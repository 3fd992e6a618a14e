from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given

from harness.plan.items.translation import translate, translate_items
from harness.plan.petri import pnml
from harness.plan.petri.net import Net, Tokens, Transition
from tests.support.examples import examples
from tests.support.items.examples import BRANCHES, three_items
from tests.support.petri.nets import nets

SPACE = {"": "http://www.pnml.org/version-2009/grammar/pnml"}


def text(element: ET.Element, tag: str, default: str = "") -> str:
    return element.findtext(f"{tag}/text", default, SPACE)


def own(element: ET.Element, tag: str) -> dict[str, str]:
    found = element.find(f"toolspecific[@tool='harness']/{tag}", SPACE)
    assert found is not None
    return found.attrib


def read(document: str) -> Net:
    """The net that a PNML document of ours describes."""
    root = ET.fromstring(document.encode())  # noqa: S314 - our own
    assert root.tag == f"{{{SPACE['']}}}pnml"
    net = root.find("net", SPACE)
    assert net is not None
    assert net.get("type") == "http://www.pnml.org/version-2009/grammar/ptnet"
    places = net.findall("page/place", SPACE)
    kinds = {place.get("id"): (own(place, "tokens")["place"], own(place, "tokens")["colour"]) for place in places}
    arcs = [
        (a.get("source"), a.get("target"), int(text(a, "inscription", "1"))) for a in net.iterfind("page/arc", SPACE)
    ]
    transitions = tuple(
        Transition(
            text(each, "name"),
            tuple(Tokens(*kinds[source], count) for source, target, count in arcs if target == each.get("id")),
            tuple(Tokens(*kinds[target], count) for source, target, count in arcs if source == each.get("id")),
            own(each, "event")["colour"],
            own(each, "event")["label"],
            sync=own(each, "event")["sync"] == "true",
        )
        for each in net.findall("page/transition", SPACE)
    )
    initial = [(kinds[place.get("id")], int(text(place, "initialMarking", "0"))) for place in places]
    final = [(kinds[place.get("id")], int(own(place, "tokens")["final"])) for place in places]
    return Net(
        text(net, "name"),
        tuple(dict.fromkeys(place for place, _ in kinds.values())),
        transitions,
        tuple(Tokens(*kind, count) for kind, count in initial if count),
        tuple(Tokens(*kind, count) for kind, count in final if count),
    )


def test_the_papers_nets_come_back_with_names_colours_and_marking() -> None:
    for net in (translate(BRANCHES), translate_items(three_items())):
        back = read(pnml.write(net))
        assert (back.name, back.places, back.transitions, back.final) == (
            net.name, net.places, net.transitions, net.final,
        )  # fmt: skip
        assert back.tokens(back.start) == tuple(sorted(net.tokens(net.start), key=lambda t: back.kinds.index(t.kind)))


def test_places_are_unfolded_by_colour() -> None:
    net = translate_items(three_items())
    document = ET.fromstring(pnml.write(net).encode())  # noqa: S314 - our own
    names = [text(place, "name") for place in document.iterfind(".//place", SPACE)]
    assert [name for name in names if name.startswith("o1")] == ["o1 (ITEM1)", "o1 (ITEM2)", "o1 (ITEM3)"]
    assert len(names) == len(set(names))
    identifiers = [element.get("id") for element in document.iter() if element.get("id")]
    assert len(identifiers) == len(set(identifiers))


@examples(100)
@given(nets())
def test_random_nets_come_back(net: Net) -> None:
    back = read(pnml.write(net))
    assert [(t.name, t.sync) for t in back.transitions] == [(t.name, t.sync) for t in net.transitions]
    for mine, theirs in zip(net.transitions, back.transitions, strict=True):
        assert sorted(map(repr, mine.consumes)) == sorted(map(repr, theirs.consumes))
        assert sorted(map(repr, mine.produces)) == sorted(map(repr, theirs.produces))
    assert sorted(map(repr, back.tokens(back.start))) == sorted(map(repr, net.tokens(net.start)))


def test_names_are_escaped() -> None:
    net = Net('<&">', ("a<b",), (Transition("t&", (Tokens("a<b", "x>y"),), ()),), (Tokens("a<b", "x>y", 2),))
    assert read(pnml.write(net)) == net
