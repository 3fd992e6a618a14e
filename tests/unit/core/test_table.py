"""Tables of every width: numbers stay whole, text is folded, nothing is lost."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.console import Console as RichConsole

from harness.core.table import Table, fitted

HARNESS = Path(__file__).parents[3] / "harness"
LIVE = (
    HARNESS / "applications" / "nightly" / "progress.py"
)  # a view that is drawn again and again, with a line for each board
ROWS = (("quantize_input", "prepost (cuda:layerwise)", "25,000"), ("dense_1", "network", "1,250,000"))


def lines(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    RichConsole(file=out, width=width).print(table, soft_wrap=True)
    return out.getvalue().splitlines()


def table() -> Table:
    made = Table("layer", "item", box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("compared", justify="right")
    for row in ROWS:
        made.add_row(*row)
    return made


def test_a_narrow_terminal_omits_optional_columns_the_last_first() -> None:
    short = Table("model", "layers", "from", optional=("layers", "from"), box=None)
    short.add_row("acas_coc", "5-50x8-5", "recipe 9f404ecb0c30")
    assert [line.split() for line in lines(short, 40)] == [
        ["model", "layers", "from"],
        ["acas_coc", "5-50x8-5", "recipe", "9f404ecb0c30"],
    ]
    assert [line.split() for line in lines(short, 20)] == [["model", "layers"], ["acas_coc", "5-50x8-5"]]
    assert [line.split() for line in lines(short, 10)] == [["model"], ["acas_coc"]]


def test_a_wide_terminal_has_a_line_for_each_row() -> None:
    assert lines(table(), 100)[3:5] == [
        " quantize_input   prepost (cuda:layerwise)      25,000 ",
        " dense_1          network                    1,250,000 ",
    ]


@pytest.mark.parametrize("width", [10, 30, 40, 45])
def test_a_narrow_terminal_folds_text_and_keeps_numbers(width: int) -> None:
    found = lines(table(), width)
    assert "…" not in "".join(found)
    assert re.findall(r"[0-9][0-9,]{3,}", " ".join(found)) == ["25,000", "1,250,000"]
    for row in ROWS:
        for cell in row[:2]:
            assert set(cell.replace(" ", "")) <= set("".join(found))
    assert max(map(len, found)) <= max(width, 31)


def test_names_and_numbers_with_units_stay_whole() -> None:
    made = Table("node", "operator", "time", "of")
    made.add_row("image_quantizelinear", "QLinearGlobalAveragePool", "1,270.22 µs", "two words")
    for width in range(36, 90):
        found = "\n".join(lines(made, width))
        assert all(name in found for name in ("image_quantizelinear", "QLinearGlobalAveragePool", "1,270.22 µs")), found
        assert max(map(len, lines(made, width))) <= width
    assert [line.strip() for line in lines(made, 50)] == [
        "node      image_quantizelinear",
        "operator  QLinearGlobalAveragePool",
        "time      1,270.22 µs",
        "of        two words",
        "",
    ]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=8), st.integers(0, 200))
def test_widths_fit_unless_numbers_do_not(columns: list[tuple[int, int]], budget: int) -> None:
    natural = [max(column) for column in columns]
    least = [min(column) for column in columns]
    found = fitted(natural, least, budget)
    assert all(low <= width <= high for low, width, high in zip(least, found, natural, strict=True))
    assert sum(found) <= max(budget, sum(least))


def test_no_other_table_is_printed() -> None:
    others = {path for path in HARNESS.rglob("*.py") if "rich.table import Table\n" in path.read_text()}
    assert others == {LIVE}
