"""One network in one form of code on one board: sizes from the program, checked outputs, times or counted instructions.

All layers are one item, so that no hand-over is part of a time, and a block is one vector.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness import targets
from harness.analysis.compare import compare
from harness.analysis.inspection import program as inspection
from harness.analysis.inspection import sizes
from harness.analysis.inspection.sizes import Sizes
from harness.boards import tuning
from harness.boards.connect import Connection
from harness.boards.profile import ItemProfile, Profile
from harness.core.arrays import Array
from harness.core.errors import BoardError, HarnessError
from harness.execution import dumps, program
from harness.model.network import Network
from harness.model.onnx_runtime import sessions
from harness.plan import plan
from harness.reference import SpecificationReference
from harness.reference.runtime import with_free_batch
from harness.reference.stimuli import stimuli
from harness.runs import folder as run_folder
from harness.targets import bundle, codegen
from harness.targets.bundle import PROGRAM, Bundle

ITEM = "network"
OPERATIONS = 2_000_000_000
"""Operations of all vectors that the specification computes in numpy."""
MOST_VECTORS, LEAST_VECTORS, SEED = 1000, 2, 1
LARGE_BYTES = 64 << 20
"""Models from this size on are built in a temporary folder: the programs of AlexNet and VGG-16 take gigabytes."""
COUNTED_VECTORS = 4
LONGEST_S = 300.0
Open = Callable[[Profile, Path], AbstractContextManager[Connection]]
"""Function that opens a session with a board; the second argument is the cache."""


@dataclass(frozen=True, eq=False)
class Checked:
    """A network with vectors, float32 (n, K), their exact outputs, (n, N), and those of ONNX Runtime."""

    network: Network
    vectors: npt.NDArray[np.float32]
    exact: Array
    other: Array

    @property
    def largest_difference(self) -> float:
        """The largest |exact - ONNX Runtime| of all outputs of all vectors."""
        return float(np.abs(self.exact.astype(np.float64) - self.other.astype(np.float64)).max())


@dataclass(frozen=True)
class Code:
    """A form of code: a variant of target c, and the compiler's optimisation."""

    target: str
    level: str


@dataclass(frozen=True)
class Readings:
    """Nanoseconds of executions, or instructions; `unit` is ns or instructions, `state` the board's at the time."""

    unit: str
    values: npt.NDArray[np.uint64] = field(compare=False)
    vectors: int
    differing: int
    state: str


@dataclass(frozen=True)
class Built:
    """What is known of a network in a form of code on a board; a number that is None has its reason in `missing`.

    `stack` and `bound` are bytes and instructions of one execution.
    """

    board: str
    code: Code
    origin: str = ""
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    readings: Readings | None = None
    bound: int | None = None
    stack: int | None = None
    missing: str = ""
    no_bound: str = "not available"
    no_stack: str = "not available"


