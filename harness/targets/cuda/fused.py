"""All layers of a launch in one kernel, in shared memory: see kernels/cuda/fused.cuh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.network import Add, ArgExtremum, Array, DequantizeLinear, Layer, QGemm, QuantizeLinear
from harness.targets import Launch, Part, Stage, Table, Work, offset
from harness.targets.cuda.code import (
    VECTORS_LIMIT,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    affine_tables,
    c_type,
    compute_stage,
    elementwise_function,
    flags,
    output,
    parameters,
    qgemm_stages,
)

HEADER = "fused.cuh"
STAGED = 512  # in fused.cuh, of 16 bytes each
SHARED_WORDS = 48 * 1024 // 4  # of a block of threads, on every GPU
TILE_WORDS = SHARED_WORDS - 4 * STAGED
GOOD_STRIDE = 8 + 1  # of a launch that is not worth cutting: it carries at least 8 vectors


def refusal(layer: Layer) -> str | None:
    """Why the kernel cannot take `layer`; None if it can."""
    if isinstance(layer, QGemm) and _words(layer.input_dtype, layer.input_width) > STAGED:
        return (
            f"{layer.input_width} inputs, but the fused kernel holds the weights of four outputs in "
            f"{16 * STAGED:,} bytes of shared memory, enough for {4 * STAGED:,}; cuda:layerwise takes it"
        )
    needed = max(_stage_words(layer), _tile_words(layer)) * 2  # the stride of one vector
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
    sources = len(layer.sources) * _words(layer.input_dtype, layer.input_width)
    return sources + _words(layer.dtype, layer.width)


def _stage_words(layer: Layer) -> int:
    """Of the layer's stages, that with the most."""
    if isinstance(layer, QGemm):
        return layer.width + max(_words(layer.input_dtype, layer.input_width), _words(layer.dtype, layer.width))
    return _tile_words(layer)


def generate(launches: Sequence[Launch]) -> list[DeviceLaunch]:
    """The device code of an item."""
    return [_launch(launch) for launch in launches]


def carried(launches: Sequence[Launch]) -> int:
    """The most vectors that a block of threads has room for in every kernel, a power of two."""
    words = [_stage_words(work.layer) for launch in launches for work in launch]
    words += [tiles.words for launch in launches for part in _parts(launch) for tiles in [_tiles(part)]]
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
        yield source, _words(layer.input_dtype, layer.input_width)
    yield output(layer), _words(layer.dtype, layer.width)


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
    """A launch, cut where its tiles would leave room for too few vectors."""
    parts: list[list[Work]] = [[]]
    for work in launch:
        if parts[-1] and _tiles([*parts[-1], work]).words * GOOD_STRIDE > TILE_WORDS:
            parts.append([])
        parts[-1].append(work)
    return [tuple(part) for part in parts]


def _launch(launch: Launch) -> DeviceLaunch:
    layers = {work.layer.name: _layer(work) for work in launch}
    parts = _parts(launch)
    texts, kernels = zip(*(_forward(part) for part in parts), strict=True)
    loaded = frozenset(source for part in parts for source in _loaded(part))
    memory = loaded & {output(work.layer) for work in launch}
    return DeviceLaunch(tuple(layers.values()), kernels, "\n\n".join(texts), memory)


def _forward(works: Sequence[Work]) -> tuple[str, Kernel]:
    """The kernel that carries vectors through `works`; it has the name of the first's forward, which launches it."""
    tiles, loaded = _tiles(works), _loaded(works)
    kinds = {source: work.layer.input_dtype for work in works for source in work.sources}
    widths = {source: work.layer.input_width for work in works for source in work.sources}
    body = [
        *(f"uint32_t *const {_tile(name)} = &tiles[{place} * STRIDE];" for name, place in tiles.places.items()),
        *(f"load<{c_type(kinds[name])}, {widths[name]}>(carry, {name}, {_tile(name)});" for name in loaded),
        *(line for work in works for line in _steps(work)),
    ]
    given = [(f"const {c_type(kinds[name])}", name) for name in loaded]
    made = [(c_type(work.layer.dtype), output(work.layer)) for work in works]
    name = f"{works[0].layer.name}_forward"
    text = _kernel(name, [*given, *made], tiles.words, body)
    return text, Kernel(name, tuple(name for _, name in [*given, *made]), outputs=0)


def _tile(buffer: str) -> str:
    return f"{buffer}_tile"


def _steps(work: Work) -> list[str]:
    """Of the kernel: a layer from tile to tile, and its activations to memory."""
    layer, name = work.layer, output(work.layer)
    store = f"store<{c_type(layer.dtype)}, {layer.width}>(carry, {_tile(name)}, {name});"
    return [f"/* {layer.name} */", *_compute(layer, [_tile(source) for source in work.sources], _tile(name)), store]


def _compute(layer: Layer, sources: Sequence[str], made: str) -> list[str]:
    """A layer from tile to tile."""
    name, given = layer.name, c_type(layer.input_dtype)
    if isinstance(layer, QGemm):
        return _groups(layer, sources[0], made, f"{name}_finish({name}_accumulate(a, b, g), g)")
    values = [f"Values<{given}>{{&{source}[v]}}[n]" for source in sources]
    if isinstance(layer, ArgExtremum):
        call = f"{name}_compute(&{sources[0]}[v])"
    elif isinstance(layer, Add) and layer.addend is not None:
        call = f"{name}_compute({values[0]}, {name}_addend[n])"
    else:
        call = f"{name}_compute({', '.join(values)})"
    index = "unsigned" if isinstance(layer, ArgExtremum) else "unsigned n"
    return [
        f"fill<{c_type(layer.dtype)}, {layer.width}>({made}, [&](unsigned v, {index}) {{",
        f"    return {call};",
        "});",
    ]


