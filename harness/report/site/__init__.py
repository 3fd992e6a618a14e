"""The laboratory's page: static files with relative links, nothing loaded from elsewhere, nothing that needs a script.

source   what the page is made from: the index's records and the nights, read once
lasting  since which night something is without a verdict, or out of use
nights   a night as a page shows it: board x model, what changed, every entry
trends   measured numbers over the nights, as pictures and as words
pages    all pages of the site, each as a template and a frozen value
files    what is written: pages that have changed, reports of runs that are there
"""

from harness.report.site.pages import build
from harness.report.site.source import Bench, Laboratory, OutOfUse, gather

__all__ = ["Bench", "Laboratory", "OutOfUse", "build", "gather"]
