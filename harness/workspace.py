"""Where things are: the laboratory file, the models, the runs, the cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import network as networks
from harness.errors import unknown_name
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


def find(boards: Path | None, runs: Path | None, environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace of this checkout; HARNESS_CACHE or XDG_CACHE_HOME move the cache."""
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(environment.get("HARNESS_CACHE") or caches / "harness")
    return Workspace(boards or ROOT / "boards.yaml", ROOT / "models", runs or ROOT / "runs", cache.absolute())