def _groups(layer: QGemm, source: str, made: str, call: str) -> list[str]:
    sizes = f"{_words(layer.input_dtype, layer.input_width)}, {layer.width}"
    return [
        f"each_group<{sizes}>((const uint4 *){layer.name}_weights, staged, {source}, {made},",
        "    [](const uint32_t *a, const uint4 *b, unsigned g) {",
        f"        return {call};",
        "    });",
    ]


def _kernel(name: str, arguments: Sequence[tuple[str, str]], words: int, body: Sequence[str]) -> str:
    lines = [
        *(["__shared__ uint4 staged[STAGED];"] if any("staged" in line for line in body) else []),
        f"__shared__ uint32_t tiles[{words} * STRIDE];",
        "const Carried carry = carried(vectors);",
        *body,
    ]
    inner = "\n".join(f"    {line}" for line in lines)
    return f"KERNEL __launch_bounds__({VECTORS_LIMIT}) {name}({parameters(arguments)})\n{{\n{inner}\n}}"


def _layer(work: Work) -> DeviceLayer:
    layer = work.layer
    if isinstance(layer, QGemm):
        return _qgemm(work, layer)
    stage = compute_stage(layer)
    terms = ["from", f"(&from[{layer.input_width} * STRIDE])"]
    made = _compute(layer, terms[: len(layer.sources)], "to")
    text, kernel = _stage_kernel(stage, made)
    return DeviceLayer(work, _tables(layer), f"{_function(layer)}\n\n{text}", ((stage, kernel),))


def _tables(layer: Layer) -> tuple[Table, ...]:
    if isinstance(layer, QuantizeLinear | DequantizeLinear):
        return affine_tables(layer)
    if isinstance(layer, Add) and layer.addend is not None:
        return (Table(f"{layer.name}_addend", layer.addend, computed=True),)
    return ()


def _function(layer: Layer) -> str:
    if isinstance(layer, ArgExtremum):
        values = f"Values<{c_type(layer.input_dtype)}>{{x}}"
        head = f"ONE_CODE int32_t {layer.name}_compute(const uint32_t *x)"
        return f"{head}\n{{\n    return arg_extremum<{flags(layer)}>({values});\n}}"
    if isinstance(layer, QuantizeLinear | DequantizeLinear | Add):
        return elementwise_function(layer)
    raise TypeError(layer)


def _stage_kernel(stage: Stage, compute: Sequence[str]) -> tuple[str, Kernel]:
    """A kernel of its own for a stage: `compute` goes from the tile `from` to the tile `to`."""
    read, written = _words(stage.input_dtype, stage.input_width), _words(stage.output_dtype, stage.output_width)
    given, made = c_type(stage.input_dtype), c_type(stage.output_dtype)
    body = [
        f"uint32_t *const from = tiles, *const to = &tiles[{read} * STRIDE];",
        f"load<{given}, {stage.input_width}>(carry, in, from);",
        *compute,
        f"store<{made}, {stage.output_width}>(carry, to, out);",
    ]
    name = f"{stage.name}_stage"
    text = _kernel(name, [(f"const {given}", "in"), (made, "out")], read + written, body)
    return text, Kernel(name, ("in", "out"), outputs=0)


def _qgemm(work: Work, layer: QGemm) -> DeviceLayer:
    name, a, b = layer.name, c_type(layer.input_dtype), c_type(layer.weights.dtype)
    zero_points = f"&four<uint4>({name}_weights_zero_point, g)" if layer.weights_zero_point.any() else "nullptr"
    accumulate = f"accumulate_four<{a}, {b}, {layer.input_width}>(a, b, four<uint4>({name}_offset, g), {zero_points})"
    multiplier = f"four<float4>({name}_multiplier, g)"
    made, finish = (
        ("float4", f"scale_four(acc, {multiplier})")
        if layer.dtype == np.float32
        else ("uint32_t", f"requantize_four<{c_type(layer.dtype)}>(acc, {multiplier}, {name}_output_zero_point[0])")
    )
    functions = (
        f"ONE_CODE int4 {name}_accumulate(const uint32_t *a, const uint4 *b, unsigned g)\n{{\n"
        f"    return {accumulate};\n}}\n\n"
        f"ONE_CODE {made} {name}_finish(int4 acc, unsigned g)\n{{\n    return {finish};\n}}"
    )
    stages = qgemm_stages(layer)
    bodies = {
        Part.ACCUMULATE: _groups(layer, "from", "to", f"{name}_accumulate(a, b, g)"),
        Part.FINISH: [
            f"each_group_of_sums<{layer.width}>(from, to, [](int4 acc, unsigned g) {{",
            f"    return {name}_finish(acc, g);",
            "});",
        ],
    }
    kernels = [_stage_kernel(stage, bodies[stage.part]) for stage in stages]
    text = "\n\n".join([functions, *(text for text, _ in kernels)])
    return DeviceLayer(work, _qgemm_tables(layer), text, tuple(zip(stages, (k for _, k in kernels), strict=True)))


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
