"""The causes of a layer's differences: searched on the first differing values, then checked on all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.diagnosis import Case, Diagnosis, Hypothesis, diagnose
from harness.analysis.diagnosis.hypothesis_scoring import VECTORS_LOOKED_AT
from harness.applications.judge.arithmetic import Chain, engine_models
from harness.core.arrays import Array

SEARCHED = 1 << 18
"""Values of a layer, of which half are differing vectors, on which all known causes are tried."""
KEPT = 64
"""Causes at most that are checked on the values behind: a single value can have many."""
MOST_LAYERS = 12
"""Layers without dumps before one with a dump, up to which causes in each of them are tried."""


@dataclass(eq=False)
class Explanation:
    """The causes of the differences of one layer so far; `diagnosis` is None before the first difference.

    `unchecked` differing values were not looked at, because no cause was left.
    """

    diagnosis: Diagnosis | None = None
    unchecked: int = 0

    def add(self, case: Case, chain: Chain | None) -> None:
        """Look at the differences of some vectors; a chain has the layers without dumps before this one."""
        if self.diagnosis is None:
            rows = _first_rows(case)
            rest = np.setdiff1d(np.arange(len(case.expected)), rows)
            self.diagnosis = _kept(_searched(_part(case, rows), chain and chain.rows(rows)))
            case, chain = _part(case, rest), chain and chain.rows(rest)
        if not case.own:
            return
        if not self.diagnosis.hypotheses:
            self.unchecked += case.own
            return
        for start in range(0, len(case.expected), VECTORS_LOOKED_AT):
            rows = np.arange(start, min(start + VECTORS_LOOKED_AT, len(case.expected)))
            part = _part(case, rows)
            if part.own:
                causes = [hypothesis.cause for hypothesis in self.diagnosis.hypotheses]
                self.diagnosis = _kept(self.diagnosis + _checked(part, chain and chain.rows(rows), causes))

    @property
    def complete(self) -> tuple[Hypothesis, ...]:
        """The causes that explain every differing value of the layer, and that no other value contradicts."""
        return () if self.diagnosis is None or self.unchecked else self.diagnosis.complete

    @property
    def nearest(self) -> Hypothesis | None:
        """The cause that explains most differing values, if it is not complete."""
        if self.diagnosis is None or self.complete:
            return None
        useful = [hypothesis for hypothesis in self.diagnosis.hypotheses if hypothesis.explained]
        return max(useful, key=lambda one: (one.explained - one.contradicted, one.explained), default=None)

    @property
    def checked(self) -> int:
        """The differing values that were looked at."""
        return self.diagnosis.differing if self.diagnosis else 0


def _first_rows(case: Case) -> Array:
    """Return the vectors of the search: the first that differ, and as many others."""
    bad = case.differing.any(axis=1)
    most = min(max(SEARCHED // (2 * case.differing.shape[1]), 1), VECTORS_LOOKED_AT)
    rows: Array = np.sort(np.concatenate([np.flatnonzero(bad)[:most], np.flatnonzero(~bad)[:most]]))
    return rows


def _part(case: Case, rows: Array) -> Case:
    inputs = tuple(values[rows] for values in case.inputs)
    return replace(case, inputs=inputs, expected=case.expected[rows], actual=case.actual[rows])


def _searched(case: Case, chain: Chain | None) -> Diagnosis:
    with np.errstate(all="ignore"):
        more = chain.models() if chain else engine_models(case.layer, case.inputs)
        return diagnose(case, more)


def _kept(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis with the hypotheses that are worth a check: complete ones, or the best of the others."""
    ranked = sorted(diagnosis.hypotheses, key=lambda one: (one.contradicted, -one.explained))
    kept = diagnosis.complete or tuple(one for one in ranked if one.explained)[:1]
    return replace(diagnosis, hypotheses=_without_repeated(kept)[:KEPT])


def _without_repeated(hypotheses: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
    return tuple({hypothesis.cause: hypothesis for hypothesis in hypotheses}.values())


def _checked(case: Case, chain: Chain | None, causes: Sequence[str]) -> Diagnosis:
    """Return what the causes explain of other vectors; one that is not possible there explains nothing."""
    with np.errstate(all="ignore"):
        more = chain.only(causes) if chain else engine_models(case.layer, case.inputs)
        diagnosis = diagnose(case, more, only=set(causes))
    by_cause = {hypothesis.cause: hypothesis for hypothesis in diagnosis.hypotheses}
    missing = Hypothesis("", "", 0, diagnosis.differing)
    hypotheses = tuple(by_cause.get(cause) or replace(missing, cause=cause) for cause in causes)
    return replace(diagnosis, hypotheses=hypotheses)
