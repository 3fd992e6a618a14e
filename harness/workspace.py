"""Where things are: the laboratory file, the models, the runs, the cache."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import network as networks
from harness.errors import RequestError, unknown_name
from harness.network import Network

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Workspace:
    """The folders of one user; `cache` holds bundles, packages and keys and may be removed at any time."""

    boards: Path
    models: Path
    runs: Path
    cache: Path

    def model(self, name: str) -> Network:
        """The model `name` of the models folder, or the ONNX file at that path.

        RequestError with the nearest names if there is neither, or if it cannot be reproduced exactly.
        """
        if name.endswith(".onnx") or "/" in name:
            return networks.load(Path(name))
        known = sorted(path.stem for path in self.models.glob("*.onnx"))
        if name not in known:
            raise unknown_name("model", name, known)
        return networks.load(self.models / f"{name}.onnx")

    def new_model(self, name: str, *, force: bool) -> Path:
        """Where the new model `name` belongs: in the models folder, or at that path where it ends in .onnx.

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


def find(boards: Path | None, runs: Path | None, environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace of this checkout; HARNESS_CACHE or XDG_CACHE_HOME move the cache."""
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(environment.get("HARNESS_CACHE") or caches / "harness")
    return Workspace(boards or ROOT / "boards.yaml", ROOT / "models", runs or ROOT / "runs", cache.absolute())
