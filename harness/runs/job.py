"""A job: all decisions that precede the access to the board."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic import Field

from harness import targets
from harness.boards import profile
from harness.boards.identity import BoardIdentity
from harness.boards.profile import Profile
from harness.boards.workspace import Workspace
from harness.build import bundle, codegen
from harness.build.bundle import Bundle
from harness.build.codegen import Program
from harness.core.arrays import MEMORY_BUDGET
from harness.core.errors import RequestError
from harness.core.text import plural, shortened
from harness.model import stream as streams
from harness.model.network import Network
from harness.plan import claims, plan_check, planner
from harness.plan import folder as plan_folder
from harness.plan.plan import Buffers, Plan, Sync
from harness.plan.plan_check import Assessment
from harness.reference import Reference, engines
from harness.reference.coverage import require_codes
from harness.reference.stimuli import Stimuli, stimuli
from harness.reference.stream import StreamReference, reference_of
from harness.reference.vector_files import from_file, require_indices
from harness.runs import accuracy
from harness.runs import folder as run_folder
from harness.runs.accuracy import Labelled, LabelOptions
from harness.runs.folder import REQUEST_SCHEMA, RunFolder
from harness.runs.labels import MetricName

ACCEPT_BOUND = "bound"
"""The value of `Request.accept`."""
Count: TypeAlias = Annotated[int, Field(ge=1)]
Fetch: TypeAlias = Literal["all", "mismatch"]
Floats: TypeAlias = Literal["all", "thresholds"]
OPTIONAL = ("accept", "stream", "pulse", "steps", "labels", "metric", "float_model")
"""The options that a request without them does not name, as those of earlier versions."""
LARGEST_CHUNK = 10_000
CHUNK_BUDGET = 24 << 20
"""Bytes of a chunk of the default size; two chunks and copies of ONNX Runtime are in memory at the same time."""
FETCHED_BYTES = 1 << 30
"""The bytes of dumps and reference up to which a run fetches every dump by default."""


@pydantic.dataclasses.dataclass(frozen=True, config=pydantic.ConfigDict(extra="forbid"))
class Request:
    """Options of a run; `vectors` is a number or the path of a .npy file.  ValueError for a wrong type or value.

    `buffers` is whether the activations of all layers are kept until an execution ends (None too), or share bytes.

    `cover` is the share of codes for which vectors are searched, at most `vectors`; None for plain seeded ones.

    `floats` is set for a proof: whether `all` inputs of QuantizeLinear pass through the board, or its `thresholds`.

    `stream` is the axis along which the model is run as a stream, counted with the vectors, `pulse` the frames of a
    step and `steps` those after which a new stream begins; None for the whole network, and for the defaults.

    `accept` is `bound` if the verdict `within bound` is good.

    `reference` are the engines that confirm the reference, see `harness.reference.engines`.

    `labels` is the path of a file of labels of the vectors, `metric` what they are for (None: what fits the output),
    and `float_model` the float model that they also judge; None for the one that the model names.

    `trace` is how many executions are observed, step by step.  `plan` is a folder written by `harness plan -o`,
    which defines board, model and the options between `model` and `chunk`, except vectors and seed.  `run_folder` is
    the folder of the evidence; the default is a folder of the workspace named after time, board and model.
    `chunk` is the number of vectors per chunk, `fetch` which dumps are fetched, "all" or those with a "mismatch"; None
    for the defaults, which a job replaces by `default_chunk` and `default_fetch`.
    """

    board: str
    model: str
    vectors: str = "100000"
    seed: Annotated[int, Field(ge=0)] = 1
    items: tuple[str, ...] | None = None
    block: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    split: tuple[str, ...] | None = None
    sync: Sync | None = None
    buffers: Buffers | None = None
    chunk: Count | None = None
    fetch: Fetch | None = None
    x64_quant_precision: bool = True
    cover: float | None = None
    floats: Floats | None = None
    trace: Annotated[int, Field(ge=0)] = 100
    plan: str | None = None
    run_folder: str | None = None
    accept: Literal["bound"] | None = None
    stream: Annotated[int, Field(ge=0)] | None = None
    pulse: Count | None = None
    steps: Count | None = None
    reference: tuple[str, ...] = engines.ALWAYS
    labels: str | None = None
    metric: MetricName | None = None
    float_model: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the options as JSON types, without those that earlier versions did not have at their defaults."""
        later = dict.fromkeys(OPTIONAL) | {"reference": engines.ALWAYS}
        found = dataclasses.asdict(self)
        return {key: value for key, value in found.items() if key not in later or value != later[key]}


