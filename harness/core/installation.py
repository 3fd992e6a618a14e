"""The files that are installed with this program, and its version and revision.

A checkout has kernels, simulators, models, the default boards and the documentation at its top.  A wheel has them in
`harness/share`, where tools/build_wheel.py puts them, together with the file `revision`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TypeGuard

DISTRIBUTION = "onnx-harness"  # the name for pip; `harness` on the public index is another project
PACKAGE = Path(__file__).parents[1]
SHARE = PACKAGE / "share"
IS_WHEEL = SHARE.is_dir()
ROOT = SHARE if IS_WHEEL else PACKAGE.parent
SOURCES = ("harness", "kernels", "simulators")  # folders of the checkout from which bundles are made
BOARDS_FILE = "boards.yaml"
REVISION_FILE = "revision"
CHANGED = "-dirty"
GIT_TIMEOUT_S = 60.0  # a remote disk, or a program named in git's settings, may hang


def git(*arguments: str) -> bytes | None:
    """Return git's output in this checkout; None without a checkout, or if git fails, hangs or is missing.

    Other repositories are ignored: one that contains this installation, and one that a git hook names in environment
    variables.
    """
    environment = dict(os.environ)
    if environment.get("GIT_WORK_TREE") != str(ROOT):
        environment = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
        if not (ROOT / ".git").exists():
            return None
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=GIT_TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def install_extra(extra: str) -> str:
    """Return the advice for an extra of this package that is not installed: the command for this environment."""
    if not IS_WHEEL:
        return "run: make setup"
    return f"run: {shlex.quote(sys.executable)} -m pip install '{DISTRIBUTION}[{extra}]'"


def revision() -> str | None:
    """Return the commit of this program, marked `-dirty` if files differ from it; None if it is unknown.

    An untracked file below `SOURCES` is a difference too, because it can be part of a bundle.
    """
    if IS_WHEEL:
        return _wheel_revision()
    found = (git("describe", "--always", "--exclude=*", "--dirty", "--abbrev=12") or b"").decode().strip()
    if found and not found.endswith(CHANGED) and git("ls-files", "--others", "--exclude-standard", *SOURCES):
        found += CHANGED
    return found or None


def is_committed(found: str | None) -> TypeGuard[str]:
    """Return whether a revision names one state of all files."""
    return found is not None and not found.endswith(CHANGED)


@cache
def _wheel_revision() -> str | None:
    """Return the revision that the wheel was built from, marked if an installed file differs from the wheel's."""
    recorded = (SHARE / REVISION_FILE).read_text(encoding="utf-8").strip()
    if not recorded or recorded.endswith(CHANGED) or _is_as_built():
        return recorded or None
    return recorded + CHANGED


def _is_as_built() -> bool:
    """Return whether the installed files are exactly those of the wheel's RECORD, with the hashes stated there."""
    try:
        files = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        return False
    own = (file for file in files if file.parts[0] == "harness" and file.suffix != ".pyc")
    recorded = {Path(str(file.locate())).resolve(): file.hash for file in own}
    present = {path for path in PACKAGE.resolve().rglob("*") if path.is_file() and path.suffix != ".pyc"}
    return present == recorded.keys() and all(
        hashed is not None and _digest(path, hashed.mode) == hashed.value for path, hashed in recorded.items()
    )


def _digest(path: Path, algorithm: str) -> str:
    """Return the hash of a file as RECORD states it: URL-safe base64 without padding."""
    digest = hashlib.new(algorithm, path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def module_of(kind: type) -> str:
    """Return the path in the repository of the file that defines a class, or the name of a third party's module."""
    module = kind.__module__
    return f"{module.replace('.', '/')}.py" if module.startswith("harness.") else module
