"""The text of a net, as Graphviz reads it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from harness.plan.items.translation import fixed_places, translate, translate_items
from harness.plan.petri.net import Net, Tokens, Transition
from harness.plan.petri.picture import dot
from tests.support.items.examples import BRANCHES, LENET, as_printed, three_items

pytestmark = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed here")

CIRCULAR = Net(
    "c",
    ("a", "b"),
    (Transition("x", (Tokens("a"),), (Tokens("b"),)), Transition("y", (Tokens("b"),), (Tokens("a"),))),
    (),
)


def drawn(text: str) -> dict[str, Any]:
    """The graph as Graphviz reads it."""
    done = subprocess.run(["dot", "-Tjson0"], input=text, capture_output=True, text=True, check=True)
    assert not done.stderr
    graph: dict[str, Any] = json.loads(done.stdout)
    return graph


def labels(text: str, shape: str) -> dict[str, str]:
    """The labels in the circles, or bars, by the names beside them."""
    nodes = [node for node in drawn(text)["objects"] if node.get("shape") == shape]
    return {node["xlabel"]: node["label"] for node in nodes}


def test_everything_is_in_the_picture_by_name() -> None:
    net = translate_items(three_items())
    text = dot(net)
    assert labels(text, "circle").keys() == set(net.places)
    operations = {"o1: conv", "o2: conv", "o3: conv", "o4: conv", "o5: conv", "o6: concat", "o7: flatten", "out: gemm"}
    assert labels(text, "box").keys() == operations | {"vsync1: sync", "vsync2: sync", "vsync3: sync"}
    parts = drawn(text)["objects"]
    bars = {part["_gvid"]: part["xlabel"] for part in parts if part.get("shape") == "box"}
    clusters = {part["label"]: {*part["nodes"]} for part in parts if part["name"].startswith("cluster")}
    assert {item: {bars[node] for node in nodes & bars.keys()} for item, nodes in clusters.items()} == {
        "ITEM1": {"o1: conv", "o6: concat", "o7: flatten", "out: gemm", "vsync1: sync"},
        "ITEM2": {"o2: conv", "o3: conv", "vsync2: sync"},
        "ITEM3": {"o4: conv", "o5: conv", "vsync3: sync"},
    }


def test_hidden_places_take_their_arcs_with_them() -> None:
    net, hidden = translate(LENET), fixed_places([LENET])
    text = dot(net, hidden)
    assert labels(text, "circle").keys() == set(net.places) - {f"v{number}" for number in range(1, 11)}
    assert len(drawn(text)["edges"]) == 26
    assert len(drawn(dot(net))["edges"]) == 36


def test_tokens_are_dots_and_arcs_have_the_colour_of_their_item() -> None:
    net = translate_items(three_items())
    graph = drawn(dot(net))
    circles = {node["xlabel"]: node for node in graph["objects"] if node.get("shape") == "circle"}
    assert (circles["v5"]["label"], circles["e1"]["label"], circles["o1"]["label"]) == ("●●", "●", "")
    assert [name for name, circle in circles.items() if circle["peripheries"] == "2"] == ["out"]
    taken = [edge["color"] for edge in graph["edges"] if edge["tail"] == circles["v5"]["_gvid"]]
    assert sorted(taken) == ["#12795a", "#c4501b"]
    counts = [edge["label"] for edge in drawn(dot(translate(BRANCHES)))["edges"] if edge.get("label")]
    assert counts == ["2"]


@pytest.mark.parametrize(("tokens", "shown"), [(6, "●●●●●●"), (9, "9")])
def test_many_tokens_are_a_number(tokens: int, shown: str) -> None:
    net = Net("n", ("a",), (Transition("t", (Tokens("a", "", tokens),), ()),), (Tokens("a", "", tokens),))
    assert labels(dot(net), "circle") == {"a": shown}


def test_a_net_that_is_stuck_has_a_picture_too() -> None:
    assert {"o2: conv", "o7: flatten"} <= labels(dot(translate_items(as_printed())), "box").keys()
    assert labels(dot(CIRCULAR), "box").keys() == {"x", "y"}


@pytest.mark.parametrize("name", ['a"b', "a<b", "a\\", "a\\N\\", "]; } x", "é\n"])
def test_no_name_changes_the_picture(name: str) -> None:
    text = dot(Net(name, (name,), (Transition(name, (Tokens(name),), ()),), (Tokens(name),)))
    assert labels(text, "circle") == {name.replace("\\", "\\\\"): "●"}  # two backslashes show one
    assert len(re.findall("p0", text)) == 2
