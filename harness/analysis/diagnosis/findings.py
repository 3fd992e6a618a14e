"""Findings about one layer: they can be added over chunks and formatted."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol, Self, TypeVar

from harness.analysis.compare import Difference

NAMED = 3  # causes in a sentence


@dataclass(frozen=True)
class Hypothesis:
    """Score of one mistake as an explanation of the observed values.

    `explained` of the differing values are as it predicts, and `contradicted` values of all are not.  It is believed
    from `least` explained values on; one of a higher `fallback` only where none of a lower one explains everything.
    `example` is the first value that it explains.
    """

    cause: str
    right: str
    explained: int
    contradicted: int
    least: int = 1
    example: Difference | None = None
    fallback: int = 0

    def __add__(self, later: Hypothesis) -> Hypothesis:
        """Return the same hypothesis on the vectors of both; ValueError for two different ones."""
        if self.cause != later.cause:
            raise ValueError(f"{self.cause!r} and {later.cause!r} are two hypotheses")
        explained, contradicted = self.explained + later.explained, self.contradicted + later.contradicted
        example = self.example or later.example
        return replace(self, explained=explained, contradicted=contradicted, example=example)


@dataclass(frozen=True)
class Observation:
    """Counts of the values that were looked at, without a hypothesis.

    Of `values` are `differing`; `ties` lie half way between two codes before they are rounded, `differing_ties` of
    them differ.  `away` and `toward` count the differing values that are farther from zero or nearer to it than
    expected, `up` and `down` those that are larger or smaller; without a zero or an order, these are 0.  `largest_step`
    is the largest difference in codes, or in units in the last place of float32.
    """

    values: int
    differing: int
    ties: int
    differing_ties: int
    away: int
    toward: int
    up: int
    down: int
    largest_step: int

    def __add__(self, later: Observation) -> Observation:
        """Return the sum of both."""
        return Observation(
            self.values + later.values,
            self.differing + later.differing,
            self.ties + later.ties,
            self.differing_ties + later.differing_ties,
            self.away + later.away,
            self.toward + later.toward,
            self.up + later.up,
            self.down + later.down,
            max(self.largest_step, later.largest_step),
        )

    def text(self, noun: str) -> str:
        """Return the common properties of the differing values; `noun` is their name in the plural."""
        direction = self._direction()
        if self.differing_ties == self.differing == self.ties:
            return f"exactly the {self.ties:,} {noun} at a tie differ{direction}"
        if self.differing_ties == self.differing:
            return f"exactly {self.differing:,} of the {self.ties:,} {noun} at a tie differ{direction}"
        step = ", by one step" if self.largest_step == 1 else ""
        return f"{self.differing:,} of {self.values:,} {noun} differ{step}{direction}"

    def _direction(self) -> str:
        names = {"away from zero": self.away, "toward zero": self.toward, "up": self.up, "down": self.down}
        common = next((name for name, count in names.items() if count == self.differing), None)
        return f", all {common}" if common else ""


@dataclass(frozen=True)
class Diagnosis:
    """The hypotheses for the layer of index `layer`, the special before the general.

    `total` values differ, `seen` describes those that were examined; `noun` is their name.
    """

    layer: int
    noun: str
    total: int
    seen: Observation
    hypotheses: tuple[Hypothesis, ...]

    def __add__(self, later: Diagnosis) -> Diagnosis:
        """Return the findings about one layer as one; ValueError for two different ones."""
        if self.layer != later.layer:
            raise ValueError(f"layers {self.layer} and {later.layer}")
        both = tuple(a + b for a, b in zip(self.hypotheses, later.hypotheses, strict=True))
        return Diagnosis(self.layer, self.noun, self.total + later.total, self.seen + later.seen, both)

    @property
    def differing(self) -> int:
        """The differing values that were looked at."""
        return self.seen.differing

    @property
    def complete(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that explain all differing values and that no other value contradicts."""
        found = [
            hypothesis
            for hypothesis in self.hypotheses
            if hypothesis.explained == self.differing >= hypothesis.least and not hypothesis.contradicted
        ]
        first = min((hypothesis.fallback for hypothesis in found), default=0)
        return tuple(hypothesis for hypothesis in found if hypothesis.fallback == first)

    @property
    def ranked(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that explain most differing values, best first, the special before the general.

        At most twice as many values contradict them: a fault may occur in a part of the vectors only.
        """
        complete = self.complete
        useful = [h for h in self.hypotheses if self.differing < 2 * h.explained >= h.contradicted]
        return tuple(sorted(useful, key=lambda h: (h not in complete, h.contradicted, -h.explained)))

    @property
    def text(self) -> str:
        """One sentence with the difference and its likely cause."""
        looked_at = f"of the {self.differing:,} differing values looked at: " if self.differing < self.total else ""
        return f"{looked_at}{self.seen.text(self.noun)}: {self._explanation()}"

    def _explanation(self) -> str:
        if self.complete:
            return named(self.complete)
        if self.ranked:
            best = self.ranked[0]
            return (
                f"no known cause explains all of them; nearest: {best.cause} "
                f"({best.explained:,} of {self.differing:,} explained, {best.contradicted:,} contradicted)"
            )
        return "no known cause explains most of them: look at the kernel's sums and its inputs"


def common(diagnoses: Sequence[Diagnosis]) -> tuple[Hypothesis, ...]:
    """Return the hypotheses of the first layer whose causes explain all layers completely, if there are several."""
    if len(diagnoses) < 2:
        return ()
    causes = set.intersection(*({h.cause for h in diagnosis.complete} for diagnosis in diagnoses))
    return tuple(h for h in diagnoses[0].complete if h.cause in causes)


def named(complete: Sequence[Hypothesis]) -> str:
    """Return all causes, or the most special ones and how many there are; what is right, where they agree on it."""
    shown = complete if len(complete) <= NAMED + 1 else complete[:NAMED]
    causes = "; or ".join(hypothesis.cause for hypothesis in shown)
    more = f"; or {len(complete) - NAMED} more that give the same here" if len(shown) < len(complete) else ""
    rights = {hypothesis.right for hypothesis in complete}
    return f"{causes}{more}" + (f"; specification: {rights.pop()}" if len(rights) == 1 else "")


class OfLayer(Protocol):
    """Something found out about the layer of index `layer`, that adds up over chunks."""

    @property
    def layer(self) -> int: ...  # noqa: D102 - see above

    def __add__(self, later: Self, /) -> Self: ...


Found = TypeVar("Found", bound=OfLayer)


def merge(findings: Iterable[Found]) -> tuple[Found, ...]:
    """Return the findings of all chunks, one a layer, in the order of the layers."""
    by_layer: dict[int, list[Found]] = {}
    for finding in findings:
        by_layer.setdefault(finding.layer, []).append(finding)
    return tuple(reduce(operator.add, by_layer[layer]) for layer in sorted(by_layer))
