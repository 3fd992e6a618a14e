"""`harness run`: plan, build, deploy, execute, collect, compare, keep the evidence, tell the verdict."""

from __future__ import annotations

import dataclasses
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from harness import __version__, bundle, dumps, evidence, execute, plan, profile, report, targets
from harness.board.lock import board_lock
from harness.board.reach import Reached, reach
from harness.board.session import Board
from harness.bundle import Bundle
from harness.commands.plan import plan_document, plan_table
from harness.compare import NOTHING, Comparison, compare
from harness.diagnosis import Diagnosis, diagnose
from harness.errors import EXIT_DIFFERS, EXIT_DONE, BoardError, InfrastructureError, RequestError
from harness.evidence import ChunkRecord, RunFolder
from harness.execute import Deployed, Executed
from harness.network import Array, Network
from harness.plan import Plan
from harness.profile import Profile
from harness.reference import Reference
from harness.screen import Bar, Screen
from harness.stimuli import Stimuli, from_file, stimuli
from harness.workspace import ROOT, Workspace

Notify = Callable[[str], None]
LOCK_WAIT_S = 3600.0


@dataclass(frozen=True)
class Request:
    """What the user asked for; `vectors` is a number or the path of a .npy file."""

    board: str
    model: str
    vectors: str = "100000"
    seed: int = 1
    items: tuple[str, ...] | None = None
    block: int | None = None
    chunk: int = 10_000
    fetch: str = "all"
    x64_quant_precision: bool = False


@dataclass(frozen=True)
class Job:
    """Everything that is settled before the board is touched."""

    request: Request
    profile: Profile
    network: Network
    plan: Plan
    bundle: Bundle
    reference: Reference
    stimuli: Stimuli
    folder: RunFolder
    started: datetime


def run(request: Request, resume: Path | None, workspace: Workspace, screen: Screen) -> int:
    """The whole command; returns the exit code of the verdict."""
    folder = RunFolder.open_unfinished(resume) if resume else None
    if folder:
        request = _resumed_request(folder)
    try:
        job = _prepare(request, folder, workspace, screen)
        with _journal(job.folder, screen) as notify:
            document = _carry_out(job, workspace, screen, notify)
    except InfrastructureError as error:
        screen.document(_inconclusive(request, error))
        raise
    _show(document, job.folder, screen)
    screen.document(_summary(document, job.folder))
    return EXIT_DONE if document["verdict"] == "identical" else EXIT_DIFFERS


def _prepare(request: Request, folder: RunFolder | None, workspace: Workspace, screen: Screen) -> Job:
    started = evidence.now()
    board = profile.load(workspace.boards).board(request.board)
    network = workspace.model(str(folder.path / "model.onnx") if folder else request.model)
    if folder:
        network = dataclasses.replace(network, name=Path(request.model).stem)
    made = plan.make(network, board, request.items, request.block)
    vectors = _stimuli(request, network, folder)
    screen.show(plan_table(made, board))
    built = bundle.build(made, board, workspace.cache)
    screen.note(f"bundle {built.sha256[:16]} {'reused' if built.reused else 'built'} ({built.compiler})")
    reference = Reference(network, x64_quant_precision=request.x64_quant_precision)
    if folder:
        _check_resumed(folder, built)
    else:
        folder = RunFolder.create(workspace.runs, board.name, network.name, started)
        _keep_request(folder, request, network, built)
    return Job(request, board, network, made, built, reference, vectors, folder, started)


def _stimuli(request: Request, network: Network, folder: RunFolder | None) -> Stimuli:
    if folder and folder.stimuli.exists() and not request.vectors.isdigit():
        return from_file(folder.stimuli, network)
    if not request.vectors.isdigit():
        return from_file(Path(request.vectors), network)
    if int(request.vectors) == 0:
        raise RequestError("--vectors 0: nothing would be compared", "give a number of vectors or a .npy file")
    return stimuli(network, int(request.vectors), request.seed)


