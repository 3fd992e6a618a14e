"""The command line and the run folder of each job."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.applications.nightly.matrix import command_line
from harness.applications.nightly.previous_nights import Past
from harness.applications.nightly.schedule import BoardJob, JobKind
from harness.core.safe_io import read_document
from harness.runs.folder import differs_so_far
from harness.runs.history.night_record import Attempt, Entry

CHECK_LIMIT_S = 300.0
"""Limit in seconds of a health check; an emulated board is booted for it."""
CYCLE_LIMIT_S = 900.0
LONGEST_NAME = 200  # of at most 255 bytes of a file name; the number in the name makes it unique
QUEUE_S = 60.0
"""Seconds that an attempt may wait in the queue, in addition to its limit; the holder was not visible before."""

Comparable = Callable[[Entry, Path], bool]
"""Returns whether the measurement in a run folder can be compared with that of the entry."""


@dataclass(frozen=True)
class JobCommand:
    """A command of the night; `run` is the name of its new or resumed run folder, empty if there is none."""

    words: tuple[str, ...]
    limit_s: float
    run: str = ""
    resumes: bool = False


@dataclass(frozen=True)
class JobCommands:
    """Makes the commands of one night."""

    runs: Path
    night: str
    past: Past
    comparable: Comparable

    def of(self, job: BoardJob, left_s: float, tried: Sequence[Attempt]) -> JobCommand:
        """Return the command of a job; `left_s` is the time limit, `tried` are the ended attempts."""
        if job.kind is JobKind.CHECK:
            return JobCommand(("boards", "check", job.board, "--json", "--quarantine"), CHECK_LIMIT_S)
        if job.kind is JobKind.CYCLE:
            return JobCommand(("boards", "cycle", job.board, "--json"), CYCLE_LIMIT_S)
        if job.entry.action == "case":  # it writes nothing, and can be repeated
            words = ("case", "check", *command_line(job.entry), "--json")
            return JobCommand(words, left_s, self.run_of(job.entry))
        if job.entry.action == "measure":
            return self._measure(job.entry, left_s)
        return self._run(job.entry, left_s, tried)

    def _run(self, entry: Entry, left_s: float, tried: Sequence[Attempt]) -> JobCommand:
        """Return the command of a run or a proof, which resumes its folder, or uses a new one after a refusal."""
        refused = sum(attempt.ending.part == "tool" for attempt in tried)  # other failures of a tool are not retried
        run = self.run_of(entry) + (f"_{refused + 1}" if refused else "")
        folder = self.runs / run
        if (folder / "request.json").exists():
            return JobCommand(("run", f"--resume={folder}", "--json"), left_s + QUEUE_S, run, resumes=True)
        shutil.rmtree(folder, ignore_errors=True)  # killed before the run started
        return self._new(entry, left_s, run)

    def _measure(self, entry: Entry, left_s: float) -> JobCommand:
        """Return the command of a measurement; it cannot be resumed, so each attempt has its own folder."""
        first = self.run_of(entry)
        names = (first if count == 1 else f"{first}_{count}" for count in range(1, 10_000))
        run = next(name for name in names if not (self.runs / name).exists())
        return self._new(entry, left_s, run, *self._against(entry))

    def forget(self, entry: Entry, command: JobCommand) -> None:
        """Remove the folder of a measurement that did not get its board, because it is never resumed."""
        folder = self.runs / command.run
        if entry.action == "measure" and differs_so_far(folder) is False:
            shutil.rmtree(folder, ignore_errors=True)

    def _new(self, entry: Entry, left_s: float, run: str, *more: str) -> JobCommand:
        words = (entry.action, *command_line(entry), *more, f"--run-folder={self.runs / run}", "--json")
        return JobCommand(words, left_s + QUEUE_S, run)

    def _against(self, entry: Entry) -> Iterator[str]:
        """Yield the last comparable measurements of the key."""
        if entry.against:
            folders = (self.runs / run for run in self.past.measured(entry.key))
            usable = (folder for folder in folders if self.comparable(entry, folder))
            for folder, _ in zip(usable, range(entry.against), strict=False):
                yield f"--against={folder}"

    def run_of(self, entry: Entry) -> str:
        """Return the name of the entry's first run folder."""
        model = Path(entry.model).name.removesuffix(".onnx")
        name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{self.night}-{entry.number:03}_{entry.board}_{model}")
        return name[:LONGEST_NAME]


def finished_run(folder: Path) -> dict[str, Any] | None:
    """Return the `run.json` in that folder; None if it cannot be read."""
    with suppress(OSError, ValueError):
        return read_document(folder / "run.json")
    return None
