"""Pictures of confusion matrices, and the numbers of accuracy as texts."""

from __future__ import annotations

import pytest

from harness.report import confusion
from harness.runs.entries import AccuracyEntry, ColumnEntry
from harness.runs.facts import accuracy_notes, accuracy_rows

FLOATS = [[9, 1], [0, 10]]
CODES = [[5, 5], [0, 10]]


def judged(*matrices: list[list[int]] | None, metric: str = "accuracy") -> AccuracyEntry:
    names = ["float model", "reference", "board"][-len(matrices) :]
    return AccuracyEntry(
        metric=metric, layer="scores", size=2, labels_sha256="", float_sha256=None, float_absent="",
        columns=[ColumnEntry(name=name, numbers={"top-1": 0.75, "right": 1500, "R2": None}, confusion=matrix)
                 for name, matrix in zip(names, matrices, strict=True)],
    )  # fmt: skip


def test_the_matrix_of_the_board_is_drawn_once_if_it_is_that_of_the_reference() -> None:
    titles = [chart.title for chart in confusion.draw(judged(FLOATS, CODES, CODES))]
    assert titles == ["Float model", "Reference and board"]
    other = [chart.title for chart in confusion.draw(judged(FLOATS, CODES, FLOATS))]
    assert other == ["Float model", "Reference", "Board"]
    assert confusion.draw(judged(None, None)) == ()


def test_cells_have_the_shade_of_their_share_and_their_count() -> None:
    [chart] = confusion.draw(judged(FLOATS, FLOATS))
    assert {shape.about: shape.kind for shape in chart.shapes} == {
        "label 0, decision 0: 9 of 10": "class shade-2",
        "label 0, decision 1: 1 of 10": "shade shade-0",
        "label 1, decision 1: 10 of 10": "class shade-3",
    }
    paths = [shape.path for shape in chart.shapes]
    assert paths == ["M0 0h120v120h-120z", "M120 0h120v120h-120z", "M120 120h120v120h-120z"], "a row for each label"
    assert chart.about == "19 of 20 decisions are the label"


def test_axes_of_many_classes_have_few_labels() -> None:
    matrix = [[int(row == column) for column in range(100)] for row in range(100)]
    [chart] = confusion.draw(judged(matrix, matrix))
    assert len(chart.x.ticks) == 12
    assert chart.x.ticks[1].label == "9"


def test_a_matrix_that_is_not_square_is_refused() -> None:
    with pytest.raises(ValueError, match="of the board is not square"):
        confusion.draw(judged(FLOATS, [[1, 2]]))


def test_shares_are_percent_and_what_is_not_defined_is_said() -> None:
    entry = judged(None, None)
    assert accuracy_rows(entry) == [
        ("top-1", ["75.00%", "75.00%"]), ("right", ["1,500", "1,500"]), ("R2", ["undefined", "undefined"]),
    ]  # fmt: skip
    assert "no confusion matrix of 2 classes" in accuracy_notes(entry)
    assert accuracy_notes(judged(None, metric="regression")) == []
