"""`harness prove`: what `harness run` does, and before it the argument that no other input would differ either."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import execute, proof, verdict
from harness.bundle import PROGRAM
from harness.execute import Deployed
from harness.jobs import Job
from harness.probe import Probe
from harness.proof import Question, Subject, composition, races, structure
from harness.screen import Screen


def prove(job: Job, deployed: Deployed, screen: Screen) -> dict[str, Any]:
    """Ask all questions of the program that is deployed, and of the reference; the content of proof.json."""
    started = time.perf_counter()
    all_floats = job.request.floats == "all"
    with tempfile.TemporaryDirectory() as scratch:
        probe = Probe(deployed, execute.options(job.plan), job.profile.timeout_s, Path(scratch))
        subject = Subject.of(job.plan, probe)
        program = job.bundle.folder / PROGRAM, job.bundle.files[PROGRAM]
        of_file = structure.questions(job.plan, program)
        asked = proof.in_order([*of_file, *proof.questions(subject, all_floats=all_floats), *_whole(job, probe)])
        with screen.progress(f"proving {job.title}", sum(question.cases for question in asked)) as bar:
            proved = proof.prove(asked, bar.advance, subject.abandon)
    taken = proof.of_plan(job.plan, verdict.where_of(job), all_floats=all_floats)
    return proof.document(proved, taken, time.perf_counter() - started) | {"board": job.identity.document()}


def _whole(job: Job, probe: Probe) -> Iterator[Question]:
    """What is asked of the network as a whole."""
    vectors = composition.seeded(job.network, job.request.seed)
    expected = job.reference.activations(vectors)
    yield from composition.questions(job.plan, probe.deployed, vectors, expected, probe.timeout_s, probe.scratch)
    yield races.question(job.plan, (job.profile, job.bundle.folder))
