"""The differences of a layer as a picture: where the shapes of its map and its two bar charts lie, in SVG units.

The map shows the vectors of the run from left to right and the layer's units from top to bottom; the darker a cell,
the larger the share of its activations that differ.  The bars count the differences by their size, and what the layer
itself got wrong by its distance from a tie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

MAP_X, MAP_WIDTH = 72, 480
MAP_HEIGHT = 240  # at most
ROW_HEIGHT = 16  # at most
TOP = 24  # of everything below the titles
BAR_HEIGHT, BAR_LENGTH, BAR_SPACE = 16, 76, 74
LABEL_WIDTH = 92
CHART_WIDTH = LABEL_WIDTH + BAR_LENGTH + BAR_SPACE
CHARTS_X = MAP_X + MAP_WIDTH + 36
WIDTH = CHARTS_X + 2 * CHART_WIDTH

# Shares of differing activations in a cell, and in words; a single one can be seen.
SHARES = (0.001, 0.01, 0.1, 1)
SHARE_TEXTS = ("to 0.1 %", "to 1 %", "to 10 %", "more")
OPACITIES = (0.3, 0.5, 0.75, 1)
STEP_TEXTS = ("-4 and less", "-3", "-2", "-1", "other bits", "+1", "+2", "+3", "+4 and more")
TIE_TEXTS = ("a tie", *(f"to 1e{exponent}" for exponent in range(-6, 0)), "to 0.5")


@dataclass(frozen=True)
class Bar:
    """One line of a chart: its label, how many, and the length that stands for it."""

    y: float
    label: str
    count: int
    length: float


@dataclass(frozen=True)
class Chart:
    """Bars below each other under a title; `x` is where they begin, right of their labels."""

    x: float
    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Picture:
    """All shapes of one layer; `shades` are SVG paths, one for every entry of SHARES."""

    layer: str
    height: float
    map_height: float
    shades: tuple[str, ...]
    vectors: int
    units: int
    charts: tuple[Chart, ...]
    width: float = WIDTH
    map_x: float = MAP_X
    map_width: float = MAP_WIDTH
    top: float = TOP
    bar_height: float = BAR_HEIGHT
    share_texts: tuple[str, ...] = SHARE_TEXTS
    opacities: tuple[float, ...] = OPACITIES


def draw(picture: Mapping[str, Any]) -> Picture:
    """Lay out one entry of a run document's `pictures`; ValueError if its map contradicts itself."""
    cells = [[int(count) for count in line.split()] for line in picture["map"]]
    vectors, units = picture["vectors"], picture["units"]
    height = min(MAP_HEIGHT, ROW_HEIGHT * len(cells))
    charts = tuple(_charts(picture["steps"], picture["tie_distances"]))
    bottom = max(height + 34, *(len(chart.bars) * BAR_HEIGHT for chart in charts))
    shades = tuple(_shades(cells, vectors, units, height / len(cells)))
    return Picture(picture["layer"], TOP + bottom, height, shades, vectors, units, charts)


def _shades(cells: Sequence[Sequence[int]], vectors: int, units: int, row_height: float) -> Iterator[str]:
    """One path of rectangles for every shade; neighbours of one shade in a row are one rectangle."""
    columns = len(cells[0])
    levels = [
        [_level(count, size * members) for count, size in zip(line, _sizes(vectors, columns), strict=True)]
        for line, members in zip(cells, _sizes(units, len(cells)), strict=True)
    ]
    step = MAP_WIDTH / columns
    for shade in range(len(SHARES)):
        yield "".join(
            f"M{MAP_X + start * step:g} {TOP + row * row_height:g}h{length * step:g}v{row_height:g}h{-length * step:g}z"
            for row, line in enumerate(levels)
            for start, length, level in _runs(line)
            if level == shade
        )


def _sizes(total: int, parts: int) -> list[int]:
    """How many of `total` things fall into each part: thing i into part i * parts // total."""
    edges = [-(-part * total // parts) for part in range(parts + 1)]
    return [after - before for before, after in pairwise(edges)]


def _level(count: int, size: int) -> int | None:
    """The shade of a cell; None where nothing differs."""
    if count > size:
        raise ValueError(f"a cell of the map has {count} of {size} activations differing")
    return next(level for level, share in enumerate(SHARES) if count <= share * size) if count else None


def _runs(line: Sequence[int | None]) -> Iterator[tuple[int, int, int | None]]:
    """(start, length, level) of every stretch of one level."""
    start = 0
    for level, members in groupby(line):
        length = len(list(members))
        yield start, length, level
        start += length


def _charts(steps: Sequence[int], distances: Sequence[int]) -> Iterator[Chart]:
    shown = [(text, count) for text, count in zip(STEP_TEXTS, steps, strict=True) if count or text != "other bits"]
    yield _chart(CHARTS_X, "Differences in steps", shown)
    if any(distances):
        counts = list(zip(TIE_TEXTS, distances, strict=True))
        yield _chart(CHARTS_X + CHART_WIDTH, "Its own: distance from a tie", counts)


def _chart(x: float, title: str, counts: Sequence[tuple[str, int]]) -> Chart:
    """Lengths are logarithmic, because one difference among a million must be seen."""
    most = max(count for _, count in counts)
    unit = BAR_LENGTH / math.log2(2 * most) if most else 0
    bars = (
        Bar(TOP + line * BAR_HEIGHT, label, count, unit * math.log2(2 * count) if count else 0)
        for line, (label, count) in enumerate(counts)
    )
    return Chart(x + LABEL_WIDTH, title, tuple(bars))
