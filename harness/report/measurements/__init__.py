"""The reports of a measurement, from its document: a page, tables for programs and papers, JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.measurements.junit import junit
from harness.report.measurements.page import html
from harness.report.measurements.tables import csv, latex
from harness.runs.entries import MeasurementDocument
from harness.runs.facts import clean
from harness.runs.measurement.facts import gather

__all__ = ["reports"]


def reports(document: Mapping[str, Any]) -> dict[str, str]:
    """Return all reports, by the name of their file; ValueError if the document contradicts itself."""
    measurement = MeasurementDocument.view(clean(document))
    facts = gather(measurement)
    return {
        "report.html": html(measurement, facts),
        "times.csv": csv(measurement, facts),
        "table.tex": latex(measurement, facts),
        "junit.xml": junit(measurement, facts),
    }
