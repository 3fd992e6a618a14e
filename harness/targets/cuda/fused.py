"""Compute all layers of a launch in one kernel, in shared memory: see kernels/cuda/fused.cuh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from harness.operators.base import Layer
from harness.targets.cuda.code import (
    ARGUMENTS_LIMIT,
    FUSED_BLOCKS,
    FUSED_THREADS,
    VECTORS_LIMIT,
    CudaLowering,
    DeviceLaunch,
    DeviceLayer,
    FusedTask,
    Kernel,
    LoweringOf,
    c_type,
    in_same_words,
    output,
    parameters,
    positions_of,
    tile,
    words,
)
from harness.targets.generated import Launch, TaskView

HEADER = "fused.cuh"
COMMON_WORDS = 48 * 1024 // 4
"""Words of shared memory of a block of threads, on every GPU."""
SHARED_WORDS = 96 * 1024 // 4
"""The same of sm_72, the least of the boards' GPUs: for kernels with no room for one vector in less."""
GOOD_VECTORS = 8
"""A launch of layers that leave room for so many vectors is cut where it leaves room for fewer."""


def too_large(layer: Layer, lowering: CudaLowering[Any]) -> str | None:
    """Return why the kernel cannot hold one vector of `layer`; None if it can."""
    needed = _words_of_layer(layer, lowering) + lowering.shared_words
    if needed > SHARED_WORDS:
        return (
            f"one vector of its inputs and outputs takes {4 * needed:,} bytes of shared memory, the fused kernel has "
            f"{4 * SHARED_WORDS:,}; cuda:layerwise takes it"
        )
    return None


def _words_of_layer(layer: Layer, lowering: CudaLowering[Any]) -> int:
    """Return the words of the layer's sources and its output."""
    sources = () if lowering.streams else zip(layer.sources, layer.inputs, strict=True)
    return sum({name: words(source) for name, source in sources}.values()) + words(layer.output)


def stride(vectors: int) -> int:
    """Return the distance between the words of a vector, for the most vectors that a block carries (fused.cuh)."""
    return vectors + 1 if vectors > 1 else 1


def generate(launches: Sequence[Launch], lowering_of: LoweringOf) -> list[DeviceLaunch]:
    """Return the device code of an item."""
    least = _least_vectors(launches, lowering_of)
    return [_launch(launch, least, lowering_of) for launch in launches]


def carried(launches: Sequence[Launch], lowering_of: LoweringOf) -> int:
    """Return the largest power of two of vectors for which a block of threads has room in every kernel."""
    least = _least_vectors(launches, lowering_of)
    kernels = [_Tiles(part, lowering_of) for launch in launches for part in _parts(launch, least, lowering_of)]
    vectors = VECTORS_LIMIT
    while vectors > 1 and not all(tiles.have_room(vectors) for tiles in kernels):
        vectors //= 2
    return vectors


def _least_vectors(launches: Sequence[Launch], lowering_of: LoweringOf) -> int:
    """Return the vectors for which kernels leave room: one, if some layer does not leave room for several."""
    alone = (_Tiles([task], lowering_of) for launch in launches for task in launch)
    return GOOD_VECTORS if all(tiles.have_room(GOOD_VECTORS) for tiles in alone) else 1


@dataclass
class _Region:
    """Words of a vector that buffers share; they are needed from task `begin` to task `end`, both included."""

    size: int
    begin: int
    end: int
    place: int = 0


