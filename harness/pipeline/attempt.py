"""The frame that all pipelines share: messages, log of the attempt, vectors, deployment, reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness import report, targets
from harness.boards.connect import Connection
from harness.boards.locks import again
from harness.boards.tuning import Notify
from harness.boards.workspace import Workspace
from harness.core.arrays import MEMORY_BUDGET
from harness.core.console import Console
from harness.core.document import durable
from harness.core.errors import BoardError, InfrastructureError, ToolError, notes_of
from harness.core.interrupts import reason
from harness.core.safe_io import visible
from harness.execution import dumps, program
from harness.execution.program import Deployed
from harness.reference import engines
from harness.runs import chunks
from harness.runs import folder as run_folder
from harness.runs.entries import MeasurementDocument, RunDocument
from harness.runs.folder import RunFolder
from harness.runs.history.previous import previous
from harness.runs.job import Job, Request

Finished = TypeVar("Finished", RunDocument, MeasurementDocument)

STIMULI_AT_ONCE = 100_000


def host_failure(error: OSError) -> InfrastructureError:
    """Return the error for a file of this machine that cannot be read or written, for example on a full disk."""
    what = str(error) if error.filename else error.strerror or str(error)
    return ToolError(
        f"this machine: {what}", "check the free space and the permissions of the runs folder and the cache"
    )


@dataclass
class Failing:
    """The run folder of a failure; None before the folder exists."""

    folder: Path | None


@contextmanager
def failures(folder: Path | None) -> Iterator[Failing]:
    """Convert each failure of this machine to InfrastructureError and add the run folder to it."""
    failing = Failing(folder)
    try:
        yield failing
    except (InfrastructureError, OSError) as error:
        failure = error if isinstance(error, InfrastructureError) else host_failure(error)
        failure.run = failing.folder
        if failure is error:
            raise
        for note in notes_of(error):
            failure.add_note(note)
        raise failure from error


def show_checklist(job: Job, workspace: Workspace, console: Console) -> None:
    """Print a checklist when a target runs on a board's hardware for the first time."""
    for name in dict.fromkeys(item.target for item in job.plan.items):
        target = targets.find(name)
        first = target.hardware_checklist and target.environment(job.profile) == targets.HARDWARE
        if first and not run_folder.was_on_hardware(workspace.runs, job.profile.name, name):
            console.note(f"target {name} runs on the hardware of {job.profile.name} for the first time; check:")
            for line in target.hardware_checklist:
                console.note(f"  [ ] {line}")


def show_engines(request: Request, console: Console) -> None:
    """Print that further engines are prepared, which takes a compiler seconds to minutes."""
    if more := [name for name in request.reference if name not in engines.ALWAYS]:
        console.note(f"preparing {' and '.join(more)} on the standard form of the network")


@contextmanager
def journal(folder: RunFolder, console: Console, advice: str) -> Iterator[Notify]:
    """Write notes to the terminal and, with the time, to the run's log; an early end gets the note `advice`.

    RequestError if another process uses the run folder.
    """
    with folder.held(), (folder.path / "log.txt").open("ab", buffering=0) as log:
        folder.start_attempt()

        def keep(text: str) -> None:
            with suppress(OSError):  # other files report a full disk; the board must be restored in any case
                log.write(f"{run_folder.now():%Y-%m-%dT%H:%M:%SZ} {visible(text)}\n".encode())

        def notify(text: str) -> None:
            console.note(text)
            keep(text)

        try:
            yield notify
        except BaseException as error:
            if not folder.is_finished:  # the evidence of a finished run contains the hash of its log
                why = reason(error)
                with suppress(OSError):  # a full disk may be the reason for the stop
                    _note_stop(folder, error, why, advice)
                keep(f"stopped: {why}")  # the command prints the error and its notes when it ends
                error.add_note(advice)
            raise


def _note_stop(folder: RunFolder, error: BaseException, why: str, advice: str) -> None:
    """Record the reason of a stop; write a page if engines of the reference disagree."""
    disagreement = getattr(error, "disagreement", None)
    folder.stop_attempt(_part(error), why, disagreement)
    if disagreement:
        stored = folder.read_request()
        page = report.disagreement(stored["name"], stored["request"]["board"], why, disagreement, advice)
        (folder.path / "report.html").write_text(page, encoding="utf-8")


