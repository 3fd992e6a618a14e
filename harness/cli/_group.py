"""A command group that imports the module of a subcommand when the subcommand is used or listed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose subcommands are modules of `package`; each module defines the click command `command`.

    `modules` maps the name of a subcommand to the name of its module.  A module imports packages such as numpy and
    pydantic inside functions, because `--help` imports every module.
    """

    def __init__(self, *args: Any, package: str, modules: dict[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._package, self._modules = package, modules

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all subcommands in alphabetical order."""
        return sorted(self._modules)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import the subcommand; None for an unknown name."""
        if name not in self._modules:
            return None
        command: click.Command = import_module(f"{self._package}.{self._modules[name]}").command
        return command
