"""Generate the host code of an item on the GPU: copies, launches and queries; see kernels/cuda/gpu.h."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from harness.operators.base import Layer
from harness.operators.obligations import StageKind
from harness.targets.cuda import join
from harness.targets.cuda.code import (
    DeviceCode,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    c_type,
    device_table,
    output,
)
from harness.targets.generated import ItemCode, Launch, LayerCode, Stage, Table

DRIVER = ("gpu_put", "gpu_run", "gpu_get", "gpu_finish")
# Bytes of the structs of kernels/cuda/gpu.h.
LAUNCH, ARRAY, KERNEL, STAGE, ITEM, SHARED, POINTER = 152, 40, 64, 104, 56, 16, 8


def generate(
    item: str,
    launches: Sequence[DeviceLaunch],
    header: str,
    carried: int,
    fusing: frozenset[str],
    views: Sequence[Launch],
) -> ItemCode:
    """Return the code of an item: C code of its tasks, shared definitions, and input of the GPU's compiler.

    `header` and the next two are those of DeviceCode; `views` says of the tasks of each launch what they exchange with
    other launches on the GPU.
    """
    made = [_Launch(launch, view) for launch, view in zip(launches, views, strict=True)]
    tables = tuple(table for launch in launches for layer in launch.layers for table in layer.tables)
    return ItemCode(
        tuple(_task(launch, layer) for launch in made for layer in launch.layers),
        "\n".join([*map(_launch_text, made), _item_text(item, made, tables)]),
        initialise=f"    gpu_open(&{item}_gpu, options);",
        close=f"    gpu_release(&{item}_gpu);",
        finish=_finish(item, made),
        device="gpu_device",
        reread=f"{item}_reread",
        kernels=DeviceCode(header, _device_text(made), _kernels(made), tables, carried, fusing),
        objects={f"{item}_gpu": ITEM} | {name: size for launch in made for name, size in _objects(launch)},
        kernel_names={f"{launch.name}_kernels": tuple(kernel.name for kernel in launch.kernels) for launch in made},
        awaited={launch.name: launch.awaited for launch in made},
    )


class _Launch:
    """A launch with the kernels that join its sources first, and what it exchanges with others."""

    def __init__(self, launch: DeviceLaunch, view: Launch) -> None:
        self.layers, self.memory, self._text = launch.layers, launch.memory, launch.text
        self.name = _variable(launch.layers[0].task.layer.name)
        self.tasks = {task.layer.name: task for task in view}
        self.joins = [each for task in self.tasks.values() for each in task.joins]
        self.kernels = (*map(join.kernel, self.joins), *launch.kernels)
        awaited = (other for task in self.tasks.values() for other in task.awaited)
        self.awaited = tuple(dict.fromkeys(map(_variable, awaited)))
        self.arrays = list(self._arrays())

    @property
    def text(self) -> str:
        """The kernels in CUDA C++."""
        return "\n\n".join([*map(join.text, self.joins), self._text])

    @property
    def has_results(self) -> bool:
        """Return True if the program reads an output of the item's tasks; its thread then waits for that output."""
        return any(array.role == "GPU_RESULT" for array in self.arrays)

    def _arrays(self) -> Iterator[_Array]:
        """Yield the sources from outside, those that are joined, then the outputs of the tasks, each once."""
        written = {output(layer.task.layer): layer.task.layer for layer in self.layers}
        taken = {name for task in self.tasks.values() for name in task.taken}
        sizes = {
            writer: width * each.stage.input_dtype.itemsize
            for each in self.joins
            for writer, width in zip(each.writers, each.widths, strict=True)
        }
        joined = {each.buffer: each.stage.output_width * each.stage.output_dtype.itemsize for each in self.joins}
        for task in self.tasks.values():
            for source, tensor in zip(task.sources, task.layer.inputs, strict=True):
                if source not in written and source not in joined:
                    sizes.setdefault(source, tensor.size * tensor.dtype.itemsize)
        for name, size in sizes.items():
            yield _Array(name, "GPU_TAKEN" if name in taken else "GPU_SOURCE", size, name in taken)
        yield from (_Array(name, "GPU_JOINED", size) for name, size in joined.items())
        for name, layer in written.items():
            is_handed = self.tasks[layer.name].is_handed
            yield _Array(name, self._role(name, layer), layer.size * layer.dtype.itemsize, is_handed)

    def _role(self, name: str, layer: Layer) -> str:
        task = self.tasks[layer.name]
        if task.is_output:
            return "GPU_RESULT"
        if task.is_handed:
            return "GPU_HANDED"
        return "GPU_BETWEEN" if name in self.memory else "GPU_WITHIN"


