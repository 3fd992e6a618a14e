"""The pictures of a layer's differences show its numbers."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.report import html
from harness.report.pictures import MAP_WIDTH, MAP_X, TOP, draw


def picture(cells: list[list[int]], vectors: int, units: int, **changes: Any) -> dict[str, Any]:
    numbers = {"steps": [0, 0, 0, 1, 0, 8, 0, 0, 0], "tie_distances": [8, 0, 0, 0, 0, 0, 1, 0]}
    lines = [" ".join(map(str, line)) for line in cells]
    return {"layer": "dense_1", "vectors": vectors, "units": units, "map": lines} | numbers | changes


def rectangles(path: str) -> list[tuple[float, ...]]:
    """(x, y, width, height) of all of them."""
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z", path)
    assert "".join(f"M{x} {y}h{w}v{h}h-{w}z" for x, y, w, h in found) == path
    return [tuple(map(float, numbers)) for numbers in found]


def test_shares_of_a_cell_have_shades_and_neighbours_are_joined() -> None:
    """Cells of 1,000 vectors: none, 1, 10, 100, 101, 1,000 and 1 differ."""
    drawn = draw(picture([[0, 1, 10, 100, 101, 1000, 1]], 7000, 1))
    step = MAP_WIDTH / 7
    columns = [[((x - MAP_X) / step, width / step) for x, _, width, _ in rectangles(path)] for path in drawn.shades]
    rounded = [[(round(x, 3), round(width, 3)) for x, width in shade] for shade in columns]
    assert rounded == [[(1, 1), (6, 1)], [(2, 1)], [(3, 1)], [(4, 2)]]


def test_cells_of_uneven_size_are_measured_by_what_is_in_them() -> None:
    """Seven vectors in three columns: three, two and two; three units in two rows: two and one."""
    drawn = draw(picture([[6, 0, 4], [0, 2, 0]], 7, 3))
    step, height = MAP_WIDTH / 3, drawn.map_height / 2
    assert [rectangles(path) for path in drawn.shades] == [
        [],
        [],
        [],
        [
            (MAP_X, TOP, step, height),
            (MAP_X + 2 * step, TOP, step, height),
            (MAP_X + step, TOP + height, step, height),
        ],
    ]
    with pytest.raises(ValueError, match="7 of 6 activations"):
        draw(picture([[7, 0, 0], [0, 0, 0]], 7, 3))
    with pytest.raises(ValueError, match="5 of 4 activations"):
        draw(picture([[0, 0, 5], [0, 0, 0]], 7, 3))


def test_many_units_keep_the_map_small() -> None:
    tall, flat = draw(picture([[1]] * 64, 1, 64)), draw(picture([[1]], 1, 1))
    assert (tall.map_height, flat.map_height) == (240, 16)
    assert tall.height < 300


def test_bars_have_the_counts_and_lengths_that_grow_with_them() -> None:
    steps, ties = draw(picture([[9]], 100, 1)).charts
    assert [(bar.label, bar.count) for bar in steps.bars if bar.count] == [("-1", 1), ("+1", 8)]
    assert [(bar.label, bar.count) for bar in ties.bars if bar.count] == [("a tie", 8), ("to 1e-1", 1)]
    one, eight = (bar.length for bar in steps.bars if bar.count)
    assert 0 < one < eight
    assert all(bar.length == 0 for bar in steps.bars if not bar.count)


def test_charts_without_anything_to_tell_are_left_out() -> None:
    assert len(draw(picture([[9]], 100, 1, tie_distances=[])).charts) == 1
    assert len(draw(picture([[9]], 100, 1, tie_distances=[0] * 8)).charts) == 1
    labels = [bar.label for bar in draw(picture([[9]], 100, 1)).charts[0].bars]
    assert "other bits" not in labels
    with_bits = draw(picture([[9]], 100, 1, steps=[0, 0, 0, 0, 9, 0, 0, 0, 0]))
    assert "other bits" in [bar.label for bar in with_bits.charts[0].bars]


def test_the_page_holds_them_as_well_formed_drawings(differing: dict[str, Any]) -> None:
    found = re.findall(r"<svg viewBox=[^>]*aria-label=.*?</svg>", html(differing), re.DOTALL)
    drawings = [ET.fromstring(text) for text in found]  # noqa: S314 - our own page
    texts = [[text.text for text in drawing.iter("text")] for drawing in drawings]
    assert [drawing.attrib["aria-label"].split()[1] for drawing in drawings] == ["dense_1", "dense_2"]
    assert {"unit 0", "unit 3", "vector 0", "vector 99,999", "Differences in steps", "+1", "12"} <= set(texts[0])
    assert "Its own: distance from a tie" in texts[0]
    assert "Its own: distance from a tie" not in texts[1]
    assert [len(drawing.findall("g[@class='map']/path")) for drawing in drawings] == [1, 1]


@pytest.mark.parametrize("cells", [[[1, 2], [1]], [[1], [1, 2]]])
def test_a_map_that_is_not_rectangular_is_refused(cells: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="zip"):
        draw(picture(cells, 6, 2))


def test_a_map_with_more_differences_than_activations_is_refused() -> None:
    with pytest.raises(ValueError, match="4 of 3 activations"):
        draw(picture([[4]], 3, 1))
