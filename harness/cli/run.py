"""`harness run`: plan, build, deploy, execute, collect, compare, store the evidence, report the verdict."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._group import Command
from harness.cli._options import accepting, as_json, pass_workspace, planned, recorded, require_alone, seed, traced
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, InfrastructureError
from harness.core.outcome import Outcome

if TYPE_CHECKING:
    from harness.boards.profile import Profile
    from harness.boards.tuning import Notify
    from harness.execution.program import Deployed
    from harness.plan.plan import Plan
    from harness.reference.coverage import Coverage
    from harness.runs.counterexample import Counterexample
    from harness.runs.entries import RunDocument
    from harness.runs.folder import RunFolder
    from harness.runs.job import Job, Request


@click.command("run", cls=Command, epilog="Example: harness run --board xavier --model acas_coc")
@planned
@click.option("--vectors", default="100000", show_default=True, help="Number of vectors, or a file or folder of them.")
@seed
@click.option(
    "--cover",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Share of all codes of all layers; search for vectors until it is covered or the search stalls; "
    "--vectors is then the maximum.",
)
@click.option(
    "--chunk",
    type=click.IntRange(1),
    show_default="10000, or as many as fit into 512 MiB",
    help="Vectors per step; the unit of resume.",
)
@click.option(
    "--fetch",
    type=click.Choice(["all", "mismatch"]),
    show_default="all, or mismatch if all would take over 1 GiB",
    help="Dumps to fetch from the board.",
)
@click.option("--plan", help="Plan written by `harness plan -o`, instead of board, model and the options of a plan.")
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(path_type=Path),
    shell_complete=_completion.runs,
    help="Resume this unfinished run: a folder, or its name under runs/.",
)
@accepting
@traced
@recorded
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, resume: Path | None, board: str, model: str, **asked: Any) -> int:
    """Run a model on a board and compare every activation with the reference.

    Exit code: 0 identical, or within bound with --accept bound; 1 differs, or within bound; 2 the request is invalid;
    3 inconclusive.
    """
    request = requested(resume, board, model, **asked)
    return run(request, space.run(resume) if resume else None, space, Console.open(as_json=as_json))


def requested(resume: Path | None, board: str, model: str, **asked: Any) -> Request:
    """Return the request of these options; UsageError if they exclude each other."""
    from harness.reference import engines
    from harness.runs.job import Request

    if resume and (asked["plan"] or asked["run_folder"] or asked["reference"] != engines.ALWAYS):
        raise click.UsageError("--resume uses the plan, the folder and the engines of its run: omit the other options")
    if asked["plan"]:
        defined = ("items", "split", "sync", "buffers", "block", "stream", "pulse", "steps")
        require_alone("--plan", board, model, *(asked[key] for key in defined))
    elif not resume and not (board and model):
        raise click.UsageError("give --board and --model, --plan FOLDER, or --resume RUN")
    return Request(board=board, model=model, **asked)


def run(request: Request, resume: Path | None, workspace: Workspace, console: Console) -> int:
    """Run the request, show the result and return the exit code of the verdict."""
    from harness.report import terminal
    from harness.runs import document as run_document

    try:
        document, folder = execute(request, resume, workspace, console)
    except InfrastructureError as failure:
        console.document(run_document.inconclusive(request, failure))
        console.failure(failure)
        return failure.exit_code
    terminal.show(document.to_json(), folder / "report.html", console)
    console.document(run_document.summary(document, str(folder)))
    return EXIT_DONE if document.accepted else Outcome(document.verdict).exit_code


def execute(request: Request, resume: Path | None, workspace: Workspace, console: Console) -> tuple[RunDocument, Path]:
    """Run the request, or resume the run in a folder; return the document and the run folder.

    InfrastructureError, with the folder to resume, if there is no verdict.
    """
    from harness.cli import _steps

    with _steps.failing_in(resume) as failing:
        job = _settle(request, resume, workspace, console)
        failing.folder = job.folder.path
        _steps.tell_unconfirmed(job, workspace, console)
        with _steps.journal(job.folder, console, _advice(job.folder)) as notify:
            return _carry_out(job, workspace, console, notify), job.folder.path


def _settle(request: Request, resume: Path | None, workspace: Workspace, console: Console) -> Job:
    from harness.cli import _steps
    from harness.cli.plan import plan_table
    from harness.runs import job as jobs

    def show_plan(plan: Plan, board: Profile) -> None:
        console.show(plan_table(plan, board))
        _steps.tell_engines(request, console)

    job = jobs.resume(resume, workspace, show_plan) if resume else jobs.prepare(request, workspace, show_plan)
    state = "reused" if job.bundle.reused else "built"
    console.note(f"bundle {job.bundle.sha256[:16]} {state} ({job.bundle.compiler})")
    return job


def _advice(folder: RunFolder) -> str:
    return f"finished work is kept; resume with: harness run --resume {shlex.quote(str(folder.path))}"


def _carry_out(job: Job, workspace: Workspace, console: Console, notify: Notify) -> RunDocument:
    """Execute the run, from the stimuli to `run.json`."""
    from harness.boards.locks import session
    from harness.boards.tuning import known_state
    from harness.boards.tuning.identify import require_same_boot
    from harness.cli import _steps
    from harness.cli._journal import LOCK_WAIT_S
    from harness.execution import fp_environment, program
    from harness.reference.coverage import Coverage
    from harness.runs import counterexample
    from harness.runs import document as run_document

    job = _covering(job, console, notify)
    _steps.write_stimuli(job, console)
    coverage = Coverage(job.network)
    purpose = f"run {job.network.name}"
    locks = workspace.locks(job.profile)
    with session(job.profile, locks, workspace.cache, purpose, LOCK_WAIT_S, notify) as connection:
        job = _steps.on_board(job, connection)
        environment = program.environment(connection.board)
        with (
            known_state(job.profile, connection.board, workspace.cache, notify) as setup,
            _steps.deployed(job, connection, workspace.cache, notify) as deployed,
        ):
            environment |= _steps.devices(job, deployed, notify)
            found, observed = _run_chunks(job, deployed, coverage, console, notify)
            require_same_boot(connection.board, job.identity)
            environment["fp_environment"] = fp_environment.text(deployed.fp_environments)
    smallest = counterexample.save(found, job) if found else None
    document = run_document.conclude(job, environment, setup, smallest, coverage.result(), observed)
    return _steps.finish(job, document, notify)


def _covering(job: Job, console: Console, notify: Notify) -> Job:
    """Search for the vectors of `--cover`; a resumed run finds the same vectors again."""
    from harness.reference.coverage_search import Search

    if job.request.cover is None:
        return job
    search = Search(job.network, job.stimuli.count, job.request.seed, job.request.cover)
    with console.progress("searching vectors, codes met", search.needed) as bar:
        for met in search.blocks():
            bar.advance(met)
    found = search.result()
    notify(f"{found.count:,} vectors, {found.origin}")
    return dataclasses.replace(job, stimuli=found)


def _run_chunks(
    job: Job, deployed: Deployed, coverage: Coverage, console: Console, notify: Notify
) -> tuple[Counterexample | None, dict[str, Any] | None]:
    """Execute, collect, compare and store every unfinished chunk.

    Return the smallest failing case, if any, and the results of the traces, if requested.
    """
    from harness.cli import _steps
    from harness.execution import program
    from harness.runs import chunks, counterexample

    if job.request.floats and job.folder.read_proof() is None:
        from harness.runs.proof import prove  # imports a disassembler, which takes as long as a small run

        proof = prove(job, deployed, console)
        program.require_unchanged(deployed)
        job.folder.write_proof(proof)
    _recover(job, console, notify)
    finished = {record.index for record in job.folder.chunks()}
    todo = [chunk for chunk in chunks.cut(job.stimuli.count, job.chunk) if chunk.index not in finished]
    done = job.stimuli.count - sum(chunk.size for chunk in todo)
    if done:
        notify(f"resuming after {done:,} vectors")
        _count_finished(job, finished, done, coverage, console)
    with console.progress(job.title, job.stimuli.count, done) as bar:
        chunks.run_pipelined(job, deployed, todo, coverage, bar.advance)
    found = counterexample.smallest(job, deployed, notify)
    wrong = counterexample.first_difference(job.folder.chunks()) is not None
    observed = _observe(job, deployed, console, notify, already_differs=wrong or _is_refuted(job))
    program.require_unchanged(deployed)
    _steps.clean(deployed, notify)
    return found, observed


def _recover(job: Job, console: Console, notify: Notify) -> None:
    """Discard finished chunks with missing or damaged files when a run is resumed."""
    if len(job.folder.attempts()) == 1:
        return
    total = -(-job.stimuli.count // job.chunk)
    with console.progress("checking files of finished chunks", total) as bar:
        for index in job.folder.recover(bar.advance):
            notify(f"warning: chunk {index} is repeated: its files are damaged")


def _is_refuted(job: Job) -> bool:
    proof = job.folder.read_proof()
    return proof is not None and not proof["holds"]


def _observe(
    job: Job, deployed: Deployed, console: Console, notify: Notify, *, already_differs: bool
) -> dict[str, Any] | None:
    """Trace the program and check the traces against the plan's Petri net.

    A program with wrong results may also produce wrong traces; this must not change its verdict.
    """
    from harness.runs import tracing

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


def _count_finished(job: Job, finished: set[int], vectors: int, coverage: Coverage, console: Console) -> None:
    """Count the coverage of the finished chunks of an interrupted run, computed again from their vectors."""
    from harness.reference import SpecificationReference
    from harness.runs import chunks

    reference = SpecificationReference(job.network)
    with console.progress("counting coverage of finished chunks", vectors) as bar:
        for chunk in chunks.cut(job.stimuli.count, job.chunk):
            if chunk.index in finished:
                given = job.stimuli.chunk(chunk.start, chunk.stop)
                coverage.add(given, reference.activations(given))
                bar.advance(chunk.size)
