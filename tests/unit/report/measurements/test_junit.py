"""JUnit XML of a measurement: what fails, and how a CI view is told what a number is worth."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from harness.report import measurement
from tests.unit.report.test_html import HOSTILE


def suite(document: dict[str, Any]) -> ET.Element:
    found = ET.fromstring(measurement(document)["junit.xml"]).find("testsuite")  # noqa: S314 - our own
    assert found is not None
    return found


def verdicts(document: dict[str, Any], kind: str = "failure") -> dict[str, str | None]:
    cases = suite(document).findall("testcase")
    found = {case.attrib["name"]: case.find(kind) for case in cases}
    return {name: None if one is None else one.attrib["message"] for name, one in found.items()}


def properties(document: dict[str, Any]) -> dict[str, str]:
    return {one.attrib["name"]: one.attrib["value"] for one in suite(document).iter("property")}


def test_every_part_is_a_case_and_none_fails(layers: dict[str, Any]) -> None:
    assert verdicts(layers) == {"first": None, "second": None, "third": None}
    assert {key: suite(layers).get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "0",
        "errors": "0",
    }


def test_a_part_that_is_slower_fails_with_its_reasons(slower: dict[str, Any]) -> None:
    message = verdicts(slower)["acas_coc"]
    assert message is not None
    assert message.startswith("slower than 20261121-051705_xavier_acas_coc: median: slower, +")
    assert suite(slower).get("failures") == "1"


def test_only_the_part_that_varies_fails(varying: dict[str, Any]) -> None:
    sentence = (
        "dense_1_forward takes 2,010 to 2,013 instructions: "
        "each vector always the same, so its control flow depends on data"
    )
    assert verdicts(varying) == {"quantize_input": None, "dense_1": sentence, "dense_2": None}


def test_an_inexact_counter_is_an_error_and_no_failure(varying: dict[str, Any]) -> None:
    varying["parts"][1]["repeatable"] = False
    varying["verdict"] = "inconclusive"
    assert set(verdicts(varying).values()) == {None}
    assert "the counter is not exact" in str(verdicts(varying, "error")["dense_1"])
    assert (suite(varying).get("failures"), suite(varying).get("errors")) == ("0", "1")


def test_a_base_that_is_too_noisy_is_an_error_and_no_failure(noisy: dict[str, Any]) -> None:
    assert verdicts(noisy) == {"acas_coc": None}
    assert verdicts(noisy, "error") == {"acas_coc": noisy["reason"]}


def test_times_of_a_wrong_program_all_fail(layers: dict[str, Any]) -> None:
    layers["outputs"]["differing"] = 7
    layers |= {"verdict": "differs", "reason": "7 of 4,000 outputs are not the reference's"}
    assert set(verdicts(layers).values()) == {"7 of 4,000 outputs are not the reference's"}


def test_what_a_number_is_worth_stands_in_the_properties(sound: dict[str, Any], counted: dict[str, Any]) -> None:
    assert properties(sound)["times"] == "MET"
    told = properties(counted)
    assert told["times"].startswith("not MET: instructions were counted")
    assert told["ran"] == "on an emulated board"
    assert told["item.prepost"] == "target c, ran on emulated-cpu (qemu neoverse-n1)"
    sound["state"]["throttled"] = ["cpu0 grew by 3"]
    assert properties(sound)["caution.1"] == "throttled: cpu0 grew by 3"


def test_hostile_names_stay_text(sound: dict[str, Any]) -> None:
    sound["parts"][0]["name"] = f"x\x00\x1b{HOSTILE}"
    assert list(verdicts(sound)) == [f"x{HOSTILE}"]
