"""Common templates and filters of all pages, and the commands that check a page."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from jinja2 import ChainableUndefined, ChoiceLoader, Environment, PackageLoader

from harness import __version__
from harness.core.strict_json import number
from harness.core.text import plural
from harness.core.time_units import duration
from harness.operators.counters import percent
from harness.runs.entries import DisagreementEntry, InputEntry, PreviousEntry, Provenance
from harness.runs.facts import bound_share, disagreement_text, engines_text, place, value_text, whole_text

REPORTS = "harness.report"
NOT_RECORDED = "not recorded"

CHECK_FILES = """\
import json
for path, sha256 in json.load(open("run.json"))["files"].items():
    print(f"{sha256}  {path}")
"""


_STACKED = re.compile(r'<table class="(?:[^"]* )?stack(?: [^"]*)?">.*?</table>', re.DOTALL)
_ROW, _CELL = re.compile(r"<tr[^>]*>.*?</tr>", re.DOTALL), re.compile(r"<(th|td)([^>]*)>(.*?)</\1>", re.DOTALL)
_SPAN = re.compile(r'(col|row)span="(\d+)"')


@dataclass(frozen=True)
class Check:
    """A command that checks one property, and a description of the property."""

    shows: str
    command: str


@functools.cache
def environment(package: str = REPORTS) -> Environment:
    """Return the templates of all reports and those of `package`, an application.

    They escape every text; values that a document lacks are undefined.
    """
    found = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((REPORTS, package))]),
        autoescape=True,
        undefined=ChainableUndefined,  # optional parts of the document end up in `recorded`
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "count": "{:,}".format,
        "recorded": _recorded,
        "place": place,
        "value": value_text,
        "whole": whole_text,
        "engines": engines_text,
        "disagreement": disagreement_text,
        "bound_share": bound_share,
    }
    found.filters |= {
        "percent": percent,
        "single": _single,
        "duration": duration,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    return found


@dataclass(frozen=True)
class Script:
    """The inline script of a page, and the hash with which its Content-Security-Policy permits no other."""

    text: str
    sha256: str


@functools.cache
def script(*names: str, package: str = REPORTS) -> Script:
    """Return the scripts of these files among the templates of `package`, as one."""
    templates = environment(package)
    loader = templates.loader
    assert loader is not None  # noqa: S101 - environment() has one
    text = "".join(loader.get_source(templates, name)[0] for name in names)
    return Script(text, f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}")


def label_cells(page: str) -> str:
    """Return a page in which every cell of a table of class `stack` names its column.

    On a narrow screen, such a table shows its rows as blocks, and the attribute `data-label` in front of each value.
    """
    return _STACKED.sub(lambda table: _label_table(table[0]), page)


def _label_table(table: str) -> str:
    head, end, body = table.partition("</thead>")
    labels = [re.sub(r"<[^>]*>", "", cell[3]).strip() for cell in _CELL.finditer(head)]
    taken: dict[int, int] = {}  # rows that a cell above covers, by column

    def label_row(row: re.Match[str]) -> str:
        column = 0

        def label(cell: re.Match[str]) -> str:
            nonlocal column
            while taken.get(column):
                taken[column] -= 1
                column += 1
            spans = {kind: int(size) for kind, size in _SPAN.findall(cell[2])}
            name = labels[column] if column < len(labels) and "col" not in spans else ""
            taken.update({column: spans["row"] - 1} if "row" in spans else {})
            column += spans.get("col", 1)
            said = f' data-label="{name}"' if name and cell[1] == "td" else ""
            return f"<{cell[1]}{cell[2]}{said}>{cell[3]}</{cell[1]}>"

        return _CELL.sub(label, row[0])

    return f"{head}{end}{_ROW.sub(label_row, body)}"


def changed_topics(previous: PreviousEntry | None) -> list[str]:
    """Return how much changed since the previous run, kind by kind."""
    if not previous:
        return []
    counts = {
        "result": len(previous.results),
        "layer": len(previous.layers),
        "version or setting": len(previous.causes),
        "time": len(previous.times),
    }
    words = {"version or setting": "versions or settings"}
    return [f"{plural(count, word, words.get(word, ''))} changed" for word, count in counts.items() if count]


def _recorded(value: Any) -> Any:
    """Return the value, or a text if it is missing: a gap in the evidence must be visible."""
    return NOT_RECORDED if value is None or not str(value) else value


def _single(value: float | str) -> str:
    """Return a float32 in the digits that identify it."""
    return str(np.float32(number(value)))


def inputs(entry: InputEntry) -> list[tuple[Any, ...]]:
    """Return (index, name, unit, lowest, highest) of the inputs of the network; missing values are None.

    Adjacent inputs with the same values are one row, whose index is "first to last": an image has many pixels.
    """
    bounds = ([str(np.float32(bound)) for bound in box] for box in (entry.box_low, entry.box_high))
    rows: list[tuple[Any, ...]] = []
    first = 0
    for row, alike in itertools.groupby(zip_longest(entry.names, entry.units, *bounds)):
        last = first + len(list(alike)) - 1
        rows.append((str(first) if first == last else f"{first} to {last}", *row))
        first = last + 1
    return rows


def origin_checks(run: Provenance) -> list[Check]:
    """Return the commands that repeat the run and check its files; the later ones need the run's folder."""
    hashes = [
        (name, getattr(part, "sha256", None))
        for name, part in (("model.onnx", run.model), ("stimuli.npy", run.stimuli))
    ]
    files = sha256sum(*hashes)
    return [
        Check("Repeat the run.", shlex.join(run.command)),
        *([Check("The model and the vectors are those of this report.", files)] if files else []),
        Check("The files of the run's folder are unchanged.", f"{python(CHECK_FILES)} | sha256sum --check --quiet"),
    ]


def sha256sum(*files: tuple[str, str | None]) -> str:
    """Return a command that checks files, (name, hash) each; empty if no hash is known."""
    lines = [f"{sha256}  {name}" for name, sha256 in files if sha256]
    return f"printf '%s\\n' {shlex.join(lines)} | sha256sum --check" if lines else ""


def python(script: str) -> str:
    """Return a command that runs a script."""
    return f"python3 -c {shlex.quote(script.strip())}"


def disagreement(model: str, board: str, reason: str, found: Mapping[str, Any], go_on: str) -> str:
    """Return the page of a run without a verdict, because the engines of its reference disagree.

    `found` is that of `EnginesDisagree`, `go_on` is how to resume the run.
    """
    page = environment().get_template("disagreement.html.jinja")
    texts = {"model": model, "board": board, "reason": reason, "go_on": go_on, "version": __version__}
    return page.render(texts, found=DisagreementEntry.from_json(found), script=script("tables.js"))
