"""Generate the A72's code of an item on another core: graphs, constants and stages; see kernels/tiovx/tiovx.h."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from harness.operators.base import Layer
from harness.targets.base import Lowering
from harness.targets.generated import ItemCode, Launch, LayerCode, Stage, TaskView, compute_stage, definition
from harness.targets.tiovx import constants
from harness.targets.tiovx.constants import Constants

VX_TYPES = {"uint8": "VX_TYPE_UINT8", "int8": "VX_TYPE_INT8", "int32": "VX_TYPE_INT32", "float32": "VX_TYPE_FLOAT32"}
DRIVER = ("tiovx_put", "tiovx_run", "tiovx_get")
LAUNCH, ARRAY, NODE, STAGE, ITEM = 64, 48, 96, 288, 200  # bytes of the structs of kernels/tiovx/tiovx.h

L = TypeVar("L", bound=Layer)


class TiovxLowering(Lowering[L]):
    """The constants of an operator; its code is a fixed kernel (kernels/tiovx/target)."""

    kernel: ClassVar[str]
    """Its name in kernels/tiovx/protocol.h."""

    def kernel_of(self, layer: L) -> str:  # noqa: ARG002 - kernels with several sources override it
        """Return the name of the kernel of a layer."""
        return self.kernel

    def unsupported(self, layer: L, variant: str) -> str | None:  # noqa: ARG002 - both cores have the same kernels
        """Refuse a layer that is too large for TIOVX, and one that the kernel cannot compute."""
        return constants.too_large(layer) or self.inexact(layer)

    def inexact(self, layer: L) -> str | None:  # noqa: ARG002 - lowerings override it
        """Return why the kernel cannot compute `layer` exactly; None if it can."""
        return None

    @abstractmethod
    def constants(self, layer: L) -> Constants:
        """Return the constants that the kernel of the layer reads."""

    def stages(self, layer: L) -> tuple[Stage, ...]:
        """Return the commands that the kernel knows."""
        return (compute_stage(layer),)


LoweringOf: TypeAlias = Callable[[Layer], TiovxLowering[Any]]


@dataclass(frozen=True)
class CoreItem:
    """The input of the build: the core of an item, and its layers whose thresholds the build checks."""

    core: str
    layers: tuple[tuple[Layer, Constants], ...]


@dataclass(frozen=True)
class _Array:
    """A tensor of a launch."""

    name: str
    dtype: str
    width: int
    is_output: bool


def generate(item: str, launches: Sequence[Launch], core: str, lowering_of: LoweringOf) -> ItemCode:
    """Return the code of an item: its tasks, and shared definitions."""
    tasks = [_task(launch, task, lowering_of) for launch in launches for task in launch]
    layers = [task.layer for launch in launches for task in launch]
    return ItemCode(
        tuple(tasks),
        "\n".join([*(_launch_text(launch, lowering_of) for launch in launches), _item_text(item, launches, core)]),
        initialise=f"    tiovx_open(&{item}_tiovx, options);",
        close=f"    tiovx_release(&{item}_tiovx);",
        device=f"{item}_device",
        reread=f"{item}_reread",
        kernels=CoreItem(core, tuple((layer, lowering_of(layer).constants(layer)) for layer in layers)),
        objects={f"{item}_tiovx": ITEM}
        | {name: size for launch in launches for name, size in _objects(launch, lowering_of)},
    )


def tensors(launches: Sequence[Launch]) -> int:
    """Return the number of tensors of an item."""
    return sum(len(_arrays(launch)) for launch in launches)


def _objects(launch: Launch, lowering_of: LoweringOf) -> Iterator[tuple[str, int]]:
    """Yield the variables of a launch, with their bytes."""
    name = _name(launch)
    yield name, LAUNCH
    yield f"{name}_arrays", ARRAY * len(_arrays(launch))
    yield f"{name}_nodes", NODE * len(launch)
    stages = (of_layer for task in launch for of_layer in lowering_of(task.layer).stages(task.layer))
    yield from ((f"{of_layer.name}_on_core", STAGE) for of_layer in stages)


def _task(launch: Launch, task: TaskView, lowering_of: LoweringOf) -> LayerCode:
    """Return a task: the first of a launch runs it, each fetches its own output."""
    name, arrays = _name(launch), [array.name for array in _arrays(launch)]
    lowering = lowering_of(task.layer)
    own, held, stages = _output(task.layer), lowering.constants(task.layer), lowering.stages(task.layer)
    lines = [f"    tiovx_get(&{name}, {arrays.index(own)}, {own}, vectors);"]
    if task is launch[0]:
        puts = [f"    tiovx_put(&{name}, {arrays.index(source)}, {source}, vectors);" for source in _sources(launch)]
        lines = [*puts, f"    tiovx_run(&{name}, vectors);", *lines]
    texts = [
        f"static struct tiovx_launch {name};",
        *(definition(table, writable=True) for table in held.tables),
        _parts(task.layer, held),
    ]
    return LayerCode(
        "\n".join([*texts, *(_stage(of_layer, launch, task) for of_layer in stages)]),
        "\n".join(lines),
        held.tables,
        stages,
        DRIVER,
    )


def _name(launch: Launch) -> str:
    """Return the launch's name in C, after its first task, whose forward runs it."""
    return f"{launch[0].layer.name}_launch"


