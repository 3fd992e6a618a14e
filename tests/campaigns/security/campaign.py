"""Hostile inputs by the thousand, each door's in a process of its own that may die of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.installation import ROOT
from tests.campaigns.security.worker import LIMIT_S

POLL_S = 0.05
START_S = 60.0  # to import, and to read an honest input


@dataclass
class Outcome:
    """What has become of a door's inputs: how many were accepted and refused, which went further than they may."""

    door: str
    endings: Counter[str] = field(default_factory=Counter)
    holes: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    peak_mib: int = 0
    planted: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """How many."""
        return sum(self.endings.values())

    def __add__(self, other: Outcome) -> Outcome:
        """Both parts of a door's inputs as one."""
        return Outcome(
            self.door,
            self.endings + other.endings,
            self.holes + other.holes,
            max(self.longest_s, other.longest_s),
            max(self.peak_mib, other.peak_mib),
            self.planted + other.planted,
        )


def attack(door: str, first: int, count: int, scratch: Path) -> Outcome:
    """Inputs first to first + count; a process that dies or hangs is a hole, and the next goes on behind it."""
    found = Outcome(door)
    scratch.mkdir(parents=True, exist_ok=True)
    end = first + count
    while first < end:
        first = _some(found, first, end, scratch)
    found.planted = sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*pwned*"))
    return found


def _some(found: Outcome, first: int, end: int, scratch: Path) -> int:
    """As many as one process reads; gives the number of the next."""
    now = scratch / "now"
    now.write_text(str(first))
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.campaigns.security.worker",
        found.door,
        str(first),
        str(end - first),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with (scratch / "said").open("w") as said:
        process = subprocess.Popen([*command, str(scratch)], stdout=said, stderr=subprocess.STDOUT, env=environment)
        hung = _wait(process, now)
    lines = (scratch / "said").read_text().splitlines()
    _take(found, [json.loads(line) for line in lines if line.startswith("{")])
    if process.returncode == 0:
        return end
    at = int(now.read_text())
    reason = "it hung" if hung else f"the process ended with {process.returncode}: {' '.join(lines[-1:])}"
    found.holes.append(f"input {at}: {reason}")
    found.endings["hole"] += 1
    return at + 1


def _wait(process: subprocess.Popen[bytes], now: Path) -> bool:
    """Until it ends; whether it had to be killed, as one input took too long even for its own alarm."""
    seen, since_s, allowed_s = now.stat().st_mtime_ns, time.monotonic(), START_S
    while process.poll() is None:
        time.sleep(POLL_S)
        if now.stat().st_mtime_ns != seen:
            seen, since_s, allowed_s = now.stat().st_mtime_ns, time.monotonic(), 3 * LIMIT_S
        if time.monotonic() - since_s > allowed_s:
            process.kill()
            process.wait()
            return True
    return False


def _take(found: Outcome, said: list[dict[str, object]]) -> None:
    """What a process has told; of one that died only its holes are known."""
    for line in said:
        if "hole" in line:
            found.holes.append(f"input {line['hole']}: {line['what']} ({line['where']})")
        else:
            found.endings.update(line["endings"])  # type: ignore[arg-type]
            found.longest_s = max(found.longest_s, float(line["longest_s"]))  # type: ignore[arg-type]
            found.peak_mib = max(found.peak_mib, int(line["peak_mib"]))  # type: ignore[call-overload]
