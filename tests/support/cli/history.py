"""A git history with the sources as they are now, and before that with a wrong kernel.

Only of a run that a revision made can anybody say from which sources: a checkout with changes has none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.core.installation import ROOT, SOURCES
from tests.integration.cli.test_run import changed_kernels
from tests.support.cli.kernels import HALF_AWAY


@dataclass(frozen=True)
class History:
    """The variables that make git see it: `now` with the sources here, `wrong` with the harness of the other commit."""

    now: dict[str, str]
    wrong: dict[str, str]

    @classmethod
    def make(cls, folder: Path) -> History:
        wrong = changed_kernels(folder, HALF_AWAY)
        before, after = folder / "before.git", folder / "after.git"
        git(before, folder / "copy", "init", "--quiet")
        (before / "info" / "exclude").write_text("__pycache__/\n")
        commit(before, folder / "copy")
        shutil.copytree(before, after)
        commit(after, ROOT)
        return cls(variables(after, ROOT), wrong | variables(before, folder / "copy"))


def variables(repository: Path, checkout: Path) -> dict[str, str]:
    return {"GIT_DIR": str(repository), "GIT_WORK_TREE": str(checkout)}


def commit(repository: Path, checkout: Path) -> None:
    git(repository, checkout, "add", "--all", *SOURCES)
    git(repository, checkout, "commit", "--quiet", "-m", "sources")


def git(repository: Path, checkout: Path, *arguments: str) -> str:
    known = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    command = ["git", "-C", str(checkout), *known, *arguments]
    environment = os.environ | variables(repository, checkout)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
