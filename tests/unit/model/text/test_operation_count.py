"""Parameters and operations of the networks of the ACETONE paper (ECRTS 2022, section 4.1)."""

from __future__ import annotations

import pytest

from harness import model
from harness.core.installation import ROOT
from harness.model.text.facts import parameter_count


@pytest.mark.parametrize(
    ("name", "parameters", "operations"),
    [
        ("lenet5", 44_426, 572_504),  # both are in the paper
        ("cifarnet", 122_570, 9_175_946),  # the paper: 9.18 million
        ("acas_reg50", 15_855, 2 * (5 * 50 + 6 * 50 * 50 + 50 * 5) + 7 * 50 + 5),
    ],
)
def test_counts_of_the_paper(name: str, parameters: int, operations: int) -> None:
    network = model.load(ROOT / "models" / f"{name}.onnx")
    assert (parameter_count(network), network.operations) == (parameters, operations)