def _objects(launch: _Launch) -> Iterator[tuple[str, int]]:
    """Yield the variables of a launch, with their bytes."""
    name = launch.name
    yield name, LAUNCH
    yield f"{name}_arrays", ARRAY * len(launch.arrays)
    yield f"{name}_kernels", KERNEL * len(launch.kernels)
    yield from ((_shared(array.name), SHARED) for array in launch.arrays if array.is_shared)
    if launch.awaited:
        yield f"{name}_awaited", POINTER * (len(launch.awaited) + 1)
    stages = chain((each.stage for each in launch.joins), (each for layer in launch.layers for each in layer.stages))
    yield from ((f"{stage.name}_on_gpu", STAGE) for stage in stages)


def _shared(buffer: str) -> str:
    return f"{buffer}_shared"


def _finish(item: str, launches: Sequence[_Launch]) -> str:
    """Return what ends an execution: it fetches the outputs of launches for which no task waits, if they are dumped."""
    lines = [_get(launch, layer) for launch in launches if not launch.has_results for layer in launch.layers]
    return "\n".join([f"    gpu_finish(&{item}_gpu);", *lines]) if lines else ""


def _device_text(launches: Sequence[_Launch]) -> str:
    return "\n\n".join(text for launch in launches for text in [*map(_layer_text, launch.layers), launch.text])


def _layer_text(layer: DeviceLayer) -> str:
    of = layer.task.layer
    head = f"/* {of.operator} {of.name} */"
    return "\n".join([head, 'extern "C" {', *map(device_table, layer.tables), "}", "", layer.text])


def _kernels(launches: Sequence[_Launch]) -> tuple[Kernel, ...]:
    return tuple(kernel for launch in launches for kernel in launch.kernels)


@dataclass(frozen=True)
class _Array:
    """A buffer of a launch: its role in gpu.h, bytes of a vector, and whether other launches use its memory."""

    name: str
    role: str
    bytes: int
    is_shared: bool = False


def _variable(task: str) -> str:
    """Return the name in C of the launch with this first task, whose forward runs it."""
    return f"{task}_launch"


def _get(launch: _Launch, layer: DeviceLayer) -> str:
    own = output(layer.task.layer)
    index = [array.name for array in launch.arrays].index(own)
    return f"    gpu_get(&{launch.name}, {index}, {own}, vectors);"


def _task(launch: _Launch, layer: DeviceLayer) -> LayerCode:
    """Return a task: the first of a launch runs it; each fetches its own output, if the launch has results."""
    name, of_task = launch.name, layer.task.layer.name
    lines = [_get(launch, layer) if launch.has_results else "    (void)vectors; /* fetched when the execution ends */"]
    joins = [(each.stage, each.stage.name) for each in launch.tasks[of_task].joins]
    stages = [*joins, *((stage, of_task) for stage in layer.stages)]
    if layer is launch.layers[0]:
        puts = [
            f"    gpu_put(&{name}, {index}, {source.name}, vectors);"
            for index, source in enumerate(launch.arrays)
            if source.role in {"GPU_SOURCE", "GPU_TAKEN"}
        ]
        lines = [*puts, f"    gpu_run(&{name}, vectors);", *lines]
    definitions = [*map(_mirror, layer.tables), *(_stage(stage, launch, of) for stage, of in stages)]
    return LayerCode(
        "\n".join([f"static struct gpu_launch {name};", *definitions]),
        "\n".join(lines),
        layer.tables,
        tuple(stage for stage, _ in stages),
        DRIVER,
    )


