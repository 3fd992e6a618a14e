"""Safe reading and display of untrusted data: from boards, from files, from other users."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable
from io import BufferedReader, BytesIO, TextIOWrapper
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.core.arrays import Array

LARGEST_DOCUMENT = 64 << 20  # bytes; larger JSON files are rejected

# Characters that are unsafe to display: controls other than tab and line feed, some of which a terminal executes; lone
# surrogates and U+FFFE, U+FFFF, which UTF-8 or XML 1.0 cannot represent; Unicode's Bidi_Control characters, which
# could display the text in another order.
_NO_TEXT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_OF_SHELL = re.compile(r"/dev/(?:fd/[0-9]+|stdin)$|/proc/self/fd/[0-9]+$")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def open_input(path: Path, *, pipe: bool = False) -> BufferedReader:
    """Open a file that a user names, without waiting for the writer of a pipe.

    OSError, whose `strerror` says what to do, if it is no regular file, or a pointer that Git LFS left in its place.
    With `pipe`, /dev/fd/N may be a pipe: a shell has opened it for `<(command)` and for `command |`.
    """
    waiting = 0 if (of_shell := pipe and _OF_SHELL.match(str(path))) else os.O_NONBLOCK
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | waiting))  # noqa: SIM115
    kind = _KINDS.get(stat.S_IFMT(os.fstat(file.fileno()).st_mode))
    if of_shell and kind == "a pipe":
        return file
    reason = f"it is {kind}; write its content to a regular file" if kind else ""
    if not kind and file.peek(len(_LFS_POINTER)).startswith(_LFS_POINTER):
        reason = "it is a Git LFS pointer, not the content; run: git lfs pull"
    if reason:
        file.close()
        raise OSError(errno.EINVAL, reason, str(path))
    return file


def read_input(path: Path) -> bytes:
    """Return the content of a file that a user names; OSError as from `open_input`."""
    with open_input(path, pipe=True) as file:
        return file.read()


def read_input_text(path: Path) -> str:
    """Return the UTF-8 text of a file that a user names; OSError as from `open_input`, UnicodeDecodeError."""
    with TextIOWrapper(open_input(path, pipe=True), encoding="utf-8") as file:
        return file.read()


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text; ValueError for other text, for numbers that JSON lacks, and for deep nesting.

    ValueError also for a repeated key of an object: another reader may take the other value.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_file(path: Path, flags: int = 0) -> bytes:
    """Read a regular file of at most LARGEST_DOCUMENT bytes; OSError if it cannot be read, ValueError for others."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags), "rb") as file:  # do not wait for a pipe
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_DOCUMENT:
            raise ValueError(f"{path.name} is not a file of at most {LARGEST_DOCUMENT >> 20} MiB")
        return file.read()


def read_document(path: Path) -> dict[str, Any]:
    """Read the JSON object of a file, see `parse_json`; OSError if it cannot be read, ValueError if it is too large."""
    content = read_file(path, os.O_NOFOLLOW)
    document = parse_json(content)
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} is not a JSON object")  # noqa: TRY004 - about the file, not about an argument
    return document


def require_keys(document: Any, known: Iterable[str], where: str, *, needed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the JSON object `document`; ValueError, which names `where`, for unknown and missing `needed` keys."""
    if not isinstance(document, dict):
        raise ValueError(f"{where} is not a JSON object")  # noqa: TRY004 - about the document, not about an argument
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
        raise ValueError(f"the key {twice!r} is repeated")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")


def load_array(path: Path) -> Array:
    """Map the array of a .npy file into memory; OSError as from `open_input`, ValueError if it is not a .npy file.

    ValueError also for bytes after the array, which no reader of the array sees.
    """
    from numpy.lib.format import open_memmap  # imported here: commands that read no arrays start faster

    open_input(path).close()
    try:
        found: Any = open_memmap(path, mode="r")
    except (ArithmeticError, EOFError, MemoryError, RecursionError, SyntaxError, TokenError, TypeError) as error:
        raise ValueError(f"its header is invalid: {error}") from error
    _require_length(path.stat().st_size, found.offset + found.nbytes)
    array: Array = found
    return array


def load_arrays(path: Path, *names: str) -> list[Array]:
    """Return the arrays with these names of a .npz file, which has no other bytes; OSError or ValueError otherwise."""
    import numpy as np

    empty, arrays = BytesIO(), []
    nothing: dict[str, Any] = dict.fromkeys(names, np.empty(0))
    np.savez(empty, **nothing)
    try:
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(empty) as other:
            if sorted(archive.namelist()) != sorted(other.namelist()):
                raise ValueError(f"it has the arrays {', '.join(archive.namelist())}, expected {', '.join(names)}")
            for name in names:
                with archive.open(f"{name}.npy") as member:
                    arrays.append(np.lib.format.read_array(member, allow_pickle=False))
                    _require_length(len(member.read()), 0)
            packed, of_empty = (sum(member.compress_size for member in one.infolist()) for one in (archive, other))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"it is not a complete .npz file: {error}") from error
    _require_length(path.stat().st_size - packed, len(empty.getbuffer()) - of_empty)
    return arrays


def _require_length(length: int, expected: int) -> None:
    if length != expected:
        raise ValueError(f"it has {length - expected:,} bytes that belong to no array")


def visible(text: str) -> str:
    """Escape unsafe characters as in Python; nothing is lost, as a log requires."""
    return _NO_TEXT.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def clean(text: str) -> str:
    """Strip characters that are unsafe to display."""
    return _NO_TEXT.sub("", text)


def one_line(words: object, longest: int) -> str:
    """Return another user's text for use in a message: `clean`, on one line, at most `longest` characters."""
    return clean(" ".join(str(words).split())).strip()[:longest]


def has_controls(text: str) -> bool:
    """Return whether a text has control characters other than CR; names, paths, addresses, commands have none."""
    return _NO_TEXT.search(text.replace("\r", "")) is not None
