"""A former measurement of the same thing, to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.analysis.timing import FEWEST_BASES
from harness.boards.identity import BoardIdentity
from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.safe_io import load_array, read_document
from harness.plan.plan import Plan
from harness.runs.entries import MeasurementDocument
from harness.runs.measurement.parts import names_of
from harness.runs.measurement.request import MeasurementOptions, Quantity
from harness.runs.measurement.segments import Readings

READINGS_FILE = "readings.npy"
MOST_OF_HISTORY = 10
"""Bases, with those of the history, the newest first."""


@dataclass(frozen=True)
class Base:
    """A former measurement to compare with: its folder, its document, its readings, (n, parts)."""

    folder: Path
    document: MeasurementDocument
    readings: Readings


def read_all(
    paths: Sequence[Path], board: Profile, plan: Plan, options: MeasurementOptions, history: Sequence[Path] = ()
) -> tuple[Base, ...]:
    """Read the base measurements; RequestError as of `read`, and for one that is named twice.

    Of fewer than FEWEST_BASES times, those in `history` that are of the same program follow: they show the noise.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise RequestError("--against names a measurement twice", "the noise is estimated from different measurements")
    bases = [read(path, board, plan, options) for path in paths]
    named = {path.resolve() for path in paths}
    if options.quantity is Quantity.TIME and len(bases) < FEWEST_BASES:
        for path in history:
            if len(bases) < MOST_OF_HISTORY and path.resolve() not in named:
                with suppress(RequestError):
                    bases.append(read(path, board, plan, options, bases[0].document.bundle.sha256))
    return tuple(bases)


def read(path: Path, board: Profile, plan: Plan, options: MeasurementOptions, bundle: str | None = None) -> Base:
    """Return a measurement of the same parts of the same model, and of this bundle if one is named.

    RequestError if it measured something else, its outputs were wrong, or its files were changed.
    """
    try:
        document = MeasurementDocument.view(read_document(path / "run.json"))
        if bundle and document.bundle.sha256 != bundle:
            raise RequestError(f"--against {path}: it is of another program", "compare measurements of the same thing")
        _require_same(path, document, board, plan, options)
        _require_whole(path, document, options)
        if file_sha256(path / READINGS_FILE) != document.readings.sha256:
            raise RequestError(f"{path / READINGS_FILE} was changed since it was measured", "measure the base again")
        return Base(path, document, np.array(load_array(path / READINGS_FILE)))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(
            f"--against {path}: not a finished measurement", "name the run folder of a harness measure"
        ) from error


def require_kind(bases: Sequence[Base], reached: BoardIdentity) -> None:
    """Raise RequestError if a base was measured on another kind of board than the connected one."""
    for base in bases:
        if (there := base.document.board.kind) != reached.kind:
            raise RequestError(
                f"--against {base.folder}: its kind of board is {there}, the board reached is {reached.kind}",
                "compare measurements of the same thing",
            )


def _require_same(
    path: Path, document: MeasurementDocument, board: Profile, plan: Plan, options: MeasurementOptions
) -> None:
    """Raise RequestError unless both measure the same."""
    if getattr(document, "kind", None) != "measure":
        raise RequestError(f"--against {path}: not a measurement", "name the run folder of a harness measure")
    pairs = {
        "board": (document.board.name, board.name),
        "model": (document.model.sha256, plan.network.sha256),
        "scope": (document.measured.scope, options.scope),
        "quantity": (document.measured.quantity, options.quantity.value),
        "load": (document.load.name, options.load),
        "list of parts": (", ".join(_names(document, options)), ", ".join(names_of(plan, options))),
    }
    for what, (there, here) in pairs.items():
        if there != here:
            raise RequestError(
                f"--against {path}: its {what} is {there}, here it is {here}", "compare measurements of the same thing"
            )
    if document.outputs.differing:
        raise RequestError(
            f"--against {path}: its outputs were not the reference's", "name one that computes the model"
        )


def _require_whole(path: Path, document: MeasurementDocument, options: MeasurementOptions) -> None:
    """Raise RequestError before the measurement if it could not be compared."""
    lacking = [
        name for name, entry in (("started", document), ("segment", document.measured)) if not hasattr(entry, name)
    ]
    if options.quantity is not Quantity.TIME and any(part.taken_off is None for part in document.parts):
        lacking.append("taken_off")
    if lacking:
        said = f"--against {path}: it was measured by an earlier version, which did not record {', '.join(lacking)}"
        raise RequestError(said, "measure the base again")


def _names(document: MeasurementDocument, options: MeasurementOptions) -> list[str]:
    """Return the names of the parts; the name of the network is ignored."""
    return [part.name for part in document.parts] if options.scope != "network" else ["network"]
