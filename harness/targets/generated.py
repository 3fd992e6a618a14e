"""The values that targets generate for codegen, the proof and the bundle, and numbers as C text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.obligations import StageKind
from harness.operators.tensor import STORED, Tensor

C_TYPES = {
    "float32": "float", "bool": "uint8_t", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t",
    **{kind.name: f"uint{8 * kind.itemsize}_t" for kind in STORED},  # their bits: no target computes with them
}  # fmt: skip

TEXT_LIMIT = 64 * 1024
"""Bytes of the largest constant that is C text; compilers take minutes, and gigabytes, for large initialisers."""


@dataclass(frozen=True, eq=False)
class Table:
    """A constant of a layer's code: the C name of its array and the values that it must hold on the board.

    `values` has one or two dimensions, in the order in which the code reads them.  The item's init fills a `computed`
    table.  `comment` states the origin of the values.
    """

    name: str
    values: Array
    comment: str = ""
    computed: bool = False

    @property
    def file(self) -> str | None:
        """Return the path in the bundle of the file with its bytes; None if init fills it, or if it is C text."""
        return None if self.computed or self.values.nbytes <= TEXT_LIMIT else f"constants/{self.name}.bin"

    @property
    def content(self) -> bytes:
        """Return its bytes on the board, row by row, little endian."""
        return self.values.astype(self.values.dtype.newbyteorder("<")).tobytes()


@dataclass(frozen=True)
class Stage:
    """A part of a layer that the proof calls separately: the C function `name`, one vector in, one vector out.

    `forward` must call the very same function, which is declared ONE_CODE (kernels/program/network.h).
    """

    part: StageKind
    name: str
    input_dtype: np.dtype[Any]
    input_width: int
    output_dtype: np.dtype[Any]
    output_width: int


def stage(
    layer: Layer, part: StageKind, input_dtype: np.dtype[Any], input_width: int, dtype: np.dtype[Any], width: int
) -> Stage:
    """Return a stage of `layer` under the name that it has on all targets."""
    return Stage(part, f"{layer.name}_{part.value}", input_dtype, input_width, dtype, width)


def compute_stage(layer: Layer) -> Stage:
    """Return the only stage of a layer that is computed in one step; it reads the layer's inputs side by side."""
    width = sum(tensor.size for tensor in layer.inputs)
    return stage(layer, StageKind.COMPUTE, layer.input.dtype, width, layer.dtype, layer.size)


@dataclass(frozen=True)
class LayerCode:
    """The code of one layer, as C text.

    `definitions` holds buffers and functions of the layer; `forward` is the body of
    `void <stem>_forward(size_t vectors)`; `initialise` holds statements for the item's init.  `tables` and `stages` are
    checked by the proof; for each stage `definitions` has `<name>_stage`, see DEFINE_STAGE in network.h.  `driver`
    names the functions by which `forward` makes another device compute; without any, the stages are functions of the
    program.  codegen sets `target` to the name of the item's target.  Of an `indirect` layer the functions that stages
    call get pointers in memory, to the stage's own frame and to tables, and read and write what these point to.
    `shared` has functions that other layers may have, too, by their names: `network.c` has each once.
    """

    definitions: str
    forward: str
    tables: tuple[Table, ...]
    stages: tuple[Stage, ...]
    driver: tuple[str, ...] = ()
    target: str = ""
    initialise: str = ""
    indirect: bool = False
    shared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Join:
    """A source that is brought together in the memory of a device: its buffer, and the buffers that it is made of.

    `places` are the places of its values in a vector of these, side by side; each has as many values as `widths` says.
    `stage` is the query of the proof, one vector of them in, one of the source out.
    """

    buffer: str
    stage: Stage
    writers: tuple[str, ...]
    widths: tuple[int, ...]
    places: npt.NDArray[np.intp]


@dataclass(frozen=True)
class TaskView:
    """A task as its target sees it: `layer` reads the buffers `sources`, one for each of its inputs.

    `is_output` is whether the program reads its output outside the launch that it belongs to.  The rest is about items
    of targets with one `device_memory`: whether other launches read its output there (`is_handed`), which buffers it
    reads that others have left there (`taken`), and of these the sources that it joins.  `awaited` are the first tasks
    of launches of other items that do so, or that have left a buffer there that it reads.
    """

    layer: Layer
    sources: tuple[str, ...]
    is_output: bool
    is_handed: bool = field(default=False, kw_only=True)
    taken: tuple[str, ...] = field(default=(), kw_only=True)
    joins: tuple[Join, ...] = field(default=(), kw_only=True)
    awaited: tuple[str, ...] = field(default=(), kw_only=True)


