"""A network on a GPU: how long its kernels take, and what the hardware's limits would allow; how they are built.

    .venv/bin/python benchmarks/gpu.py [--shape 5-50x6-5 | --model models/resnet8_int8.onnx --vectors 2000] [--json]

Without a GPU only what the compiler makes is measured.  Before kernels are timed every activation that they write must
be the specification's.
"""  # noqa: INP001 - a script

from __future__ import annotations

import ctypes
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the networks of the tests

import machine
from inference import parse_shape

from harness.boards import profile, workspace
from harness.boards.profile import BoardProfiles, Profile
from harness.build import bundle, codegen
from harness.build.bundle import Bundle
from harness.core.arrays import Array
from harness.core.errors import HarnessError, ToolError
from harness.execution import program
from harness.model import parse
from harness.model.network import Network
from harness.operators.contraction import Contraction
from harness.operators.qgemm import QGemm
from harness.plan import planner
from harness.plan.plan import Plan
from harness.reference import SpecificationReference
from harness.targets import STAND_INS
from harness.targets.cuda import fused, nvrtc
from harness.targets.cuda.code import VECTORS_LIMIT, DeviceCode, Kernel, output
from tests.campaigns.gpu import device
from tests.campaigns.gpu.device import Device, Driver, NoGpu
from tests.support import builders

WAYS = ("fused", "layerwise", "tensor")
BOUNDS = {"fused": ("dp4a", "shared memory"), "layerwise": ("dp4a",), "tensor": ()}  # beside that of memory
WAITS = ("spin", "yield")
OF_A_CORE = ("QuantizeLinear", "DequantizeLinear", "ArgMax", "ArgMin")
ONE_ARCH = "sm_90"
SEED = 1
NO_QUESTION = (ctypes.c_int(0), 0, 0, ctypes.c_uint32(0))  # of the proof: the last arguments of a kernel, see gpu.h
INPUTS = 8  # that take turns
BATCH = 16
SHARED_BYTES, MOST_DYNAMIC_SHARED = 48 * 1024, 8  # the latter is CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
WARMUP = 2000
VECTORS_OF_ONE = 1000
TARGET_S, TARGET_BYTES, TARGET_US, TARGET_GPU = 2.0, 1_000_000, 200.0, "H200"


@dataclass(frozen=True)
class Built:
    """The program of the board local-gpu: seconds of NVRTC for all its GPUs and for one, bytes that are deployed."""

    kernels: str
    archs: tuple[str, ...]
    compile_all_s: float
    compile_one_s: float
    bundle_bytes: int


@dataclass(frozen=True)
class Launched:
    """GPU time of one launch with all activations written, in µs; the least that each limit of the GPU allows."""

    kernels: str
    vectors: int
    median_us: float
    minimum_us: float
    bounds_us: dict[str, float]

    @property
    def over_bound(self) -> float | None:
        """How many times the highest bound; None if the driver does not tell what bounds need."""
        return self.median_us / max(self.bounds_us.values()) if self.bounds_us else None


@dataclass(frozen=True)
class Answered:
    """One vector, from the host's memory to the host's memory, in µs: `count` executions of the program."""

    kernels: str
    wait: str
    count: int
    median_us: float
    percentile_999_us: float
    maximum_us: float


# What is built


def make_plan(net: Network, board: Profile, kernels: str, block: int | None = None) -> Plan:
    """Everything but the ends of the network on the GPU."""
    on_gpu = board.items["network"].model_copy(update={"operators": None})
    ends = board.items["prepost"].model_copy(update={"operators": OF_A_CORE})
    items = board.items | {"prepost": ends, "network": on_gpu}
    return planner.make(net, board.model_copy(update={"items": items}), ["c", f"cuda:{kernels}"], block)


