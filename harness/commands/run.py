"""`harness run`: plan, build, deploy, execute, collect, compare, keep the evidence, tell the verdict."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harness import chunks, conformance, dumps, evidence, execute, failing, jobs, observe, report, targets, verdict
from harness.board.lock import board_lock
from harness.board.reach import reach
from harness.board_state import Notify, known_state
from harness.commands.plan import plan_table
from harness.commands.prove import prove
from harness.cover import Search
from harness.coverage import Coverage
from harness.errors import EXIT_DIFFERS, EXIT_DONE, BoardError, InfrastructureError, ToolError
from harness.evidence import RunFolder
from harness.execute import Deployed
from harness.failing import Failing
from harness.jobs import Job, Request
from harness.plan import Plan
from harness.profile import Profile
from harness.reference import SpecificationReference
from harness.report import terminal
from harness.screen import Screen
from harness.workspace import Workspace

LOCK_WAIT_S = 3600.0
STIMULI_AT_ONCE = 100_000


def run(request: Request, resume: Path | None, workspace: Workspace, screen: Screen) -> int:
    """The whole command; returns the exit code of the verdict."""
    folder: Path | None = resume
    try:
        job = _settle(request, resume, workspace, screen)
        folder = job.folder.path
        _tell_unconfirmed(job, workspace, screen)
        with _journal(job.folder, screen) as notify:
            document = _carry_out(job, workspace, screen, notify)
    except (InfrastructureError, OSError) as error:
        failure = error if isinstance(error, InfrastructureError) else _host_failure(error)
        screen.document(verdict.inconclusive(request, failure, str(folder) if folder else None))
        screen.failure(failure)
        return failure.exit_code
    terminal.show(document, job.folder.path / "report.html", screen)
    screen.document(verdict.summary(document, str(job.folder.path)))
    return EXIT_DONE if document["verdict"] == "identical" else EXIT_DIFFERS


def _host_failure(error: OSError) -> InfrastructureError:
    """A full disk, missing rights: a file of this machine that the run needs."""
    return ToolError(f"this machine: {error}", "check free space and rights of the runs folder and the cache")


def _settle(request: Request, resume: Path | None, workspace: Workspace, screen: Screen) -> Job:
    def show_plan(plan: Plan, board: Profile) -> None:
        screen.show(plan_table(plan, board))

    job = jobs.resume(resume, workspace, show_plan) if resume else jobs.prepare(request, workspace, show_plan)
    state = "reused" if job.bundle.reused else "built"
    screen.note(f"bundle {job.bundle.sha256[:16]} {state} ({job.bundle.compiler})")
    return job


def _tell_unconfirmed(job: Job, workspace: Workspace, screen: Screen) -> None:
    """What a person has to look at when a target runs on a board's hardware for the first time."""
    for name in dict.fromkeys(item.target for item in job.plan.items):
        target = targets.find(name)
        first = target.unconfirmed and target.ran_on(job.profile) == targets.HARDWARE
        if first and not evidence.was_on_hardware(workspace.runs, job.profile.name, name):
            screen.note(f"target {name} runs on the hardware of {job.profile.name} for the first time; look at this:")
            for line in target.unconfirmed:
                screen.note(f"  [ ] {line}")


@contextmanager
def _journal(folder: RunFolder, screen: Screen) -> Iterator[Notify]:
    """Notes that go to the screen and, with the time, to the run's log."""
    with (folder.path / "log.txt").open("a", encoding="utf-8") as log:

        def notify(text: str) -> None:
            screen.note(text)
            log.write(f"{evidence.now():%Y-%m-%dT%H:%M:%SZ} {text}\n")
            log.flush()

        try:
            yield notify
        except BaseException as error:
            notify(f"stopped: {error or type(error).__name__}")
            notify(f"finished chunks are kept; go on with: harness run --resume {shlex.quote(str(folder.path))}")
            raise


def _carry_out(job: Job, workspace: Workspace, screen: Screen, notify: Notify) -> dict[str, Any]:
    """From the stimuli to `run.json`."""
    job = _covering(job, screen, notify)
    _write_stimuli(job, screen)
    coverage = Coverage(job.network)
    purpose = f"run {job.network.name}"
    with (
        board_lock(job.profile.name, workspace.cache / "locks", purpose, LOCK_WAIT_S, notify),
        reach(job.profile, workspace.cache, notify) as reached,
    ):
        environment = execute.environment(reached.board)
        with known_state(job.profile, reached.board, workspace.cache, notify) as setup:
            deployed = execute.deploy(reached.board, job.bundle, reached.work, job.folder.name)
            environment |= _devices(job, deployed, notify)
            found, observed = _run_chunks(job, deployed, coverage, screen, notify)
    smallest = failing.keep(found, job) if found else None
    document = verdict.conclude(job, environment, setup, smallest, coverage.result(), observed)
    (job.folder.path / "report.html").write_text(report.html(document), encoding="utf-8")
    (job.folder.path / "junit.xml").write_text(report.junit(document), encoding="utf-8")
    notify(f"verdict: {document['verdict']}")
    job.folder.finish(document)
    return document


