"""The A72's part of an item on another core, as C text: its graphs, constants and stages; see kernels/tiovx/tiovx.h."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.operators.base import Layer
from harness.operators.obligations import Part
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import C_TYPES, ItemCode, Launch, LayerCode, Stage, Table, Work, initialiser, stage
from harness.targets.tiovx import constants
from harness.targets.tiovx.constants import Constants

VX_TYPES = {"uint8": "VX_TYPE_UINT8", "int8": "VX_TYPE_INT8", "int32": "VX_TYPE_INT32", "float32": "VX_TYPE_FLOAT32"}
DRIVER = ("tiovx_put", "tiovx_run", "tiovx_get")
LAUNCH, ARRAY, NODE, STAGE, ITEM = 64, 48, 64, 136, 200  # bytes of the structs of kernels/tiovx/tiovx.h
KERNELS = {"QuantizeLinear": "KERNEL_QUANTIZE_LINEAR", "QGemm": "KERNEL_QGEMM"}


@dataclass(frozen=True)
class CoreItem:
    """What the build has to know of an item: its core, and the layers whose thresholds it is to try."""

    core: str
    layers: tuple[QuantizeLinear | QGemm, ...]


@dataclass(frozen=True)
class _Array:
    """A tensor of a launch."""

    name: str
    dtype: str
    width: int
    wanted: bool


def generate(item: str, launches: Sequence[Launch], core: str) -> ItemCode:
    """All of an item: its tasks' code, and what they share."""
    tasks = [_task(launch, work) for launch in launches for work in launch]
    works = [work for launch in launches for work in launch]
    return ItemCode(
        tuple(tasks),
        "\n".join([*map(_launch_text, launches), _item_text(item, launches, core)]),
        initialise=f"    tiovx_open(&{item}_tiovx, options);",
        close=f"    tiovx_release(&{item}_tiovx);",
        device=f"{item}_device",
        reread=f"{item}_reread",
        kernels=CoreItem(core, tuple(_of_kernel(work.layer) for work in works)),
        objects={f"{item}_tiovx": ITEM} | {name: size for launch in launches for name, size in _objects(launch)},
    )


def _objects(launch: Launch) -> Iterator[tuple[str, int]]:
    """The variables of a launch, with their bytes."""
    name = _name(launch)
    yield name, LAUNCH
    yield f"{name}_arrays", ARRAY * len(_arrays(launch))
    yield f"{name}_nodes", NODE * len(launch)
    yield from ((f"{of_layer.name}_on_core", STAGE) for work in launch for of_layer in _stages(work.layer))


def _task(launch: Launch, work: Work) -> LayerCode:
    """A task: the first of a launch runs it, each fetches its own output."""
    name, arrays = _name(launch), [array.name for array in _arrays(launch)]
    own, held = _output(work.layer), _constants(work.layer)
    lines = [f"    tiovx_get(&{name}, {arrays.index(own)}, {own}, vectors);"]
    if work is launch[0]:
        puts = [f"    tiovx_put(&{name}, {arrays.index(source)}, {source}, vectors);" for source in _sources(launch)]
        lines = [*puts, f"    tiovx_run(&{name}, vectors);", *lines]
    stages = _stages(work.layer)
    texts = [f"static struct tiovx_launch {name};", *map(_table, held.tables), _parts(work.layer, held)]
    return LayerCode(
        "\n".join([*texts, *(_stage(of_layer, launch, work) for of_layer in stages)]),
        "\n".join(lines),
        held.tables,
        stages,
        DRIVER,
    )


def _name(launch: Launch) -> str:
    """Of the launch in C: after its first task, whose forward runs it."""
    return f"{launch[0].layer.name}_launch"


def _output(layer: Layer) -> str:
    return f"{layer.name}_output"


def _constants(layer: Layer) -> Constants:
    return constants.of_layer(_of_kernel(layer))


def _of_kernel(layer: Layer) -> QuantizeLinear | QGemm:
    if not isinstance(layer, QuantizeLinear | QGemm):
        raise TypeError(layer)
    return layer


def _sources(launch: Launch) -> list[str]:
    """The buffers that a launch reads and does not write itself."""
    return [array.name for array in _arrays(launch)[: -len(launch)]]


