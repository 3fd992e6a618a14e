"""Health check of a board, in one session that leaves nothing on the board.

A check fails if its finding prevents a run.  Other findings are only reported: a wrong clock, files of former runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from harness.boards.locks.ticket import printable
from harness.boards.session import Board
from harness.boards.work_folder import WorkFolderRefused
from harness.core.errors import BoardError, InfrastructureError

LOOK_S = 20.0
TOOLS = (
    *("sh", "cat", "tar", "sha256sum", "mkdir", "ls", "id", "cp", "rm", "mv", "chmod", "find", "wc", "tr", "head"),
    *("uname", "date"),
)
"""Programs that a run calls on the board, besides its own."""

LEAST_DISK_MIB = 16
LEAST_MEMORY_MIB = 32
CLOCK_OFF_S = 60.0

# $1: the work folder, $2...: tools.  Every line of the answer begins with its topic.
LOOK = r"""
work=$1
shift
for tool; do command -v "$tool" >/dev/null 2>&1 || echo "missing $tool"; done
{ echo fit >"$work/.check.$$" && rm -- "$work/.check.$$" && echo "written $work"; } 2>&1
df -Pk -- "$work" 2>/dev/null | while read -r line; do echo "disk $line"; done
while read -r line; do echo "memory $line"; done </proc/meminfo
echo "clock $(date +%s)"
for kind in runs bundles; do
    for path in "$work/$kind"/*; do [ ! -e "$path" ] || echo "left $kind"; done
done
echo "used $(du -sk -- "$work" 2>/dev/null)"
"""

# $1: the work folder, $2: days.  Prints the number of removed folders.
CLEAN = r"""
find "$1/runs" "$1/bundles" -mindepth 1 -maxdepth 1 -mtime "+$2" -print -exec rm -rf {} + 2>/dev/null | wc -l
"""


@dataclass(frozen=True)
class Check:
    """One check; a check that is not `ok` makes the board unfit."""

    name: str
    ok: bool
    text: str


@dataclass(frozen=True)
class Health:
    """Result of a check of `board`.

    `part`, one of harness.core.outcome.PARTS, is the failed part, with its `reason` and a `hint`.  `in_use` names the
    user of a board that is in use; of such a board, only the SSH server is checked.
    """

    board: str
    checks: tuple[Check, ...]
    part: str = ""
    reason: str = ""
    in_use: str = ""
    hint: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the board is fit for work."""
        return not self.reason


def unreachable(board: str, error: InfrastructureError, found: tuple[Check, ...] = ()) -> Health:
    """Return the result for a board that cannot be checked."""
    name = "work folder" if isinstance(error, WorkFolderRefused) else "reachable"
    return Health(board, (*found, Check(name, False, error.message)), error.part, error.message, hint=error.hint)


def conclude(board: str, checks: tuple[Check, ...], in_use: str = "") -> Health:
    """Return the result for a board that answered; the failed checks are the reason."""
    failed = "; ".join(f"{check.name}: {check.text}" for check in checks if not check.ok)
    return Health(board, checks, BoardError.part if failed else "", failed, in_use)


def with_check(found: Health, check: Check) -> Health:
    """Return the health with one more check, which makes the board unfit if it fails."""
    if check.ok:
        return replace(found, checks=(*found.checks, check))
    reason = "; ".join(filter(None, (found.reason, f"{check.name}: {check.text}")))
    return replace(found, checks=(*found.checks, check), part=found.part or BoardError.part, reason=reason)


def look(board: Board, work: PurePosixPath) -> tuple[Check, ...]:
    """Run all checks in one round trip; `work` is the folder that runs fill.  BoardError if the board cannot answer."""
    began_s = time.time()
    done = board.run(["sh", "-c", LOOK, "sh", str(work), *TOOLS], LOOK_S)
    now_s = (began_s + time.time()) / 2
    if done.status != 0:
        said = printable(done.stderr.decode(errors="replace"))
        raise BoardError(f"the board's shell fails (exit status {done.status}): {said}")
    answer = _answer(done.stdout.decode(errors="replace"))
    return (
        Check("reachable", True, "a session opens and its shell works"),
        _tools(answer),
        _writable(answer, work),
        *_room(answer),
        _clock(answer, now_s),
        _left(answer, work),
    )


def clean(board: Board, work: PurePosixPath, days: int) -> Check:
    """Remove the files of runs older than `days`; call it only while no run uses the board."""
    done = board.run(["sh", "-c", CLEAN, "sh", str(work), str(days)], LOOK_S)
    removed = printable(done.stdout.decode(errors="replace")) or "0"
    return Check("removed", True, f"{removed} runs and bundles older than {days} days")


def _answer(text: str) -> Mapping[str, list[str]]:
    """Return the lines of the answer by topic; other lines are messages of a failed tool."""
    answer: dict[str, list[str]] = {}
    for line in text.splitlines():
        topic, _, rest = line.partition(" ")
        known = topic in {"missing", "written", "disk", "memory", "clock", "left", "used"}
        answer.setdefault(topic if known else "", []).append(rest if known else line)
    return answer


def _tools(answer: Mapping[str, list[str]]) -> Check:
    missing = [tool for tool in TOOLS if tool in answer.get("missing", [])]
    return Check("tools", not missing, f"missing: {', '.join(missing)}" if missing else f"all {len(TOOLS)} are there")


def _writable(answer: Mapping[str, list[str]], work: PurePosixPath) -> Check:
    if "written" in answer:
        return Check("work folder", True, f"{work} takes files")
    return Check(
        "work folder", False, f"{work} takes no files: {printable(' '.join(answer.get('', ['no reason given'])))}"
    )


def _room(answer: Mapping[str, list[str]]) -> Iterator[Check]:
    disk = re.search(r"\s\d+\s+\d+\s+(\d+)\s+\d+%\s", f"{answer.get('disk', [''])[-1]} ")
    yield _enough("free disk", disk and int(disk[1]), LEAST_DISK_MIB)
    memory = re.search(r"^MemAvailable:\s*(\d+) kB$", "\n".join(answer.get("memory", [])), re.MULTILINE)
    yield _enough("free memory", memory and int(memory[1]), LEAST_MEMORY_MIB)


def _enough(name: str, found_kib: int | None, least_mib: int) -> Check:
    if found_kib is None:
        return Check(name, True, "the board does not report it")
    enough = found_kib >= least_mib * 1024
    return Check(
        name, enough, f"{found_kib >> 10:,} MiB" + ("" if enough else f", at least {least_mib} MiB are needed")
    )


def _clock(answer: Mapping[str, list[str]], now_s: float) -> Check:
    clock_s = answer.get("clock", [""])[0]
    if not re.fullmatch(r"\d{1,12}", clock_s):
        return Check("clock", True, "the board does not report its time")
    off_s = int(clock_s) - now_s
    if abs(off_s) < CLOCK_OFF_S:
        return Check("clock", True, "agrees with this machine's")
    return Check("clock", True, f"{abs(off_s):,.0f} s {'ahead of' if off_s > 0 else 'behind'} this machine's: set it")


def _left(answer: Mapping[str, list[str]], work: PurePosixPath) -> Check:
    left = answer.get("left", [])
    size = re.match(r"\d+", answer.get("used", [""])[0])
    used = f", {int(size[0]) >> 10:,} MiB in all of {work}" if size else ""
    return Check("leftovers", True, f"{left.count('runs')} of runs, {left.count('bundles')} bundles{used}")
