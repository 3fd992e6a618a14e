"""The profile in the folder of a measurement, checked again."""

from __future__ import annotations

import numpy as np

from harness.applications.profile.document import DOCUMENT, ProfileDocument, profile
from harness.boards.profile import Peak
from harness.runs.measurement.base import READINGS_FILE
from harness.runs.measurement.document import Cpu
from harness.runs.measurement.request import CPU_FILES, Quantity
from harness.runs.verification.claims import ContradictionError, array_of, require_equal
from harness.runs.verification.folder import RUN
from harness.runs.verification.measured import CLOSE, Measurement, base_of, readings_of


def check(subject: Measurement) -> str:
    """Check that the profile follows from readings, processor times and model; without the base, not its ratios."""
    evidence, document = subject.evidence, ProfileDocument.read(subject.evidence.path / DOCUMENT)
    readings = readings_of(evidence)
    cpu = {}
    for entry in document.cpu:
        quantity = Quantity(entry.quantity)
        own = np.array(array_of(evidence.path / CPU_FILES[quantity]))
        if own.dtype != np.uint64 or own.shape != (subject.vectors.count, readings.shape[1]):
            raise ContradictionError(f"{CPU_FILES[quantity]} is {own.dtype} {own.shape}, not one row for each vector")
        cpu[quantity] = Cpu(own, entry.cost_ns)
    said = evidence.run.get("against")
    base = base_of(evidence, said["base"]).document if said else None
    peak = Peak(**document.peak.to_json()) if document.peak else None
    revision = document.harness.revision
    again = profile(evidence.run, subject.plan.network, readings, cpu, peak, base, revision)
    recorded, found = ({**each.to_json(), "harness": None} for each in (document, again))
    require_equal(f"{DOCUMENT},", recorded, found, close=CLOSE)
    return f"that of {len(document.nodes)} nodes follows from {READINGS_FILE}, {RUN} and the model"
