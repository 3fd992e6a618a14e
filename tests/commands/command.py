"""Runs the installed `harness` as a user does, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.workspace import ROOT

HARNESS = [sys.executable, "-m", "harness"]


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

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `harness ARGUMENTS`."""
        where = ["--runs", str(self.folder / "runs"), *(["--boards", str(self.boards)] if self.boards else [])]
        settings: Mapping[str, str] = os.environ | {"HARNESS_CACHE": str(self.cache)} | environment
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen([*HARNESS, *where, *arguments], env=settings, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def harness(self, *arguments: str, **environment: str) -> Ended:
        """Run `harness ARGUMENTS` to its end."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=200)
        assert "Traceback" not in err, err
        return Ended(process.returncode, out, err)
