"""The web page of the lab: static files with relative links, without scripts or external resources.

source  input: the records of the index and the nights, read once
nights  the page of a night: board x model, changes, every entry
trends  measured numbers over the nights, as charts and as texts
pages   all pages of the site, each a template and its values
files   writes changed pages and copies reports
"""

from harness.report.site.pages import build
from harness.report.site.source import LabContent, OutOfUse, QuarantineState, gather

__all__ = ["LabContent", "OutOfUse", "QuarantineState", "build", "gather"]
