"""Elements of all pages: cells that name their columns, and the script that a page permits."""

from __future__ import annotations

import re

from harness.report.page import label_cells, script


def labels(page: str) -> list[str]:
    return re.findall(r'data-label="([^"]*)"', label_cells(page))


def test_every_cell_of_a_stacked_table_names_its_column() -> None:
    head = "<thead><tr><th></th><th>Layer</th><th class='number'>Its <b>own</b></th><th>First</th></tr></thead>"
    row = '<tr class="differs"><td>=</td><th>dense_1</th><td class="number">12</td><td>none</td></tr>'
    foot = '<tfoot><tr><td></td><th colspan="2">All</th><td>3</td></tr></tfoot>'
    page = f'<table class="layers stack sortable">{head}<tbody>{row}</tbody>{foot}</table>'
    found = label_cells(page)
    assert labels(page) == ["Its own", "First", "First"]
    assert '<td class="number" data-label="Its own">12</td>' in found
    assert re.sub(r' data-label="[^"]*"', "", found) == page


def test_cells_below_one_that_spans_rows_keep_their_columns() -> None:
    head = "<thead><tr><th>Part</th><th>Verdict</th><th>Of</th><th>Gate</th></tr></thead>"
    rows = '<tr><th rowspan="2">a</th><td rowspan="2">slower</td><td>median</td><td>3</td></tr>'
    more = "<tr><td>p99</td><td>4</td></tr><tr><th>b</th><td>faster</td><td>median</td><td>5</td></tr>"
    expected = ["Verdict", "Of", "Gate", "Of", "Gate", "Verdict", "Of", "Gate"]
    assert labels(f'<table class="stack">{head}<tbody>{rows}{more}</tbody></table>') == expected


def test_other_tables_are_unchanged() -> None:
    page = '<table class="stacks"><thead><tr><th>A</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>'
    assert label_cells(page) == page


def test_a_script_cannot_end_its_element() -> None:
    found = script("zoom.js", "tables.js")
    assert found.sha256.startswith("sha256-")
    assert "</script" not in found.text
    assert "innerHTML" not in found.text
    assert script("tables.js").sha256 != found.sha256
