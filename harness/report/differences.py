"""Charts of the differences of a layer: a map, and bars that count them.

The map shows the vectors of the run from left to right and the layer's units from top to bottom; the darker a cell,
the larger the share of its activations that differ.  The bars count the differences by their size, and the layer's own
differences by their distance from a tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from harness.report.chart import TITLE, Axis, Chart, Key, Labels, Mark, Rows, Shape, Tick, rectangle
from harness.runs.entries import PictureEntry

MAP_WIDTH = 480
MAP_HEIGHT = 240  # at most
ROW_HEIGHT = 16  # at most
MOST_GROUPS = 12  # of cells with a tooltip, in each direction
BAR_HEIGHT, BAR_LENGTH, BAR_WIDTH = 16, 76, 138  # a bar's length is at most BAR_LENGTH; its count is right of it

# Upper limits of the share of differing activations in a cell; a single difference is visible.
SHARES = {0.001: "to 0.1 %", 0.01: "to 1 %", 0.1: "to 10 %", 1: "more"}
STEP_TEXTS = ("-4 and less", "-3", "-2", "-1", "other bits", "+1", "+2", "+3", "+4 and more")
TIE_TEXTS = ("a tie", *(f"to 1e{exponent}" for exponent in range(-6, 0)), "to 0.5")


def draw(picture: PictureEntry) -> tuple[Chart, ...]:
    """Draw one entry of a run document's `pictures`; ValueError if its map contradicts itself."""
    steps = zip(STEP_TEXTS, picture.steps, strict=True)
    shown = [(text, count) for text, count in steps if count or text != "other bits"]
    charts = [_map(picture), _bars(picture.layer, "Differences in steps", shown)]
    if any(picture.tie_distances):
        ties = list(zip(TIE_TEXTS, picture.tie_distances, strict=True))
        charts.append(_bars(picture.layer, "Its own: distance from a tie", ties))
    return tuple(charts)


def _map(picture: PictureEntry) -> Chart:
    cells = [[int(count) for count in line.split()] for line in picture.map]
    vectors, units = picture.vectors, picture.units
    height = min(MAP_HEIGHT, ROW_HEIGHT * len(cells))
    ends = [0, units - 1] if units > 1 and height > ROW_HEIGHT else [0]
    return Chart(
        "Share of vectors and units that differ",
        f"{picture.layer} differs in {sum(map(sum, cells)):,} of {vectors * units:,} activations",
        Labels((Tick(0, "vector 0"), Tick(MAP_WIDTH, f"vector {vectors - 1:,}"))),
        Labels(tuple(Tick(height - 8 if unit else 8, f"unit {unit:,}") for unit in ends)),
        (*_shades(cells, vectors, units, height / len(cells)), *_areas(cells, vectors, units, height)),
        tuple(Key(f"shade shade-{shade}", text) for shade, text in enumerate(SHARES.values())),
        plot_width=MAP_WIDTH, plot_height=height, left=72, right=50, top=42, bottom=22,
    )  # fmt: skip


def _shades(cells: Sequence[Sequence[int]], vectors: int, units: int, height: float) -> Iterator[Shape]:
    """Yield one path of rectangles for every shade; neighbours of one shade in a row are one rectangle."""
    width = MAP_WIDTH / len(cells[0])
    levels = [
        [_level(count, size * members) for count, size in zip(line, _sizes(vectors, len(cells[0])), strict=True)]
        for line, members in zip(cells, _sizes(units, len(cells)), strict=True)
    ]
    for shade in range(len(SHARES)):
        path = "".join(
            rectangle(start * width, row * height, length * width, height)
            for row, line in enumerate(levels)
            for start, length, level in _runs(line)
            if level == shade
        )
        if path:
            yield Shape(f"shade shade-{shade}", path)


def _areas(cells: Sequence[Sequence[int]], vectors: int, units: int, height: float) -> Iterator[Shape]:
    """Yield invisible rectangles over groups of cells, whose tooltips have the counts."""
    row_edges, column_edges = _group_edges(len(cells)), _group_edges(len(cells[0]))
    for top, bottom in pairwise(row_edges):
        for left, right in pairwise(column_edges):
            count = sum(sum(line[left:right]) for line in cells[top:bottom])
            first, last = _members(vectors, left, right, len(cells[0]))
            unit, last_unit = _members(units, top, bottom, len(cells))
            size = (last + 1 - first) * (last_unit + 1 - unit)
            where = f"vectors {first:,} to {last:,}, units {unit:,} to {last_unit:,}"
            x, y = left * MAP_WIDTH / len(cells[0]), top * height / len(cells)
            area = rectangle(x, y, right * MAP_WIDTH / len(cells[0]) - x, bottom * height / len(cells) - y)
            yield Shape("hover", area, f"{where}: {count:,} of {size:,} differ")


def _group_edges(parts: int) -> list[int]:
    """Return the edges of at most MOST_GROUPS groups of about equal size."""
    groups = min(parts, MOST_GROUPS)
    return [group * parts // groups for group in range(groups + 1)]


def _members(total: int, start: int, stop: int, parts: int) -> tuple[int, int]:
    """Return the first and the last member of the parts `start` to `stop`; see `_sizes`."""
    return -(-start * total // parts), -(-stop * total // parts) - 1


def _sizes(total: int, parts: int) -> list[int]:
    """Return how many of `total` members each part has: member i is in part i * parts // total."""
    edges = [-(-part * total // parts) for part in range(parts + 1)]
    return [after - before for before, after in pairwise(edges)]


def _level(count: int, size: int) -> int | None:
    """Return the shade of a cell; None if nothing differs."""
    if count > size:
        raise ValueError(f"a cell of the map has {count} of {size} activations differing")
    return next(level for level, share in enumerate(SHARES) if count <= share * size) if count else None


def _runs(line: Sequence[int | None]) -> Iterator[tuple[int, int, int | None]]:
    """Yield (start, length, level) of every sequence of equal levels."""
    start = 0
    for level, members in groupby(line):
        length = len(list(members))
        yield start, length, level
        start += length


def _bars(layer: str, title: str, counts: Sequence[tuple[str, int]]) -> Chart:
    """Return bars on a logarithmic axis: a single difference among a million is visible."""
    rows = Rows(tuple(label for label, _ in counts), BAR_HEIGHT, has_grid=False)
    axis = Axis("", 0.5, max(1, *(count for _, count in counts)), 0, BAR_LENGTH, logarithmic=True)
    bars = [(rows.middle(row), axis.at(count), count, label) for row, (label, count) in enumerate(counts) if count]
    return Chart(
        title,
        f"{layer}: {', '.join(f'{label}: {count:,}' for label, count in counts if count)}",
        Labels(),
        rows,
        tuple(
            Shape("count", rectangle(0, y - BAR_HEIGHT / 2 + 2, length, BAR_HEIGHT - 4), f"{label}: {count:,}")
            for y, length, count, label in bars
        ),
        marks=tuple(Mark(length + 5, f"{count:,}", y + 4, "start") for y, length, count, _ in bars),
        plot_width=BAR_WIDTH, plot_height=rows.height, left=92, top=TITLE, right=0, bottom=4,
    )  # fmt: skip
