"""Traces of the deployed program: undisturbed, with each item delayed in turn, and with random delays.

The program executes the first vectors of the run repeatedly and records the time of every step of every item.
`harness.plan.conformance` decides whether the traces are paths of the plan's net.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import targets
from harness.boards.identity import EMULATED
from harness.core.safe_io import load_array
from harness.execution import dumps, program
from harness.execution.program import Deployed
from harness.plan import conformance
from harness.plan.conformance import Condition, ConformanceEntry, arrange, read
from harness.plan.plan import Plan
from harness.runs.job import Job

DELAY_US = 300
"""Delay before each task of the delayed item; maximum of the random delays before each step of all items."""

SIMULATED_VECTORS = 16
"""Vectors of a traced execution where an item does not run on hardware.

A simulated device computes a block of 1,000 vectors 100 times slower than the device.  The order of the steps does not
depend on the number of vectors, the times of such a board say nothing, and the delays, which find wrong orders, are
longer than the steps of a small block.
"""

TRACED_VALUES = 1 << 22
"""Activations of a traced execution, of all layers: 100 blocks of a large network would take minutes."""

SIMULATED_OPERATIONS = 1 << 26
"""Operations of a traced execution where an item does not run on hardware: 100 executions take about a minute."""

LONGEST_LINE_BYTES = 1024  # of a trace: two names, four numbers

VECTORS_FILE = "vectors.npy"

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


def observe(job: Job, deployed: Deployed, advance: Advance) -> ConformanceEntry:
    """Return the result of one trace for every perturbation.

    The traces stay in the run folder.  `advance` gets the number of executions of each.  BoardError if the program
    fails, or a trace is invalid.
    """
    vectors = job.folder.traces / VECTORS_FILE
    size = vectors_of(job)
    dumps.write(vectors, job.stimuli.chunk(0, size))
    there = deployed.run_folder / vectors.name
    deployed.board.put(vectors, there)
    job.folder.write_board(job.folder.traces.name, job.identity)
    # A block that is not full may take another way through the program, such as launches without a CUDA graph.
    traced = dataclasses.replace(job.plan, block=size)
    found = []
    for perturbation in perturbations(job.plan, job.request.trace, job.request.seed):
        arguments = ["--vectors", str(there), *program.options(traced), *perturbation.options]
        trace = job.folder.traces / perturbation.file
        repeated = [*arguments, "--repeat", str(perturbation.executions)]
        _trace(deployed, repeated, trace, job.profile.timeout_s, _longest(job.plan, perturbation.executions))
        found.append(_condition(job.plan, perturbation, trace))
        advance(perturbation.executions)
    return conformance.document(job.plan, found, size)


def vectors_of(job: Job) -> int:
    """Return the number of vectors of a traced execution: a block, or fewer.

    They are fewer if the network is large or a part of the board is simulated.
    """
    activations = sum(layer.size for layer in job.plan.network.layers)
    block = min(job.plan.block, job.stimuli.count, max(TRACED_VALUES // activations, 1))
    places = {targets.find(item.target).environment(job.profile) for item in job.plan.items}
    simulated = job.identity.kind == EMULATED or places != {targets.HARDWARE}
    if not simulated:
        return block
    return min(block, SIMULATED_VECTORS, max(SIMULATED_OPERATIONS // max(job.network.operations, 1), 1))


def kept(plan: Plan, folder: Path, executions: int, seed: int) -> ConformanceEntry:
    """Return the result of `observe` from the files that it left in `folder`.

    BoardError if a trace is invalid, OSError and ValueError if a file cannot be read.
    """
    found = [
        _condition(plan, perturbation, folder / perturbation.file)
        for perturbation in perturbations(plan, executions, seed)
    ]
    return conformance.document(plan, found, len(load_array(folder / VECTORS_FILE)))


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
