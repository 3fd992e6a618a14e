"""The words of an NNEF text, each with its place; and a cursor that walks over them.

Numbers and texts follow NNEF 1.0: a decimal point or an exponent makes a number a scalar; texts have either kind of
quotes and no escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from harness.core.errors import RequestError


class TokenKind(Enum):
    """The kind of a word; the value is its name in messages."""

    NAME = "a name"
    SCALAR = "a decimal fraction such as 0.5"
    INTEGER = "an integer"
    TEXT = "a text in quotes"
    SYMBOL = "a symbol"
    END = "the end of the file"


@dataclass(frozen=True)
class Token:
    """One word: `text` without the quotes, its first character in this line and column, both counted from 1."""

    kind: TokenKind
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return self.kind.value if self.kind is TokenKind.END else repr(self.text)


_WORD = re.compile(
    r"""(?P<SPACE>[ \t\r\n]+|\#[^\n]*)
    |(?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<SCALAR>\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<INTEGER>\d+)
    |(?P<TEXT>'[^'\n]*'|"[^"\n]*")
    |(?P<SYMBOL>->|<=|>=|==|!=|&&|\|\||[-+*/^!<>=?:;,.(){}\[\]])""",
    re.VERBOSE | re.ASCII,
)


def tokens(text: str, file: str) -> Iterator[Token]:
    """Yield all words of `text`, at last that of kind END; raise RequestError for a character that begins none."""
    position, line, line_start = 0, 1, 0
    while position < len(text):
        found = _WORD.match(text, position)
        column = position - line_start + 1
        if found is None:
            what = "a quote that is not closed" if text[position] in "'\"" else f"the character {text[position]!r}"
            raise refusal(file, line, column, f"a word of NNEF, found {what}")
        if found.lastgroup != "SPACE":
            word = found[0][1:-1] if found.lastgroup == "TEXT" else found[0]
            yield Token(TokenKind[str(found.lastgroup)], word, line, column)
        if newlines := found[0].count("\n"):
            line, line_start = line + newlines, position + found[0].rindex("\n") + 1
        position = found.end()
    yield Token(TokenKind.END, "", line, position - line_start + 1)


def refusal(file: str, line: int, column: int, expected: str, hint: str = "") -> RequestError:
    """Return the error for a text in which something else was expected."""
    return RequestError(f"{file}:{line}:{column}: expected {expected}", hint)


class Cursor:
    """A position in a text, which advances by expected words."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._tokens = list(tokens(text, file))
        self._position = 0

    @property
    def token(self) -> Token:
        """The word at this place."""
        return self._tokens[self._position]

    def next(self) -> Token:
        """Return the current word and pass it; the end of the file is never passed."""
        found = self.token
        self._position += found.kind is not TokenKind.END
        return found

    def skip(self, symbol: str) -> bool:
        """Pass the current word if it is `symbol`; return whether it was."""
        return self.at(symbol) and bool(self.next())

    def at(self, word: str) -> bool:
        """Return whether the current word is the symbol or name `word`."""
        return self.token.kind in {TokenKind.SYMBOL, TokenKind.NAME} and self.token.text == word

    def expect(self, *words: str) -> Token:
        """Pass the given words, one after the other; the last of them."""
        for word in words:
            if not self.at(word):
                self.refuse(repr(word))
            found = self.next()
        return found

    def take(self, kind: TokenKind, what: str = "") -> Token:
        """Pass a word of a kind; `what` is its purpose."""
        if self.token.kind is not kind:
            self.refuse(what or kind.value)
        return self.next()

    def match(self, kind: TokenKind, text: str, what: str = "", hint: str = "") -> None:
        """Pass exactly this word; `what` is its purpose."""
        if (self.token.kind, self.token.text) != (kind, text):
            self.refuse(f"{text!r}{what}", hint)
        self.next()

    def refuse(self, expected: str, hint: str = "") -> NoReturn:
        """Raise the error that something else was expected here."""
        self.refuse_at(self.token, f"{expected}, found {self.token}", hint)

    def refuse_at(self, token: Token, expected: str, hint: str = "") -> NoReturn:
        """Refuse a word that was passed already."""
        raise refusal(self.file, token.line, token.column, expected, hint)
