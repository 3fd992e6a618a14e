"""Runs to forge are made by commands, as tests/integration/cli makes them."""

from tests.integration.cli.conftest import (
    _commands_here_share_what_they_can,
    _no_command_starts_from_nothing,
    cache,
    history,
)

__all__ = ["_commands_here_share_what_they_can", "_no_command_starts_from_nothing", "cache", "history"]
