"""`harness` in a process that stops at a step of a run, until something has gone wrong there.

`python -m tests.campaigns.faults.stage OBJECTS` imports what a run needs and forks for every command, as
`tests.support.cli.ready`; a fork is told by its environment where to stop.  Its sessions are real ones; a board is
given up after `LIMITS`.
"""

from __future__ import annotations

import enum
import importlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from harness.boards import connect
from harness.boards.session import Completed, Fetch
from harness.boards.ssh import Limits, SshBoard
from harness.execution import program
from harness.runs import folder
from harness.runs.folder import RunFolder
from tests.support.cli.ready import Ready, run, serve
from tests.support.objects import identified_once, kept

LIMITS = Limits(connect_s=30, silence_s=4)  # three workers may share two processors with the emulated board
STEP, STAGE, SLOW, WITHIN = "FAULTS_STEP", "FAULTS_STAGE", "FAULTS_SLOW", "FAULTS_WITHIN"
SYNCHRONISED = "synchronised"  # a file beside the stage: the inodes of what was synchronised with the disk
SLOWLY = ("--delay", "network:150000")


class Step(enum.StrEnum):
    """Where a run can be stopped: at its second chunk, but for the first and the last step."""

    DEPLOY = "deploy"
    """Before the bundle is copied."""
    EXECUTE = "execute"
    """Before the program runs."""
    COLLECT = "collect"
    """Before the dumps are fetched."""
    COMPARE = "compare"
    """When they are here."""
    WRITE = "write"
    """Before the chunk's record is written; within: before it gets its name."""
    END = "end"
    """Before `run.json` is written; within: before it gets its name."""


_times = {step: itertools.count() for step in Step}


def _meet(step: Step) -> None:
    """Tell that the step is reached, and wait for leave to go on."""
    at = next(_times[step])
    if os.environ.get(STEP) != step or at != (step not in {Step.DEPLOY, Step.END}):
        return
    with socket.socket(socket.AF_UNIX) as stage:
        stage.connect(os.environ[STAGE])
        stage.sendall(b"%d\n" % os.getpid())
        stage.recv(1)


class StagedBoard(SshBoard):
    """A session that tells what it is asked to do."""

    _executions = 0

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Slowly from the second chunk on, where that is asked for."""
        if "--out" not in argv:
            return super().run(argv, timeout_s)
        self._executions += 1
        slow = SLOWLY if SLOW in os.environ and self._executions > 1 else ()
        _meet(Step.EXECUTE)
        return super().run([*argv, *slow], timeout_s)

    def put(self, source: Path, destination: PurePosixPath) -> None:
        if destination.name == program.ARCHIVE:
            _meet(Step.DEPLOY)
        super().put(source, destination)

    def get_many(self, files: Sequence[Fetch]) -> None:
        _meet(Step.COLLECT)
        super().get_many(files)


def _before(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
    def staged(*arguments: Any, **options: Any) -> Any:
        _meet(step)
        return function(*arguments, **options)

    return staged


def _after(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
    def staged(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        _meet(step)
        return result

    return staged


def _note_safe(*inodes: int) -> None:
    """What was synchronised with the disk."""
    with Path(os.environ[STAGE]).with_name(SYNCHRONISED).open("a") as file:
        file.writelines(f"{inode}\n" for inode in inodes)


def _synchronise(descriptor: int, fsync: Callable[[int], None] = os.fsync) -> None:
    fsync(descriptor)
    _note_safe(os.fstat(descriptor).st_ino)
    path = Path(f"/proc/self/fd/{descriptor}").readlink()
    if path.name == "run.json.part":
        _meet(Step.END)
    elif path.parent.name == "chunks":
        _meet(Step.WRITE)


def _synchronise_all(folder: Path, synchronise: Callable[[Path], None] = folder.synchronise) -> None:
    synchronise(folder)
    _note_safe(*(path.stat().st_ino for path in folder.rglob("*")))


def _set() -> None:
    tempfile.tempdir = None  # the environment says where
    connect._connected = lambda address: StagedBoard.connect(address, LIMITS)
    program.collect = _after(Step.COMPARE, program.collect)
    if WITHIN in os.environ:
        os.fsync, folder.synchronise = _synchronise, _synchronise_all
    else:
        RunFolder.write_chunk = _before(Step.WRITE, RunFolder.write_chunk)  # type: ignore[method-assign]
        RunFolder.finish = _before(Step.END, RunFolder.finish)  # type: ignore[method-assign]


@contextmanager
def staged(objects: Path, environment: dict[str, str]) -> Iterator[Ready]:
    """Start what forks; `environment` is what a process must have from its start."""
    command = [sys.executable, "-m", "tests.campaigns.faults.stage", str(objects)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": os.environ | environment}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        yield (started := Ready(process))
        started.kill()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in (
        "pipeline.run",
        "runs.counterexample",
        "runs.document",
        "reference.coverage_search",
        "report.terminal",
    ):
        importlib.import_module(f"harness.{module}")  # `harness run` imports them when it starts
    with kept(Path(sys.argv[1])), identified_once(Path(sys.argv[1])):
        sys.argv[1:] = serve()
        _set()
        run()
