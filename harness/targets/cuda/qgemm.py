"""QGemm in CUDA: a thread computes an output in the layer's own kernel, four outputs in a fused one."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.targets import contraction
from harness.targets.contraction import offset, origin_of_multiplier
from harness.targets.cuda.code import CudaLowering, c_type, output, tile, words
from harness.targets.generated import Stage, Table, TaskView

STAGED = 512  # in fused.cuh, of 16 bytes each


class QGemmLowering(CudaLowering[QGemm]):
    """Weights are stored as in the model, or packed for fused kernels."""

    operator = QGemm
    shared = ("__shared__ uint4 staged[STAGED];",)

    def unsupported(self, layer: QGemm, variant: str) -> str | None:
        """Refuse weights that do not fit into the shared memory of a fused kernel."""
        if variant == "fused" and words(layer.input.dtype, layer.input.size) > STAGED:
            return (
                f"{layer.input.size} inputs, but the fused kernel holds the weights of four outputs in "
                f"{16 * STAGED:,} bytes of shared memory, enough for {4 * STAGED:,}; cuda:layerwise takes it"
            )
        return None

    def stages(self, layer: QGemm) -> tuple[Stage, ...]:
        """Return the stages from quantised values to sums, and from sums to the output."""
        return contraction.stages(layer)

    def tables(self, layer: QGemm) -> tuple[Table, ...]:
        """Return the constants, in the model's order."""
        name, zero_points = layer.name, layer.weights_zero_point.astype(np.int32)
        return (
            Table(f"{name}_weights", layer.weights, f"weights of node {name}, one column an output", computed=True),
            Table(f"{name}_weights_zero_point", zero_points, computed=True),
            Table(f"{name}_bias", layer.bias, computed=True),
            Table(f"{name}_input_zero_point", np.array([layer.a_zero_point], np.int32), computed=True),
            Table(f"{name}_multiplier", layer.multiplier, origin_of_multiplier(layer), computed=True),
            *_output_zero_point(layer),
        )

    def function(self, layer: QGemm) -> str:
        """Accumulate and finish one output."""
        name, a, y = layer.name, c_type(layer.input.dtype), c_type(layer.dtype)
        weights = f"&{name}_weights[0][0], {name}_weights_zero_point[n], {name}_bias[n], {name}_input_zero_point[0]"
        finish = (
            f"scale_accumulator(acc, {name}_multiplier[n])"
            if layer.dtype == np.float32
            else f"requantize<{y}>(acc, {name}_multiplier[n], {name}_output_zero_point[0])"
        )
        return (
            f"ONE_CODE int32_t {name}_accumulate(const {a} *a, unsigned n)\n{{\n"
            f"    return sum_of_products<{layer.input.size}, {layer.size}>(a, {weights}, n);\n}}\n\n"
            f"ONE_CODE {y} {name}_finish(int32_t acc, unsigned n)\n{{\n    return {finish};\n}}"
        )

    def body(self, task: TaskView) -> list[str]:
        """Accumulate and finish, or one of both for the proof."""
        layer, source, made = task.layer, task.sources[0], output(task.layer)
        name, x, y = layer.name, c_type(layer.input.dtype), c_type(layer.dtype)
        return [
            f"const {x} *const a = part == ACCUMULATE ? (const {x} *)given : {source};",
            f"{y} *const y = part == FINISH ? ({y} *)made : {made};",
            "int32_t *const sums = (int32_t *)(part == FINISH ? given : made);",
            f"qgemm<{layer.input.size}, {layer.size}>(vectors, a, y, part, sums, {name}_accumulate, {name}_finish);",
        ]

    def fused_tables(self, layer: QGemm) -> tuple[Table, ...]:
        """Return the constants, filled up with zeros to groups of four outputs."""
        name = layer.name
        origin = f"weights of node {name}, packed: a row a group of four outputs, by four inputs at a time"
        of_offset = "bias - za * sum of weights + depth * za * zb, modulo 2^32"
        zero_points = (
            (Table(f"{name}_weights_zero_point", _padded(layer.weights_zero_point), computed=True),)
            if layer.weights_zero_point.any()
            else ()
        )
        return (
            Table(f"{name}_weights", packed(layer.weights), origin, computed=True),
            Table(f"{name}_offset", _padded(offset(layer)), of_offset, computed=True),
            Table(f"{name}_multiplier", _padded(layer.multiplier), origin_of_multiplier(layer), computed=True),
            *zero_points,
            *_output_zero_point(layer),
        )

    def fused_function(self, layer: QGemm) -> str:
        """Accumulate and finish four outputs."""
        name, a, b = layer.name, c_type(layer.input.dtype), c_type(layer.weights.dtype)
        zero_points = f"&four<uint4>({name}_weights_zero_point, g)" if layer.weights_zero_point.any() else "nullptr"
        given = f"a, b, four<uint4>({name}_offset, g), {zero_points}"
        multiplier = f"four<float4>({name}_multiplier, g)"
        requantize = f"requantize_four<{c_type(layer.dtype)}>(acc, {multiplier}, {name}_output_zero_point[0])"
        made, finish = (
            ("float4", f"scale_four(acc, {multiplier})") if layer.dtype == np.float32 else ("uint32_t", requantize)
        )
        return (
            f"ONE_CODE int4 {name}_accumulate(const uint32_t *a, const uint4 *b, unsigned g)\n{{\n"
            f"    return accumulate_four<{a}, {b}, {layer.input.size}>({given});\n}}\n\n"
            f"ONE_CODE {made} {name}_finish(int4 acc, unsigned g)\n{{\n    return {finish};\n}}"
        )

    def steps(self, task: TaskView) -> list[str]:
        """Compute from tile to tile, or for a stage from given sums, or to sums."""
        layer, source, made = task.layer, tile(task.sources[0]), tile(output(task.layer))
        name, sizes = layer.name, f"{words(layer.input.dtype, layer.input.size)}, {layer.size}"
        return [
            f"const Sums<{layer.size}> sums{{carry, (int32_t *)(part == FINISH ? given : made)}};",
            f"qgemm<{sizes}>((const uint4 *){name}_weights, staged, {source}, {made}, part, sums,",
            f"    {' ' * len('qgemm<')}{name}_accumulate, {name}_finish);",
        ]


def _output_zero_point(layer: QGemm) -> tuple[Table, ...]:
    if layer.dtype == np.float32:
        return ()
    return (Table(f"{layer.name}_output_zero_point", np.array([layer.y_zero_point], np.int32), computed=True),)


def packed(weights: Array) -> Array:
    """Return weights (K, N) as the kernel reads them: (groups of four outputs, words * 16), zeros after the last.

    A group has word by word, in it output by output, the weights of four inputs.
    """
    depth, width = weights.shape
    padded = np.zeros((-(-depth // 4) * 4, -(-width // 4) * 4), weights.dtype)
    padded[:depth, :width] = weights
    by_word = padded.reshape(len(padded) // 4, 4, padded.shape[1] // 4, 4)
    groups: Array = by_word.transpose(2, 0, 3, 1).reshape(padded.shape[1] // 4, -1)
    return groups


def _padded(values: Array) -> Array:
    """Fill up with zeros to a multiple of four."""
    return np.pad(values, (0, -len(values) % 4))
