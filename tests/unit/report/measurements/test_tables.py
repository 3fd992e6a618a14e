"""The tables, read back: CSV with a CSV reader, LaTeX by its commands and, where there is one, by LaTeX itself."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.report import measurement
from harness.report.cells import escape
from tests.unit.report.test_html import HOSTILE

NASTY = '\\input{/etc/passwd}\n\\end{tabular} $x^2_3$ & 50% #1 {~} a--b <|> "q" `u`'


def rows(document: dict[str, Any]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(measurement(document)["times.csv"])))


def test_every_number_of_the_summary_is_in_the_csv_as_it_is(layers: dict[str, Any]) -> None:
    found = rows(layers)
    assert [row["part"] for row in found] == ["first", "second", "third"]
    for row, part in zip(found, layers["parts"], strict=True):
        summary = part["summary"]
        exact = {name: float(row[f"{name}_ns"]) for name in ("min", "mean", "median", "max")}
        assert exact == {name: summary[f"{name}_ns"] for name in exact}
        assert float(row["std_ns"]) == summary["deviation_ns"]
        assert float(row["p99_low_ns"]) == summary["quantiles"][0]["interval"]["low"]
        assert float(row["mean_high_ns"]) == summary["mean_interval"]["high"]
        assert int(row["executions"]) == 4000


def test_what_is_not_given_is_empty_and_has_its_reason(few: dict[str, Any]) -> None:
    [row] = rows(few)
    assert (row["p99_ns"] != "", row["p99.9_ns"], row["p99.99_low_ns"]) == (True, "", "")
    assert row["not_given_because"] == (
        "p99.9: 1000 executions give no 0.95 interval for p99.9; "
        "p99.99: 1000 executions give no 0.95 interval for p99.99"
    )


def test_counts_name_their_unit_and_their_vectors(varying: dict[str, Any]) -> None:
    row = rows(varying)[1]
    assert (row["min_instructions"], row["max_instructions"], row["different_counts"]) == ("2010", "2013", "4")
    assert (row["vector_of_min"], row["vector_of_max"]) == ("0", "3")
    assert (row["same_for_same_vector"], row["waits_for_no_device"]) == ("True", "True")


def test_no_cell_is_a_formula_and_every_name_comes_back(sound: dict[str, Any]) -> None:
    for name in ('=HYPERLINK("x","y")', "+1", "-1", "@x", 'a,"b"\nc'):
        sound["parts"][0]["name"] = name
        [row] = rows(sound)
        assert row["part"] == (f"'{name}" if name[0] in "=+-@" else name)


def tabular(document: dict[str, Any]) -> list[list[str]]:
    source = measurement(document)["table.tex"]
    [body] = re.findall(r"\\begin\{tabular\}\{l(?:r+)\}\n(.*)\\end\{tabular\}\n$", source, re.DOTALL)
    return [line.removesuffix(r" \\").split(" & ") for line in body.splitlines() if line.endswith(r"\\")]


def test_the_papers_table(sound: dict[str, Any]) -> None:
    head, row = tabular(sound)
    names = ["mean", "min", "max", "std", "median", "p99.9"]
    assert [cell.strip() for cell in head] == ["", *(f"{name} (ns)" for name in names), "n"]
    summary = sound["parts"][0]["summary"]
    assert row[0] == r"acas\_coc"
    assert row[2:4] == [f"{summary['min_ns']:,}", f"{summary['max_ns']:,}"]
    assert float(row[1].replace(",", "")) == pytest.approx(summary["mean_ns"], abs=0.05)
    assert row[-1] == "4,000"


def test_a_quantile_that_is_not_given_is_not_made_up(few: dict[str, Any]) -> None:
    assert tabular(few)[1][-2:] == ["n/a", "1,000"]


def test_counts_are_exact(counted: dict[str, Any]) -> None:
    head, *lines = tabular(counted)
    assert [cell.strip() for cell in head] == ["", "min (instructions)", "max (instructions)", "n"]
    assert lines[1] == [r"dense\_1", "2,010", "2,010", "2,000"]


def test_the_comment_tells_how_it_was_measured(sound: dict[str, Any], counted: dict[str, Any]) -> None:
    comment = measurement(sound)["table.tex"].split("\\begin")[0]
    for told in (
        "Quantity: measured execution times (MET)", "Board: xavier (NVIDIA Xavier (8x Carmel)), on hardware",
        "Compiler: gcc (Debian 12.2.0-14) 12.2.0; -O3 -march=armv8.2-a -ffp-contract=off", "Load: memory",
        "Clock: CLOCK\\_MONOTONIC\\_RAW, resolution 32 ns", "Settings: governor performance",
        "Date: 2026-11-22T12:02:11Z", "Verdict: measured:",
    ):  # fmt: skip
        assert told in comment
    assert "instructions counted, no execution times" in measurement(counted)["table.tex"]
    assert all(line.startswith("% ") for line in comment.splitlines())


def hostile(document: dict[str, Any]) -> dict[str, Any]:
    """Every name and sentence that stands in the table, made an attack."""
    for name in (NASTY, HOSTILE):
        document["parts"][0]["name"] += name
        document["board"]["name"] += name
        document["board"]["soc"] += name
        document["model"]["name"] += name
        document["bundle"]["flags"] += [name]
        document["load"]["name"] += name
        document["reason"] += name
        document["state"]["settings"][0]["reached"] += name
        document["state"]["told"] += [name]
    return document


def test_no_text_becomes_a_command(sound: dict[str, Any]) -> None:
    source = measurement(hostile(sound))["table.tex"]
    lines = [line for line in source.splitlines() if not line.startswith("%")]
    assert len(lines) == 7  # as without the attack
    commands = set(re.findall(r"\\([a-zA-Z]+)", "\n".join(lines)))
    assert commands - {"begin", "end", "toprule", "midrule", "bottomrule"} <= {
        "textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar", "textasciigrave",
    }  # fmt: skip
    bare = re.sub(r"\\[{}\\$&#%_]", "", "\n".join(lines))
    assert bare.count("{") == bare.count("}")
    assert not set("$#%~^") & set(bare)


def test_escaped_text_is_one_line() -> None:
    assert escape("a\n% b\r\nc_d") == r"a \% b c\_d"
    assert escape("--flag") == "-{}-flag"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed here")
def test_latex_sets_the_tables(sound: dict[str, Any], counted: dict[str, Any], tmp_path: Path) -> None:
    for name, document in (("times", hostile(sound)), ("counts", counted)):
        (tmp_path / f"{name}.tex").write_text(measurement(document)["table.tex"], encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs,textcomp}\n"
        "\\begin{document}\n\\input{times}\n\n\\input{counts}\n\\end{document}\n",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "booktabs.sty' not found" in done.stdout:
        pytest.skip("LaTeX here has no booktabs")
    assert done.returncode == 0, done.stdout[-2000:]
