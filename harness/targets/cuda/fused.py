"""All layers of a launch in one kernel, in shared memory: see kernels/cuda/fused.cuh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import Launch, Table, Work, offset
from harness.targets.cuda.code import (
    ARGUMENTS_LIMIT,
    VECTORS_LIMIT,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    affine_tables,
    c_type,
    elementwise_function,
    flags,
    output,
    parameters,
)

HEADER = "fused.cuh"
STAGED = 512  # in fused.cuh, of 16 bytes each
SHARED_WORDS = 48 * 1024 // 4  # of a block of threads, on every GPU
TILE_WORDS = SHARED_WORDS - 4 * STAGED
GOOD_STRIDE = 8 + 1  # of a launch that is not worth cutting: it carries at least 8 vectors


def refusal(layer: Layer) -> str | None:
    """Why the kernel cannot take `layer`; None if it can."""
    if isinstance(layer, QGemm) and _words(layer.input.dtype, layer.input.size) > STAGED:
        return (
            f"{layer.input.size} inputs, but the fused kernel holds the weights of four outputs in "
            f"{16 * STAGED:,} bytes of shared memory, enough for {4 * STAGED:,}; cuda:layerwise takes it"
        )
    needed = 2 * _tile_words(layer)  # the stride of one vector
    if needed > TILE_WORDS:
        return (
            f"one vector of its inputs and outputs takes {4 * needed:,} bytes of shared memory, the fused kernel has "
            f"{4 * TILE_WORDS:,}; cuda:layerwise takes it"
        )
    return None


def _words(dtype: np.dtype[np.generic], width: int) -> int:
    """Of a vector in shared memory: four codes to a word, or one of anything else."""
    return -(-width // 4) if dtype.itemsize == 1 else width


def _tile_words(layer: Layer) -> int:
    """Of the layer's sources and its output."""
    sources = len(layer.sources) * _words(layer.input.dtype, layer.input.size)
    return sources + _words(layer.dtype, layer.size)


def generate(launches: Sequence[Launch]) -> list[DeviceLaunch]:
    """The device code of an item."""
    return [_launch(launch) for launch in launches]


def carried(launches: Sequence[Launch]) -> int:
    """The most vectors that a block of threads has room for in every kernel, a power of two."""
    words = [_tiles(part).words for launch in launches for part in _parts(launch)]
    vectors = VECTORS_LIMIT
    while vectors > 1 and (vectors + 1) * max(words) > TILE_WORDS:
        vectors //= 2
    return vectors


@dataclass(frozen=True)
class _Tiles:
    """Where the activations of a kernel lie: by the buffer's name the first word of its tile, and words in all."""

    places: dict[str, int]
    words: int


def _tiles(works: Sequence[Work]) -> _Tiles:
    """A place is free again when the kernel after its last reader begins: until then it may be written to memory."""
    until = _last_uses(works)
    sizes = {name: size for work in works for name, size in _sizes(work)}
    first = {name: index for index, work in reversed(list(enumerate(works))) for name, _ in _sizes(work)}
    loaded = _loaded(works)
    places: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -1 if name in loaded else first[name]):
        begin = -1 if name in loaded else first[name]
        taken = sorted((places[other], places[other] + sizes[other]) for other in places if until[other] >= begin)
        places[name] = _gap(taken, sizes[name])
    return _Tiles(places, max(places[name] + sizes[name] for name in places))


def _gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The first word of the first gap of that size."""
    begin = 0
    for start, stop in taken:
        if start - begin >= size:
            return begin
        begin = max(begin, stop)
    return begin


def _sizes(work: Work) -> Iterator[tuple[str, int]]:
    """The buffers of a task, with the words of a vector."""
    layer = work.layer
    for source in work.sources:
        yield source, _words(layer.input.dtype, layer.input.size)
    yield output(layer), _words(layer.dtype, layer.size)


def _last_uses(works: Sequence[Work]) -> dict[str, int]:
    """By the buffer's name the index of the task behind which its tile is free; what is written is also stored."""
    until: dict[str, int] = {}
    for index, work in enumerate(works):
        for source in work.sources:
            until[source] = index
        until[output(work.layer)] = index + 1
    return until


def _loaded(works: Sequence[Work]) -> list[str]:
    """The sources that come from outside."""
    written = {output(work.layer) for work in works}
    return list(dict.fromkeys(source for work in works for source in work.sources if source not in written))


def _parts(launch: Launch) -> list[Launch]:
    """A launch, cut where one kernel would be given too much."""
    parts: list[list[Work]] = [[]]
    for work in launch:
        if parts[-1] and not _is_one_kernel([*parts[-1], work]):
            parts.append([])
        parts[-1].append(work)
    return [tuple(part) for part in parts]


def _is_one_kernel(works: Sequence[Work]) -> bool:
    """Whether its tiles leave room for enough vectors, and it can be given the addresses of its buffers."""
    buffers = len(_loaded(works)) + len(works)
    return buffers <= ARGUMENTS_LIMIT and _tiles(works).words * GOOD_STRIDE <= TILE_WORDS


