"""HTML page of a run: one file without external resources, readable without scripts and on paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report import differences
from harness.report.chart import Chart
from harness.report.drawing import draw
from harness.report.page import Check, environment, inputs, origin_checks, python
from harness.report.proof_section import effort, parts
from harness.report.swimlanes import Swimlanes
from harness.report.swimlanes import draw as draw_swimlanes
from harness.runs.entries import ConformanceEntry, RunDocument
from harness.runs.facts import clean, gather

SHOWN_PICTURES = 3  # the others are folded away

# With `python3 -c`.  A run keeps either all dumps of the board, or only those that differ; hashes of all of them.
_COUNT_DIFFERING = """\
import numpy, pathlib
for target in sorted(pathlib.Path("target").rglob("*.npy")):
    a, b = numpy.load(pathlib.Path("reference", *target.parts[1:])), numpy.load(target)
    bits = f"u{a.itemsize}"
    print(target, (a.view(bits) != b.view(bits)).sum(), "of", a.size, "differ")
"""
_COMPARE_HASHES = """\
import json, pathlib
for path in sorted(pathlib.Path("chunks").glob("*.json")):
    chunk = json.loads(path.read_text())
    pairs = zip(chunk["reference_sha256"], chunk["target_sha256"])
    print(path, "differing layers:", [index for index, (a, b) in enumerate(pairs) if a != b])
"""


def html(document: Mapping[str, Any]) -> str:
    """Return the page of a run document; ValueError if its verdict contradicts its layers, or they its plan."""
    content = clean(document)
    run, page = RunDocument.view(content), environment().get_template("run.html.jinja")
    return page.render(
        run=run,
        schema=content.get("schema"),
        facts=gather(run),
        drawing=draw(content["plan"], content["layers"]),
        pictures=_pictures(content),
        shown_pictures=SHOWN_PICTURES,
        inputs=inputs(content["model"].get("input", {})),
        checks=_checks(content),
        proof=parts(run.proof),
        effort=effort(run.proof) if run.proof else "",
        swimlanes=_swimlanes(run.conformance),
    )


def _pictures(run: Mapping[str, Any]) -> list[tuple[str, tuple[Chart, ...]]]:
    """Return (layer, charts) of every layer that differs, those with differences of their own first."""
    own = {layer["name"]: layer["own"] for layer in run["layers"]}
    ordered = sorted(run["pictures"], key=lambda picture: not own[picture["layer"]])
    return [(picture["layer"], differences.draw(picture)) for picture in ordered]


def _swimlanes(observed: ConformanceEntry | None) -> Swimlanes | None:
    """Return the picture of one traced execution; None if there is no trace, or it has gaps."""
    return draw_swimlanes(observed.picture) if observed and observed.picture else None


def _checks(run: Mapping[str, Any]) -> list[Check]:
    """Return the commands that check the run; the later ones need the run's folder."""
    return [
        *origin_checks(run),
        Check("For every chunk, the layers whose dumps differ by their SHA-256.", python(_COMPARE_HASHES)),
        Check("Recount the differing activations in the dumps that are kept here.", python(_COUNT_DIFFERING)),
        *_first_input(run),
    ]


def _first_input(run: Mapping[str, Any]) -> list[Check]:
    first = next((layer["first_difference"] for layer in run["layers"] if layer["first_difference"]), None)
    if first is None:
        return []
    script = f'import numpy; print(numpy.load("stimuli.npy")[{int(first["vector"])}])'
    return [Check("The input that shows the first difference.", python(script))]
