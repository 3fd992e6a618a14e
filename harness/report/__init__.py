"""Reports as HTML, JUnit, terminal text and site; a page depends only on its document.

html, junit   a run: a page for people, JUnit XML for continuous integration
disagreement  a run without a verdict, because the engines of its reference disagree: a page
measurement   a measurement: both, and its statistics for programs and papers
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.html import html
from harness.report.junit import junit
from harness.report.page import disagreement

__all__ = ["disagreement", "html", "junit", "measurement", "reports"]


def reports(document: Mapping[str, Any]) -> dict[str, str]:
    """Return all reports of a run or a measurement by the name of their file."""
    if document.get("kind") == "measure":
        return measurement(document)
    return {"report.html": html(document), "junit.xml": junit(document)}


def measurement(document: Mapping[str, Any]) -> dict[str, str]:
    """Return all reports of a measurement, by the name of their file; ValueError if its document contradicts itself."""
    from harness.report import measurements  # SciPy takes half a second, and a run does not need it

    return measurements.reports(document)
