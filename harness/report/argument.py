"""A proof as the reports show it: its claims by the steps of the argument, and those that say the same together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """One step of the argument: its claims, as the document has them."""

    shows: str
    claims: tuple[Mapping[str, Any], ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        """The claims, with those that say the same of several layers on one line."""
        return tuple(_lines(self.claims))

    @property
    def refuted(self) -> tuple[Mapping[str, Any], ...]:
        """The claims that do not hold."""
        return tuple(claim for claim in self.claims if not claim["holds"])


def parts(proof: Mapping[str, Any] | None) -> tuple[Part, ...]:
    """The steps of a proof document in their order; none without a proof."""
    claims = proof["claims"] if proof else []
    titles = dict.fromkeys(claim["shows"] for claim in claims)
    return tuple(Part(title, tuple(claim for claim in claims if claim["shows"] == title)) for title in titles)


def _lines(claims: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
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
