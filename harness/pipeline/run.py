"""The pipeline of `run` and `prove`: request, plan, bundle, board, chunks, verdict, evidence."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from harness.boards.locks import LOCK_WAIT_S, session
from harness.boards.tuning import Notify, known_state
from harness.boards.tuning.identify import require_same_boot
from harness.boards.workspace import Workspace
from harness.core.console import Console
from harness.core.errors import InfrastructureError
from harness.execution import fp_environment, program
from harness.execution.program import Deployed
from harness.pipeline import attempt
from harness.plan.conformance import ConformanceEntry
from harness.reference import SpecificationReference
from harness.reference.coverage import Coverage
from harness.reference.coverage_search import Search
from harness.report.plan_table import plan_table
from harness.runs import accuracy, chunks, counterexample, tracing
from harness.runs import document as run_document
from harness.runs import job as jobs
from harness.runs.entries import AccuracyEntry, RunDocument
from harness.runs.folder import RunFolder
from harness.runs.job import Job, Request


def execute(request: Request, resume: Path | None, workspace: Workspace, console: Console) -> tuple[RunDocument, Path]:
    """Run the request, or resume the run in a folder; return the document and the run folder.

    RequestError for an invalid request; InfrastructureError, with the folder to resume, if there is no verdict.
    """
    with attempt.failures(resume) as failing:
        checked = jobs.check_unfinished(resume, workspace) if resume else jobs.check(request, workspace)
        console.show(plan_table(checked.plan, checked.profile))
        attempt.show_engines(checked.request, console)
        job = jobs.build(checked, workspace)
        failing.folder = job.folder.path
        console.note(
            f"bundle {job.bundle.sha256[:16]} {'reused' if job.bundle.reused else 'built'} ({job.bundle.compiler})"
        )
        attempt.show_checklist(job, workspace, console)
        with attempt.journal(job.folder, console, _advice(job.folder)) as notify:
            return _carry_out(job, workspace, console, notify), job.folder.path


def _advice(folder: RunFolder) -> str:
    return f"finished work is kept; resume with: harness run --resume {shlex.quote(str(folder.path))}"


def _carry_out(job: Job, workspace: Workspace, console: Console, notify: Notify) -> RunDocument:
    """Execute the run, from the stimuli to `run.json`."""
    job = _with_covering_vectors(job, console, notify)
    attempt.write_stimuli(job, console)
    coverage = Coverage(job.network)
    locks, purpose = workspace.locks(job.profile), f"run {job.network.name}"
    with session(job.profile, locks, workspace.cache, purpose, LOCK_WAIT_S, notify) as connection:
        job = attempt.on_board(job, connection)
        environment = program.environment(connection.board)
        with (
            known_state(job.profile, connection.board, workspace.cache, notify) as setup,
            attempt.deployed(job, connection, workspace.cache, notify) as deployed,
        ):
            environment |= attempt.devices(job, deployed, notify)
            _prove(job, deployed, console)
            _run_chunks(job, deployed, coverage, console, notify)
            failing_case = counterexample.smallest(job, deployed, notify)
            traces = _trace(job, deployed, console, notify, already_differs=_already_differs(job))
            program.require_unchanged(deployed)
            attempt.clean(deployed, notify)
            require_same_boot(connection.board, job.identity)
            environment["fp_environment"] = fp_environment.text(deployed.fp_environments)
    smallest = counterexample.save(failing_case, job) if failing_case else None
    judged = _accuracy(job, console)
    document = run_document.conclude(job, environment, setup, smallest, coverage.result(), traces, judged)
    return attempt.finish(job, document, notify)


def _with_covering_vectors(job: Job, console: Console, notify: Notify) -> Job:
    """Search for the vectors of `--cover`; a resumed run finds the same vectors again."""
    if job.request.cover is None:
        return job
    search = Search(job.network, job.stimuli.count, job.request.seed, job.request.cover)
    with console.progress("searching vectors, codes met", search.needed) as bar:
        for codes in search.blocks():
            bar.advance(codes)
    vectors = search.result()
    notify(f"{vectors.count:,} vectors, {vectors.origin}")
    return dataclasses.replace(job, stimuli=vectors)


def _prove(job: Job, deployed: Deployed, console: Console) -> None:
    """Answer the questions of a proof, if one is requested and no earlier attempt has completed it."""
    if job.request.floats is None or job.folder.read_proof() is not None:
        return
    from harness.pipeline.prove import prove  # imports a disassembler, which takes as long as a small run

    proof = prove(job, deployed, console)
    program.require_unchanged(deployed)
    job.folder.write_proof(proof)


def _run_chunks(job: Job, deployed: Deployed, coverage: Coverage, console: Console, notify: Notify) -> None:
    """Execute, collect, compare and store every unfinished chunk."""
    _recover(job, console, notify)
    finished = {record.index for record in job.folder.chunks()}
    remaining = [chunk for chunk in chunks.cut(job.stimuli.count, job.chunk) if chunk.index not in finished]
    done = job.stimuli.count - sum(chunk.size for chunk in remaining)
    if done:
        notify(f"resuming after {done:,} vectors")
        _count_finished(job, finished, done, coverage, console)
    with console.progress(job.title, job.stimuli.count, done) as bar:
        chunks.run_pipelined(job, deployed, remaining, coverage, bar.advance)


def _recover(job: Job, console: Console, notify: Notify) -> None:
    """Discard finished chunks with missing or damaged files when a run is resumed."""
    if len(job.folder.attempts()) == 1:
        return
    total = -(-job.stimuli.count // job.chunk)
    with console.progress("checking files of finished chunks", total) as bar:
        for index in job.folder.recover(bar.advance):
            notify(f"warning: chunk {index} is repeated: its files are damaged")


def _count_finished(job: Job, finished: set[int], vectors: int, coverage: Coverage, console: Console) -> None:
    """Count the coverage of the finished chunks of an interrupted run, computed again from their vectors."""
    reference = SpecificationReference(job.network)
    with console.progress("counting coverage of finished chunks", vectors) as bar:
        for chunk in chunks.cut(job.stimuli.count, job.chunk):
            if chunk.index in finished:
                inputs = job.stimuli.chunk(chunk.start, chunk.stop)
                coverage.add(inputs, reference.activations(inputs))
                bar.advance(chunk.size)


def _trace(
    job: Job, deployed: Deployed, console: Console, notify: Notify, *, already_differs: bool
) -> ConformanceEntry | None:
    """Trace the program and check the traces against the plan's Petri net; None if no traces are requested.

    A program with wrong results may also produce wrong traces; this must not change its verdict.
    """
    if not job.request.trace:
        return None
    try:
        with console.progress("tracing executions", job.request.trace) as bar:
            return tracing.observe(job, deployed, bar.advance)
    except InfrastructureError as error:
        if not already_differs:
            raise
        notify(f"warning: no traces: {error.message}")
        return None


def _accuracy(job: Job, console: Console) -> AccuracyEntry | None:
    """Judge the outputs of the run by its labels; None without labels."""
    if job.labelled is None:
        return None
    with console.progress("accuracy of labelled vectors", job.stimuli.count) as bar:
        return accuracy.evaluate(job.labelled, job.folder, job.plan, job.stimuli, bar.advance)


def _already_differs(job: Job) -> bool:
    """Return whether a comparison or the proof has found a difference."""
    proof = job.folder.read_proof()
    is_refuted = proof is not None and not proof["holds"]
    return is_refuted or counterexample.first_difference(job.folder.chunks()) is not None
