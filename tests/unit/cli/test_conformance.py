from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from harness.cli.models.conformance import command, page
from harness.core.errors import EXIT_DIFFERS
from harness.reference import conformance
from harness.reference.conformance import PASS, WRONG, Outcome

ONLY = ["--set", "pytorch-operator", "--only", "test_operator_s*"]


def test_json_has_the_result_of_every_test() -> None:
    result = CliRunner().invoke(command, [*ONLY, "--json"], standalone_mode=False)
    document = json.loads(result.stdout)
    results = {test["name"]: test["result"] for test in document["tests"]}
    assert results["test_operator_selu"] == "pass"
    assert sum(document["counts"]["pytorch-operator"].values()) == len(results)
    assert result.return_value == 0


def test_a_wrong_test_is_shown_and_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "outcome", lambda case: Outcome(case.name, "Selu", WRONG, "another value"))
    result = CliRunner().invoke(command, ONLY, standalone_mode=False)
    assert "wrong: test_operator_selu: another value" in result.stdout
    assert result.return_value == EXIT_DIFFERS


def test_the_page_counts_the_tests_of_each_operator() -> None:
    result = CliRunner().invoke(command, [*ONLY, "--markdown"], standalone_mode=False)
    assert result.stdout.startswith("# Conformance\n")
    assert "| Selu | 1 | 1 | yes | yes | yes | yes |  |  |  | yes |\n" in result.stdout
    assert "| Attention | 0 | 0 |  |  |  |  |  |  |  |  |\n" in result.stdout


def test_the_page_derives_what_is_expanded_from_the_layers_of_passed_tests() -> None:
    rows = {}
    for layers in (("Conv", "Relu"), ("QLinearConv", "Erf")):
        outcomes = [Outcome("test", "GroupNormalization", PASS, layers=layers)]
        line = page({"node": outcomes}).partition("| GroupNormalization |")[2].partition("\n")[0]
        rows[layers] = [cell.strip() for cell in line.split("|")[2:-1]]
    assert rows["Conv", "Relu"] == ["expanded", "yes", "yes", "yes", "", "", "yes", "yes"]
    assert rows["QLinearConv", "Erf"] == ["expanded", "yes", "yes", "yes", "", "", "", "yes"]


def test_items_need_a_board() -> None:
    result = CliRunner().invoke(command, [*ONLY, "--items", "c,c"], standalone_mode=False)
    assert str(result.exception) == "--items are those of a board: add --board"


def test_a_pattern_without_tests_is_refused() -> None:
    result = CliRunner().invoke(command, [*ONLY[:3], "none"], standalone_mode=False)
    assert str(result.exception).startswith("no test of pytorch-operator matches 'none'")
