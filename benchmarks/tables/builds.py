"""One network in one form of code on one board: sizes from the program, checked outputs, times or counted instructions.

All layers are one item, so that no hand-over is part of a time, and a block is one vector.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.tables import sizes
from benchmarks.tables.sizes import Sizes
from harness import targets
from harness.analysis.compare import compare
from harness.analysis.inspection import program as inspection
from harness.applications.wcet.bounds import of_program
from harness.boards import tuning
from harness.boards.connect import Connection
from harness.boards.profile import ItemProfile, Profile
from harness.build import bundle, codegen
from harness.build.bundle import PROGRAM, Bundle
from harness.build.codegen import Program
from harness.core.arrays import Array
from harness.core.errors import HarnessError
from harness.execution import dumps, program
from harness.model.network import Network
from harness.model.onnx_runtime import sessions
from harness.plan import planner
from harness.reference import SpecificationReference
from harness.reference.runtime import shaped, with_free_batch
from harness.reference.stimuli import stimuli
from harness.runs import folder as run_folder

ITEM = "network"
OPERATIONS = 2_000_000_000
"""Operations of all vectors that the specification computes in numpy."""
MOST_VECTORS, LEAST_VECTORS, SEED = 1000, 2, 1
LARGE_BYTES = 64 << 20
"""Models from this size on are built in a temporary folder: the programs of AlexNet and VGG-16 take gigabytes."""
UNROLLED, LARGEST_UNROLLED = "c:unrolled", 200_000
"""Operations up to which unrolled code is compiled with optimisation."""
COUNTED_VECTORS = 4
BOUNDED_BYTES = 640 << 10
"""Machine code from this size on is not bounded: an unrolled network takes minutes."""
LONGEST_S = 300.0
NOT_EXECUTED = "not measured: --seconds 0"
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
    def largest_difference(self) -> float | None:
        """The largest |exact - ONNX Runtime| of all outputs of all vectors; None without vectors."""
        difference = np.abs(self.exact.astype(np.float64) - self.other.astype(np.float64))
        return float(difference.max()) if difference.size else None


@dataclass(frozen=True)
class Code:
    """A form of code: a variant of target c, and the compiler's optimisation."""

    target: str
    level: str


@dataclass(frozen=True, eq=False)
class Readings:
    """Nanoseconds of executions, (n, 1), or instructions of each layer, (n, layers); `state` is the board's then."""

    unit: str
    parts: npt.NDArray[np.uint64]
    vectors: int
    differing: int
    state: str

    @property
    def values(self) -> npt.NDArray[np.uint64]:
        """The readings of whole executions, (n,)."""
        total: npt.NDArray[np.uint64] = self.parts.sum(axis=1)
        return total


@dataclass(frozen=True)
class Bound:
    """The most instructions of each layer, whether these are always executed, and the bytes of the stack.

    They are if data decide no branch and nothing is assumed of the C library.
    """

    layers: Sequence[tuple[int, bool]]
    stack: int

    @property
    def instructions(self) -> int:
        """The most instructions of all layers."""
        return sum(layer for layer, _ in self.layers)

    def cost_of_reading(self, counted: Readings) -> int | None:
        """Return the instructions that a count has for each layer besides the layer: its call and the readings.

        They are the same for all layers: what a count exceeds the bound by in layers that always execute as many, at
        least.  None if there is no such layer.
        """
        most = counted.parts.max(axis=0).astype(int)
        excess = [int(count) - layer for count, (layer, fixed) in zip(most, self.layers, strict=True) if fixed]
        return min(excess, default=None)


@dataclass(frozen=True)
class Built:
    """Figures of a network in a form of code on a board; `missing` and `no_bound` have the reason of a None."""

    board: str
    code: Code
    origin: str = ""
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    readings: Readings | None = None
    bound: Bound | None = None
    missing: str = ""
    no_bound: str = ""


