"""Generate the C code of an item whose layers are IREE's object code, without IREE's runtime.

Each stage of a layer is an MLIR function, compiled to an object of its own.  Its constants are arguments: the tables of
the program, which a proof reads back where the code reads them.  Numbers without a table are in the instructions.

IREE expects buffers at multiples of 64 bytes, so a stage copies its inputs and its output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.targets.c import code
from harness.targets.generated import ItemCode, Launch, LayerCode, Stage, Table, TaskView
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.module import Lowerings, alias, comment, location_text

FOLDER = "iree"
ALIGNMENT = 64  # IREE_ALIGNMENT in kernels/iree/iree.h
GROUPED = 4  # weights of a convolution have more axes if it has groups: the last two are those of its outputs
FRAME_LIMIT = 1 << 20
"""Bytes of the largest copies of a stage; a thread has a stack of 8 MiB."""


@dataclass(frozen=True)
class Kernel:
    """A function to compile: its MLIR module, and the bytes of its arguments; the last `tables` of them are tables."""

    name: str
    layer: str
    text: str
    arguments: tuple[int, ...]
    tables: int
    output: int


class _Stage(Function):
    """A function of one vector whose constants are further arguments."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(f"#{alias(layer)}", 1)
        self._layer = layer.name
        self.constants: list[tuple[Value, Table]] = []

    def constant(self, name: str, values: Array) -> Value:
        """Return an argument for the constant."""
        value = Value(self.unique(name), values.shape, values.dtype)
        columns = math.prod(values.shape[-2:] if values.ndim > GROUPED else values.shape[-1:])
        held = values.reshape(-1) if values.ndim < 2 else values.reshape(-1, columns)
        self.constants.append((value, Table(f"{self._layer}_{value.name[1:]}", held)))
        return value

    def unknown_zero(self) -> Value:
        """Return the argument that keeps the compiler from contracting products: a zero of the caller's frame."""
        if self._zero is None:
            self._zero = Value(self.unique("zero"), (), np.dtype(np.int32))
        return self._zero

    @property
    def arguments(self) -> list[Value]:
        """The arguments after the inputs: the zero, if there is one, then the constants."""
        return [*([self._zero] if self._zero else []), *(value for value, _ in self.constants)]


def generate(launches: Sequence[Launch], lowerings: Lowerings) -> ItemCode:
    """Return the code of an item: that of its layers, and the modules to compile."""
    made = [_task(task, lowerings[type(task.layer)]) for launch in launches for task in launch]
    kernels = [kernel for _, of_task in made for kernel in of_task]
    names = [kernel.name for kernel in kernels]
    return ItemCode(
        tuple(task for task, _ in made),
        "".join(["const char *iree_device(void);\n", *(f"void {name}_require(void);\n" for name in names)]),
        initialise="\n".join(f"    {name}_require();" for name in names),
        device="iree_device",
        kernels=tuple(kernels),
    )


def frame_bytes(layer: Layer) -> int:
    """Return the bytes of the copies of a layer's inputs and output, and of accumulators between two stages."""
    own = sum(tensor.size * tensor.dtype.itemsize for tensor in (*layer.inputs, layer.output))
    return own + 2 * 4 * layer.size


def _task(task: TaskView, lowering: IreeLowering[Layer]) -> tuple[LayerCode, list[Kernel]]:
    layer = task.layer
    stages, kernels, texts, tables = [], [], [], []
    given = [((1, *tensor.shape), tensor.dtype) for tensor in layer.inputs]
    for part in lowering.parts(layer):
        function = _Stage(layer)
        inputs = [Value(function.unique(f"in{n}"), shape, dtype) for n, (shape, dtype) in enumerate(given)]
        result = part.emit(function, inputs)
        of_inputs = [(math.prod(shape), dtype) for shape, dtype in given]
        stage = Stage(
            part.kind, f"{layer.name}_{part.kind.value}",
            inputs[0].dtype, sum(size for size, _ in of_inputs), result.dtype, result.size,
        )  # fmt: skip
        arguments = [*inputs, *function.arguments]
        words = list(comment(layer))
        text = function.text(stage.name, words, arguments, [result])
        module = f"module @{stage.name} {{\n{text}}}\n{location_text(layer, path_of(stage.name), 2 + len(words))}"
        sizes = [value.size * value.dtype.itemsize for value in arguments]
        kernels.append(
            Kernel(
                stage.name,
                layer.name,
                module,
                tuple(sizes),
                len(function.constants),
                result.size * result.dtype.itemsize,
            )
        )
        stages.append(stage)
        own = [table for _, table in function.constants]
        tables += own
        texts.append(_body(stage, of_inputs, [table.name for table in own], has_zero=function.has_products))
        given = [(result.shape, result.dtype)]
    prototypes = "".join(
        f"void {kernel.name}_iree({', '.join(['const void *'] * len(kernel.arguments))}, void *);\n"
        for kernel in kernels
    )
    found = _functions(layer, task.sources, stages, texts)
    definitions = f"{prototypes}{code.definitions(tables, aligned=True)}{found.definitions}"
    return LayerCode(definitions, found.forward, tuple(tables), found.stages, indirect=True), kernels


def _functions(layer: Layer, sources: Sequence[str], stages: Sequence[Stage], bodies: Sequence[str]) -> LayerCode:
    """Return the stages and the forward of a layer, without its tables."""
    if len(stages) == 2:
        first, second = stages
        return code.two_stages(layer, sources, (first, second), (), *bodies)
    return code.elementwise(layer, sources, (), bodies[0])


def _body(stage: Stage, inputs: Sequence[tuple[int, np.dtype[Any]]], tables: Sequence[str], *, has_zero: bool) -> str:
    """Return the body of a stage: copies around the call of the compiled function."""
    names = ["in"] if len(inputs) == 1 else [f"in_{number}" for number in range(len(inputs))]
    lines = []
    for name, (size, dtype) in zip(names, inputs, strict=True):
        used, whole = size * dtype.itemsize, padded(size * dtype.itemsize)
        lines += [
            f"unsigned char given_{name}[{whole}] __attribute__((aligned({ALIGNMENT})));",
            f"(void)memcpy(given_{name}, {name}, {used});",
        ]
        if whole > used:
            lines.append(f"(void)memset(&given_{name}[{used}], 0, {whole - used});")
    made = stage.output_width * stage.output_dtype.itemsize
    if has_zero:
        lines.append(f"int32_t zero[{ALIGNMENT // 4}] __attribute__((aligned({ALIGNMENT}))) = {{0}};")
    arguments = [*(f"given_{name}" for name in names), *(["zero"] if has_zero else []), *tables, "made"]
    lines += [
        f"unsigned char made[{padded(made)}] __attribute__((aligned({ALIGNMENT})));",
        f"{stage.name}_iree({', '.join(arguments)});",
        f"(void)memcpy(out, made, {made});",
    ]
    return "\n    ".join(lines)


def path_of(name: str) -> str:
    """Return the path in the bundle of a stage's module."""
    return f"{FOLDER}/{name}.mlir"


def padded(size: int) -> int:
    """Return the bytes of a buffer that IREE gets."""
    return -(-size // ALIGNMENT) * ALIGNMENT
