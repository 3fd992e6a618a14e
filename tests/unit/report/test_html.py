from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import harness.report
from harness.report import html
from tests.support.identities import XAVIER

HOSTILE = "</style></title></pre><script>alert('1')</script>\"><img src=x onerror=alert(1)>{{ 7 * 7 }}&amp;"
VOID = {"meta", "br", "img", "link", "input"}
CODE = {"style", "script"}


@dataclass
class Page(HTMLParser):
    """A parsed page: its tags in order, its attributes, its text by the path of open tags, its tables."""

    source: str
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    text: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append((tuple(self.open), data))

    def within(self, tag: str) -> list[str]:
        """The text of every piece inside `tag`, without white space around it."""
        return [data.strip() for path, data in self.text if tag in path and data.strip()]

    @property
    def prose(self) -> str:
        return " ".join(" ".join(data for path, data in self.text if not CODE & set(path)).split())


def tables(source: str) -> list[list[list[str]]]:
    """Rows of cells of every table of the page."""
    found = re.findall(r"<table.*?</table>", source, re.DOTALL)
    rows = ([re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", t)] for t in found)
    return [[[" ".join(Page(cell).prose.split()) for cell in row] for row in table] for table in rows]


def svg(source: str) -> ET.Element:
    """The drawing of the plan, which must be well-formed XML."""
    return ET.fromstring(re.search(r"<svg viewBox=[^>]*plan-title.*?</svg>", source, re.DOTALL)[0])  # type: ignore[index] # noqa: S314 - our own page


def test_identical_says_what_was_compared(identical: dict[str, Any]) -> None:
    page = Page(html(identical))
    assert page.within("title")[0] == "Identical: acas_coc on xavier, 2026-11-21T05:17:05Z"
    assert page.within("strong") == ["Identical", "on an emulated board"]
    claim = "4,500,000 activations of 11 layers over 100,000 vectors were compared with the reference, bit for bit."
    assert f"{claim} None differs." in page.prose
    assert "≠" not in page.prose
    assert "Diagnosis" not in page.prose


def test_differing_names_the_first_layer_and_the_diagnosis(differing: dict[str, Any]) -> None:
    page = Page(html(differing))
    assert page.within("strong") == ["Differs", "on an emulated board", "rounding is half away from zero", "identical"]
    assert "32,663 differ, in 4 layers; the first is dense_1 ." in page.prose
    assert "2 of 100,000 decisions change. 4,500,000 activations" in page.prose
    cause = "Likely cause: rounding is half away from zero instead of half to even. Consistent with all 12 differing"
    assert f"{cause} values examined in dense_1. 3 other layers differ only because of their inputs." in page.prose
    sentence = "exactly the 12 accumulators at a tie differ, all away from zero: rounding is half away from zero"
    assert page.prose.lower().count(sentence) == 1
    hypotheses = next(table for table in tables(html(differing)) if table[0][0] == "Hypothesis")
    example = "vector 17,041, unit 3: 13 for 12"
    assert hypotheses[1:] == [
        ["rounding is half away from zero", "half to even", "12 of 12", "0", example],
        ["rounding is half up", "half to even", "7 of 12", "5", example],
    ]


def test_every_layer_that_is_to_blame_has_its_diagnosis(differing: dict[str, Any]) -> None:
    differing["diagnoses"].append({"layer": "dense_2", "text": "3 of 400 accumulators differ", "hypotheses": []})
    prose = Page(html(differing)).prose
    assert "Candidates for dense_2 : 0 of 0 consistent with all values 3 of 400 accumulators differ." in prose


def test_the_candidates_are_folded_away(differing: dict[str, Any]) -> None:
    source = html(differing)
    [details] = [one for one in re.findall(r"<details.*?</details>", source, re.DOTALL) if "<th>Hypothesis" in one]
    assert details.startswith("<details><summary>Candidates for <code>dense_1</code>: 1 of 2 consistent")


def test_without_a_known_cause_nothing_is_called_likely(differing: dict[str, Any]) -> None:
    differing["diagnosis"] = differing["diagnosis"] | {"cause": None, "text": "no known cause explains any of them"}
    prose = Page(html(differing)).prose
    assert "Likely cause" not in prose
    assert "Diagnosis of dense_1 : no known cause explains any of them" in prose


@pytest.mark.parametrize(
    ("effect", "sentence"),
    [
        ({"what": "decisions", "changed": 83, "of": 20_000}, "83 of 20,000 decisions change."),
        ({"what": "outputs", "changed": 1, "of": 20_000}, "1 of 20,000 outputs changes."),
        ({"what": "decisions", "changed": 0, "of": 20_000}, "0 of 20,000 decisions change."),
    ],
)
def test_the_headline_states_the_effect(differing: dict[str, Any], effect: dict[str, Any], sentence: str) -> None:
    assert f"Differs on an emulated board {sentence} " in Page(html(differing | {"effect": effect})).prose


def test_a_document_of_an_earlier_version_states_no_effect(differing: dict[str, Any]) -> None:
    for later in ("effect", "graph", "previous", "launches"):
        del differing[later]
    page = Page(html(differing))
    assert "decisions" not in page.prose
    assert "Since the previous run" not in page.prose
    assert 'class="network"' not in page.source


def test_one_cause_of_several_layers_is_told_once(one_cause: dict[str, Any]) -> None:
    prose = Page(html(one_cause)).prose
    evidence = "consistent with all 15 differing values examined in dense_1, dense_2"
    assert prose.lower().count(evidence) == 2  # under the verdict, and in the section
    assert prose.count("Likely cause: rounding is half away from zero instead of half to even") == 1


def test_other_causes_of_all_layers_are_counted(one_cause: dict[str, Any]) -> None:
    first, second = (copy.deepcopy(one) for one in one_cause["diagnoses"])
    third = first["hypotheses"][1]
    for one, causes in ((first, ("half up", "half down")), (second, ("half up",))):
        one["hypotheses"] = one["hypotheses"][:1] + [third | {"cause": cause, "explains_all": True} for cause in causes]
    prose = Page(html(one_cause | {"diagnoses": [first, second]})).prose
    assert "examined in dense_1, dense_2; so is 1 other cause." in prose


def test_the_previous_run_and_what_changed_since_are_shown(differing: dict[str, Any]) -> None:
    differing["previous"] |= {
        "results": [{"topic": "verdict", "base": "identical", "new": "differs"}],
        "layers": [{"topic": "dense_1", "base": "0", "new": "12"}, {"topic": "dense_2", "base": "0", "new": "1,234"}],
        "times": [{"topic": "median traced execution", "base": "200 µs", "new": "250 µs"}],
    }
    source = html(differing)
    prose = Page(source).prose
    assert (
        "The previous run of acas_coc on xavier had the verdict identical : before , started 2026-11-20T05:17:05Z."
        in prose
    )
    assert "Changed since: compiler. 1 result changed, 2 layers changed, 1 version or setting changed, 1 time" in prose
    rows = next(table for table in tables(source) if table[0] == ["What", "Then", "Now"])
    assert rows[1:] == [
        ["Results"], ["verdict", "identical", "differs"],
        ["Layers: differing activations"], ["dense_1", "0", "12"], ["dense_2", "0", "1,234"],
        ["Versions, plan and settings"], ["compiler", "gcc 11", "gcc 12"],
        ["Times, which vary from run to run"], ["median traced execution", "200 µs", "250 µs"],
    ]  # fmt: skip


def test_a_previous_run_without_changes(identical: dict[str, Any]) -> None:
    identical["previous"]["causes"] = []
    prose = Page(html(identical)).prose
    same = "had the same verdict, identical: before , started 2026-11-20T05:17:05Z."
    assert f"{same} Program, vectors, settings and versions" in prose
    assert "changed" not in prose[prose.index("Since the previous run") : prose.index("Select a layer")]


def test_the_smallest_failing_case_can_be_replayed(differing: dict[str, Any]) -> None:
    page = Page(html(differing))
    sentence = "Layer dense_1 , unit 3: expected 12, found 13, with 2 of 5 inputs not zero; made from vector 17,041"
    assert sentence in page.prose
    assert "harness run --board xavier --model 'acas coc' --vectors runs/one/failing.npy" in page.within("pre")
    values = next(table for table in tables(html(differing)) if table[0] == ["Input", "Name", "Value"])
    assert values[1:] == [["1", "theta", "0.25"], ["4", "v_int", "-0.5"]]


def test_a_case_that_does_not_fail_again_is_said_to(differing: dict[str, Any]) -> None:
    differing["failing"] |= {"note": "it does not fail again when run alone: timing or stale data", "replay": ""}
    page = Page(html(differing))
    assert "It does not fail again when run alone: timing or stale data." in page.prose
    assert not any("failing.npy" in text for text in page.within("pre"))


def test_layers_that_are_wrong_themselves_are_pictured_first(differing: dict[str, Any]) -> None:
    assert Page(html(differing)).within("figcaption") == ["dense_1", "dense_2"]


def test_many_pictures_are_folded_away(differing: dict[str, Any]) -> None:
    differing["pictures"] += [differing["pictures"][0]] * 3
    page = Page(html(differing))
    assert page.within("figcaption") == ["dense_1", *["dense_2"] * 4]
    folded = [data for path, data in page.text if {"details", "figcaption"} <= set(path) and data.strip()]
    assert folded == ["dense_2"] * 2
    assert "2 further layers" in page.prose


def test_the_symbol_of_the_verdict_is_crossed_only_where_it_differs(
    identical: dict[str, Any], differing: dict[str, Any]
) -> None:
    two_bars = "M22 40H78M22 62H78"
    assert [f'<path d="{two_bars}"/>' in html(run) for run in (identical, differing)] == [True, False]
    assert [f'<path d="{two_bars}M68 18L32 84"/>' in html(run) for run in (identical, differing)] == [False, True]


def test_every_layer_has_its_row(differing: dict[str, Any]) -> None:
    layers = next(table for table in tables(html(differing)) if "Its own" in table[0])
    assert [row[1] for row in layers[1:-1]] == [layer["name"] for layer in differing["layers"]]
    ran_on = "emulated-cpu (qemu neoverse-n1)"
    assert layers[1] == ["=", "quantize_input", "QuantizeLinear", "prepost", "c", ran_on, "500,000", "0", "0", "none"]
    first = "vector 17,041, unit 3: expected 12, found 13"
    assert layers[2] == ["≠", "dense_1", "QGemm", "network", "c", ran_on, "400,000", "12", "12", first]
    assert layers[3][-3:-1] == ["1,234", "0"]
    assert layers[10][-1] == "vector 17,041, unit 0: expected 0.1 (0x3dcccccd), found -0.0 (0x80000000)"
    assert layers[-1] == ["", "All 11 layers", "4,500,000", "32,663", "12", ""]


def test_a_float_network_states_how_near_onnx_runtime_came(identical: dict[str, Any]) -> None:
    output = {"output": "scores", "vectors": 7, "values": 35, "compared": 35, "bound": 0.25, "ratio": 0.5}
    identical["layers"][-2] |= {"reference_ratio": 0.375, "whole_ratio": 0.125}
    identical["layers"][-3] |= {"reference_ratio": 0.25}
    page = Page(html(identical | {"whole_network": [output]})).prose
    alone, both = (identical["layers"][index]["name"] for index in (-3, -2))
    assert (
        f"largest difference of {alone} 0.25 of its bound Reference, largest difference of {both} 0.375 of its bound; "
        "0.125 with the whole network ONNX Runtime, whole network scores within 50 % of the propagated bound (at most "
        "0.25), 7 vectors Host"
    ) in page


def test_an_emulated_board_is_unmissable(identical: dict[str, Any]) -> None:
    source = html(identical)
    assert "These results say nothing about execution time: times here are not MET" in Page(source).within("h2")
    assert "The board xavier was emulated; no xavier hardware took part." in Page(source).prose
    ran_on = "emulated-cpu (qemu neoverse-n1)"
    assert tables(source)[0] == [["Item", "Target", "Ran on"], ["prepost", "c", ran_on], ["network", "c", ran_on]]


def test_a_stand_in_on_real_hardware_is_named(identical: dict[str, Any]) -> None:
    identical["board"]["kind"] = "hardware"
    identical["plan"]["items"][0]["ran_on"] = "hardware"
    identical["plan"]["items"][1] |= {"target": "cuda", "ran_on": "host-simulation of CUDA"}
    source = html(identical)
    assert "times here are not MET" in Page(source).prose
    assert "was emulated" not in Page(source).prose
    assert tables(source)[0][1:] == [["network", "cuda", "host-simulation of CUDA"]]


def test_hardware_needs_no_warning(identical: dict[str, Any]) -> None:
    identical["board"]["kind"] = "hardware"
    for part in (*identical["plan"]["items"], *identical["layers"]):
        part["ran_on"] = "hardware"
    page = Page(html(identical))
    assert page.within("strong") == ["Identical", "on hardware"]
    assert "MET" not in page.prose


def test_the_drawing_marks_exactly_the_layers_that_differ(differing: dict[str, Any]) -> None:
    groups = [group for group in svg(html(differing)).findall("g") if "box" in group.attrib["class"].split()]
    marked = [group.findtext("title") for group in groups if group.attrib["class"] == "box differs"]
    assert len(groups) == 11
    assert marked == [
        "dense_1 (QGemm): 12 of 400,000 activations differ",
        "dense_2 (QGemm): 1,234 of 400,000 activations differ",
        "scores (QGemm): 31,415 of 500,000 activations differ",
        "advisory (ArgMax): 2 of 300,000 activations differ",
    ]
    hatched = ["hatched" in [rect.get("class") for rect in group.findall("rect")] for group in groups]
    signs = [group.findall("text")[-1].text for group in groups]
    assert hatched == [sign == "≠" for sign in signs]
    assert signs.count("≠") == 4


def test_the_drawing_shows_lanes_and_barriers(identical: dict[str, Any]) -> None:
    drawing = svg(html(identical))
    bars = [group.findtext("title") for group in drawing.iter("g") if group.get("class") == "bar"]
    assert bars == [
        "Barrier quantize_input: prepost and network wait for each other",
        "Barrier scores: network and prepost wait for each other",
    ]
    lanes = [[text.text for text in group.iter("text")] for group in drawing.iter("g") if group.get("class") == "lane"]
    assert lanes[1] == ["network", "c, core 1", "emulated-cpu (qemu", "neoverse-n1)"]


def test_the_page_is_one_file_and_loads_nothing(differing: dict[str, Any]) -> None:
    source = html(differing)
    page = Page(source)
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert not {"src", "srcset", "action"} & {name for name, _ in page.attributes}
    targets = {value for name, value in page.attributes if name == "href"}
    assert {value for value in targets if value and not value.startswith("#")} == {"../before/report.html"}
    ids = {value for name, value in page.attributes if name == "id"}
    assert {str(value)[1:] for value in targets if str(value).startswith("#")} <= ids
    hatchings = {"#network-hatching-1", "#network-hatching-2"}
    assert set(re.findall(r"url\((.*?)\)", source)) == {"#hatching", "#head"} | hatchings
    assert "@import" not in source
    assert "prefers-color-scheme: dark" in source
    assert "size: A4" in source


def hostile(value: Any, key: str = "") -> Any:
    """The document with every name and text, keys of free mappings included, made an attack."""
    if isinstance(value, dict):
        free = key in {"environment", "metadata", "classes"}
        return {name + HOSTILE if free else name: hostile(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [hostile(entry, key) for entry in value]
    return value + HOSTILE if isinstance(value, str) and key not in {"verdict", "kind", "map"} else value


def test_the_policy_of_the_page_permits_its_script_only_and_nothing_from_elsewhere(differing: dict[str, Any]) -> None:
    page = Page(html(differing))
    [policy] = [value for name, value in page.attributes if name == "content" and "default-src" in str(value)]
    [script] = re.findall(r"<script>(.*?)</script>", page.source, re.DOTALL)
    sha256 = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{sha256}'; base-uri 'none'; "
        "form-action 'none'"
    )
    assert ("http-equiv", "Content-Security-Policy") in page.attributes
    assert page.tags.index("meta") < page.tags.index("style"), "a policy counts for what follows it"


def test_every_page_has_a_policy() -> None:
    templates = Path(harness.report.__file__).parent / "templates"
    pages = [text for path in templates.iterdir() if "<!DOCTYPE html>" in (text := path.read_text())]
    assert len(pages) == 2
    assert all('<meta http-equiv="Content-Security-Policy" content="default-src \'none\';' in text for text in pages)


def test_no_text_of_the_document_becomes_markup(differing: dict[str, Any]) -> None:
    harmless, attacked = Page(html(differing)), Page(html(hostile(differing)))
    uncounted = {"text"}  # a long name takes a second line in the drawing
    expected, found = ([tag for tag in page.tags if tag not in uncounted] for page in (harmless, attacked))
    assert found == expected
    assert {name for name, _ in attacked.attributes} == {name for name, _ in harmless.attributes}
    assert f"acas_coc{HOSTILE}" in attacked.within("h1")
    assert "49" not in attacked.within("h1")


def test_what_is_missing_is_said_to_be_missing(identical: dict[str, Any]) -> None:
    identical["harness"]["revision"] = None
    identical["model"] = {"name": "acas_coc"}
    identical["stimuli"] = {"count": 100_000}
    identical["bundle"] = {}
    for part in ("host", "reference", "wall_s", "chunk", "fetch", "started", "finished", "reason"):
        del identical[part]
    del identical["board"]["environment"], identical["board"]["setup"], identical["plan"]["items"][0]["core"]
    page = Page(html(identical))
    assert "Compiler not recorded" in page.prose
    assert "0.1.0, revision not recorded" in page.prose
    assert "ONNX Runtime not recorded" in page.prose
    assert "c, any core" in page.prose
    assert not {"None", "Undefined"} & set(page.prose.replace("None differs.", "").split())
    assert "Environment of the board" not in page.prose


def test_inputs_without_names_show_their_box(identical: dict[str, Any]) -> None:
    identical["model"]["input"] = {"names": [], "units": [], "box_low": [-0.10000000149011612], "box_high": [2.0]}
    inputs = next(table for table in tables(html(identical)) if table[0][0] == "Input")
    assert inputs[1:] == [["0", "not recorded", "not recorded", "-0.1", "2.0"]]


def test_inputs_alike_are_one_row(identical: dict[str, Any]) -> None:
    low, high = [-1.0] * 3000 + [0.0, 0.0], [1.0] * 3002
    identical["model"]["input"] = {"names": [], "units": [], "box_low": low, "box_high": high}
    inputs = next(table for table in tables(html(identical)) if table[0][0] == "Input")
    unknown = ["not recorded", "not recorded"]
    assert inputs[1:] == [["0 to 2999", *unknown, "-1.0", "1.0"], ["3000 to 3001", *unknown, "0.0", "1.0"]]


def test_classes_of_vectors_with_their_share(identical: dict[str, Any]) -> None:
    classes = next(table for table in tables(html(identical)) if table[0][0] == "Class")
    assert classes[1:] == [
        ["uniform", "70,000", "70.0 %", ""],
        ["boundary", "10,000", "10.0 %", ""],
        ["halfway", "20,000", "20.0 %", ""],
    ]


def test_the_identity_of_the_board_is_shown(identical: dict[str, Any]) -> None:
    identical["board"] |= XAVIER.document()
    page = html(identical)
    for text in (XAVIER.address, XAVIER.host_key, XAVIER.machine_id, XAVIER.boot_id):
        assert str(text) in page


def test_environment_and_setup_of_the_board(identical: dict[str, Any]) -> None:
    identical["board"]["setup"][0] |= {"status": 1, "output": "cannot set clocks"}
    source = html(identical)
    assert identical["board"]["environment"]["processors"] in "".join(
        data for path, data in Page(source).text if "details" in path and "pre" in path
    )
    setup = next(table for table in tables(source) if table[0][0] == "Command")
    assert setup[1:] == [["jetson_clocks", "1", "cannot set clocks"]]


def test_a_contradiction_makes_no_page(differing: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the verdict is identical"):
        html(differing | {"verdict": "identical"})


def test_the_page_can_be_written_whatever_the_board_said(identical: dict[str, Any]) -> None:
    identical["board"]["environment"]["kernel"] = "a\x00b\x1b[31m\ud800c"
    assert "ab[31mc" in html(identical).encode().decode()


def test_the_commands_of_the_page_work(differing: dict[str, Any], tmp_path: Path) -> None:
    """Run them all, but the first, in a folder that holds what they look at."""
    _write_folder(differing, tmp_path)
    repeat, *commands = Page(html(differing)).within("ol")[1::2]
    assert repeat == "harness run --board xavier --model 'acas coc'"
    outputs = [_shell(command, tmp_path) for command in commands]
    assert outputs == [
        "model.onnx: OK\nstimuli.npy: OK\n",
        "",
        "chunks/00000.json differing layers: [1]\n",
        "target/00000/00_quantize_input.npy 0 of 6 differ\ntarget/00000/01_dense_1.npy 1 of 6 differ\n",
        "[0.5 1.5]\n",
    ]
    (tmp_path / "model.onnx").write_bytes(b"changed")
    with pytest.raises(subprocess.CalledProcessError):
        _shell(commands[1], tmp_path)


def _write_folder(run: dict[str, Any], folder: Path) -> None:
    vectors = np.array([[0.0, 1.0], [0.5, 1.5], [2.0, 3.0]], np.float32)
    right, wrong = np.zeros((3, 2), np.float32), np.array([[0, 0], [-0.0, 0], [0, 0]], np.float32)
    for name in ("reference/00000", "target/00000", "chunks"):
        (folder / name).mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"model")
    np.save(folder / "stimuli.npy", vectors)
    for name, values in (("00_quantize_input", right), ("01_dense_1", wrong)):
        np.save(folder / "reference" / "00000" / f"{name}.npy", right)
        np.save(folder / "target" / "00000" / f"{name}.npy", values)
    record = {"reference_sha256": ["a", "b"], "target_sha256": ["a", "c"]}
    (folder / "chunks" / "00000.json").write_text(json.dumps(record))
    files = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("model.onnx", "stimuli.npy")}
    (folder / "run.json").write_text(json.dumps({"files": files}))
    run["model"]["sha256"], run["stimuli"]["sha256"] = files.values()
    run["layers"][1]["first_difference"] = {"vector": 1, "unit": 0, "expected": 0.0, "actual": -0.0}


def _shell(command: str, folder: Path) -> str:
    ended = subprocess.run(  # noqa: S602 - a shell line, as a reader would paste it
        command, shell=True, cwd=folder, env=_environment(), check=True, capture_output=True, text=True
    )
    return ended.stdout


def _environment() -> dict[str, str]:
    """With the Python of this test, which has NumPy, as python3."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