def _keep_request(folder: RunFolder, request: Request, network: Network, built: Bundle) -> None:
    asked = {"request": dataclasses.asdict(request), "bundle": built.sha256, "command": _command()}
    folder.write_request(asked, network.onnx_bytes)


def _resumed_request(folder: RunFolder) -> Request:
    asked = folder.read_request()["request"]
    return Request(**asked | {"items": tuple(asked["items"]) if asked["items"] else None})


def _check_resumed(folder: RunFolder, built: Bundle) -> None:
    begun = folder.read_request()["bundle"]
    if begun != built.sha256:
        raise RequestError(
            f"{folder.path}: begun with bundle {begun[:16]}, today's is {built.sha256[:16]}",
            "sources, profile or compiler changed since: start a new run",
        )


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
            notify(f"finished chunks are kept; go on with: harness run --resume {folder.path}")
            raise


def _carry_out(job: Job, workspace: Workspace, screen: Screen, notify: Notify) -> dict[str, Any]:
    """From the stimuli to `run.json`."""
    _write_stimuli(job, screen)
    locks = workspace.cache / "locks"
    with (
        board_lock(job.profile.name, locks, f"run {job.network.name}", LOCK_WAIT_S, notify),
        reach(job.profile, workspace.cache, notify) as reached,
    ):
        environment = execute.environment(reached.board)
        with _known_state(job.profile, reached.board, notify) as setup:
            _run_chunks(job, reached, screen, notify)
    document = _conclude(job, environment, setup)
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
        for _, start, stop in _chunks(count, 100_000):
            file.write(np.ascontiguousarray(job.stimuli.chunk(start, stop)).data.cast("B"))
            bar.advance(stop - start)
    temporary.replace(job.folder.stimuli)


