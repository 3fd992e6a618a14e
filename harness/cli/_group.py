"""A command group that imports the module of a subcommand when the subcommand is used or listed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from harness.core.errors import unknown_name

WHOLE = 1000  # characters of a summary: click cuts it to a line by default


PLANNED = ("board", "model", "items", "split", "sync", "buffers", "block")
SHARED = {
    "Stream": ("stream", "pulse", "steps"),
    "Evidence and reference": ("run_folder", "reference", "x64_quant_precision", "trace", "seed"),
    "Lab and output": ("lab", "boards", "runs", "as_json", "debug", "help"),
}
NEEDED = {"run": "required without --plan or --resume"} | dict.fromkeys(("prove", "measure", "profile"), "required")


class Command(click.Command):
    """A command whose `--help` lists its options by purpose, and says whether board and model are required."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the plan, those of this command alone, and those that several commands have."""
        options = (option for option in self.get_params(context) if isinstance(option, click.Option))
        records = {str(option.name): option.get_help_record(context) for option in options}
        if needed := NEEDED.get(str(self.name)):
            for name in ("board", "model"):
                words, text = records[name] or ("", "")
                records[name] = words, f"{text}  [{needed}]"
        own = [name for name in records if name not in {*PLANNED, *(one for names in SHARED.values() for one in names)}]
        for title, names in {"Board, model and plan": PLANNED, "Options": own, **SHARED}.items():
            if rows := [row for name in names if (row := records.get(name))]:
                with formatter.section(title):
                    formatter.write_dl(rows)


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
        """Return the subcommand named first in `args`, in British or American spelling.

        RequestError with similar names if it is unknown.
        """
        names = self.list_commands(context)
        spellings = {_spelling(name): name for name in names}
        args = [spellings.get(_spelling(args[0]), args[0]), *args[1:]]
        if args[0] not in names and not args[0].startswith("-"):
            raise unknown_name("command", args[0], names)
        return super().resolve_command(context, args)


def _spelling(name: str) -> str:
    """Return a name of a command in the spelling with s: quantise, analyse, optimise."""
    return name.replace("yz", "ys").replace("iz", "is")


class LazyGroup(Group):
    """A group whose subcommands are modules; each module defines the click command `command`.

    `modules` maps the name of a subcommand to its module, for example `.run` in `package`, or a whole name.  A module
    imports packages such as numpy and pydantic inside functions, because `--help` imports every module.
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
        command: click.Command = import_module(self._modules[name], self._package).command
        return command
