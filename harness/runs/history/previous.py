"""The previous run of the same board and model, and the changes since."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.core.safe_io import read_document
from harness.core.time_units import duration
from harness.runs.entries import AnyDocument, ChangeEntry, MeasurementDocument, PreviousEntry, RunDocument
from harness.runs.history.difference import Change, difference
from harness.runs.history.run import DAMAGES

MOST_READ = 10  # documents
MOST_CHANGES = 40  # of one kind
LONGEST_COUNT = 16  # digits; longer ones are hashes


def previous(folder: Path, document: RunDocument | MeasurementDocument) -> PreviousEntry | None:
    """Return the changes since the latest finished run next to `folder`, the folder of the run of `document`.

    Only folders whose names begin with a time and end with this board and model are considered, so that few documents
    are read.  None if no such run can be read.
    """
    now = AnyDocument.view(document.to_json())
    for path in itertools.islice(_former(folder, now.board.name, now.model.name), MOST_READ):
        try:
            before = AnyDocument.view(read_document(path / "run.json"))
            if _identity(before) == _identity(now) and before.started <= now.started:
                return _changes(path.name, before, now)
        except DAMAGES:  # unfinished, damaged, or of another version
            continue
    return None


def _former(folder: Path, board: str, model: str) -> Iterator[Path]:
    """Yield the finished runs of this board and model next to a folder, the latest first by name."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"_{board}_{model}")
    pattern = re.compile(rf"\d{{8}}-\d{{6}}[-\d]*{re.escape(name)}(_\d+)?")
    try:
        names = [path.name for path in folder.parent.iterdir() if pattern.fullmatch(path.name)]
    except OSError:
        return
    for found in sorted(names, reverse=True):
        if found != folder.name and (folder.parent / found / "run.json").is_file():
            yield folder.parent / found


def _identity(document: AnyDocument) -> tuple[str, ...]:
    """Return the properties that two runs must share: the command, the board, the model and the measured quantity."""
    of_measurement = (document.measured.scope, document.measured.unit) if document.kind != "run" else ()
    return document.kind, document.board.name, document.model.name, *of_measurement


def _changes(name: str, before: AnyDocument, now: AnyDocument) -> PreviousEntry:
    found = difference(before, now)
    layers = [
        Change(layer.layer, *("none" if count is None else f"{count:,}" for count in (layer.before, layer.after)))
        for layer in found.layers
        if layer.before != layer.after
    ]
    return PreviousEntry(
        run=name,
        started=before.started,
        verdict=before.verdict,
        results=_entries(found.results),
        layers=_entries(layers),
        times=_entries(_times(before, now)),
        causes=_entries(found.causes),
    )


def _entries(changes: Sequence[Change]) -> list[ChangeEntry]:
    return [
        ChangeEntry(topic=one.topic, base=_spelled(one.before), new=_spelled(one.after))
        for one in changes[:MOST_CHANGES]
    ]


def _spelled(text: str) -> str:
    return f"{int(text):,}" if text.isdecimal() and len(text) < LONGEST_COUNT else text


def _times(before: AnyDocument, now: AnyDocument) -> list[Change]:
    """Return the medians that changed: of the parts of a measurement, or of the traced executions of a run."""
    was, new = dict(_medians(before)), dict(_medians(now))
    pairs = ((topic, duration(was[topic]), duration(new[topic])) for topic in new if topic in was)
    return [Change(*pair) for pair in pairs if pair[1] != pair[2]]


def _medians(document: AnyDocument) -> Iterator[tuple[str, float]]:
    if document.kind == "run":
        traced = document.conformance
        if traced and traced.picture:
            yield "median traced execution", traced.picture["duration_ns"]
        return
    for part in document.parts:
        if document.measured.unit == "ns":
            yield f"median, {part.name}", part.summary.median_ns
