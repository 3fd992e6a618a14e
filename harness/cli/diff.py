"""`harness diff`: changes between two runs, and whether times changed by more than their noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.table import Table
from harness.core.time_units import duration

if TYPE_CHECKING:
    from harness.runs.entries import AnyDocument
    from harness.runs.history.difference import Change, Difference
    from harness.runs.history.run_record import Run
    from harness.runs.measurement.statistics import Readings


MOST_EARLIER = 5  # measurements of the same program, for the noise


@click.command("diff", epilog="Example: harness diff 20261122-150205_xavier_acas_coc last")
@click.argument("before", metavar="RUN", type=click.Path(path_type=Path), shell_complete=_completion.runs)
@click.argument("after", metavar="RUN", type=click.Path(path_type=Path), shell_complete=_completion.runs)
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, before: Path, after: Path) -> None:
    """Show the changes between two runs: compiler, flags, model, board, verdict, times.

    RUN is a folder, a name under runs/, or `last`.
    """
    diff(before, after, space, Console.open(as_json=as_json))


@dataclass(frozen=True)
class _Side:
    """One of the two runs."""

    folder: Path
    document: AnyDocument

    @property
    def of(self) -> tuple[Any, ...]:
        """Return the properties that must be equal before times are compared."""
        measured, parts = self.document.measured, tuple(part.name for part in self.document.parts)
        scope = "network" if measured.scope == "network" else (measured.scope, *parts)
        return measured.quantity, scope, self.document.board.kind, self.document.load.name


def diff(before: Path, after: Path, workspace: Workspace, console: Console) -> None:
    """Print the changes; RequestError if one of the runs is not a finished run."""
    from harness.runs.history import difference
    from harness.runs.history.run import DAMAGES

    one, two = (_side(path, workspace) for path in (before, after))
    try:
        found = difference.difference(one.document, two.document)
        times = _times(one, two, workspace)
        judged = [part.get("verdict", "") for part in times["parts"]]
        sentence = difference.headline(found, one.document, two.document, judged)
    except DAMAGES as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(
            f"{one.folder.name}, {two.folder.name}: cannot be compared: {type(error).__name__}: {error}",
            "one of them was changed or written by another version: see harness verify",
        ) from error
    console.document(_document(one, two, found, times, sentence))
    console.show(*_told(found, times, sentence))


def _side(path: Path, workspace: Workspace) -> _Side:
    """Return the run in a folder, or with that name under runs/."""
    from harness.runs import DOCUMENT
    from harness.runs.history import run as runs
    from harness.runs.history.run_record import State, stamp

    folder = workspace.run(path)
    if not stamp(folder):
        raise RequestError(f"{folder}: not a run folder", "harness history lists run folders")
    record = runs.read(folder)
    if record.state is State.UNFINISHED:
        why = f": {record.reason}" if record.reason else ""
        advice = "harness history --verdict unfinished lists unfinished runs"
        raise RequestError(f"{folder}: this run has not finished{why}", advice)
    if record.state is State.UNREADABLE:
        raise RequestError(f"{folder / DOCUMENT}: cannot be read: {record.reason}", "name another run")
    return _Side(folder, runs.load(folder))


def _times(one: _Side, two: _Side, workspace: Workspace) -> dict[str, Any]:
    """Return the parts of both measurements with a verdict, or the reason for its absence."""
    from harness.runs.measurement.statistics import against

    if not (one.document.measured and two.document.measured):
        return {"parts": [], "because": ""}
    if because := _not_comparable(one, two):
        return {"parts": [], "because": because}
    if one.document.measured.unit != "ns":
        return {"parts": list(_counts(one, two)), "because": ""}
    before, after = _readings(one), _readings(two)
    if before is None or after is None:
        lost = " and ".join(side.folder.name for side in (one, two) if _readings(side) is None)
        return {"parts": [], "because": f"readings.npy was changed or is missing: {lost}"}
    earlier = {side.folder.name: found for side in _earlier(one, workspace) if (found := _readings(side)) is not None}
    names = [part.name for part in two.document.parts]
    parts = against(names, before, after, list(earlier.values()), counted=False)["parts"]
    shown = [{key: value for key, value in part.items() if key != "base_tail"} for part in parts]
    return {"parts": shown, "because": "", "noise_of": list(earlier)}


def _not_comparable(one: _Side, two: _Side) -> str:
    wrong = [side.folder.name for side in (one, two) if side.document.outputs.differing]
    if wrong:
        return f"the outputs of {' and '.join(wrong)} were wrong, so the times are not those of the network"
    topics = ("quantity", "scope and parts", "kind of board", "load")
    other = [topic for topic, was, now in zip(topics, one.of, two.of, strict=True) if was != now]
    return f"different {', '.join(other)}" if other else ""


def _counts(one: _Side, two: _Side) -> Iterator[dict[str, Any]]:
    """Compare counts, which need no statistics."""
    for was, now in zip(one.document.parts, two.document.parts, strict=True):
        verdict = "slower" if now.max > was.max else "faster" if now.max < was.max else "unchanged"
        reasons = [f"at most {now.max:,} {two.document.measured.unit}, before {was.max:,}"]
        yield {"name": now.name, "verdict": verdict, "reasons": reasons, "shifts": []}


def _earlier(one: _Side, workspace: Workspace) -> Iterator[_Side]:
    """Yield earlier measurements of the same program; differences between them are noise."""
    from harness.runs.history import index
    from harness.runs.history import run as runs
    from harness.runs.history.index import RunFilter

    me = runs.read(one.folder)
    with index.opened(workspace.runs) as known:
        before = [run for run in known.find(RunFilter(me.board, me.model)) if _is_earlier(run, me)]
    for run in before[:MOST_EARLIER]:
        side = _Side(workspace.runs / run.name, runs.load(workspace.runs / run.name))
        if not _not_comparable(side, one):
            yield side


def _is_earlier(run: Run, me: Run) -> bool:
    same = (run.bundle_sha256, run.quantity, run.kind) == (me.bundle_sha256, me.quantity, me.kind)
    return same and (run.started, run.name) < (me.started, me.name)


def _readings(side: _Side) -> Readings | None:
    """Return the readings of the document; None if the file does not match the document."""
    import numpy as np

    path = side.folder / "readings.npy"
    try:
        if not path.is_file() or file_sha256(path) != side.document.readings.sha256:
            return None
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # mmap refuses a header larger than the file
    except (OSError, ValueError):
        return None
    fits = mapped.ndim == 2 and mapped.shape[1] == len(side.document.parts) and mapped.dtype.kind == "u"
    return np.asarray(mapped, np.uint64) if fits else None


def _document(one: _Side, two: _Side, found: Difference, times: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    from harness.runs.history.difference import NO_CHANGE

    return {
        "before": str(one.folder),
        "after": str(two.folder),
        "summary": sentence,
        "nothing_changed": sentence.startswith(NO_CHANGE),
        "results": [asdict(change) for change in found.results],
        "layers": [asdict(layer) | {"words": layer.words} for layer in found.layers],
        "causes": [asdict(change) for change in found.causes],
        "times": times,
    }


def _told(found: Difference, times: Mapping[str, Any], sentence: str) -> Iterator[Text | Table]:
    from harness.runs.facts import clean

    yield Text(clean(sentence), style="bold")
    if found.results:
        yield _changes("result", found.results)
    if found.layers:
        yield _layers(found)
    if found.causes:
        yield Text("Possible causes:" if found.results or found.layers else "Other differences:")
        yield _changes("what", found.causes)
    if times["because"]:
        yield Text(f"times are not compared: {clean(times['because'])}", style="yellow")
    if times["parts"]:
        yield _time_table(times["parts"])


def _changes(heading: str, changes: Sequence[Change]) -> Table:
    from harness.runs.facts import clean

    table = Table(heading, "before", "after")
    for one in changes:
        table.add_row(*(Text(clean(text), overflow="fold") for text in (one.topic, one.before, one.after)))
    return table


def _layers(found: Difference) -> Table:
    from harness.runs.facts import clean

    table = Table("layer", "", "differing before", "after", right=("differing before", "after"))
    for one in found.layers:
        counts = ("-" if count is None else f"{count:,}" for count in (one.before, one.after))
        table.add_row(Text(clean(one.layer)), Text(one.words), *counts)
    return table


def _time_table(parts: Sequence[Mapping[str, Any]]) -> Table:
    from harness.runs.facts import clean

    table = Table("part", "is", "of", "before", "after", "why")
    for part in parts:
        if not part.get("shifts"):
            why = part.get("not_given") or "; ".join(part.get("reasons", ()))
            table.add_row(Text(clean(part["name"])), part.get("verdict", "not compared"), "", "", "", Text(why))
        for shift in part.get("shifts", ()):
            style = {"slower": "bold red", "faster": "green"}.get(shift["verdict"], "")
            was, now = duration(shift["base_ns"]), duration(shift["new_ns"])
            table.add_row(
                Text(clean(part["name"])), Text(shift["verdict"], style), shift["of"], was, now, shift["reason"]
            )
    return table
