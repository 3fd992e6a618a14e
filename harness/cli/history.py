"""`harness history`: a list of the runs of the index, one line per run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError, unknown_name
from harness.core.outcome import Outcome
from harness.core.safe_io import clean
from harness.core.table import Table
from harness.core.text import duration

if TYPE_CHECKING:
    from harness.runs.history.index import RunFilter
    from harness.runs.history.run_record import Run


OF_OTHERS = (Outcome.NOT_RUN, Outcome.VALID, Outcome.NOT_VALID)  # of entries of a night
OF_RUNS = tuple(outcome.value for outcome in Outcome if outcome not in OF_OTHERS)
VERDICTS = (*OF_RUNS, "unfinished", "unreadable")
STYLES = {
    "identical": "green",
    "within bound": "magenta",
    "measured": "green",
    "differs": "bold red",
    "varies": "bold red",
    "regressed": "bold red",
}
WIDE = 110  # columns of a terminal
WHERE = {"hardware": "hardware", "emulated": "EMULATED", "this machine": "this machine"}


@click.command("history", epilog="Example: harness history --board xavier")
@click.option("--board", help="Show only runs on this board.")
@click.option("--model", help="Show only runs of this model.")
@click.option("--verdict", help="Show only runs with this verdict, e.g. differs.")
@click.option("--since", metavar="DATE", help="Show only runs started on that day or later, e.g. 2026-11-01, or 7d.")
@click.option(
    "--limit", type=click.IntRange(1), default=30, show_default=True, help="Number of runs, the latest first."
)
@click.option("--rebuild", is_flag=True, help="Delete the index and read all run folders again.")
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, rebuild: bool, **options: str | int | None) -> None:
    """List former runs with verdict, board and time."""
    history(options, space, Console.open(as_json=as_json), rebuild=rebuild)


def history(options: Mapping[str, Any], workspace: Workspace, console: Console, *, rebuild: bool) -> None:
    """Print the latest runs that match `options`: board, model, verdict, since; limit is their maximum number.

    RequestError for an unknown verdict, an invalid date, and a board or model without runs.
    """
    from harness.runs.history import index
    from harness.runs.history.index import RunFilter

    chosen = _chosen(options)
    with index.opened(workspace.runs, rebuild=rebuild) as runs:
        selected = runs.find(chosen, options["limit"])
        count = runs.count()
        if not selected:
            _require_known(chosen, runs.find(RunFilter()))
    console.document({"indexed": count, "runs": [_document(run) for run in selected]})
    console.show(_table([_clean(run) for run in selected], console.out.width))
    nowhere = "" if workspace.runs.is_dir() else ", which is not a folder: set another one with --runs or HARNESS_RUNS"
    console.note(f"{len(selected):,} of {count:,} runs in {workspace.runs}{nowhere}")


def _chosen(options: Mapping[str, Any]) -> RunFilter:
    from harness.runs.history.index import RunFilter

    verdict = options["verdict"]
    if verdict is not None and verdict not in VERDICTS:
        raise unknown_name("verdict", verdict, VERDICTS)
    since = None if options["since"] is None else _since(options["since"])
    return RunFilter(options["board"], options["model"], verdict, since)


def _since(text: str) -> str:
    """Return a day in the format of `run.json`; `7d` is seven days before now."""
    from harness.runs import folder  # a slow import: see `harness.runs.history.run_record`

    if match := re.fullmatch(r"([0-9]{1,5})d", text):
        return f"{folder.now().astimezone(UTC) - timedelta(days=int(match[1])):%Y-%m-%dT%H:%M:%SZ}"
    try:
        return f"{date.fromisoformat(text):%Y-%m-%d}"
    except ValueError as error:
        raise RequestError(
            f"--since {text!r} is not a day", "write 2026-11-01, or 7d for the last seven days"
        ) from error


def _require_known(run_filter: RunFilter, runs: list[Run]) -> None:
    """Raise RequestError for a misspelt name, because an empty table would look like an answer."""
    for kind in ("board", "model"):
        name, known = getattr(run_filter, kind), {getattr(run, kind) for run in runs} - {""}
        if name is not None and name not in known:
            raise RequestError(f"no run of {kind} {name!r}", unknown_name(kind, name, known).hint)


def _document(run: Run) -> dict[str, Any]:
    return dataclasses.asdict(run) | {"state": run.state.value}


def _clean(run: Run) -> Run:
    """Return the record without control characters that could falsify terminal output."""
    texts: dict[str, Any] = {key: clean(value) for key, value in vars(run).items() if type(value) is str}
    return dataclasses.replace(run, **texts)


def _cells(run: Run) -> tuple[Text, ...]:
    """Return the cells of a run: name, verdict, where it ran, result, duration."""
    where = Text(WHERE.get(run.kind, run.kind), style="yellow" if run.emulated else "")
    ending = Text(run.ending, style="bold red" if run.differs_so_far else STYLES.get(run.verdict, "yellow"))
    return Text(run.name), ending, where, Text(f"{run.action}: {run.seen}"), Text(_took(run.wall_s))


def _table(runs: list[Run], width: int) -> Table:
    """Return the table with one line per run, or two on a narrow terminal, because a run's name must not be cut."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    wide = width >= WIDE
    for heading in ("run", "verdict", "where", "result") if wide else ("run", "verdict, where, took"):
        table.add_column(heading, overflow="fold")
    if wide:
        table.add_column("took", justify="right", no_wrap=True)
    for name, ending, where, seen, took in map(_cells, runs):
        short = Text(", ").join(filter(None, (ending, where, took)))
        table.add_row(*((name, ending, where, seen, took) if wide else (name, Text("\n").join((short, seen)))))
    return table


def _took(wall_s: float | None) -> str:
    return "" if wall_s is None else duration(wall_s)
