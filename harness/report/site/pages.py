"""All pages of the site: index, one for each night and board, all runs, the mutation table."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markupsafe import Markup

from harness import __version__
from harness.core.text import duration
from harness.report.page import environment, label_cells, script
from harness.report.site import files
from harness.report.site.files import Page, Written
from harness.report.site.labels import SIGNS, day, moment, tone
from harness.report.site.nights import Context, NightView, OpenSince, QuarantinedBoard, board_page, night_view
from harness.report.site.source import LabContent, OutOfUse, QuarantineState
from harness.report.site.trends import TrendView, trend_view
from harness.runs.facts import clean
from harness.runs.history.night_record import LATEST_S
from harness.runs.history.nights import Past
from harness.runs.history.run_record import Run
from harness.runs.history.trend import trends

LATEST = 20  # runs on the index
MOST_DRAWN = 6  # trends on the index
MOST_POINTS = 60  # of a trend
PER_PAGE = 500  # runs
BOARD_RUNS = 50
SCRIPT = "tables.js"


@dataclass(frozen=True)
class RunRow:
    """A run in a table; `reports` are the addresses of its files by their names."""

    run: Run
    tone: str
    reports: Mapping[str, str]

    @property
    def page(self) -> str:
        """The page of the board; empty if the board is unknown."""
        return board_page(self.run.board) if self.run.board else ""

    @property
    def took(self) -> str:
        """The duration of the run; empty if it is unknown."""
        return duration(self.run.wall_s) if self.run.wall_s is not None else ""


@dataclass(frozen=True)
class Site:
    """Facts that every page needs: `root` leads from it to the index."""

    root: str
    mutation: bool
    refresh_s: int | None


def build(folder: Path, lab: LabContent, *, refresh_s: int | None = None) -> Written:
    """Bring the site in `folder` up to date; while a night runs, its pages are reloaded after `refresh_s`.

    RequestError for a folder that has other files or cannot be written.
    """
    with files.owned(folder):
        reports, copied = files.copy_reports(lab.folder, folder, lab.runs)
        pages = list(_pages(lab, reports, refresh_s))
        written, kept = files.write_pages(folder, pages, _render, _version())
        removed = files.remove_vanished(folder, [page.path for page in pages], reports)
    return Written(written, kept, copied, removed)


def _render(page: Page, made_of: str) -> str:
    found = _templates().get_template(page.template).render(page=page.view, made_of=made_of, script=script(SCRIPT))
    return label_cells(found)


@cache
def _templates() -> Environment:
    """Return the templates of the reports; they also remove invisible characters from every text."""
    found = environment().overlay(finalize=lambda value: clean(value) if type(value) is str else value)
    found.filters = found.filters | {"address": _address, "sign": SIGNS.get}
    return found


def _address(relative: str, root: str) -> str:
    """Return a link of the site relative to a page; an empty one stays empty."""
    return f"{root}{relative}" if relative else ""


@cache
def _version() -> str:
    """Return the version of the templates and of harness."""
    loader = environment().loader
    assert loader is not None  # noqa: S101 - environment() has one
    names = [name for name in loader.list_templates() if re.match(r"site|chart|style|colours|tables", name)]
    sources = "".join(loader.get_source(environment(), name)[0] for name in names)
    return f"{__version__} {hashlib.sha256(sources.encode()).hexdigest()}"


def _pages(lab: LabContent, reports: Mapping[str, Mapping[str, str]], refresh_s: int | None) -> Iterator[Page]:
    context = _context(lab, reports)
    nights = _night_views(lab, context)
    lines = tuple(
        RunRow(run, "bad" if run.differs_so_far else tone(run.verdict), reports.get(run.name, {})) for run in lab.runs
    )
    courses = tuple(trend_view(trend) for trend in trends(lab.runs, MOST_POINTS))
    below, above = (Site(root, bool(lab.mutation), None) for root in ("../", ""))
    yield Page("index.html", "site_index.html.jinja", _index(lab, context, nights, lines, courses, above, refresh_s))
    yield from _night_pages(nights, below, refresh_s)
    yield from _board_pages(nights, lines, courses, below)
    yield from _run_pages(lines, lab.since, above)
    if lab.mutation:
        yield Page("mutation.html", "site_mutation.html.jinja", {"site": above, "text": markdown(lab.mutation)})


def _context(lab: LabContent, reports: Mapping[str, Mapping[str, str]]) -> Context:
    """Gather facts about boards, reports and nights; the latest run of a board gives its kind."""
    kinds = {run.board: run.kind for run in reversed(lab.runs) if run.kind}
    pages = {name: files["report.html"] for name, files in reports.items() if "report.html" in files}
    return Context(
        kinds, pages, {night.name: f"{moment(night.began_s).day} {moment(night.began_s):%B}" for night in lab.nights}
    )


def _night_views(lab: LabContent, context: Context) -> tuple[NightView, ...]:
    """Return the nights, the latest first."""
    past, open_since = Past(), OpenSince()
    night_views: list[NightView] = []
    for night in lab.nights:
        running, open_since = lab.running and night is lab.nights[-1], open_since.after(night)
        night_views.append(night_view(night, past, open_since, context, first=not night_views, running=running))
        past.add(night)
    return tuple(night_views[::-1])


def _index(
    lab: LabContent,
    context: Context,
    nights: tuple[NightView, ...],
    lines: tuple[RunRow, ...],
    courses: tuple[TrendView, ...],
    site: Site,
    refresh_s: int | None,
) -> dict[str, Any]:
    last = nights[0] if nights else None
    live = dataclasses.replace(site, refresh_s=refresh_s if last and last.state == "runs now" else None)
    moved = [one for one in courses if one.moved and one.charts]
    drawn = moved or [one for one in courses if one.charts] * (len(courses) <= MOST_DRAWN)
    before = tuple(dataclasses.replace(one, rows=()) for one in nights[1:])
    absent = _absent(last.quarantined if last else (), lab.quarantine, context)
    return {
        "site": live,
        "last": last,
        "newer": _newer(lab, lines),
        "absent": absent,  # boards out of use now
        "seen": day(lab.quarantine.seen_s) if absent and lab.quarantine else "",  # when the locks were read
        "before": before,
        "unreadable": lab.unreadable,
        "latest": lines[:LATEST],
        "drawn": drawn[:MOST_DRAWN],
        "courses": [dataclasses.replace(one, charts=()) for one in courses],
        "runs": len(lines),
        "runs_page": run_page(_count_pages(lines)),
        "since": lab.since,
    }


def _newer(lab: LabContent, lines: Sequence[RunRow]) -> tuple[RunRow, ...]:
    """Return the bad runs outside the latest night since its start, except those that a later run corrected."""
    if not lab.nights:
        return ()
    night = lab.nights[-1]
    own, since = {result.run for result in night.results.values()}, f"{moment(night.began_s):%Y-%m-%dT%H:%M:%SZ}"
    latest: dict[tuple[str, ...], RunRow] = {}
    for line in lines:
        if line.run.name not in own and line.run.started >= since:
            latest.setdefault((line.run.board, line.run.model, line.run.action), line)
    return tuple(line for line in latest.values() if line.tone == "bad")


def _absent(
    found: Sequence[QuarantinedBoard], quarantine: QuarantineState | None, context: Context
) -> tuple[QuarantinedBoard, ...]:
    """Return the boards that the night quarantined, with their current state, and then other quarantined boards."""
    if quarantine is None:
        return tuple(found)
    now = {one.board: one for one in quarantine.out_of_use}
    rows = [dataclasses.replace(one, now=_now(one, now.get(one.board), quarantine)) for one in found]
    others = sorted(now.keys() - {one.board for one in found})
    return (*rows, *(_put_out(now[name], context) for name in others))


def _now(found: QuarantinedBoard, now: OutOfUse | None, quarantine: QuarantineState) -> str:
    if now is None:
        return "no longer quarantined" if found.board in quarantine.boards else ""
    return "still quarantined" if now.reason in found.reason else f"still quarantined: {now.reason}"


def _put_out(now: OutOfUse, context: Context) -> QuarantinedBoard:
    since = day(now.since_s) if 0 <= now.since_s < LATEST_S else ""  # this value may come from another user
    state = f"quarantined by {now.by}, not by a night on this page"
    return QuarantinedBoard(now.board, context.where(now.board), now.reason, since, state)


def _night_pages(nights: Sequence[NightView], site: Site, refresh_s: int | None) -> Iterator[Page]:
    for at, one in enumerate(nights):
        later, earlier = (nights[near].page if 0 <= near < len(nights) else "" for near in (at - 1, at + 1))
        own = dataclasses.replace(site, refresh_s=refresh_s if one.state == "runs now" else None)
        view = {"site": own, "night": one, "previous": earlier, "next": later}
        yield Page(one.page, "site_night.html.jinja", view)


def _board_pages(
    nights: Sequence[NightView], lines: Sequence[RunRow], courses: Sequence[TrendView], site: Site
) -> Iterator[Page]:
    runs: dict[str, list[RunRow]] = {}
    for line in lines:
        runs.setdefault(line.run.board, []).append(line)
    boards = {*runs, *(row.board for one in nights for row in one.rows)} - {""}
    for board in sorted(boards):
        own = runs.get(board, [])
        view = {
            "site": site,
            "board": board,
            "where": next((line.run.kind for line in own if line.run.kind), ""),
            "soc": next((line.run.soc for line in own if line.run.soc), ""),
            "courses": [one for one in courses if one.board == board],
            "runs": own[:BOARD_RUNS],
            "quarantined": [
                (one.when, one.page, out.reason) for one in nights for out in one.quarantined if out.board == board
            ],
        }
        yield Page(board_page(board), "site_board.html.jinja", view)


def _run_pages(lines: Sequence[RunRow], since: str, site: Site) -> Iterator[Page]:
    """Yield pages filled from the oldest run on, so that a full page does not change."""
    oldest_first = lines[::-1]
    count = _count_pages(lines)
    for number in range(1, count + 1):
        own = tuple(oldest_first[(number - 1) * PER_PAGE : number * PER_PAGE][::-1])
        view = {
            "site": site,
            "number": number,
            "oldest": number == 1,
            "latest": number == count,
            "lines": own,
            "since": since,
        }
        yield Page(run_page(number), "site_runs.html.jinja", view)


def _count_pages(lines: Sequence[RunRow]) -> int:
    return max(1, -(-len(lines) // PER_PAGE))


def run_page(number: int) -> str:
    """Return the address of a page of runs, from 1 for the oldest."""
    return f"runs-{number}.html"


def markdown(text: str) -> Markup:
    """Return the HTML of a Markdown text: HTML in it is escaped, and links and images keep only their text."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    rules = {"link_open": "", "link_close": "", "table_open": '<div class="scroll"><table>\n'}
    rules["table_close"] = "</table></div>\n"
    for name, tag in rules.items():
        parser.add_render_rule(name, lambda *_, tag=tag: tag)
    parser.add_render_rule("image", lambda _, tokens, index, *__: escapeHtml(tokens[index].content))
    return Markup(parser.render(clean(text)))  # noqa: S704 - the parser escapes
