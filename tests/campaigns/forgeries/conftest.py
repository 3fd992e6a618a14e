"""Runs to forge are made by commands, as tests/integration/cli makes them."""

from tests.integration.cli.conftest import (
    _no_command_starts_from_nothing,
    _programs_share_what_they_can,
    cache,
    history,
)

__all__ = ["_no_command_starts_from_nothing", "_programs_share_what_they_can", "cache", "history"]
