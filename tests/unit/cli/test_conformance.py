from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from harness.backend import conformance
from harness.backend.conformance import WRONG, Outcome
from harness.cli.models.conformance import command
from harness.core.errors import EXIT_DIFFERS

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
    assert "| Selu | 1 | 1 |\n" in result.stdout


def test_a_pattern_without_tests_is_refused() -> None:
    result = CliRunner().invoke(command, [*ONLY[:3], "none"], standalone_mode=False)
    assert str(result.exception).startswith("no test of pytorch-operator matches 'none'")