def _output(layer: Layer) -> str:
    return f"{layer.name}_output"


def _sources(launch: Launch) -> list[str]:
    """Return the buffers that a launch reads and does not write itself."""
    return [array.name for array in _arrays(launch)[: -len(launch)]]


def _arrays(launch: Launch) -> list[_Array]:
    """Return the sources from outside, then the outputs of the tasks, each once."""
    written = [_Array(_output(task.layer), task.layer.dtype.name, task.layer.size, task.is_output) for task in launch]
    own = {array.name for array in written}
    read = dict.fromkeys(
        _Array(source, tensor.dtype.name, tensor.size, is_output=False)
        for task in launch
        for source, tensor in zip(task.sources, task.layer.inputs, strict=True)
        if source not in own
    )
    return [*read, *written]


def _parts(layer: Layer, held: Constants) -> str:
    rows = [f"    [{part}] = {{{table.name}, sizeof {table.name}}}," for part, table in constants.parts_in_order(held)]
    return f"static const struct tiovx_part {layer.name}_parts[PARTS] = {{\n" + "\n".join(rows or ["    {0}"]) + "\n};"


def _stage(of_layer: Stage, launch: Launch, task: TaskView) -> str:
    """Return the stage for the proof: a command to the node of the schedule, whose callback runs the same functions."""
    name, several = of_layer.name, [tensor.size for tensor in task.layer.inputs[1:]]
    widths = [of_layer.input_width - sum(several), *several]
    sources = ", ".join(f'{{"{name}", {_tensor(of_layer.input_dtype.name, width)}}}' for width in widths)
    number = next(n for n, other in enumerate(launch) if other is task)
    return (
        f"static struct tiovx_stage {name}_on_core = {{.launch = &{_name(launch)}, .node = {number}, "
        f".command = COMMAND_{of_layer.part.name}, .sources = {{{sources}}}, .source_count = {len(widths)}, "
        f'.result = {{"{name}", {_tensor(of_layer.output_dtype.name, of_layer.output_width)}}}}};\n'
        f"static void {name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    tiovx_apply(&{name}_on_core, vectors, inputs, outputs);\n}}"
    )


def _tensor(dtype: str, width: int) -> str:
    """Return type, bytes of an element, elements of a vector."""
    return f"{VX_TYPES[dtype]}, {np.dtype(dtype).itemsize}, {width}"


def _launch_text(launch: Launch, lowering_of: LoweringOf) -> str:
    """Return the launch as a value: its tensors, and its nodes with the indices of their tensors."""
    name, arrays = _name(launch), _arrays(launch)
    index = {array.name: number for number, array in enumerate(arrays)}
    rows = [
        f'    {{"{array.name}", {_tensor(array.dtype, array.width)}, .wanted = {str(array.is_output).lower()}}},'
        for array in arrays
    ]
    nodes = [
        f'    {{"{task.layer.name}", {lowering_of(task.layer).kernel_of(task.layer)}, '
        f"(struct head *){task.layer.name}_head, {task.layer.name}_parts, "
        f".sources = {{{', '.join(str(index[source]) for source in task.sources)}}}, "
        f".source_count = {len(task.sources)}, .result = {index[_output(task.layer)]}}},"
        for task in launch
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
