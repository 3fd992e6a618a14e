"""The process solved once: every test of the recipe that needs a real table takes it from here."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from models.acas import mdp, table
from models.acas.mdp import Floats
from models.acas.table import Axes, ScoreTable

SMALL = Axes(
    grid=mdp.Grid(
        rho_ft=np.array([0.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0, 30_000.0]),
        theta_rad=np.linspace(-np.pi, np.pi, 13),
        psi_rad=np.linspace(-np.pi, np.pi, 13),
    ),
    own_ft_s=(200.0, 400.0),
    intruder_ft_s=(0.0, 300.0, 600.0),
)
"""Axes on which the recipe's own code solves in seconds."""


@dataclass(frozen=True)
class Solution:
    """Mean and range of the scores over all published tau, and the scores at tau = 0."""

    mean: float
    range: float
    level_scores: Floats


@pytest.fixture(scope="session")
def a_minute() -> None:
    """Of what takes one, and changes only with the recipe or its networks."""
    if not os.environ.get("HARNESS_RECIPE"):
        pytest.skip("takes a minute, and changes with the recipe alone: make test-models")


@pytest.fixture(scope="session")
def solution(a_minute: None) -> Solution:  # noqa: ARG001 - may skip
    slices = itertools.islice(table.solve(table.problem(mdp.Grid(), mdp.Speeds())), table.PUBLISHED_TAUS)
    level = next(slices)
    mean, extent = table.mean_and_range(itertools.chain([level], slices))
    return Solution(mean, extent, level)


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of `SMALL`, solved."""
    folder = tmp_path_factory.mktemp("table")
    assert sorted(table.solve_all(SMALL, folder)) == SMALL.pairs()
    return folder


@pytest.fixture(scope="session")
def small_tables(small_folder: Path) -> list[ScoreTable]:
    """The tables after each previous advisory on `SMALL`."""
    scores = np.load(small_folder / "scores.npy", mmap_mode="r")
    return [ScoreTable(part, SMALL) for part in scores]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
