"""A net as text of Graphviz: places are circles with their tokens, transitions bars, colours clusters.

`dot -Tsvg net.dot` draws it.  A place is in the cluster of the first transition that puts tokens there, or else takes
some.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.plan.petri.net import Net, Tokens, Transition

HUES = ("#3d434b", "#1f6fb2", "#c4501b", "#12795a", "#8a4fa8", "#a87b00", "#b02a5b", "#2d8a9e", "#6b6f1d")
"""Colours of the arcs and bars: the first is for no colour; further items begin again with the second."""
DOTS = 6  # tokens of a place that are drawn; more are a number
HEAD = """rankdir=LR ranksep=0.3 fontname="Helvetica,Arial,sans-serif"
node [fontname="Helvetica,Arial,sans-serif" fontsize=10]
edge [fontname="Helvetica,Arial,sans-serif" fontsize=10 arrowsize=0.6]"""


def dot(net: Net, hidden: Collection[str] = ()) -> str:
    """Return `net` and its initial marking in Graphviz's language, without the `hidden` places."""
    hues = _hues(net)
    clusters: dict[str, list[str]] = {colour: [] for colour in net.colours}
    edges: list[str] = []
    circles = {place: f"p{index}" for index, place in enumerate(net.places) if place not in hidden}
    for place, node in circles.items():
        clusters.setdefault(_colour(net, place), []).append(f"{node} {_circle(net, place)}")
    for index, transition in enumerate(net.transitions):
        clusters[transition.colour].append(f"t{index} {_bar(transition, hues[transition.colour])}")
        taken = [tokens for tokens in transition.consumes if tokens.place in circles]
        put = [tokens for tokens in transition.produces if tokens.place in circles]
        edges += [f"{circles[tokens.place]} -> t{index} {_arc(tokens, hues)}" for tokens in taken]
        edges += [f"t{index} -> {circles[tokens.place]} {_arc(tokens, hues)}" for tokens in put]
    blocks = (_cluster(number, colour, hues, nodes) for number, (colour, nodes) in enumerate(clusters.items()))
    return "\n".join((f"digraph {_quoted(net.name)} {{", HEAD, *blocks, *edges, "}\n"))


def _quoted(text: str) -> str:
    """Return the text as a string of Graphviz, in which a backslash begins an escape sequence."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _hues(net: Net) -> dict[str, str]:
    """Return the hue of every colour."""
    named = [colour for colour in net.colours if colour]
    return {"": HUES[0]} | {colour: HUES[1 + index % (len(HUES) - 1)] for index, colour in enumerate(named)}


def _colour(net: Net, place: str) -> str:
    """Return the colour of the cluster of a place; none for a place without arcs."""
    filled = [t.colour for t in net.transitions if any(tokens.place == place for tokens in t.produces)]
    emptied = [t.colour for t in net.transitions if any(tokens.place == place for tokens in t.consumes)]
    return next(iter((*filled, *emptied)), "")


def _cluster(number: int, colour: str, hues: dict[str, str], nodes: list[str]) -> str:
    """Return the nodes of a colour, in a box with its name if it has one."""
    if not colour:
        return "\n".join(nodes)
    head = f"subgraph cluster{number} {{ label={_quoted(colour)} labeljust=l color={_quoted(hues[colour])}"
    return "\n".join((head, *nodes, "}"))


def _bar(transition: Transition, hue: str) -> str:
    label = f"{transition.name}: {transition.label}" if transition.label else transition.name
    size = "width=0.5 height=0.08" if transition.sync else "width=0.08 height=0.5"
    return f'[shape=box style=filled label="" color={_quoted(hue)} {size} xlabel={_quoted(label)}]'


def _circle(net: Net, place: str) -> str:
    """Return a place with its tokens, two circles if its token is part of the final marking."""
    count = sum(tokens.count for tokens in net.initial if tokens.place == place)
    shown = "●" * count if count <= DOTS else str(count)
    circles = 2 if any(tokens.place == place for tokens in net.final) else 1
    return f'[shape=circle width=0.4 peripheries={circles} label="{shown}" xlabel={_quoted(place)}]'


def _arc(tokens: Tokens, hues: dict[str, str]) -> str:
    """Return the attributes of an arc; more than one token is a number."""
    count = f" label={tokens.count}" if tokens.count > 1 else ""
    return f"[color={_quoted(hues[tokens.colour])}{count}]"
