"""Paths of a user: file of boards, models, runs, cache."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import RequestError, unknown_name
from harness.core.installation import BOARDS_FILE, IS_WHEEL, ROOT

if TYPE_CHECKING:  # pydantic and onnx take longer to import than --help should
    from harness.boards.profile import Profile
    from harness.model.network import Network

LAST = "last"
LAB_VARIABLE = "HARNESS_LAB"
COMMON_LOCKS = "/var/tmp/harness-locks"  # noqa: S108 - locks/folder.py: what others write there is not trusted


READABLE = (".onnx", ".tflite")
"""Suffixes of the files that `models analyse` and `models view` read."""


@dataclass(frozen=True)
class Workspace:
    """The folders of one user; `cache` holds bundles, packages and keys and may be removed at any time.

    `common` holds the locks of boards that all users of this machine share; without it all locks are this user's own.
    `lab` is the lab folder, None without one.  A lab also has the installed models; its own take precedence.
    """

    boards: Path
    models: Path
    runs: Path
    cache: Path
    common: Path | None = None
    lab: Path | None = None

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
        known = {path.stem: path for path in self.model_files()}
        if name not in known:
            raise unknown_name("model", name, known)
        return known[name]

    def model_files(self) -> list[Path]:
        """Return the files of all models, sorted by name: those of the lab, and those that are installed."""
        installed = (ROOT / "models").glob("*.onnx") if self.lab else ()
        found = {path.stem: path for path in (*installed, *self.models.glob("*.onnx"))}
        return [found[name] for name in sorted(found)]

    def run(self, name: Path) -> Path:
        """Return the folder at that path, or of that name in the folder of runs; `last` names the newest run.

        RequestError with the nearest names if there is none.
        """
        found = name if name.exists() or len(name.parts) > 1 else self.runs / name
        if not found.is_dir():
            names = self.run_names()
            if name == Path(LAST) and names:
                return self.runs / names[0]
            near = difflib.get_close_matches(name.name, names, n=3)
            guess = f"did you mean {' or '.join(near)}? " if near else ""
            raise RequestError(f"unknown run '{name}'", f"{guess}harness history lists them")
        return found

    def run_names(self) -> list[str]:
        """Return the names of all run folders, the newest first; a name begins with the time."""
        files = ("request.json", "run.json", "request.decide.json", "wcet.json")
        found = {path.parent.name for file in files for path in self.runs.glob(f"*/{file}")}
        return sorted(found, reverse=True)

    def new_model(self, name: str, *, force: bool) -> Path:
        """Return the path of the new model `name`: in the models folder, or the path itself if it ends in .onnx.

        RequestError for an invalid name, a missing folder, and, without `force`, for a model that exists already.
        """
        path = Path(name) if name.endswith(".onnx") else self.models / f"{name}.onnx"
        if IS_WHEEL and path.parent == ROOT / "models":
            raise RequestError(
                f"{name}: there is no lab folder for a new model",
                "create one: harness init LAB; or give a path that ends in .onnx",
            )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", path.stem) or ("/" in name and path != Path(name)):
            raise RequestError(
                f"{name!r} is no valid model name", "up to 200 letters, digits and _ . -, or a path that ends in .onnx"
            )
        if not path.parent.is_dir():
            raise RequestError(f"there is no folder {path.parent}", "make it, or give another path")
        if path.exists() and not force:
            raise RequestError(f"model {path} exists", "give another name, or --force to replace it")
        return path


def write_whole(path: Path, content: bytes) -> None:
    """Write the file atomically: `path` contains all of it or is unchanged; RequestError if it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RequestError(f"cannot write {path}: {error.strerror}", "give another path") from error


def find(
    boards: Path | None = None,
    runs: Path | None = None,
    lab: Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> Workspace:
    """Return the workspace: the lab folder, with another file of boards and folder of runs where they are given.

    The lab folder is `lab`, else HARNESS_LAB, else the current folder or the nearest parent that has a boards.yaml.
    Without any of them, boards and models are those that are installed, and runs go to ./runs.
    HARNESS_BOARDS and HARNESS_RUNS give `boards` and `runs`, HARNESS_LOCKS the common locks.
    RequestError if a named lab has no boards.yaml, if the one found belongs to another user, or if a file is where the
    folder of runs would be.
    """
    boards, runs = boards or _path(environment, "HARNESS_BOARDS"), runs or _path(environment, "HARNESS_RUNS")
    folder = _named_lab(lab, environment) or _surrounding_lab(Path.cwd())
    if folder and not (boards or lab or environment.get(LAB_VARIABLE)):
        _require_own(folder)
    installed, runs = folder or ROOT, runs or (folder or Path.cwd()) / "runs"
    _require_folder(runs)
    common = Path(environment.get("HARNESS_LOCKS") or COMMON_LOCKS).absolute()
    boards = boards or installed / BOARDS_FILE
    return Workspace(boards, installed / "models", runs, cache_folder(environment), common, folder)


def _require_folder(runs: Path) -> None:
    """Raise RequestError if a file is where the folder of runs would be."""
    nearest = next(path for path in (runs, *runs.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise RequestError(f"folder of runs {runs}: {nearest} is not a folder", "give a folder: --runs or HARNESS_RUNS")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the absolute path of this user's cache: HARNESS_CACHE, or `harness` in XDG_CACHE_HOME or ~/.cache."""
    return Path(environment.get("HARNESS_CACHE") or caches(environment) / "harness").absolute()


def _path(environment: Mapping[str, str], variable: str) -> Path | None:
    return Path(environment[variable]) if environment.get(variable) else None


def _named_lab(lab: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the absolute path of the lab folder that the user named; None if there is none."""
    name = lab or environment.get(LAB_VARIABLE)
    if not name:
        return None
    folder = Path(name).absolute()
    if not (folder / BOARDS_FILE).exists():
        said = "--lab" if lab else LAB_VARIABLE
        raise RequestError(
            f"{said} {name}: there is no {BOARDS_FILE} in it", f"create a lab folder: harness init {name}"
        )
    return folder


def _surrounding_lab(start: Path) -> Path | None:
    """Return the nearest of `start` and its parents that has a boards.yaml; None if there is none."""
    return next((folder for folder in (start, *start.parents) if (folder / BOARDS_FILE).exists()), None)


def _require_own(folder: Path) -> None:
    """Raise RequestError if the boards.yaml in `folder` belongs neither to this user nor to root.

    It may contain commands, and anyone may write to a folder such as /tmp, which contains folders of all users.
    """
    path = folder / BOARDS_FILE
    if path.stat().st_uid not in {os.getuid(), 0}:
        raise RequestError(
            f"{path} belongs to another user, and it may contain commands",
            f"if you trust it, name the lab folder: --lab {folder} or {LAB_VARIABLE}={folder}",
        )


def caches(environment: Mapping[str, str]) -> Path:
    """Return the user's folder of caches; RequestError if it is unknown."""
    try:
        return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # a user without a name, as in a container, and without HOME
        raise RequestError("your home folder is unknown", "set HOME, or HARNESS_CACHE to a folder") from error
