"""`harness prove`: what `harness run` does, and before it the argument that no other input would differ either."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import execute, network_c, proof, targets
from harness.execute import Deployed
from harness.jobs import Job
from harness.probe import Probe
from harness.proof import Question, Subject, composition
from harness.screen import Screen
from harness.stimuli import stimuli

VECTORS = 2000
"""Of each whole run under delays."""


def prove(job: Job, deployed: Deployed, screen: Screen) -> dict[str, Any]:
    """Ask all questions of the program that is deployed, and of the reference; the content of proof.json."""
    started = time.perf_counter()
    all_floats = job.request.floats == "all"
    with tempfile.TemporaryDirectory() as scratch:
        probe = Probe(deployed, execute.options(job.plan), job.profile.timeout_s, Path(scratch))
        parts = [job.plan.part(task) for task in job.plan.tasks]
        subject = Subject(job.network, parts, network_c.task_codes(job.plan), probe)
        asked = proof.in_order([*proof.questions(subject, all_floats=all_floats), *_whole(job, probe)])
        with screen.progress(f"proving {job.title}", sum(question.cases for question in asked)) as bar:
            proved = proof.prove(asked, bar.advance, subject.abandon)
    played = {item.name: targets.find(item.target).ran_on(job.profile) for item in job.plan.items}
    stand_ins = {item: ran_on for item, ran_on in played.items() if ran_on != targets.HARDWARE}
    granted = {item.name: targets.find(item.target).taken_for_granted for item in job.plan.items}
    of_items = {item: sentences for item, sentences in granted.items() if sentences}
    taken = list(proof.assumptions(job.network, stand_ins, all_floats=all_floats, of_items=of_items))
    return proof.document(proved, taken, time.perf_counter() - started)


def _whole(job: Job, probe: Probe) -> Iterator[Question]:
    """What is asked of the network as a whole."""
    vectors = stimuli(job.network, VECTORS, job.request.seed).chunk(0, VECTORS)
    expected = job.reference.activations(vectors)
    return composition.questions(job.plan, probe.deployed, vectors, expected, probe.timeout_s, probe.scratch)
