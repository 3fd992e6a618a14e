"""Objects that other packages provide by entry points."""

from __future__ import annotations

import importlib.metadata
import traceback
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from harness.core.errors import RequestError


def load(point: EntryPoint, kind: str) -> Any:
    """Import the object of an entry point; raise RequestError with the reason if that fails.

    `kind` is the kind of object in the message, for example `operator`.
    """
    try:
        return point.load()
    except Exception as error:  # a third party's module may raise anything
        raise RequestError(
            f"{kind} {point.name} cannot be loaded: {point.value}: {_place(error)}{type(error).__name__}: {error}",
            "repair the package that provides it, or remove it",
        ) from error


def _place(error: Exception) -> str:
    """Return file, line and text of the last statement of other packages that ran into the error."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: "
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line!r}: " if frames else ""


def _is_ours(file: str) -> bool:
    """Return whether a file belongs to this package or to Python's import system."""
    is_import = file.startswith("<frozen") or Path(file).is_relative_to(Path(importlib.metadata.__file__).parent)
    return is_import or Path(file).is_relative_to(Path(__file__).parents[1])
