"""Charts of confusion matrices: the darker a cell, the larger the share of its label's vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.report.chart import Chart, Key, Labels, Shape, Tick, rectangle
from harness.runs.entries import AccuracyEntry

SIDE = 240
"""Width and height of the plot of a matrix, in pixels."""
MOST_LABELS = 12
"""Numbers of classes beside an axis."""
SHARES = {0.1: "to 10 %", 0.5: "to 50 %", 0.9: "to 90 %", 1.0: "more"}
"""Upper limits of the share of a cell in its row."""


def draw(judged: AccuracyEntry) -> tuple[Chart, ...]:
    """Draw the confusion matrix of each column; the board's is left out where it equals the reference's.

    ValueError if a matrix is not square.
    """
    charts: list[Chart] = []
    drawn: dict[str, Sequence[Sequence[int]]] = {}
    for column in judged.columns:
        matrix = column.confusion
        if matrix is None:
            continue
        if any(len(row) != len(matrix) for row in matrix):
            raise ValueError(f"the confusion matrix of the {column.name} is not square")
        drawn[column.name] = matrix
    names = [*drawn]
    if names[-2:] == ["reference", "board"] and drawn["reference"] == drawn["board"]:
        drawn = {**{name: drawn[name] for name in names[:-2]}, "reference and board": drawn["board"]}
    charts += [_matrix(name, matrix) for name, matrix in drawn.items()]
    return tuple(charts)


def _matrix(name: str, matrix: Sequence[Sequence[int]]) -> Chart:
    classes = len(matrix)
    cell = SIDE / classes
    step = -(-classes // MOST_LABELS)
    ticks = tuple(Tick(round((number + 0.5) * cell, 2), str(number)) for number in range(0, classes, step))
    right = sum(matrix[number][number] for number in range(classes))
    total = sum(map(sum, matrix))
    return Chart(
        name.capitalize(),
        f"{right:,} of {total:,} decisions are the label",
        Labels(ticks, title="decision"),
        Labels(ticks, title="label"),
        tuple(_cells(matrix, cell)),
        tuple(Key(f"class shade-{shade}", text) for shade, text in enumerate(SHARES.values())),
        plot_width=SIDE, plot_height=SIDE, left=52, right=70, top=42, bottom=42,
    )  # fmt: skip


def _cells(matrix: Sequence[Sequence[int]], cell: float) -> Iterator[Shape]:
    """Yield a rectangle for each cell that is not empty, with its count as a tooltip."""
    for label, row in enumerate(matrix):
        total = sum(row)
        for decision, count in enumerate(row):
            if count:
                shade = next(number for number, share in enumerate(SHARES) if count <= share * total)
                path = rectangle(round(decision * cell, 2), round(label * cell, 2), round(cell, 2), round(cell, 2))
                kind = "class" if label == decision else "shade"
                about = f"label {label}, decision {decision}: {count:,} of {total:,}"
                yield Shape(f"{kind} shade-{shade}", path, about)
