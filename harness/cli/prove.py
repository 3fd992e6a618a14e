"""`harness prove`: what `harness run` does, and before it the argument that no other input would differ either."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.boards.workspace import Workspace
from harness.cli._options import as_json, planned, precise, run_folder, seed, traced
from harness.core.console import Console

if TYPE_CHECKING:
    from harness.analysis.proof import Effort, Question
    from harness.execution.probe import Probe
    from harness.execution.program import Deployed
    from harness.runs.job import Job


@click.command("prove")
@planned
@click.option("--vectors", default="10000", show_default=True, help="Compared as by run: how many, or a .npy file.")
@seed
@click.option(
    "--floats",
    type=click.Choice(["all", "thresholds"]),
    help="Inputs of QuantizeLinear on the board: all 2^32 (default, but on an emulated board), or where codes change.",
)
@traced
@precise
@run_folder
@as_json
@click.pass_obj
def command(space: Workspace, /, as_json: bool, board: str, model: str, floats: str | None, **asked: Any) -> int:
    """Show that a model on a board gives the reference's activations for every input, and state what is assumed.

    Exit code: 0 every claim holds, 1 one does not, 2 the request is wrong, 3 inconclusive.
    """
    from harness import targets
    from harness.cli.run import run
    from harness.runs.job import Request

    if not (board and model):
        raise click.UsageError("give --board and --model")
    emulated = targets.load_boards(space.boards).board(board).emulated
    request = Request(board=board, model=model, floats=floats or ("thresholds" if emulated else "all"), **asked)
    return run(request, None, space, Console.open(as_json=as_json))


def prove(job: Job, deployed: Deployed, console: Console) -> dict[str, Any]:
    """Ask all questions of the program that is deployed, and of the reference; the content of proof.json."""
    from harness.analysis import proof
    from harness.analysis.proof import Subject, effort_of, structure
    from harness.execution import fp_environment
    from harness.execution import program as board_program
    from harness.execution.probe import Probe
    from harness.runs import document as run_document
    from harness.targets.bundle import PROGRAM

    started = time.perf_counter()
    all_floats = job.request.floats == "all"
    with tempfile.TemporaryDirectory() as scratch:
        probe = Probe(deployed, board_program.options(job.plan), job.profile.timeout_s, Path(scratch))
        subject, wanted = Subject.of(job.program, probe), effort_of(run_document.where_of(job))
        program = job.bundle.folder / PROGRAM, job.bundle.files[PROGRAM]
        of_file = structure.questions(job.program, program)
        stages = proof.questions(subject, all_floats=all_floats, random_vectors=wanted.random_vectors)
        asked = proof.in_order([*of_file, *stages, *_whole(job, probe, wanted)])
        with console.progress(f"proving {job.title}", sum(question.cases for question in asked)) as bar:
            proved = proof.prove(asked, bar.advance, subject.abandon)
    taken = proof.of_plan(job.plan, run_document.where_of(job), all_floats=all_floats)
    found = fp_environment.document(deployed.fp_environments)
    return proof.document(proved, taken, found, time.perf_counter() - started, job.identity)


def _whole(job: Job, probe: Probe, wanted: Effort) -> Iterator[Question]:
    """Yield the obligations of launches and of the network as a whole."""
    from harness.analysis.proof import composition, launches, races

    vectors = composition.seeded(job.network, job.request.seed)
    expected = job.reference.activations(vectors)
    yield from launches.questions(job.program, probe, vectors, expected, wanted)
    yield from composition.questions(
        job.plan, probe.deployed, vectors, expected, probe.timeout_s, probe.scratch, wanted
    )
    yield races.question(job.program, (job.profile, job.bundle.folder))
