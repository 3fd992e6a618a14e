"""Pages of an assurance case: the tree as a picture, the coverage of the objectives, a table for programs, a PDF."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from harness.applications.case import gsn
from harness.applications.case.entries import (
    DOCUMENT,
    PAGE,
    PDF,
    PICTURE,
    SCHEMA,
    TABLE,
    YAML,
    CaseDocument,
    ElementEntry,
    LeafEntry,
    link,
    yaml_of,
)
from harness.core.errors import ToolError
from harness.report.page import Check, environment, label_cells, script, sha256sum

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TOOL_TIMEOUT_S = 120.0
LINE = {gsn.SOLUTION: 20, gsn.CONTEXT: 20, gsn.JUSTIFICATION: 16, gsn.ASSUMPTION: 16, gsn.STRATEGY: 16}
"""Characters in a line of an element's text in the picture; of goals 24."""
SHAPES = {
    gsn.GOAL: 'shape=box margin="0.12,0.07"',
    gsn.STRATEGY: 'shape=polygon sides=4 skew=0.15 margin="0.02,0.02"',
    gsn.SOLUTION: 'shape=ellipse margin="0.02,0.02"',
    gsn.CONTEXT: 'shape=box style="rounded,filled" margin="0.12,0.05"',
    gsn.ASSUMPTION: 'shape=ellipse margin="0.02,0.02"',
    gsn.JUSTIFICATION: 'shape=ellipse margin="0.02,0.02"',
}
COLOURS = {  # fill and line: of a standalone picture; case.css has those of the page
    "supported": ("#e6f1e8", "#17663a"),
    "emulated": ("#fdf1d6", "#7a4b00"),
    "undeveloped": ("#fcfbf8", "#8b8f96"),
    "refuted": ("#fae8e5", "#a51c1c"),
    "context": ("#f3f1ea", "#8b8f96"),
    "real": ("#e6f1e8", "#17663a"),
    "substitute": ("#fdf1d6", "#7a4b00"),
    "analysis": ("#e8edf6", "#2f4f8f"),
}
ORIGINS = {
    "hardware": "real",
    "this machine": "real",
    "emulation": "substitute",
    "simulation": "substitute",
    "analysis": "analysis",
    "file": "analysis",
}
WORDS = {"emulation": "EMULATED", "simulation": "SIMULATED", "hardware": "HARDWARE"}


def pages(document: CaseDocument) -> dict[str, str]:
    """Return the page, the picture and the table of a case by their names; ToolError without Graphviz."""
    drawn = picture(document)
    states = document.states()
    rows = [
        (
            objective,
            states[objective.goal],
            document.leaves_below(objective.goal),
            document.undeveloped_below(objective.goal),
        )
        for objective in document.objectives
    ]
    yaml_sha256 = hashlib.sha256(yaml_of(document).encode()).hexdigest()
    goals = [name for name in document.elements if gsn.kind_of(name) == gsn.GOAL]
    solutions = [(name, one, document.leaves[one.leaf]) for name, one in document.elements.items() if one.leaf]
    page = (
        environment("harness.applications.case")
        .get_template("case.html.jinja")
        .render(
            run=document,
            schema=SCHEMA,
            document_name=DOCUMENT,
            picture_name=PICTURE,
            picture=drawn[drawn.index("<svg") :],
            states=states,
            objectives=rows,
            solutions=solutions,
            goals=goals,
            counts=Counter(states[name] for name in goals),
            assumptions=[(n, one) for n, one in document.elements.items() if gsn.kind_of(n) == gsn.ASSUMPTION],
            substitutes=[name for name, leaf in document.leaves.items() if ORIGINS[leaf.origin] == "substitute"],
            words=WORDS,
            origins=ORIGINS,
            link=link,
            yaml=YAML,
            table=TABLE,
            script=script("tables.js"),
            checks=[
                Check("Verify every leaf again.", "harness case check ."),
                Check("The argument is the one of this page.", sha256sum((YAML, yaml_sha256))),
            ],
        )
    )
    return {PAGE: label_cells(page), PICTURE: drawn, TABLE: table(document)}


def table(document: CaseDocument) -> str:
    """Return the coverage of the objectives as CSV."""
    states, written = document.states(), io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(("objective", "section", "text", "goal", "state", "evidence", "origins", "undeveloped", "limits"))
    for objective in document.objectives:
        leaves = document.leaves_below(objective.goal)
        origins = sorted({document.leaves[leaf].origin for leaf in leaves})
        lists = ("; ".join(leaves), "; ".join(origins), "; ".join(document.undeveloped_below(objective.goal)))
        writer.writerow(
            (
                objective.id,
                objective.section,
                objective.text,
                objective.goal,
                states[objective.goal],
                *lists,
                objective.limits,
            )
        )
    return written.getvalue()


def require_dot() -> None:
    """Raise ToolError if Graphviz is missing."""
    if shutil.which("dot") is None:
        raise ToolError("dot of Graphviz is missing, which draws the argument", "install it: apt install graphviz")