def _part(error: BaseException) -> str:
    """Return the component that stopped a run."""
    if isinstance(error, InfrastructureError):
        return error.part
    return ToolError.part if isinstance(error, Exception) else "user"


def write_stimuli(job: Job, console: Console) -> None:
    """Write all vectors; an existing file is complete, even after a power cut.

    RequestError if the disk has too little space, because a typing error in the number would fill the disk.
    """
    if job.folder.stimuli.exists():
        return
    count, vector = job.stimuli.count, job.network.vector
    at_once = max(min(STIMULI_AT_ONCE, MEMORY_BUDGET // job.network.record.itemsize), 1)
    with durable(job.folder.stimuli) as file, console.progress("writing vectors", count) as bar:
        file.write(dumps.header(vector.dtype, count, vector.size))
        for chunk in chunks.cut(count, at_once):
            file.write(np.ascontiguousarray(job.stimuli.chunk(chunk.start, chunk.stop)).data.cast("B"))
            bar.advance(chunk.size)


def on_board(job: Job, connection: Connection) -> Job:
    """Return the job with the identity of the connected board, and record that identity in the run folder.

    RequestError if the run was started on another board.
    """
    job.folder.note_board(connection.identity)
    return dataclasses.replace(job, reached=connection.identity)


@contextmanager
def deployed(job: Job, connection: Connection, cache: Path, notify: Notify) -> Iterator[Deployed]:
    """Deploy the bundle; first remove the files of a former attempt, and after a failure those of this attempt."""
    run = job.folder.on_board
    if len(job.folder.attempts()) > 1:
        program.forget(connection.board, connection.work, run)
    try:
        yield program.deploy(connection.board, job.bundle, connection.work, run)
    except BaseException:
        _forget_after_failure(job, connection, cache, notify)
        raise


def _forget_after_failure(job: Job, connection: Connection, cache: Path, notify: Notify) -> None:
    """Remove the run's files from the board, in a new session if this one is closed; a failure is only a warning."""
    run = job.folder.on_board
    try:
        program.forget(connection.board, connection.work, run)
    except InfrastructureError as error:
        if job.profile.emulated:  # the disk of an emulated board is deleted after its last user
            return
        try:
            with again(connection.board, job.profile, cache, notify) as reconnected:
                program.forget(reconnected.board, reconnected.work, run)
        except InfrastructureError:
            notify(f"warning: {connection.work / 'runs' / run}.* may be left on the board: {error.message}")


def devices(job: Job, deployed: Deployed, notify: Notify) -> dict[str, str]:
    """Return the device of each item; raise BoardError if a device contradicts the profile."""
    items = {item.name: targets.find(item.target) for item in job.plan.items}
    on_devices = {name for name, target in items.items() if target.compiler()}
    if not on_devices:
        return {}
    device_of = program.devices(deployed, job.profile.timeout_s)
    if not on_devices <= device_of.keys() <= items.keys():
        raise BoardError(
            f"the program on the board reports the devices of {', '.join(device_of) or 'no items'}",
            f"it must report those of {', '.join(sorted(on_devices))}",
        )
    for item, device in device_of.items():
        problem = items[item].check_device(job.profile, device)
        if problem:
            raise BoardError(problem, "check the board's LD_LIBRARY_PATH, or stand_ins in its profile")
        notify(f"item {item} runs on {device}")
    return {f"device of item {item}": device for item, device in device_of.items()}


def clean(deployed: Deployed, notify: Notify) -> None:
    """Remove the run's folder from the board; a failure does not change the verdict."""
    try:
        program.clean(deployed)
    except InfrastructureError as error:
        notify(f"warning: the run's folder was not removed from the board: {error.message}")


def finish(job: Job, document: Finished, notify: Notify) -> Finished:
    """Write the reports and, last, `run.json`; return the document with the changes since the previous run."""
    document = document.model_copy(update={"previous": previous(job.folder.path, document)})
    content = document.to_json()
    for name, text in report.reports(content).items():
        (job.folder.path / name).write_text(text, encoding="utf-8")
    notify(f"verdict: {document.verdict}")
    job.folder.finish(content)
    return document
