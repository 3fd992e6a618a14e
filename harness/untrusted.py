"""What comes from a board, from a file or from another user: read without harm, and shown without effect."""

from __future__ import annotations

import json
import os
import stat
import unicodedata
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.network import Array

LARGEST_DOCUMENT = 64 << 20  # bytes of a JSON file that is read

# Characters that are no text: controls, of which a terminal takes some as orders; those that turn its direction.
_KEPT = "\n\t"
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for what is none, numbers that JSON has not, and what is nested too deep."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object of a file; OSError if it is no plain file, ValueError for what is no object or too large.

    A key that stands twice is refused: whoever reads the text, or reads it with another program, may see the other.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # a pipe stops nobody
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_DOCUMENT:
            raise ValueError(f"{path.name} is no file of at most {LARGEST_DOCUMENT >> 20} MiB")
        content = file.read()
    try:
        document = json.loads(content, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} is no object")  # noqa: TRY004 - what the file is, not what was given
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"{twice!r} stands twice in it")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def load_array(path: Path) -> Array:
    """The array of a .npy file, memory-mapped; OSError if it cannot be read, ValueError for whatever else it is."""
    from numpy.lib.format import open_memmap  # commands that read none should not pay for it

    try:
        found: Array = open_memmap(path, mode="r")
    except (ArithmeticError, EOFError, MemoryError, RecursionError, SyntaxError, TokenError, TypeError) as error:
        raise ValueError(f"its header is none: {error}") from error
    return found


def visible(text: str) -> str:
    """The text with its control characters, and those that turn its direction, written out as Python would."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in _KEPT or not is_control(character):
        return character
    return character.encode("unicode_escape").decode()


def is_control(character: str) -> bool:
    """Whether it is no part of a text: a control, a lone surrogate, or what turns the direction of others."""
    return unicodedata.category(character) in {"Cc", "Cs"} or ord(character) in _TURNING
