"""QGemm in CUDA: a thread computes an output in the layer's own kernel, four outputs in a fused one."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.contraction import offset, origin_of_multiplier
from harness.targets.cuda import tensor
from harness.targets.cuda.code import FusedTask, LayerKernel, c_type, output, tile, words
from harness.targets.cuda.contraction import ContractionLowering, finish_four, one_output, padded, zero_points
from harness.targets.generated import Table, TaskView

STAGED = 512  # in fused.cuh, of 16 bytes each


class QGemmLowering(ContractionLowering[QGemm]):
    """Weights are stored as in the model, or packed for fused kernels."""

    operator = (QGemm, QLinearMatMul)
    shared_words = 4 * STAGED

    def unsupported(self, layer: QGemm, variant: str) -> str | None:
        """Refuse weights that do not fit into the shared memory of a fused kernel."""
        if variant == "fused" and words(layer.input) > STAGED:
            return (
                f"{layer.input.size} inputs, but the fused kernel holds the weights of four outputs in "
                f"{16 * STAGED:,} bytes of shared memory, enough for {4 * STAGED:,}; cuda:layerwise takes it"
            )
        return None

    def tables(self, layer: QGemm) -> tuple[Table, ...]:
        """Return the constants, in the model's order."""
        name, weights_zero_points = layer.name, layer.weights_zero_point.astype(np.int32)
        return (
            Table(f"{name}_weights", layer.weights, f"weights of node {name}, one column an output", computed=True),
            Table(f"{name}_weights_zero_point", weights_zero_points, computed=True),
            Table(f"{name}_bias", layer.bias, computed=True),
            Table(f"{name}_multiplier", layer.multiplier, origin_of_multiplier(layer), computed=True),
            *zero_points(layer, "input", "output"),
        )

    def function(self, layer: QGemm) -> str:
        """Accumulate and finish one output."""
        name = layer.name
        weights = f"&{name}_weights[0][0], {name}_weights_zero_point[n], {name}_bias[n], {name}_input_zero_point[0]"
        return one_output(layer, f"return sum_of_products<{layer.input.size}, {layer.size}>(x_0, {weights}, n);")

    def tensor_kernel(self, task: TaskView) -> LayerKernel:
        """Compute tiles of vectors and outputs."""
        layer: Any = task.layer
        if not tensor.is_wide(layer):
            return self.own_kernel(task)
        return tensor.kernel(task, tensor.POINT, layer.input.size)

    def fused_tables(self, layer: QGemm) -> tuple[Table, ...]:
        """Return the constants, filled up with zeros to groups of four outputs."""
        name = layer.name
        origin = f"weights of node {name}, packed: a row a group of four outputs, by four inputs at a time"
        of_offset = "bias - za * sum of weights + depth * za * zb, modulo 2^32"
        weights_zero_points = (
            (Table(f"{name}_weights_zero_point", padded(layer.weights_zero_point), computed=True),)
            if layer.weights_zero_point.any()
            else ()
        )
        return (
            Table(f"{name}_weights", packed(layer.weights), origin, computed=True),
            Table(f"{name}_offset", padded(offset(layer)), of_offset, computed=True),
            Table(f"{name}_multiplier", padded(layer.multiplier), origin_of_multiplier(layer), computed=True),
            *weights_zero_points,
            *zero_points(layer, "output"),
        )

    def fused_function(self, layer: QGemm) -> str:
        """Accumulate and finish four outputs."""
        name = layer.name
        a, b = c_type(layer.input.dtype), c_type(layer.weights.dtype)
        centre = f"&four<uint4>({name}_weights_zero_point, g)" if layer.weights_zero_point.any() else "nullptr"
        given = f"a, b, four<uint4>({name}_offset, g), {centre}"
        return (
            f"ONE_CODE int4 {name}_accumulate(const uint32_t *a, const uint4 *b, unsigned g)\n{{\n"
            f"    return accumulate_four<{a}, {b}, {layer.input.size}>({given});\n}}\n\n{finish_four(layer)}"
        )

    def steps(self, task: FusedTask) -> list[str]:
        """Compute from tile to tile, or for a stage from given sums, or to sums."""
        layer, source, made = task.layer, task.operands[0], tile(output(task.layer))
        name, sizes = layer.name, f"{words(layer.input)}, {layer.size}"
        return [
            f"const Sums<{layer.size}> sums{{carry, (int32_t *)(part == FINISH ? given : made)}};",
            f"qgemm<{sizes}>((const uint4 *){name}_weights, {source}, {made}, part, sums,",
            f"    {' ' * len('qgemm<')}{name}_accumulate, {name}_finish);",
        ]


def packed(weights: Array) -> Array:
    """Return weights (K, N) as the kernel reads them: (groups of four outputs, words * 16), zeros after the last.

    A group has word by word, in it output by output, the weights of four inputs.
    """
    depth, width = weights.shape
    filled = np.zeros((-(-depth // 4) * 4, -(-width // 4) * 4), weights.dtype)
    filled[:depth, :width] = weights
    by_word = filled.reshape(len(filled) // 4, 4, filled.shape[1] // 4, 4)
    groups: Array = by_word.transpose(2, 0, 3, 1).reshape(filled.shape[1] // 4, -1)
    return groups
