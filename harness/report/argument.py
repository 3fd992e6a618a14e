"""A proof as the page shows it: claims that say the same of several layers on one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """One statement with its method, the layers that it is about, and what came of it over all of them."""

    statement: str
    method: str
    answered_by: str
    layers: tuple[str, ...]
    cases: int
    complete: bool
    time_s: float
    counterexamples: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """One step of the argument."""

    shows: str
    lines: tuple[Line, ...]


def parts(proof: Mapping[str, Any] | None) -> tuple[Part, ...]:
    """The steps of a proof document in their order; none without a proof."""
    claims = proof["claims"] if proof else []
    titles = dict.fromkeys(claim["shows"] for claim in claims)
    return tuple(Part(title, tuple(_lines([c for c in claims if c["shows"] == title]))) for title in titles)


def _lines(claims: list[Mapping[str, Any]]) -> Iterator[Line]:
    for statement, method, answered_by in dict.fromkeys(map(_kind, claims)):
        alike = [claim for claim in claims if _kind(claim) == (statement, method, answered_by)]
        yield Line(
            statement,
            method,
            answered_by,
            layers=tuple(claim["layer"] for claim in alike if claim["layer"]),
            cases=sum(claim["cases"] for claim in alike),
            complete=all(claim["complete"] for claim in alike),
            time_s=sum(claim["time_s"] for claim in alike),
            counterexamples=tuple(_counterexample(claim) for claim in alike if not claim["holds"]),
        )


def _kind(claim: Mapping[str, Any]) -> tuple[str, str, str]:
    return claim["statement"], claim["method"], claim["answered_by"]


def _counterexample(claim: Mapping[str, Any]) -> str:
    return f"{claim['layer']}: {claim['counterexample']}" if claim["layer"] else str(claim["counterexample"])
