"""The lowerings of the target: base class, and CUDA C++ text that several of them share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from harness.operators.base import Layer
from harness.operators.tensor import Tensor
from harness.operators.window import Window
from harness.targets.base import Lowering
from harness.targets.generated import C_TYPES, Stage, Table, TaskView, compute_stage, initialiser

VECTORS_LIMIT = 128  # THREADS in kernels/cuda/gpu.c
FUSED_THREADS = 256  # of a block that carries images
FUSED_BLOCKS = 3  # for which a multiprocessor must have registers; with ResNet-8 an H200 has shared memory for three
ARGUMENTS_LIMIT = 64  # ARGUMENTS there: the buffers of a kernel


@dataclass(frozen=True)
class Kernel:
    """A kernel and its arguments: a number of vectors, then the addresses of the buffers `arguments`.

    Further arguments select a part of one of its `layers` for the proof, see kernels/cuda/gpu.h.
    It has a thread for each of `outputs` of a vector; or, if that is 0, blocks of `threads` that carry vectors through
    it.  A block has `tile_words` of shared memory for each vector that it carries, and `other_words`, of four bytes
    each.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: int
    layers: tuple[str, ...]
    threads: int = VECTORS_LIMIT
    tile_words: int = 0
    other_words: int = 0

    @property
    def has_barriers(self) -> bool:
        """Return whether its threads wait for each other, as those that share memory do."""
        return self.outputs == 0 or self.other_words > 0


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

    `carried` is the largest number of vectors that a block of threads has room for.  Only the functions `fusing` have
    multiply-adds that round once.
    """

    header: str
    text: str
    kernels: tuple[Kernel, ...]
    tables: tuple[Table, ...]
    carried: int
    fusing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FusedTask(TaskView):
    """A task of a fused kernel.

    `operands` are the names of pointers to the tiles of its sources, or of a pointer to memory if it reads its only
    source there (`direct`).
    """

    operands: tuple[str, ...]
    direct: bool


def output(layer: Layer) -> str:
    """Return the name of the buffer that a layer writes."""
    return f"{layer.name}_output"


def c_type(dtype: np.dtype[np.generic]) -> str:
    """Return the C++ name of a type."""
    return C_TYPES[dtype.name]


def device_table(table: Table) -> str:
    """Return a table in the GPU's memory; it is not constant for the compiler, so that the code reads the memory.

    NVRTC has no infinite constants: a table with one has the bits of its numbers, and a macro of its name has floats.
    """
    comment = f"/* {table.comment} */\n" if table.comment else ""
    values = table.values
    sizes = "".join(f"[{size}]" for size in values.shape)
    macro = ""
    if values.dtype == np.float32 and not np.isfinite(values).all():
        values = values.view(np.uint32)
        macro = f"\n#define {table.name} (*(float (*){sizes}){table.name})"
    element = c_type(values.dtype)
    return f"{comment}__device__ __align__(16) {element} {table.name}{sizes} = {initialiser(values)};{macro}"


@dataclass(frozen=True, eq=False)
class LayerKernel:
    """The parts of a layer's own kernel: constants, functions and statements.

    `threads` is the number of threads for a vector, `words` the shared memory of a block of threads.
    """

    tables: tuple[Table, ...]
    text: str
    body: Sequence[str]
    threads: int
    words: int = 0


L = TypeVar("L", bound=Layer)


class CudaLowering(Lowering[L]):
    """The code of an operator in all variants; the defaults are those of an operator with one stage.

    Such an operator has a function `<layer>_compute` that returns one output.
    """

    shared_words: ClassVar[int] = 0
    """Words of shared memory, beside tiles, in a fused kernel that contains the operator."""
    in_place: ClassVar[bool] = False
    """True if a fused kernel can write the output over a source: a thread reads and writes the same word."""
    streams: ClassVar[bool] = False
    """True if a fused kernel reads each value of the only source once, so that it can be read from memory."""
    fuses_multiply_add: ClassVar[bool] = False
    """True if its formula has multiply-adds that round once."""

    def stages(self, layer: L) -> tuple[Stage, ...]:
        """Return the stages; the inputs of a layer with several are side by side."""
        return (compute_stage(layer),)

    def renames(self, layer: L) -> bool:  # noqa: ARG002 - lowerings override it
        """Return whether the output is the source in another shape."""
        return False

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

    def own_kernel(self, task: TaskView) -> LayerKernel:
        """Return the layer's own kernel, a thread for each output."""
        layer: Any = task.layer
        return LayerKernel(self.tables(layer), self.function(layer), self.body(task), layer.size)

    def tensor_kernel(self, task: TaskView) -> LayerKernel:
        """Return the layer's own kernel for a GPU with tensor cores; the same for all but wide layers."""
        return self.own_kernel(task)

    def operands(self, task: TaskView) -> str:
        """Return the arguments of `<layer>_compute` for the output `at`."""
        return ", ".join(f"x_{number}[at.v * pitch_{number} + at.n]" for number in range(len(task.sources)))

    def steps(self, task: FusedTask) -> list[str]:
        """Return the layer as a part of a kernel of several: from tile to tile."""
        layer = task.layer
        call, index = self.fused_operands(task)
        sizes = f"{c_type(layer.dtype)}, {layer.size}, {positions_of(layer.output)}"
        return [
            f"fill<{sizes}>({tile(output(layer))}, [&](unsigned v, {index}) {{",
            f"    return {layer.name}_compute({call});",
            "});",
        ]

    def fused_operands(self, task: FusedTask) -> tuple[str, str]:
        """Return the arguments of `<layer>_compute` for value n of vector v, and the declaration of n."""
        return ", ".join(f"{values_of(task, number)}[n]" for number in range(len(task.sources))), "unsigned n"

    def fill_words(self, task: FusedTask, words_read: str) -> list[str]:
        """Return steps that compute word w of vector v from the words that the function reads."""
        layer = task.layer
        return [
            f"fill_words<{words(layer.output)}>({tile(output(layer))}, [&](unsigned v, unsigned w) {{",
            f"    return {layer.name}_compute({words_read});",
            "});",
        ]


