"""`harness run`: plan, build, deploy, execute, collect, compare, keep the evidence, tell the verdict."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from harness import dumps, evidence, execute, jobs, report, verdict
from harness.board.lock import board_lock
from harness.board.reach import Reached, reach
from harness.board.session import Board
from harness.commands.plan import plan_table
from harness.compare import Comparison, compare
from harness.diagnosis import Diagnosis, diagnose
from harness.errors import EXIT_DIFFERS, EXIT_DONE, InfrastructureError, ToolError
from harness.evidence import ChunkRecord, RunFolder
from harness.execute import Deployed, Executed
from harness.jobs import Job, Request
from harness.network import Array, Network
from harness.plan import Plan
from harness.profile import Profile
from harness.screen import Bar, Screen
from harness.workspace import Workspace

Notify = Callable[[str], None]
LOCK_WAIT_S = 3600.0
STIMULI_AT_ONCE = 100_000


@dataclass(frozen=True)
class Chunk:
    """Vectors `start` to `stop` of the run."""

    index: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many vectors."""
        return self.stop - self.start


@dataclass(frozen=True)
class Begun:
    """A chunk that the board and the reference work on."""

    chunk: Chunk
    vectors: Array
    executed: Future[Executed]
    expected: Future[tuple[Array, ...]]


def run(request: Request, resume: Path | None, workspace: Workspace, screen: Screen) -> int:
    """The whole command; returns the exit code of the verdict."""
    folder: Path | None = resume
    try:
        job = _settle(request, resume, workspace, screen)
        folder = job.folder.path
        with _journal(job.folder, screen) as notify:
            document = _carry_out(job, workspace, screen, notify)
    except (InfrastructureError, OSError) as error:
        failure = error if isinstance(error, InfrastructureError) else _host_failure(error)
        screen.document(verdict.inconclusive(request, failure, str(folder) if folder else None))
        screen.failure(failure)
        return failure.exit_code
    _show(document, job.folder, screen)
    screen.document(verdict.summary(document, str(job.folder.path)))
    return EXIT_DONE if document["verdict"] == "identical" else EXIT_DIFFERS


def _host_failure(error: OSError) -> InfrastructureError:
    """A full disk, missing rights: a file of this machine that the run needs."""
    return ToolError(f"this machine: {error}", "check free space and rights of the runs folder and the cache")


def _settle(request: Request, resume: Path | None, workspace: Workspace, screen: Screen) -> Job:
    def show_plan(plan: Plan, board: Profile) -> None:
        screen.show(plan_table(plan, board))

    job = jobs.resume(resume, workspace, show_plan) if resume else jobs.prepare(request, workspace, show_plan)
    state = "reused" if job.bundle.reused else "built"
    screen.note(f"bundle {job.bundle.sha256[:16]} {state} ({job.bundle.compiler})")
    return job


@contextmanager
def _journal(folder: RunFolder, screen: Screen) -> Iterator[Notify]:
    """Notes that go to the screen and, with the time, to the run's log."""
    with (folder.path / "log.txt").open("a", encoding="utf-8") as log:

        def notify(text: str) -> None:
            screen.note(text)
            log.write(f"{evidence.now():%Y-%m-%dT%H:%M:%SZ} {text}\n")
            log.flush()

        try:
            yield notify
        except BaseException as error:
            notify(f"stopped: {error or type(error).__name__}")
            notify(f"finished chunks are kept; go on with: harness run --resume {shlex.quote(str(folder.path))}")
            raise


def _carry_out(job: Job, workspace: Workspace, screen: Screen, notify: Notify) -> dict[str, Any]:
    """From the stimuli to `run.json`."""
    _write_stimuli(job, screen)
    purpose = f"run {job.network.name}"
    with (
        board_lock(job.profile.name, workspace.cache / "locks", purpose, LOCK_WAIT_S, notify),
        reach(job.profile, workspace.cache, notify) as reached,
    ):
        environment = execute.environment(reached.board)
        with _known_state(job.profile, reached.board, workspace.cache, notify) as setup:
            _run_chunks(job, reached, screen, notify)
    document = verdict.conclude(job, environment, setup)
    (job.folder.path / "report.html").write_text(report.html(document), encoding="utf-8")
    (job.folder.path / "junit.xml").write_text(report.junit(document), encoding="utf-8")
    notify(f"verdict: {document['verdict']}")
    job.folder.finish(document)
    return document