def _arrays(launch: Launch) -> list[_Array]:
    """The sources from outside, then what the tasks write, each once."""
    written = [_Array(_output(work.layer), work.layer.dtype.name, work.layer.size, work.wanted) for work in launch]
    own = {array.name for array in written}
    read = dict.fromkeys(
        _Array(source, work.layer.input.dtype.name, work.layer.input.size, wanted=False)
        for work in launch
        for source in work.sources
        if source not in own
    )
    return [*read, *written]


def _table(table: Table) -> str:
    comment = f"/* {table.comment} */\n" if table.comment else ""
    sizes = "".join(f"[{size}]" for size in table.values.shape)
    return f"{comment}static {C_TYPES[table.values.dtype.name]} {table.name}{sizes} = {initialiser(table.values)};"


def _parts(layer: Layer, held: Constants) -> str:
    rows = [f"    [{part}] = {{{table.name}, sizeof {table.name}}}," for part, table in constants.parts_in_order(held)]
    return f"static const struct tiovx_part {layer.name}_parts[PARTS] = {{\n" + "\n".join(rows) + "\n};"


def _stages(layer: Layer) -> tuple[Stage, ...]:
    if not isinstance(layer, QGemm):
        return (stage(layer, Part.COMPUTE, layer.input.dtype, layer.input.size, layer.dtype, layer.size),)
    sums = np.dtype(np.int32)
    return (
        stage(layer, Part.ACCUMULATE, layer.input.dtype, layer.input.size, sums, layer.size),
        stage(layer, Part.FINISH, sums, layer.size, layer.dtype, layer.size),
    )


def _stage(of_layer: Stage, launch: Launch, work: Work) -> str:
    """The stage for the proof: a command to the node of the schedule, whose callback runs the same functions."""
    name = of_layer.name
    ends = ((of_layer.input_dtype.name, of_layer.input_width), (of_layer.output_dtype.name, of_layer.output_width))
    rows = ", ".join(f'{{"{name}", {_tensor(dtype, width)}}}' for dtype, width in ends)
    number = next(n for n, other in enumerate(launch) if other is work)
    return (
        f"static struct tiovx_stage {name}_on_core = {{.launch = &{_name(launch)}, .node = {number}, "
        f".command = COMMAND_{of_layer.part.name}, .ends = {{{rows}}}}};\n"
        f"static void {name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    tiovx_apply(&{name}_on_core, vectors, inputs, outputs);\n}}"
    )


def _tensor(dtype: str, width: int) -> str:
    """Type, bytes of an element, elements of a vector."""
    return f"{VX_TYPES[dtype]}, {np.dtype(dtype).itemsize}, {width}"


def _launch_text(launch: Launch) -> str:
    """The launch as a value: its tensors, its nodes with the indices of theirs."""
    name, arrays = _name(launch), _arrays(launch)
    index = {array.name: number for number, array in enumerate(arrays)}
    rows = [
        f'    {{"{array.name}", {_tensor(array.dtype, array.width)}, .wanted = {str(array.wanted).lower()}}},'
        for array in arrays
    ]
    nodes = [
        f'    {{"{work.layer.name}", {KERNELS[work.layer.operator]}, (struct head *){work.layer.name}_head, '
        f"{work.layer.name}_parts, .source = {index[work.sources[0]]}, .result = {index[_output(work.layer)]}}},"
        for work in launch
    ]
    return "\n".join(
        [
            f"static struct tiovx_array {name}_arrays[] = {{",
            *rows,
            f"}};\nstatic struct tiovx_node {name}_nodes[] = {{",
            *nodes,
            f"}};\nstatic struct tiovx_launch {name} = {{",
            f'    .name = "{name}", .arrays = {name}_arrays, .array_count = {len(arrays)},',
            f"    .nodes = {name}_nodes, .node_count = {len(launch)},\n}};",
        ]
    )


def _item_text(item: str, launches: Sequence[Launch], core: str) -> str:
    names = ", ".join(f"&{_name(launch)}" for launch in launches)
    return (
        f"static struct tiovx_launch *const {item}_launches[] = {{{names}}};\n"
        f"static struct tiovx_item {item}_tiovx = {{\n"
        f'    .watch = {{.item = "{item}", .core = {core}}},\n'
        f"    .launches = {item}_launches, .launch_count = {len(launches)},\n}};\n"
        f"static const char *{item}_device(void)\n{{\n    return tiovx_device(&{item}_tiovx);\n}}\n"
        f"static void {item}_reread(void)\n{{\n    tiovx_fetch_tables(&{item}_tiovx);\n}}\n\n"
    )
