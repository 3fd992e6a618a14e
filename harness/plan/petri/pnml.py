"""A net -> PNML (ISO/IEC 15909-2), the exchange format of Petri net tools.

Written as a P/T net, the net type that every tool reads: each place is unfolded into one for every colour of its
tokens, named `place (colour)`, which changes nothing in what can fire.  What a P/T net cannot say (which place and
colour it was, a transition's colour, label and sync, the final marking) is in elements `toolspecific` of the tool
`harness`, which others skip as the standard demands.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable

from harness.plan.petri.net import Kind, Net, Tokens, Transition

NAMESPACE = "http://www.pnml.org/version-2009/grammar/pnml"
NET_TYPE = "http://www.pnml.org/version-2009/grammar/ptnet"
TOOL, TOOL_VERSION = "harness", "1"


def write(net: Net) -> str:
    """Return the PNML document, with an XML declaration."""
    root = ET.Element("pnml", xmlns=NAMESPACE)
    element = ET.SubElement(root, "net", id="net", type=NET_TYPE)
    _text(element, "name", net.name)
    page = ET.SubElement(element, "page", id="page")
    kinds = _kinds(net)
    initial, final = _counts(net.initial), _counts(net.final)
    for kind, identifier in kinds.items():
        _place(page, kind, identifier, initial[kind], final[kind])
    for index, transition in enumerate(net.transitions):
        _transition(page, transition, f"t{index}")
    for index, transition in enumerate(net.transitions):
        _arcs(page, kinds, transition, f"t{index}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _kinds(net: Net) -> dict[Kind, str]:
    """Return an identifier for every place and colour; a place that never holds a token has one without colour."""
    used = {place for place, _ in net.kinds}
    unused = [(place, "") for place in net.places if place not in used]
    position = {place: index for index, place in enumerate(net.places)}
    ordered = sorted((*net.kinds, *unused), key=lambda kind: position[kind[0]])
    return {kind: f"p{index}" for index, kind in enumerate(ordered)}


def _place(page: ET.Element, kind: Kind, identifier: str, initial: int, final: int) -> None:
    place, colour = kind
    element = ET.SubElement(page, "place", id=identifier)
    _text(element, "name", f"{place} ({colour})" if colour else place)
    if initial:
        _text(element, "initialMarking", str(initial))
    _own(element, "tokens", place=place, colour=colour, final=str(final))


def _transition(page: ET.Element, transition: Transition, identifier: str) -> None:
    element = ET.SubElement(page, "transition", id=identifier)
    _text(element, "name", transition.name)
    sync = "true" if transition.sync else "false"
    _own(element, "event", label=transition.label, colour=transition.colour, sync=sync)


def _arcs(page: ET.Element, kinds: dict[Kind, str], transition: Transition, identifier: str) -> None:
    for index, tokens in enumerate(transition.consumes):
        _arc(page, f"{identifier}_in{index}", kinds[tokens.kind], identifier, tokens.count)
    for index, tokens in enumerate(transition.produces):
        _arc(page, f"{identifier}_out{index}", identifier, kinds[tokens.kind], tokens.count)


def _arc(page: ET.Element, identifier: str, source: str, target: str, count: int) -> None:
    element = ET.SubElement(page, "arc", id=identifier, source=source, target=target)
    if count > 1:
        _text(element, "inscription", str(count))


def _counts(tokens: Iterable[Tokens]) -> Counter[Kind]:
    counts = Counter[Kind]()
    for token in tokens:
        counts[token.kind] += token.count
    return counts


def _text(parent: ET.Element, tag: str, text: str) -> None:
    ET.SubElement(ET.SubElement(parent, tag), "text").text = text


def _own(parent: ET.Element, tag: str, **attributes: str) -> None:
    ET.SubElement(ET.SubElement(parent, "toolspecific", tool=TOOL, version=TOOL_VERSION), tag, attributes)
