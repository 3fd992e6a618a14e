"""Compute all layers of a launch in one kernel, in shared memory: see kernels/cuda/fused.cuh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.operators.base import Layer
from harness.targets.cuda.code import (
    ARGUMENTS_LIMIT,
    VECTORS_LIMIT,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    LoweringOf,
    c_type,
    output,
    parameters,
    tile,
    words,
)
from harness.targets.cuda.qgemm import STAGED
from harness.targets.generated import Launch, TaskView

HEADER = "fused.cuh"
SHARED_WORDS = 48 * 1024 // 4  # of a block of threads, on every GPU
TILE_WORDS = SHARED_WORDS - 4 * STAGED
GOOD_STRIDE = 8 + 1  # of a launch that is not worth cutting: it carries at least 8 vectors


def too_large(layer: Layer) -> str | None:
    """Return why the kernel cannot hold one vector of `layer`; None if it can."""
    needed = 2 * _tile_words(layer)  # the stride of one vector
    if needed > TILE_WORDS:
        return (
            f"one vector of its inputs and outputs takes {4 * needed:,} bytes of shared memory, the fused kernel has "
            f"{4 * TILE_WORDS:,}; cuda:layerwise takes it"
        )
    return None


def _tile_words(layer: Layer) -> int:
    """Return the words of the layer's sources and its output."""
    sources = len(layer.sources) * words(layer.input.dtype, layer.input.size)
    return sources + words(layer.dtype, layer.size)


def generate(launches: Sequence[Launch], lowering_of: LoweringOf) -> list[DeviceLaunch]:
    """Return the device code of an item."""
    return [_launch(launch, lowering_of) for launch in launches]


def carried(launches: Sequence[Launch]) -> int:
    """Return the largest power of two of vectors for which a block of threads has room in every kernel."""
    needed = [_tiles(part).words for launch in launches for part in _parts(launch)]
    vectors = VECTORS_LIMIT
    while vectors > 1 and (vectors + 1) * max(needed) > TILE_WORDS:
        vectors //= 2
    return vectors


@dataclass(frozen=True)
class _Tiles:
    """The tiles of a kernel: by the buffer's name the first word, and the total number of words."""

    places: dict[str, int]
    words: int


def _tiles(tasks: Sequence[TaskView]) -> _Tiles:
    """Assign tiles; one is free again when the layer after its last reader starts: until then it may be stored."""
    until = _last_uses(tasks)
    sizes = {name: size for task in tasks for name, size in _sizes(task)}
    first = {name: index for index, task in reversed(list(enumerate(tasks))) for name, _ in _sizes(task)}
    loaded = _loaded(tasks)
    places: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -1 if name in loaded else first[name]):
        begin = -1 if name in loaded else first[name]
        taken = sorted((places[other], places[other] + sizes[other]) for other in places if until[other] >= begin)
        places[name] = _gap(taken, sizes[name])
    return _Tiles(places, max(places[name] + sizes[name] for name in places))


def _gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the first word of the first gap of that size."""
    begin = 0
    for start, stop in taken:
        if start - begin >= size:
            return begin
        begin = max(begin, stop)
    return begin


def _sizes(task: TaskView) -> Iterator[tuple[str, int]]:
    """Yield the buffers of a task, with the words of a vector."""
    layer = task.layer
    for source in task.sources:
        yield source, words(layer.input.dtype, layer.input.size)
    yield output(layer), words(layer.dtype, layer.size)


def _last_uses(tasks: Sequence[TaskView]) -> dict[str, int]:
    """Return by the buffer's name the index of the task after which its tile is free; outputs are also stored."""
    until: dict[str, int] = {}
    for index, task in enumerate(tasks):
        for source in task.sources:
            until[source] = index
        until[output(task.layer)] = index + 1
    return until


def _loaded(tasks: Sequence[TaskView]) -> list[str]:
    """Return the sources from outside."""
    written = {output(task.layer) for task in tasks}
    return list(dict.fromkeys(source for task in tasks for source in task.sources if source not in written))


def _parts(launch: Launch) -> list[Launch]:
    """Split a launch where it exceeds one kernel."""
    parts: list[list[TaskView]] = [[]]
    for task in launch:
        if parts[-1] and not _is_one_kernel([*parts[-1], task]):
            parts.append([])
        parts[-1].append(task)
    return [tuple(part) for part in parts]


