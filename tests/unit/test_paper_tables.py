"""Tables as CSV, LaTeX and a page: each number with its source, and texts that cannot become anything else."""

from __future__ import annotations

import csv
import html
import io
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tables import forms
from benchmarks.tables.acetone import MODELS, Examined
from benchmarks.tables.acetone import tables as acetone
from benchmarks.tables.builds import Bound, Built, Checked, Code, Readings
from benchmarks.tables.document import CellEntry, ColumnEntry, Sources, TableEntry, TablesDocument, label
from harness import model
from harness.core.installation import ROOT
from tests.unit.report.measurements.test_tables import NASTY


def document(*entries: TableEntry, sources: Sources) -> TablesDocument:
    return TablesDocument(
        schema=1, paper=NASTY, started="2026-01-01T00:00:00Z", harness="0", command=["harness"], tables=entries,
        sources=list(sources.texts),
    )  # fmt: skip


@pytest.fixture
def hostile() -> TablesDocument:
    sources = Sources()
    columns = [ColumnEntry(key="name", heading=NASTY), ColumnEntry(key="paper", heading="<b>", of_paper=True)]
    rows = [
        {"name": label("=1+1"), "paper": sources.cell(1234567, NASTY)},
        {"name": label("<script>"), "paper": sources.cell(None, "", "no & none")},
        {"name": label("third"), "paper": sources.cell(1.23456e-6, NASTY)},
    ]
    return document(TableEntry(name="one", title=NASTY, note=NASTY, columns=columns, rows=rows), sources=sources)


def test_csv_has_values_and_sources(hostile: TablesDocument) -> None:
    rows = list(csv.DictReader(io.StringIO(forms.csv(hostile.tables[0], hostile))))
    assert [row["name"] for row in rows] == ["'=1+1", "<script>", "third"]
    assert [row["paper"] for row in rows] == ["1234567", "", "1.23456e-06"]
    assert [row["paper_source"] for row in rows] == [NASTY, "no & none", NASTY]


def test_page_shows_texts_as_they_are(hostile: TablesDocument) -> None:
    page = forms.html(hostile)
    assert "<script>" not in page
    assert html.escape(NASTY, quote=False).replace('"', "&#34;").splitlines()[0] in page
    assert re.findall(r'<td class="number paper"[^>]*>([^<]*)', page) == ["1,234,567", "-", "1.23456e-06"]
    assert 'title="no &amp; none"' in page
    assert not re.search(r"""(src|href)=["'](?!#)""", page)  # nothing is loaded


def test_markdown_has_a_cell_for_each_column(hostile: TablesDocument) -> None:
    lines = forms.markdown(hostile).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[1:] == [r"| --- | ---: |", r"| =1+1 | 1,234,567 |", r"| \<script> | - |", r"| third | 1.23456e-06 |"]


def balanced(text: str) -> None:
    bare = re.sub(r"\\[{}\\$&#%_]", "", "\n".join(line for line in text.splitlines() if not line.startswith("%")))
    assert bare.count("{") == bare.count("}")
    assert not set("$#%~^") & set(bare)
    for name in ("longtable", "enumerate"):
        assert text.count(f"\\begin{{{name}}}") == text.count(f"\\end{{{name}}}") > 0
    for each in re.findall(r"\\begin\{longtable\}\{(\w+)\}(.*?)\\end\{longtable\}", text, re.DOTALL):
        columns, body = each
        rows = [line for line in body.splitlines() if line.endswith(" \\\\") and not line.startswith("\\")]
        assert rows
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(columns) - 1}


def test_latex_is_escaped_and_balanced(hostile: TablesDocument, tmp_path: Path) -> None:
    sources = Sources()
    whole = document(*acetone([Examined(model, None) for model in MODELS], ("host",), sources), sources=sources)
    for number, each in enumerate((hostile, whole)):
        balanced(forms.latex(each))
        (tmp_path / f"tables{number}.tex").write_text(forms.latex(each))
    if shutil.which("pdflatex") is None:
        return
    inputs = "\\input{tables0}\n\\input{tables1}"
    head = f"\\documentclass{{article}}{forms.PREAMBLE}\\begin{{document}}"
    (tmp_path / "paper.tex").write_text(f"{head}\n{inputs}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "sty' not found" in done.stdout, done.stdout[-2000:]


def test_absent_models_say_how_to_make_them() -> None:
    [networks, *_] = acetone([Examined("vgg16", None)], ("host",), Sources())
    assert networks.rows[0]["parameters"] == CellEntry(
        missing="models/vgg16.onnx is absent; make it: .venv/bin/python -m models.floats vgg16"
    )
    assert networks.rows[0]["parameters_paper"].value == "138.36 million"
    sources = Sources()
    absent = document(*acetone([Examined("vgg16", None)], ("host",), sources), sources=sources)
    assert forms.reports(absent)["wcet.csv"] == ""  # nor has the paper a bound


def test_ratio_is_without_the_readings_of_each_layer() -> None:
    network = model.load(ROOT / "models" / "acas_reg50.onnx")
    zero = np.zeros((1, 1), np.float32)
    counts = np.array([[1020, 520, 70], [1020, 515, 70]], np.uint64)  # readings and a call take 20
    readings = Readings("instructions", counts, vectors=2, differing=0, state="emulated")
    bound = Bound([(1000, True), (505, False), (50, True)], stack=64)
    built = Built("kv260", Code("c:inlined", "-O0"), "bundle", {}, readings, bound)
    found = acetone([Examined("acas_reg50", Checked(network, zero, zero, zero), [built])], ("kv260",), Sources())
    [worst] = [table for table in found if table.name == "wcet"]
    cells = {key: cell.value for key, cell in worst.rows[0].items()}
    assert (cells["bound"], cells["counted"], cells["cost"]) == (1555, 1610, 60)
    assert cells["ratio"] == pytest.approx(1555 / 1550)
    assert cells["paper"] == 5_617_830
