"""The form of the generated C: its ISO standard, and how float constants are written; the machine code is the same.

`standard: c99` and `c89` are checked by the compiler (-pedantic-errors -Wall).  The sources are written in C99, and C89
follows from them: a declaration behind a statement, or in a `for`, begins a block; everything else that C89 lacks is in
kernels/c/c89.h.  Lines stay lines, so line numbers are those of the C99 text.

`floats: decimal` writes the shortest digits that are rounded to the same float, at most 9 (17 for double).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

HEADER = "kernels/c/c89.h"
FLAGS = ("-pedantic-errors", "-Wall", "-Wno-overlength-strings")  # assembly text has more characters than C89 requires
REPLACED = {"<stdint.h>", "<stdbool.h>", "<math.h>"}
"""Headers that C89 lacks, or whose functions are of double only; c89.h has what kernels need of them."""

_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\n]|\\\n|/\*.*?\*/)+)"
    r"|(?P<directive>(?:\A|(?<=\n))\#(?:\\\n|/\*.*?\*/|[^\n])*)"
    r"|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<number>\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\#\#|.)",
    re.DOTALL,
)
_DEFINE = re.compile(r"(\#[ \t]*define[ \t]+\w+(?:\([^)]*\))?)(.*)", re.DOTALL)
_HEX_FLOAT = re.compile(r"0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+(f?)")
_TYPES = {
    *("const", "static", "struct", "enum", "union", "volatile", "register", "bool", "void"),
    *("unsigned", "signed", "char", "short", "int", "long", "float", "double"),
}
_STATEMENTS = {"if", "else", "for", "while", "do", "switch", "return", "goto", "case", "default", "break", "continue"}
_OPENING, _CLOSING = {"(", "[", "{"}, {")", "]", "}"}


class Settings(BaseModel):
    """The section `c` of a board's profile."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    standard: Literal["gnu11", "c99", "c89"] = "gnu11"
    floats: Literal["hex", "decimal"] = "hex"

    @model_validator(mode="after")
    def _is_consistent(self) -> Settings:
        if self.standard == "c89" and self.floats == "hex":
            reason = "c89 has no hexadecimal floats: give floats: decimal"
            raise PydanticCustomError("inconsistent", "{reason}", {"reason": reason, "keys": ("c", "floats")})
        return self

    @property
    def is_default(self) -> bool:
        """Return whether the sources stay as they are."""
        return self == Settings()

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the compiler's flags for the generated code; none without a standard."""
        return () if self.standard == "gnu11" else (f"-std={self.standard}", *FLAGS)


def written(sources: Mapping[str, bytes], settings: Settings) -> dict[str, bytes]:
    """Return the sources of a bundle, with the generated code and what it includes in the form of `settings`.

    ValueError names the file and the construct that has no form in C89.
    """
    if settings.is_default:
        return dict(sources)
    found = {}
    for path, content in sources.items():
        own = path in {"network.c", "kernels/program/network.h"} or re.fullmatch(r"kernels/c/(?!c89)\w+\.h", path)
        if own and not (settings.standard == "c89" and _is_vector(path)):
            content = _converted(path, content.decode(), settings).encode()  # noqa: PLW2901 - in its other form
        found[path] = content
    return found


def _is_vector(name: str) -> bool:
    """Return whether a header is of variant c:vector, whose vectors no standard has."""
    return re.search(r"(_vector|lanes)\.h$", name) is not None


def _converted(path: str, text: str, settings: Settings) -> str:
    if path == "network.c":
        text = _of_network(text, settings)
    converter = _Text(text, settings)
    try:
        return converter.converted()
    except _NoForm as error:
        raise ValueError(f"{path}:{converter.line} has {error}, which {settings.standard} does not have") from None


def _of_network(text: str, settings: Settings) -> str:
    """Return `network.c` with its dialect in the first line, and without headers that no standard code can include."""
    form = f"{settings.standard}, {settings.floats} floats"
    text = text.replace(". */", f", {form}. */", 1)
    if settings.standard != "c89":
        return text
    lines = text.split("\n")
    lines[lines.index('#include "network.h"') + 1] = '#include "c89.h"'  # the line between two groups of headers
    left_out = [line.startswith("#include") and _is_vector(line.rstrip('"')) for line in lines]
    return "\n".join("" if out else line for out, line in zip(left_out, lines, strict=True))


class _NoForm(Exception):
    """A construct that has no form in the standard."""


def decimal(token: str) -> str:
    """Return a hexadecimal float constant in decimal digits that are rounded to the same value; others as they are."""
    match = _HEX_FLOAT.fullmatch(token)
    if match is None:
        return token
    value = float.fromhex(token.removesuffix("f"))
    kind = np.float32 if match[1] else np.float64
    digits: str = np.format_float_scientific(kind(value), unique=True, trim="0")
    if kind(digits) != kind(value) or kind(value) != value:
        raise _NoForm(f"the constant {token}, which is no {kind.__name__}")
    return f"{digits}{match[1]}"