def _launch(launch: Launch) -> DeviceLaunch:
    layers = {work.layer.name: _layer(work) for work in launch}
    parts = _parts(launch)
    texts, kernels = zip(*(_forward(part) for part in parts), strict=True)
    loaded = frozenset(source for part in parts for source in _loaded(part))
    memory = loaded & {output(work.layer) for work in launch}
    return DeviceLaunch(tuple(layers.values()), kernels, "\n\n".join(texts), memory)


def _forward(works: Sequence[Work]) -> tuple[str, Kernel]:
    """The kernel that carries vectors through `works`, all of them or one; it is named after the first's forward."""
    tiles, loaded = _tiles(works), _loaded(works)
    kinds = {source: work.layer.input.dtype for work in works for source in work.sources}
    widths = {source: work.layer.input.size for work in works for source in work.sources}
    body = [
        *(["__shared__ uint4 staged[STAGED];"] if any(isinstance(work.layer, QGemm) for work in works) else []),
        f"__shared__ uint32_t tiles[{tiles.words} * STRIDE];",
        *(f"uint32_t *const {_tile(name)} = &tiles[{place} * STRIDE];" for name, place in tiles.places.items()),
        "const Carried carry = carried(vectors);",
        "if (part == WHOLE) {",
        *(f"    load<{c_type(kinds[name])}, {widths[name]}>(carry, {name}, {_tile(name)});" for name in loaded),
        "}",
        *(line for index, work in enumerate(works) for line in _steps(work, index)),
    ]
    given = [(f"const {c_type(kinds[name])}", name) for name in loaded]
    made = [(c_type(work.layer.dtype), output(work.layer)) for work in works]
    name, inner = f"{works[0].layer.name}_forward", "\n".join(f"    {line}" for line in body)
    head = f"KERNEL __launch_bounds__({VECTORS_LIMIT}) {name}({parameters([*given, *made], 'unsigned layer')})"
    arguments = tuple(name for _, name in [*given, *made])
    return f"{head}\n{{\n{inner}\n}}", Kernel(name, arguments, 0, tuple(work.layer.name for work in works))


def _tile(buffer: str) -> str:
    return f"{buffer}_tile"


def _steps(work: Work, index: int) -> list[str]:
    """Of the kernel: a layer from tile to tile, and its activations to memory; for a stage what is given, and made."""
    layer, name = work.layer, output(work.layer)
    compute = _qgemm(layer, _tile(work.sources[0]), _tile(name)) if isinstance(layer, QGemm) else _fill(work)
    store = f"store<{c_type(layer.dtype)}, {layer.size}>(carry, {_tile(name)}, part == WHOLE ? {name} : made);"
    only = "if (part != ACCUMULATE)\n            " if isinstance(layer, QGemm) else ""
    return [
        f"if (part == WHOLE || layer == {index}) {{ /* {layer.name} */",
        *(f"    {line}" for line in [*_given(work), *compute, f"{only}{store}"]),
        "}",
    ]


def _given(work: Work) -> list[str]:
    """For a stage of codes or numbers: the layer's sources from what is given."""
    layer, kind, width = work.layer, c_type(work.layer.input.dtype), work.layer.input.size
    part = "ACCUMULATE" if isinstance(layer, QGemm) else "COMPUTE"
    tiles, pitch = _term_tiles(work), len(work.sources) * width
    loads = [
        f"    load<{kind}, {width}, {pitch}>(carry, (const {kind} *)given + {number * width}, {tile});"
        for number, tile in enumerate(tiles)
    ]
    return [f"if (part == {part}) {{", *loads, "}"]


def _term_tiles(work: Work) -> list[str]:
    """Where the sources of a stage stand: the second in the output's place, as both may be the same tensor."""
    return [_tile(work.sources[0]), *([_tile(output(work.layer))] if len(work.sources) > 1 else [])]


def _fill(work: Work) -> list[str]:
    """A layer of one function, from tile to tile."""
    layer = work.layer
    call, index = f"{layer.name}_compute({_operands(work)})", "unsigned n"
    if isinstance(layer, ArgExtremum):
        call, index = f"{layer.name}_compute(&{_tile(work.sources[0])}[v])", "unsigned"
    second = [
        f"const uint32_t *const other = part == WHOLE ? {_tile(source)} : {_tile(output(layer))};"
        for source in work.sources[1:]
    ]
    return [
        *second,
        f"fill<{c_type(layer.dtype)}, {layer.size}>({_tile(output(layer))}, [&](unsigned v, {index}) {{",
        f"    return {call};",
        "});",
    ]