def _mirror(table: Table) -> str:
    """Return the array in which the proof reads the GPU's table."""
    sizes = "".join(f"[{size}]" for size in table.values.shape)
    return f"static {c_type(table.values.dtype)} {table.name}{sizes}; /* read back from the GPU */"


def _stage(stage: Stage, launch: _Launch, of: str) -> str:
    """Return the stage for the proof: the kernel of the schedule computes a part of the layer `of`, or joins."""
    name = f"{stage.name}_on_gpu"
    part = StageKind.COMPUTE if stage.part is StageKind.MERGE else stage.part
    number, kernel = next((n, kernel) for n, kernel in enumerate(launch.kernels) if of in kernel.layers)
    sizes = (
        stage.input_width * stage.input_dtype.itemsize,
        stage.output_width * stage.output_dtype.itemsize,
    )
    arrays = ", ".join(f"{{.role = {role}, .bytes = {size}}}" for role, size in zip(_ENDS, sizes, strict=True))
    return (
        f"static struct gpu_stage {name} = {{&{launch.name}, {number}, {kernel.layers.index(of)}, "
        f"{part.name}, {{{arrays}}}}};\n"
        f"static void {stage.name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    gpu_apply(&{name}, vectors, inputs, outputs);\n}}"
    )


_ENDS = ("GPU_SOURCE", "GPU_RESULT")


def _launch_text(launch: _Launch) -> str:
    """Return the launch as a value: its arrays, its kernels with the indices of their arrays, and whom it awaits."""
    name, arrays = launch.name, launch.arrays
    index = {array.name: number for number, array in enumerate(arrays)}
    rows = [
        f"    {{.role = {array.role}, .bytes = {array.bytes}"
        f"{f', .shared = &{_shared(array.name)}' if array.is_shared else ''}}}, /* {array.name} */"
        for array in arrays
    ]
    shared = [f"static struct gpu_shared {_shared(array.name)};" for array in arrays if array.is_shared]
    others = [f"static struct gpu_launch {other};" for other in launch.awaited]
    listed = ", ".join(f"&{other}" for other in launch.awaited)
    awaited = [f"static struct gpu_launch *const {name}_awaited[] = {{{listed}, NULL}};"] if launch.awaited else []
    kernels = [
        f'    {{"{kernel.name}", {kernel.outputs}, (const size_t[]){{'
        f"{', '.join(str(index[argument]) for argument in kernel.arguments)}}}, {len(kernel.arguments)}, "
        f"{kernel.threads}, {kernel.tile_words}, {kernel.other_words}, NULL}},"
        for kernel in launch.kernels
    ]
    return "\n".join(
        [
            *shared,
            *others,
            *awaited,
            f"static struct gpu_array {name}_arrays[] = {{",
            *rows,
            f"}};\nstatic struct gpu_kernel {name}_kernels[] = {{",
            *kernels,
            f"}};\nstatic struct gpu_launch {name} = {{",
            f'    .name = "{name}", .arrays = {name}_arrays, .array_count = {len(arrays)},',
            f"    .kernels = {name}_kernels, .kernel_count = {len(kernels)},",
            *([f"    .awaited = {name}_awaited,"] if awaited else []),
            "};",
        ]
    )


def _item_text(item: str, launches: Sequence[_Launch], tables: Sequence[Table]) -> str:
    rows = [f'    {{"{table.name}", {table.name}, sizeof {table.name}}},' for table in tables]
    names = ", ".join(f"&{launch.name}" for launch in launches)
    return "\n".join(
        [
            f"static struct gpu_launch *const {item}_launches[] = {{{names}}};",
            f"static const struct gpu_table {item}_tables[] = {{",
            *(rows or ["    {NULL, NULL, 0},"]),
            "};",
            f"static struct gpu_item {item}_gpu = {{",
            f'    .name = "{item}", .launches = {item}_launches, .launch_count = {len(launches)},',
            f"    .tables = {item}_tables, .table_count = {len(tables)},\n}};",
            f"static void {item}_reread(void)\n{{\n    gpu_fetch_tables(&{item}_gpu);\n}}\n\n",
        ]
    )
