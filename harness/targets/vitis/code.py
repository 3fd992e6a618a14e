"""The A53's part of an item in the fabric, as C text: records, constants, stages; see kernels/vitis/vitis.h."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.operators.base import Layer
from harness.operators.obligations import StageKind
from harness.operators.tensor import Tensor
from harness.targets.generated import C_TYPES, ItemCode, Launch, LayerCode, Stage, Table, TaskView, definition
from harness.targets.vitis import circuit, kernel, records
from harness.targets.vitis.circuit import Circuit, channels_of
from harness.targets.vitis.kernel import Kernel
from harness.targets.vitis.records import Record, output_of

ABSENT = "VITIS_ABSENT"
TYPES = {"uint8": "VITIS_UINT8", "int8": "VITIS_INT8", "int32": "VITIS_INT32", "float32": "VITIS_SCALED"}
DRIVER = ("vitis_put", "vitis_run", "vitis_get")
LAUNCH, ITEM = 192, 192  # bytes of the structs of kernels/vitis/vitis.h
PARTS = {StageKind.ACCUMULATE: "ACCUMULATE", StageKind.FINISH: "FINISH", StageKind.COMPUTE: "COMPUTE"}


@dataclass(frozen=True)
class _Array:
    """An activation of a launch; places in records as C writes them."""

    name: str
    dtype: np.dtype[Any]
    width: int
    channels: int
    multiplier: str
    at: str
    full_at: str

    @property
    def text(self) -> str:
        """The initialiser of its struct vitis_array."""
        fields = (f'"{self.name}"', TYPES[self.dtype.name], str(self.width), str(self.channels),
                  self.multiplier, self.at, self.full_at)  # fmt: skip
        return f"{{{', '.join(fields)}}}"


def generate(item: str, launches: Sequence[Launch], fold: int = 1) -> ItemCode:
    """Return all of an item: its tasks' code, and what they share."""
    kernels = tuple(kernel.of_launch(launch, fold) for launch in launches)
    return ItemCode(
        tuple(
            _task(launch, *of)
            for launch, made in zip(launches, kernels, strict=True)
            for of in zip(launch, made.circuits, strict=True)
        ),
        "\n".join([*map(_launch_text, launches, kernels), _item_text(item, launches)]),
        initialise=f"    vitis_open(&{item}_vitis, options);",
        close=f"    vitis_release(&{item}_vitis);",
        device=f"{item}_device",
        reread=f"{item}_reread",
        kernels=kernels,
        kernel_names={_name(launch): (made.name,) for launch, made in zip(launches, kernels, strict=True)},
        objects={f"{item}_vitis": ITEM} | {_name(launch): LAUNCH for launch in launches},
    )


def _task(launch: Launch, task: TaskView, of: Circuit[Any]) -> LayerCode:
    """Return a task: the first of a launch runs it, each fetches its own output."""
    name, names, own = _name(launch), [array.name for array in _arrays(launch)], output_of(task.layer)
    lines = [f"    vitis_get(&{name}, {names.index(own)}, {own}, vectors);"]
    if task is launch[0]:
        sources = [place.name for place in records.given(launch).places]
        puts = [f"    vitis_put(&{name}, {names.index(source)}, {source}, vectors);" for source in sources]
        lines = [*puts, f"    vitis_run(&{name}, vectors);", *lines]
    scale = () if of.multiplier is None else (of.multiplier,)
    texts = [f"static struct vitis_launch {name};", *map(_table, of.tables), *map(definition, scale), *_told(of)]
    definitions = [*texts, *(_stage(stage, launch, task) for stage in of.stages)]
    return LayerCode("\n".join(definitions), "\n".join(lines), (*of.tables, *scale), of.stages, DRIVER)


def _name(launch: Launch) -> str:
    """Return the launch's name in C, after its first task, whose forward runs it."""
    return f"{launch[0].layer.name}_launch"


def _multiplier(layer: Layer) -> str:
    multiplier = circuit.of(layer).multiplier
    return multiplier.name if multiplier else "NULL"


def _arrays(launch: Launch) -> list[_Array]:
    """Return the sources from outside, then what the tasks write."""
    partial, full = (records.made(launch, everything=everything) for everything in (False, True))
    given = records.given(launch)
    tensors = dict(pair for task in launch for pair in zip(task.sources, task.layer.inputs, strict=True))
    sources = [_array(place.name, tensors[place.name], "NULL", str(place.start), ABSENT) for place in given.places]
    outputs = [
        _array(name, layer.output, _multiplier(layer), _start(partial, name), _start(full, name))
        for layer in (task.layer for task in launch)
        for name in [output_of(layer)]
    ]
    return [*sources, *outputs]