class _Text:
    """A text of C on its way to another form: its tokens, the next one, and what has been written."""

    def __init__(self, text: str, settings: Settings) -> None:
        self._settings = settings
        self._tokens = [(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(text)]
        self._at = 0
        self._out: list[str] = []

    def converted(self) -> str:
        """Return the whole text: bodies of functions in blocks, all else token by token."""
        before = ""
        while (word := self._peek()) is not None:
            if self._settings.standard == "c89" and word == "{" and before in {")", "do"}:
                self._block()
            else:
                self._take()
            before = word
        self._spaces()
        return "".join(self._out)

    @property
    def line(self) -> int:
        """Return the number of the line of the next token."""
        return 1 + sum(text.count("\n") for _, text in self._tokens[: self._at])

    def _significant(self) -> Iterator[str]:
        """Yield the tokens from the next one on, without spaces and directives."""
        for at in range(self._at, len(self._tokens)):
            kind, text = self._tokens[at]
            if kind not in {"space", "directive"}:
                yield text

    def _peek(self, count: int = 0) -> str | None:
        for index, token in enumerate(self._significant()):
            if index == count:
                return token
        return None

    def _spaces(self) -> None:
        while self._at < len(self._tokens) and self._tokens[self._at][0] in {"space", "directive"}:
            kind, text = self._tokens[self._at]
            self._out.append(text if kind == "space" else self._directive(text))
            self._at += 1

    def _take(self) -> str:
        """Write the next token, and the spaces before it."""
        self._spaces()
        if self._at == len(self._tokens):
            raise _NoForm("an end of the text inside a block")
        kind, text = self._tokens[self._at]
        self._at += 1
        is_decimal = kind == "number" and self._settings.floats == "decimal"
        self._out.append(decimal(text) if is_decimal else text)
        return text

    def _skip(self) -> None:
        """Leave the next token out, and the spaces before it."""
        while self._tokens[self._at][0] == "space":
            self._at += 1
        self._at += 1

    def _directive(self, text: str) -> str:
        if match := _DEFINE.fullmatch(text):
            return match[1] + _Text(match[2], self._settings).converted()
        name = text.removeprefix("#include").strip()
        if self._settings.standard == "c89" and name in REPLACED:
            return f'#include "{PurePosixPath(HEADER).name}"'
        return text

    def _block(self) -> None:
        """Write a block; a declaration behind a statement begins one in it, which ends with it."""
        self._take()
        begun, opened = False, 0
        while self._peek() not in {"}", None}:
            if not self._is_declaration():
                self._statement()
                begun = True
                continue
            if begun:
                self._spaces()
                self._out.append("{ ")
                begun, opened = False, opened + 1
            self._until(";")
        self._spaces()
        self._out.append("} " * opened)
        self._take()

    def _statement(self) -> None:
        parts: dict[str | None, Callable[[], None]] = {"{": self._block, "for": self._for, "do": self._do}
        first = self._peek()
        if first in parts:
            parts[first]()
        elif first in {"if", "while", "switch"}:
            self._take()
            self._parenthesis()
            self._statement()
            if first == "if" and self._peek() == "else":
                self._take()
                self._statement()
        elif first in {"case", "default"}:
            self._until(":")
            self._statement()
        else:
            self._until(";")

    def _do(self) -> None:
        self._take()
        self._statement()
        self._until(";")

    def _for(self) -> None:
        """Write a loop; one that declares its variable becomes a block with the declaration and the loop."""
        if not self._is_declaration(2):
            self._take()
            self._parenthesis()
            self._statement()
            return
        self._spaces()
        self._out.append("{ ")
        self._skip()
        self._skip()
        self._until(";")
        self._out.append(" for (;")
        self._until(")")
        self._statement()
        self._out.append(" }")

    def _parenthesis(self) -> None:
        self._take()
        self._until(")")

    def _until(self, end: str) -> None:
        """Write the tokens up to the next `end` that is in no brackets."""
        depth, before = 0, ""
        while True:
            word = self._take()
            if word == "{" and before == ")":
                raise _NoForm("a compound literal")
            if depth == 0 and word == end:
                return
            depth += (word in _OPENING) - (word in _CLOSING)
            before = word

    def _is_declaration(self, skipped: int = 0) -> bool:
        """Return whether a declaration begins here, behind `skipped` tokens; types can be parameters of a macro."""
        first, second, third = (self._peek(skipped + count) or "" for count in range(3))
        if first in _STATEMENTS or not re.match(r"[A-Za-z_]", first):
            return False
        if first in _TYPES or first.endswith("_t") or second == "##":
            return True
        is_name = re.match(r"[A-Za-z_]", second) is not None and second not in _STATEMENTS
        return is_name or (second == "*" and re.match(r"[A-Za-z_]", third) is not None)
