"""The page of a network: its layout by Graphviz, its facts, and what it does in a browser."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from harness.applications.view import facts, layout
from harness.applications.view import page as viewer
from harness.applications.view.facts import NodeFacts
from harness.applications.view.groups import groupings
from harness.applications.view.page import Content
from harness.core.errors import RequestError, ToolError
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.model import structure
from harness.model.analysis.findings import Finding
from tests.support import graphs
from tests.support.cli.command import User
from tests.support.site.browser import Browser
from tests.unit.report.test_html import HOSTILE, Page

pytestmark = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed here")
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed here")

NODES = 2000
LONGEST_S = 0.1  # of an interaction, of the processor
DESK = 1280


def content(folder: Path, model: onnx.ModelProto, **options: Any) -> Content:
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return Content(structure.read(path), **options)


def show(chromium: Browser, folder: Path, shown: Content) -> None:
    page = folder / "page.html"
    page.write_text(viewer.html(shown), encoding="utf-8")
    seen = chromium.show(page.as_uri(), DESK, scripts=True)
    assert (seen.requests, seen.problems, seen.width) == ((page.as_uri(),), (), DESK)


def evaluate(chromium: Browser, script: str) -> Any:
    expression = f"Promise.resolve({script}).then((found) => JSON.stringify(found ?? null))"
    answer = chromium.call("Runtime.evaluate", expression=expression, awaitPromise=True)
    assert "exceptionDetails" not in answer, answer
    return json.loads(answer["result"]["value"])


FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


def press(chromium: Browser, *keys: str) -> None:
    for key in keys:
        event = f"new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true}})"
        evaluate(chromium, f"(document.getElementById('stage').dispatchEvent({event}), {FRAME})")


def search(text: str) -> str:
    field = "document.getElementById('search')"
    return f"({field}.value = {text!r}, {field}.dispatchEvent(new Event('input')))"


def boxes(chromium: Browser) -> list[str]:
    names = "[...document.querySelectorAll('#stage .box .name, #stage .frame-name')].map((name) => name.textContent)"
    return sorted(evaluate(chromium, f"{FRAME}.then(() => {names})"))


def test_boxes_of_a_layout_are_apart_and_wires_end_at_them(tmp_path: Path) -> None:
    [graph] = content(tmp_path, graphs.chain(40)).structure.graphs
    tensors = {name: index for index, name in enumerate(graph.edges)}
    level = layout.level(graph, groupings(graph.vertices, {})["none"], tensors)
    [found] = layout.layouts([level.dot])
    places = list(zip(found.middles, level.sizes, strict=True))
    for number, ((x, y), (width, height)) in enumerate(places):
        for (left, top), (wide, high) in places[:number]:
            assert abs(x - left) > (width + wide) / 2 or abs(y - top) > (height + high) / 2
    assert {path[:2] for path in found.paths} == set(level.wires)
    for writer, reader, *points in found.paths:
        (x, y), (_, height) = places[writer]
        assert abs(points[1] - y - height / 2) <= 1
        (x, y), (width, height) = places[reader]
        assert abs(points[-1] - y + height / 2) <= 1
        assert abs(points[-2] - x) <= width / 2


def test_layouts_of_equal_groups_are_computed_once(tmp_path: Path) -> None:
    document = viewer.document(content(tmp_path, graphs.chain(300, lambda index: f"part{index // 30}/{index % 30}")))
    [scopes] = [each["root"] for each in document["graphs"][0]["groupings"] if each["name"] == "name scope"]
    assert len(scopes["levels"]) == 10
    assert len({level["layout"] for level in scopes["levels"][1:-1]}) == 1


def test_without_graphviz_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ToolError, match="its program dot is not installed"):
        layout.layouts(["digraph{}\n"])


def test_the_evidence_of_a_run(differing: dict[str, Any], identical: dict[str, Any]) -> None:
    found = facts.of_run(differing)
    assert (found.verdict, found.kind) == ("differs on an emulated board", "bad")
    assert found.cautions == ("Times are not MET: run on an emulated board.",)
    wrong, right = found.results["dense_1"], found.results["quantize_input"]
    assert (wrong.mark, wrong.kind, wrong.first) == ("≠ 12", "bad", "vector 17,041, unit 3: expected 12, found 13")
    assert (right.mark, right.kind) == ("=", "good")
    assert {facts.of_run(identical).results[name].kind for name in found.results} == {"good"}


def test_no_name_becomes_markup(tmp_path: Path, differing: dict[str, Any]) -> None:
    def page(hostile: str) -> Page:
        model = graphs.chain(5, lambda index: f"node{index}{hostile}")
        model.graph.name = model.doc_string = model.producer_name = hostile
        for node in model.graph.node:
            node.output[:] = [f"{name}{hostile}" for name in node.output]
            node.input[:] = [name if name in {"x", "w"} else f"{name}{hostile}" for name in node.input]
        model.graph.output[0].name += hostile
        shown = content(tmp_path, model, refused=hostile, evidence=facts.of_run(differing))
        named = replace(shown.structure, name=f"net{hostile}")
        return Page(viewer.html(replace(shown, structure=named)))

    harmless, attacked = page("-"), page(HOSTILE)
    assert attacked.tags == harmless.tags
    assert {name for name, _ in attacked.attributes} == {name for name, _ in harmless.attributes}
    assert attacked.within("h1") == [f"net{HOSTILE}"]
    data = attacked.source.partition('id="data">')[2].partition("</script>")[0]
    assert "node4" in data
    assert not {"<", ">", "&"} & set(data)


@needs_chromium
def test_names_are_shown_as_they_are(chromium: Browser, tmp_path: Path) -> None:
    show(chromium, tmp_path, content(tmp_path, graphs.chain(4, lambda index: f"{HOSTILE}{index}")))
    found = "document.querySelectorAll('#results button').length"
    assert evaluate(chromium, f"({search(HOSTILE.split('>')[0])}, {found})") == 4
    evaluate(chromium, "document.querySelector('#results button').click()")
    assert evaluate(chromium, "document.querySelector('#facts h2').textContent") == f"{HOSTILE}0"
    assert evaluate(chromium, "document.querySelectorAll('img, #facts script').length") == 0


@needs_chromium
def test_facts_of_a_network_that_harness_cannot_run(chromium: Browser, tmp_path: Path) -> None:
    show(chromium, tmp_path, content(tmp_path, graphs.unsupported(), refused="no operator Mystery"))
    assert "no operator Mystery" in evaluate(chromium, "document.querySelector('header').textContent")
    assert boxes(chromium) == ["if", "mystery", "twice", "x", "y"]
    panel = "document.getElementById('facts').innerText"
    evaluate(chromium, f"({search('level=3')}, document.querySelector('#results button').click())")
    shown = evaluate(chromium, panel)
    assert re.search(r"mystery\s+custom.Mystery", shown)
    assert re.search(r"level\s+3\s+words\s+a, b", shown)
    evaluate(chromium, f"({search('twice')}, document.querySelector('#results button').click())")
    links = "[...document.querySelectorAll('#facts .link')]"
    evaluate(chromium, f"{links}.find((link) => link.textContent.includes('body')).click()")
    assert boxes(chromium) == ["a", "add", "b"]


@needs_chromium
def test_groups_keys_and_search(chromium: Browser, tmp_path: Path, differing: dict[str, Any]) -> None:
    names = [f"net/block{index // 3}/node{index}" for index in range(9)]
    layers = dict(zip(names, ("quantize_input", "dense_1", "dense_2"), strict=False))
    nodes = {name: NodeFacts(layer, (("Layer", layer),), "y = x") for name, layer in layers.items()}
    evidence = replace(facts.of_run(differing), items={})
    shown = content(tmp_path, graphs.chain(9, names.__getitem__), nodes=nodes, evidence=evidence)
    show(chromium, tmp_path, shown)
    inner = [name for name in names if "block0" in name]
    evaluate(chromium, "document.getElementById('collapse').click()")
    assert boxes(chromium) == ["net", "x", "y"]
    marks = "[...document.querySelectorAll('#stage .mark')].map((mark) => mark.textContent)"
    assert evaluate(chromium, marks) == ["≠ 2 of 3"]
    press(chromium, "ArrowDown", "ArrowDown", "Enter", "0")
    assert boxes(chromium) == ["block0", "block1", "block2", "net", "x", "x", "y", "y"]
    evaluate(chromium, f"({search('node1')}, document.querySelector('#results button').click())")
    assert {"node0", "node1", "node2"} <= {name.rpartition("/")[2] for name in boxes(chromium)}
    text = evaluate(chromium, "document.getElementById('facts').innerText")
    assert inner[1] in text
    assert "≠ 12 12 of 400,000 activations differ, 12 of them its own" in text
    assert "First difference: vector 17,041, unit 3: expected 12, found 13" in text
    assert "y = x" in text
    press(chromium, "ArrowDown")
    assert evaluate(chromium, "document.querySelector('#facts h2').textContent") == inner[2]
    press(chromium, "Backspace")
    assert "node1" not in {name.rpartition("/")[2] for name in boxes(chromium)}


@needs_chromium
def test_the_picture_is_saved_whole(chromium: Browser, tmp_path: Path) -> None:
    show(chromium, tmp_path, content(tmp_path, graphs.chain(30)))
    saved = (
        "new Promise((done) => {{ const make = URL.createObjectURL; URL.createObjectURL = (blob) => "
        "{{ if (blob.type === '{0}') blob.{1}.then(done); return make(blob); }}; "
        "document.getElementById('{2}').click(); }})"
    )
    picture = evaluate(chromium, saved.format("image/svg+xml", "text()", "svg"))
    assert picture.startswith("<svg xmlns=")
    assert all(f">node_{index}<" in picture for index in range(30))
    first = "arrayBuffer().then((bytes) => [...new Uint8Array(bytes)].slice(0, 24))"
    head = bytes(evaluate(chromium, saved.format("image/png", first, "png")))
    width, height = (int.from_bytes(head[start : start + 4], "big") for start in (16, 20))
    assert (head[:4], width > 300, height > 3000) == (b"\x89PNG", True, True)


def processor_s(chromium: Browser, script: str) -> float:
    """Return the time of the page's main thread for a script and for what is drawn after it."""

    def total() -> float:
        metrics = chromium.call("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    before = total()
    evaluate(chromium, f"({script}, {FRAME}.then(() => {FRAME}).then(() => 0))")
    return total() - before


def interactions(chromium: Browser, folder: Path) -> dict[str, float]:
    """Return the processor's time of each interaction with a page of 2,000 nodes, in seconds."""
    chromium.call("Performance.disable")
    chromium.call("Performance.enable", timeDomain="threadTicks")
    show(chromium, folder, content(folder, graphs.chain(NODES)))
    assert 0 < len(boxes(chromium)) < 100
    stage, click = "document.getElementById('stage')", "document.getElementById('{}').click()"
    wheel = f"{stage}.dispatchEvent(new WheelEvent('wheel', {{deltaY: -2500, clientX: 400, clientY: 400}}))"
    find = f"({search('node_1234')}, document.querySelector('#results button').click())"
    steps = {
        "expand all": click.format("expand"), "fit": click.format("fit"), "zoom": wheel,
        "search": search("node"), "reveal": find, "collapse all": click.format("collapse"), "reveal in groups": find,
    }  # fmt: skip
    return {name: processor_s(chromium, script) for name, script in steps.items()}


@needs_chromium
def test_two_thousand_nodes_are_collapsed_and_one_is_revealed(chromium: Browser, tmp_path: Path) -> None:
    interactions(chromium, tmp_path)
    assert evaluate(chromium, "document.querySelector('#facts h2').textContent") == "node_1234"


@needs_chromium
@pytest.mark.campaign
def test_every_interaction_with_two_thousand_nodes_is_fast(chromium: Browser, tmp_path: Path) -> None:
    """A campaign, because the result depends on the machine's speed and load."""
    times_s = interactions(chromium, tmp_path)
    assert {name: time_s for name, time_s in times_s.items() if time_s > LONGEST_S} == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "page.txt"), "--output page.txt: a page is written to a file that ends in .html"),
        (("--run", "another"), "its model has the SHA-256"),
        (("--run", "wrong"), "run.json contradicts itself"),
        (("--run", "broken"), "cannot read run.json"),
        (("--run", "nowhere"), "unknown run 'nowhere'"),
    ],
)
def test_a_wrong_request_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, cache: Path, identical: dict[str, Any]
) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(graphs.chain(3).SerializeToString())
    wrong = {**identical, "verdict": "differs", "model": {"sha256": file_sha256(model)}}
    for name, document in {"another": identical, "wrong": wrong, "broken": []}.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps(document))
    with pytest.raises(RequestError, match=re.escape(message)):
        User(tmp_path, cache).here("models", "view", str(model), *arguments, "--runs", str(tmp_path / "runs"))
    assert not list(tmp_path.glob("*.html"))


