"""Generate the C code of an item that LiteRT computes: the files of its launches; see kernels/litert/litert.h."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.model.tflite.file import encode
from harness.operators.tensor import Tensor
from harness.targets.generated import ItemCode, Launch, LayerCode, Table, definition
from harness.targets.litert.convert import Converted, Lowerings, convert
from harness.targets.litert.graph import Value

DRIVER = ("litert_run", "litert_get")
ARRAY, LAUNCH, ITEM = 136, 88, 152  # bytes of the structs of kernels/litert/litert.h
ELEMENTS = {"float32": "LITERT_FLOAT32", "int32": "LITERT_INT32", "int64": "LITERT_INT64", "int8": "LITERT_INT8"}
ALIGNED = " __attribute__((aligned(64)))"


@dataclass(frozen=True)
class Kernels:
    """The kernels of a variant: what they are called, and the flags of XNNPACK; None leaves the default ones."""

    name: str
    xnnpack_flags: int | None


def generate(item: str, launches: Sequence[Launch], kernels: Kernels, lowerings: Lowerings) -> ItemCode:
    """Return the code of an item: the file of each launch, and its activations."""
    files = [converted(launch, lowerings) for launch in launches]
    tasks = [
        _task(launch, file, number)
        for launch, file in zip(launches, files, strict=True)
        for number in range(len(launch))
    ]
    texts = [_launch_text(launch, file) for launch, file in zip(launches, files, strict=True)]
    objects = {f"{item}_litert": ITEM}
    for launch, file in zip(launches, files, strict=True):
        name = name_of(launch)
        objects |= {name: LAUNCH, f"{name}_inputs": ARRAY * len(file.inputs), f"{name}_outputs": ARRAY * len(launch)}
    return ItemCode(
        tuple(tasks),
        "\n".join([*texts, _item_text(item, launches, kernels)]),
        initialise=f"    litert_open(&{item}_litert, options);",
        close=f"    litert_close(&{item}_litert);",
        device=f"{item}_device",
        kernels=tuple(name_of(launch) for launch in launches),
        objects=objects,
    )


def converted(launch: Launch, lowerings: Lowerings) -> Converted:
    """Return the file of a launch; its outputs are the activations of all tasks."""
    layers = [task.layer for task in launch]
    return convert(layers, list(sources(launch).values()), [layer.output.name for layer in layers], lowerings)


def sources(launch: Launch) -> dict[str, Tensor]:
    """Return the tensors that a launch reads and does not write itself, by the names of their buffers."""
    written = {f"{task.layer.name}_output" for task in launch}
    return {
        source: tensor
        for task in launch
        for source, tensor in zip(task.sources, task.layer.inputs, strict=True)
        if source not in written
    }


def name_of(launch: Launch) -> str:
    """Return the launch's name in C, after its first task, whose forward runs it."""
    return f"{launch[0].layer.name}_launch"


def _task(launch: Launch, file: Converted, number: int) -> LayerCode:
    """Return a task: the first of a launch runs it, each fetches its own output."""
    task, name = launch[number], name_of(launch)
    own = f"{task.layer.name}_output"
    lines = [f"    litert_get(&{name}, {number}, {own}, vectors);"]
    tables: tuple[Table, ...] = ()
    text = f"static struct litert_launch {name};"
    if number == 0:
        content = np.frombuffer(encode(file.file), np.uint8)
        table = Table(f"{name}_file", content, f"the TFLite file of {', '.join(task.layer.name for task in launch)}")
        tables, text = (table,), f"{text}\n{definition(table, ALIGNED)}"
        read = ", ".join(f"*{source}" for source in sources(launch))
        lines = [
            f"    const void *const sources[] = {{{read}}};",
            f"    litert_run(&{name}, sources, vectors);",
            *lines,
        ]
    return LayerCode(text, "\n".join(lines), tables, (), DRIVER)


def _launch_text(launch: Launch, file: Converted) -> str:
    name = name_of(launch)
    read = [_array(source, file.inputs[tensor.name]) for source, tensor in sources(launch).items()]
    written = [_array(f"{task.layer.name}_output", file.layers[task.layer.name]) for task in launch]
    parts = []
    for role, rows in (("inputs", read), ("outputs", written)):
        parts.append(f"static struct litert_array {name}_{role}[] = {{\n" + "\n".join(rows) + "\n};")
    return "\n".join(
        [
            *parts,
            f"static struct litert_launch {name} = {{",
            f'    .name = "{name}", .file = {name}_file, .bytes = sizeof {name}_file,',
            f"    .inputs = {name}_inputs, .input_count = {len(read)},",
            f"    .outputs = {name}_outputs, .output_count = {len(written)},\n}};",
        ]
    )


def _array(name: str, value: Value) -> str:
    channels = value.image[0] if value.image else 1
    sizes = ", ".join(map(str, value.shape))
    return (
        f'    {{.name = "{name}", .type = {{{ELEMENTS[value.dtype.name]}, {len(value.shape)}, {{{sizes}}}, {{0}}}}, '
        f".element = {value.dtype.itemsize}, .channels = {channels}, .positions = {value.size // channels}, "
        f".flipped = {str(bool(value.offset)).lower()}}},"
    )


def _item_text(item: str, launches: Sequence[Launch], kernels: Kernels) -> str:
    names = ", ".join(f"&{name_of(launch)}" for launch in launches)
    flags = "" if kernels.xnnpack_flags is None else f" .sets_flags = true, .xnnpack_flags = {kernels.xnnpack_flags},"
    return (
        f"static struct litert_launch *const {item}_launches[] = {{{names}}};\n"
        f"static struct litert_item {item}_litert = {{\n"
        f'    .name = "{item}", .launches = {item}_launches, .launch_count = {len(launches)},\n'
        f'    .kernels = "{kernels.name}",{flags}\n}};\n'
        f"static const char *{item}_device(void)\n{{\n    return litert_device(&{item}_litert);\n}}\n\n"
    )
