"""The parser of `nightly.yaml`, which reports every error with file, line and the valid choices."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from harness.applications.nightly.notify import Notify
from harness.core.errors import HarnessError, RequestError
from harness.core.outcome import Outcome
from harness.core.strict_yaml import Source, wrong_value
from harness.runs.history.night_record import Action, Entry

EXAMPLE = "docs/run-every-night.md has an example"
UNITS_S = {"s": 1, "m": 60, "h": 3600}
POSSIBLE: Mapping[Action, tuple[Outcome, ...]] = {
    "run": (Outcome.IDENTICAL, Outcome.WITHIN_BOUND, Outcome.DIFFERS),
    "prove": (Outcome.IDENTICAL, Outcome.DIFFERS),
    "measure": (Outcome.MEASURED, Outcome.DIFFERS, Outcome.VARIES, Outcome.REGRESSED),
    "case": (Outcome.VALID, Outcome.NOT_VALID),
}
"""Possible values of `expect` for each action; the first is the default, `within bound` with `accept: bound`."""


@dataclass(frozen=True)
class Taken:
    """The options of a command: their names, the negative forms of flags, and the parser of its command line.

    `read` returns the value of every option; it raises RequestError for words that the command rejects.
    """

    options: frozenset[str]
    flags: Mapping[str, tuple[str, ...]]
    read: Callable[[Sequence[str]], Mapping[str, Any]]


@dataclass(frozen=True)
class NightSpec:
    """The parsed file of a night: its entries and the settings of the night.

    `until` is the time of day, HH:MM, after which no entry starts; `sha256` is that of the file.
    """

    file: Path
    sha256: str
    entries: tuple[Entry, ...]
    until: str
    parallel: int
    retries: int
    notify: Notify = field(default_factory=Notify)


class Checker(Protocol):
    """Checks of entries; RequestError for an entry that can never run."""

    def board(self, name: str, /) -> object:
        """Return a board."""

    def model(self, name: str, /) -> object:
        """Return a model."""

    def entry(self, entry: Entry, given: Mapping[str, Any]) -> None:
        """Check a whole entry, with the values that `Taken.read` returned."""


def read(path: Path, commands: Mapping[Action, Taken], checker: Checker) -> NightSpec:
    """Read the night's file at `path`; RequestError names file, line and valid choices."""
    hint = "name the file: harness nightly FILE"
    source = Source.read(path, f"harness init LAB creates one; or {hint}", hint)
    if not isinstance(source.document, dict):
        raise RequestError(f"{path}: expected a mapping with the key matrices", EXAMPLE)
    try:
        night = _File.model_validate(source.document)
    except ValidationError as error:
        raise _explain(error, source) from error
    entries = tuple(_entries(night, source, commands, checker))
    sha256 = hashlib.sha256(source.text.encode()).hexdigest()
    return NightSpec(path, sha256, entries, night.until or "", night.parallel, night.retries, night.notify)


def _seconds(given: Any) -> Any:
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]+)?)([smh])", str(given))
    if not match or not float(match[1]):
        raise ValueError("write a time with its unit, such as 90s, 30m or 8h")
    return float(match[1]) * UNITS_S[match[2]]


def _time_of_day(given: Any) -> Any:
    """Require a time of day in quotes: YAML reads 22:00 without quotes as a number of base 60."""
    if not isinstance(given, str) or not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", given):
        raise ValueError('write the time of day in quotes, such as "06:00"')
    return given


def _targets(given: Any) -> Any:
    """Convert a list of targets, the items of a board, to text."""
    return ",".join(given) if isinstance(given, list) and all(isinstance(one, str) for one in given) else given


