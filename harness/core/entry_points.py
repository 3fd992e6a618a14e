"""Objects that other packages provide by entry points."""

from __future__ import annotations

import inspect
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
        reason = f"{_place(error, point)}{type(error).__name__}: {error}"
        raise RequestError(
            f"{kind} {point.name} cannot be loaded: {point.value}: {reason}",
            "repair the package that provides it, or remove it",
        ) from error


def _place(error: Exception, point: EntryPoint) -> str:
    """Return file, line and text of the last statement of other packages that ran into the error.

    The class of `point` is that of the package importlib_metadata where another package has imported it.
    """
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: "
    own = [Path(__file__).parents[1], *(Path(inspect.getfile(kind)).parent for kind in (EntryPoint, type(point)))]
    files = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    frames = [frame for frame in files if not any(Path(frame.filename).is_relative_to(folder) for folder in own)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line!r}: " if frames else ""
