"""Runs `harness` as a user does, in a process of its own; most of these processes are forked: see `ready`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import click
import pytest

from harness.cli.main import cli
from harness.core.installation import ROOT
from tests.support.cli.ready import Ready, Servers

HARNESS = [sys.executable, "-m", "harness"]
TIMEOUT_S = 200


@dataclass(frozen=True)
class Ended:
    """An ended command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output, which must be one JSON document and nothing else."""
        document: dict[str, Any] = json.loads(self.out)
        return document


@dataclass(frozen=True)
class User:
    """Somebody with folders of their own."""

    folder: Path
    cache: Path
    boards: Path | None = None

    def with_local(self, local: str) -> User:
        """The same with the shipped laboratory, and a boards.local.yaml over it."""
        boards = self.folder / "boards.yaml"
        boards.write_text((ROOT / "boards.yaml").read_text())
        boards.with_suffix(".local.yaml").write_text(local)
        return User(self.folder, self.cache, boards)

    servers: ClassVar[Servers | None] = None
    """What forks, if it is there."""

    def start(self, *arguments: str, program: Sequence[str] = HARNESS, **environment: str) -> subprocess.Popen[str]:
        """Start the installed `harness ARGUMENTS`, or another `program` with these arguments."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        command = [*program, *self._where, *arguments]
        return subprocess.Popen(command, env=self._settings(environment), text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def harness(self, *arguments: str, **environment: str) -> Ended:
        """Run `harness ARGUMENTS` to its end."""
        ready = self.servers.serving(arguments[0], environment) if self.servers else None
        if ready:
            ended = self._forked(ready, arguments, environment)
        else:
            process = self.start(*arguments, **environment)
            out, err = process.communicate(timeout=TIMEOUT_S)
            ended = Ended(process.returncode, out, err)
        assert "Traceback" not in ended.err, ended.err
        return ended

    def here(self, *arguments: str, command: click.Command = cli) -> Ended:
        """Run `harness ARGUMENTS` to its end in this process, with whatever the test has changed in it."""
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HARNESS_CACHE", str(self.cache))
                code = command.main([*self._where, *arguments], standalone_mode=False)
            return Ended(code, out.getvalue(), err.getvalue())

    def _forked(self, ready: Ready, arguments: Sequence[str], environment: Mapping[str, str]) -> Ended:
        with TemporaryDirectory() as folder:
            out, err = (Path(folder) / name for name in ("out", "err"))
            code = ready.run([*self._where, *arguments], self._settings(environment), out, err, TIMEOUT_S)
            return Ended(code, out.read_text(), err.read_text())

    @property
    def _where(self) -> list[str]:
        return ["--runs", str(self.folder / "runs"), *(["--boards", str(self.boards)] if self.boards else [])]

    def _settings(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        return os.environ | {"HARNESS_CACHE": str(self.cache)} | environment


def without_optimisations(folder: Path, cache: Path) -> User:
    """A lab whose host compiles without optimisations: that takes most of the time of a run of a small network."""
    boards = folder / "boards.yaml"
    boards.write_text((ROOT / "boards.yaml").read_text().replace("[-O3, -march=native]", "[-O0]"))
    return User(folder, cache, boards)