def _is_one_kernel(tasks: Sequence[TaskView]) -> bool:
    """Return whether the tiles leave room for enough vectors, and the buffers are not too many arguments."""
    buffers = len(_loaded(tasks)) + len(tasks)
    return buffers <= ARGUMENTS_LIMIT and _tiles(tasks).words * GOOD_STRIDE <= TILE_WORDS


def _launch(launch: Launch, lowering_of: LoweringOf) -> DeviceLaunch:
    layers = {}
    for task in launch:
        lowering = lowering_of(task.layer)
        tables, text = lowering.fused_tables(task.layer), lowering.fused_function(task.layer)
        layers[task.layer.name] = DeviceLayer(task, lowering.stages(task.layer), tables, text)
    parts = _parts(launch)
    texts, kernels = zip(*(_forward(part, lowering_of) for part in parts), strict=True)
    loaded = frozenset(source for part in parts for source in _loaded(part))
    memory = loaded & {output(task.layer) for task in launch}
    return DeviceLaunch(tuple(layers.values()), kernels, "\n\n".join(texts), memory)


def _forward(tasks: Sequence[TaskView], lowering_of: LoweringOf) -> tuple[str, Kernel]:
    """Return the kernel that carries vectors through `tasks`, all or one; its name is that of the first forward."""
    tiles, loaded = _tiles(tasks), _loaded(tasks)
    kinds = {source: task.layer.input.dtype for task in tasks for source in task.sources}
    widths = {source: task.layer.input.size for task in tasks for source in task.sources}
    body = [
        *dict.fromkeys(declaration for task in tasks for declaration in lowering_of(task.layer).shared),
        f"__shared__ uint32_t tiles[{tiles.words} * STRIDE];",
        *(f"uint32_t *const {tile(name)} = &tiles[{place} * STRIDE];" for name, place in tiles.places.items()),
        "const Carried carry = carried(vectors);",
        "if (part == WHOLE) {",
        *(f"    load<{c_type(kinds[name])}, {widths[name]}>(carry, {name}, {tile(name)});" for name in loaded),
        "}",
        *(line for index, task in enumerate(tasks) for line in _steps(task, index, lowering_of)),
    ]
    given = [(f"const {c_type(kinds[name])}", name) for name in loaded]
    made = [(c_type(task.layer.dtype), output(task.layer)) for task in tasks]
    name, inner = f"{tasks[0].layer.name}_forward", "\n".join(f"    {line}" for line in body)
    head = f"KERNEL __launch_bounds__({VECTORS_LIMIT}) {name}({parameters([*given, *made], 'unsigned layer')})"
    arguments = tuple(name for _, name in [*given, *made])
    return f"{head}\n{{\n{inner}\n}}", Kernel(name, arguments, 0, tuple(task.layer.name for task in tasks))


def _steps(task: TaskView, index: int, lowering_of: LoweringOf) -> list[str]:
    """Return a layer of the kernel, from tile to tile and then to memory; for a stage from `given` to `made`."""
    layer, name, lowering = task.layer, output(task.layer), lowering_of(task.layer)
    first, *others = lowering.stages(layer)
    store = f"store<{c_type(layer.dtype)}, {layer.size}>(carry, {tile(name)}, part == WHOLE ? {name} : made);"
    only = f"if (part != {first.part.name})\n            " if others else ""
    return [
        f"if (part == WHOLE || layer == {index}) {{ /* {layer.name} */",
        *(f"    {line}" for line in [*_given(task, first.part.name), *lowering.steps(task), f"{only}{store}"]),
        "}",
    ]


def _given(task: TaskView, part: str) -> list[str]:
    """Return how the first stage loads the layer's sources from `given`."""
    kind, width = c_type(task.layer.input.dtype), task.layer.input.size
    pitch = len(task.sources) * width
    loads = [
        f"    load<{kind}, {width}, {pitch}>(carry, (const {kind} *)given + {number * width}, {of_term});"
        for number, of_term in enumerate(_term_tiles(task))
    ]
    return [f"if (part == {part}) {{", *loads, "}"]


def _term_tiles(task: TaskView) -> list[str]:
    """Return the tiles of a stage's sources: the second in the output's place, as both may be the same tensor."""
    return [tile(task.sources[0]), *([tile(output(task.layer))] if len(task.sources) > 1 else [])]