class _Tiles:
    """The tiles of a kernel: for each buffer a region of shared memory."""

    def __init__(self, tasks: Sequence[TaskView], lowering_of: LoweringOf) -> None:
        self.regions: dict[str, _Region] = {}
        self.loaded = _loaded(tasks)
        self.direct = _direct(tasks, self.loaded, lowering_of)
        self.other_words = max(lowering_of(task.layer).shared_words for task in tasks)
        last = {source: index for index, task in enumerate(tasks) for source in task.sources}
        for index, task in enumerate(tasks):
            self._add_sources(task, index, last)
            self._add_output(task, index, last, lowering_of(task.layer))
        self.words = self._place()

    @property
    def places(self) -> dict[str, int]:
        """The first word of each tile."""
        return {name: region.place for name, region in self.regions.items()}

    def have_room(self, vectors: int) -> bool:
        """Return whether a block of threads can carry so many vectors."""
        limit = COMMON_WORDS if vectors > 1 else SHARED_WORDS
        return self.words * stride(vectors) + self.other_words <= limit

    def _add_sources(self, task: TaskView, index: int, last: Mapping[str, int]) -> None:
        for number, (name, source) in enumerate(zip(task.sources, task.layer.inputs, strict=True)):
            if name in self.loaded and name not in self.direct and name not in self.regions:
                self.regions[name] = _Region(words(source), -1, last[name])
            if name in task.sources[:number]:
                self.regions[_copy(task, number)] = _Region(words(source), index, index)

    def _add_output(self, task: TaskView, index: int, last: Mapping[str, int], lowering: CudaLowering[Any]) -> None:
        layer, name, end = task.layer, output(task.layer), max(last.get(output(task.layer), index), index)
        for source, tensor in zip(task.sources, layer.inputs, strict=True):
            region = self.regions.get(source)
            # Threads that write the two words of a value read both words of another one.
            in_place = lowering.in_place and tensor.dtype.itemsize < 8
            can = lowering.renames(layer) or (in_place and region is not None and region.end == index)
            if can and region is not None and in_same_words(tensor, layer.output):
                region.end = max(region.end, end)
                self.regions[name] = region
                return
        self.regions[name] = _Region(words(layer.output), index, end)

    def _place(self) -> int:
        """Assign each region the first gap; return the total number of words."""
        regions = list({id(region): region for region in self.regions.values()}.values())
        placed: list[_Region] = []
        for region in sorted(regions, key=lambda region: region.begin):
            taken = sorted((each.place, each.place + each.size) for each in placed if each.end >= region.begin)
            region.place = _gap(taken, region.size)
            placed.append(region)
        return max(region.place + region.size for region in regions)

    def view(self, task: TaskView) -> FusedTask:
        """Return a task of the kernel with its place in it."""
        direct = task.sources[0] in self.direct
        operands = (
            _copy(task, number) if direct or _copy(task, number) in self.regions else tile(source)
            for number, source in enumerate(task.sources)
        )
        return FusedTask(task.layer, task.sources, task.is_output, tuple(operands), direct)