def _write_stimuli(job: Job, screen: Screen) -> None:
    """Keep all vectors; a file that is there is complete."""
    if job.folder.stimuli.exists():
        return
    count = job.stimuli.count
    temporary = job.folder.path / "stimuli.part"
    with temporary.open("wb") as file, screen.progress("writing stimuli", count) as bar:
        file.write(dumps.header(np.dtype(np.float32), count, job.network.input_width))
        for chunk in _chunks(count, STIMULI_AT_ONCE):
            file.write(np.ascontiguousarray(job.stimuli.chunk(chunk.start, chunk.stop)).data.cast("B"))
            bar.advance(chunk.size)
    temporary.replace(job.folder.stimuli)


def _chunks(count: int, size: int) -> Iterator[Chunk]:
    for index, start in enumerate(range(0, count, size)):
        yield Chunk(index, start, min(start + size, count))


@contextmanager
def _known_state(board: Profile, session: Board, cache: Path, notify: Notify) -> Iterator[list[dict[str, Any]]]:
    """Run the profile's setup commands, and whatever happens its teardown commands; real boards only."""
    if board.emulated:
        yield []
        return
    try:
        yield [_set_state(command, session, notify) for command in board.setup]
    except BaseException:
        _restore_after_failure(board, cache, notify)
        raise
    _restore(board, session, notify)


def _restore(board: Profile, session: Board, notify: Notify) -> None:
    for command in board.teardown:
        _set_state(command, session, notify)


def _restore_after_failure(board: Profile, cache: Path, notify: Notify) -> None:
    """By a session of its own, as the failed one is over; what goes wrong here must not hide the first cause."""
    if not board.teardown:
        return
    try:
        with reach(board, cache, notify) as again:
            _restore(board, again.board, notify)
    except InfrastructureError as error:
        notify(f"warning: the board's state was not restored: {error.message}")


def _set_state(command: str, session: Board, notify: Notify) -> dict[str, Any]:
    done = session.run(shlex.split(command), execute.COMMAND_TIMEOUT_S)
    output = (done.stdout + done.stderr).decode(errors="replace").strip()[-500:]
    if done.status != 0:
        notify(f"warning: {command!r} failed on the board (exit status {done.status}): {output}")
    return {"command": command, "status": done.status, "output": output}


def _run_chunks(job: Job, reached: Reached, screen: Screen, notify: Notify) -> None:
    """Execute, collect, compare and keep every chunk that is not finished yet."""
    deployed = execute.deploy(reached.board, job.bundle, reached.work, job.folder.name)
    finished = {record.index for record in job.folder.chunks()}
    todo = [chunk for chunk in _chunks(job.stimuli.count, job.request.chunk) if chunk.index not in finished]
    done = job.stimuli.count - sum(chunk.size for chunk in todo)
    if done:
        notify(f"resuming after {done:,} vectors")
    title = f"{job.network.name} on {job.profile.name}{' (emulated)' if job.profile.emulated else ''}"
    with screen.progress(title, job.stimuli.count, done) as bar:
        _run_pipelined(job, deployed, todo, bar)
    execute.clean(deployed)


def _run_pipelined(job: Job, deployed: Deployed, todo: Sequence[Chunk], bar: Bar) -> None:
    """While the board works on a chunk and this machine on its reference, the chunk before is collected."""
    with ExitStack() as stack:
        board, reference = (stack.enter_context(ThreadPoolExecutor(max_workers=1)) for _ in range(2))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.push(partial(_end_session, deployed.board))
        begun: Begun | None = None
        for chunk in [*todo, None]:
            following = _begin(job, deployed, chunk, scratch, board, reference) if chunk else None
            if begun:
                _finish(job, deployed, begun)
                bar.advance(begun.chunk.size)
            begun = following


def _end_session(board: Board, kind: type[BaseException] | None, *_: object) -> None:
    """After a failure nobody waits for what still runs on the board."""
    if kind is not None:
        board.close()


def _begin(job: Job, deployed: Deployed, chunk: Chunk, scratch: Path, board: Executor, reference: Executor) -> Begun:
    """Start a chunk on the board and in the reference."""
    vectors, slot = job.stimuli.chunk(chunk.start, chunk.stop), chunk.index % execute.SLOTS
    upload = scratch / f"vectors{slot}.npy"
    dumps.write(upload, vectors)
    options, timeout_s = execute.options(job.plan), job.profile.timeout_s
    executed = board.submit(
        execute.execute_chunk, deployed, slot, upload, chunk.size, job.network.layers, options, timeout_s
    )
    return Begun(chunk, vectors, executed, reference.submit(job.reference.activations, vectors))


