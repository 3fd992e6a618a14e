"""One process that reads hostile inputs, with little memory and little time for each.

`python -m tests.campaigns.security.worker DOOR FIRST COUNT SCRATCH`: prints JSON lines; `SCRATCH/now` has the number of
the input that it works on, for whoever finds the process dead.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

import numpy as np

from tests.campaigns.security.entry_points import BROKEN, DOORS, Door, enter, spoilt

LIMIT_S = 10.0
MEMORY_BYTES = 1 << 30  # more than the process has before the first input


class Overdue(BaseException):
    """An input took longer than LIMIT_S."""


def main(name: str, first: str, count: str, scratch: str) -> None:
    """Read inputs FIRST to FIRST + COUNT."""
    folder, door = Path(scratch), (DOORS | BROKEN)[name]
    os.chdir(folder)
    endings: Counter[str] = Counter()
    longest_s = 0.0
    enter(door, door.honest()[0], folder)  # imports what it needs
    _limit_memory()
    signal.signal(signal.SIGALRM, _overdue)
    for number in range(int(first), int(first) + int(count)):
        (folder / "now").write_text(str(number))
        began_s = time.monotonic()
        ending = _attempt(door, name, number, folder)
        longest_s = max(longest_s, time.monotonic() - began_s)
        endings[ending] += 1
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    _tell(endings=endings, longest_s=longest_s, peak_mib=peak_mib)


def content(door: Door, name: str, number: int) -> bytes:
    """Input `number` of a door."""
    return spoilt(door, np.random.default_rng([number, *name.encode()]))


def _attempt(door: Door, name: str, number: int, folder: Path) -> str:
    given = content(door, name, number)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        return enter(door, given, folder)
    except (Exception, Overdue) as error:  # noqa: BLE001 - whatever it is, it is found
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        _tell(hole=number, what=f"{type(error).__name__}: {str(error)[:300]}", where=where)
        return "hole"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _tell(**told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _overdue(_signal: int, _frame: FrameType | None) -> None:
    raise Overdue(f"more than {LIMIT_S:g} s")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main(*sys.argv[1:])
