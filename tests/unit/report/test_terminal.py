"""The summary of a run on the terminal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as RichConsole

from harness.core.console import Console
from harness.report.terminal import show

FIRST = {"vector": 17, "unit": 3, "expected": "0.0212854301", "actual": "0.0212854319"}


def shown(document: dict[str, Any], width: int = 200) -> list[str]:
    out = io.StringIO()
    console = RichConsole(file=out, width=width, highlight=False)
    show(
        document | {"coverage": {"text": "the coverage"}}, Path("report.html"), Console(console, console, as_json=False)
    )
    return [line.strip() for line in out.getvalue().splitlines() if line.strip()]


@pytest.fixture
def differing(identical: dict[str, Any]) -> dict[str, Any]:
    layers = [dict(layer) for layer in identical["layers"]]
    layers[2] |= {"differing": 12, "own": 12, "first_difference": FIRST}
    layers[-1] |= {"differing": 83, "compared": 100_000}
    effect = {"layer": "advisory", "what": "decisions", "changed": 83, "of": 100_000}
    return identical | {"layers": layers, "verdict": "differs", "reason": "95 activations differ", "effect": effect}


def test_layers_of_one_item_have_one_row(identical: dict[str, Any]) -> None:
    lines = shown(identical)
    rows = [line.split("  ") for line in lines[2:5]]
    assert [(row[0], row[-1].strip()) for row in rows] == [
        ("quantize_input", "0"),
        ("dense_1 to scores (9 layers)", "0"),
        ("advisory", "0"),
    ]
    assert "3,700,000" in lines[3]


def test_a_layer_that_differs_has_its_own_row(differing: dict[str, Any]) -> None:
    lines = shown(differing)
    assert [line.split("  ")[0] for line in lines[2:7]] == [
        "quantize_input",
        "dense_1",
        "dense_2",
        "dense_3 to scores (7 layers)",
        "advisory",
    ]


def test_the_verdict_and_its_effect_come_last(differing: dict[str, Any]) -> None:
    lines = shown(differing)
    at = lines.index("differs: 95 activations differ")
    assert lines[at + 1] == "effect: 83 of 100,000 decisions change (advisory)"
    assert lines.index("the coverage") < at
    assert lines[-1] == "report: report.html"


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_cuts_no_number(differing: dict[str, Any], width: int) -> None:
    text = "\n".join(shown(differing, width))
    assert "…" not in text
    for number in ("500,000", "400,000", "100,000", "12", "83", FIRST["expected"], FIRST["actual"]):
        assert str(number) in text


def test_a_float_network_states_how_near_onnx_runtime_came(identical: dict[str, Any]) -> None:
    assert not [line for line in shown(identical) if "ONNX Runtime" in line]
    output = {"output": "scores", "vectors": 7, "values": 35, "compared": 35, "bound": 0.25, "ratio": 0.5}
    lines = shown(identical | {"whole_network": [output]})
    assert "ONNX Runtime, whole network: scores within 50 % of the propagated bound (at most 0.25), 7 vectors" in lines
