"""Gemm in C: one stage of sums in the order of the formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.gemm import Gemm
from harness.operators.mat_mul import MatMul
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal

PANEL = 16  # FLOAT_PANEL in kernels/c/float_lanes.h


class GemmLowering(CLowering[Gemm]):
    """Weights are stored as the model has them, but in the vector code: panels of 16 outputs."""

    operator = (Gemm, MatMul)
    headers = ("gemm.h", "gemm_vector.h")

    def unsupported(self, layer: Gemm, variant: str) -> str | None:
        """Refuse unrolled code that no compiler finishes."""
        return code.too_long(len(layer.weights) * layer.size, variant)

    def plain(self, layer: Gemm, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/gemm.h."""
        return code.elementwise(layer, sources, _tables(layer), _each_row(layer, f"{prefix}gemm_float32"))

    def inlined(self, layer: Gemm, sources: Sequence[str]) -> LayerCode:
        """Loop over outputs and inputs."""
        name, (depth, width) = layer.name, layer.weights.shape
        y, x = ("out[n]", "in[k]") if layer.positions == 1 else (f"out[r * {width} + n]", f"in[r * {depth} + k]")
        body = (
            f"for (size_t n = 0; n < {width}u; ++n) {{\n        float sum = {name}_bias[n] + 0.0f;\n"
            f"        for (size_t k = 0; k < {depth}u; ++k)\n"
            f"            sum += {x} * {name}_weights[k][n];\n        {y} = sum;\n    }}"
        )
        if layer.positions > 1:
            body = f"for (size_t r = 0; r < {layer.positions}u; ++r)\n    {body}"
        return code.elementwise(layer, sources, _tables(layer), body)

    def unrolled(self, layer: Gemm, sources: Sequence[str]) -> LayerCode:
        """Write every product."""
        return code.elementwise(layer, sources, (), code.assigned(_sums(layer)))

    def vector(self, layer: Gemm, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/gemm_vector.h."""
        tables = (
            Table(f"{layer.name}_weights", packed(layer.weights), f"in panels of {PANEL} outputs: one row an input"),
            Table(f"{layer.name}_bias", code.filled(layer.bias, -(-len(layer.bias) // PANEL) * PANEL)),
        )
        return code.elementwise(layer, sources, tables, _each_row(layer, "gemm_vector_float32"))


def packed(weights: Array) -> Array:
    """Return weights (K, N) in panels of 16 columns, filled up with zeros: (panels * K, 16)."""
    padded = code.filled(weights, -(-weights.shape[1] // PANEL) * PANEL)
    return padded.reshape(len(weights), -1, PANEL).swapaxes(0, 1).reshape(-1, PANEL)


def chain(bias: np.float32, terms: Iterator[str]) -> str:
    """Return a sum as C computes it: from left to right."""
    return " + ".join([literal(np.float32(bias + np.float32(0))), *terms])


def _tables(layer: Gemm) -> tuple[Table, ...]:
    return Table(f"{layer.name}_weights", layer.weights), Table(f"{layer.name}_bias", layer.bias)


def _each_row(layer: Gemm, function: str) -> str:
    """Return the call of a function for the one row of a Gemm, or for each of a MatMul."""
    depth, width = layer.weights.shape
    x, y = ("in", "out") if layer.positions == 1 else (f"&in[r * {depth}]", f"&out[r * {width}]")
    call = f"{function}({depth}, {width}, {x}, &{layer.name}_weights[0][0], {layer.name}_bias, {y});"
    return call if layer.positions == 1 else f"for (size_t r = 0; r < {layer.positions}u; ++r)\n        {call}"


def _sums(layer: Gemm) -> Iterator[str]:
    for first in range(0, layer.input.size, len(layer.weights)):
        for bias, row in zip(layer.bias, layer.weights.T, strict=True):
            yield chain(bias, (f"in[{first + k}] * {literal(weight)}" for k, weight in enumerate(row)))
