"""The rules of gsn2x: a valid module breaks none, and each change breaks the rule that names it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from harness.applications.case import argument, gsn

VALID: Mapping[str, Any] = {
    "module": {"name": "small", "brief": "an argument"},
    "G1": {"text": "a goal", "supportedBy": ["S1"], "inContextOf": ["C1", "A1", "J1"]},
    "S1": {"text": "a strategy", "supportedBy": ["G2", "G3"]},
    "G2": {"text": "a goal", "supportedBy": ["Sn1"]},
    "G3": {"text": "a goal", "undeveloped": True},
    "Sn1": {"text": "a solution", "url": "run/report.html", "sha256": "0"},
    "C1": {"text": "a context"},
    "A1": {"text": "an assumption"},
    "J1": {"text": "a justification"},
}
BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "V01 X1": lambda m: m.update(X1={"text": "?"}) or m["S1"]["supportedBy"].append("X1"),
    "V01 C1": lambda m: m["C1"].pop("text"),
    "V02 G3": lambda m: m["G3"].pop("undeveloped"),
    "V03 G2": lambda m: m["G2"].update(undeveloped=True),
    "V03 Sn1": lambda m: m["Sn1"].update(undeveloped=True),
    "V04 G1": lambda m: m["G1"]["supportedBy"].append("C1"),
    "V04 S1": lambda m: m["S1"].update(inContextOf=["G3"]),
    "V04 Sn1": lambda m: m["Sn1"].update(supportedBy=["G3"]),
    "V05 S1": lambda m: m["S1"]["supportedBy"].append("G2"),
    "V06 S1": lambda m: m["S1"]["supportedBy"].append("S1"),
    "C01": lambda m: m.update(G9={"text": "?", "undeveloped": True}),
    "C02 C9": lambda m: m.update(C9={"text": "?"}),
    "C03 S1": lambda m: m["S1"]["supportedBy"].append("G9"),
    "C04 G4": lambda m: m.update(
        G4={"text": "?", "supportedBy": ["G5"]}, G5={"text": "?", "supportedBy": ["G4"]}
    ) or m["S1"]["supportedBy"].append("G4"),
    "C08 G4": lambda m: m.update(G4={"text": "?", "supportedBy": ["G5"]}, G5={"text": "?", "supportedBy": ["G4"]}),
    "C11 S1": lambda m: m["S1"].update(supportedBy="G2"),
}  # fmt: skip


def test_a_valid_module_breaks_no_rule() -> None:
    assert list(gsn.problems(VALID)) == []


@pytest.mark.parametrize("rule", BROKEN)
def test_each_broken_rule_is_found(rule: str) -> None:
    module = copy.deepcopy(dict(VALID))
    BROKEN[rule](module)
    found = list(gsn.problems(module))
    assert any(f"{each}:".startswith((f"{rule}:", f"{rule} ")) for each in found), found


def test_a_repeated_element_is_found() -> None:
    with pytest.raises(ValueError, match="C07: repeated: G1"):
        gsn.parsed("G1: {text: one}\nG2: {text: two}\nG1: {text: three}\n")


def test_the_text_of_a_module_is_read_back() -> None:
    elements = {name: element for name, element in VALID.items() if name != "module"}
    text = gsn.text("small", "an argument", elements)
    assert gsn.parsed(text) == dict(VALID)


def test_every_element_of_the_template_is_used_and_every_goal_says_how_it_is_developed() -> None:
    elements = yaml.safe_load(argument.TEMPLATE.read_text())["elements"]
    below = {
        name: [*each.get("supportedBy", ()), *each.get("inContextOf", ()), *each.get("assumptions_of", ())]
        for name, each in elements.items()
    }
    assert gsn.reached(below, ["G-Top"]) == elements.keys()
    for name, each in elements.items():
        supports = each.get("supportedBy", [])
        solutions = [one for one in supports if gsn.kind_of(one) == gsn.SOLUTION]
        if gsn.kind_of(name) == gsn.GOAL and (solutions or not supports):
            assert each["command"], name
            assert each["needs"], name
    assert {one["goal"] for one in argument.template().objectives} <= elements.keys()
