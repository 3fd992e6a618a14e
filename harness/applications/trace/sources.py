"""The text of the functions of a program, also of those that a macro DEFINE_... of its sources defines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

TextOf = Callable[[str], Sequence[str]]
EXPANSION = re.compile(r"\s*(DEFINE_\w+)\((.*)\)")
LOOP = re.compile(r"\b(for \(.*?;.*?;.*?\)|while \(.*\))(?=\s*$|\s*\{|\s*\\)")


@dataclass(frozen=True)
class Body:
    """The text of a function: its file, the number of its first line, and its lines."""

    file: str
    line: int
    lines: Sequence[str]

    @property
    def loops(self) -> list[str]:
        """Return the heads of its loops in their order."""
        return [match[1] for line in self.lines if (match := LOOP.search(line.rstrip(" \\")))]


@dataclass(frozen=True)
class Sources:
    """The sources of a bundle: the paths of all, and the lines of one by its path."""

    files: Sequence[str]
    text_of: TextOf

    @cached_property
    def macros(self) -> Mapping[str, tuple[str, int, list[str]]]:
        """Return by the name of each macro DEFINE_...: its file, the number of its line, and its parameters."""
        found = {}
        for file in self.files:
            if file.endswith((".h", ".c")):
                for number, line in enumerate(self.text_of(file), 1):
                    defined = re.match(r"#define (DEFINE_\w+)\(([^)]*)\)", line)
                    if defined:
                        found[defined[1]] = (file, number, re.split(r",\s*", defined[2]))
        return found

    def find(self, name: str) -> Body | None:
        """Return the text of a function that a header defines; None if none does."""
        start = re.compile(rf"(?:\w+ )+\*?{re.escape(name)}\((?!.*;$)")
        for file in self.files:
            for number, line in enumerate(self.text_of(file) if file.endswith(".h") else (), 1):
                found = self.body(file, number, name) if start.match(line) or EXPANSION.match(line) else None
                if found is not None:
                    return found
        return None

    def body(self, file: str, line: int, name: str) -> Body | None:
        """Return the text of the function `name` that is defined at a line, or by a macro there; None without one."""
        lines = self.text_of(file)
        if not 0 < line <= len(lines):
            return None
        used = EXPANSION.match(lines[line - 1])
        if used is None:
            return Body(file, line, _whole(lines[line - 1 :]))
        return self._expanded(used[1], _arguments(used[2]), name.partition(".")[0])

    def _expanded(self, macro: str, arguments: Sequence[str], name: str) -> Body | None:
        if macro not in self.macros:
            return None
        file, first, parameters = self.macros[macro]
        lines = self.text_of(file)
        given = dict(zip(parameters, arguments, strict=False))
        for number in range(first, len(lines)):
            text = _substituted(lines[number], given)
            if re.match(rf"\s*(?:[\w()]+ )+\*?{re.escape(name)}\(", text) and not re.match(r"\s*return ", text):
                return Body(file, number + 1, [_substituted(each, given) for each in _whole(lines[number:])])
            inner = EXPANSION.match(text.rstrip(" \\"))
            found = self._expanded(inner[1], _arguments(inner[2]), name) if inner and inner[1] != macro else None
            if found is not None:
                return found
            if not lines[number].endswith("\\"):
                return None
        return None


def _arguments(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def _substituted(line: str, given: Mapping[str, str]) -> str:
    """Return a line of a macro with its arguments in place of the parameters."""
    text = line.rstrip("\\").rstrip()
    for parameter, argument in given.items():
        text = re.sub(rf"(?:##)?\b{re.escape(parameter)}\b(?:##)?", argument, text.replace("##", " ## "))
        text = text.replace(" ## ", "##")
    return text.replace("##", "")


def _whole(lines: Sequence[str]) -> list[str]:
    """Return the lines up to the brace that closes the function."""
    depth, opened, found = 0, False, []
    for line in lines:
        found.append(line)
        depth += line.count("{") - line.count("}")
        opened = opened or "{" in line
        if (opened and depth <= 0) or (not opened and line.endswith(";")):
            break
    return found
