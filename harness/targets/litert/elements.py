"""Functions of values at one place in TFLite: one operator for each operation, with broadcasting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.operators.add import Add
from harness.operators.batch_normalization import BatchNormalization
from harness.operators.clip import Clip
from harness.operators.div import Div
from harness.operators.elements import Elements
from harness.operators.extremum import Max, Min
from harness.operators.mul import Mul
from harness.operators.p_relu import PRelu
from harness.operators.relu import Relu
from harness.operators.sub import Sub
from harness.operators.sum import Sum
from harness.targets.litert.graph import PLAIN, Graph, Value, image_of
from harness.targets.litert.lowering import LiteRtLowering, broadcast

IMAGE_AXES = 3
STEPS: Mapping[str, Sequence[str]] = {
    "Add": ["ADD"], "Div": ["DIV"], "Mul": ["MUL"], "Sub": ["SUB"],
    "BatchNormalization": ["SUB", "DIV", "MUL", "ADD"],
}  # fmt: skip
REPEATED = {"Max": "MAXIMUM", "Min": "MINIMUM", "Sum": "ADD"}
"""The operators of TFLite by those of ONNX: one for each operand after the first, or one for all."""


class ChainLowering(LiteRtLowering[Elements]):
    """One IEEE 754 operation or comparison for each operand after the first, from left to right."""

    operator = (Add, BatchNormalization, Div, Max, Min, Mul, Sub, Sum)

    def emit(self, layer: Elements, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators; a single operand is added to nothing."""
        value, others = operands(layer, graph, inputs)
        steps = STEPS.get(layer.operator) or [REPEATED[layer.operator]] * len(others)
        for number, (operator, other) in enumerate(zip(steps, others, strict=True), 1):
            name = layer.output.name if number == len(others) else f"{layer.output.name}/step_{number}"
            options = {} if operator.endswith("IMUM") else PLAIN
            value = graph.call(operator, [value.tensor, other], name, value, shape=value.shape, options=options)
        return value if others else graph.renamed(value, layer.output.name)


class PReluLowering(LiteRtLowering[PRelu]):
    """One product of each negative value."""

    operator = PRelu

    def emit(self, layer: PRelu, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator; its slopes have the axes of the input without the first."""
        [x] = inputs
        slopes = broadcast(graph, layer.slope, layer, x, f"{layer.output.name}/slopes")
        return graph.call("PRELU", [x.tensor, slopes], layer.output.name, x)


class ReluLowering(LiteRtLowering[Relu]):
    """A comparison rounds nothing."""

    operator = Relu

    def emit(self, layer: Relu, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        if layer.of_codes:
            return limited(graph, "MAXIMUM", x, 0, layer.output.name)
        return graph.call("RELU", [x.tensor], layer.output.name, x)


class ClipLowering(LiteRtLowering[Clip]):
    """A comparison rounds nothing."""

    operator = Clip

    def emit(self, layer: Clip, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add both operators."""
        [x] = inputs
        raised = limited(graph, "MAXIMUM", x, layer.low, f"{layer.output.name}/raised")
        return limited(graph, "MINIMUM", raised, layer.high, layer.output.name)


def limited(graph: Graph, operator: str, x: Value, limit: float, name: str) -> Value:
    """Return the larger or the smaller of each value and a limit, a number of the activation."""
    number = np.array([limit], np.float32) if x.dtype == np.float32 else np.array([int(limit) - x.offset], np.int8)
    constant = graph.constant(f"{name}/limit", number, graph.tensors[x.tensor].scales)
    return graph.call(operator, [x.tensor, constant], name, x)


def operands(layer: Elements, graph: Graph, inputs: Sequence[Value]) -> tuple[Value, list[int]]:
    """Return the first operand, stored as the result, and the tensors of the others: activations and constants.

    TFLite repeats them along axes of size 1.
    """
    values = _aligned(layer, graph, inputs)
    image = None if values[0].image is None else image_of(layer.output.shape)
    shape = (1, *layer.output.shape) if image is None else (1, *image[1:], image[0])
    like = Value(values[0].tensor, shape, values[0].dtype, image)
    numbers, rest = [], iter(values)
    for position, term in enumerate(layer.fixed):
        if term is None:
            numbers.append(next(rest).tensor)
        else:
            numbers.append(broadcast(graph, term, layer, like, f"{layer.output.name}/term_{position}"))
    return replace(like, tensor=numbers[0]), numbers[1:]


def _aligned(layer: Elements, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    rank = len(layer.output.shape)
    as_images = 1 < rank <= IMAGE_AXES and any(value.image for value in inputs)
    aligned = []
    for value, source in zip(inputs, layer.inputs, strict=True):
        padded = (*(1,) * (rank - len(source.shape)), *source.shape)
        aligned.append(graph.as_image(value, image_of(padded)) if as_images else graph.plain(value, (1, *padded)))
    return aligned