def _array(name: str, tensor: Tensor, multiplier: str, at: str, full_at: str) -> _Array:
    return _Array(name, tensor.dtype, tensor.size, channels_of(tensor), multiplier, at, full_at)


def _start(record: Record, name: str) -> str:
    present = {place.name for place in record.places}
    return str(record.start_of(name)) if name in present else ABSENT


def _table(table: Table) -> str:
    """Return the declaration of the buffer for the kernel's answer."""
    comment = f"/* {table.comment} */\n" if table.comment else ""
    sizes = "".join(f"[{size}]" for size in table.values.shape)
    return f"{comment}static {C_TYPES[table.values.dtype.name]} {table.name}{sizes};"


def _told(of: Circuit[Any]) -> list[str]:
    rows = [f"    {{(int32_t *){table.name}, {table.values.size}}}," for table in of.tables]
    return ["\n".join([f"static const struct vitis_table {of.name}_told[] = {{", *rows, "};"])] if rows else []


def _stage(of_layer: Stage, launch: Launch, task: TaskView) -> str:
    """Return the stage for the proof: the kernel of the schedule, asked for a part of one of its layers."""
    name, layer = of_layer.name, task.layer
    number = next(n for n, other in enumerate(launch) if other is task)
    read = [layer.output] if of_layer.part is StageKind.FINISH else layer.inputs
    given = [_Array(name, of_layer.input_dtype, each.size, channels_of(each), "NULL", "0", "0") for each in read]
    channels = channels_of(layer.output)
    made = _Array(name, of_layer.output_dtype, of_layer.output_width, channels, _multiplier(layer), "0", "0")
    return (
        f"static const struct vitis_array {name}_given[] = {{{', '.join(each.text for each in given)}}};\n"
        f"static const struct vitis_stage {name}_in_fabric = {{.launch = &{_name(launch)}, "
        f".part = {PARTS[of_layer.part]}, .layer = {number}, .given = {name}_given, .given_count = {len(given)}, "
        f".given_width = {of_layer.input_width}, .made = {made.text}}};\n"
        f"static void {name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    vitis_apply(&{name}_in_fabric, vectors, inputs, outputs);\n}}"
    )


def _launch_text(launch: Launch, made_by: Kernel) -> str:
    """Return the launch as a value: its arrays, its layers, and how wide its records are."""
    name, circuits = _name(launch), made_by.circuits
    partial, full = (records.made(launch, everything=everything).width for everything in (False, True))
    given, (most_given, most_made) = records.given(launch).width, records.most_words(launch)
    arrays = [f"    {array.text}," for array in _arrays(launch)]
    told = [f'    {{"{of.name}", {f"{of.name}_told" if of.tables else "NULL"}, {len(of.tables)}}},' for of in circuits]
    return "\n".join(
        [
            f"static const struct vitis_array {name}_arrays[] = {{",
            *arrays,
            f"}};\nstatic const struct vitis_layer {name}_layers[] = {{",
            *told,
            f"}};\nstatic struct vitis_launch {name} = {{",
            f'    .kernel = "{made_by.name}", .arrays = {name}_arrays, .array_count = {len(arrays)},',
            f"    .layers = {name}_layers, .layer_count = {len(circuits)}, .given_width = {given},",
            f"    .made_width = {partial}, .full_width = {full},",
            f"    .most_given = {most_given}, .most_made = {most_made},\n}};",
        ]
    )


def _item_text(item: str, launches: Sequence[Launch]) -> str:
    names = ", ".join(f"&{_name(launch)}" for launch in launches)
    return (
        f"static struct vitis_launch *const {item}_launches[] = {{{names}}};\n"
        f'static struct vitis_item {item}_vitis = {{.name = "{item}", .launches = {item}_launches, '
        f".launch_count = {len(launches)}}};\n"
        f"static const char *{item}_device(void)\n{{\n    return vitis_device(&{item}_vitis);\n}}\n"
        f"static void {item}_reread(void)\n{{\n    vitis_fetch_tables(&{item}_vitis);\n}}\n\n"
    )