def _gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the first word of the first gap of that size."""
    begin = 0
    for start, stop in taken:
        if start - begin >= size:
            return begin
        begin = max(begin, stop)
    return begin


def _copy(task: TaskView, number: int) -> str:
    """Return the name of what a stage reads for a source: memory, or a tile of its own where sources are the same."""
    return f"{task.layer.name}_operand_{number}"


def _loaded(tasks: Sequence[TaskView]) -> list[str]:
    """Return the sources from outside."""
    written = {output(task.layer) for task in tasks}
    return list(dict.fromkeys(source for task in tasks for source in task.sources if source not in written))


def _direct(tasks: Sequence[TaskView], loaded: Sequence[str], lowering_of: LoweringOf) -> frozenset[str]:
    """Return the sources that need no tile, as their readers read each value once from memory."""
    others = chain.from_iterable(task.sources for task in tasks if not lowering_of(task.layer).streams)
    return frozenset(loaded).difference(others)


def _parts(launch: Launch, vectors: int, lowering_of: LoweringOf) -> list[Launch]:
    """Split a launch where it exceeds one kernel."""
    parts: list[list[TaskView]] = [[]]
    for task in launch:
        if parts[-1] and not _is_one_kernel([*parts[-1], task], vectors, lowering_of):
            parts.append([])
        parts[-1].append(task)
    return [tuple(part) for part in parts]


def _is_one_kernel(tasks: Sequence[TaskView], vectors: int, lowering_of: LoweringOf) -> bool:
    """Return whether the tiles leave room for enough vectors, and the buffers are not too many arguments."""
    buffers = len(_loaded(tasks)) + len(tasks)
    return buffers <= ARGUMENTS_LIMIT and _Tiles(tasks, lowering_of).have_room(vectors)


def _launch(launch: Launch, vectors: int, lowering_of: LoweringOf) -> DeviceLaunch:
    layers: list[DeviceLayer] = []
    texts: list[str] = []
    kernels: list[Kernel] = []
    loaded: set[str] = set()
    for part in _parts(launch, vectors, lowering_of):
        tiles = _Tiles(part, lowering_of)
        tasks = [tiles.view(task) for task in part]
        for task in tasks:
            lowering = lowering_of(task.layer)
            tables, text = lowering.fused_tables(task.layer), lowering.fused_function(task.layer)
            layers.append(DeviceLayer(task, lowering.stages(task.layer), tables, text))
        text, kernel = _forward(tasks, tiles, lowering_of)
        texts.append(text)
        kernels.append(kernel)
        loaded.update(tiles.loaded)
    memory = frozenset(loaded & {output(task.layer) for task in launch})
    return DeviceLaunch(tuple(layers), tuple(kernels), "\n\n".join(texts), memory)


def _forward(tasks: Sequence[FusedTask], tiles: _Tiles, lowering_of: LoweringOf) -> tuple[str, Kernel]:
    """Return the kernel that carries vectors through `tasks`, all or one; its name is that of the first forward."""
    inputs = {name: tensor for task in tasks for name, tensor in zip(task.sources, task.layer.inputs, strict=True)}

    def load(name: str) -> str:
        tensor = inputs[name]
        return f"load<{c_type(tensor.dtype)}, {tensor.size}, {positions_of(tensor)}>(carry, {name}, {tile(name)});"

    body = [
        f"uint32_t *const tiles = (uint32_t *)shared_memory + {tiles.other_words};",
        *(f"uint32_t *const {tile(name)} = &tiles[{place} * STRIDE];" for name, place in tiles.places.items()),
        "const Carried carry = carried(vectors);",
        "if (part == WHOLE) {",
        *(f"    {load(name)}" for name in tiles.loaded if name not in tiles.direct),
        "}",
        *(line for index, task in enumerate(tasks) for line in _steps(task, index, lowering_of)),
    ]
    images = any(positions_of(task.layer.output) > 1 for task in tasks)
    threads, bounds = (FUSED_THREADS, f"{FUSED_THREADS}, {FUSED_BLOCKS}") if images else (VECTORS_LIMIT, VECTORS_LIMIT)
    given = [(f"const {c_type(inputs[name].dtype)}", name) for name in tiles.loaded]
    made = [(c_type(task.layer.dtype), output(task.layer)) for task in tasks]
    name, inner = f"{tasks[0].layer.name}_forward", "\n".join(f"    {line}" for line in body)
    head = f"KERNEL __launch_bounds__({bounds}) {name}({parameters([*given, *made], 'unsigned layer')})"
    arguments = tuple(name for _, name in [*given, *made])
    names = tuple(task.layer.name for task in tasks)
    return f"{head}\n{{\n{inner}\n}}", Kernel(name, arguments, 0, names, threads, tiles.words, tiles.other_words)


def _steps(task: FusedTask, index: int, lowering_of: LoweringOf) -> list[str]:
    """Return a layer of the kernel, from tile to tile and then to memory; for a stage from `given` to `made`."""
    layer, name, lowering = task.layer, output(task.layer), lowering_of(task.layer)
    first, *others = lowering.stages(layer)
    kinds = f"{c_type(layer.dtype)}, {layer.size}, {positions_of(layer.output)}"
    store = f"store<{kinds}>(carry, {tile(name)}, part == WHOLE ? {name} : made);"
    only = f"if (part != {first.part.name})\n            " if others else ""
    body = [*_given(task, first.part.name), *lowering.steps(task), f"{only}{store}"]
    return [
        f"if (part == WHOLE || layer == {index}) {{ /* {layer.name} */",
        *(f"    {line}" for line in body),
        "}",
    ]


def _given(task: FusedTask, part: str) -> Iterator[str]:
    """Yield how the first stage loads the layer's sources from `given`, and where they are."""
    inputs = task.layer.inputs
    kind, pitch = c_type(task.layer.input.dtype), sum(source.size for source in inputs)
    if task.direct:
        [name] = task.operands
        yield f"const {kind} *const {name} = part == {part} ? (const {kind} *)given : {task.sources[0]};"
        return
    pointers = [tile(name) if name == _copy(task, number) else name for number, name in enumerate(task.operands)]
    yield f"if (part == {part}) {{"
    for number, pointer in enumerate(pointers):
        start = sum(each.size for each in inputs[:number])
        sizes = f"{kind}, {inputs[number].size}, {positions_of(inputs[number])}, {pitch}"
        yield f"    load<{sizes}>(carry, (const {kind} *)given + {start}, {pointer});"
    yield "}"
    for name, pointer, source in zip(task.operands, pointers, task.sources, strict=True):
        if name != pointer:
            yield f"const uint32_t *const {name} = part == {part} ? {pointer} : {tile(source)};"
