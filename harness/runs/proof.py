"""The proof of a deployed program: the questions of its network, answered by the board and by the reference."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.analysis import proof
from harness.analysis.proof import Effort, Question, Subject, composition, effort_of, launches, races, structure
from harness.core.console import Console
from harness.execution import fp_environment, program
from harness.execution.probe import Probe
from harness.execution.program import Deployed
from harness.runs import document
from harness.runs.job import Job
from harness.targets.bundle import PROGRAM

SIMULATED_TIMES = 10
"""Questions to simulated accelerators have so many times the time limit of the board."""


def prove(job: Job, deployed: Deployed, console: Console) -> dict[str, Any]:
    """Ask the deployed program and the reference all questions; return the content of proof.json."""
    started = time.perf_counter()
    all_floats = job.request.floats == "all"
    with tempfile.TemporaryDirectory() as scratch:
        timeout_s = job.profile.timeout_s * (SIMULATED_TIMES if job.profile.simulated else 1)
        probe = Probe(deployed, program.options(job.plan), timeout_s, Path(scratch))
        subject, wanted = Subject.of(job.program, probe), effort_of(document.where_of(job), job.network)
        of_file = structure.questions(job.program, (job.bundle.folder / PROGRAM, job.bundle.files[PROGRAM]))
        extents = [wanted.extent(task.item, all_floats=all_floats) for task in job.plan.tasks]
        stages = proof.questions(subject, extents)
        asked = proof.in_order([*of_file, *stages, *_whole(job, probe, wanted)])
        with console.progress(f"proving {job.title}", sum(question.cases for question in asked)) as bar:
            proved = proof.prove(asked, bar.advance, subject.abandon)
    taken = proof.of_plan(job.plan, document.where_of(job), all_floats=all_floats)
    found = fp_environment.document(deployed.fp_environments)
    return proof.document(proved, taken, found, time.perf_counter() - started, job.identity)


def _whole(job: Job, probe: Probe, wanted: Effort) -> Iterator[Question]:
    """Yield the obligations of launches and of the network as a whole."""
    vectors = composition.seeded(job.network, job.request.seed, wanted)
    expected = job.reference.activations(vectors)
    yield from launches.questions(job.program, probe, vectors, expected, wanted)
    yield from composition.questions(
        job.plan, probe.deployed, vectors, expected, probe.timeout_s, probe.scratch, wanted
    )
    yield races.question(job.program, (job.profile, job.bundle.folder))
