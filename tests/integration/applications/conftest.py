"""Fixtures of tests/integration/cli, which run commands, and of tests/integration/report, which show pages."""

from tests.integration.cli.conftest import (
    _commands_here_share_what_they_can,
    _no_command_starts_from_nothing,
    cache,
    clean_checkout,
    few_floats,
    history,
    revisions_asked_once,
    small_proof,
)
from tests.integration.report.conftest import chromium, differing, identical, one_cause

__all__ = [
    "_commands_here_share_what_they_can",
    "_no_command_starts_from_nothing",
    "cache",
    "chromium",
    "clean_checkout",
    "differing",
    "few_floats",
    "history",
    "identical",
    "one_cause",
    "revisions_asked_once",
    "small_proof",
]
