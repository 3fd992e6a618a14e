"""The verdict on a measurement: what is worst is said, and nothing is said of what was not seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.analysis.compare import Comparison, Difference
from harness.core.strict_json import spelled
from harness.runs.entries import MeasurementDocument
from harness.runs.measurement import document as documents
from harness.runs.measurement.document import judge


def part(name: str = "dense", **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "function": f"{name}_forward", "alone": True,
        "min": 90, "max": 90, "distinct": 1, "repeatable": True, "disturbed": 0, "most": 90,
        "summary": {"median_ns": 70.0, "max_ns": 90},
    } | changes  # fmt: skip


def document(*parts: dict[str, Any], unit: str = "instructions", **changes: Any) -> MeasurementDocument:
    content = {
        "outputs": {"compared": 40, "differing": 0},
        "measured": {"unit": unit, "scope": "layer", "samples": 2000, "segment": 1000},
        "parts": list(parts) or [part()],
        "against": None,
    } | changes
    return MeasurementDocument.view(content)


VARYING = part("sparse", max=95, distinct=3)


def test_equal_counts_are_added_up() -> None:
    assert judge(document(part(), part("last"))) == (
        "measured",
        "180 instructions in each of 2,000 executions, for all 1,000 vectors",
    )


def test_a_function_that_depends_on_data_is_named() -> None:
    verdict, reason = judge(document(part(), VARYING))
    assert verdict == "varies"
    assert reason.startswith("sparse_forward takes 90 to 95 instructions, each vector always the same")


def test_a_counter_that_is_not_exact_shows_nothing() -> None:
    verdict, reason = judge(document(VARYING | {"repeatable": False}))
    assert verdict == "inconclusive"
    assert "this board's counter is not exact" in reason


def test_what_depends_on_data_is_told_before_what_does_not_repeat() -> None:
    verdict, reason = judge(document(part("noisy", distinct=2, repeatable=False), VARYING))
    assert (verdict, reason.split()[0]) == ("varies", "sparse_forward")


def test_who_waits_for_a_device_is_not_judged() -> None:
    verdict, reason = judge(document(part(), VARYING | {"alone": False}))
    assert verdict == "measured"
    assert reason.startswith("only 1 of 2 parts, as 1 waits for a device: 90 instructions in each of 2,000 executions")


@pytest.mark.parametrize("unit", ["instructions", "ns", "cycles"])
def test_wrong_outputs_are_worst(unit: str) -> None:
    found = document(VARYING, unit=unit, outputs={"compared": 40, "differing": 2}, against={"regressed": True})
    assert judge(MeasurementDocument.view(found)) == ("differs", "2 of 40 outputs are not the reference's")


def test_slower_than_before() -> None:
    against = {"regressed": True, "slower": ["dense"], "base": {"run": "20260101_host"}}
    assert judge(document(unit="ns", against=against)) == (
        "regressed",
        "slower than 20260101_host: dense",
    )
    limited = judge(
        MeasurementDocument.view(document(unit="ns", against=against | {"limits": ["the gate has one base"]}))
    )
    assert limited == ("regressed", "slower than 20260101_host: dense; the gate has one base")
    assert judge(document(unit="ns", against=against | {"regressed": False}))[0] == "measured"


def test_a_noisy_base_makes_a_measurement_inconclusive() -> None:
    """Say which statistic of which part the base cannot judge; a regression of another part is graver."""
    shifts = [
        {"of": "median", "base_ns": 3717.0, "gate_ns": 113_576.0, "too_noisy": True},
        {"of": "maximum", "base_ns": 9000.0, "gate_ns": 90.0, "too_noisy": False},
    ]
    compared = {"name": "dense", "verdict": "inconclusive", "shifts": shifts}
    against = {"regressed": False, "slower": [], "too_noisy": ["dense"], "base": {"run": "20260101_host"}}
    found = document(unit="ns", against=against | {"parts": [compared]})
    assert judge(MeasurementDocument.view(found)) == (
        "inconclusive",
        "base too noisy: dense: median gate 113,576 ns (3,055.6% of the base)",
    )
    regressed = document(unit="ns", against=against | {"parts": [compared], "regressed": True, "slower": ["other"]})
    assert judge(MeasurementDocument.view(regressed))[0] == "regressed"


def test_times_are_told_by_the_part_with_the_largest_median() -> None:
    far_out = part("last", summary={"median_ns": 60.0, "max_ns": 1234})
    assert judge(document(part(), far_out, unit="ns")) == (
        "measured",
        "layer dense (largest median of 2): median 70 ns, maximum 90 ns of 2,000 executions",
    )


def test_cycles_are_no_proof_of_anything() -> None:
    assert judge(document(VARYING, unit="cycles")) == (
        "measured",
        "90 cycles at least in 2,000 executions",
    )


def test_readings_that_were_disturbed_are_told() -> None:
    verdict, reason = judge(document(part(disturbed=2, most=95), part("last")))
    assert verdict == "measured"
    assert reason.endswith("; but for 2 readings that the counter's own disturbance made larger, by 5 at most")


def test_a_wrong_output_that_is_nan_is_told_by_its_name() -> None:
    """As in wrong-outputs.json, so that `harness verify` finds in both the same."""
    wrong = Comparison(3, 1, Difference(2, 0, 1.0, float("nan")))
    segment: Any = SimpleNamespace(outputs=wrong, outputs_sha256="a1")
    found = spelled(documents._outputs([segment]).to_json())
    assert found["first"] == {"vector": 2, "unit": 0, "expected": 1.0, "actual": "NaN"}
    assert (found["differing"], found["sha256"]) == (1, {"a1": 1})
