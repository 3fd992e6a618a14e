"""Add, Sub, Mul and Div of float32 in TFLite, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.div import Div
from harness.operators.mul import Mul
from harness.operators.sub import Sub
from harness.operators.terms import BinaryLayer
from harness.targets.litert.graph import PLAIN, Graph, Value, image_of
from harness.targets.litert.lowering import LiteRtLowering, broadcast

IMAGE_AXES = 3


class BinaryLowering(LiteRtLowering[BinaryLayer]):
    """One IEEE 754 operation for each value, by the operator of TFLite with the name of ONNX's in capitals."""

    operator = (Add, Div, Mul, Sub)

    def emit(self, layer: BinaryLayer, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        found = operands(layer, layer.fixed, graph, inputs)
        like = found.like
        return graph.call(
            layer.operator.upper(),
            found.numbers,
            layer.output.name,
            like,
            shape=found.shape,
            options=PLAIN,
        )


class Operands:
    """The tensors of operands, in one order of values, and the shape of their result."""

    def __init__(self, numbers: list[int], like: Value, shape: tuple[int, ...]) -> None:
        self.numbers, self.like, self.shape = numbers, like, shape


def operands(layer: Layer, terms: Sequence[Array | None], graph: Graph, inputs: Sequence[Value]) -> Operands:
    """Return the activations and the constants of a layer, which TFLite repeats along axes of size 1."""
    values = _aligned(layer, graph, inputs)
    image = values[0].image
    shape = (1, *layer.output.shape) if image is None else _stored(image_of(layer.output.shape))
    like = Value(values[0].tensor, shape, values[0].dtype, None if image is None else image_of(layer.output.shape))
    numbers, rest = [], iter(values)
    for position, term in enumerate(terms):
        if term is None:
            numbers.append(next(rest).tensor)
        else:
            numbers.append(broadcast(graph, term, layer, like, f"{layer.output.name}/term_{position}"))
    return Operands(numbers, like, shape)


def _aligned(layer: Layer, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    rank = len(layer.output.shape)
    as_images = 1 < rank <= IMAGE_AXES and any(value.image for value in inputs)
    aligned = []
    for value, source in zip(inputs, layer.inputs, strict=True):
        padded = (*(1,) * (rank - len(source.shape)), *source.shape)
        aligned.append(graph.as_image(value, image_of(padded)) if as_images else graph.plain(value, (1, *padded)))
    return aligned


def _stored(image: tuple[int, int, int]) -> tuple[int, ...]:
    return (1, *image[1:], image[0])
