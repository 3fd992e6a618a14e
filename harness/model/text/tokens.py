"""The words of the text form: texts, integers and float32 numbers, written and read without loss."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.errors import RequestError

QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
WORD = re.compile(r'[^\s"()\[\]=,:#]+')
COMMENT = re.compile(r"#.*|$")
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
FLOAT = re.compile(r"(-?(?:inf|nan|[0-9][0-9.e+-]*))(?:/0x([0-9a-f]{8}))?")

INT64_LIMITS = (-(1 << 63), (1 << 63) - 1)

HOW_TO_MEND = (
    "docs/reference/describe-a-model.md shows every kind of line; `harness models show NAME --text FILE` writes them"
)


@dataclass(frozen=True)
class Source:
    """The content of a file, and the name by which messages call it."""

    file: str
    text: str


def weights_path(path: Path) -> Path:
    """Return the path of the weights file of the description at `path`: acas.weights.txt for acas.txt."""
    return path.with_name(f"{path.stem}.weights{path.suffix}")


def quoted(text: str) -> str:
    """Return a text in quotes with JSON's escapes; nothing in it stays invisible or changes the reading direction."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def float_word(value: np.float32) -> str:
    """Return the shortest decimal that is this float32 and no other, then its bits: 0.1/0x3dcccccd."""
    return f"{value!s}/0x{int(value.view(np.uint32)):08x}"


@dataclass
class Cursor:
    """One line, read from left to right; every `take_` advances, or raises RequestError with the expected token."""

    file: str
    number: int
    text: str
    position: int = 0

    def error(self, expected: str, found: str | None = None) -> RequestError:
        """Return the error to raise: file, line, expected and found text."""
        rest = self.text[self.position :].strip(" ")
        found = found or (repr(rest if len(rest) <= 40 else f"{rest[:37]}...") if rest else "the end of the line")
        return RequestError(f"{self.file}, line {self.number}: expected {expected}, found {found}", HOW_TO_MEND)

    def accept(self, pattern: re.Pattern[str]) -> str | None:
        """Return the next match of `pattern` after blanks; None, without advancing, if it does not match."""
        match = pattern.match(self.text, self._after_blanks())
        if match is None:
            return None
        self.position = match.end()
        return match.group()

    def accept_sign(self, sign: str) -> bool:
        """Return whether the punctuation `sign` comes next."""
        start = self._after_blanks()
        found = self.text.startswith(sign, start)
        self.position = start + len(sign) if found else self.position
        return found

    def _after_blanks(self) -> int:
        start = self.position
        while self.text.startswith(" ", start):
            start += 1
        return start

    def take_sign(self, sign: str) -> None:
        """Take the punctuation `sign`."""
        if not self.accept_sign(sign):
            raise self.error(repr(sign))

    def take_word(self, expected: str) -> str:
        """Return a bare word."""
        word = self.accept(WORD)
        if word is None:
            raise self.error(expected)
        return word

    def accept_text(self, expected: str) -> str | None:
        """Return a text in quotes, if one comes next."""
        before = self.position
        literal = self.accept(QUOTED)
        if literal is None:
            return None
        try:
            text: str = json.loads(literal)
            text.encode()  # half of a surrogate pair is no text
        except ValueError as error:
            self.position = before
            raise self.error(f"{expected} in quotes with JSON's escapes") from error
        return text

    def take_text(self, expected: str) -> str:
        """Return a text in quotes."""
        text = self.accept_text(expected)
        if text is None:
            raise self.error(f"{expected} in quotes")
        return text

    def take_choice(self, choices: Sequence[str], what: str) -> str:
        """Return one of `choices`."""
        before = self.position
        word = self.accept(WORD)
        if word is None or word not in choices:
            self.position = before
            raise self.error(f"{what}: {', '.join(choices)}")
        return word

    def take_integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""
        before = self.position
        word = self.accept(WORD) or ""
        if not INTEGER.fullmatch(word) or not low <= int(word) <= high:
            self.position = before
            raise self.error(f"an integer from {low} to {high}")
        return int(word)

    def take_float(self) -> np.float32:
        """Return a float32: its shortest decimal, and its bits, which only a NaN cannot do without."""
        before = self.position
        match = FLOAT.fullmatch(self.accept(WORD) or "")
        value = _float32(*match.groups()) if match else None
        if match is None or value is None:
            self.position = before
            raise self.error("a float32 such as 0.1, or with its bits 0.1/0x3dcccccd; NaN only with bits")
        if match[1] != str(value):
            self.position = before
            raise self.error(f"{value!s} or {float_word(value)}, the shortest decimal of this float32")
        return value

    def take_rest(self) -> str:
        """Return the rest of the line, without surrounding blanks."""
        text = self.text[self.position :].strip(" ")
        self.position = len(self.text)
        return text

    def at_end(self) -> bool:
        """Return whether nothing but a comment is left."""
        before = self.position
        ended = self.accept(COMMENT) is not None
        self.position = before
        return ended

    def take_end(self) -> None:
        """Require that nothing but a comment is left."""
        if not self.at_end():
            raise self.error("the end of the line or a # comment")


def _float32(decimal: str, bits: str | None) -> np.float32 | None:
    """Return the number that the bits are or, without bits, that the decimal is; None where it is neither."""
    if bits is not None:
        return np.uint32(int(bits, 16)).view(np.float32)
    try:
        with np.errstate(over="ignore"):
            value = np.float32(decimal)
    except ValueError:
        return None
    return None if np.isnan(value) else value
