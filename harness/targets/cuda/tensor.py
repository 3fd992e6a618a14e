"""The kernel of a wide layer on tensor cores: see kernels/cuda/tensor.cuh."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.contraction import Contraction
from harness.targets.contraction import offset, origin_of_multiplier, origin_of_weights, signed_weights
from harness.targets.cuda.code import LayerKernel, c_type
from harness.targets.cuda.contraction import contracting, finish_four, padded, zero_points
from harness.targets.generated import Table, TaskView

HEADER = "tensor.cuh"
OLDEST = 72  # the first with tensor cores for int8
LEAST = 16
"""Products of a sum, and outputs or channels, of a wide layer: an instruction computes 16 or more of each."""
TILES = (16, 32, 64)
"""Columns of a tile."""
THREADS, ROWS, CHUNKS, STEP, SCRATCH = 128, 64, 4, 64, 1024  # in tensor.cuh and mma.cuh
POINT = "Window<1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1>"
"""The window of a dense layer, whose inputs are channels."""


def is_wide(layer: Contraction) -> bool:
    """Return whether tensor cores compute a layer, of which each output is a sum over all channels."""
    return bool(min(layer.weights.shape) >= LEAST)


def kernel(task: TaskView, window: str, inputs: int) -> LayerKernel:
    """Return the kernel of a layer that reads `inputs` channels at each place of a window, of the type `window`."""
    layer: Any = task.layer
    name, (depth, width) = layer.name, layer.weights.shape
    columns = next((columns for columns in TILES if columns >= width), TILES[-1])
    tiles, products = -(-width // columns), f"Products<{window}, {inputs}>"
    weights, zero_points_of_weights = signed_weights(layer)
    centred = bool(zero_points_of_weights.any())
    rows = np.pad(_by_place(weights, inputs).T, ((0, tiles * columns - width), (0, -depth % STEP)))
    origin = f"{origin_of_weights(layer)}: one row a column of a tile, by place of the window, then by channel"
    total = weights.sum(axis=0, dtype=np.int64) - depth * zero_points_of_weights
    room = (0, len(rows) - width)
    tables = (
        Table(f"{name}_weights", rows, origin, computed=True),
        Table(f"{name}_offset", np.pad(offset(layer), room), "bias - za * total, modulo 2^32", computed=True),
        Table(f"{name}_total", np.pad(total.astype(np.int32), room), "sum of weights less zb", computed=True),
        *((Table(f"{name}_weights_zero_point", np.pad(zero_points_of_weights, room), computed=True),) * centred),
        Table(f"{name}_multiplier", padded(layer.multiplier), origin_of_multiplier(layer), computed=True),
        *zero_points(layer, "input", "output"),
    )
    given = f"{name}_offset, {name}_total, {f'{name}_weights_zero_point' if centred else 'nullptr'}"
    same = f"{name}_multiplier[n]"
    finish = finish_four(layer, *([f"make_float4({', '.join([same] * 4)})", "n"] if layer.positions > 1 else []))
    text = (
        f"ONE_CODE void {name}_accumulate(const {c_type(layer.input.dtype)} *a, unsigned vectors, size_t tile)\n{{\n"
        f"    sum_tile<{products}, {width}, {columns}>(a, vectors, tile, &{name}_weights[0][0], {given},\n"
        f"        {name}_input_zero_point[0]);\n}}\n\n{finish}"
    )
    body = contracting(task, f"contract_tiles<{products}, {width}, {columns}>")
    return LayerKernel(
        tables, text, body, layer.positions * tiles * THREADS // ROWS, _words(columns, is_dense=layer.positions == 1)
    )


def _by_place(weights: Array, inputs: int) -> Array:
    """Return weights (K, N) in the order of the kernel's products: ONNX has all places of a channel together."""
    depth, width = weights.shape
    return weights.reshape(inputs, depth // inputs, width).transpose(1, 0, 2).reshape(depth, width)


def _words(columns: int, *, is_dense: bool) -> int:
    """Return the words of shared memory of a block: struct Tile of tensor.cuh."""
    staged = 4 * CHUNKS * (ROWS + 2 + columns + 2)
    along, across = (columns, ROWS) if is_dense else (ROWS, columns)
    return max(staged, SCRATCH + across * (along + 4)) + ROWS
