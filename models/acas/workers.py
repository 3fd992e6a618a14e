"""Long steps, one process a core, with a progress bar each."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Manager, get_context
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from models.acas.recipe import Learner

Value = TypeVar("Value")
Step = Callable[["Learner", Callable[[], object]], object]

Reports: TypeAlias = "queue.Queue[tuple[TaskID, int | None] | None]"

REPORTED_STEPS = 50


def shown(label: str, values: Iterable[Value], total: int, done: int = 0) -> Iterator[Value]:
    """The values, with a progress bar that begins at `done` of `total`."""
    with _progress() as bar:
        task = bar.add_task(label, total=total, completed=done)
        for value in values:
            bar.advance(task)
            yield value


def run(step: Step, label: str, jobs: Mapping[str, tuple[Learner, int]]) -> None:
    """Do `step` for each learner, with its number of batches; what is there already is done at once.

    Raises what the first failing step raised.
    """
    with Manager() as manager, _progress() as bar, ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        reports: Reports = manager.Queue()
        tasks = {name: bar.add_task(f"{label} {name}", total=steps) for name, (_, steps) in jobs.items()}
        listener = threading.Thread(target=_listen, args=(reports, bar))
        listener.start()
        try:
            started = [pool.submit(_work, step, learner, tasks[name], reports) for name, (learner, _) in jobs.items()]
            for future in started:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # after a failure, no job is begun any more
            reports.put(None)
            listener.join()


def _listen(reports: Reports, bar: Progress) -> None:
    totals = {task.id: task.total for task in bar.tasks}
    for task, steps in iter(reports.get, None):  # type: ignore[misc] # None ends it
        if steps is None:
            bar.update(task, completed=totals[task])
        else:
            bar.advance(task, steps)


def _work(step: Step, learner: Learner, task: TaskID, reports: Reports) -> None:
    """In a process of its own: do the step and report its batches, some at a time, and its end as None."""
    done = itertools.count(1)

    def on_step() -> None:
        if next(done) % REPORTED_STEPS == 0:
            reports.put((task, REPORTED_STEPS))

    step(learner, on_step)
    reports.put((task, None))


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, console=Console(stderr=True))
