from __future__ import annotations

import numpy as np
import pytest

from models.acas import report
from models.acas.report import Figures
from models.acas.samples import Samples

JUDGED = Samples(
    states=np.zeros((4, 5)),
    scores=np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]),
    advisories=np.array([1, 0, 1, 0]),
)


def test_figures_of_the_table_itself_are_perfect() -> None:
    assert report.figures(lambda _: JUDGED.scores, JUDGED) == Figures(1.0, 1.0, 1.0, 1.0)


def test_figures_of_one_wrong_advisory() -> None:
    scores = np.array([[2.0, 1.0], [2.0, 0.0], [0.0, 3.0], [4.0, 0.0]])
    spread = ((np.array([0, 2, 0, 4]) - 1.5) ** 2).sum()
    found = report.figures(lambda _: scores, JUDGED)
    assert (found.agreement, found.on_clear, found.on_alert) == (0.75, 1.0, 0.5)
    assert found.r2 == pytest.approx(1 - 2.0**2 / spread / 2)


def test_rows_pair_our_figures_with_the_published_ones() -> None:
    before, after = Figures(0.99, 1, 1, 0.995), Figures(0.98, 1, 1, 0.99)
    row = report.comparison("WR", before, after)
    assert row == ["WR", "99.50", "99.51", "99.00", "97.57", "99.00", "96.88", "98.00", "95.04"]
    assert report.breakdown("float", [before, after])[:5] == ["float", "99.00", "100.00", "100.00", "99.50"]


def test_markdown_is_a_table() -> None:
    assert report.markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
