"""The Python interface: a lab folder and its runs.

    from harness import Lab
    run = Lab(".").run(board="host", model="acas_coc", vectors=5000)
    assert run.verdict == "identical"
    codes = run.layers["dense_1"].target  # (5000, 50)

The commands call the same functions.  Arguments here are the options of the commands and are checked in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from harness import targets
from harness.boards import workspace
from harness.boards.workspace import LAST
from harness.cli import measure as measure_command
from harness.cli import prove as prove_command
from harness.cli import run as run_command
from harness.cli._options import parameters, usage_error
from harness.core.arrays import Array
from harness.core.console import Console
from harness.core.errors import RequestError, unknown_name
from harness.reference import vector_files
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

        `options` are those of `harness run` with underscores, such as `vectors=5000` or `items=("c", "c")`.  `vectors`
        may also be an array of the type of the model's input, (n, ...), where each of n vectors has as many values as
        the input; or, of a model with several inputs, arrays by the name of the input.
        """
        with _saved(options) as saved:
            return self._run(_asked(run_command.command, board=board, model=model, **saved))

    def resume(self, run: PathLike = LAST) -> Run:
        """Resume an unfinished run, by default the last one."""
        return self._run(_asked(run_command.command, resume=run))

    def prove(self, board: str, model: str, **options: Any) -> Run:
        """Prove that a board computes a model correctly for all inputs; `options` are those of `harness prove`.

        `vectors` may be arrays, as in `run`.
        """
        with _saved(options) as saved:
            asked = _asked(prove_command.command, board=board, model=model, **saved)
            with _usage():
                request = prove_command.requested(self._workspace, **asked)
            return self._execute(request, None)

    def measure(self, board: str, model: str, **options: Any) -> Run:
        """Measure the execution times of a model on a board; `options` are those of `harness measure`."""
        asked = _asked(measure_command.command, board=board, model=model, **options)
        with _usage():
            order = measure_command.ordered(self._workspace, **asked)
        return Run.read(measure_command.execute(order, self._workspace, self._console)[1])

    def _run(self, asked: dict[str, Any]) -> Run:
        with _usage():
            request = run_command.requested(**asked)
        return self._execute(request, asked["resume"])

    def _execute(self, request: Request, resume: Path | None) -> Run:
        unfinished = self._workspace.run(resume) if resume else None
        return Run.read(run_command.execute(request, unfinished, self._workspace, self._console)[1])


@contextmanager
def _saved(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the options with a temporary file in place of an array of vectors, a folder in place of arrays by input."""
    vectors = options.get("vectors")
    if not isinstance(vectors, np.ndarray | Mapping):
        yield options
        return
    with TemporaryDirectory() as folder:
        if isinstance(vectors, np.ndarray):
            path = Path(folder) / "array.npy"
            _save(path, vectors)
        else:
            path = Path(folder)
            for name, values in vectors.items():
                _save(path / vector_files.file_name(name), np.asarray(values))
        yield options | {"vectors": path}


def _save(path: Path, vectors: Array) -> None:
    if vectors.dtype.hasobject:
        raise RequestError(
            f"vectors: an array of {vectors.dtype}, not float32", "convert it: vectors.astype('float32')"
        )
    np.save(path, vectors, allow_pickle=False)


@contextmanager
def _usage() -> Iterator[None]:
    """Convert an error about the use of options to RequestError."""
    try:
        yield
    except click.UsageError as error:
        raise usage_error(error) from error


def _asked(command: click.Command, **options: Any) -> dict[str, Any]:
    """Return the parameters of a command, converted and checked like its command line.

    RequestError for an unknown option; the folders are those of the lab, and the output is the return value.
    """
    known = {str(parameter.name): parameter for parameter in command.params if parameter.expose_value}
    del known["as_json"]
    words: list[str] = []
    for name, value in options.items():
        if name not in known:
            raise unknown_name("option", name, known)
        words += _words(known[name], value)
    asked = parameters(command, words)
    return {name: asked[name] for name in known}


def _words(option: click.Parameter, value: Any) -> list[str]:
    """Return an option and its value as words of a command line; several names become one comma-separated word."""
    if value is None:
        return []
    if isinstance(value, bool):
        return list((option.opts if value else option.secondary_opts)[-1:])
    name, several = option.opts[-1], isinstance(value, tuple | list)
    if option.multiple:
        return [word for each in (value if several else [value]) for word in (name, str(each))]
    return [name, ",".join(value) if several else str(value)]
