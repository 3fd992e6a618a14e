"""Forged decisions: changed slabs, and all documents that follow from them, as the program itself writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.applications.decide import page
from harness.applications.decide.entries import DecisionDocument
from harness.applications.decide.job import DOCUMENT, Job, opened, run, write
from harness.applications.decide.partition import Sets
from harness.applications.decide.slabs import Task

ChangeOfSlab = Callable[[Job, Task, Sets], Sets]


class _Bar:
    def advance(self, count: int) -> None:
        """Show nothing."""


@contextmanager
def silent(*_: object) -> Iterator[Any]:
    """Provide a progress bar that shows nothing."""
    yield _Bar()


def rebuild(folder: Path, change: ChangeOfSlab) -> None:
    """Change the decisions of each slab, and write all that follows; dates and versions stay."""
    job, document = opened(folder), DecisionDocument.read(folder / DOCUMENT)
    for task in job.tasks:
        result = job.finished(task)
        assert result is not None
        job.keep(task, replace(result, regions=change(job, task, result.regions.copy())))
    with ThreadPoolExecutor(1) as pool:
        rebuilt = run(job, pool, 1, silent)
    kept = {key: getattr(document, key) for key in ("harness", "began", "wall_s")}
    rebuilt = rebuilt.model_copy(update=kept)
    write(job, rebuilt, page.html(job, rebuilt))


def mask(_job: Job, _task: Task, regions: Sets) -> Sets:
    """Keep the first decision of each region."""
    return regions & (0 - regions)


def mask_box(box: tuple[int, ...]) -> ChangeOfSlab:
    """Return a change that leaves decision 0 in the regions of one box."""

    def change(job: Job, task: Task, regions: Sets) -> Sets:
        codes = job.partition.codes
        places = [
            [segment for segment, members in enumerate(each.members) if interval in members]
            for each, interval in zip(codes, box, strict=True)
        ]
        start = int(codes[job.axis].segment[task.first])
        own = [place - start for place in places[job.axis] if 0 <= place - start < regions.shape[job.axis]]
        places[job.axis] = own
        if own:
            regions[np.ix_(*places)] = 1
        return regions

    return change
