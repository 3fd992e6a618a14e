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

Term: TypeAlias = "str | list[Term]"
VARIABLE = re.compile(r"([XY])_([0-9]+)")
TOKEN = re.compile(r"[()]|[^\s()]+")


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
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot read {path}: {error}", "name a VNN-LIB file") from error
    try:
        return _violation(_terms(text), inputs, outputs)
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"{path}: {error}", "see docs/decide-a-property.md for the accepted part of VNN-LIB"
        ) from error


def _violation(terms: Sequence[Term], inputs: int, outputs: int) -> Violation:
    declared: set[str] = set()
    bounds: list[list[Fraction | None]] = [[None, None] for _ in range(inputs)]
    alternatives: list[tuple[Comparison, ...]] = [()]
    limits = {"X": inputs, "Y": outputs}
    for term in terms:
        match term:
            case ["declare-const", str(name), "Real"] if VARIABLE.fullmatch(name):
                declared.add(name)
            case ["assert", condition]:
                found = _comparisons(condition, limits, bounds, inside=False)
                alternatives = [(*a, *b) for a, b in itertools.product(alternatives, found)]
            case _:
                raise ValueError(f"{_shown(term)} is neither declare-const of X_i or Y_j nor assert")
    expected = {f"{letter}_{index}" for letter, count in limits.items() for index in range(count)}
    if declared != expected:
        wrong = min(declared ^ expected)
        raise ValueError(
            f"it declares {len(declared)} variables, the network has {inputs} inputs and {outputs} outputs: {wrong}"
        )
    if alternatives == [()]:
        raise ValueError("it compares no output")
    if any(not alternative for alternative in alternatives):
        raise ValueError("an alternative compares no output")
    return Violation(tuple((low, high) for low, high in bounds), tuple(alternatives))


def _comparisons(
    term: Term, limits: dict[str, int], bounds: list[list[Fraction | None]], *, inside: bool
) -> list[tuple[Comparison, ...]]:
    """Return the alternatives of a condition; bounds of inputs outside `or` are stored in `bounds`."""
    match term:
        case ["or", *parts] if parts:
            return [found for part in parts for found in _comparisons(part, limits, bounds, inside=True)]
        case ["and", *parts] if parts:
            each = [_comparisons(part, limits, bounds, inside=inside) for part in parts]
            return [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*each)]
        case [("<=" | ">=" | "<" | ">") as operator, str(one), str(other)]:
            greater, lesser = (one, other) if operator[0] == ">" else (other, one)
            return [_comparison(greater, lesser, "=" not in operator, limits, bounds, inside=inside)]
        case _:
            raise ValueError(f"{_shown(term)} is no comparison of a variable with a variable or a number")


def _comparison(
    greater: str,
    lesser: str,
    strict: bool,
    limits: dict[str, int],
    bounds: list[list[Fraction | None]],
    *,
    inside: bool,
) -> tuple[Comparison, ...]:
    upper, lower = (_variable(name, limits) for name in (greater, lesser))
    match upper, lower:
        case ("Y", int(left)), ("Y", int(right)):
            return (Comparison(left, right, strict),)
        case ("Y", int(left)), None:
            return (Comparison(left, None, strict, constant=_constant(lesser)),)
        case None, ("Y", int(left)):
            return (Comparison(left, None, strict, at_most=True, constant=_constant(greater)),)
        case (("X", int(index)), None) | (None, ("X", int(index))) if not inside and not strict:
            side, value = (0, _constant(lesser)) if upper else (1, _constant(greater))
            known = bounds[index][side]
            bounds[index][side] = value if known is None else (max, min)[side](known, value)
            return ()
    raise ValueError(
        f"{greater} and {lesser} are compared: inputs are bounded by numbers with <= or >= outside `or`, outputs are "
        "compared with outputs or numbers"
    )


def _variable(name: str, limits: dict[str, int]) -> tuple[str, int] | None:
    found = VARIABLE.fullmatch(name)
    if found and int(found[2]) >= limits[found[1]]:
        raise ValueError(f"{name} is beyond the network's {limits[found[1]]}")
    return (found[1], int(found[2])) if found else None


def _constant(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text} is neither a variable nor a number") from None


def _terms(text: str) -> list[Term]:
    """Return the terms of S-expressions; everything from ; to the end of a line is a comment."""
    return _sequence(iter(TOKEN.findall(re.sub(r";[^\n]*", "", text))), top=True)


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
