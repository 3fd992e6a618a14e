"""The pictures of a layer's differences show its numbers."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.report import html
from harness.report.chart import Chart
from harness.report.differences import MAP_WIDTH, draw
from harness.runs.entries import PictureEntry


def picture(cells: list[list[int]], vectors: int, units: int, **changes: Any) -> dict[str, Any]:
    numbers = {"steps": [0, 0, 0, 1, 0, 8, 0, 0, 0], "tie_distances": [8, 0, 0, 0, 0, 0, 1, 0]}
    lines = [" ".join(map(str, line)) for line in cells]
    return {"layer": "dense_1", "vectors": vectors, "units": units, "map": lines} | numbers | changes


def charts(entry: dict[str, Any]) -> tuple[Chart, ...]:
    """Return the charts of an entry of a document."""
    return draw(PictureEntry.from_json(entry))


def rectangles(path: str) -> list[tuple[float, ...]]:
    """(x, y, width, height) of all of them."""
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z", path)
    assert "".join(f"M{x} {y}h{w}v{h}h-{w}z" for x, y, w, h in found) == path
    return [tuple(map(float, numbers)) for numbers in found]


def shades(drawn: tuple[Chart, ...]) -> list[list[tuple[float, ...]]]:
    """Return the rectangles of every shade of the map."""
    paths = {shape.kind: shape.path for shape in drawn[0].shapes}
    return [rectangles(paths.get(f"shade shade-{shade}", "")) for shade in range(4)]


def bars(chart: Chart) -> list[tuple[str, str, float]]:
    """(label, count, length) of every bar of a count above 0."""
    labels = {tick.at: tick.label for tick in chart.y.ticks}
    found = [(y + height / 2, length) for shape in chart.shapes for _, y, length, height in rectangles(shape.path)]
    assert [mark.y - 4 for mark in chart.marks] == [y for y, _ in found]
    assert all(
        mark.x == pytest.approx(length + 5, abs=0.01) for mark, (_, length) in zip(chart.marks, found, strict=True)
    )
    return [(labels[y], mark.text, length) for (y, length), mark in zip(found, chart.marks, strict=True)]


def test_shares_of_a_cell_have_shades_and_neighbours_are_joined() -> None:
    """Cells of 1,000 vectors: none, 1, 10, 100, 101, 1,000 and 1 differ."""
    drawn = charts(picture([[0, 1, 10, 100, 101, 1000, 1]], 7000, 1))
    step = MAP_WIDTH / 7
    columns = [[(x / step, width / step) for x, _, width, _ in shade] for shade in shades(drawn)]
    rounded = [[(round(x, 3), round(width, 3)) for x, width in shade] for shade in columns]
    assert rounded == [[(1, 1), (6, 1)], [(2, 1)], [(3, 1)], [(4, 2)]]


def test_cells_of_uneven_size_are_measured_by_what_is_in_them() -> None:
    """Seven vectors in three columns: three, two and two; three units in two rows: two and one."""
    drawn = charts(picture([[6, 0, 4], [0, 2, 0]], 7, 3))
    step, height = MAP_WIDTH / 3, drawn[0].plot_height / 2
    assert shades(drawn) == [
        [],
        [],
        [],
        [(0, 0, step, height), (2 * step, 0, step, height), (step, height, step, height)],
    ]
    with pytest.raises(ValueError, match="7 of 6 activations"):
        charts(picture([[7, 0, 0], [0, 0, 0]], 7, 3))
    with pytest.raises(ValueError, match="5 of 4 activations"):
        charts(picture([[0, 0, 5], [0, 0, 0]], 7, 3))


def test_many_units_keep_the_map_small() -> None:
    tall, flat = charts(picture([[1]] * 64, 1, 64))[0], charts(picture([[1]], 1, 1))[0]
    assert (tall.plot_height, flat.plot_height) == (240, 16)
    assert tall.height < 310


def test_bars_have_the_counts_and_lengths_that_grow_with_them() -> None:
    _, steps, ties = charts(picture([[9]], 100, 1))
    assert [(label, count) for label, count, _ in bars(steps)] == [("-1", "1"), ("+1", "8")]
    assert [(label, count) for label, count, _ in bars(ties)] == [("a tie", "8"), ("to 1e-1", "1")]
    one, eight = (length for *_, length in bars(steps))
    assert 0 < one < eight
    assert len(steps.y.ticks) == len(ties.y.ticks) == 8


def test_charts_without_anything_to_tell_are_left_out() -> None:
    assert len(charts(picture([[9]], 100, 1, tie_distances=[]))) == 2
    assert len(charts(picture([[9]], 100, 1, tie_distances=[0] * 8))) == 2
    labels = [tick.label for tick in charts(picture([[9]], 100, 1))[1].y.ticks]
    assert "other bits" not in labels
    with_bits = charts(picture([[9]], 100, 1, steps=[0, 0, 0, 0, 9, 0, 0, 0, 0]))
    assert "other bits" in [tick.label for tick in with_bits[1].y.ticks]


def test_the_page_holds_them_as_well_formed_drawings(differing: dict[str, Any]) -> None:
    figures = re.findall(r'<figure class="difference" .*?</figure>', html(differing), re.DOTALL)
    drawings = [ET.fromstring(text) for text in figures]  # noqa: S314 - our own page
    texts = [[text.text for text in drawing.iter("text")] for drawing in drawings]
    labels = [chart.attrib["aria-label"] for drawing in drawings for chart in drawing.findall("div/svg")]
    assert [label.split(". ")[1].split()[0].strip(":") for label in labels] == ["dense_1"] * 3 + ["dense_2"] * 2
    assert {"unit 0", "unit 3", "vector 0", "vector 99,999", "Differences in steps", "+1", "12"} <= set(texts[0])
    assert "Its own: distance from a tie" in texts[0]
    assert "Its own: distance from a tie" not in texts[1]
    maps = [drawing.findall(".//svg[@class='plot']")[0].findall("path") for drawing in drawings]
    shades = [[shape for shape in shapes if shape.attrib["class"] != "hover"] for shapes in maps]
    assert [len(shapes) for shapes in shades] == [1, 1]


def test_tooltips_of_the_map_and_of_the_bars_have_the_counts() -> None:
    cells = [[row * 40 + column for column in range(24)] for row in range(20)]
    chart, steps, _ = charts(picture(cells, 24_000, 2000))
    areas = [shape for shape in chart.shapes if shape.kind == "hover"]
    assert len(areas) == 12 * 12
    assert areas[0].about == "vectors 0 to 1,999, units 0 to 99: 1 of 200,000 differ"
    counts = [int(area.about.split(": ")[1].split(" of ")[0].replace(",", "")) for area in areas]
    sizes = [int(area.about.split(" of ")[1].split()[0].replace(",", "")) for area in areas]
    assert sum(counts) == sum(map(sum, cells))
    assert sum(sizes) == 24_000 * 2000
    assert areas[-1].about.startswith("vectors 22,000 to 23,999, units 1,800 to 1,999: ")
    assert [shape.about for shape in steps.shapes] == ["-1: 1", "+1: 8"]


@pytest.mark.parametrize("cells", [[[1, 2], [1]], [[1], [1, 2]]])
def test_a_map_that_is_not_rectangular_is_refused(cells: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="zip"):
        charts(picture(cells, 6, 2))


def test_a_map_with_more_differences_than_activations_is_refused() -> None:
    with pytest.raises(ValueError, match="4 of 3 activations"):
        charts(picture([[4]], 3, 1))
