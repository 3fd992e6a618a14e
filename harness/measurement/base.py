"""A former measurement of the same thing, to compare with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import verdict
from harness.errors import RequestError
from harness.evidence import file_sha256
from harness.measurement.asked import Asked
from harness.measurement.segments import Readings
from harness.profile import Profile

READINGS_FILE = "readings.npy"


@dataclass(frozen=True)
class Base:
    """A former measurement to compare with: its folder, its document, its readings, (n, parts)."""

    folder: Path
    document: dict[str, Any]
    readings: Readings


def read(path: Path, board: Profile, model_sha256: str, asked: Asked) -> Base:
    """A measurement of the same thing; RequestError for another, and where its files are not as they were written."""
    try:
        document = json.loads((path / "run.json").read_text(encoding="utf-8"))
        _require_same(path, document, board, model_sha256, asked)
        if file_sha256(path / READINGS_FILE) != document["readings"]["sha256"]:
            raise RequestError(f"{path / READINGS_FILE} was changed since it was measured", "measure the base again")
        return Base(path, document, np.load(path / READINGS_FILE, allow_pickle=False))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(
            f"--against {path}: no finished measurement is there", "name the run folder of a harness measure"
        ) from error


def _require_same(path: Path, document: dict[str, Any], board: Profile, model_sha256: str, asked: Asked) -> None:
    """A shift between different things says nothing."""
    if document.get("kind") != "measure":
        raise RequestError(f"--against {path}: that is no measurement", "name the run folder of a harness measure")
    pairs = {
        "board": (document["board"]["name"], board.name),
        "kind of board": (document["board"]["kind"], verdict.kind(board)),
        "model": (document["model"]["sha256"], model_sha256),
        "scope": (document["measured"]["scope"], asked.scope),
        "quantity": (document["measured"]["quantity"], asked.quantity.value),
        "load": (document["load"]["name"], asked.load),
    }
    for what, (there, here) in pairs.items():
        if there != here:
            raise RequestError(
                f"--against {path}: its {what} is {there}, here it is {here}", "compare measurements of the same thing"
            )
