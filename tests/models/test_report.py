from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from models.acas import mdp, report
from models.acas.samples import Samples
from models.acas.table import ScoreTable

JUDGED = Samples(
    states=np.zeros((4, 3)),
    scores=np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]),
    advisories=np.array([1, 0, 1, 0]),
)


def test_figures_of_the_table_itself_are_perfect() -> None:
    assert report.figures(JUDGED.scores, JUDGED) == report.Figures(agreement=1.0, r2=1.0, clear_of_conflict=0.5)


def test_figures_of_one_wrong_advisory() -> None:
    scores = np.array([[2.0, 1.0], [2.0, 0.0], [0.0, 3.0], [4.0, 0.0]])
    spread = ((np.array([0, 2, 0, 4]) - 1.5) ** 2).sum()
    expected = report.Figures(agreement=0.75, r2=1 - 2.0**2 / spread / 2, clear_of_conflict=0.75)
    assert report.figures(scores, JUDGED) == pytest.approx(expected)


def test_markdown_has_a_row_a_network_and_three_columns_a_set_of_points() -> None:
    rows = report.markdown({"exact": lambda _states: JUDGED.scores}, {"grid": JUDGED}).splitlines()
    assert rows == [
        "| network | advisory, grid | R2, grid | COC, grid |",
        "| --- | --- | --- | --- |",
        "| exact | 100.00% | 100.00% | 50.0% |",
    ]


def test_map_shows_table_and_network_side_by_side() -> None:
    always_left = ScoreTable(np.stack([np.full(mdp.Grid().shape, score) for score in (0.0, 1.0, 0.0, 0.0, 0.0)]))
    png = report.advisory_map(always_left, lambda states: np.tile([0.0, 0, 0, 0, 1], (len(states), 1)))
    columns, rows = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[start - 4 : start])
    pixels = np.frombuffer(zlib.decompress(png[start + 4 : start + 4 + length]), np.uint8).reshape(rows, columns + 1)
    assert np.unique(pixels[:, 1 : 1 + rows]).tolist() == [1]
    assert np.unique(pixels[:, -rows:]).tolist() == [4]
