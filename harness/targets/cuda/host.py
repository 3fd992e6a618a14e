"""Generate the host code of an item on the GPU: copies, launches and queries; see kernels/cuda/gpu.h."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.targets.cuda.code import (
    DeviceCode,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    c_type,
    device_table,
    output,
)
from harness.targets.generated import ItemCode, LayerCode, Stage, Table

DRIVER = ("gpu_put", "gpu_run", "gpu_get")
LAUNCH, ARRAY, KERNEL, STAGE, ITEM = 128, 32, 64, 88, 56  # bytes of the structs of kernels/cuda/gpu.h


def generate(
    item: str, launches: Sequence[DeviceLaunch], header: str, carried: int, fusing: frozenset[str] = frozenset()
) -> ItemCode:
    """Return the code of an item: C code of its tasks, shared definitions, and input of the GPU's compiler.

    The last arguments are those of DeviceCode.
    """
    layers = [layer for launch in launches for layer in launch.layers]
    tables = tuple(table for layer in layers for table in layer.tables)
    tasks = [_task(launch, layer) for launch in launches for layer in launch.layers]
    return ItemCode(
        tuple(tasks),
        "\n".join([*map(_launch_text, launches), _item_text(item, launches, tables)]),
        initialise=f"    gpu_open(&{item}_gpu, options);",
        close=f"    gpu_release(&{item}_gpu);",
        device="gpu_device",
        reread=f"{item}_reread",
        kernels=DeviceCode(header, _device_text(launches), _kernels(launches), tables, carried, fusing),
        objects={f"{item}_gpu": ITEM} | {name: size for launch in launches for name, size in _objects(launch)},
    )


def _objects(launch: DeviceLaunch) -> Iterator[tuple[str, int]]:
    """Yield the variables of a launch, with their bytes."""
    name = _name(launch)
    yield name, LAUNCH
    yield f"{name}_arrays", ARRAY * len(_arrays(launch))
    yield f"{name}_kernels", KERNEL * len(launch.kernels)
    yield from ((f"{stage.name}_on_gpu", STAGE) for layer in launch.layers for stage in layer.stages)


def _device_text(launches: Sequence[DeviceLaunch]) -> str:
    return "\n\n".join(text for launch in launches for text in [*map(_layer_text, launch.layers), launch.text])


def _layer_text(layer: DeviceLayer) -> str:
    of = layer.task.layer
    head = f"/* {of.operator} {of.name} */"
    return "\n".join([head, 'extern "C" {', *map(device_table, layer.tables), "}", "", layer.text])


def _kernels(launches: Sequence[DeviceLaunch]) -> tuple[Kernel, ...]:
    return tuple(kernel for launch in launches for kernel in launch.kernels)


@dataclass(frozen=True)
class _Array:
    """A buffer of a launch: its role in gpu.h, and bytes of a vector."""

    name: str
    role: str
    bytes: int


def _arrays(launch: DeviceLaunch) -> list[_Array]:
    """Return the sources from outside, then the outputs of the tasks, each once."""
    written = {output(layer.task.layer): layer for layer in launch.layers}
    tasks = [layer.task for layer in launch.layers]
    sources = {
        source: tensor.size * tensor.dtype.itemsize
        for task in tasks
        for source, tensor in zip(task.sources, task.layer.inputs, strict=True)
        if source not in written
    }
    return [
        *(_Array(name, "GPU_SOURCE", size) for name, size in sources.items()),
        *(
            _Array(name, _role(launch, layer), layer.task.layer.size * layer.task.layer.dtype.itemsize)
            for name, layer in written.items()
        ),
    ]


def _role(launch: DeviceLaunch, layer: DeviceLayer) -> str:
    if layer.task.is_output:
        return "GPU_RESULT"
    return "GPU_BETWEEN" if output(layer.task.layer) in launch.memory else "GPU_WITHIN"


def _name(launch: DeviceLaunch) -> str:
    """Return the launch's name in C, after its first task, whose forward runs it."""
    return f"{launch.layers[0].task.layer.name}_launch"