def _covering(job: Job, screen: Screen, notify: Notify) -> Job:
    """With `--cover`: the job with the vectors that a search finds, the same again when it is resumed."""
    if job.request.cover is None:
        return job
    search = Search(job.network, job.stimuli.count, job.request.seed, job.request.cover)
    with screen.progress("searching vectors, codes met", search.needed) as bar:
        for met in search.blocks():
            bar.advance(met)
    found = search.result()
    notify(f"{found.count:,} vectors, {found.origin}")
    return dataclasses.replace(job, stimuli=found)


def _write_stimuli(job: Job, screen: Screen) -> None:
    """Keep all vectors; a file that is there is complete."""
    if job.folder.stimuli.exists():
        return
    count = job.stimuli.count
    temporary = job.folder.path / "stimuli.part"
    with temporary.open("wb") as file, screen.progress("writing stimuli", count) as bar:
        file.write(dumps.header(np.dtype(np.float32), count, job.network.input_width))
        for chunk in chunks.cut(count, STIMULI_AT_ONCE):
            file.write(np.ascontiguousarray(job.stimuli.chunk(chunk.start, chunk.stop)).data.cast("B"))
            bar.advance(chunk.size)
    temporary.replace(job.folder.stimuli)


def _run_chunks(
    job: Job, deployed: Deployed, coverage: Coverage, screen: Screen, notify: Notify
) -> tuple[Failing | None, dict[str, Any] | None]:
    """Execute, collect, compare and keep every chunk that is not finished yet.

    Gives the smallest failing case if there is any, and what traces have shown if they are asked for.
    """
    if job.request.floats and job.folder.read_proof() is None:
        job.folder.write_proof(prove(job, deployed, screen))
    finished = {record.index for record in job.folder.chunks()}
    todo = [chunk for chunk in chunks.cut(job.stimuli.count, job.request.chunk) if chunk.index not in finished]
    done = job.stimuli.count - sum(chunk.size for chunk in todo)
    if done:
        notify(f"resuming after {done:,} vectors")
        _count_finished(job, finished, done, coverage, screen)
    with screen.progress(job.title, job.stimuli.count, done) as bar:
        chunks.run_pipelined(job, deployed, todo, coverage, bar.advance)
    found = failing.smallest(job, deployed, notify)
    observed = _observe(job, deployed, screen, notify, already_differs=found is not None or _is_refuted(job))
    _clean(deployed, notify)
    return found, observed


def _devices(job: Job, deployed: Deployed, notify: Notify) -> dict[str, str]:
    """What the items say they run on; BoardError where that is not what evidence would say of them."""
    items = {item.name: targets.find(item.target) for item in job.plan.items}
    asked = {name for name, target in items.items() if target.compiler()}
    if not asked:
        return {}
    found = execute.devices(deployed, job.profile.timeout_s)
    if not asked <= found.keys() <= items.keys():
        raise BoardError(
            f"the program on the board tells the devices of {', '.join(found) or 'no items'}",
            f"it must tell those of {', '.join(sorted(asked))}",
        )
    for item, device in found.items():
        contradiction = items[item].contradiction(job.profile, device)
        if contradiction:
            raise BoardError(contradiction, "check the board's LD_LIBRARY_PATH, or stand_ins in its profile")
        notify(f"item {item} runs on {device}")
    return {f"device of item {item}": device for item, device in found.items()}


def _is_refuted(job: Job) -> bool:
    proof = job.folder.read_proof()
    return proof is not None and not proof["holds"]


def _observe(
    job: Job, deployed: Deployed, screen: Screen, notify: Notify, *, already_differs: bool
) -> dict[str, Any] | None:
    """Whether what the items do on the board is what the plan's net permits.

    A program that is known to be wrong may trace itself wrongly too: that does not take its verdict away.
    """
    if not job.request.trace:
        return None
    try:
        with screen.progress("tracing executions", job.request.trace) as bar:
            return conformance.document(job.plan, observe.observe(job, deployed, bar.advance))
    except InfrastructureError as error:
        if not already_differs:
            raise
        notify(f"warning: no traces: {error.message}")
        return None


def _count_finished(job: Job, finished: set[int], vectors: int, coverage: Coverage, screen: Screen) -> None:
    """What the chunks of an interrupted run exercised, computed again from their vectors."""
    reference = SpecificationReference(job.network)
    with screen.progress("counting what finished chunks exercised", vectors) as bar:
        for chunk in chunks.cut(job.stimuli.count, job.request.chunk):
            if chunk.index in finished:
                given = job.stimuli.chunk(chunk.start, chunk.stop)
                coverage.add(given, reference.activations(given))
                bar.advance(chunk.size)


def _clean(deployed: Deployed, notify: Notify) -> None:
    """All is compared by now: what is left on the board changes no verdict."""
    try:
        execute.clean(deployed)
    except InfrastructureError as error:
        notify(f"warning: the run's folder was not removed from the board: {error.message}")
