"""VNN-LIB: bounds of the inputs X_i, and half-spaces of the outputs Y_j, that together describe a violation.

    (declare-const X_0 Real)  (assert (<= X_0 0.5))  (assert (>= Y_0 Y_1))  (assert (or (and (<= Y_0 1.5)) ...))

Inputs are bounded by constants; outputs are compared with each other or with constants.  These comparisons are exact
for float32 outputs, while general sums of outputs would be rounded: they are refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from harness.core.errors import RequestError
from harness.core.safe_io import read_file

Term: TypeAlias = "str | list[Term]"
VARIABLE = re.compile(r"([XY])_(0|[1-9][0-9]{0,9})")
TOKEN = re.compile(r"[()]|[^\s()]+")
NUMBER = re.compile(r"[+-]?(?:[0-9]+/[0-9]*[1-9][0-9]*|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?)")
LONGEST_NUMBER, BEYOND_FLOAT64, SHOWN = 1000, 2**1024, 40
"""Characters of a number, the least integer that no float64 is near, and characters of a number in a message."""
MOST_ALTERNATIVES = 59
"""Half-spaces of a property; sets of 64 bits have room for a few more."""


@dataclass(frozen=True)
class Comparison:
    """Output `left` >= output `right`, or >= `constant`; with `at_most` output `left` <= `constant`.

    `strict` excludes equality; `right` is None in a comparison with a constant.
    """

    left: int
    right: int | None
    strict: bool
    at_most: bool = False
    constant: Fraction = Fraction(0)


@dataclass(frozen=True)
class Violation:
    """The bounds of each input, None where it has none, and the half-spaces: one of them has the outputs."""

    bounds: tuple[tuple[Fraction | None, Fraction | None], ...]
    half_spaces: tuple[tuple[Comparison, ...], ...]


def read(path: Path, inputs: int, outputs: int) -> Violation:
    """Read a VNN-LIB file for a network of these numbers of inputs and outputs; RequestError names what is wrong."""
    try:
        text = read_file(path).decode()
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot read {path}: {error}", "name a VNN-LIB file") from error
    try:
        return _Reader({"X": inputs, "Y": outputs}, [[None, None] for _ in range(inputs)]).violation(_terms(text))
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"{path}: {error}", "see docs/decide-a-property.md for the accepted part of VNN-LIB"
        ) from error


def number(text: str) -> Fraction:
    """Return a decimal number or a fraction, exactly; ValueError for other text and for numbers beyond float64."""
    value = Fraction(text) if len(text) <= LONGEST_NUMBER and NUMBER.fullmatch(text) else None
    if value is None or abs(value) >= BEYOND_FLOAT64:
        raise ValueError(f"{text[:SHOWN]} is no number of float64's range, such as -1.5, 2e-3 or 1/3")
    return value


@dataclass(frozen=True)
class _Reader:
    """The state of reading: the numbers of inputs X and outputs Y, and the bounds of each input so far."""

    limits: dict[str, int]
    bounds: list[list[Fraction | None]]

    def violation(self, terms: Sequence[Term]) -> Violation:
        declared: set[str] = set()
        clauses: list[list[tuple[Comparison, ...]]] = []
        for term in terms:
            match term:
                case ["declare-const", str(name), "Real"] if VARIABLE.fullmatch(name):
                    declared.add(name)
                case ["assert", condition]:
                    clauses.append(self.comparisons(condition, inside=False))
                case _:
                    raise ValueError(f"{_shown(term)} is neither declare-const of X_i or Y_j nor assert")
        expected = {f"{letter}_{index}" for letter, count in self.limits.items() for index in range(count)}
        if declared != expected:
            inputs, outputs = self.limits.values()
            wrong = min(declared ^ expected)
            raise ValueError(
                f"it declares {len(declared)} variables, the network has {inputs} inputs and {outputs} outputs: {wrong}"
            )
        alternatives = _conjunction(clauses)
        if alternatives == [()]:
            raise ValueError("it compares no output")
        if any(not alternative for alternative in alternatives):
            raise ValueError("an alternative compares no output")
        for index, (low, high) in enumerate(self.bounds):
            if low is not None and high is not None and low > high:
                raise ValueError(
                    f"X_{index} is at least {float(low):.9g} and at most {float(high):.9g}: no input is in this box"
                )
        return Violation(tuple((low, high) for low, high in self.bounds), tuple(alternatives))

    def comparisons(self, term: Term, *, inside: bool) -> list[tuple[Comparison, ...]]:
        """Return the alternatives of a condition; bounds of inputs outside `or` are stored in `bounds`."""
        match term:
            case ["or", *parts] if parts:
                alternatives = [one for part in parts for one in self.comparisons(part, inside=True)]
                _require_few(len(alternatives))
                return alternatives
            case ["and", *parts] if parts:
                return _conjunction([self.comparisons(part, inside=inside) for part in parts])
            case [("<=" | ">=" | "<" | ">") as operator, str(one), str(other)]:
                greater, lesser = (one, other) if operator[0] == ">" else (other, one)
                return [self.comparison(greater, lesser, "=" not in operator, inside=inside)]
            case ["=", str(one), str(other)]:
                pairs = ((one, other), (other, one))
                return _conjunction([[self.comparison(*pair, strict=False, inside=inside)] for pair in pairs])
            case _:
                raise ValueError(f"{_shown(term)} is no comparison of a variable with a variable or a number")

    def comparison(self, greater: str, lesser: str, strict: bool, *, inside: bool) -> tuple[Comparison, ...]:
        upper, lower = (self.variable(name) for name in (greater, lesser))
        match upper, lower:
            case ("Y", int(left)), ("Y", int(right)):
                return (Comparison(left, right, strict),)
            case ("Y", int(left)), None:
                return (Comparison(left, None, strict, constant=_constant(lesser)),)
            case None, ("Y", int(left)):
                return (Comparison(left, None, strict, at_most=True, constant=_constant(greater)),)
            case (("X", int(index)), None) | (None, ("X", int(index))) if not inside and not strict:
                side, value = (0, _constant(lesser)) if upper else (1, _constant(greater))
                known = self.bounds[index][side]
                self.bounds[index][side] = value if known is None else (max, min)[side](known, value)
                return ()
        raise ValueError(
            f"{greater} and {lesser} are compared: inputs are bounded by numbers with <= or >= or = outside `or`, "
            "outputs are compared with outputs or numbers"
        )

    def variable(self, name: str) -> tuple[str, int] | None:
        parts = VARIABLE.fullmatch(name)
        if parts and int(parts[2]) >= self.limits[parts[1]]:
            raise ValueError(f"{name} is beyond the network's {self.limits[parts[1]]}")
        return (parts[1], int(parts[2])) if parts else None


def _conjunction(clauses: Sequence[list[tuple[Comparison, ...]]]) -> list[tuple[Comparison, ...]]:
    """Return the alternatives of which one holds if one of each clause holds: their product."""
    count = 1
    for clause in clauses:
        count *= len(clause)
        _require_few(count)  # before they are multiplied
    return [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*clauses)]


def _require_few(alternatives: int) -> None:
    if alternatives > MOST_ALTERNATIVES:
        raise ValueError(f"its `or` give more than {MOST_ALTERNATIVES} alternatives; state fewer of them in a file")


def _constant(text: str) -> Fraction:
    try:
        return number(text)
    except ValueError as error:
        raise ValueError(f"{text[:SHOWN]} is neither a variable nor a number: {error}") from None


def _terms(text: str) -> list[Term]:
    """Return the terms of S-expressions; everything from ; to the end of a line is a comment."""
    words = (token[0] for token in TOKEN.finditer(re.sub(r";[^\n]*", "", text)))
    return _sequence(words, top=True)


def _sequence(words: Iterator[str], *, top: bool) -> list[Term]:
    found: list[Term] = []
    for word in words:
        if word == "(":
            found.append(_sequence(words, top=False))
        elif word != ")":
            found.append(word)
        elif top:
            raise ValueError("a ) has no (")
        else:
            return found
    if not top:
        raise ValueError("a ( has no )")
    return found


def _shown(term: Term) -> str:
    return term if isinstance(term, str) else f"({' '.join(map(_shown, term))})"[:80]
