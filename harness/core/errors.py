"""The three kinds of failure, each with a hint for the user and an exit code.

A command ends with 0 (identical / done), 1 (differs / regressed), 2 (the request is wrong) or
3 (infrastructure: board, network, tool, reference host).  Everything else is a bug in the harness and ends with 4.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

EXIT_DONE = 0
EXIT_DIFFERS = 1
EXIT_REQUEST = 2
EXIT_INFRASTRUCTURE = 3
EXIT_BUG = 4


class HarnessError(Exception):
    """A failure that the user can act on: the problem, and a hint that proposes an action.

    `run` is the folder of the unfinished run that the failure ended, if there is one.
    """

    exit_code = EXIT_INFRASTRUCTURE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.run: Path | None = None

    @property
    def details(self) -> dict[str, Any]:
        """Return further entries of the JSON document of the error, by name."""
        return {}


class RequestError(HarnessError):
    """An invalid request: usage, profile, model or vectors."""

    exit_code = EXIT_REQUEST


class InfrastructureError(HarnessError):
    """A failed part that the result depends on: the verdict is `inconclusive`."""

    part = "infrastructure"


class BoardError(InfrastructureError):
    """A failure of the board, or of the program on it."""

    part = "board"


class ConnectionFailed(InfrastructureError):
    """A failed connection to the board: address, host key, credentials, an interrupted connection."""

    part = "network"


class ToolError(InfrastructureError):
    """A failed tool of this machine: a compiler, the emulator."""

    part = "tool"


class ReferenceFailed(InfrastructureError):
    """A reference that cannot be trusted on this machine."""

    part = "reference"


def notes_of(error: BaseException) -> tuple[str, ...]:
    """Return the notes of an error, which are printed after it: what is kept, and how to resume."""
    return tuple(getattr(error, "__notes__", ()))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> RequestError:
    """Return the error for a name that is not among `known`; its hint shows the nearest, then all."""
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=3)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    return RequestError(f"unknown {kind} {name!r}", f"{guess}valid choices: {', '.join(choices) or 'none'}")