@needs_chromium
def test_findings_of_the_analysis_are_at_their_nodes(chromium: Browser, tmp_path: Path) -> None:
    found = (
        Finding("warning", "kind", "node_1", "", "is useless", "remove it"),
        Finding("note", "kind", "", "", "all", ""),
    )
    show(chromium, tmp_path, content(tmp_path, graphs.chain(3), findings=found))
    overview = evaluate(chromium, "document.getElementById('facts').innerText")
    assert "warning node_1: is useless remove it" in overview
    assert "note all" in overview
    assert evaluate(chromium, f"{FRAME}.then(() => document.querySelectorAll('.box .finding').length)") == 1
    evaluate(chromium, "document.querySelector('.finding .link').click()")
    assert evaluate(chromium, "document.querySelector('#facts h2').textContent") == "node_1"


def test_the_command_writes_the_page(tmp_path: Path, cache: Path) -> None:
    page = tmp_path / "page.html"
    ended = User(tmp_path, cache).here("models", "view", "resnet8_int8", "-o", str(page), "--vectors", "8", "--json")
    document = ended.document
    assert (ended.code, document["nodes"], document["bytes"]) == (None, 17, page.stat().st_size)
    data = re.search(r'<script type="application/json" id="data">(.*)</script>', page.read_text())
    assert data is not None
    [graph] = json.loads(data[1])["graphs"]
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    assert tensors["block_1_add_codes"]["range"] == "-128 to 127"
    assert tensors["block_1_add_codes"]["drawn"][0] == 8 * 16 * 32 * 32
    assert tensors["block_1_add_codes"]["type"] == "vectors x 16 x 32 x 32 int8"
    assert ["Shape", "[vectors, 16, 32, 32]"] in tensors["block_1_add_codes"]["rows"]
    [add] = [node for node in graph["nodes"] if node["name"] == "block_1_add"]
    assert ["Specification", "harness/operators/qlinear_add.py"] in add["rows"]
    assert (ROOT / "harness/operators/qlinear_add.py").is_file()