def _chunks(count: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Index, start and stop of every chunk."""
    for index, start in enumerate(range(0, count, size)):
        yield index, start, min(start + size, count)


@contextmanager
def _known_state(board: Profile, session: Board, notify: Notify) -> Iterator[list[dict[str, Any]]]:
    """Run the profile's setup commands, and whatever happens its teardown commands; real boards only."""
    if board.emulated:
        yield []
        return
    try:
        yield [_prepare_board(command, session, notify) for command in board.setup]
    finally:
        for command in board.teardown:
            _prepare_board(command, session, notify)


def _prepare_board(command: str, session: Board, notify: Notify) -> dict[str, Any]:
    done = session.run(shlex.split(command), execute.COMMAND_TIMEOUT_S)
    output = (done.stdout + done.stderr).decode(errors="replace").strip()[-500:]
    if done.status != 0:
        notify(f"warning: {command!r} failed on the board (exit status {done.status}): {output}")
    return {"command": command, "status": done.status, "output": output}


def _run_chunks(job: Job, reached: Reached, screen: Screen, notify: Notify) -> None:
    """Execute, collect, compare and keep every chunk that is not finished yet."""
    deployed = execute.deploy(reached.board, job.bundle, reached.work, job.folder.name)
    finished = {record.index for record in job.folder.chunks()}
    todo = [chunk for chunk in _chunks(job.stimuli.count, job.request.chunk) if chunk[0] not in finished]
    done = job.stimuli.count - sum(stop - start for _, start, stop in todo)
    if done:
        notify(f"resuming after {done:,} vectors")
    title = f"{job.network.name} on {job.profile.name}{' (emulated)' if job.profile.emulated else ''}"
    with screen.progress(title, job.stimuli.count, done) as bar:
        _run_pipelined(job, deployed, todo, bar)
    execute.clean(deployed)


def _run_pipelined(job: Job, deployed: Deployed, todo: Sequence[tuple[int, int, int]], bar: Bar) -> None:
    """While the board works on one chunk, this machine computes its reference."""
    with ThreadPoolExecutor(max_workers=1) as pool, tempfile.TemporaryDirectory() as scratch:
        for index, start, stop in todo:
            vectors = job.stimuli.chunk(start, stop)
            expected = pool.submit(job.reference.activations, vectors)
            upload = Path(scratch) / "vectors.npy"
            dumps.write(upload, vectors)
            options, timeout_s = execute.options(job.plan), job.profile.timeout_s
            executed = execute.execute_chunk(deployed, upload, stop - start, job.network.layers, options, timeout_s)
            _finish_chunk(job, deployed, executed, (index, start, stop), vectors, expected)
            bar.advance(stop - start)


def _finish_chunk(
    job: Job,
    deployed: Deployed,
    executed: Executed,
    chunk: tuple[int, int, int],
    vectors: Array,
    expected: Future[tuple[Array, ...]],
) -> None:
    index, start, stop = chunk
    references = expected.result()
    reference_sha256 = tuple(dumps.sha256(values) for values in references)
    suspects = [i for i, pair in enumerate(zip(reference_sha256, executed.sha256, strict=True)) if pair[0] != pair[1]]
    wanted = range(len(references)) if job.request.fetch == "all" else suspects
    actual = _collect(job, deployed, executed, index, wanted)
    comparisons = _compare_layers(references, actual, start)
    for layer in wanted:
        name = dumps.file_name(layer, job.network.layers[layer])
        dumps.write(job.folder.dumps("reference", index) / name, references[layer])
    diagnosis = _diagnose(job.network, vectors, references, actual, comparisons)
    record = ChunkRecord(index, start, stop, comparisons, reference_sha256, executed.sha256, diagnosis)
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
    return diagnose(first, layer, written[layer.source], references[first], actual[first])


def _conclude(job: Job, environment: dict[str, str], setup: list[dict[str, Any]]) -> dict[str, Any]:
    """The run as one document; BoardError if any activation was not compared."""
    records = list(job.folder.chunks())
    totals = [reduce(Comparison.__add__, column, NOTHING) for column in zip(*(r.layers for r in records), strict=True)]
    for layer, total in zip(job.network.layers, totals, strict=True):
        if total.compared != job.stimuli.count * layer.width:
            raise BoardError(f"layer {layer.name}: only {total.compared} activations were compared")
    finished = evidence.now()
    wall_s = (finished - job.started).total_seconds()
    differing = [layer.name for layer, total in zip(job.network.layers, totals, strict=True) if total.differing]
    return {
        "schema": 1,
        "harness": {"version": __version__, "revision": _revision()},
        "started": f"{job.started:%Y-%m-%dT%H:%M:%SZ}",
        "finished": f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        "command": _command(),
        "board": _board_document(job.profile, environment, setup),
        "model": _model_document(job.network),
        "plan": plan_document(job.plan, job.profile),
        "bundle": {
            "sha256": job.bundle.sha256,
            "compiler": job.bundle.compiler,
            "flags": list(job.bundle.flags),
            "reused": job.bundle.reused,
        },
        "reference": job.reference.describe(),
        "host": {"platform": platform.platform(), "python": platform.python_version(), "numpy": np.__version__},
        "stimuli": job.stimuli.describe() | {"seed": job.request.seed, "vectors": job.request.vectors},
        "chunk": job.request.chunk,
        "fetch": job.request.fetch,
        "layers": [_layer_document(job, index, total) for index, total in enumerate(totals)],
        "verdict": "differs" if differing else "identical",
        "reason": _reason(job, differing, totals),
        "diagnosis": _diagnosis_document(job.network, [r.diagnosis for r in records if r.diagnosis]),
        "wall_s": round(wall_s, 3),
        "vectors_per_s": round(job.stimuli.count / wall_s, 1),
    }


def _board_document(board: Profile, environment: dict[str, str], setup: list[dict[str, Any]]) -> dict[str, Any]:
    kind = "emulated" if board.emulated else "this machine" if board.local else "hardware"
    return {"name": board.name, "soc": board.soc, "kind": kind, "environment": environment, "setup": setup}


def _model_document(network: Network) -> dict[str, Any]:
    normalisation = network.normalisation
    return {
        "name": network.name,
        "sha256": network.sha256,
        "input": {
            "names": list(normalisation.names) if normalisation else [],
            "units": list(normalisation.units) if normalisation else [],
            "box_low": network.box[0].tolist(),
            "box_high": network.box[1].tolist(),
        },
        "metadata": network.metadata,
    }


def _layer_document(job: Job, index: int, total: Comparison) -> dict[str, Any]:
    layer, item = job.network.layers[index], job.plan.items[job.plan.owner[index]]
    return {
        "index": index,
        "name": layer.name,
        "operator": layer.operator,
        "item": item.name,
        "target": item.target,
        "ran_on": targets.find(item.target).ran_on(job.profile),
        "compared": total.compared,
        "differing": total.differing,
        "first_difference": dataclasses.asdict(total.first) if total.first else None,
    }


def _reason(job: Job, differing: Sequence[str], totals: Sequence[Comparison]) -> str:
    compared = sum(total.compared for total in totals)
    scope = f"{compared:,} activations of {len(totals)} layers over {job.stimuli.count:,} vectors"
    if not differing:
        return f"all {scope} are bit for bit those of the reference"
    return f"{sum(t.differing for t in totals):,} of {scope} differ, first in layer {differing[0]}"


def _diagnosis_document(network: Network, found: Sequence[Diagnosis]) -> dict[str, Any] | None:
    if not found:
        return None
    diagnosis = reduce(Diagnosis.__add__, found)
    ranked = [dataclasses.asdict(h) | {"of": diagnosis.differing} for h in diagnosis.ranked[:5]]
    return {"layer": network.layers[diagnosis.layer].name, "text": diagnosis.text, "hypotheses": ranked}


def _command() -> list[str]:
    return ["harness", *sys.argv[1:]]


def _revision() -> str | None:
    """The checkout's commit, with a mark if files differ from it; None outside a checkout."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _inconclusive(request: Request, error: InfrastructureError) -> dict[str, Any]:
    return {
        "verdict": "inconclusive",
        "reason": f"{error.part}: {error.message}",
        "hint": error.hint,
        "board": request.board,
        "model": request.model,
        "vectors": None,
        "run": None,
        "layers": [],
    }


def _summary(document: dict[str, Any], folder: RunFolder) -> dict[str, Any]:
    kept = ("verdict", "reason", "layers", "diagnosis", "wall_s")
    return {key: document[key] for key in kept} | {
        "board": document["board"]["name"],
        "model": document["model"]["name"],
        "vectors": document["stimuli"]["count"],
        "run": str(folder.path),
    }


def _show(document: dict[str, Any], folder: RunFolder, screen: Screen) -> None:
    table = Table(title_justify="left")
    for heading, justify in (("layer", "left"), ("ran on", "left"), ("compared", "right"), ("differing", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("first difference")
    for layer in document["layers"]:
        table.add_row(
            layer["name"],
            f"{layer['item']} ({layer['target']}): {layer['ran_on']}",
            f"{layer['compared']:,}",
            Text(f"{layer['differing']:,}", style="bold red" if layer["differing"] else ""),
            _first(layer["first_difference"]),
        )
    good = document["verdict"] == "identical"
    verdict = Text(f"{document['verdict']}: {document['reason']}", style="bold green" if good else "bold red")
    screen.show(table, verdict)
    if document["diagnosis"]:
        screen.show(f"likely cause, layer {document['diagnosis']['layer']}: {document['diagnosis']['text']}")
    if document["board"]["kind"] == "emulated":
        screen.show(Text(f"{document['board']['name']} was EMULATED: a real aarch64 Linux, but no MET", style="yellow"))
    screen.show(f"report: {folder.path / 'report.html'}")


def _first(difference: dict[str, Any] | None) -> str:
    if difference is None:
        return ""
    return "vector {vector}, unit {unit}: expected {expected}, found {actual}".format_map(difference)