def _finish(job: Job, deployed: Deployed, begun: Begun) -> None:
    """Collect what the request wants, compare it, write the chunk's record last."""
    chunk, executed, references = begun.chunk, begun.executed.result(), begun.expected.result()
    reference_sha256 = tuple(dumps.sha256(values) for values in references)
    suspects = [i for i, pair in enumerate(zip(reference_sha256, executed.sha256, strict=True)) if pair[0] != pair[1]]
    wanted = range(len(references)) if job.request.fetch == "all" else suspects
    actual = _collect(job, deployed, executed, chunk.index, wanted)
    comparisons = _compare_layers(references, actual, chunk.start)
    for layer in wanted:
        name = dumps.file_name(layer, job.network.layers[layer])
        dumps.write(job.folder.dumps("reference", chunk.index) / name, references[layer])
    diagnosis = _diagnose(job.network, begun.vectors, references, actual, comparisons)
    record = ChunkRecord(
        chunk.index, chunk.start, chunk.stop, comparisons, reference_sha256, executed.sha256, diagnosis
    )
    job.folder.write_chunk(record)


def _collect(job: Job, deployed: Deployed, executed: Executed, index: int, wanted: Sequence[int]) -> dict[int, Array]:
    """The fetched dumps by layer index."""
    layers, folder = job.network.layers, job.folder.dumps("target", index)
    execute.collect(deployed, executed, wanted, layers, folder)
    return {
        layer: dumps.read(
            folder / dumps.file_name(layer, layers[layer]), layers[layer], executed.vectors, executed.sha256[layer]
        )
        for layer in wanted
    }


def _compare_layers(references: Sequence[Array], actual: dict[int, Array], start: int) -> tuple[Comparison, ...]:
    """Every layer's result; one that was not fetched had the reference's SHA-256 on the board."""
    return tuple(
        compare(expected, actual[layer], start) if layer in actual else Comparison(expected.size, 0, None)
        for layer, expected in enumerate(references)
    )


def _diagnose(
    network: Network,
    vectors: Array,
    references: Sequence[Array],
    actual: dict[int, Array],
    comparisons: Sequence[Comparison],
) -> Diagnosis | None:
    """Of the first layer that differs: all that it was fed with is right, so that the fault is in it."""
    first = next((layer for layer, comparison in enumerate(comparisons) if comparison.differing), None)
    if first is None:
        return None
    written = {network.input_name: vectors} | {
        layer.output: values for layer, values in zip(network.layers, references, strict=True)
    }
    layer = network.layers[first]
    inputs = [written[source] for source in layer.sources]
    return diagnose(first, layer, inputs, references[first], actual[first])


def _show(document: dict[str, Any], folder: RunFolder, screen: Screen) -> None:
    good = document["verdict"] == "identical"
    headline = Text(f"{document['verdict']}: {document['reason']}", style="bold green" if good else "bold red")
    screen.show(_layer_table(document["layers"]), headline)
    if document["diagnosis"]:
        screen.show(Text(f"likely cause, layer {document['diagnosis']['layer']}: {document['diagnosis']['text']}"))
    if document["board"]["kind"] == "emulated":
        warning = f"{document['board']['name']} was EMULATED: a real aarch64 Linux, but its times are not MET"
        screen.show(Text(warning, style="yellow"))
    screen.show(Text(f"report: {folder.path / 'report.html'}"))


def _layer_table(layers: Sequence[dict[str, Any]]) -> Table:
    table = Table("layer", "item", "ran on", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("compared", justify="right")
    table.add_column("differing", justify="right")
    table.add_column("first difference")
    for layer in layers:
        differing = Text(f"{layer['differing']:,}", style="bold red" if layer["differing"] else "")
        where = (layer["name"], f"{layer['item']} ({layer['target']})", layer["ran_on"])
        table.add_row(*where, f"{layer['compared']:,}", differing, _first(layer["first_difference"]))
    return table


def _first(difference: dict[str, Any] | None) -> str:
    if difference is None:
        return ""
    return "vector {vector}, unit {unit}: expected {expected}, found {actual}".format_map(difference)
