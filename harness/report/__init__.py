"""Reports as HTML, JUnit, terminal text and site; a page depends only on its document, a map also on its boxes.

html, junit   a run: a page for people, JUnit XML for continuous integration
disagreement  a run without a verdict, because the engines of its reference disagree: a page
measurement   a measurement: both, and its statistics for programs and papers
decision      a decision: a page with a map of all boxes
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.report.html import html
from harness.report.junit import junit
from harness.report.page import disagreement

__all__ = ["disagreement", "html", "junit", "measurement", "reports"]


def reports(document: Mapping[str, Any], folder: Path = Path()) -> dict[str, str]:
    """Return all reports of a document by the name of their file; those of a decision or of bounds are of a folder."""
    if "partition" in document:
        from harness.report import decision

        return {"report.html": decision.page(folder)}
    if "program_sha256" in document:
        from harness.report import wcet
        from harness.runs.wcet import DOCUMENT, WcetDocument

        return {"report.html": wcet.html(WcetDocument.read(folder / DOCUMENT))}
    if document.get("kind") == "measure":
        return measurement(document)
    return {"report.html": html(document), "junit.xml": junit(document)}


def measurement(document: Mapping[str, Any]) -> dict[str, str]:
    """Return all reports of a measurement, by the name of their file; ValueError if its document contradicts itself."""
    from harness.report import measurements  # SciPy takes half a second, and a run does not need it

    return measurements.reports(document)
