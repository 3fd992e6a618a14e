"""Run documents, as the tests of their reports have them."""

from tests.unit.report.conftest import differing, identical, one_cause

__all__ = ["differing", "identical", "one_cause"]
