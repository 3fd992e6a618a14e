"""Strict and safe YAML: every mistake is an error with its line."""

from __future__ import annotations

import itertools
import re
import reprlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from harness.core.errors import RequestError
from harness.core.safe_io import has_controls, one_line, read_input_text

DEEPEST = 200  # brackets in brackets
ENDLESS = "brackets in brackets without end"
LONGEST_INTEGER_BITS = 64  # Python refuses to print longer integers
LONGEST_SHOWN = 80  # characters of a line
NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
MOST_MERGED = 10_000  # keys: a few lines of YAML that merge each other can need more memory than any machine has


class _Loader(yaml.SafeLoader):
    """A loader that refuses a repeated key, of which YAML would keep the last, and numbers of base 8 or 60.

    It also refuses control characters, which YAML can escape but no name, path, address or command contains.
    """

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and has_controls(value):
            raise ConstructorError(None, None, f"{value!r} has control characters", node.start_mark)
        return value

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_MERGED:
            raise ConstructorError(None, None, f"more than {MOST_MERGED} keys are merged", node.start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:  # for example for the date 2020-13-45
            raise ConstructorError(None, None, "not a valid value of its type", node.start_mark) from error
        if node.tag in NUMBERS and re.match(r"[-+]?0[0-7_]+$|.*:", text := str(node.value)):
            # The bases of YAML 1.1, which readers of YAML 1.2 and of the file do not expect.
            base, meant = (60, f'"{text}"') if ":" in text else (8, text.lstrip("0"))
            problem = f"{text} is {value} in YAML, in base {base}: write {meant} or {value}"
            raise ConstructorError(None, None, problem, node.start_mark)
        if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER_BITS:
            raise ConstructorError(None, None, "a number with too many digits", node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: list[Any] = []  # a key may be a list, which is not hashable
        for key, _ in node.value:
            if key.value in seen:
                raise ConstructorError(None, None, f"the key {key.value} is repeated", key.start_mark)
            seen.append(key.value)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Source:
    """A file: its text, its document, and the line of each key of the document."""

    path: Path
    text: str
    document: Any
    lines: Mapping[tuple[str, ...], int]

    @classmethod
    def read(cls, path: Path, missing: str, unreadable: str) -> Source:
        """Read a file; RequestError names the line of a mistake; the other arguments are hints."""
        try:
            text = read_input_text(path)
        except FileNotFoundError:
            raise RequestError(f"{path}: there is no such file", missing) from None
        except OSError as error:
            raise RequestError(f"{path}: cannot be read: {error.strerror}", unreadable) from error
        except UnicodeDecodeError as error:
            raise RequestError(f"{path}: cannot be read: {error}", "write it in UTF-8") from error
        placed = lines(text, path)
        return cls(path, text, load(text, path), placed)

    def known(self, *keys: str | int) -> tuple[str, ...]:
        """Return the longest prefix of `keys` that the document has."""
        texts = tuple(map(str, keys))
        prefixes = (texts[:length] for length in range(len(texts), 0, -1))
        return next((prefix for prefix in prefixes if prefix in self.lines), ())

    def place(self, *keys: str | int) -> str:
        """Return file and line of the longest known prefix of `keys`."""
        known = self.known(*keys)
        return f"{self.path}:{self.lines[known]}" if known else str(self.path)


def load(text: str, path: Path) -> Any:
    """Return the document in `text`, the content of `path`; RequestError if it is invalid."""
    if _depth(text) > DEEPEST:
        raise RequestError(f"{path}: not valid YAML: {ENDLESS}")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise _mistake(error, text, path) from error
    except RecursionError as error:
        raise RequestError(f"{path}: not valid YAML: {ENDLESS}") from error


def _mistake(error: yaml.YAMLError, text: str, path: Path) -> RequestError:
    """Return the error with the parser's message, the line number and the text of that line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return RequestError(f"{path}: not valid YAML: {' '.join(str(error).split())}")
    words = ", ".join(filter(None, (getattr(error, "problem", None), getattr(error, "context", None))))
    [there] = text.splitlines()[mark.line : mark.line + 1] or ["the end of the file"]
    shown = one_line(there, LONGEST_SHOWN)
    return RequestError(f"{path}:{mark.line + 1}: not valid YAML: {words}", f"found at: {shown}")


def wrong_value(finding: Mapping[str, Any], key: str) -> str:
    """Return pydantic's message about a value, with its key."""
    return f"{key}: {in_its_words(finding)}, found {reprlib.repr(finding['input'])}"


def in_its_words(finding: Mapping[str, Any]) -> str:
    """Return pydantic's message about a value, with YAML's names of Python's types."""
    text = str(finding["msg"]).removeprefix("Value error, ").replace("a valid tuple", "a list, as [one, another]")
    text = re.sub(r"\w+ should have at least (\d+) items? after .*", r"at least \1 must be given", text)
    return re.sub(r"a valid dictionary(?: or instance of \w+)?", "a mapping, as {key: value}", text)


def _depth(text: str) -> int:
    """Return the largest number of open brackets; the parser's time grows with its square."""
    steps = ({"[": 1, "{": 1, "]": -1, "}": -1}[bracket] for bracket in re.findall(r"[][{}]", text))
    return max(itertools.accumulate(steps), default=0)


def lines(text: str, path: Path) -> dict[tuple[str, ...], int]:
    """Return the line of every key of the document in `text`, the content of `path`; empty for other text.

    The first line is 1; the key of a list element is its index.  RequestError for a repeated key, of which YAML would
    keep the last.
    """
    if _depth(text) > DEEPEST:
        return {}  # see `load`
    try:
        placed = list(_lines(yaml.compose(text, Loader=yaml.SafeLoader), (), set()))
    except (yaml.YAMLError, RecursionError):
        return {}
    found: dict[tuple[str, ...], int] = {}
    for keys, line in placed:
        if keys in found:
            raise RequestError(
                f"{path}:{line}: {'.'.join(keys)!r} is repeated, first in line {found[keys]}", "keep one of them"
            )
        found[keys] = line
    return found


def _lines(node: yaml.Node | None, at: tuple[str, ...], seen: set[yaml.Node]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield every key path of the document with its line, from 1 on; repetitions by an alias are omitted."""
    if node is None or node in seen:
        return
    seen.add(node)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = (*at, str(key.value))
            yield path, key.start_mark.line + 1
            yield from _lines(value, path, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            path = (*at, str(index))
            yield path, value.start_mark.line + 1
            yield from _lines(value, path, seen)
