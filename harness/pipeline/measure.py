"""The pipeline of `measure`: request, plan, bundle, locked board in a known state, segments, statistics, evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, Unpack

import numpy as np

from harness import targets
from harness.boards.connect import Connection
from harness.boards.locks import LOCK_WAIT_S, session
from harness.boards.profile import Profile
from harness.boards.tuning import Notify, drifted, facts, loaded, measuring_state, take
from harness.boards.tuning.identify import require_same_boot
from harness.boards.workspace import Workspace
from harness.core.console import Console
from harness.core.errors import BoardError, RequestError
from harness.execution import program
from harness.execution.program import Deployed
from harness.model import stream as streams
from harness.model.network import Network
from harness.pipeline import attempt
from harness.report.plan_table import plan_table
from harness.runs import job as jobs
from harness.runs.entries import MeasurementDocument
from harness.runs.job import Job, Request
from harness.runs.measurement import base, document, segments
from harness.runs.measurement.base import READINGS_FILE, Base
from harness.runs.measurement.document import Cpu, Measured, Priority
from harness.runs.measurement.request import Choices, MeasurementOptions, Quantity, options_for
from harness.runs.measurement.segments import Measurer, Probe, Readings, Work

LOAD_LIMIT_S = 4 * 3600.0
"""Limit of a load in addition to the requested duration: an abandoned load ends by itself."""


Extension: TypeAlias = Callable[[Job, MeasurementDocument, Readings, Mapping[Quantity, Cpu], Sequence[Base]], object]
"""Writes files of an application into the folder of a measurement, from its readings and processor times."""


@dataclass(frozen=True)
class MeasurementRequest:
    """A checked request: the run, the measured quantity, and the measurements to compare with.

    With an `extension`, processor times are measured too, if the board is real.
    """

    request: Request
    options: MeasurementOptions
    bases: tuple[Base, ...]
    extension: Extension | None = None


def build_request(
    request: Request,
    workspace: Workspace,
    *,
    against: Sequence[Path] = (),
    extension: Extension | None = None,
    **choices: Unpack[Choices],
) -> MeasurementRequest:
    """Check the whole request before anything is built; vectors and trace of `request` are replaced.

    RequestError for a quantity that the board lacks, and for a base that measured something else.
    """
    if request.block not in {None, 1}:
        raise RequestError("--block: a measurement executes one vector at a time", "omit it")
    board = targets.load_boards(workspace.boards).board(request.board)
    options = options_for(board, **choices)
    network = workspace.model(request.model)
    if request.stream is not None:
        network = streams.stream(network, request.stream, request.pulse, request.steps).network
        options = dataclasses.replace(options, warmup=-(-options.warmup // network.steps) * network.steps)
    if against and options.quantity is Quantity.CYCLES:
        raise RequestError("--against compares times and instructions, not cycles", "omit --count")
    request = dataclasses.replace(request, block=1, trace=0, vectors=str(-(-options.vectors // network.steps)))
    paths = [workspace.run(path) for path in against]
    bases = _bases(paths, board, request, options, network, workspace) if against else ()
    return MeasurementRequest(request, options, bases, extension)


def _bases(
    paths: Sequence[Path],
    board: Profile,
    request: Request,
    options: MeasurementOptions,
    network: Network,
    workspace: Workspace,
) -> tuple[Base, ...]:
    """Return the measurements to compare with; each must have the plan of this measurement."""
    plan = jobs.planned(network, board, dataclasses.asdict(request))
    history = [workspace.runs / name for name in workspace.run_names() if f"_{board.name}_{network.name}" in name]
    return base.read_all(paths, board, plan, options, history)


def execute(
    measurement: MeasurementRequest, workspace: Workspace, console: Console
) -> tuple[MeasurementDocument, Path]:
    """Measure and return the document and the run folder; InfrastructureError if there is no verdict."""
    with attempt.failures(None) as failing:
        checked = jobs.check(measurement.request, workspace, "measure")
        console.show(plan_table(checked.plan, checked.profile))
        attempt.show_engines(checked.request, console)
        job = jobs.build(checked, workspace)
        failing.folder = job.folder.path
        attempt.show_checklist(job, workspace, console)
        with attempt.journal(job.folder, console, "a measurement is not resumed: start it again") as notify:
            return _carry_out(job, measurement, workspace, console, notify), job.folder.path


def _carry_out(
    job: Job, measurement: MeasurementRequest, workspace: Workspace, console: Console, notify: Notify
) -> MeasurementDocument:
    """Measure on the board and write `run.json`."""
    attempt.write_stimuli(job, console)
    with _connect(job, workspace, notify) as connection:
        job = attempt.on_board(job, connection)
        base.require_kind(measurement.bases, connection.identity)
        measured = _on_board(job, measurement, connection, workspace, console, notify)
    readings = segments.series(measured.segments)
    job.folder.write_board(Path(READINGS_FILE).stem, job.identity)
    np.save(job.folder.path / READINGS_FILE, readings)
    console.note("computing the statistics")
    result = document.conclude(job, measurement.options, measured, readings, measurement.bases)
    if measurement.extension:
        measurement.extension(job, result, readings, measured.cpu, measurement.bases)
    return attempt.finish(job, result, notify)


def _connect(job: Job, workspace: Workspace, notify: Notify) -> AbstractContextManager[Connection]:
    """Return the locked board; for an emulated board its variant that counts instructions."""
    board, purpose = job.profile, f"measure {job.network.name}"
    locks, counting = workspace.locks(board), board.emulated
    return session(board, locks, workspace.cache, purpose, LOCK_WAIT_S, notify, counting=counting)


def _on_board(
    job: Job,
    measurement: MeasurementRequest,
    connection: Connection,
    workspace: Workspace,
    console: Console,
    notify: Notify,
) -> Measured:
    options = measurement.options
    board, cores = connection.board, {item.core for item in job.plan.items if item.core is not None}
    environment = program.environment(board) | facts(board, cores=cores)
    with (
        measuring_state(job.profile, board, workspace.cache, notify, work=connection.work, cores=cores) as settings,
        attempt.deployed(job, connection, workspace.cache, notify) as plain,
    ):
        environment |= attempt.devices(job, plain, notify)
        deployed = dataclasses.replace(plain, command=(*_as_root(job.profile), *plain.command))
        measurer, probe, priority = _measurer(job, deployed, options, notify)
        work = measurer.work()
        snapshots, measured_segments = [take(board)], []
        limit_s = LOAD_LIMIT_S + (options.duration_s or 0.0)
        with (
            loaded(
                options.load, job.profile, board, notify, work=connection.work, cores=cores, limit_s=limit_s
            ) as load,
            console.progress(job.title, options.samples) as bar,
        ):
            for segment in measurer.segments(work):
                load.check()
                measured_segments.append(segment)
                snapshots.append(take(board))
                bar.advance(len(segment.readings))
            is_timed = measurement.extension is not None and not job.profile.emulated
            cpu = _processor_times(measurer, work, notify) if is_timed else {}
        if load.failure:
            raise BoardError(f"load {load.name} ended before the measurement: {load.failure}")
        drifts = drifted(board, settings)
        program.require_unchanged(deployed)
        require_same_boot(board, job.identity)
        attempt.clean(deployed, notify)
    return Measured(
        environment,
        settings,
        drifts,
        load,
        probe,
        tuple(measured_segments),
        tuple(snapshots),
        priority,
        tuple(measurer.arguments),
        cpu,
    )


def _processor_times(measurer: Measurer, work: Work, notify: Notify) -> dict[Quantity, Cpu]:
    """Measure processor times: all, in user space and in the kernel, each in a process of its own."""
    times = {}
    for quantity in (Quantity.CPU, Quantity.USER, Quantity.SYSTEM):
        notify(f"measuring the {quantity.value} times")
        options = dataclasses.replace(measurer.options, quantity=quantity, samples=1, duration_s=None)
        own = dataclasses.replace(measurer, options=options)
        cost_ns = float(own.probe().readings.mean())
        [segment] = own.segments(work)
        if segment.outputs.differing:
            raise BoardError(f"{segment.outputs.differing:,} outputs differ while {quantity.value} times are measured")
        times[quantity] = Cpu(segment.readings, cost_ns)
    return times


def _as_root(board: Profile) -> tuple[str, ...]:
    """Return the command prefix for priority and locked memory; on an emulated board the user is root."""
    return () if board.emulated else board.timing.as_root


def _measurer(
    job: Job, deployed: Deployed, options: MeasurementOptions, notify: Notify
) -> tuple[Measurer, Probe, Priority]:
    """Return the measurer, with the profile's priority if the board accepts it, and the cost of a reading."""
    arguments, fifo = _arguments(job, options), job.profile.timing.fifo
    plain = Measurer(job, deployed, options, arguments)
    if fifo is None or options.quantity is not Quantity.TIME:
        return plain, plain.probe(), Priority(None, "")
    urgent = dataclasses.replace(plain, arguments=[*arguments, "--fifo", str(fifo)])
    try:
        return urgent, urgent.probe(), Priority(fifo, "")
    except BoardError as error:
        notify(f"warning: no SCHED_FIFO {fifo}: {error.message}")
        return plain, plain.probe(), Priority(None, error.message)


def _arguments(job: Job, options: MeasurementOptions) -> list[str]:
    """Return the arguments of every measured process; a board that counts instructions has one core."""
    if job.profile.emulated:
        return ["--block", "1"]
    if options.quantity is not Quantity.TIME:
        return program.options(job.plan)
    timing = job.profile.timing
    locked = ["--lock-memory"] if timing.lock_memory else []
    latency = [] if timing.dma_latency_us is None else ["--dma-latency", str(timing.dma_latency_us)]
    return [*program.options(job.plan), *locked, *latency]