_Text = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Items = Annotated[str, BeforeValidator(_targets), Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Matrix(BaseModel):
    """Matrix of a file; all other keys are options of the action."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    boards: tuple[_Text, ...] = Field(min_length=1, strict=False)
    models: tuple[_Text, ...] = Field(min_length=1, strict=False)
    items: tuple[_Items, ...] = Field(default=("",), min_length=1, strict=False)
    action: Action = "run"
    limit: Annotated[float, BeforeValidator(_seconds)] = 1800.0
    expect: Annotated[Outcome | None, Field(strict=False)] = None
    against: int = Field(default=0, ge=0, le=100)


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    matrices: tuple[_Matrix, ...] = Field(min_length=1, strict=False)
    until: Annotated[str | None, BeforeValidator(_time_of_day)] = None
    parallel: int = Field(default=4, ge=1, le=1000)
    retries: int = Field(default=1, ge=0, le=100)
    notify: Notify = Notify()


def _explain(error: ValidationError, source: Source) -> RequestError:
    """Describe one error with file, line and key; unknown keys first, because they are often misspelt missing keys."""
    finding = min(error.errors(), key=lambda finding: finding["type"] != "extra_forbidden")
    keys = [str(part) for part in finding["loc"]]
    place, key = source.place(*keys), ".".join(keys)
    if finding["type"] == "extra_forbidden":
        return RequestError(f"{place}: unknown key {key!r}", _choices(key, _File.model_fields))
    if finding["type"] == "missing":
        return RequestError(f"{place}: {key!r} is missing", EXAMPLE)
    return RequestError(f"{place}: {wrong_value(finding, key)}")


def _choices(name: str, known: Iterable[str]) -> str:
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=2)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{guess}valid choices: {', '.join(choices)}"


def _entries(asked: _File, source: Source, commands: Mapping[Action, Taken], checker: Checker) -> Iterator[Entry]:
    """Check and yield all cells of all matrices in the order of the file."""
    first: dict[str, str] = {}
    for index, matrix in enumerate(asked.matrices):
        place, taken = source.place("matrices", index), commands[matrix.action]
        _check_names(matrix, source, index, checker)
        words = _words(matrix, taken, source, index)
        for entry in _cells(matrix, words, len(first)):
            with _placed(f"{place}: {entry.key}"):
                checker.entry(entry, taken.read(command_line(entry)))
            if entry.key in first:
                raise RequestError(f"{place}: {entry.key!r} is a duplicate of {first[entry.key]}", "keep one of them")
            first[entry.key] = place
            yield entry


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Add the position in the file to an error."""
    try:
        yield
    except HarnessError as error:
        raise RequestError(f"{place}: {error.message}", error.hint) from error


def _check_names(matrix: _Matrix, source: Source, index: int, checker: Checker) -> None:
    for key, names, check in (("boards", matrix.boards, checker.board), ("models", matrix.models, checker.model)):
        for at, name in enumerate(names):
            with _placed(source.place("matrices", index, key, at)):
                check(name)


def _cells(matrix: _Matrix, words: tuple[str, ...], number: int) -> Iterator[Entry]:
    """Yield all entries, numbered from `number` on."""
    accepts = "accept" in (matrix.model_extra or {})
    expect = matrix.expect or (Outcome.WITHIN_BOUND if accepts else POSSIBLE[matrix.action][0])
    cells = itertools.product(matrix.boards, matrix.models, matrix.items)
    for at, (board, model, items) in enumerate(cells, start=number):
        yield Entry(at, board, model, items, matrix.action, expect, matrix.limit, words, matrix.against)


def _words(matrix: _Matrix, taken: Taken, source: Source, index: int) -> tuple[str, ...]:
    """Return the options of the matrix as words of a command line; RequestError for unsupported options."""
    possible = POSSIBLE[matrix.action]
    if matrix.expect is not None and matrix.expect not in possible:
        raise RequestError(
            f"{source.place('matrices', index, 'expect')}: {matrix.action} never ends with {str(matrix.expect)!r}",
            f"valid choices: {', '.join(possible)}",
        )
    if matrix.expect is Outcome.REGRESSED and not matrix.against:
        raise RequestError(
            f"{source.place('matrices', index, 'expect')}: regressed needs a base to compare with",
            "set against: 1 or more",
        )
    if matrix.against and matrix.action != "measure":
        raise RequestError(
            f"{source.place('matrices', index, 'against')}: {matrix.action} has no former run to compare with",
            "omit it, or use action: measure",
        )
    words: list[str] = []
    for key, value in (matrix.model_extra or {}).items():
        place = source.place("matrices", index, key)
        words += (new := list(_word(key, value, taken, place)))
        with _placed(place):
            taken.read(new)
    return tuple(words)


def _word(name: str, value: Any, taken: Taken, place: str) -> Iterator[str]:
    if name not in taken.options:
        raise RequestError(f"{place}: unknown key {name!r}", _choices(name, {*taken.options, *_Matrix.model_fields}))
    if (name in taken.flags) != isinstance(value, bool):
        form = "true or false" if name in taken.flags else "a number or a text"
        raise RequestError(f"{place}: {name} is {form}, found {reprlib.repr(value)}")
    if isinstance(value, bool):
        yield from (f"--{name}",) if value else taken.flags[name]
    else:
        yield f"--{name}={_text(name, value, place)}"


def _text(name: str, value: Any, place: str) -> str:
    values = value if isinstance(value, list) else [value]
    texts = [str(one) for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
    if not texts or len(texts) < len(values) or not all(text.isprintable() for text in texts):
        raise RequestError(f"{place}: {name} is a number, a text or a list of them, found {reprlib.repr(value)}")
    return ",".join(texts)


def command_line(entry: Entry) -> tuple[str, ...]:
    """Return the words after `harness run`, `prove`, `measure` or `case check` that define the entry."""
    items = (f"--items={entry.items}",) if entry.items else ()
    return (f"--board={entry.board}", f"--model={entry.model}", *items, *entry.options)