def checked(network: Network) -> Checked:
    """Return seeded vectors with their outputs: as many as take a moment to compute."""
    count = int(np.clip(OPERATIONS // max(network.operations, 1), LEAST_VECTORS, MOST_VECTORS))
    vectors = stimuli(network, count, SEED).chunk(0, count)
    exact = SpecificationReference(network).activations(vectors)[-1]
    session = sessions.session(with_free_batch(network).SerializeToString(), 1)
    last = network.layers[-1].output.name
    [other] = session.run([last], shaped(network, vectors))
    return Checked(network, vectors, exact, other.reshape(exact.shape))


def unchecked(network: Network) -> Checked:
    """Return a network without vectors, whose programs are not executed."""
    none = np.empty((0, network.layers[-1].size), network.layers[-1].dtype)
    return Checked(network, np.empty((0, network.vector.size), network.vector.dtype), none, none)


def with_code(profile: Profile, code: Code) -> Profile:
    """Return the profile with one item for all layers, and with another optimisation of the compiler."""
    flags = tuple(flag for flag in profile.toolchain.flags if not re.fullmatch(r"-O\w*", flag))
    toolchain = profile.toolchain.model_copy(update={"flags": (code.level, *flags)})
    core = next((item.core for item in profile.items.values()), None)
    items = {ITEM: ItemProfile(target=code.target, core=core)}
    return profile.model_copy(update={"toolchain": toolchain, "items": items, "split": ()})


def examine(
    case: Checked, profile: Profile, codes: Sequence[Code], cache: Path, reach: Open, seconds: float
) -> Iterator[Built]:
    """Build all programs, then measure each for about `seconds`; failures are reasons and not exceptions.

    The board is used when the programs are built.  Those of a large network are built, measured and deleted in turn.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(case.network.onnx_bytes) < LARGE_BYTES:
        yield from _examined(case, profile, codes, cache, cache, reach, seconds)
        return
    for code in codes:
        with tempfile.TemporaryDirectory(dir=cache, prefix=".large-") as folder:
            yield from _examined(case, profile, [code], Path(folder), cache, reach, seconds)


def _examined(
    case: Checked, profile: Profile, codes: Sequence[Code], folder: Path, cache: Path, reach: Open, seconds: float
) -> list[Built]:
    prepared = [_prepared(case, with_code(profile, code), code, folder) for code in codes]
    if not any(built for _, built in prepared):
        return [outcome for outcome, _ in prepared]
    if not len(case.vectors):
        return [replace(outcome, missing=outcome.missing or NOT_EXECUTED) for outcome, _ in prepared]
    try:
        with reach(profile, folder if profile.local else cache) as connection:
            return [
                _measured(case, with_code(profile, outcome.code), outcome, built, connection, seconds)
                if built
                else outcome
                for outcome, built in prepared
            ]
    except HarnessError as error:
        return [replace(outcome, missing=outcome.missing or _reason(error)) for outcome, _ in prepared]


def _prepared(case: Checked, board: Profile, code: Code, folder: Path) -> tuple[Built, Bundle | None]:
    """Build a program and analyse it; without the bundle if it cannot be built."""
    outcome = Built(board.name, code)
    operations = case.network.operations
    if code.target == UNROLLED and code.level != "-O0" and operations > LARGEST_UNROLLED:
        reason = f"not built: gcc {code.level} takes minutes for unrolled code of {operations:,} FLOP"
        return replace(outcome, missing=reason, no_bound=reason), None
    try:
        generated = codegen.generate(planner.make(case.network, board, block=1))
        built = bundle.build(generated, board, folder)
        outcome = replace(outcome, origin=_origin(board, built), sizes=_sizes(built))
        if len(case.network.onnx_bytes) >= LARGE_BYTES:
            return replace(outcome, no_bound="not bounded: a large network takes minutes; try harness wcet"), built
        return replace(outcome, **_bounded(generated, built, outcome.sizes["network"])), built
    except HarnessError as error:
        return replace(outcome, missing=_reason(error), no_bound=_reason(error)), None


def _reason(error: HarnessError) -> str:
    return error.message.splitlines()[0]


def _origin(board: Profile, built: Bundle) -> str:
    compiler = re.sub(r" \[\w+\]$", "", built.compiler)
    flags = " ".join(board.toolchain.flags)
    return f"board {board.name}, {compiler} {flags}, bundle {built.sha256[:16]}"


def _sizes(built: Bundle) -> dict[str, Sizes]:
    read = inspection.read(built.folder / PROGRAM)
    return {"network": sizes.of_network(read), "program": sizes.of_program(read)}


def _bounded(generated: Program, built: Bundle, size: Sizes) -> dict[str, Any]:
    """Return the field `bound`, or `no_bound` with the reason."""
    if size.text > BOUNDED_BYTES:
        return {"no_bound": f"not bounded: {size.text:,} bytes of code take long; harness wcet has no such limit"}
    try:
        outcome = of_program(generated, built.folder / PROGRAM)
    except HarnessError as error:
        return {"no_bound": _reason(error).removeprefix(f"{built.folder / PROGRAM}: ")}
    layers = [(each.instructions + each.library, not (each.decided_by_data or each.library)) for each in outcome.layers]
    return {"bound": Bound(layers, max(each.stack for each in outcome.layers))}


def _measured(
    case: Checked, board: Profile, outcome: Built, built: Bundle, connection: Connection, seconds: float
) -> Built:
    """Return the build with the readings of its deployed program, or with the reason why it has none."""
    size = sum((built.folder / path).stat().st_size for path in built.files)
    if board.emulated and board.emulator and size > board.emulator.disk_mib << 18:
        return replace(outcome, missing=f"not counted: {size >> 20:,} MiB on the emulated board's disk")
    try:
        deployed = program.deploy(connection.board, built, connection.work, f"tables-{built.sha256[:16]}")
        try:
            return replace(outcome, readings=_readings(case, board, deployed, seconds))
        finally:
            program.clean(deployed)
    except HarnessError as error:
        return replace(outcome, missing=_reason(error))


def _readings(case: Checked, board: Profile, deployed: program.Deployed, seconds: float) -> Readings:
    """Execute one vector to learn how long it takes, then as many as there is time for, again and again."""
    unit, state = ("instructions" if board.emulated else "ns"), _state(board, deployed)
    first, differing = _executed(case, board, deployed, 1, 1)
    if board.emulated:
        vectors, repeat = min(COUNTED_VECTORS, len(case.vectors)), 1
    else:
        executions = max(int(seconds * 1e9 / max(int(first[0, 0]), 1)), 1)
        vectors = min(executions, len(case.vectors))
        repeat = max(executions // vectors, 1)
    if (vectors, repeat) == (1, 1):
        return Readings(unit, first, 1, differing, state)
    values, differing = _executed(case, board, deployed, vectors, repeat)
    return Readings(unit, values, vectors, differing, state)


def _executed(
    case: Checked, board: Profile, deployed: program.Deployed, vectors: int, repeat: int
) -> tuple[npt.NDArray[np.uint64], int]:
    """Return the readings of these executions, (n, 1 or layers), and the number of wrong values in their outputs."""
    there, out = deployed.run_folder / "vectors.npy", program.out_folder(deployed.run_folder, 0)
    with tempfile.TemporaryDirectory() as scratch:
        dumps.write(Path(scratch) / there.name, case.vectors[:vectors])
        deployed.board.put(Path(scratch) / there.name, there)
    core = board.items[ITEM].core
    pinned = [] if core is None or board.emulated else ["--pin", str(core)]
    scope = ["layer", "--count", "instructions"] if board.emulated else ["network"]
    columns = len(case.network.layers) if board.emulated else 1
    files = ["--vectors", str(there), "--out", str(out), "--dump", "last"]
    timed = ["--time", *scope, "--block", "1", "--repeat", str(repeat), *pinned]
    program.run_program(deployed, [*files, *timed], max(board.timeout_s, LONGEST_S))
    last = case.network.layers[-1]
    name = dumps.file_name(len(case.network.layers) - 1, last)
    dumped = (out / name, last.dtype, (vectors, last.size))
    read = (out / "time.npy", np.dtype(np.uint64), (vectors * repeat, columns))
    outputs, times = program.fetch_arrays(deployed.board, [dumped, read])
    return times, compare(case.exact[:vectors], outputs).differing


def _state(board: Profile, deployed: program.Deployed) -> str:
    """Return where and when a program runs: emulated or hardware, processor, load, day."""
    where = targets.find(board.items[ITEM].target).environment(board)
    found = program.environment(deployed.board)
    processor = re.search(r"^model name\s*:\s*(.+)$", found.get("processors", ""), re.MULTILINE)
    words = [where, *([processor[1]] if processor and not board.emulated else [])]
    if not board.emulated:
        words += ["a virtual machine"] if "virtual_machine" in tuning.facts(deployed.board) else []
        words += [f"load {tuning.take(deployed.board).load[0]:.1f}"]
    return ", ".join([*words, f"{run_folder.now():%Y-%m-%d}"])
