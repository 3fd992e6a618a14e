"""The values of the page of a night, from its record and those before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from harness.core.outcome import Ending, Outcome
from harness.core.text import duration, plural, retries
from harness.report.site.labels import SIGNS, TONES, day, file_name, link
from harness.runs.history.night_record import Attempt, Entry, Night
from harness.runs.history.nights import Change, ChangeKind, Past

UNSURE = {ChangeKind.INCONCLUSIVE, ChangeKind.NOT_RUN, ChangeKind.QUARANTINED}
SURPRISES = {"bad": "wrong", "unsure": "inconclusive", "idle": "not run"}


@dataclass(frozen=True)
class OpenSince:
    """The name of the night in which a state began: of entries by key, of boards by name.

    A night of another file, without the entry or the board, does not change the state.
    """

    unsettled: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)

    def after(self, night: Night) -> OpenSince:
        """Return the states after one more night."""
        entries = {entry.key: is_unsettled(night, entry) for entry in night.entries if has_ended(night, entry)}
        boards = {name: bool(health.quarantined) for name, health in night.boards.items()}
        return OpenSince(
            _continued(self.unsettled, entries, night.name), _continued(self.quarantined, boards, night.name)
        )


def _continued(before: Mapping[str, str], tonight: Mapping[str, bool], night: str) -> dict[str, str]:
    kept = {name: since for name, since in before.items() if tonight.get(name, True)}
    return {name: night for name, lasts in tonight.items() if lasts} | kept


def has_ended(night: Night, entry: Entry) -> bool:
    """Return whether the entry is final in this night."""
    return entry.number in night.results or night.ended_s is not None


def is_unsettled(night: Night, entry: Entry) -> bool:
    """Return whether the entry ended without a verdict on the program that was expected."""
    outcome = night.ending(entry).outcome
    return not outcome.final and outcome is not entry.expect


@dataclass(frozen=True)
class Context:
    """Kinds of boards, addresses of reports of runs, and days of nights."""

    kinds: Mapping[str, str]
    reports: Mapping[str, str]
    days: Mapping[str, str]

    def where(self, board: str) -> str:
        """Return emulated, hardware or this machine; empty if no run records it."""
        return self.kinds.get(board, "")

    def day(self, night: str) -> str:
        """Return the day on which the night of that name started."""
        return self.days.get(night, night)


@dataclass(frozen=True)
class EntryView:
    """An entry: its outcome with sign and colour, its description, and the address of its report (empty: none)."""

    tone: str
    sign: str
    word: str
    entry: str
    action: str
    board: str
    where: str
    model: str
    note: str
    reason: str
    attempts: tuple[str, ...]
    report: str


@dataclass(frozen=True)
class BoardRow:
    """A board and, for every model of the night, its entries."""

    board: str
    where: str
    page: str
    quarantined: str
    cells: tuple[tuple[EntryView, ...], ...]


@dataclass(frozen=True)
class ChangeRow:
    """A change since the night before."""

    tone: str
    kind: str
    what: str
    where: str
    now: str
    reason: str
    before: str
    report: str


@dataclass(frozen=True)
class QuarantinedBoard:
    """A quarantined board, with reason and start; `now` is its state when the page is made, if known."""

    board: str
    where: str
    reason: str
    since: str
    now: str = ""


@dataclass(frozen=True)
class OutcomeCount:
    """The number of entries with one outcome."""

    tone: str
    sign: str
    word: str
    number: int


@dataclass(frozen=True)
class NightView:
    """A night on a page: the headline, the changes, the grid and every entry."""

    name: str
    page: str
    when: str
    took: str
    state: str
    tone: str
    headline: str
    file: str
    first: bool
    counts: tuple[OutcomeCount, ...]
    changed: tuple[ChangeRow, ...]
    still_wrong: tuple[ChangeRow, ...]
    unsettled: tuple[ChangeRow, ...]
    quarantined: tuple[QuarantinedBoard, ...]
    models: tuple[str, ...]
    rows: tuple[BoardRow, ...]

    @property
    def running(self) -> bool:
        """Return whether the night may still change."""
        return self.state != "ended"

    @property
    def entries(self) -> tuple[EntryView, ...]:
        """All of the grid, board by board."""
        return tuple(shown for row in self.rows for cell in row.cells for shown in cell)

    @property
    def retries(self) -> int:
        """Attempts after the first, of all entries."""
        return sum(max(0, len(shown.attempts) - 1) for shown in self.entries)


def night_view(
    night: Night, past: Past, open_since: OpenSince, context: Context, *, first: bool, running: bool
) -> NightView:
    """Return the view of the night after `past`; `open_since` are the states after it.

    The `first` night has no earlier one, and only a `running` night may change.
    """
    state = "ended" if night.ended_s is not None else "runs now" if running else "never ended"
    shown = {entry.number: _shown(night, entry, context) for entry in night.entries}
    return NightView(
        name=night.name,
        page=link("nights", f"{file_name(night.name)}.html"),
        when=day(night.began_s),
        took=duration(_last_s(night) - night.began_s),
        state=state,
        tone=_tone(night),
        headline=_headline(night, state),
        file=night.file,
        first=first,
        counts=_counts(night),
        changed=tuple(_changed(one, night, context) for one in past.changes(night)),
        still_wrong=_still_wrong(past, night, context),
        unsettled=_unsettled(night, past, open_since, context),
        quarantined=_quarantined(night, past, open_since, context),
        models=tuple(dict.fromkeys(entry.model for entry in night.entries)),
        rows=_rows(night, shown, context),
    )


def _last_s(night: Night) -> float:
    """Return the end of the night, or the last end of an attempt."""
    ends = [one.ended_s for result in night.results.values() for one in result.attempts]
    return night.ended_s if night.ended_s is not None else max([night.began_s, *ends])


def _ended(night: Night) -> list[tuple[Entry, Ending]]:
    return [(one, night.ending(one)) for one in night.entries if has_ended(night, one)]


def _tone(night: Night) -> str:
    """Return the colour of the worst unexpected outcome."""
    found = _surprises(night)
    if found["bad"]:
        return "bad"
    if found:
        return "unsure"
    tones = {TONES[ending.outcome] for _, ending in _ended(night)}
    if "bound" in tones:
        return "bound"
    return "idle" if not tones else "measured" if tones == {"measured"} else "good"


def _surprises(night: Night) -> Counter[str]:
    """Count the entries that did not end as expected, by colour."""
    return Counter(_colour(entry, ending) for entry, ending in _ended(night) if ending.outcome is not entry.expect)


def _colour(entry: Entry, ending: Ending) -> str:
    """Return the colour of an outcome; only an unexpected verdict is highlighted."""
    tone = TONES[ending.outcome]
    if ending.outcome is entry.expect:
        return tone if tone in {"good", "bound", "measured"} else "expected"
    return "bad" if ending.outcome.final else tone


def _headline(night: Night, state: str) -> str:
    ended = _ended(night)
    found = _surprises(night)
    told = [f"{found[tone]:,} {word}" for tone, word in SURPRISES.items() if found[tone]]
    of = plural(len(night.entries), "entry", "entries")
    if state == "ended":
        return f"{', '.join(told)} of {of}" if told else f"All as expected: {of}"
    so_far = ", ".join(told) or "all as expected"
    return f"{len(ended):,} of {of} ended, {so_far} so far"


def _counts(night: Night) -> tuple[OutcomeCount, ...]:
    """Count the outcomes, in their order; entries that may still run are counted separately."""
    ended = _ended(night)
    counter = Counter(ending.outcome for _, ending in ended)
    counts = [OutcomeCount(TONES[one], SIGNS[TONES[one]], one.value, counter[one]) for one in Outcome if counter[one]]
    waiting = len(night.entries) - len(ended)
    return (*counts, OutcomeCount("idle", SIGNS["idle"], "not yet", waiting)) if waiting else tuple(counts)


def _ending(night: Night, entry: Entry) -> Ending:
    begun = night.begun.get(entry.number)
    if begun and night.ended_s is None:
        retry = f", attempt {len(begun.attempts) + 1}" if begun.attempts else ""
        return Ending(Outcome.NOT_RUN, f"begun{retry}")
    return night.ending(entry)


def _shown(night: Night, entry: Entry, context: Context) -> EntryView:
    ending = _ending(night, entry)
    result = night.results.get(entry.number)
    begun = night.begun.get(entry.number)
    attempts = (result or begun).attempts if result or begun else ()  # type: ignore[union-attr] # one is there
    waiting = result is None and night.ended_s is None
    return EntryView(
        tone=_colour(entry, ending),
        sign=SIGNS[TONES[ending.outcome]],
        word=ending.reason if waiting else str(ending),
        entry=" ".join(filter(None, (entry.items, *entry.options))),
        action=entry.action,
        board=entry.board,
        where=context.where(entry.board),
        model=entry.model,
        note=_note(entry, attempts, "" if waiting else ending.outcome),
        reason="" if waiting else ending.reason,
        attempts=tuple(f"{one.ending}: {one.ending.reason}, {duration(one.ended_s - one.began_s)}" for one in attempts),
        report=context.reports.get(result.run, "") if result else "",
    )


def _note(entry: Entry, attempts: Sequence[Attempt], outcome: str) -> str:
    """Return duration, retries, and an unusual expectation; `outcome` is empty until the entry has ended."""
    took = [duration(attempts[-1].ended_s - attempts[0].began_s)] if attempts and outcome else []
    again = [retries(len(attempts) - 1)] if len(attempts) > 1 else []
    wish = "as expected" if outcome == entry.expect else f"expected {entry.expect}"
    return ", ".join([*took, *again, *([wish] if outcome and not entry.expect.good else [])])


def _rows(night: Night, shown: Mapping[int, EntryView], context: Context) -> tuple[BoardRow, ...]:
    models = list(dict.fromkeys(entry.model for entry in night.entries))
    cells: dict[tuple[str, str], list[EntryView]] = {}
    for entry in night.entries:
        cells.setdefault((entry.board, entry.model), []).append(shown[entry.number])
    return tuple(
        BoardRow(
            board,
            context.where(board),
            board_page(board),
            night.boards[board].quarantined if board in night.boards else "",
            tuple(tuple(cells.get((board, model), ())) for model in models),
        )
        for board in sorted({entry.board for entry in night.entries})
    )


def board_page(board: str) -> str:
    """Return the address of a board's page."""
    return link("boards", f"{file_name(board)}.html")