def _task(launch: DeviceLaunch, layer: DeviceLayer) -> LayerCode:
    """Return a task: the first of a launch runs it, each fetches its own output."""
    name, arrays = _name(launch), [array.name for array in _arrays(launch)]
    own = output(layer.task.layer)
    lines = [f"    gpu_get(&{name}, {arrays.index(own)}, {own}, vectors);"]
    definitions = [*map(_mirror, layer.tables), *(_stage(stage, launch, layer) for stage in layer.stages)]
    if layer is launch.layers[0]:
        sources = [array.name for array in _arrays(launch) if array.role == "GPU_SOURCE"]
        puts = [f"    gpu_put(&{name}, {index}, {source}, vectors);" for index, source in enumerate(sources)]
        lines = [*puts, f"    gpu_run(&{name}, vectors);", *lines]
    declarations = [f"static struct gpu_launch {name};"]
    return LayerCode("\n".join([*declarations, *definitions]), "\n".join(lines), layer.tables, layer.stages, DRIVER)


def _mirror(table: Table) -> str:
    """Return the array in which the proof reads the GPU's table."""
    sizes = "".join(f"[{size}]" for size in table.values.shape)
    return f"static {c_type(table.values.dtype)} {table.name}{sizes}; /* read back from the GPU */"


def _stage(stage: Stage, launch: DeviceLaunch, layer: DeviceLayer) -> str:
    """Return the stage for the proof: the kernel of the schedule computes a part of one layer."""
    name, of = f"{stage.name}_on_gpu", layer.task.layer.name
    number, kernel = next((n, kernel) for n, kernel in enumerate(launch.kernels) if of in kernel.layers)
    sizes = (
        stage.input_width * stage.input_dtype.itemsize,
        stage.output_width * stage.output_dtype.itemsize,
    )
    arrays = ", ".join(f"{{.role = {role}, .bytes = {size}}}" for role, size in zip(_ENDS, sizes, strict=True))
    return (
        f"static struct gpu_stage {name} = {{&{_name(launch)}, {number}, {kernel.layers.index(of)}, "
        f"{stage.part.name}, {{{arrays}}}}};\n"
        f"static void {stage.name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    gpu_apply(&{name}, vectors, inputs, outputs);\n}}"
    )


_ENDS = ("GPU_SOURCE", "GPU_RESULT")


def _launch_text(launch: DeviceLaunch) -> str:
    """Return the launch as a value: its arrays, and its kernels with the indices of their arrays."""
    name, arrays = _name(launch), _arrays(launch)
    index = {array.name: number for number, array in enumerate(arrays)}
    rows = [f"    {{.role = {array.role}, .bytes = {array.bytes}}}, /* {array.name} */" for array in arrays]
    kernels = [
        f'    {{"{kernel.name}", {kernel.outputs}, (const size_t[]){{'
        f"{', '.join(str(index[argument]) for argument in kernel.arguments)}}}, {len(kernel.arguments)}, "
        f"{kernel.threads}, {kernel.tile_words}, {kernel.other_words}, NULL}},"
        for kernel in launch.kernels
    ]
    return "\n".join(
        [
            f"static struct gpu_array {name}_arrays[] = {{",
            *rows,
            f"}};\nstatic struct gpu_kernel {name}_kernels[] = {{",
            *kernels,
            f"}};\nstatic struct gpu_launch {name} = {{",
            f'    .name = "{name}", .arrays = {name}_arrays, .array_count = {len(arrays)},',
            f"    .kernels = {name}_kernels, .kernel_count = {len(kernels)},\n}};",
        ]
    )


def _item_text(item: str, launches: Sequence[DeviceLaunch], tables: Sequence[Table]) -> str:
    rows = [f'    {{"{table.name}", {table.name}, sizeof {table.name}}},' for table in tables]
    names = ", ".join(f"&{_name(launch)}" for launch in launches)
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
