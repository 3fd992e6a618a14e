from __future__ import annotations

from typing import Any

import pytest

from harness.report import html
from tests.unit.report.test_html import Page, tables


def met(number: int, reachable: int, activations: int) -> dict[str, int]:
    return {"met": number, "reachable": reachable, "activations": activations}


@pytest.fixture
def covered(identical: dict[str, Any]) -> dict[str, Any]:
    """The run with what its vectors met; dense_2 has too many accumulators to be counted."""
    rounding = {
        "codes": met(999_999, 1_000_000, 400_000),
        "ties": met(3, 17, 1),
        "saturated_low": met(4, 4, 1234),
        "saturated_high": met(0, 2, 0),
    }
    layers: dict[str, Any] = {layer["name"]: layer for layer in identical["layers"]}
    for layer in layers.values():
        layer["coverage"] = rounding | {"accumulators": met(10, 80, 400_000)}
    layers["quantize_input"]["coverage"] = rounding
    layers["dense_2"]["coverage"] = rounding
    layers["dense_3"] |= {"operator": "Add", "coverage": {}}
    layers["dense_4"] |= {"operator": "DequantizeLinear", "coverage": {"codes_read": met(1, 4, 9)}}
    layers["scores"]["coverage"] = {"accumulators": met(10, 80, 400_000)}
    layers["advisory"]["coverage"] = {"chosen": met(2, 3, 100_000), "chosen_of_equals": met(1, 2, 17)}
    return identical | {"coverage": rounding | {"accumulators": met(7, 1000, 5)}}


def test_every_layer_has_its_row(covered: dict[str, Any]) -> None:
    header, *rows = next(table for table in tables(html(covered)) if table[0][1:2] == ["Accumulators"])
    assert header == ["Layer", "Accumulators", "Codes", "Ties", "Saturated low", "Saturated high"]
    by_name = {row[0]: row[1:] for row in rows}
    common = ["99.9 % 999,999 of 1,000,000", "3 of 17 by 1 activation", "4 of 4 by 1,234 activations", "0 of 2"]
    assert by_name["dense_1"] == ["12.5 % 10 of 80", *common]
    assert by_name["quantize_input"] == ["", *common]
    assert by_name["dense_2"] == ["not counted: too many", *common]
    assert by_name["dense_3"] == ["nothing to count"]
    assert by_name["dense_4"] == ["", "25.0 % 1 of 4 of those read", ""]
    assert by_name["scores"] == ["12.5 % 10 of 80", "", "", "", ""]
    assert by_name["advisory"] == ["2 of 3 columns chosen; 1 of 2 in a tie with another, by 17 vectors"]
    assert by_name["All layers"] == ["0.7 % 7 of 1,000", *common]
    assert by_name["Not met"] == ["993", "1", "14", "0", "2"]


def test_it_says_that_samples_are_no_proof(covered: dict[str, Any]) -> None:
    assert (
        "A sampled run is not a proof: values that its vectors did not reach are unknown." in Page(html(covered)).prose
    )


def test_a_run_without_coverage_says_so(identical: dict[str, Any]) -> None:
    assert "Coverage not recorded" in Page(html(identical)).prose
