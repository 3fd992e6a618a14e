"""The summary of a night for the terminal and for programs, with unexpected results first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE
from harness.core.junit import Case, Problem, write
from harness.core.outcome import Outcome
from harness.core.safe_io import clean
from harness.core.table import Table
from harness.core.text import duration, retries
from harness.runs.history.night_record import Entry, Night, Result
from harness.runs.history.run import read

WRONG, FAILED, GOOD, NEVER = "bold red", "yellow", "green", "magenta"


def exit_code(night: Night) -> int:
    """Return 0 if all results are as expected, 1 for a wrong verdict, 3 for an inconclusive or missing result."""
    surprises = [night.ending(entry).outcome for entry in night.surprises()]
    if any(outcome.final for outcome in surprises):
        return EXIT_DIFFERS
    return EXIT_INFRASTRUCTURE if surprises else EXIT_DONE


def document(night: Night) -> dict[str, Any]:
    """Return the night as JSON types."""
    return {
        "night": night.name,
        "folder": str(night.folder),
        "file": night.file,
        "began_s": night.began_s,
        "ended_s": night.ended_s,
        "exit_code": exit_code(night),
        "counts": {str(outcome): count for outcome, count in _counts(night).items()},
        "entries": [_entry(night, entry) for entry in night.entries],
        "quarantined": {name: health.quarantined for name, health in night.boards.items() if health.quarantined},
        "junit": str(night.folder / "junit.xml"),
    }


def _entry(night: Night, entry: Entry) -> dict[str, Any]:
    ending, result = night.ending(entry), night.results.get(entry.number)
    return {
        "number": entry.number,
        "key": entry.key,
        "board": entry.board,
        "model": entry.model,
        "items": entry.items,
        "action": entry.action,
        "expect": str(entry.expect),
        "outcome": str(ending.outcome),
        "part": ending.part,
        "reason": ending.reason,
        "as_expected": ending.outcome is entry.expect,
        "retries": result.retries if result else 0,
        "seconds": [round(one.ended_s - one.began_s, 3) for one in result.attempts] if result else [],
        "run": result.run if result else "",
    }


def _counts(night: Night) -> Counter[Outcome]:
    return Counter(night.ending(entry).outcome for entry in night.entries)


def board_kinds(night: Night) -> dict[str, str]:
    """Return the kind of each board that a run of the night reached, such as `emulated`, by the name of the board."""
    runs = night.folder.parents[1]
    reached = ((entry.board, night.results.get(entry.number)) for entry in night.entries)
    found = {board: read(runs / result.run).kind for board, result in reached if result and result.run}
    return {board: kind for board, kind in found.items() if kind}


def show(night: Night, kinds: Mapping[str, str]) -> Iterator[RenderableType]:
    """Yield the texts and tables of the terminal, unexpected results first; `kinds` are those of `board_kinds`."""
    yield from _surprises(night)
    yield _grid(night, kinds)
    for name, health in sorted(night.boards.items()):
        if health.quarantined:
            yield Text(f"board {name} is quarantined: {clean(health.quarantined)}", style=FAILED)
    yield _headline(night)
    yield Text(f"night: {night.folder}")


def counted(night: Night) -> str:
    """Format the numbers of entries by outcome."""
    return ", ".join(f"{count} {outcome}" for outcome, count in _counts(night).items()) or "no entries"


def wrong(night: Night) -> list[str]:
    """Return only the wrong verdicts, one per line."""
    return [_line(night, entry).plain for entry in night.surprises() if night.ending(entry).outcome.final]


def _surprises(night: Night) -> Iterator[Text]:
    """Yield a line for each wrong, then each missing verdict; entries that did not start get a line per reason."""
    found = night.surprises()
    for failed in (False, True):
        for entry in found:
            if night.ending(entry).outcome is not Outcome.NOT_RUN and _is_inconclusive(night, entry) is failed:
                yield _line(night, entry)
    never = [entry for entry in found if night.ending(entry).outcome is Outcome.NOT_RUN]
    for reason in dict.fromkeys(night.ending(entry).reason for entry in never):
        keys = [entry.key for entry in never if night.ending(entry).reason == reason]
        yield Text.assemble((str(Outcome.NOT_RUN), NEVER), clean(f" ({len(keys)}): {reason}: {'; '.join(keys)}"))


def _is_inconclusive(night: Night, entry: Entry) -> bool:
    return night.ending(entry).outcome is Outcome.INCONCLUSIVE


def _line(night: Night, entry: Entry) -> Text:
    ending, result = night.ending(entry), night.results.get(entry.number)
    expected = f", expected {entry.expect}" if ending.outcome.final else ""
    where = f" (runs/{result.run})" if result and result.run else ""
    style = style_of(night, entry)
    return Text.assemble((f"{ending}{expected}", style), clean(f": {entry.key}: {ending.reason}{where}"))


def style_of(night: Night, entry: Entry) -> str:
    """Return the colour of an entry's result; its text states the same."""
    outcome = night.ending(entry).outcome
    if outcome is entry.expect:
        return GOOD
    return {Outcome.INCONCLUSIVE: FAILED, Outcome.NOT_RUN: NEVER}.get(outcome, WRONG)