@dataclass(frozen=True)
class Job:
    """A request with the values that it selects, and its run folder."""

    request: Request
    profile: Profile
    network: Network
    program: Program
    assessment: Assessment
    bundle: Bundle
    reference: Reference | StreamReference
    stimuli: Stimuli
    folder: RunFolder
    started: datetime
    reached: BoardIdentity | None = None
    labelled: Labelled | None = None

    @property
    def plan(self) -> Plan:
        """Return the plan from which the program was generated."""
        return self.program.plan

    @property
    def identity(self) -> BoardIdentity:
        """The board that was reached; ValueError before that."""
        if self.reached is None:
            raise ValueError(f"board {self.profile.name} was not reached yet")
        return self.reached

    @property
    def chunk(self) -> int:
        """The number of vectors per chunk; the last chunk may have fewer."""
        return self.request.chunk or default_chunk(self.network)

    @property
    def fetch(self) -> Fetch:
        """The dumps that are fetched: `all`, or those with a `mismatch`."""
        return self.request.fetch or default_fetch(self.network, self.stimuli.count)

    @property
    def title(self) -> str:
        """Return model and board for a progress bar."""
        return f"{self.network.name} on {self.profile.name}{' (emulated)' if self.profile.emulated else ''}"


def vector_bytes(network: Network) -> int:
    """Return the bytes of one vector of a chunk: its inputs, the dumps of all layers, and their reference."""
    activations = sum(layer.size * layer.dtype.itemsize for layer in network.layers)
    return network.record.itemsize + 2 * activations


