"""HTML page of a run: one file without external resources, readable without scripts and on paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.text import plural
from harness.core.time_units import duration
from harness.report import confusion, differences
from harness.report.chart import Chart
from harness.report.drawing import draw
from harness.report.network import FOLLOWS, LayerFacts, draw_both, launch_notes
from harness.report.page import Check, changed_topics, environment, inputs, label_cells, origin_checks, python, script
from harness.report.proof_section import effort, parts, unseparated
from harness.report.swimlanes import TASK
from harness.report.swimlanes import draw as draw_swimlanes
from harness.runs.entries import InputEntry, RunDocument
from harness.runs.facts import (
    Facts,
    acceptance,
    accuracy_notes,
    accuracy_rows,
    clean,
    effect_text,
    explanation,
    gather,
    output_texts,
)

SHOWN_PICTURES = 3  # the others are collapsed

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
    """Return the page of a run document; ValueError if verdict, layers and plan contradict each other."""
    run, page = RunDocument.view(clean(document)), environment().get_template("run.html.jinja")
    traced = run.conformance.picture if run.conformance else None
    found = page.render(
        run=run,
        schema=getattr(run, "schema_number", None),
        facts=gather(run),
        drawing=draw(run.plan, run.layers),
        pictures=_pictures(run),
        shown_pictures=SHOWN_PICTURES,
        pictured=[picture.layer for picture in run.pictures],
        inputs=inputs(getattr(run.model, "input", InputEntry())),
        checks=_checks(run),
        proof=parts(run.proof),
        effort=effort(run.proof) if run.proof else "",
        unseparated=unseparated(run.proof) if run.proof else (),
        swimlanes=draw_swimlanes(traced, tuple(map(tuple, run.launches))) if traced else None,
        explanation=explanation(run),
        effect=effect_text(run),
        acceptance=acceptance(run),
        output_texts=output_texts(run),
        networks=draw_both(run.graph, layer_facts(run)),
        network_note=times_note(run, gather(run)),
        changed_topics=changed_topics(run.previous),
        accuracy=accuracy_rows(run.accuracy) if run.accuracy else (),
        accuracy_notes=accuracy_notes(run.accuracy) if run.accuracy else (),
        confusions=confusion.draw(run.accuracy) if run.accuracy else (),
        script=script("tables.js"),
    )
    return label_cells(found)


def _pictures(run: RunDocument) -> list[tuple[str, int, tuple[Chart, ...]]]:
    """Return (layer, its index, charts) of every layer that differs, those with differences of their own first."""
    layers = {layer.name: layer for layer in run.layers}
    ordered = sorted(run.pictures, key=lambda picture: not layers[picture.layer].own)
    return [(picture.layer, layers[picture.layer].index, differences.draw(picture)) for picture in ordered]


def layer_facts(run: RunDocument) -> dict[str, LayerFacts]:
    """Return the results of all layers of a run by name, with the times of its trace."""
    times, notes = dict(_task_times(run)), launch_notes(run)
    facts = {}
    for layer in run.layers:
        names = [task.name for task in run.plan.tasks if task.layer == layer.name]
        time_ns = sum(times.get(name, 0) for name in names if notes.get(layer.name) != FOLLOWS)
        text = duration(time_ns) if time_ns else ""
        anchor = f"layer-{layer.index}"
        differing, compared = (layer.differing, layer.compared) if layer.kept else (None, None)
        note = notes.get(layer.name, "")
        facts[layer.name] = LayerFacts(differing, compared, time_ns, text, note, anchor, bool(layer.bounded))
    return facts


def _task_times(run: RunDocument) -> Iterator[tuple[str, int]]:
    """Yield the time in ns of every task in the first execution of the picture of the trace."""
    picture = run.conformance.picture if run.conformance else None
    if picture is None:
        return
    for event in picture["events"]:
        if event["kind"] == TASK and event["execution"] == picture["executions"][0]:
            yield event["name"], event["end_ns"] - event["begin_ns"]


def times_note(run: RunDocument, facts: Facts) -> str:
    """Return the source of the times; empty without times."""
    if not (run.conformance and run.conformance.picture):
        return ""
    scope = f"of {plural(run.conformance.vectors, 'vector')}" if run.conformance.vectors else "of a block"
    return f"times are those of the median traced execution {scope}{'' if facts.on_hardware else ': not MET'}"


def _checks(run: RunDocument) -> list[Check]:
    """Return the commands that check the run; the later ones need the run's folder."""
    return [
        *origin_checks(run),
        *([] if any(layer.bounded for layer in run.layers) else _hash_checks()),
        *_first_input(run),
    ]


def _hash_checks() -> list[Check]:
    """Return the comparisons with the dumps of the reference, which layers after bounded ones do not equal."""
    return [
        Check("For every chunk, the layers whose dumps differ by their SHA-256.", python(_COMPARE_HASHES)),
        Check("Recount the differing activations in the dumps that are kept here.", python(_COUNT_DIFFERING)),
    ]


def _first_input(run: RunDocument) -> list[Check]:
    first = next((layer.first_difference for layer in run.layers if layer.first_difference), None)
    if first is None:
        return []
    script = f'import numpy; print(numpy.load("stimuli.npy")[{first.vector}])'
    return [Check("The input that shows the first difference.", python(script))]
