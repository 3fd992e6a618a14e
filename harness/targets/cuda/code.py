"""The lowerings of the target: base class, and CUDA C++ text that several of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from harness.operators.base import Layer
from harness.targets.base import Lowering
from harness.targets.generated import C_TYPES, Stage, Table, TaskView, compute_stage, initialiser

VECTORS_LIMIT = 128  # THREADS in kernels/cuda/gpu.c
ARGUMENTS_LIMIT = 64  # ARGUMENTS there: the buffers of a kernel


@dataclass(frozen=True)
class Kernel:
    """A kernel and its arguments: a number of vectors, then the addresses of the buffers `arguments`.

    Further arguments select a part of one of its `layers` for the proof, see kernels/cuda/gpu.h.
    It has a thread for each of `outputs` of a vector; or, if that is 0, blocks of threads that carry vectors through it
    and wait for each other at barriers.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: int
    layers: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class DeviceLayer:
    """A layer on the GPU: its constants, and its functions as CUDA C++."""

    task: TaskView
    stages: tuple[Stage, ...]
    tables: tuple[Table, ...]
    text: str


@dataclass(frozen=True, eq=False)
class DeviceLaunch:
    """Tasks that are computed together: their layers, and the kernels that run in sequence, as CUDA C++.

    `memory` names the buffers that stay on the GPU between two kernels.
    """

    layers: tuple[DeviceLayer, ...]
    kernels: tuple[Kernel, ...]
    text: str
    memory: frozenset[str]


@dataclass(frozen=True)
class DeviceCode:
    """All code of one item for the GPU: CUDA C++ that needs `header`, and the names that the host looks up.

    `carried` is the largest number of vectors that a block of threads has room for.
    """

    header: str
    text: str
    kernels: tuple[Kernel, ...]
    tables: tuple[Table, ...]
    carried: int


def output(layer: Layer) -> str:
    """Return the name of the buffer that a layer writes."""
    return f"{layer.name}_output"


def c_type(dtype: np.dtype[np.generic]) -> str:
    """Return the C++ name of a type."""
    return C_TYPES[dtype.name]


def device_table(table: Table) -> str:
    """Return a table in the GPU's memory; it is not constant for the compiler, so that the code reads the memory."""
    comment = f"/* {table.comment} */\n" if table.comment else ""
    sizes = "".join(f"[{size}]" for size in table.values.shape)
    element = c_type(table.values.dtype)
    return f"{comment}__device__ __align__(16) {element} {table.name}{sizes} = {initialiser(table.values)};"


L = TypeVar("L", bound=Layer)


class CudaLowering(Lowering[L]):
    """The code of an operator in both variants; the defaults are those of an operator with one stage.

    Such an operator has a function `<layer>_compute` that returns one output.
    """

    shared: tuple[str, ...] = ()
    """Declarations of shared memory in a fused kernel that contains the operator."""

    def stages(self, layer: L) -> tuple[Stage, ...]:
        """Return the stages; the inputs of a layer with several are side by side."""
        return (compute_stage(layer),)

    def tables(self, layer: L) -> tuple[Table, ...]:  # noqa: ARG002 - lowerings override it
        """Return the constants of the layer's own kernel."""
        return ()

    @abstractmethod
    def function(self, layer: L) -> str:
        """Return the functions of the layer's own kernel."""

    def fused_tables(self, layer: L) -> tuple[Table, ...]:
        """Return the constants of a kernel of several layers."""
        return self.tables(layer)

    def fused_function(self, layer: L) -> str:
        """Return the functions of a kernel of several layers."""
        return self.function(layer)

    def body(self, task: TaskView) -> list[str]:
        """Return the layer's own kernel: from buffer to buffer, for a stage from `given` to `made`."""
        layer, source, made = task.layer, task.sources[0], output(task.layer)
        x, y = c_type(layer.input.dtype), c_type(layer.dtype)
        return [
            f"const {x} *const x = part == COMPUTE ? (const {x} *)given : {source};",
            f"{y} *const y = part == COMPUTE ? ({y} *)made : {made};",
            *_second_term(task),
            f"write_outputs<{layer.size}>(vectors, y, [&](const Output<{layer.size}> &at) {{",
            f"    return {layer.name}_compute({self.operands(task)});",
            "});",
        ]

    def operands(self, task: TaskView) -> str:
        """Return the arguments of `<layer>_compute` for the output `at`."""
        terms = "x[at.v * pitch + at.n], other[at.v * pitch + at.n]"
        return terms if len(task.sources) > 1 else "x[at.i]"

    def steps(self, task: TaskView) -> list[str]:
        """Return the layer as a part of a kernel of several: from tile to tile."""
        layer = task.layer
        call, index = self.fused_operands(task)
        second = [
            f"const uint32_t *const other = part == WHOLE ? {tile(source)} : {tile(output(layer))};"
            for source in task.sources[1:]
        ]
        return [
            *second,
            f"fill<{c_type(layer.dtype)}, {layer.size}>({tile(output(layer))}, [&](unsigned v, {index}) {{",
            f"    return {layer.name}_compute({call});",
            "});",
        ]

    def fused_operands(self, task: TaskView) -> tuple[str, str]:
        """Return the arguments of `<layer>_compute` for value n of vector v, and the declaration of n."""
        kind, first = c_type(task.layer.input.dtype), tile(task.sources[0])
        operands = [f"Values<{kind}>{{&{first}[v]}}[n]", *(f"Values<{kind}>{{&other[v]}}[n]" for _ in task.sources[1:])]
        return ", ".join(operands), "unsigned n"


LoweringOf: TypeAlias = Callable[[Layer], CudaLowering[Any]]


def _second_term(task: TaskView) -> list[str]:
    """Return the place of the second term of a sum, and the distance between vectors."""
    size = task.layer.size
    return [
        line
        for other in task.sources[1:]
        for line in (
            f"const float *const other = part == COMPUTE ? x + {size} : {other};",
            f"const size_t pitch = part == COMPUTE ? {2 * size} : {size};",
        )
    ]


def tile(buffer: str) -> str:
    """Return the name of a buffer's tile in shared memory."""
    return f"{buffer}_tile"


def words(dtype: np.dtype[Any], size: int) -> int:
    """Return the words of a vector in shared memory: four quantised values to a word, or one of any other type."""
    return -(-size // 4) if dtype.itemsize == 1 else size


def affine_tables(layer: Any) -> tuple[Table, ...]:
    """Return the tables of a layer's scale and zero point."""
    zero_point = Table(f"{layer.name}_zero", np.array([layer.zero_point], np.int32), "zero point", computed=True)
    return Table(f"{layer.name}_scale", np.atleast_1d(layer.scale), computed=True), zero_point


def of_one_value(layer: Layer, parameters: str, result: str) -> str:
    """Return the function `<layer>_compute`."""
    return f"ONE_CODE {c_type(layer.dtype)} {layer.name}_compute({parameters})\n{{\n    return {result};\n}}"


def parameters(kernel_arguments: Sequence[tuple[str, str]], *more: str) -> str:
    """Return the parameters of a kernel: typed pointers, and the selection of the proof."""
    pointers = [f"{kind} *{name}" for kind, name in kernel_arguments]
    return ", ".join(["unsigned vectors", *pointers, "part part", "void *given", "void *made", *more])