def _quarantined(night: Night, past: Past, open_since: OpenSince, context: Context) -> tuple[QuarantinedBoard, ...]:
    """Return the quarantined boards, including those that were not checked again."""
    found = {name: health.quarantined for name, health in night.boards.items() if health.quarantined}
    for name, (last, why) in past.unchecked(night).items():
        found[name] = f"{why} (on {context.day(last)}, not checked since)"
    return tuple(
        QuarantinedBoard(name, context.where(name), why, context.day(open_since.quarantined[name]))
        for name, why in sorted(found.items())
    )


def _still_wrong(past: Past, night: Night, context: Context) -> tuple[ChangeRow, ...]:
    """Return the entries that are still wrong."""
    news = {change.entry.key for change in past.changes(night) if change.entry and change.kind not in UNSURE}
    found = (one for one in past.still_wrong(night) if one.entry.key not in news)
    return tuple(
        ChangeRow(
            "bad",
            "still wrong",
            _what(one.entry),
            context.where(one.entry.board),
            one.told,
            one.reason,
            "; ".join(filter(None, (f"since {context.day(one.since)}", one.now))),
            _report(one.entry, night, context),
        )
        for one in found
    )


def _unsettled(night: Night, past: Past, open_since: OpenSince, context: Context) -> tuple[ChangeRow, ...]:
    """Return the entries still without a verdict that are not in another list of the page."""
    told = {change.entry.key for change in past.changes(night) if change.entry}
    told |= {one.entry.key for one in past.still_wrong(night)}
    ill = {name for name, health in night.boards.items() if health.quarantined}
    found = [entry for entry in night.entries if has_ended(night, entry) and is_unsettled(night, entry)]
    return tuple(
        _lasting(entry, night, open_since, context)
        for entry in found
        if entry.key not in told and (night.ending(entry).outcome is not Outcome.NOT_RUN or entry.board not in ill)
    )


