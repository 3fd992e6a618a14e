from __future__ import annotations

import json

from click.testing import CliRunner

from harness.cli.models import operators
from harness.core.installation import ROOT


def test_page_of_the_documentation_is_that_of_the_code() -> None:
    assert operators.page(operators.supported()) == (ROOT / "docs" / "reference" / "operators.md").read_text()


def test_a_convolution_is_computed_by_all_targets_and_has_a_proof() -> None:
    found = {each.operator: each for each in operators.supported()}
    assert {"c", "cuda", "iree", "litert", "tiovx", "vitis"} <= {*found["QLinearConv"].targets}
    assert found["QLinearConv"].proof
    assert found["com.microsoft.QGemm"].targets == ("c", "cuda", "iree", "litert", "tiovx", "vitis")


def test_json_has_every_operator() -> None:
    result = CliRunner().invoke(operators.command, ["--json"])
    assert result.exit_code == 0
    names = [each["operator"] for each in json.loads(result.stdout)["operators"]]
    assert {"QuantizeLinear", "MaxPool", "com.microsoft.QLinearAdd"} <= set(names)
