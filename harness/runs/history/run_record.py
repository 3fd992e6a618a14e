"""The flat record of one run folder, and the stamp that changes with it.

The reader of folders, `harness.runs.history.run`, is a separate module because it imports all document models, and
most commands find the records in the index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from harness.core.outcome import Outcome
from harness.runs import ATTEMPTS, DOCUMENT, REQUEST


class State(StrEnum):
    """Completion of a run."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Part:
    """The numbers of a measured part, in the run's unit; quantiles that the sample is too small for are None."""

    name: str
    minimum: float
    median: float | None
    p99: float | None
    p999: float | None
    p9999: float | None
    maximum: float

    @property
    def jitter(self) -> float:
        """Return the difference between the slowest and the fastest execution."""
        return self.maximum - self.minimum


@dataclass(frozen=True)
class Run:
    """A run folder; unknown texts are empty, unknown numbers None.

    `verdict` is that of `run.json`; for an unfinished run it is `inconclusive` if a `part` failed, otherwise its state.
    `targets` are those of the items, `items` also state where each ran.  `met` holds if the numbers of `parts` are
    measured execution times of the board's hardware; otherwise `not_met` is the reason.  The first of the parts
    represents the whole: the largest median of times, or the sum of counts; `headline` is the same as text.
    """

    name: str
    state: State
    verdict: str
    reason: str = ""
    part: str = ""
    differs_so_far: bool = False
    action: str = ""
    board: str = ""
    kind: str = ""
    soc: str = ""
    model: str = ""
    model_sha256: str = ""
    targets: str = ""
    items: str = ""
    differing: str = ""
    vectors: int | None = None
    compiler: str = ""
    flags: str = ""
    bundle_sha256: str = ""
    stimuli_sha256: str = ""
    content_sha256: str = ""
    harness: str = ""
    onnxruntime: str = ""
    kernel: str = ""
    started: str = ""
    wall_s: float | None = None
    attempts: int = 0
    quantity: str = ""
    unit: str = ""
    scope: str = ""
    load: str = ""
    samples: int | None = None
    met: bool = False
    not_met: str = ""
    headline: str = ""
    parts: tuple[Part, ...] = field(default=())

    @property
    def emulated(self) -> bool:
        """Return whether the run did not use hardware of the board."""
        return self.kind == "emulated"

    @property
    def ending(self) -> str:
        """Return the verdict with the component that failed, and with differences found before the end of the run."""
        told = f"{self.verdict} ({self.part})" if self.part else self.verdict
        return f"{told}, differs so far" if self.differs_so_far else told

    @property
    def seen(self) -> str:
        """Return the summary of the run: the amount compared or measured, or the reason of the failure."""
        if self.state is not State.FINISHED:
            return self.reason or "not finished: it still runs or was killed"
        if not Outcome(self.verdict).good:
            return self.reason
        if not self.parts:
            return f"{'all claims hold, ' if self.action == 'prove' else ''}{self.vectors:,} vectors"
        return self.headline if self.met or self.unit != "ns" else f"{self.headline}, not MET"


def stamp(folder: Path) -> str:
    """Return a value that changes with the folder's record; empty if it is not a run folder.

    It contains the time of the inode's change, which the kernel sets and an editor cannot set back.
    """
    try:
        found = (folder / DOCUMENT).lstat()
    except OSError:
        return _stamp_unfinished(folder)
    return f"{found.st_ctime_ns}-{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"


def _stamp_unfinished(folder: Path) -> str:
    """Return the stamp of an unfinished run: attempts, request, and chunks, which are renamed into place."""
    times = [_changed_ns(folder / name) for name in (REQUEST, ATTEMPTS, "chunks", "proof.json")]
    return "/".join(map(str, times)) if any(times[:2]) else ""


def _changed_ns(path: Path) -> int:
    try:
        return path.lstat().st_ctime_ns
    except OSError:
        return 0
