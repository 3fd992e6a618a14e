"""Sums of products of codes in CUDA: what QGemm, QLinearConv and QLinearGlobalAveragePool have in common."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.contraction import Contraction
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets import contraction
from harness.targets.cuda.code import CudaLowering, FusedTask, c_type, output, tile
from harness.targets.cuda.staged import statements
from harness.targets.generated import Stage, Table, TaskView

K = TypeVar("K", bound=Contraction)


class ContractionLowering(CudaLowering[K]):
    """A function `<layer>_accumulate` and a function `<layer>_finish`."""

    def tables(self, layer: K) -> tuple[Table, ...]:
        """Return the constants of the definition."""
        return contraction.tables(layer, computed=True)

    def function(self, layer: K) -> str:
        """Accumulate one output as defined, and finish it."""
        multiplier = "0" if np.size(layer.numbers()["multiplier"]) == 1 else f"n / {layer.positions}"
        return one_output(layer, statements(layer.name, layer.summed()), multiplier)

    def stages(self, layer: K) -> tuple[Stage, ...]:
        """Return the stages from quantised values to sums, and from sums to the output."""
        return contraction.stages(layer)

    def body(self, task: TaskView) -> list[str]:
        """Accumulate and finish, or one of both for the proof."""
        return contracting(task, f"contract<{task.layer.input.size}, {task.layer.size}>")

    def steps(self, task: FusedTask) -> list[str]:
        """Compute from tile to tile, or for a stage from given sums, or to sums."""
        layer: Any = task.layer
        name, source, made = layer.name, task.operands[0], tile(output(layer))
        sizes = f"{len(layer.multiplier)}, {layer.positions}"
        return [
            f"const Sums<{sizes}> sums{{carry, (int32_t *)(part == FINISH ? given : made)}};",
            f"contract<{sizes}, {self.tiling(layer)}>({source}, {made}, part, sums, {name}_accumulate, {name}_finish);",
        ]

    def tiling(self, layer: K) -> str:  # noqa: ARG002 - lowerings override it
        """Return how many groups of four channels, and of how many positions, a thread of a fused kernel computes."""
        return "1, 1"


def contracting(task: TaskView, contract: str) -> list[str]:
    """Return statements that call a function template, `contract`, for the whole layer or for one of its stages."""
    layer, source, made = task.layer, task.sources[0], output(task.layer)
    name, x, y = layer.name, c_type(layer.input.dtype), c_type(layer.dtype)
    return [
        f"const {x} *const a = part == ACCUMULATE ? (const {x} *)given : {source};",
        f"{y} *const y = part == FINISH ? ({y} *)made : {made};",
        "int32_t *const sums = (int32_t *)(part == FINISH ? given : made);",
        f"{contract}(vectors, a, y, part, sums, {name}_accumulate, {name}_finish);",
    ]


def one_output(layer: Contraction, accumulate: str, scale: str = "n") -> str:
    """Return the functions of output n, by statements for its sum; `scale` is the place of its multiplier."""
    name, a, y = layer.name, c_type(layer.input.dtype), c_type(layer.dtype)
    multiplier, of = f"{name}_multiplier[{scale}]", " n" if "n" in scale else ""
    finish = (
        f"scale_accumulator(acc, {multiplier})"
        if layer.dtype == np.float32
        else f"requantize<{y}>(acc, {multiplier}, {name}_output_zero_point[0])"
    )
    return (
        f"ONE_CODE int32_t {name}_accumulate(const {a} *x_0, unsigned n)\n{{\n{accumulate}\n}}\n\n"
        f"ONE_CODE {y} {name}_finish(int32_t acc, unsigned{of})\n{{\n    return {finish};\n}}"
    )


def finish_four(layer: Contraction, multiplier: str = "", parameter: str = "") -> str:
    """Return the function that finishes four outputs, by default those of channels.

    `multiplier` is the text of theirs if no table has them, and `parameter` the name of what that depends on.
    """
    name, of = layer.name, f" {parameter}" if multiplier else " g"
    multiplier = multiplier or f"four<float4>({name}_multiplier, g)"
    requantize = f"requantize_four<{c_type(layer.dtype)}>(acc, {multiplier}, {name}_output_zero_point[0])"
    made, finish = (
        ("float4", f"scale_four(acc, {multiplier})") if layer.dtype == np.float32 else ("uint32_t", requantize)
    )
    return f"ONE_CODE {made} {name}_finish(int4 acc, unsigned{of.rstrip()})\n{{\n    return {finish};\n}}"


def zero_points(layer: Contraction, *names: str) -> tuple[Table, ...]:
    """Return tables of the zero points of input or output."""
    values = {"input": layer.a_zero_point, "output": layer.y_zero_point}
    return tuple(
        Table(f"{layer.name}_{name}_zero_point", np.array([values[name]], np.int32), computed=True)
        for name in names
        if name == "input" or layer.dtype != np.float32
    )


def padded(values: Array) -> Array:
    """Fill up with zeros to a multiple of four."""
    return np.pad(values, (0, -len(values) % 4))


class QLinearGlobalAveragePoolLowering(ContractionLowering[QLinearGlobalAveragePool]):
    """One multiplier serves all channels."""

    operator = QLinearGlobalAveragePool

    def fused_function(self, layer: QLinearGlobalAveragePool) -> str:
        """Accumulate and finish four channels."""
        m = f"{layer.name}_multiplier[0]"
        sums = f"sum_image<{c_type(layer.input.dtype)}, {layer.image}>(a, {layer.name}_input_zero_point[0], g)"
        head = f"ONE_CODE Accumulators<1, 1> {layer.name}_accumulate(const uint32_t *a, unsigned g, unsigned)"
        return f"{head}\n{{\n    return {sums};\n}}\n\n{finish_four(layer, f'make_float4({m}, {m}, {m}, {m})')}"
