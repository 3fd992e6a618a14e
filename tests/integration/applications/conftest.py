"""The commands of applications are run as tests/integration/cli runs them."""

from tests.integration.cli.conftest import (
    _commands_here_share_what_they_can,
    _no_command_starts_from_nothing,
    cache,
)

__all__ = ["_commands_here_share_what_they_can", "_no_command_starts_from_nothing", "cache"]
