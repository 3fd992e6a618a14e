"""What comes from a board, from a file or from another user: read without harm, and shown without effect."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.network import Array

# Characters that are no text: controls, of which a terminal takes some as orders; those that turn its direction.
_KEPT = "\n\t"
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for what is none, numbers that JSON has not, and what is nested too deep."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


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
