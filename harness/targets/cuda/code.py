"""The lowerings of the target: base class, and CUDA C++ text that several of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

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
        """Return the layer's own kernel: from buffers to buffer, for a stage from `given` to `made`."""
        layer, made = task.layer, output(task.layer)
        y = c_type(layer.dtype)
        return [
            *_vectors(task),
            f"{y} *const y = part == COMPUTE ? ({y} *)made : {made};",
            f"write_outputs<{layer.size}>(vectors, y, [&](const Output<{layer.size}> &at) {{",
            f"    return {layer.name}_compute({self.operands(task)});",
            "});",
        ]

    def operands(self, task: TaskView) -> str:
        """Return the arguments of `<layer>_compute` for the output `at`."""
        return ", ".join(f"x_{number}[at.v * pitch_{number} + at.n]" for number in range(len(task.sources)))

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


class VectorLowering(CudaLowering[L]):
    """The code of an operator that computes an output from vectors: x_0, x_1 and so on, one for each input.

    `<layer>_compute` has them in the memory of the GPU, or in the tiles of a fused kernel; x_0[i] is a value of either.
    """

    fuses: ClassVar[bool] = True
    """True if fused kernels can contain it."""

    @abstractmethod
    def value(self, layer: L) -> str:
        """Return the statements that return output n."""

    def unsupported(self, layer: L, variant: str) -> str | None:
        """Refuse a kernel of too many arguments, and tiles that the fused kernel does not have."""
        if len(set(layer.sources)) >= ARGUMENTS_LIMIT:
            return f"it reads {len(set(layer.sources))} activations, and a kernel at most {ARGUMENTS_LIMIT - 1}"
        if variant != "fused":
            return None
        if not self.fuses:
            return "a fused kernel has no windows over images and moves no values yet; cuda:layerwise takes it"
        sizes = [tensor.size for tensor in layer.inputs]
        if len(sizes) > 1 and sizes != [layer.size] * 2:
            return "a fused kernel combines two vectors of one size, without broadcasting; cuda:layerwise takes it"
        return None

    def function(self, layer: L) -> str:
        """Return the function of vectors in memory."""
        kind = c_type(layer.input.dtype)
        return self._function(layer, [f"const {kind} *x_{number}" for number in range(len(layer.inputs))])

    def operands(self, task: TaskView) -> str:
        """Return the vectors and the number of the output."""
        return ", ".join([*(f"&x_{n}[at.v * pitch_{n}]" for n in range(len(task.sources))), "at.n"])

    def fused_function(self, layer: L) -> str:
        """Return the function of vectors in tiles."""
        numbers, kind = range(len(layer.inputs)), c_type(layer.input.dtype)
        values = [f"const Values<{kind}> x_{number}{{tile_{number}}};" for number in numbers]
        return self._function(layer, [f"const uint32_t *tile_{number}" for number in numbers], values)

    def fused_operands(self, task: TaskView) -> tuple[str, str]:
        """Return the tiles of vector v and the number of the output."""
        tiles = [tile(task.sources[0]), *("other" for _ in task.sources[1:])]
        return ", ".join([*(f"&{each}[v]" for each in tiles), "n"]), "unsigned n"

    def _function(self, layer: L, vectors: Sequence[str], statements: Sequence[str] = ()) -> str:
        head = f"ONE_CODE {c_type(layer.dtype)} {layer.name}_compute({', '.join([*vectors, 'unsigned n'])})"
        body = "\n".join(f"    {line}" for line in [*statements, *self.value(layer).splitlines()])
        return f"{head}\n{{\n{body}\n}}"


LoweringOf: TypeAlias = Callable[[Layer], CudaLowering[Any]]


def _vectors(task: TaskView) -> Iterator[str]:
    """Yield the definition of each source, and of the distance between its vectors: a stage has them side by side."""
    layer = task.layer
    kind, sizes = c_type(layer.input.dtype), [tensor.size for tensor in layer.inputs]
    for number, (source, size) in enumerate(zip(task.sources, sizes, strict=True)):
        begin = f" + {sum(sizes[:number])}" if number else ""
        yield f"const {kind} *const x_{number} = part == COMPUTE ? (const {kind} *)given{begin} : {source};"
        pitch = size if len(sizes) == 1 else f"part == COMPUTE ? {sum(sizes)} : {size}"
        yield f"const size_t pitch_{number} = {pitch};"


def tile(buffer: str) -> str:
    """Return the name of a buffer's tile in shared memory."""
    return f"{buffer}_tile"


def words(dtype: np.dtype[Any], size: int) -> int:
    """Return the words of a vector in shared memory: four quantised values to a word, or one of any other type."""
    return -(-size // 4) if dtype.itemsize == 1 else size


def affine_tables(layer: Any) -> tuple[Table, ...]:
    """Return the tables of a layer's scale and zero point."""
    zero_point = Table(f"{layer.name}_zero", np.array([layer.zero_point], np.int32), "zero point", computed=True)
    return (*tables_of(layer, {"scale": layer.scale}), zero_point)


def tables_of(layer: Layer, constants: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return constants as tables by their roles, of numbers and of arrays with one or two dimensions."""
    return tuple(
        Table(f"{layer.name}_{role}", np.atleast_1d(values), computed=True) for role, values in constants.items()
    )


def of_one_value(layer: Layer, parameters: str, result: str) -> str:
    """Return the function `<layer>_compute`."""
    return f"ONE_CODE {c_type(layer.dtype)} {layer.name}_compute({parameters})\n{{\n    return {result};\n}}"


def parameters(kernel_arguments: Sequence[tuple[str, str]], *more: str) -> str:
    """Return the parameters of a kernel: typed pointers, and the selection of the proof."""
    pointers = [f"{kind} *{name}" for kind, name in kernel_arguments]
    return ", ".join(["unsigned vectors", *pointers, "part part", "void *given", "void *made", *more])