def _operands(work: Work) -> str:
    """Of the layer's function, for value n of vector v."""
    kind, first = c_type(work.layer.input.dtype), _tile(work.sources[0])
    operand = f"Values<{kind}>{{&{first}[v]}}[n]"
    if not isinstance(work.layer, Add):
        return operand
    other = f"{work.layer.name}_addend[n]" if work.layer.addend is not None else f"Values<{kind}>{{&other[v]}}[n]"
    return f"{operand}, {other}"


def _qgemm(layer: QGemm, source: str, made: str) -> list[str]:
    """A QGemm from tile to tile, or for a stage from given sums, or to sums."""
    name, sizes = layer.name, f"{_words(layer.input.dtype, layer.input.size)}, {layer.size}"
    return [
        f"const Sums<{layer.size}> sums{{carry, (int32_t *)(part == FINISH ? given : made)}};",
        f"qgemm<{sizes}>((const uint4 *){name}_weights, staged, {source}, {made}, part, sums,",
        f"    {' ' * len('qgemm<')}{name}_accumulate, {name}_finish);",
    ]


def _layer(work: Work) -> DeviceLayer:
    layer = work.layer
    if isinstance(layer, QGemm):
        return DeviceLayer(work, _qgemm_tables(layer), _qgemm_functions(layer))
    return DeviceLayer(work, _tables(layer), _function(layer))


def _tables(layer: Layer) -> tuple[Table, ...]:
    if isinstance(layer, QuantizeLinear | DequantizeLinear):
        return affine_tables(layer)
    if isinstance(layer, Add) and layer.addend is not None:
        return (Table(f"{layer.name}_addend", layer.addend, computed=True),)
    return ()


def _function(layer: Layer) -> str:
    if isinstance(layer, ArgExtremum):
        values = f"Values<{c_type(layer.input.dtype)}>{{x}}"
        head = f"ONE_CODE int32_t {layer.name}_compute(const uint32_t *x)"
        return f"{head}\n{{\n    return arg_extremum<{flags(layer)}>({values});\n}}"
    if isinstance(layer, QuantizeLinear | DequantizeLinear | Add):
        return elementwise_function(layer)
    raise TypeError(layer)


def _qgemm_functions(layer: QGemm) -> str:
    name, a, b = layer.name, c_type(layer.input.dtype), c_type(layer.weights.dtype)
    zero_points = f"&four<uint4>({name}_weights_zero_point, g)" if layer.weights_zero_point.any() else "nullptr"
    given = f"a, b, four<uint4>({name}_offset, g), {zero_points}"
    multiplier = f"four<float4>({name}_multiplier, g)"
    made, finish = (
        ("float4", f"scale_four(acc, {multiplier})")
        if layer.dtype == np.float32
        else ("uint32_t", f"requantize_four<{c_type(layer.dtype)}>(acc, {multiplier}, {name}_output_zero_point[0])")
    )
    return (
        f"ONE_CODE int4 {name}_accumulate(const uint32_t *a, const uint4 *b, unsigned g)\n{{\n"
        f"    return accumulate_four<{a}, {b}, {layer.input.size}>({given});\n}}\n\n"
        f"ONE_CODE {made} {name}_finish(int4 acc, unsigned g)\n{{\n    return {finish};\n}}"
    )


def _qgemm_tables(layer: QGemm) -> tuple[Table, ...]:
    """All padded with zeros to groups of four outputs."""
    name = layer.name
    divided = "" if layer.dtype == np.float32 else " / y_scale"
    origin = f"weights of node {name}, packed: a row a group of four outputs, by four inputs at a time"
    tables = [
        Table(f"{name}_weights", packed(layer.weights), origin, computed=True),
        Table(
            f"{name}_offset",
            _padded(offset(layer)),
            "bias - za * sum of weights + depth * za * zb, modulo 2^32",
            computed=True,
        ),
        Table(
            f"{name}_multiplier",
            _padded(layer.multiplier),
            f"float32 bits of ((alpha * a_scale) * b_scale[n]){divided}",
            computed=True,
        ),
    ]
    if layer.weights_zero_point.any():
        tables.append(Table(f"{name}_weights_zero_point", _padded(layer.weights_zero_point), computed=True))
    if layer.dtype != np.float32:
        tables.append(Table(f"{name}_output_zero_point", np.array([layer.y_zero_point], np.int32), computed=True))
    return tuple(tables)


def packed(weights: Array) -> Array:
    """Weights (K, N) as the kernel reads them: (groups of four outputs, words * 16), zeros behind the last of each.

    Of a group: word by word, in it output by output, in that the weights of four inputs.
    """
    depth, width = weights.shape
    padded = np.zeros((-(-depth // 4) * 4, -(-width // 4) * 4), weights.dtype)
    padded[:depth, :width] = weights
    by_word = padded.reshape(len(padded) // 4, 4, padded.shape[1] // 4, 4)
    groups: Array = by_word.transpose(2, 0, 3, 1).reshape(padded.shape[1] // 4, -1)
    return groups


def _padded(values: Array) -> Array:
    """With zeros, to a multiple of four."""
    return np.pad(values, (0, -len(values) % 4))