def picture(document: CaseDocument, *, links: bool = True) -> str:
    """Return the tree of the argument as SVG, with links to goals and evidence; ToolError if Graphviz fails."""
    require_dot()
    asked = ["dot", "-Tsvg"]
    try:
        done = subprocess.run(
            asked,
            input=_graph(document, links=links),
            capture_output=True,
            text=True,
            check=True,
            timeout=TOOL_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip()
        raise ToolError(f"dot of Graphviz failed: {said[:300]}", "install another version of Graphviz") from error
    return done.stdout


def _graph(document: CaseDocument, *, links: bool) -> str:
    """Return the argument in the language of Graphviz, from left to right."""
    lines = [
        "digraph argument {",
        "graph [rankdir=LR ordering=out ranksep=0.3 nodesep=0.08 bgcolor=transparent]",
        'node [style=filled fontname="Helvetica,Arial,sans-serif" fontsize=10 penwidth=1.1]',
        'edge [color="#8b8f96" arrowsize=0.6 penwidth=1]',
    ]
    states, placed = document.states(), set[str]()
    for name, element in _drawn(document):
        node = _node(name, element, states.get(name, "context"), document.leaves.get(element.leaf))
        lines.append(node if links else re.sub(r'URL="[^"]*" tooltip="[^"]*"', "", node))
        for each in element.supported_by:  # a goal that supports several is placed beside the first
            again = " constraint=false style=dotted" if each in placed else ""
            lines.append(f'"{name}" -> "{each}" [class=supports{again}]')
            placed.add(each)
        context = dict.fromkeys(_shown(each) for each in element.in_context_of)
        lines += [f'"{name}" -> "{each}" [arrowhead=empty style=dashed class=context]' for each in context]
    return "\n".join((*lines, "}\n"))


def _shown(name: str) -> str:
    """Return the node that shows an element: one for all assumptions of a goal."""
    return name.rpartition("-")[0] if gsn.kind_of(name) == gsn.ASSUMPTION else name


def _drawn(document: CaseDocument) -> Iterator[tuple[str, ElementEntry]]:
    """Yield the elements of the picture; all assumptions of a goal are one."""
    seen: dict[str, int] = {}
    for name, element in document.elements.items():
        if gsn.kind_of(name) == gsn.ASSUMPTION:
            seen[_shown(name)] = seen.get(_shown(name), 0) + 1
        else:
            yield name, element
    for name, count in seen.items():
        words = f"{count} assumptions of the evidence"
        yield name, ElementEntry(text=words, label=words)


def _node(name: str, element: ElementEntry, state: str, leaf: LeafEntry | None) -> str:
    kind = str(gsn.kind_of(name))
    text = [escape(line) for line in textwrap.wrap(element.label, LINE.get(kind, 24))]
    head, colour, classes = f"<b>{escape(name)}</b>", state, [kind, state]
    if leaf:
        colour = "refuted" if element.refuted else ORIGINS[leaf.origin]
        text.append(f"<b>{escape(WORDS.get(leaf.origin, leaf.origin))}</b>")
        classes = [kind, colour]
    if element.undeveloped:
        text.append("<i>◇ undeveloped</i>")
    fill, line = COLOURS[colour]
    style = 'style="filled,dashed"' if element.undeveloped else ""
    target = link(leaf) if leaf else f"#{name}"
    url = target.replace("\\", "%5C").replace('"', "%22")
    tip = escape(element.text).replace("\\", "\\\\")
    label = f'<font point-size="8.5">{head}</font><br/>{"<br/>".join(text)}'
    return (
        f'"{name}" [label=<{label}> {SHAPES[kind]} {style} fillcolor="{fill}" color="{line}" fontcolor="#1d2024" '
        f'URL="{url}" tooltip="{tip}" class="{" ".join(classes)}"]'
    )


def require_browser() -> str:
    """Return the program of a browser that prints pages; ToolError if there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise ToolError(
            f"no browser prints the page: none of {', '.join(BROWSERS)} is installed",
            "install chromium, or open index.html and print it to a file",
        )
    return found


def pdf(folder: Path) -> Path:
    """Print the page of a case to `case.pdf` in its folder; ToolError if there is no browser or it fails."""
    path, browser = (folder / PDF).absolute(), require_browser()
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={profile}",
        ]
        asked: list[Any] = [browser, *options, f"--print-to-pdf={path}", (folder / PAGE).absolute().as_uri()]
        try:
            subprocess.run(asked, capture_output=True, check=True, timeout=TOOL_TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolError(f"{browser} did not print the page: {error}", "open index.html and print it") from error
    if not path.is_file() or not re.match(rb"%PDF-", path.read_bytes()[:8]):
        raise ToolError(f"{browser} wrote no PDF", "open index.html and print it")
    return path


if __name__ == "__main__":  # the picture of README.md and docs/assurance-case.md, of the case in this folder
    sys.stdout.write(picture(CaseDocument.read(Path(sys.argv[1]) / DOCUMENT), links=False))
