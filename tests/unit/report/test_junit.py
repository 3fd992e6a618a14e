from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.report import junit

HOSTILE = "]]></failure><testcase name='x'/>\"'&lt;<!-- \x00\x1b\ud800\ufffe"
CLEANED = "]]></failure><testcase name='x'/>\"'&lt;<!-- "


def parse(run: dict[str, Any]) -> ET.Element:
    """The one suite of the report, written and read as UTF-8."""
    suites = ET.fromstring(junit(run).encode())  # noqa: S314 - our own report
    assert suites.tag == "testsuites"
    (suite,) = suites
    return suite


def properties(suite: ET.Element) -> dict[str, str]:
    return {entry.attrib["name"]: entry.attrib["value"] for entry in suite.iter("property")}


def test_one_passing_case_a_layer(identical: dict[str, Any]) -> None:
    suite = parse(identical)
    assert suite.attrib == {
        "name": "xavier.acas_coc",
        "tests": "11",
        "failures": "0",
        "errors": "0",
        "skipped": "0",
        "time": "31.2",
        "timestamp": "2026-11-21T05:17:05Z",
    }
    cases = suite.findall("testcase")
    assert [case.attrib["name"] for case in cases] == [layer["name"] for layer in identical["layers"]]
    assert {case.attrib["classname"] for case in cases} == {"xavier.acas_coc"}
    assert [len(case) for case in cases] == [0] * 11


def test_a_layer_that_differs_fails_with_the_first_difference(differing: dict[str, Any]) -> None:
    suite = parse(differing)
    failures = {case.attrib["name"]: case.find("failure") for case in suite.findall("testcase") if len(case)}
    assert suite.attrib["failures"] == "4"
    assert list(failures) == ["dense_1", "dense_2", "scores", "advisory"]
    assert failures["dense_1"].attrib == {  # type: ignore[union-attr]
        "type": "differs",
        "message": "12 of 400,000 activations differ, 12 caused by the layer itself; "
        "first: vector 17,041, unit 3: expected 12, found 13",
    }
    assert failures["scores"].attrib["message"].endswith("expected 0.1 (0x3dcccccd), found -0.0 (0x80000000)")  # type: ignore[union-attr]


def test_one_cause_of_several_layers_stands_at_the_first(one_cause: dict[str, Any]) -> None:
    texts = {case.attrib["name"]: case.findtext("failure", "") for case in parse(one_cause).findall("testcase")}
    assert f"diagnosis: {one_cause['diagnosis']['text']}" in texts["dense_1"].splitlines()
    assert "diagnosis: see layer dense_1: one cause explains both" in texts["dense_2"].splitlines()
    assert not [line for line in texts["dense_2"].splitlines() if "explained" in line]


def test_the_diagnosis_stands_at_its_layer(differing: dict[str, Any]) -> None:
    texts = {case.attrib["name"]: case.findtext("failure", "") for case in parse(differing).findall("testcase")}
    assert texts["dense_1"].splitlines() == [
        "QGemm of item network, target c, ran on emulated-cpu (qemu neoverse-n1)",
        "diagnosis: exactly the 12 accumulators at a tie differ, all away from zero: rounding is half away from zero",
        "  rounding is half away from zero: 12 of 12 explained, 0 contradicted",
        "  rounding is half up: 7 of 12 explained, 5 contradicted",
        "smallest failing case: harness run --board xavier --model 'acas coc' --vectors runs/one/failing.npy",
    ]
    assert texts["scores"].splitlines()[1:] == ["dense_1 differs before it: check that layer first"]
    assert texts["dense_3"] == ""


def test_properties_tell_hashes_and_where_it_ran(identical: dict[str, Any]) -> None:
    found = properties(parse(identical))
    assert found["verdict"] == "identical"
    assert found["activations"] == "4500000"
    assert found["ran"] == "on an emulated board"
    assert found["times"] == "not MET: not all of it ran on hardware"
    assert found["item.network"] == "target c, ran on emulated-cpu (qemu neoverse-n1)"
    assert found["model.sha256"] == identical["model"]["sha256"]
    assert found["bundle.sha256"] == identical["bundle"]["sha256"]
    assert found["stimuli.sha256"] == identical["stimuli"]["sha256"]


def test_a_run_on_hardware_does_not_claim_to_have_measured(identical: dict[str, Any]) -> None:
    identical["board"]["kind"] = "hardware"
    for item in identical["plan"]["items"]:
        item["ran_on"] = "hardware"
    found = properties(parse(identical))
    assert (found["ran"], found["times"]) == ("on hardware", "compared only, not measured")


def test_hostile_names_stay_text(differing: dict[str, Any]) -> None:
    differing["board"]["name"] += HOSTILE
    differing["layers"][1]["name"] += HOSTILE
    differing["diagnosis"] |= {"layer": differing["layers"][1]["name"], "text": HOSTILE}
    differing["plan"]["items"][0]["ran_on"] = HOSTILE
    suite = parse(differing)
    cases = suite.findall("testcase")
    assert suite.attrib["name"] == f"xavier{CLEANED}.acas_coc"
    assert (len(cases), cases[1].attrib["name"]) == (11, f"dense_1{CLEANED}")
    assert f"diagnosis: {CLEANED}" in cases[1].findtext("failure", "")
    assert properties(suite)["item.prepost"] == f"target c, ran on {CLEANED}"


def test_what_is_missing_is_said_to_be_missing(identical: dict[str, Any]) -> None:
    for part in ("bundle", "wall_s", "started", "diagnosis", "reason"):
        del identical[part]
    del identical["model"]["sha256"]
    suite = parse(identical)
    assert suite.attrib["time"] == "0"
    assert properties(suite)["bundle.sha256"] == properties(suite)["model.sha256"] == "not recorded"


def test_a_contradiction_makes_no_report(differing: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the verdict is identical, but 4 layers differ"):
        junit(differing | {"verdict": "identical"})
