"""The report of one run, from its run document alone: a page for people, JUnit XML for continuous integration."""

from harness.report.html import html
from harness.report.junit import junit

__all__ = ["html", "junit"]
