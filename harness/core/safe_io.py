"""Safe reading and display of untrusted data: from boards, from files, from other users."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.core.arrays import Array

LARGEST_DOCUMENT = 64 << 20  # bytes of a JSON file that is read

# What is no part of a text: controls but for tab and the end of a line, of which a terminal takes some as orders; lone
# surrogates and U+FFFE, U+FFFF, which UTF-8 or XML 1.0 cannot hold; what turns the direction of its neighbours
# (Unicode's Bidi_Control), and could show a reader the characters in another order.
_NO_TEXT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text; ValueError for other text, for numbers that JSON lacks, and for deep nesting.

    ValueError also for a repeated key of an object: another reader may take the other value.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_document(path: Path) -> dict[str, Any]:
    """Read the JSON object of a file, see `parse_json`; OSError for other files, ValueError for too large ones."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # no wait for a pipe
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_DOCUMENT:
            raise ValueError(f"{path.name} is no file of at most {LARGEST_DOCUMENT >> 20} MiB")
        content = file.read()
    document = parse_json(content)
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} is no object")  # noqa: TRY004 - what the file is, not what was given
    return document


def require_keys(document: Any, known: Iterable[str], where: str, *, needed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the JSON object `document`; ValueError, which names `where`, for unknown and missing `needed` keys."""
    if not isinstance(document, dict):
        raise ValueError(f"{where} is no JSON object")  # noqa: TRY004 - what the document is, not what was given
    valid = tuple(known)
    if unknown := [key for key in document if key not in valid]:
        raise ValueError(
            f"{where} has unknown keys: {', '.join(map(repr, unknown[:5]))}; valid keys: {', '.join(valid)}"
        )
    if missing := [key for key in needed if key not in document]:
        raise ValueError(f"{where} lacks the keys {', '.join(missing)}")
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
    """Map the array of a .npy file into memory; OSError if it cannot be read, ValueError for any other content."""
    from numpy.lib.format import open_memmap  # commands that read none should not pay for it

    try:
        found: Array = open_memmap(path, mode="r")
    except (ArithmeticError, EOFError, MemoryError, RecursionError, SyntaxError, TokenError, TypeError) as error:
        raise ValueError(f"its header is none: {error}") from error
    return found


def visible(text: str) -> str:
    """Return the text with unsafe characters escaped as in Python, so that nothing is lost, as in a log."""
    return _NO_TEXT.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def clean(text: str) -> str:
    """Return the text without what is no part of one: where it is to be read."""
    return _NO_TEXT.sub("", text)


def one_line(words: object, longest: int) -> str:
    """Return another user's words as part of a message: `clean`, on one line, at most `longest` characters."""
    return clean(" ".join(str(words).split())).strip()[:longest]


def has_controls(text: str) -> bool:
    """Return whether a text has control characters; a name, path, address or command has none, CR excepted."""
    return _NO_TEXT.search(text.replace("\r", "")) is not None
