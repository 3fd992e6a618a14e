"""Of a measurement: every number that follows from the readings that were kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.evidence import file_sha256
from harness.measurement import statistics
from harness.measurement.asked import Quantity
from harness.measurement.base import READINGS_FILE
from harness.measurement.document import judge
from harness.measurement.parts import Part
from harness.measurement.segments import Readings
from harness.report.measured import facts
from harness.timing.comparison import Verdict
from harness.untrusted import load_array
from harness.verification.claims import ContradictionError, Progress, require_equal
from harness.verification.folder import RUN, Evidence


def numbers(evidence: Evidence, progress: Progress) -> str:
    """The statistics of every part follow from its readings."""
    run, readings = evidence.run, _readings(evidence)
    with progress("computing the statistics again", len(run["parts"])) as bar:
        for index, recorded in enumerate(run["parts"]):
            require_equal(f"{RUN}, part {recorded['name']},", recorded, _part(recorded, run, readings[:, index]))
            bar.advance(1)
    return f"those of {len(run['parts'])} parts follow from {len(readings):,} executions in {READINGS_FILE}"


def _readings(evidence: Evidence) -> Readings:
    run, path = evidence.run, evidence.path / READINGS_FILE
    require_equal(f"{RUN}, readings,", run["readings"], {"file": READINGS_FILE, "sha256": file_sha256(path)})
    readings = load_array(path)
    shape = (run["measured"]["samples"], len(run["parts"]))
    if readings.dtype != np.uint64 or readings.shape != shape:
        raise ContradictionError(f"{READINGS_FILE} is {readings.dtype} {readings.shape}, not uint64 {shape}")
    return np.array(readings)


def _part(recorded: Mapping[str, Any], run: Mapping[str, Any], readings: Readings) -> dict[str, Any]:
    part = Part(**{field.name: recorded[field.name] for field in dataclasses.fields(Part)})
    if run["measured"]["quantity"] == Quantity.TIME.value:
        return statistics.times(part, readings)
    return statistics.counts(part, readings, run["clock"]["constant"], run["measured"]["segment"])


def verdict(evidence: Evidence) -> str:
    """The verdict follows from the numbers; whether the outputs were right is the run's word: they were not kept."""
    run = evidence.run
    _require_consistent(run)
    found, reason = judge(dict(run))
    require_equal(RUN, {"verdict": run["verdict"], "reason": run["reason"]}, {"verdict": found, "reason": reason})
    return f"{found}: {reason}; that its outputs were right, and what it was compared with, is the run's word"


def _require_consistent(run: Mapping[str, Any]) -> None:
    """No MET of what has none, no part slower that the sum of them does not tell."""
    require_equal(f"{RUN}, measured.unit,", run["measured"]["unit"], Quantity(run["measured"]["quantity"]).unit)
    try:
        facts.gather(run)
    except ValueError as error:
        raise ContradictionError(f"{RUN} contradicts itself: {error}") from error
    if run["against"]:
        slower = [part["name"] for part in run["against"]["parts"] if part.get("verdict") == Verdict.SLOWER.value]
        require_equal(f"{RUN}, against.slower,", run["against"]["slower"], slower)