def checked(network: Network) -> Checked:
    """Return seeded vectors with their outputs: as many as take a moment to compute."""
    operations = sum(layer.operations for layer in network.layers) or 1
    count = int(np.clip(OPERATIONS // operations, LEAST_VECTORS, MOST_VECTORS))
    vectors = stimuli(network, count, SEED).chunk(0, count)
    exact = SpecificationReference(network).activations(vectors)[-1]
    session = sessions.session(with_free_batch(network).SerializeToString(), 1)
    last = network.layers[-1].output.name
    [other] = session.run([last], {network.input.name: vectors.reshape(count, *network.input.shape)})
    return Checked(network, vectors, exact, other.reshape(exact.shape))


def with_code(profile: Profile, code: Code) -> Profile:
    """Return the profile with one item for all layers, and with another optimisation of the compiler."""
    flags = tuple(flag for flag in profile.toolchain.flags if not re.fullmatch(r"-O\w*", flag))
    toolchain = profile.toolchain.model_copy(update={"flags": (code.level, *flags)})
    core = next((item.core for item in profile.items.values()), None)
    items = {ITEM: ItemProfile(target=code.target, core=core)}
    return profile.model_copy(update={"toolchain": toolchain, "items": items, "split": ()})


@contextmanager
def cache_of(network: Network, cache: Path) -> Iterator[Path]:
    """Provide the folder of bundles: the cache, or a temporary folder for a large network."""
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(network.onnx_bytes) < LARGE_BYTES:
        yield cache
        return
    with tempfile.TemporaryDirectory(dir=cache, prefix=".large-") as folder:
        yield Path(folder)


def examine(case: Checked, profile: Profile, code: Code, cache: Path, reach: Open, seconds: float) -> Built:
    """Build the program and measure it for about `seconds`; failures are reasons and not exceptions."""
    board, found = with_code(profile, code), Built(profile.name, code)
    try:
        with cache_of(case.network, cache) as folder:
            made = codegen.generate(plan.make(case.network, board, block=1, supports=targets.supports))
            built = bundle.build(made, board, folder)
            found = replace(found, origin=_origin(board, built), sizes=_sizes(built))
            near = folder if board.local else cache
            return replace(found, readings=_measured(case, board, built, near, reach, seconds))
    except HarnessError as error:
        return replace(found, missing=error.message.splitlines()[0])


def _origin(board: Profile, built: Bundle) -> str:
    compiler = re.sub(r" \[\w+\]$", "", built.compiler)
    flags = " ".join(board.toolchain.flags)
    return f"board {board.name}, {compiler} {flags}, bundle {built.sha256[:16]}"


def _sizes(built: Bundle) -> dict[str, Sizes]:
    read = inspection.read(built.folder / PROGRAM)
    return {"network": sizes.of_network(read), "program": sizes.of_program(read)}


def _measured(case: Checked, board: Profile, built: Bundle, cache: Path, reach: Open, seconds: float) -> Readings:
    """Return the readings of a deployed program; its outputs are compared before."""
    size = sum((built.folder / path).stat().st_size for path in built.files)
    if board.emulated and board.emulator and size > board.emulator.disk_mib << 18:
        raise BoardError(f"not counted: {size >> 20:,} MiB on the emulated board's disk")
    with reach(board, cache) as connection:
        run = f"tables-{built.sha256[:16]}"
        deployed = program.deploy(connection.board, built, connection.work, run)
        try:
            return _readings(case, board, deployed, seconds)
        finally:
            program.clean(deployed)


def _readings(case: Checked, board: Profile, deployed: program.Deployed, seconds: float) -> Readings:
    """Execute one vector to learn how long it takes, then as many as there is time for, again and again."""
    unit, state = ("instructions" if board.emulated else "ns"), _state(board, deployed)
    first, differing = _executed(case, board, deployed, 1, 1)
    if board.emulated:
        vectors, repeat = min(COUNTED_VECTORS, len(case.vectors)), 1
    else:
        executions = max(int(seconds * 1e9 / max(int(first.min()), 1)), 1)
        vectors = min(executions, len(case.vectors))
        repeat = max(executions // vectors, 1)
    if (vectors, repeat) == (1, 1):
        return Readings(unit, first, 1, differing, state)
    values, differing = _executed(case, board, deployed, vectors, repeat)
    return Readings(unit, values, vectors, differing, state)


def _executed(
    case: Checked, board: Profile, deployed: program.Deployed, vectors: int, repeat: int
) -> tuple[npt.NDArray[np.uint64], int]:
    """Return the readings of these executions, and the number of wrong values among their outputs."""
    there, out = deployed.run_folder / "vectors.npy", program.out_folder(deployed.run_folder, 0)
    with tempfile.TemporaryDirectory() as scratch:
        dumps.write(Path(scratch) / there.name, case.vectors[:vectors])
        deployed.board.put(Path(scratch) / there.name, there)
    core = board.items[ITEM].core
    pinned = [] if core is None or board.emulated else ["--pin", str(core)]
    counted = ["--count", "instructions"] if board.emulated else []
    files = ["--vectors", str(there), "--out", str(out), "--dump", "last"]
    timed = ["--time", "item", "--block", "1", "--repeat", str(repeat), *counted, *pinned]
    program.run_program(deployed, [*files, *timed], max(board.timeout_s, LONGEST_S))
    last = case.network.layers[-1]
    name = dumps.file_name(len(case.network.layers) - 1, last)
    dumped = (out / name, last.dtype, (vectors, last.size))
    read = (out / "time.npy", np.dtype(np.uint64), (vectors * repeat, 1))
    outputs, times = program.fetch_arrays(deployed.board, [dumped, read])
    return times[:, 0], compare(case.exact[:vectors], outputs).differing


def _state(board: Profile, deployed: program.Deployed) -> str:
    """Return where and when a program runs: emulated or hardware, processor, load, day."""
    where = targets.find(board.items[ITEM].target).environment(board)
    found = program.environment(deployed.board)
    processor = re.search(r"^model name\s*:\s*(.+)$", found.get("processors", ""), re.MULTILINE)
    named = f", {processor[1]}" if processor and not board.emulated else ""
    load = "" if board.emulated else f", load {tuning.take(deployed.board).load[0]:.1f}"
    return f"{where}{named}{load}, {run_folder.now():%Y-%m-%d}"