def compile_s(made: Plan, board: Profile, times: int) -> float:
    """Seconds from device code to the inspected cubins and PTX of all the board's GPUs, the median."""
    recipe = bundle.recipe_of(codegen.generate(made), board)
    [(compiler, kernels)] = recipe.kernels
    found = []
    with tempfile.TemporaryDirectory() as folder:
        recipe.write(Path(folder))
        for _ in range(times):
            begin_s = time.perf_counter()
            compiler.build(Path(folder), kernels, board, no_c)
            found.append(time.perf_counter() - begin_s)
    return statistics.median(found)


def no_c(sources: Sequence[Path], output: Path, *flags: str) -> None:
    """Leave the GPU without a stand-in."""


def measure_build(net: Network, board: Profile, kernels: str, times: int, cache: Path) -> Built:
    """For the board local-gpu as it is shipped."""
    made = make_plan(net, board, kernels)
    built = bundle.build(codegen.generate(made), board, cache)
    size = sum((built.folder / path).stat().st_size for path in built.files)
    archs = tuple(board.section("cuda").get("archs", ()))
    one_s = compile_s(made, device.narrowed(board, ONE_ARCH), times)
    return Built(kernels, archs, compile_s(made, board, times), one_s, size)


# A launch


@dataclass(frozen=True)
class Where:
    """A GPU, the board that has it, with code for that GPU alone, and the folder of bundles."""

    board: Profile
    gpu: Device
    cache: Path


@dataclass(frozen=True, eq=False)
class Loaded:
    """The kernels of a network on the GPU, a graph for each of the inputs, and where the activations come to lie."""

    driver: Driver
    graphs: tuple[int, ...]
    buffers: dict[str, int]


def device_code(made: Plan) -> DeviceCode:
    """Of the only item on the GPU."""
    [code] = [code.kernels for code in codegen.generate(made).items if isinstance(code.kernels, DeviceCode)]
    return code