def _grid(night: Night, kinds: Mapping[str, str]) -> Table:
    """Return a table with a row per board and a column per model."""
    models = list(dict.fromkeys(entry.model for entry in night.entries))
    table = Table("board", "kind")
    for model in models:
        table.add_column(clean(model), overflow="fold")
    for board in dict.fromkeys(entry.board for entry in night.entries):
        cells = ([one for one in night.entries if (one.board, one.model) == (board, model)] for model in models)
        kind = Text(clean(kinds.get(board, "")), style=FAILED if kinds.get(board) == "emulated" else "")
        table.add_row(board, kind, *(Text("\n").join(_cell(night, entry) for entry in cell) for cell in cells))
    return table


def _cell(night: Night, entry: Entry) -> Text:
    """Return the text for one entry, with its retries and its duration."""
    ending, result = night.ending(entry), night.results.get(entry.number)
    what = clean(" ".join(filter(None, (entry.action, entry.items))))
    words = [f"{ending}" if ending.outcome is entry.expect else f"{ending}!"]
    if result and result.retries:
        words.append(retries(result.retries))
    if result and result.attempts:
        words.append(duration(sum(one.ended_s - one.began_s for one in result.attempts)))
    return Text.assemble(f"{what} ", (words[0], style_of(night, entry)), *(f", {word}" for word in words[1:]))


def _headline(night: Night) -> Text:
    surprises, tried = len(night.surprises()), sum(result.retries for result in night.results.values())
    good = f"{surprises} NOT AS EXPECTED" if surprises else "all as expected"
    text = f"{good}: {counted(night)}; {retries(tried)}; {_times(night)}"
    return Text(text, style="bold red" if exit_code(night) == EXIT_DIFFERS else FAILED if surprises else "bold green")


def _times(night: Night) -> str:
    began = datetime.fromtimestamp(night.began_s).astimezone()
    if night.ended_s is None:
        return f"started {began:%Y-%m-%d %H:%M}, not finished"
    ended = datetime.fromtimestamp(night.ended_s).astimezone()
    return f"{began:%Y-%m-%d %H:%M} to {ended:%H:%M}, {duration(night.ended_s - night.began_s)}"


def junit(night: Night) -> str:
    """Return JUnit XML: a wrong verdict is a failure, an inconclusive one an error, an entry not run is skipped.

    The type of an error is the part that failed.  A known-bad entry that differs as expected passes.
    """
    timestamp = f"{datetime.fromtimestamp(night.began_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return write(f"harness nightly {night.name}", [_case(night, entry) for entry in night.entries], timestamp=timestamp)


def _case(night: Night, entry: Entry) -> Case:
    result, ending = night.results.get(entry.number), night.ending(entry)
    problem = None
    if ending.outcome is Outcome.NOT_RUN:
        problem = Problem("skipped", ending.reason)
    elif ending.outcome is Outcome.INCONCLUSIVE:
        problem = Problem("error", f"{ending}: {ending.reason}", ending.part)
    elif ending.outcome is not entry.expect:
        message = f"{ending.outcome}, expected {entry.expect}: {ending.reason}"
        problem = Problem("failure", message, str(ending.outcome))
    seconds = sum(attempt.ended_s - attempt.began_s for attempt in result.attempts) if result else 0.0
    output = "\n".join(_history(result, entry)) if result else ""
    return Case(f"{entry.board}.{entry.model}", entry.key, problem, seconds, output)


def _history(result: Result, entry: Entry) -> Iterator[str]:
    """Yield the verdict, the evidence and every attempt of a finished entry."""
    yield f"{result.ending}, expected {entry.expect}: {result.ending.reason}"
    if result.run:
        yield f"evidence: runs/{result.run}"
    if result.retries:
        yield f"retries: {result.retries}"
        for number, attempt in enumerate(result.attempts, start=1):
            yield f"attempt {number}: {attempt.ending}: {attempt.ending.reason}"
