"""Observe the deployed program at work: traces of it undisturbed, with each item slowed down in turn, and at random.

The first block of the run's vectors passes through the network again and again, with every step of every item timed
on the board.  That the traces are paths of the plan's net is decided by `harness.plan.conformance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.execution import dumps, program
from harness.execution.program import Deployed
from harness.plan.conformance import Condition, arrange, read
from harness.plan.plan import Plan
from harness.runs.job import Job

DELAY_US = 300
"""Before each task of the item that is slowed down; at random: at most, before each step of all items."""

LONGEST_LINE_BYTES = 1024  # of a trace: two names, four numbers

Advance = Callable[[int], object]


@dataclass(frozen=True)
class Perturbation:
    """Options that slow the program down; `executions` are traced with them."""

    name: str
    options: tuple[str, ...]
    executions: int

    @property
    def file(self) -> str:
        """The name of its trace in the run folder."""
        return f"{self.name.replace(' ', '_').replace('µ', 'u')}.jsonl"


def perturbations(plan: Plan, executions: int, seed: int) -> Iterator[Perturbation]:
    """Yield the perturbations: none, each item slowed down, random; the first one gets the rest of `executions`."""
    delays = [
        *((f"delay {item.name} {DELAY_US} µs", ("--delay", f"{item.name}:{DELAY_US}")) for item in plan.items),
        (f"random delays up to {DELAY_US} µs", ("--random-delay", f"{DELAY_US}:{seed % (1 << 31)}")),
    ]
    each = executions // (1 + len(delays))
    yield Perturbation("undisturbed", (), executions - each * len(delays))
    if each:
        yield from (Perturbation(name, options, each) for name, options in delays)


def observe(job: Job, deployed: Deployed, advance: Advance) -> tuple[Condition, ...]:
    """Return one trace for every perturbation; the files stay in the run folder.  `advance` hears of traced executions.

    BoardError if the program fails, or a trace is not what it should be.
    """
    size = min(job.plan.block, job.stimuli.count)
    vectors = job.folder.traces / "vectors.npy"
    dumps.write(vectors, job.stimuli.chunk(0, size))
    there = deployed.run_folder / vectors.name
    deployed.board.put(vectors, there)
    job.folder.write_board(job.folder.traces.name, job.identity)
    found = []
    for perturbation in perturbations(job.plan, job.request.trace, job.request.seed):
        arguments = ["--vectors", str(there), *program.options(job.plan), *perturbation.options]
        trace = job.folder.traces / perturbation.file
        repeated = [*arguments, "--repeat", str(perturbation.executions)]
        _trace(deployed, repeated, trace, job.profile.timeout_s, _longest(job.plan, perturbation.executions))
        found.append(_condition(job.plan, perturbation, trace))
        advance(perturbation.executions)
    return tuple(found)


def kept(plan: Plan, folder: Path, executions: int, seed: int) -> tuple[Condition, ...]:
    """Return the result of `observe` from the traces that it left in `folder`.

    BoardError if a trace is not what it should be, OSError if it cannot be read.
    """
    return tuple(_condition(plan, each, folder / each.file) for each in perturbations(plan, executions, seed))


def _condition(plan: Plan, perturbation: Perturbation, trace: Path) -> Condition:
    return Condition(perturbation.name, arrange(plan, read(trace), perturbation.executions))


def _longest(plan: Plan, executions: int) -> int:
    """Return the maximum size of a trace in bytes, if each step is taken twice."""
    return 2 * executions * sum(map(len, plan.schedules)) * LONGEST_LINE_BYTES


def _trace(deployed: Deployed, arguments: list[str], to: Path, timeout_s: float, largest: int) -> None:
    """Run the program with its steps timed, and fetch the trace whole."""
    out = program.out_folder(deployed.run_folder, 0)
    there = out / "trace.jsonl"
    traced = ["--out", str(out), "--dump", "none", "--warmup", "1", "--trace"]
    program.run_program(deployed, [*arguments, *traced], timeout_s)
    program.fetch_whole(deployed.board, there, to, largest)