class VectorLowering(CudaLowering[L]):
    """The code of an operator that computes an output from vectors: x_0, x_1 and so on, one for each input.

    `<layer>_compute` has them in the memory of the GPU, or in the tiles of a fused kernel; x_0[i] is a value of either.
    """

    @abstractmethod
    def value(self, layer: L) -> str:
        """Return the statements that return output n."""

    def unsupported(self, layer: L, variant: str) -> str | None:  # noqa: ARG002 - both variants
        """Refuse a kernel of too many arguments."""
        if len(set(layer.sources)) >= ARGUMENTS_LIMIT:
            return f"it reads {len(set(layer.sources))} activations, and a kernel at most {ARGUMENTS_LIMIT - 1}"
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
        values = [
            f"const {tile_type(tensor)} x_{number}{{tile_{number}}};" for number, tensor in enumerate(layer.inputs)
        ]
        return self._function(layer, [f"const uint32_t *tile_{number}" for number in range(len(values))], values)

    def fused_operands(self, task: FusedTask) -> tuple[str, str]:
        """Return the tiles of vector v and the number of the output."""
        return ", ".join([*(f"&{operand}[v]" for operand in task.operands), "n"]), "unsigned n"

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


def positions_of(tensor: Tensor) -> int:
    """Return the number of positions of each channel, 1 for a flat tensor."""
    return math.prod(tensor.shape[1:])


def words(tensor: Tensor) -> int:
    """Return the words of a vector in shared memory: codes of four channels to a word, a value in one or two."""
    positions, itemsize = positions_of(tensor), tensor.dtype.itemsize
    if itemsize == 1:
        return -(-tensor.size // positions // 4) * positions
    return tensor.size * max(itemsize // 4, 1)


def in_same_words(one: Tensor, other: Tensor) -> bool:
    """Return whether the tiles of two tensors have the same words."""
    if one.size != other.size:
        return False
    codes = one.dtype.itemsize == 1
    return one.dtype.itemsize == other.dtype.itemsize and not (codes and positions_of(one) != positions_of(other))


def tile_type(tensor: Tensor) -> str:
    """Return the type of kernels/cuda/fused.cuh that reads the values of a tile."""
    return f"Values<{c_type(tensor.dtype)}, {positions_of(tensor)}>"


def values_of(task: FusedTask, number: int) -> str:
    """Return the values of a source, of vector v, as an array."""
    tensor, pointer = task.layer.inputs[number], task.operands[number]
    if task.direct:
        return f"Row<{c_type(tensor.dtype)}, {tensor.size}>{{{pointer}, carry, v}}"
    return f"{tile_type(tensor)}{{&{pointer}[v]}}"


def window(of_layer: Window) -> str:
    """Return the type of kernels/cuda/window.cuh."""
    return f"Window<{', '.join(map(str, of_layer.table().reshape(-1)))}>"


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


def of_words(layer: Layer, parameters: Sequence[str], result: str) -> str:
    """Return the function `<layer>_compute` of words of codes; `result` is that of the four codes `parameters`."""
    kind = c_type(layer.input.dtype)
    declared = ", ".join(f"uint32_t {name}_word" for name in parameters)
    codes = " ".join(f"const {kind} {name} = code<{kind}>({name}_word, i);" for name in parameters)
    return (
        f"ONE_CODE uint32_t {layer.name}_compute({declared})\n{{\n"
        f"    return four_codes([&](unsigned i) {{\n        {codes}\n        return {result};\n    }});\n}}"
    )


def parameters(kernel_arguments: Sequence[tuple[str, str]], *more: str) -> str:
    """Return the parameters of a kernel: typed pointers, and the selection of the proof."""
    pointers = [f"{kind} *{name}" for kind, name in kernel_arguments]
    return ", ".join(["unsigned vectors", *pointers, "part part", "void *given", "void *made", *more])
