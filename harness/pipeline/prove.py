"""The proof of a deployed program: the questions of its network, answered by the board and by the reference."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.analysis import proof
from harness.analysis.proof import Claim, Effort, Question, Subject, composition, effort_of, launches, races, structure
from harness.boards.profile import Profile
from harness.build.bundle import PROGRAM
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.installation import is_committed, revision
from harness.execution import fp_environment, program
from harness.execution.probe import Probe
from harness.execution.program import Deployed
from harness.runs import document
from harness.runs.folder import ANSWERS
from harness.runs.job import Floats, Job

SIMULATED_TIMES = 10
"""Questions to simulated accelerators have so many times the time limit of the board."""
KEPT_S = 10.0
"""Answers that took this long are kept for a resumed proof; the constants of the program are always read again."""


def default_floats(board: Profile) -> Floats:
    """Return which inputs of QuantizeLinear a proof on this board tries: an emulated board takes hours for all 2^32."""
    return "thresholds" if board.emulated else "all"


def prove(job: Job, deployed: Deployed, console: Console) -> dict[str, Any]:
    """Ask the deployed program and the reference all questions; return the content of proof.json.

    Questions that an earlier attempt of this run has answered are not asked again.
    """
    all_floats = job.request.floats == "all"
    with tempfile.TemporaryDirectory() as scratch:
        timeout_s = job.profile.timeout_s * (SIMULATED_TIMES if job.profile.simulated else 1)
        probe = Probe(deployed, program.options(job.plan), timeout_s, Path(scratch))
        subject, effort = Subject.of(job.program, probe), effort_of(document.where_of(job), job.network)
        of_file = structure.questions(job.program, (job.bundle.folder / PROGRAM, job.bundle.files[PROGRAM]))
        extents = [effort.extent(task.item, all_floats=all_floats) for task in job.plan.tasks]
        stages = proof.questions(subject, extents)
        questions = proof.in_order([*of_file, *stages, *_whole(job, probe, effort)])
        known, before_s = _earlier(job, deployed, questions)
        if known:
            console.note(f"{len(known)} of {len(questions)} questions were answered by an earlier attempt")
        started = time.perf_counter() - before_s
        with console.progress(f"proving {job.title}, questions", len(questions), len(known)) as bar:

            def on_claim(number: int, claim: Claim) -> None:
                _keep(job, deployed, started, number, claim)
                bar.advance(1)

            proved = proof.prove(questions, on_claim, subject.abandon, known)
    assumptions = [
        *proof.of_plan(job.plan, document.where_of(job), all_floats=all_floats),
        *composition.untried(claim.observed for claim in proved.claims),
    ]
    environments = fp_environment.document(deployed.fp_environments)
    return proof.document(proved, assumptions, environments, time.perf_counter() - started, job.identity)


def _keep(job: Job, deployed: Deployed, started: float, number: int, claim: Claim) -> None:
    """Note a claim for a resumed proof.  A counterexample is always noted, since the program might not repeat it."""
    if claim.time_s < KEPT_S and claim.holds:
        return
    job.folder.note_answer(
        {
            "number": number,
            "revision": revision(),
            "elapsed_s": round(time.perf_counter() - started, 3),
            "fp_environment": fp_environment.document(deployed.fp_environments.copy()),
            "claim": proof.claim_document(claim),
        }
    )


def _earlier(job: Job, deployed: Deployed, questions: Sequence[Question]) -> tuple[dict[int, Claim], float]:
    """Return the claims of earlier attempts by the number of the question, and the time of these attempts, s.

    A resumed run has the same bundle and board.  Another revision of harness, or changed files, may mean another
    question by the same words: its questions are asked again.  RequestError if such a revision found a counterexample,
    and if a line cannot be read, which may have been one.
    """
    known: dict[int, Claim] = {}
    before_s, current = 0.0, revision()
    try:
        for entry in job.folder.answers():
            if is_committed(current) and entry["revision"] == current:
                known[entry["number"]] = proof.claim_of(questions[entry["number"]], entry["claim"])
                before_s = max(before_s, entry["elapsed_s"])
                if entry["fp_environment"]:  # the program may have answered nothing yet
                    deployed.fp_environments.update(fp_environment.parse(entry["fp_environment"]))
            elif entry["claim"]["counterexample"]:
                raise RequestError(
                    f"{job.folder.path}: {entry['revision']} of harness found a counterexample, this is {current}: "
                    f"{entry['claim']['counterexample']}",
                    "start a new run",
                )
    except (LookupError, TypeError, ValueError) as error:
        raise RequestError(
            f"{job.folder.path / ANSWERS}: damaged, or written by another version of harness", "start a new run"
        ) from error
    return known, before_s


def _whole(job: Job, probe: Probe, effort: Effort) -> Iterator[Question]:
    """Yield the obligations of launches and of the network as a whole."""
    vectors = composition.seeded(job.network, job.request.seed, effort)
    expected = job.reference.activations(vectors)
    yield from launches.questions(job.program, probe, vectors, expected, effort)
    priority = job.profile.timing.fifo or composition.PRIORITY
    yield from composition.questions(
        job.plan, probe.deployed, vectors, expected, probe.timeout_s, probe.scratch, effort, priority
    )
    here = job.profile.model_copy(update={"timeout_s": probe.timeout_s})
    yield races.question(job.program, (here, job.bundle.folder))