def default_chunk(network: Network) -> int:
    """Return the number of vectors for which a chunk has room, about 1 to LARGEST_CHUNK; streams are not divided."""
    room = min(LARGEST_CHUNK, CHUNK_BUDGET // vector_bytes(network))
    return max(room // network.steps, 1) * network.steps


def default_fetch(network: Network, vectors: int) -> Fetch:
    """Return which dumps a run of so many vectors fetches: all, or for a bounded run folder those that differ."""
    return "all" if vectors * vector_bytes(network) <= FETCHED_BYTES else "mismatch"


def command_line() -> list[str]:
    """Return the command line of this process."""
    return ["harness", *sys.argv[1:]]


@dataclass(frozen=True)
class CheckedRequest:
    """A request that passed all checks that need neither a compiler nor the board.

    `kind` is the command; a run of another command is not resumed.  `unfinished` is the folder of a resumed run.
    """

    request: Request
    plan: Plan
    profile: Profile
    assessment: Assessment
    stimuli: Stimuli
    started: datetime
    kind: str = "run"
    unfinished: RunFolder | None = None
    labelled: Labelled | None = None


def check(request: Request, workspace: Workspace, kind: str = "run") -> CheckedRequest:
    """Make the plan of a request and check both; RequestError for an invalid request."""
    profiles = targets.load_boards(workspace.boards)
    if request.plan:
        schedule = plan_folder.read(Path(request.plan))
        request = dataclasses.replace(request, board=schedule.board, model=schedule.network.name)
    else:
        request, network = _streamed(request, workspace.model(request.model))
        schedule = planned(network, profiles.board(request.board), dataclasses.asdict(request))
    checked = _check(request, schedule, profiles.board(request.board), kind, None)
    labelled = _labelled(checked, workspace)
    return dataclasses.replace(checked, request=_with_defaults(checked, workspace), labelled=labelled)


def _streamed(request: Request, network: Network) -> tuple[Request, Network]:
    """Return the request with its defaults and the network of steps if a stream is asked for; else what is given.

    A number of vectors is that of whole streams; the request then has their steps.
    """
    if request.stream is None:
        if request.pulse is not None or request.steps is not None:
            raise RequestError("--pulse and --steps are those of a stream", "add --stream AXIS, or omit them")
        return request, network
    made = streams.stream(network, request.stream, request.pulse, request.steps)
    vectors = request.vectors
    if vectors.isdecimal():
        vectors = str(int(vectors) * made.steps)
    return dataclasses.replace(request, vectors=vectors, pulse=made.pulse, steps=made.steps), made.network


def _require_vectors(network: Network, vectors: int, chunk: int | None, cover: float | None) -> None:
    """Raise RequestError if a stream would end, or be divided, before its last step, or if no search is possible."""
    if network.steps > 1 and cover is not None:
        raise RequestError(
            f"--cover searches for vectors one by one, and those of {network.name} are the steps of streams",
            "omit --cover, or search for vectors of the whole network: omit --stream",
        )
    if cover is not None:
        require_codes(network)
    for what, count in (("vectors", vectors), ("chunk", chunk)):
        if count is not None and count % network.steps:
            raise RequestError(
                f"--{what}: {count:,} steps are not whole streams of {network.name}, which have {network.steps:,}",
                f"choose a multiple of {network.steps:,} steps; without --plan, --vectors is the number of streams",
            )


def check_unfinished(path: Path, workspace: Workspace) -> CheckedRequest:
    """Return the request of the unfinished run in the folder `path`, with its stored model and plan.

    RequestError as of `check`, if `path` is not an unfinished run, and if the board's profile has changed.  `build`
    checks the bundle, and the identity of the board is checked when it is reached.
    """
    request, folder = unfinished_request(path), RunFolder.open_unfinished(path)
    document = folder.read_request()
    board = targets.load_boards(workspace.boards).board(request.board)
    if changed := profile.changes(document["profile"], board.kept()):
        raise RequestError(
            f"{path}: the profile of board {board.name} was changed since the start of the run: {'; '.join(changed)}",
            f"undo the change in {workspace.boards} and its .local.yaml, or in {profile.host_variable(board.name)}; "
            "or start a new run",
        )
    if request.plan:
        schedule = plan_folder.read(folder.plan)
    else:
        network = dataclasses.replace(workspace.model(str(folder.model)), name=document["name"])
        schedule = planned(network, board, dataclasses.asdict(request))
    checked = _check(request, schedule, board, "run", folder)
    labelled = accuracy.stored(folder, schedule, checked.stimuli)
    if request.labels is not None and labelled is None:
        raise RequestError(f"{folder.labels}: the labels of the run are missing", "start a new run")
    return dataclasses.replace(checked, labelled=labelled)


def _labelled(checked: CheckedRequest, workspace: Workspace) -> Labelled | None:
    """Return the labels of a new run; RequestError if they do not fit the vectors, which must be those of a file."""
    request = checked.request
    if request.labels is not None and request.vectors.isdecimal():
        raise RequestError(
            f"--labels {request.labels}: labels are those of vectors from a file, and --vectors is a number",
            "give both files: --vectors FILE --labels FILE",
        )
    options = LabelOptions(request.labels, request.metric, request.float_model)
    return accuracy.labelled(options, checked.plan, checked.stimuli, workspace)


def unfinished_request(path: Path) -> Request:
    """Return the request of the unfinished run in the folder `path`; RequestError if it cannot be resumed."""
    document = RunFolder.open_unfinished(path).read_request()
    if document.get("kind", "run") != "run":
        raise RequestError(
            f"{path}: a measurement cannot be resumed, because the state of its board has changed", "measure again"
        )
    try:
        if document.get("schema") != REQUEST_SCHEMA:
            raise LookupError(f"it is of schema {document.get('schema')}, this version resumes {REQUEST_SCHEMA}")  # noqa: TRY301
        _ = document["name"], document["bundle"], dict(document["profile"]), document["token"]  # `check` reads them
        return Request(**document["request"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise RequestError(
            f"{path / 'request.json'}: damaged, or written by another version of harness: {error}", "start a new run"
        ) from error


def planned(network: Network, board: Profile, asked: Mapping[str, Any]) -> Plan:
    """Return the plan of these options of a request; RequestError as `planner.make`."""
    return planner.make(
        network,
        board,
        asked["items"],
        asked["block"],
        asked["split"],
        asked["sync"],
        asked["buffers"],
    )


def _check(request: Request, schedule: Plan, board: Profile, kind: str, unfinished: RunFolder | None) -> CheckedRequest:
    """Check the options of a request against its plan and board; RequestError if they exclude each other."""
    network = schedule.network
    bundle.check_targets(schedule, board)
    if board.bare_metal and request.floats is not None:
        raise RequestError(
            f"board {board.name}: a proof reads the program's machine code, and this version reads that of 64-bit "
            "processors only",
            f"use harness run --board {board.name}, and prove the same items on a 64-bit board",
        )
    assessment = plan_check.assess(schedule)
    plan_check.require_sound(assessment)
    engines.versions(request.reference)
    vectors = _stimuli(request, network, unfinished)
    require_comparable(schedule, kind if request.floats is None else "prove", request.fetch)
    _require_vectors(network, vectors.count, request.chunk, request.cover)
    return CheckedRequest(request, schedule, board, assessment, vectors, run_folder.now(), kind, unfinished)


def _with_defaults(checked: CheckedRequest, workspace: Workspace) -> Request:
    """Return a new run's request with its chunk and fetch; RequestError if memory or disk have no room for it."""
    request, network, vectors = checked.request, checked.plan.network, checked.stimuli.count
    is_bounded = bool(claims.bounded(checked.plan))
    fetch = request.fetch or ("all" if is_bounded else default_fetch(network, vectors))
    request = dataclasses.replace(request, chunk=_chunk(request, network, vectors), fetch=fetch)
    _require_space(request, workspace, network, vectors, needs_all=is_bounded)
    return request


def build(checked: CheckedRequest, workspace: Workspace) -> Job:
    """Build the bundle, prepare the reference, and create the folder of a new run.

    RequestError if an unfinished run has another bundle, ToolError for the compiler, ReferenceFailed for this machine.
    """
    request, schedule, board, folder = checked.request, checked.plan, checked.profile, checked.unfinished
    network = schedule.network
    workspace.cache.mkdir(mode=0o700, parents=True, exist_ok=True)  # programs run there: see harness.boards.work_folder
    reference = reference_of(network, x64_quant_precision=request.x64_quant_precision, engines=request.reference)
    program = codegen.generate(schedule)
    built = bundle.build(program, board, workspace.cache)
    if folder is None:
        folder = _new_folder(request, workspace, board, network, checked.started)
        plan_folder.write(schedule, checked.assessment, folder.plan)
        if checked.labelled:
            checked.labelled.save(folder)
        document = {
            "request": request.document(),
            "name": network.name,
            "bundle": built.sha256,
            "kind": checked.kind,
            "profile": board.kept(),
            "command": command_line(),
        }
        folder.write_request(document, network.onnx_bytes)
    elif (stored := folder.read_request()["bundle"]) != built.sha256:
        raise RequestError(
            f"{folder.path}: started with bundle {stored[:16]}, current is {built.sha256[:16]}",
            "sources, profile or compiler changed since: start a new run",
        )
    return Job(
        request,
        board,
        network,
        program,
        checked.assessment,
        built,
        reference,
        checked.stimuli,
        folder,
        checked.started,
        labelled=checked.labelled,
    )


def require_comparable(made: Plan, action: str, fetch: str | None) -> None:
    """Raise RequestError if `action` (run, prove or measure) is not possible with the targets of a plan."""
    if action == "prove":
        bundle.require_stages(made, "a proof cannot query")
    bounded = claims.bounded(made)
    if not bounded:
        return
    layers = f"{shortened(', '.join(bounded))}: within a bound, and not exact, as their targets claim"
    exact = "use harness run, or exact targets for these layers: --items, --split"
    if action == "measure":
        raise RequestError(f"{layers}; a measurement compares every bit of the outputs", exact)
    if action == "prove":
        raise RequestError(f"{layers}; this is not proven, as no bit is determined", exact)
    if not all(made.kept):
        raise RequestError(
            f"{layers}; the layers after them can only be compared if no activation is overwritten",
            "omit --buffers reuse",
        )
    if fetch == "mismatch":
        raise RequestError(
            f"{layers}; the layers after them can only be compared with all dumps", "omit --fetch mismatch"
        )


def _chunk(request: Request, network: Network, vectors: int) -> int:
    """Return the size of the chunks of a new run; raise RequestError if a requested size takes too much memory."""
    if request.chunk is None:
        return default_chunk(network)
    needed = min(request.chunk, vectors) * vector_bytes(network)
    if request.chunk > 1 and needed > MEMORY_BUDGET:
        raise RequestError(
            f"--chunk {request.chunk}: inputs, dumps and reference of a chunk take {-(-needed >> 20):,} MiB, "
            f"and the limit is {MEMORY_BUDGET >> 20} MiB",
            f"use --chunk {default_chunk(network)} or less, or omit --chunk",
        )
    return request.chunk


def _require_space(
    request: Request, workspace: Workspace, network: Network, vectors: int, *, needs_all: bool = False
) -> None:
    """Raise RequestError if the disk has no room for the inputs and the dumps of a run, which may need all dumps."""
    of_vector = network.record.itemsize
    needed = vectors * (vector_bytes(network) if request.fetch == "all" else of_vector)
    wanted = Path(request.run_folder) if request.run_folder else workspace.runs
    disk = next(folder for folder in (wanted, *wanted.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(disk).free
    if needed > free:
        most = vectors * free // needed
        less = f"use --vectors {most} or less" if most else "free disk space"
        fewer = request.fetch == "all" and not needs_all and vectors * of_vector <= free
        fetch = " or --fetch mismatch" if fewer else ""
        raise RequestError(
            f"the run folder takes {-(-needed >> 20):,} MiB for {plural(vectors, 'vector')}, and {disk} has "
            f"{free >> 20:,} MiB free",
            f"{less}{fetch}, or a --run-folder on another disk",
        )


def _new_folder(
    request: Request, workspace: Workspace, board: Profile, network: Network, started: datetime
) -> RunFolder:
    if request.run_folder:
        return RunFolder.create_at(Path(request.run_folder))
    return RunFolder.create(workspace.runs, board.name, network.name, started)


def _stimuli(request: Request, network: Network, folder: RunFolder | None) -> Stimuli:
    """Return the vectors asked for; a resumed run has its own copy of a file's."""
    if request.cover is not None and not 0 < request.cover <= 1:
        raise RequestError(f"--cover {request.cover}: not a share of the codes", "a number above 0, up to 1")
    if _is_no_count(request.vectors):
        raise RequestError(
            f"--vectors {request.vectors}: not a positive whole number, so nothing would be compared",
            "give a positive whole number of vectors, or the path of a .npy file",
        )
    if not request.vectors.isdecimal():
        if request.cover is not None:
            raise RequestError(
                f"--cover searches for vectors, but --vectors names the file {request.vectors}",
                "set --vectors to the maximum number of vectors",
            )
        kept = folder is not None and folder.stimuli.exists()
        if folder and kept:
            return from_file(folder.stimuli, network, request.vectors)
        vectors = from_file(Path(request.vectors), network, request.vectors)
        require_indices(Path(request.vectors), network, vectors)
        return vectors
    return stimuli(network, int(request.vectors), request.seed)


def _is_no_count(vectors: str) -> bool:
    """Return whether this is a number, but not a positive whole one: -5, 0, 0.5, 1e3."""
    try:
        float(vectors)
    except ValueError:  # a path
        return False
    return not vectors.isdecimal() or int(vectors) == 0
