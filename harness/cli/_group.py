"""A command group that imports the module of a subcommand when the subcommand is used or listed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from harness.core.errors import unknown_name

WHOLE = 1000  # characters of a summary: click cuts it to a line by default


class Group(click.Group):
    """A group whose `--help` states the whole summary of each subcommand."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands, each with the first sentence of its help."""
        commands = ((name, self.get_command(context, name)) for name in self.list_commands(context))
        rows = [(name, command.get_short_help_str(WHOLE)) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all subcommands in the order of their definition."""
        return list(self.commands)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand named first in `args`; RequestError with similar names if it is unknown."""
        names = self.list_commands(context)
        if args[0] not in names and not args[0].startswith("-"):
            raise unknown_name("command", args[0], names)
        return super().resolve_command(context, args)


class LazyGroup(Group):
    """A group whose subcommands are modules of `package`; each module defines the click command `command`.

    `modules` maps the name of a subcommand to the name of its module.  A module imports packages such as numpy and
    pydantic inside functions, because `--help` imports every module.
    """

    def __init__(self, *args: Any, package: str, modules: dict[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._package, self._modules = package, modules

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all subcommands in the order of `modules`."""
        return list(self._modules)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import the subcommand; None for an unknown name."""
        if name not in self._modules:
            return None
        command: click.Command = import_module(f"{self._package}.{self._modules[name]}").command
        return command
