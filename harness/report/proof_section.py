"""The section of a proof in reports: its claims by step of the argument; equal claims are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.proof_document import ClaimEntry, ProofDocument


@dataclass(frozen=True)
class ClaimRow:
    """One statement with its method, its layers, and the result over all of them."""

    statement: str
    method: str
    answered_by: str
    layers: tuple[str, ...]
    cases: int
    complete: bool
    time_s: float
    counterexamples: tuple[str, ...]


@dataclass(frozen=True)
class _Claims:
    """The claims of the document."""

    claims: tuple[ClaimEntry, ...]

    @property
    def refuted(self) -> tuple[ClaimEntry, ...]:
        """Return the claims that do not hold."""
        return tuple(claim for claim in self.claims if not claim.holds)


@dataclass(frozen=True)
class Group(_Claims):
    """The claims of a step that one side answered, either all by every case or all by samples."""

    answered_by: str
    complete: bool

    @property
    def cases(self) -> int:
        """Return the number of cases of this side."""
        return sum(claim.cases for claim in self.claims)

    @property
    def time_s(self) -> float:
        """Return the time of this side, which answers one claim after the other."""
        return float(sum(claim.time_s for claim in self.claims))


@dataclass(frozen=True)
class StepSection(_Claims):
    """One step of the argument."""

    shows: str

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the claims by side, and by whether all cases were tried."""
        return _groups(self.claims, ("answered_by", "complete"))

    @property
    def lines(self) -> tuple[ClaimRow, ...]:
        """The claims; a line merges equal claims about several layers."""
        return tuple(_lines(self.claims))


def parts(proof: ProofDocument | None) -> tuple[StepSection, ...]:
    """Return the steps of a proof document in their order; none without a proof."""
    claims = proof.claims if proof else ()
    titles = dict.fromkeys(claim.shows for claim in claims)
    return tuple(StepSection(tuple(claim for claim in claims if claim.shows == title), title) for title in titles)


def effort(proof: ProofDocument) -> str:
    """Return the cases and the time of each side, and the total time."""
    sides = _groups(proof.claims, ("answered_by",))
    asked = [f"{side.answered_by}: {side.cases:,} cases in {side.time_s:.1f} s" for side in sides]
    together = "; these ran in parallel" if len(sides) > 1 else ""
    return f"{'; '.join(asked)}{together}; elapsed {proof.wall_s:.1f} s"


def unseparated(proof: ProofDocument) -> tuple[str, ...]:
    """Return for each layer with any the fault models that no vector of the proof tells from the specification."""
    claims = proof.claims
    return tuple(
        f"Layer {claim.layer}: no vector tells the specification from: {'; '.join(claim.unseparated)}"
        for claim in claims
        if claim.unseparated
    )


def _groups(claims: Sequence[ClaimEntry], keys: tuple[str, ...]) -> tuple[Group, ...]:
    """Return the claims that are equal in all `keys` together, in the order of their first."""
    groups: dict[tuple[Any, ...], list[ClaimEntry]] = {}
    for claim in claims:
        groups.setdefault(tuple(getattr(claim, key) for key in keys), []).append(claim)
    return tuple(
        Group(tuple(group), group[0].answered_by, all(claim.complete for claim in group)) for group in groups.values()
    )


def _lines(claims: Sequence[ClaimEntry]) -> Iterator[ClaimRow]:
    for statement, method, answered_by in dict.fromkeys(map(_kind, claims)):
        alike = [claim for claim in claims if _kind(claim) == (statement, method, answered_by)]
        observed = dict.fromkeys(claim.observed for claim in alike if claim.observed)
        yield ClaimRow(
            statement,
            "; ".join([method, *observed]),
            answered_by,
            layers=tuple(claim.layer for claim in alike if claim.layer),
            cases=sum(claim.cases for claim in alike),
            complete=all(claim.complete for claim in alike),
            time_s=sum(claim.time_s for claim in alike),
            counterexamples=tuple(_counterexample(claim) for claim in alike if not claim.holds),
        )


def _kind(claim: ClaimEntry) -> tuple[str, str, str]:
    return claim.statement, claim.method, claim.answered_by


def _counterexample(claim: ClaimEntry) -> str:
    return f"{claim.layer}: {claim.counterexample}" if claim.layer else str(claim.counterexample)
