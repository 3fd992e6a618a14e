"""Paths of a user: laboratory file, models, runs, cache."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import RequestError, unknown_name

if TYPE_CHECKING:  # pydantic and onnx take longer to import than --help should
    from harness.boards.profile import Profile
    from harness.model.network import Network

ROOT = Path(__file__).parents[2]
SOURCES = ("harness", "kernels", "simulators")  # folders of the checkout from which bundles are made
COMMON_LOCKS = "/var/tmp/harness-locks"  # noqa: S108 - locks/folder.py: what others write there is not trusted
GIT_S = 60.0  # a disk far away, or a program of its settings, may keep it for ever


@dataclass(frozen=True)
class Workspace:
    """The folders of one user; `cache` holds bundles, packages and keys and may be removed at any time.

    `common` holds the locks of boards that all users of this machine share; without it everything is this user's own.
    """

    boards: Path
    models: Path
    runs: Path
    cache: Path
    common: Path | None = None

    def locks(self, board: Profile) -> Path:
        """Return the folder of a board's locks; an emulated board belongs to its user alone."""
        own = board.emulated and board.labgrid is None
        return self.cache / "locks" if own or self.common is None else self.common

    def model(self, name: str) -> Network:
        """Return the model `name` of the models folder, or the ONNX file at that path.

        RequestError with the nearest names if there is neither, or if it cannot be reproduced exactly.
        """
        from harness import model as networks

        return networks.load(self.model_file(name))

    def model_file(self, name: str, suffixes: tuple[str, ...] = (".onnx",)) -> Path:
        """Return the file of the model `name` of the models folder, or the path if `name` is one.

        A path contains / or ends in one of `suffixes`.  RequestError with the nearest names for an unknown name.
        """
        if name.endswith(suffixes) or "/" in name:
            return Path(name)
        known = sorted(path.stem for path in self.models.glob("*.onnx"))
        if name not in known:
            raise unknown_name("model", name, known)
        return self.models / f"{name}.onnx"

    def run(self, name: Path) -> Path:
        """Return the run folder at that path, or of that name in the folder of runs; it need not exist."""
        return name if name.exists() or len(name.parts) > 1 else self.runs / name

    def new_model(self, name: str, *, force: bool) -> Path:
        """Return the path of the new model `name`: in the models folder, or the path itself if it ends in .onnx.

        RequestError for a name that is none, a missing folder, and, without `force`, for a model that is there already.
        """
        path = Path(name) if name.endswith(".onnx") else self.models / f"{name}.onnx"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", path.stem) or ("/" in name and path != Path(name)):
            raise RequestError(
                f"{name!r} names no model", "up to 200 letters, digits and _ . -, or a path that ends in .onnx"
            )
        if not path.parent.is_dir():
            raise RequestError(f"there is no folder {path.parent}", "make it, or give another path")
        if path.exists() and not force:
            raise RequestError(f"model {path} exists", "give another name, or --force to replace it")
        return path


def write_whole(path: Path, content: bytes) -> None:
    """Write the file so that `path` holds all of it or is as before; RequestError where that is not possible."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RequestError(f"cannot write {path}: {error.strerror}", "give another path") from error


def git(*arguments: str) -> bytes | None:
    """Return git's output in this checkout; None if git fails, hangs or is missing."""
    asked = ["git", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(asked, capture_output=True, check=False, timeout=GIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def find(boards: Path | None, runs: Path | None, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Return the workspace of this checkout; HARNESS_CACHE or XDG_CACHE_HOME set the cache, HARNESS_LOCKS the locks."""
    cache = Path(environment.get("HARNESS_CACHE") or caches(environment) / "harness")
    common = Path(environment.get("HARNESS_LOCKS") or COMMON_LOCKS).absolute()
    return Workspace(boards or ROOT / "boards.yaml", ROOT / "models", runs or ROOT / "runs", cache.absolute(), common)


def caches(environment: Mapping[str, str]) -> Path:
    """Return the user's folder of caches; RequestError where nothing says where that is."""
    try:
        return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # a user without a name, as in a container, and without HOME
        raise RequestError("nothing says where your home is", "set HOME, or HARNESS_CACHE to a folder") from error