def shape(kernel: Kernel, vectors: int, carried: int, multiprocessors: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Blocks, and threads of a block, as kernels/cuda/gpu.c chooses them."""
    x = VECTORS_LIMIT
    if kernel.outputs == 0:
        x = 1
        while x < carried and x * multiprocessors < vectors:
            x *= 2
    threads = vectors * (kernel.outputs or 1)
    return (-(-threads // x), 1, 1), (x, 1 if kernel.outputs else kernel.threads // x, 1)


def load(driver: Driver, net: Network, code: DeviceCode, codes: Array) -> Loaded:
    """Return inputs and activations in the GPU's memory; input i is `codes`, moved on by i vectors."""
    vectors, entrance = len(codes), output(net.layers[0])
    written = {name for kernel in code.kernels for name in kernel.arguments}
    sizes = {
        output(layer): vectors * layer.size * layer.dtype.itemsize
        for layer in net.layers[1:]
        if output(layer) in written
    }
    buffers = {name: driver.allocate(size) for name, size in sizes.items()}
    graphs = []
    for index in range(INPUTS):
        moved = np.ascontiguousarray(np.roll(codes, index, axis=0))
        given = driver.allocate(moved.nbytes)
        done("copying", driver.put(given, moved), driver.synchronize())
        graphs.append(capture(driver, code, vectors, buffers | {entrance: given}))
    return Loaded(driver, tuple(graphs), buffers)


def capture(driver: Driver, code: DeviceCode, vectors: int, buffers: Mapping[str, int]) -> int:
    """Return an executable graph of all kernels."""
    multiprocessors = driver.attribute(device.MULTIPROCESSORS) or 1
    functions = {kernel.name: driver.function(kernel.name) for kernel in code.kernels}
    driver.do("cuStreamBeginCapture_v2", driver.stream, 1)
    for kernel in code.kernels:
        blocks, threads = shape(kernel, vectors, code.carried, multiprocessors)
        given = [ctypes.c_uint32(vectors), *(buffers[name] for name in kernel.arguments), *NO_QUESTION]
        shared = 4 * (kernel.tile_words * fused.stride(code.carried) + kernel.other_words)
        if shared > SHARED_BYTES:
            driver.do("cuFuncSetAttribute", functions[kernel.name], MOST_DYNAMIC_SHARED, shared)
        done(kernel.name, driver.launch(functions[kernel.name], given, blocks, threads, shared))
    graph = ctypes.c_uint64()
    driver.do("cuStreamEndCapture", driver.stream, ctypes.byref(graph))
    executable = driver.make("cuGraphInstantiateWithFlags", graph.value, 0)
    driver.do("cuGraphDestroy", graph.value)
    return executable


def done(what: str, *errors: int) -> None:
    """ToolError if one is an error of CUDA."""
    if any(errors):
        raise ToolError(f"{what} failed on the GPU: CUDA's error {max(errors)}", "see the kernel's log (dmesg)")


def check(loaded: Loaded, net: Network, expected: Sequence[Array]) -> None:
    """ToolError unless every activation that each of the inputs leads to is the expected one."""
    driver = loaded.driver
    for index, graph in enumerate(loaded.graphs):
        done("the network", driver.call("cuGraphLaunch", graph, driver.stream))
        for layer, right in zip(net.layers[1:], expected[1:], strict=True):
            if output(layer) not in loaded.buffers:  # of the item on a core
                continue
            found = np.empty_like(right)
            done("copying", driver.get(found, loaded.buffers[output(layer)]), driver.synchronize())
            if np.roll(right, index, axis=0).tobytes() != found.tobytes():
                raise ToolError(f"layer {layer.name} is wrong on this GPU", "run make test-gpu, which looks closer")


def launch_us(loaded: Loaded, launches: int) -> list[float]:
    """GPU times of so many launches or a few more.

    A GPU that waits for the host would count the host's time, too: each batch queues behind as much work as itself
    twice, which also keeps the clocks up.
    """
    driver, batch = loaded.driver, min(BATCH, launches)
    events = [[driver.make("cuEventCreate", 0) for _ in range(2)] for _ in range(batch)]
    graphs = itertools.cycle(loaded.graphs)
    found: list[float] = []
    while len(found) < launches:
        for _ in range(2 * batch):
            driver.call("cuGraphLaunch", next(graphs), driver.stream)
        for begin, end in events:
            driver.call("cuEventRecord", begin, driver.stream)
            driver.call("cuGraphLaunch", next(graphs), driver.stream)
            driver.call("cuEventRecord", end, driver.stream)
        done("the network", driver.synchronize())
        found += [elapsed_us(driver, begin, end) for begin, end in events]
    for event in itertools.chain(*events):
        driver.do("cuEventDestroy_v2", event)
    return found


def elapsed_us(driver: Driver, begin: int, end: int) -> float:
    """Between two events."""
    elapsed_ms = ctypes.c_float()
    driver.do("cuEventElapsedTime", ctypes.byref(elapsed_ms), begin, end)
    return 1e3 * elapsed_ms.value


def activations_of(net: Network, vectors: int) -> tuple[Array, ...]:
    """Return what the specification computes for random inputs."""
    low, high = net.box
    inputs = np.random.default_rng(SEED).uniform(low, high, (vectors, net.vector.size)).astype(np.float32)
    return SpecificationReference(net).activations(inputs)


def measure_launch(net: Network, where: Where, kernels: str, expected: Sequence[Array], launches: int) -> Launched:
    """Return the GPU time of a launch of the code in the bundle."""
    vectors, made = len(expected[0]), make_plan(net, where.board, kernels)
    folder = bundle.build(codegen.generate(made), where.board, where.cache).folder
    with device.opened(folder, where.gpu) as driver:
        loaded = load(driver, net, device_code(made), expected[0])
        check(loaded, net, expected)
        found = launch_us(loaded, launches)
        limits = bounds_us(net, kernels, vectors, driver)
        for graph in loaded.graphs:
            driver.do("cuGraphExecDestroy", graph)
    return Launched(kernels, vectors, statistics.median(found), min(found), limits)


# The least that the hardware allows


def bounds_us(net: Network, kernels: str, vectors: int, driver: Driver) -> dict[str, float]:
    """By what the driver tells of the GPU: nothing where it does not."""
    asked = (device.MULTIPROCESSORS, device.CLOCK_KHZ, device.MEMORY_CLOCK_KHZ, device.MEMORY_BITS)
    multiprocessors, clock_khz, memory_khz, memory_bits = (driver.attribute(which) for which in asked)
    if not (multiprocessors and clock_khz and memory_khz and memory_bits):
        return {}
    clocks_us = multiprocessors * clock_khz / 1e3  # of all multiprocessors
    memory_bytes_us = 2 * memory_khz / 1e3 * memory_bits / 8  # two transfers a clock
    limits = {
        "dp4a": vectors * dp4a(net) / (64 * clocks_us),
        "memory": vectors * memory_bytes(net, kernels) / memory_bytes_us,
    }
    if all(isinstance(layer, QGemm) for layer in net.layers if isinstance(layer, Contraction)):
        limits["shared memory"] = vectors * shared_bytes(net) / (128 * clocks_us)
    return {name: limit for name, limit in limits.items() if name == "memory" or name in BOUNDS[kernels]}


def groups_and_words(layer: QGemm) -> tuple[int, int]:
    """Return the numbers of groups of four outputs and of words of four input codes."""
    return -(-layer.size // 4), -(-layer.input.size // 4)


def dp4a(net: Network) -> int:
    """Return the number of dp4a for a vector: dense layers are padded to groups and words, others not."""
    sizes = [groups_and_words(layer) for layer in net.layers if isinstance(layer, QGemm)]
    others = [layer for layer in net.layers if isinstance(layer, Contraction) and not isinstance(layer, QGemm)]
    padded = sum(4 * groups * words for groups, words in sizes)
    return padded + sum(-(-layer.weights.size * layer.positions // 4) for layer in others)


def shared_bytes(net: Network) -> int:
    """Return the bytes that threads read and write for a vector.

    A thread reads the codes and four weights for each group and word; it writes a word for each group, one for each
    code.
    """
    layers = [layer for layer in net.layers if isinstance(layer, QGemm)]
    sizes = [(*groups_and_words(layer), layer.size) for layer in layers]
    return sum(groups * words * (4 + 16) + 4 * groups + 4 * width for groups, words, width in sizes)


def memory_bytes(net: Network, kernels: str) -> int:
    """Of a vector: every activation written, the first read; layer by layer also all others but the last."""
    sizes = [layer.size * layer.dtype.itemsize for layer in net.layers if layer.dtype != np.float32]
    return sum(sizes) if kernels == "fused" else 2 * sum(sizes) - sizes[0] - sizes[-1]


# One vector


def measure_one(net: Network, where: Where, kernels: str, wait: str, executions: int) -> Answered:
    """Return the time that the item on the GPU takes of the deployed program."""
    chosen = device.changed(where.board, wait=wait)
    made = make_plan(net, chosen, kernels, block=1)
    with tempfile.TemporaryDirectory() as folder:
        times_ns = run_program(bundle.build(codegen.generate(made), chosen, where.cache), net, executions, Path(folder))
    us = times_ns[:, [item.name for item in made.items].index("network")] / 1e3
    return Answered(kernels, wait, len(us), float(np.median(us)), float(np.percentile(us, 99.9)), float(us.max()))


def run_program(built: Bundle, net: Network, executions: int, folder: Path) -> Array:
    """Time of every item in every execution, ns (executions, items)."""
    low, high = net.box
    count = min(VECTORS_OF_ONE, executions)
    vectors = np.random.default_rng(SEED).uniform(low, high, (count, net.vector.size)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    command = program.start_command(PurePosixPath(built.folder), stand_ins=(built.folder / STAND_INS).exists())
    arguments = {"vectors": folder / "vectors.npy", "out": folder, "block": 1, "repeat": -(-executions // count)}
    arguments |= {"warmup": min(WARMUP, executions), "time": "item", "dump": "none"}
    words = [str(word) for name, value in arguments.items() for word in (f"--{name}", value)]
    ended = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ToolError(f"the program failed: {ended.stderr.strip()}", "run make test-gpu, which looks closer")
    times: Array = np.load(folder / "time.npy")
    return times


# What is said


def targets_of_build(built: Sequence[Built]) -> Iterator[str]:
    """Which need no GPU."""
    for each in built:
        times_s = {"all archs": each.compile_all_s, ONE_ARCH: each.compile_one_s}
        for archs, found_s in times_s.items():
            yield f"{each.kernels}, {archs} compiled in at most {TARGET_S:g} s: {_met(found_s <= TARGET_S)}"
        size = each.bundle_bytes <= TARGET_BYTES
        yield f"{each.kernels}, bundle of at most {TARGET_BYTES:,} bytes: {_met(size)}"


def target_of_launch(launched: Sequence[Launched], gpu: Device) -> str:
    """Of the GPU that it was set for; a simulation meets none."""
    [fused] = [each for each in launched if each.kernels == "fused"]
    said = f"fused, {fused.vectors:,} vectors on an {TARGET_GPU} in at most {TARGET_US / 1e3:g} ms of GPU time: "
    if gpu.simulated or TARGET_GPU not in gpu.name:
        return f"{said}not measured, this is {gpu.name}"
    return said + _met(fused.median_us <= TARGET_US)


def _met(holds: bool) -> str:
    return "met" if holds else "missed"


def table_of_builds(built: Sequence[Built]) -> Table:
    """One row a kind of kernels."""
    heads = ("NVRTC, all archs, s", f"NVRTC, {ONE_ARCH}, s", "bundle, bytes")
    shown = Table("kernels", "archs", *heads, title="the program of local-gpu", title_justify="left")
    for each in built:
        times = (f"{each.compile_all_s:.2f}", f"{each.compile_one_s:.2f}")
        shown.add_row(each.kernels, ", ".join(each.archs), *times, f"{each.bundle_bytes:,}")
    return shown


def table_of_launches(launched: Sequence[Launched], gpu: Device) -> Table:
    """One row a kind of kernels."""
    heads = ("kernels", "vectors", f"median {unit(gpu)}", f"least {unit(gpu)}", "bounds, µs", "over the highest")
    shown = Table(*heads, title=f"GPU time of a launch on {gpu.name}", title_justify="left")
    for each in launched:
        limits = ", ".join(f"{name} {limit:.1f}" for name, limit in each.bounds_us.items())
        over = "unknown" if each.over_bound is None else f"{each.over_bound:.2f}"
        times = (f"{each.median_us:,.1f}", f"{each.minimum_us:,.1f}")
        shown.add_row(each.kernels, f"{each.vectors:,}", *times, limits or "unknown", over)
    return shown


def table_of_answers(answered: Sequence[Answered], gpu: Device) -> Table:
    """One row a kind of kernels and way to wait."""
    times = (f"{name} {unit(gpu)}" for name in ("median", "99.9th percentile", "highest"))
    title = f"one vector, host to host, on {gpu.name}"
    shown = Table("kernels", "wait", "executions", *times, title=title, title_justify="left")
    for each in answered:
        found = (each.median_us, each.percentile_999_us, each.maximum_us)
        shown.add_row(each.kernels, each.wait, f"{each.count:,}", *(f"{us:,.1f}" for us in found))
    return shown


def unit(gpu: Device) -> str:
    """Of times."""
    return "simulated µs" if gpu.simulated else "µs"


@dataclass(frozen=True)
class Found:
    """All that was measured; without `gpu` the `reason` why.  A `model` has no targets, only a shape has."""

    model: Path | None
    built: tuple[Built, ...]
    gpu: Device | None
    reason: str = ""
    launched: tuple[Launched, ...] = ()
    answered: tuple[Answered, ...] = ()

    @property
    def targets(self) -> list[str]:
        """Each with what became of it."""
        if self.model:
            return []
        of_gpu = [target_of_launch(self.launched, self.gpu)] if self.gpu else []
        return [*targets_of_build(self.built), *of_gpu]

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        launched = [asdict(each) | {"over_bound": each.over_bound} for each in self.launched]
        of_gpu = {"launches": launched, "one_vector": [asdict(each) for each in self.answered]}
        simulated = bool(self.gpu and self.gpu.simulated)
        marked = {name: [row | {"simulated": simulated} for row in rows] for name, rows in of_gpu.items()}
        gpu = {"gpu": asdict(self.gpu) if self.gpu else None, "no_gpu_time_because": self.reason}
        return {"built": [asdict(each) for each in self.built], **gpu, **marked, "targets": self.targets}

    def show(self, console: Console) -> None:
        """For people."""
        if self.built:
            console.print(table_of_builds(self.built))
        if self.gpu:
            console.print(f"GPU: {self.gpu.description}")
            console.print(table_of_launches(self.launched, self.gpu))
            if self.answered:
                console.print(table_of_answers(self.answered, self.gpu))
        else:
            console.print(f"no GPU time was measured: {self.reason}")
        for target in self.targets:
            console.print(target)


@dataclass(frozen=True)
class Effort:
    """Amount of measurements: `vectors` of a launch, and how many of each; `model` is None for a shape."""

    model: Path | None
    vectors: int
    launches: int
    executions: int
    compilations: int
    waits: tuple[str, ...]


def measure(net: Network, laboratory: BoardProfiles, effort: Effort, cache: Path, *, simulated: bool) -> Found:
    """Return all that this machine lets."""
    local = laboratory.board("local-gpu")
    ways = WAYS if effort.compilations else ()
    built = tuple(measure_build(net, local, kernels, effort.compilations, cache) for kernels in ways)
    try:
        gpu = device.STAND_IN_DEVICE if simulated else device.find({})
    except NoGpu as reason:
        return Found(effort.model, built, None, str(reason))
    where = Where(device.narrowed(laboratory.board(gpu.board), gpu.arch), gpu, cache)
    expected = activations_of(net, effort.vectors)
    launched = tuple(measure_launch(net, where, way, expected, effort.launches) for way in WAYS)
    ways_of_one = itertools.product(WAYS, effort.waits) if effort.executions else ()
    answered = tuple(measure_one(net, where, way, wait, effort.executions) for way, wait in ways_of_one)
    return Found(effort.model, built, gpu, "", launched, answered)


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--shape", "widths", default="5-50x6-5", show_default=True, callback=parse_shape, help="Layer widths.")
@click.option("--model", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="In place of a shape.")
@click.option("--vectors", default=100_000, show_default=True, type=click.IntRange(1), help="Of a launch.")
@click.option("--launches", default=400, show_default=True, type=click.IntRange(1))
@click.option(
    "--executions", default=200_000, show_default=True, type=click.IntRange(0), help="Of one vector; 0: none."
)
@click.option("--compilations", default=5, show_default=True, type=click.IntRange(0), help="0: measure no compiler.")
@click.option("--wait", "waits", multiple=True, type=click.Choice(WAITS), default=WAITS, show_default=True)
@click.option("--simulated", is_flag=True, help="To test this script: the stand-in's times, which say nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(widths: tuple[int, ...], model: Path | None, *, simulated: bool, as_json: bool, **effort: Any) -> None:
    """Measure what this machine lets, and print it."""
    space = workspace.find(None, None)
    random = builders.random_network(np.random.default_rng(SEED), widths).SerializeToString()
    net = parse(model.read_bytes() if model else random, "benchmark")
    described = machine.describe() | {"compiler of kernels": nvrtc.identity()}
    try:
        found = measure(net, profile.load(space.boards), Effort(model, **effort), space.cache, simulated=simulated)
    except HarnessError as error:
        raise click.ClickException(f"{error.message}\nhint: {error.hint}") from error
    if as_json:
        measured = {"model": str(model)} if model else {"widths": widths}
        click.echo(json.dumps({"machine": described} | measured | found.document, indent=1))
        return
    console = Console()
    console.print(described)
    found.show(console)


if __name__ == "__main__":
    main()
