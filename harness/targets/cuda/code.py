"""The values between the generators of device code and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.obligations import Part
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import C_TYPES, Stage, Table, Work, initialiser, stage

VECTORS_LIMIT = 128  # THREADS in kernels/cuda/gpu.c
ARGUMENTS_LIMIT = 64  # ARGUMENTS there: the buffers of a kernel


@dataclass(frozen=True)
class Kernel:
    """A kernel and how it is called: with a number of vectors, then the addresses of the buffers `arguments`.

    What else it takes says which part of which of its `layers` the proof asks for, see kernels/cuda/gpu.h.
    It has a thread for each of `outputs` of a vector; or, where that is 0, blocks of threads that carry vectors through
    it and wait for each other at barriers.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: int
    layers: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class DeviceLayer:
    """What the GPU has of a layer: its constants, and its functions as CUDA C++."""

    work: Work
    tables: tuple[Table, ...]
    text: str


@dataclass(frozen=True, eq=False)
class DeviceLaunch:
    """Tasks that are computed together: their layers, and the kernels that run one after the other, as CUDA C++.

    `memory` names the buffers that stay on the GPU between two kernels.
    """

    layers: tuple[DeviceLayer, ...]
    kernels: tuple[Kernel, ...]
    text: str
    memory: frozenset[str]


@dataclass(frozen=True)
class DeviceCode:
    """All that one item has on the GPU: CUDA C++ that needs `header`, and the names by which it is reached.

    `carried` is the most vectors that a block of threads has room for.
    """

    header: str
    text: str
    kernels: tuple[Kernel, ...]
    tables: tuple[Table, ...]
    carried: int


def output(layer: Layer) -> str:
    """The buffer that a layer writes."""
    return f"{layer.name}_output"


def c_type(dtype: np.dtype[np.generic]) -> str:
    """What C++ calls it."""
    return C_TYPES[dtype.name]


def device_table(table: Table) -> str:
    """A table in the GPU's memory: not constant for the compiler, so that its code reads what is there."""
    comment = f"/* {table.comment} */\n" if table.comment else ""
    sizes = "".join(f"[{size}]" for size in table.values.shape)
    element = c_type(table.values.dtype)
    return f"{comment}__device__ __align__(16) {element} {table.name}{sizes} = {initialiser(table.values)};"


def affine_tables(layer: QuantizeLinear | DequantizeLinear) -> tuple[Table, ...]:
    """Scale and zero point."""
    zero_point = Table(f"{layer.name}_zero", np.array([layer.zero_point], np.int32), "zero point", computed=True)
    return Table(f"{layer.name}_scale", np.atleast_1d(layer.scale), computed=True), zero_point


def stages(layer: Layer) -> tuple[Stage, ...]:
    """Of a QGemm from codes to sums, and from sums to the output; of others all, the terms of a sum side by side."""
    if not isinstance(layer, QGemm):
        terms = 2 if isinstance(layer, Add) and layer.addend is None else 1
        width = terms * layer.input.size
        return (stage(layer, Part.COMPUTE, layer.input.dtype, width, layer.dtype, layer.size),)
    sums = np.dtype(np.int32)
    return (
        stage(layer, Part.ACCUMULATE, layer.input.dtype, layer.input.size, sums, layer.size),
        stage(layer, Part.FINISH, sums, layer.size, layer.dtype, layer.size),
    )


def elementwise_function(layer: QuantizeLinear | DequantizeLinear | Add) -> str:
    """The function of one element, in CUDA C++."""
    name, constants = layer.name, f"{layer.name}_scale[0], {layer.name}_zero[0]"
    if isinstance(layer, Add):
        return f"ONE_CODE float {name}_compute(float a, float b)\n{{\n    return add(a, b);\n}}"
    given, made = c_type(layer.input.dtype), c_type(layer.dtype)
    body = f"quantize<{made}>(x, {constants})" if isinstance(layer, QuantizeLinear) else f"dequantize(x, {constants})"
    return f"ONE_CODE {made} {name}_compute({given} x)\n{{\n    return {body};\n}}"


def flags(layer: ArgExtremum) -> str:
    """The template arguments of arg_extremum."""
    return f"{layer.input.size}, {str(layer.largest).lower()}, {str(layer.last).lower()}"


def parameters(kernel_arguments: Sequence[tuple[str, str]], *more: str) -> str:
    """Of a kernel: pointers, each with its type, and what the proof asks for."""
    pointers = [f"{kind} *{name}" for kind, name in kernel_arguments]
    return ", ".join(["unsigned vectors", *pointers, "part part", "void *given", "void *made", *more])