Launch: TypeAlias = Sequence[TaskView]
"""Tasks that may be computed together: adjacent in their item's schedule, without a synchronisation between them."""


def copied_bytes(launches: Sequence[Launch]) -> int:
    """Return the bytes of a vector in one copy of every buffer that each launch reads or writes."""
    total = 0
    for launch in launches:
        tensors: dict[str, Tensor] = {}
        for task in launch:
            tensors |= dict(zip(task.sources, task.layer.inputs, strict=True))
        tensors |= {f"{task.layer.name}_output": task.layer.output for task in launch}
        total += sum(tensor.size * tensor.dtype.itemsize for tensor in tensors.values())
    return total


@dataclass(frozen=True, eq=False)
class ItemCode:
    """The code of an item: the code of its tasks in their order, and shared definitions, as C text.

    `definitions` follow those of the tasks; `initialise` and `close` are bodies of functions, the first of which can
    read `options` (kernels/program/options.h); `device` names a function that returns the name of the device, NULL for
    the processor.  `finish` is the body of a function of `vectors` that ends an execution, for tasks that do not wait
    for the device.  `reread` names a function that reads the item's tables again from the device, NULL if the code
    reads them itself.  `kernels` is passed to the target's own compiler.  `objects` gives the bytes of all variables
    other than tables and buffers, on 64-bit processors; `kernel_names`, by the variable of an array of structures, the
    names of kernels that are their first members; `awaited`, by the variable of a launch, those of the launches for
    which it waits on the device, as the variable `<launch>_awaited` lists them.
    """

    tasks: tuple[LayerCode, ...]
    definitions: str = ""
    initialise: str = ""
    close: str = ""
    device: str = "NULL"
    reread: str = "NULL"
    finish: str = ""
    kernels: Any = None
    objects: Mapping[str, int] = field(default_factory=dict)
    kernel_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    awaited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def definition(table: Table, attribute: str = "", *, writable: bool = False) -> str:
    """Return the C definition of a table of the processor, a constant unless it is `writable` or the init fills it.

    A large one is a file that the assembler includes.  Its symbol is local and has a type and a size, as that of a C
    array has, and it is accessed directly; the hash makes the text change with the content.
    """
    const, section = ("", ".data") if writable else ("const ", ".rodata")
    comment = f"/* {table.comment} */\n" if table.comment else ""
    c_type, name = C_TYPES[table.values.dtype.name], table.name
    array = f"{c_type} {name}" + "".join(f"[{size}]" for size in table.values.shape)
    if table.computed:
        return f"{comment}static {array}{attribute};"
    if table.file is None:
        return f"{comment}static {const}{array}{attribute} = {initialiser(table.values)};"
    lines = (f".section {section}", ".balign 64", f".type {name}, %object", f"{name}:", f'.incbin \\"{table.file}\\"',
             f".size {name}, . - {name}", ".previous")  # fmt: skip
    text = "\n".join(f'    "{line}\\n"' for line in lines)
    return (
        f"{comment}/* {table.file}, SHA-256 {hashlib.sha256(table.content).hexdigest()} */\n__asm__(\n{text});\n"
        f'extern {const}{array} __attribute__((visibility("hidden"))){attribute};'
    )


def initialiser(values: Array) -> str:
    """Return the exact values of an array with one or two dimensions, as C and C++ write them."""
    if values.ndim == 1:
        return "{" + ", ".join(literal(value) for value in values) + "}"
    return "{\n" + ",\n".join("    " + initialiser(row) for row in values) + "\n}"


def literal(value: np.generic) -> str:
    """Return the exact value of a number, as C and C++ write it; infinity as gcc and clang do without a header."""
    if value.dtype in STORED:
        return integer_literal(int(np.asarray(value).view(f"u{value.dtype.itemsize}")))
    if isinstance(value, np.floating) and np.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inff()"
    return f"{float(value).hex()}f" if isinstance(value, np.floating) else integer_literal(int(value))


def integer_literal(value: int) -> str:
    """Return an integer of at most 64 bits; C90 has no numbers of more than 32, and C no least int64."""
    if -(1 << 31) < value < 1 << 32:
        return str(value)
    bits, kind = value % (1 << 64), "int64_t" if value < 0 else "uint64_t"
    return f"({kind})(((uint64_t){bits >> 32:#x}u << 32) | {bits & 0xFFFFFFFF:#x}u)"
