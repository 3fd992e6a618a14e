"""PTX text -> tokens, and a cursor over them that refuses what it does not expect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, TypeVar

from harness.core.errors import ToolError

T = TypeVar("T")

_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*|/\*.*?\*/)*+(?:
     (?P<float>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w))
    |(?P<integer>-?(?:0[xX][0-9a-fA-F]+|\d+)U?(?![\w.]))
    |(?P<version>\d+\.\d+(?![\w.]))
    |(?P<directive>\.[A-Za-z_]\w*)
    |(?P<word>[A-Za-z_$%][\w$]*(?:(?:\.|::)\w+)*)
    |(?P<string>"[^"\n]*")
    |(?P<mark>[{}()\[\]<>,;:@!+=])
    |(?P<end>\Z)
    |(?P<unknown>.))""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A piece of the text from `begin` to `end`; its kind is the name of its group in the pattern, or `end`."""

    kind: str
    text: str
    line: int
    begin: int
    end: int


def refuse(line: int, what: str) -> NoReturn:
    """Raise the ToolError of PTX that is not understood."""
    raise ToolError(
        f"PTX line {line}: {what}",
        "the inspection reads what NVRTC 11.8 writes for kernels/cuda: extend harness/targets/cuda/ptx_syntax.py for "
        "what is new, or write the kernel without it",
    )


class Cursor:
    """The tokens of a text, one after the other."""

    def __init__(self, ptx: str) -> None:
        self._ptx = ptx
        self._tokens = list(_tokens(ptx))
        self._at = 0

    @property
    def now(self) -> Token:
        """The token to take next."""
        return self._tokens[self._at]

    @property
    def following(self) -> Token:
        """The token after it; the last is repeated without end."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Take any token."""
        token = self.now
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def expect(self, text: str) -> Token:
        """Take this token and no other."""
        if self.now.text != text:
            refuse(self.now.line, f"{text!r} expected, not {self.now.text!r}")
        return self.take()

    def accept(self, text: str) -> bool:
        """Take this token if it comes next; whether it did."""
        if self.now.text != text:
            return False
        self.take()
        return True

    def kind(self, *kinds: str) -> Token:
        """Take a token of one of these kinds."""
        if self.now.kind not in kinds:
            refuse(self.now.line, f"{' or '.join(kinds)} expected, not {self.now.text!r}")
        return self.take()

    def every(self, texts: tuple[str, ...]) -> Iterator[Token]:
        """Take as many tokens as come of these."""
        while self.now.text in texts:
            yield self.take()

    def elements(self, one: Callable[[], T], end: str) -> tuple[T, ...]:
        """Take elements between commas up to `end`, and that."""
        found: list[T] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            found.append(one())
        return tuple(found)

    def integer(self) -> int:
        """Return an integer constant."""
        return int(self.kind("integer").text.rstrip("U"), 0)

    def constant(self) -> int:
        """Return an integer constant, or the bits of a floating-point one."""
        return int.from_bytes(bytes.fromhex(self.take().text[2:])) if self.now.kind == "float" else self.integer()

    def since(self, first: Token) -> str:
        """Return the source from `first` up to the last token taken, which is left out, in single spaces."""
        return " ".join(self._ptx[first.begin : self._tokens[self._at - 1].begin].split())


def _tokens(ptx: str) -> Iterator[Token]:
    line, counted = 1, 0
    for match in _TOKEN.finditer(ptx):
        kind = str(match.lastgroup)
        begin, end = match.span(kind)
        line += ptx.count("\n", counted, begin)
        counted = begin
        if kind == "unknown":
            refuse(line, f"cannot read {ptx[begin:].splitlines()[0]!r}")
        yield Token(kind, ptx[begin:end] or "the end", line, begin, end)
        if kind == "end":
            return  # after blanks at the end the pattern matches once more
