"""Objects that other packages provide by entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint
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
            f"{kind} {point.name} cannot be loaded: {point.value}: {type(error).__name__}: {error}",
            "repair the package that provides it, or remove it",
        ) from error
