"""Forgeries of form, reports and times: a file says two things, a report another, or times contradict each other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from harness.runs.verification.folder import RUN
from tests.campaigns.forgeries.forger import (
    REQUEST,
    Change,
    Document,
    all_of,
    edit,
    in_attempts,
    in_file,
    in_run,
    in_text,
    rehash,
)
from tests.campaigns.forgeries.forgery import files_of, forgeries

EARLY, LATER, NEVER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:04Z", "2236-01-01T00:00:00Z"


def twice(name: str, key: str, value: str) -> Change:
    """Return a change after which a JSON file has a key twice."""
    return in_text(name, "{", f'{{"{key}": "{value}",')


def approve(document: Document) -> None:
    """Add an entry that nobody knows."""
    document["approved"] = True


def link(folder: Path) -> None:
    """Put a link in the place of a file."""
    target = folder.parent / f"{folder.name}.log"
    shutil.move(folder / "log.txt", target)
    (folder / "log.txt").symlink_to(target)


def certify(folder: Path) -> None:
    """Add a file."""
    (folder / "certificate.txt").write_text("all is well", encoding="utf-8")


def times(started: str, finished: str, wall_s: float) -> Change:
    """Return a change of all times of a run that was tried once; they fit each other as far as they can."""

    def of_run(run: Document) -> None:
        run.update(started=started, finished=finished, wall_s=wall_s)
        run["attempts"][-1]["began"] = started
        run["vectors_per_s"] = round(run["stimuli"]["count"] / wall_s, 1)

    def of_attempts(lines: list[Document]) -> None:
        lines[0]["began"] = started

    return all_of(in_run(of_run), in_attempts(of_attempts))


def attempt_before(began: str) -> Change:
    """Return a change after which an attempt was begun and stopped before the only one."""

    def of_attempts(lines: list[Document]) -> None:
        before = json.loads(json.dumps(lines))
        before[0]["began"] = began
        lines[:0] = [*before, {"stopped": began, "part": "user", "reason": "interrupted"}]

    def of_run(run: Document) -> None:
        said = {"began": began, "part": "user", "reason": "interrupted"}
        run["attempts"].insert(0, json.loads(json.dumps(run["attempts"][0])) | said)

    return all_of(in_attempts(of_attempts), in_run(of_run))


def forget_attempt(folder: Path) -> None:
    """Add an attempt, and leave it out in run.json."""
    attempt_before(EARLY)(folder)
    edit(folder / RUN, lambda run: run["attempts"].pop(0))


to_come = times(NEVER, "2236-01-01T00:00:04Z", 4.0)
late_attempt = in_run(lambda run: run["attempts"][-1].update(began=NEVER))

FORMAT = forgeries(
    "format",
    {
        "an entry that nobody knows": ("run", in_run(approve)),
        "an entry that looks like another": ("run", in_run(lambda run: run.update({"verdict\u200b": "differs"}))),
        "another version": ("run", in_run(lambda run: run.update(schema=99))),
        "request.json says a thing twice": ("run", twice(REQUEST, "kind", "measure")),
        "request.json has an entry that nobody knows": ("run", in_file(REQUEST, approve)),
        "a chunk says a thing twice": ("run", twice("chunks/00000.json", "index", "7")),
        "a chunk has an entry that nobody knows": ("run", in_file("chunks/00000.json", approve)),
        "an attempt has an entry that nobody knows": ("run", in_attempts(lambda lines: approve(lines[0]))),
        "a file is added, and listed": ("run", certify),
        "a link in the place of a file": ("run", link),
    },
)
RAW = forgeries(
    "format",
    {
        "run.json says the verdict twice": ("wrong", twice(RUN, "verdict", "identical")),
        "a file is added": ("run", certify),
        "a file is removed": ("run", lambda folder: (folder / "log.txt").unlink()),
        "the hash of a file": ("run", in_run(lambda run: run["files"].update({"log.txt": "0" * 64}))),
        "a report says another thing": (
            "run",
            all_of(in_text("report.html", "on this machine", "on hardware"), rehash),
        ),
        "a report may load anything": (
            "run",
            all_of(in_text("report.html", "Content-Security-Policy", "X-Nothing"), rehash),
        ),
        "a report has a script": (
            "run",
            all_of(in_text("report.html", "</body>", "<script>x()</script></body>"), rehash),
        ),
        "the report of another run": ("wrong", files_of("run", "report.html", then=rehash)),
        "the test report of another run": ("wrong", files_of("run", "junit.xml", then=rehash)),
    },
    redone=False,
)
TIMES = forgeries(
    "times",
    {
        "a run that is to come": ("run", to_come),
        "it finished before it started": ("run", times(LATER, EARLY, -4.0)),
        "it took less than from begin to end": ("run", times(EARLY, "2026-01-01T01:00:00Z", 4.0)),
        "it was faster": ("run", in_run(lambda run: run.update(vectors_per_s=10**6))),
        "an attempt began after the one that follows": ("run", attempt_before(NEVER)),
        "an attempt is not in run.json": ("run", forget_attempt),
        "the only attempt began after the end": ("run", late_attempt),
    },
)
FORGERIES = [*FORMAT, *RAW, *TIMES]
