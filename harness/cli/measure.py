"""`harness measure`: set the board to a known state, time every execution, and store times and state of the board."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._group import Command
from harness.cli._options import Duration, as_json, pass_workspace, planned, recorded, samples, seed, warmup
from harness.core.console import Console
from harness.core.errors import BoardError, InfrastructureError, RequestError
from harness.core.outcome import Outcome

if TYPE_CHECKING:
    from harness.boards.connect import Connection
    from harness.boards.profile import Profile
    from harness.boards.tuning import LoadName, Notify
    from harness.execution import program
    from harness.model.network import Network
    from harness.plan.plan import Plan
    from harness.runs.entries import MeasurementDocument
    from harness.runs.job import Job, Request
    from harness.runs.measurement.base import Base
    from harness.runs.measurement.document import Cpu, Measured, Priority
    from harness.runs.measurement.request import Asked, Quantity, Scope
    from harness.runs.measurement.segments import Measurer, Probe, Work


LOAD_LIMIT_S = 4 * 3600.0  # in addition to the requested duration, so that an abandoned load ends by itself


@click.command("measure", cls=Command, epilog="Example: harness measure --board xavier --model acas_coc")
@planned
@samples
@click.option("--duration", metavar="TIME", type=Duration(), help="Minimum duration of the measurement: 90s, 15m, 8h.")
@click.option(
    "--scope",
    type=click.Choice(["network", "item", "layer"]),
    help="Measured part; default: network for times, layer for counts.",
)
@click.option(
    "--count",
    type=click.Choice(["time", "instructions", "cycles"]),
    help="Measure times, or events of the processor; default on an emulated board: instructions.",
)
@click.option(
    "--load",
    type=click.Choice(["idle", "memory", "cpu", "io", "network"]),
    default="idle",
    show_default=True,
    help="Load on the board during the measurement.",
)
@warmup
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    shell_complete=_completion.runs,
    multiple=True,
    metavar="RUN",
    help="Earlier measurement to compare with: a folder or a name under runs/. "
    "Name at least three, so that the gate contains the noise between runs.",
)
@seed
@recorded
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, **options: Any) -> int:
    """Measure the execution times of a model on a board, or count its instructions.

    Exit code: 0 measured, 1 wrong outputs, varying counts or slower than --against, 2 the request is invalid,
    3 inconclusive.
    """
    return measure(ordered(space, **options), space, Console.open(as_json=as_json))


@dataclass(frozen=True)
class Order:
    """A checked request: the run, the measured quantity, and the measurements to compare with.

    A `profiled` one also measures processor times, if the board is real, and writes the profile.
    """

    request: Request
    asked: Asked
    bases: tuple[Base, ...]
    profiled: bool = False


def measure(order: Order, workspace: Workspace, console: Console) -> int:
    """Measure, show the result and return the exit code of the verdict."""
    from harness.report import terminal
    from harness.runs import document as run_document
    from harness.runs.measurement import document

    try:
        found, folder = execute(order, workspace, console)
    except InfrastructureError as failure:
        console.document(run_document.inconclusive(order.request, failure))
        console.failure(failure)
        return failure.exit_code
    terminal.show_measurement(found.to_json(), folder / "report.html", console)
    console.document(document.summary(found, folder))
    return Outcome(found.verdict).exit_code


def execute(order: Order, workspace: Workspace, console: Console) -> tuple[MeasurementDocument, Path]:
    """Measure and return the document and the run folder; InfrastructureError if there is no verdict."""
    from harness.cli import _steps

    with _steps.failing_in(None) as failing:
        job = _settle(order.request, workspace, console)
        failing.folder = job.folder.path
        with _steps.journal(job.folder, console, "a measurement is not resumed: start it again") as notify:
            return _carry_out(job, order, workspace, console, notify), job.folder.path


def ordered(
    space: Workspace,
    *,
    against: Sequence[Path],
    samples: int | None,
    duration: float | None,
    scope: Scope | None,
    count: str | None,
    load: LoadName,
    warmup: int | None,
    profiled: bool = False,
    **planned: Any,
) -> Order:
    """Check the whole request before anything is built; `planned` are options of `harness.runs.job.Request`."""
    from harness import targets
    from harness.runs.job import Request
    from harness.runs.measurement import request as requests
    from harness.runs.measurement.request import Quantity

    if not (planned["board"] and planned["model"]):
        raise click.UsageError("give --board and --model")
    if planned["block"] not in {None, 1}:
        raise RequestError("--block: a measurement executes one vector at a time", "omit it")
    board = targets.load_boards(space.boards).board(planned["board"])
    wanted = requests.settle(
        board, samples=samples, scope=scope, count=count, load=load, warmup=warmup, duration=duration
    )
    network, streamed = _network(planned, space)
    if streamed:
        wanted = dataclasses.replace(wanted, warmup=-(-wanted.warmup // network.steps) * network.steps)
    if against and wanted.quantity is Quantity.CYCLES:
        raise RequestError("--against compares times and instructions, not cycles", "omit --count")
    bases = _bases([space.run(path) for path in against], board, planned, wanted, network, space) if against else ()
    vectors = -(-wanted.vectors // network.steps) if streamed else wanted.vectors
    request = Request(**{**planned, "block": 1}, vectors=str(vectors), trace=0)
    return Order(request, wanted, bases, profiled)


def _network(planned: Mapping[str, Any], workspace: Workspace) -> tuple[Network, bool]:
    """Return the network that is measured, and whether it has the steps of a stream, each of which is a vector."""
    from harness.model import stream as streams

    network = workspace.model(planned["model"])
    if planned.get("stream") is None:
        return network, False
    return streams.stream(network, planned["stream"], planned.get("pulse"), planned.get("steps")).network, True


def _bases(
    against: Sequence[Path],
    board: Profile,
    planned: Mapping[str, Any],
    wanted: Asked,
    network: Network,
    workspace: Workspace,
) -> tuple[Base, ...]:
    """Return the measurements to compare with; each must have the plan of this measurement."""
    from harness.runs import job
    from harness.runs.measurement import base

    made = job.planned(network, board, {**planned, "block": 1})
    history = [workspace.runs / name for name in workspace.run_names() if f"_{board.name}_{network.name}" in name]
    return base.read_all(against, board, made, wanted, history)


def _settle(request: Request, workspace: Workspace, console: Console) -> Job:
    from harness.cli import _steps
    from harness.cli.plan import plan_table
    from harness.runs import job as jobs

    def show_plan(plan: Plan, board: Profile) -> None:
        console.show(plan_table(plan, board))
        _steps.tell_engines(request, console)

    job = jobs.prepare(request, workspace, show_plan, kind="measure")
    _steps.tell_unconfirmed(job, workspace, console)
    return job


def _carry_out(job: Job, order: Order, workspace: Workspace, console: Console, notify: Notify) -> MeasurementDocument:
    """Measure on the board and write `run.json`."""
    import numpy as np

    from harness.cli import _steps
    from harness.runs import profile
    from harness.runs.measurement import base, document, segments
    from harness.runs.measurement.base import READINGS_FILE

    _steps.write_stimuli(job, console)
    with _connect(job, workspace, notify) as connection:
        job = _steps.on_board(job, connection)
        base.require_kind(order.bases, connection.identity)
        measured = _on_board(job, order, connection, workspace, console, notify)
    readings = segments.series(measured.segments)
    job.folder.write_board(Path(READINGS_FILE).stem, job.identity)
    np.save(job.folder.path / READINGS_FILE, readings)
    console.note("computing the statistics")
    found = document.conclude(job, order.asked, measured, readings, order.bases)
    if order.profiled:
        profile.write(job, found, readings, measured.cpu, order.bases)
    return _steps.finish(job, found, notify)


def _connect(job: Job, workspace: Workspace, notify: Notify) -> AbstractContextManager[Connection]:
    """Return the locked board; for an emulated board its variant that counts instructions."""
    from harness.boards.locks import session
    from harness.cli._journal import LOCK_WAIT_S

    board, purpose = job.profile, f"measure {job.network.name}"
    locks, counting = workspace.locks(board), board.emulated
    return session(board, locks, workspace.cache, purpose, LOCK_WAIT_S, notify, counting=counting)


def _on_board(
    job: Job, order: Order, connection: Connection, workspace: Workspace, console: Console, notify: Notify
) -> Measured:
    from harness.boards.tuning import drifted, facts, loaded, measuring_state, take
    from harness.boards.tuning.identify import require_same_boot
    from harness.cli import _steps
    from harness.execution import program
    from harness.runs.measurement.document import Measured

    wanted = order.asked
    board, cores = connection.board, {item.core for item in job.plan.items if item.core is not None}
    environment = program.environment(board) | facts(board, cores=cores)
    with (
        measuring_state(job.profile, board, workspace.cache, notify, work=connection.work, cores=cores) as settings,
        _steps.deployed(job, connection, workspace.cache, notify) as plain,
    ):
        environment |= _steps.devices(job, plain, notify)
        deployed = dataclasses.replace(plain, command=(*_as_root(job.profile), *plain.command))
        measurer, probe, priority = _measurer(job, deployed, wanted, notify)
        work = measurer.work()
        snapshots, found = [take(board)], []
        limit_s = LOAD_LIMIT_S + (wanted.duration_s or 0.0)
        with (
            loaded(wanted.load, job.profile, board, notify, work=connection.work, cores=cores, limit_s=limit_s) as load,
            console.progress(job.title, wanted.samples) as bar,
        ):
            for segment in measurer.segments(work):
                load.check()
                found.append(segment)
                snapshots.append(take(board))
                bar.advance(len(segment.readings))
            cpu = _cpu(measurer, work, notify) if order.profiled and not job.profile.emulated else {}
        if load.failure:
            raise BoardError(f"load {load.name} ended before the measurement: {load.failure}")
        moved = drifted(board, settings)
        program.require_unchanged(deployed)
        require_same_boot(board, job.identity)
        _steps.clean(deployed, notify)
    options = tuple(measurer.options)
    return Measured(environment, settings, moved, load, probe, tuple(found), tuple(snapshots), priority, options, cpu)


def _cpu(measurer: Measurer, work: Work, notify: Notify) -> dict[Quantity, Cpu]:
    """Measure processor times: all, in user space and in the kernel, each in a process of its own."""
    from harness.runs.measurement.document import Cpu
    from harness.runs.measurement.request import Quantity

    found = {}
    for quantity in (Quantity.CPU, Quantity.USER, Quantity.SYSTEM):
        notify(f"measuring the {quantity.value} times")
        own = dataclasses.replace(
            measurer, asked=dataclasses.replace(measurer.asked, quantity=quantity, samples=1, duration_s=None)
        )
        cost_ns = float(own.probe().readings.mean())
        [segment] = own.segments(work)
        if segment.outputs.differing:
            raise BoardError(f"{segment.outputs.differing:,} outputs differ while {quantity.value} times are measured")
        found[quantity] = Cpu(segment.readings, cost_ns)
    return found


def _as_root(board: Profile) -> tuple[str, ...]:
    """Return the command prefix for priority and locked memory; on an emulated board the user is root."""
    return () if board.emulated else board.timing.as_root


def _measurer(job: Job, deployed: program.Deployed, wanted: Asked, notify: Notify) -> tuple[Measurer, Probe, Priority]:
    """Return the measurer, with the profile's priority if the board accepts it, and the cost of a reading."""
    from harness.runs.measurement.document import Priority
    from harness.runs.measurement.request import Quantity
    from harness.runs.measurement.segments import Measurer

    options, fifo = _options(job, wanted), job.profile.timing.fifo
    plain = Measurer(job, deployed, wanted, options)
    if fifo is None or wanted.quantity is not Quantity.TIME:
        return plain, plain.probe(), Priority(None, "")
    urgent = dataclasses.replace(plain, options=[*options, "--fifo", str(fifo)])
    try:
        return urgent, urgent.probe(), Priority(fifo, "")
    except BoardError as error:
        notify(f"warning: no SCHED_FIFO {fifo}: {error.message}")
        return plain, plain.probe(), Priority(None, error.message)


def _options(job: Job, wanted: Asked) -> list[str]:
    """Return the options of every measured process; a board that counts instructions has one core."""
    from harness.execution import program
    from harness.runs.measurement.request import Quantity

    if job.profile.emulated:
        return ["--block", "1"]
    if wanted.quantity is not Quantity.TIME:
        return program.options(job.plan)
    timing = job.profile.timing
    locked = ["--lock-memory"] if timing.lock_memory else []
    latency = [] if timing.dma_latency_us is None else ["--dma-latency", str(timing.dma_latency_us)]
    return [*program.options(job.plan), *locked, *latency]
