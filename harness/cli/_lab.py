"""The Python interface: a lab folder and its runs.

    from harness import Lab
    run = Lab(".").run(board="host", model="acas_coc", vectors=5000)
    assert run.verdict == "identical"
    codes = run.layers["dense_1"].target  # (5000, 50)

The commands call the same functions.  Arguments here are the options of the commands and are checked in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from harness import targets
from harness.boards import workspace
from harness.boards.workspace import LAST
from harness.cli import measure as measure_command
from harness.cli import prove as prove_command
from harness.cli import run as run_command
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.runs.results import Run

if TYPE_CHECKING:
    from harness.runs.job import Request

PathLike: TypeAlias = str | os.PathLike[str]


class Lab:
    """A lab folder: its boards, models and runs.

    `folder` is the lab folder; None selects the lab folder that commands would use here.  `boards` and `runs` replace
    its file of boards and its folder of runs.  With `progress`, notes and progress bars are printed on standard error.

    Each method raises `harness.RequestError` for an invalid request, and `harness.InfrastructureError` if a board, a
    tool or the reference failed.  In the latter case there is no verdict, and the attribute `run` of the error is the
    folder to resume.
    """

    def __init__(
        self,
        folder: PathLike | None = None,
        *,
        boards: PathLike | None = None,
        runs: PathLike | None = None,
        progress: bool = False,
    ) -> None:
        given = (None if path is None else Path(path) for path in (boards, runs, folder))
        self._workspace = workspace.find(*given)
        self._console = Console.open(as_json=True) if progress else Console.silent()

    @property
    def boards(self) -> list[str]:
        """The names of all boards."""
        return list(targets.load_boards(self._workspace.boards).profiles)

    @property
    def models(self) -> list[str]:
        """The names of all models."""
        return [path.stem for path in self._workspace.model_files()]

    @property
    def runs(self) -> list[str]:
        """The names of all run folders, the newest first."""
        return self._workspace.run_names()

    def open(self, run: PathLike = LAST) -> Run:
        """Return a finished run by its name or path, by default the last one."""
        return Run.read(self._workspace.run(Path(run)))

    def run(self, board: str, model: str, **options: Any) -> Run:
        """Run a model on a board and compare all activations.

        `options` are those of `harness run` with underscores, such as `vectors=5000` or `items=("c", "c")`.
        """
        asked = _asked(run_command.command, {"board": board, "model": model} | options)
        return self._run(run_command.requested(**asked), asked["resume"])

    def resume(self, run: PathLike = LAST) -> Run:
        """Resume an unfinished run, by default the last one."""
        asked = _asked(run_command.command, {"resume": run})
        return self._run(run_command.requested(**asked), asked["resume"])

    def prove(self, board: str, model: str, **options: Any) -> Run:
        """Prove that a board computes a model correctly for all inputs; `options` are those of `harness prove`."""
        asked = _asked(prove_command.command, {"board": board, "model": model} | options)
        return self._run(prove_command.requested(self._workspace, **asked), None)

    def measure(self, board: str, model: str, **options: Any) -> Run:
        """Measure the execution times of a model on a board; `options` are those of `harness measure`."""
        asked = _asked(measure_command.command, {"board": board, "model": model} | options)
        bases = [self._workspace.run(path) for path in asked.pop("against")]
        wanted = {name: asked.pop(name) for name in ("samples", "duration", "scope", "count", "load", "warmup")}
        order = measure_command.order(wanted, asked, bases, self._workspace)
        return Run.read(measure_command.execute(order, self._workspace, self._console)[1])

    def _run(self, request: Request, resume: Path | None) -> Run:
        unfinished = self._workspace.run(resume) if resume else None
        return Run.read(run_command.execute(request, unfinished, self._workspace, self._console)[1])


def _asked(command: click.Command, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a command, converted and checked like its command line."""
    words = [word for name, value in options.items() for word in _words(f"--{name.replace('_', '-')}", value)]
    try:
        asked = command.make_context(str(command.name), words).params
    except click.UsageError as error:
        raise RequestError(error.format_message(), f"see harness {command.name} --help") from error
    return {name: value for name, value in asked.items() if name != "as_json"}


def _words(option: str, value: Any) -> list[str]:
    """Return an option and its value as words of a command line; several names become one comma-separated word."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    if option == "--against":
        given = [value] if isinstance(value, str | os.PathLike) else value
        return [word for each in given for word in (option, str(each))]
    return [option, ",".join(value) if isinstance(value, tuple | list) else str(value)]
