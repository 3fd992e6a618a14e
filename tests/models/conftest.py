"""The process solved once: every test of the recipe that needs a real table takes it from here."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from models.acas import mdp, table
from models.acas.mdp import Floats
from models.acas.table import ScoreTable


@dataclass(frozen=True)
class Solution:
    """Mean and range of the scores over all published tau, and the scores at tau = 0."""

    mean: float
    range: float
    level_scores: Floats

    def table(self, previous: int) -> ScoreTable:
        return ScoreTable(self.level_scores[previous])


@pytest.fixture(scope="session")
def solution() -> Solution:
    slices = itertools.islice(table.solve(table.problem(mdp.Grid(), mdp.Speeds())), table.PUBLISHED_TAUS)
    level = next(slices)
    mean, extent = table.mean_and_range(itertools.chain([level], slices))
    return Solution(mean, extent, level)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