def _lasting(entry: Entry, night: Night, open_since: OpenSince, context: Context) -> ChangeRow:
    ending = night.ending(entry)
    return ChangeRow(
        "unsure",
        f"still {ending.outcome}",
        _what(entry),
        context.where(entry.board),
        str(ending),
        ending.reason,
        f"since {context.day(open_since.unsettled.get(entry.key, night.name))}",
        _report(entry, night, context),
    )


def _what(entry: Entry) -> str:
    words = (entry.board, PurePath(entry.model).name, entry.action, entry.items, *entry.options)
    return " ".join(filter(None, words))


def _report(entry: Entry | None, night: Night, context: Context) -> str:
    """Return the address of the report of an entry's run in that night."""
    result = night.results.get(entry.number) if entry and entry in night.entries else None
    return context.reports.get(result.run, "") if result else ""


def _changed(change: Change, night: Night, context: Context) -> ChangeRow:
    when = context.days.get(change.since)
    before = f"was {change.before} on {when}" if when else "for the first time"
    tone = "good" if change.kind.good else "unsure" if change.kind in UNSURE else "bad"
    report = _report(change.entry, night, context)
    what = _what(change.entry) if change.entry else change.board
    expected = change.entry.expect if change.entry else change.now
    now = change.now if change.now == expected else f"{change.now}, expected {expected}"
    where = context.where(change.board)
    return ChangeRow(tone, change.kind.value, what, where, now, change.reason, before, report)
