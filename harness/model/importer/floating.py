"""A float ONNX network as it comes in the wild -> the steps that it takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.importer.graph import MOVES, Graph, Link, chain, matrix
from harness.model.importer.steps import Floats64, Product, Relu, Scaling, Shift, Step
from harness.operators.batch_normalization import DEFAULT_EPSILON
from harness.operators.node import element_type

ACCEPTED = (
    "accepted: MatMul, Gemm, Add, Sub, Mul, Div, BatchNormalization, Relu, Clip at 0, and what only renames axes "
    "(Reshape, Flatten)"
)


def steps_of(graph: Graph) -> list[Step]:
    """Return the network's steps; nodes without an effect are omitted.

    Raises RequestError, with the node and the accepted operators, for all but a chain of dense layers and ReLU.
    """
    links = chain(graph)
    if not links:
        raise RequestError(f"model {graph.name!r} has no layer that computes", ACCEPTED)
    if graph.outputs != [links[-1].output]:
        names = ", ".join(map(repr, graph.outputs)) or "nothing"
        raise RequestError(
            f"model {graph.name!r} gives out {names}", f"one output, the last layer's: {links[-1].output!r}"
        )
    return [step for link in links for step in _read(graph, link)]


def _read(graph: Graph, link: Link) -> list[Step]:
    operator = link.node.operator  # `unsupported` refused all others
    return [] if operator in MOVES else READERS[operator](graph, link)


def _constant(graph: Graph, link: Link, position: int) -> Array:
    """Return a constant of the graph's type, float64; each of its values is one of float32."""
    name = link.node.inputs[position]
    values = link.node.constant(position, "constant", [graph.dtype])
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    for strange, reason in ((~np.isfinite(values), "are not finite"), (rounded != values, "are no float32 numbers")):
        if strange.any():
            first = values[strange].reshape(-1)[0]
            raise link.node.refusal(
                f"{np.count_nonzero(strange)} values of {name!r} {reason}, the first {first!s}",
                "finite constants that float32 has: convert the network to float32 before, and check it then",
            )
    return values.astype(np.float64)


def _matmul(graph: Graph, link: Link) -> list[Step]:
    weight = matrix(link, _constant(graph, link, 1 - link.position))
    return [Product(link.node.name, weight, np.zeros(weight.shape[1]))]


def _gemm(graph: Graph, link: Link) -> list[Step]:
    attributes = link.node.attributes({"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0})
    alpha, beta = (float(np.float32(attributes[name])) for name in ("alpha", "beta"))
    weight = matrix(link, _constant(graph, link, 1 - link.position))
    bias = np.zeros(weight.shape[1])
    if link.node.has(2):
        bias = _spread(link, _constant(graph, link, 2), link.output_shape)
    return [
        Product(link.node.name, alpha * weight, beta * bias, factored=alpha != 1 or (beta != 1 and bool(bias.any())))
    ]


def _spread(link: Link, values: Array, shape: tuple[int, ...]) -> Floats64:
    """Return the constant as one value for each of the vector's, (N,)."""
    try:
        return np.broadcast_to(values, shape).reshape(-1).astype(np.float64)
    except ValueError as error:
        raise link.node.refusal(f"a constant has shape {values.shape}", f"one that broadcasts to {shape}") from error


def _operand(graph: Graph, link: Link) -> Floats64:
    return _spread(link, _constant(graph, link, 1 - link.position), link.output_shape)


def _add(graph: Graph, link: Link) -> list[Step]:
    return [Shift(link.node.name, _operand(graph, link))]


def _sub(graph: Graph, link: Link) -> list[Step]:
    operand = _operand(graph, link)
    if link.position == 0:
        return [Shift(link.node.name, -operand)]
    return [Scaling(link.node.name, np.full(len(operand), -1.0)), Shift(link.node.name, operand)]


def _mul(graph: Graph, link: Link) -> list[Step]:
    return [Scaling(link.node.name, _operand(graph, link))]


def _div(graph: Graph, link: Link) -> list[Step]:
    if link.position == 1:
        raise link.node.refusal("divides by the vector", "the vector divided by a constant")
    operand = _operand(graph, link)
    if not operand.all():
        raise link.node.refusal("divides by 0", "divisors other than 0")
    return [Scaling(link.node.name, 1 / operand)]


def _batch_normalization(graph: Graph, link: Link) -> list[Step]:
    """Return the steps of inference, ((x - mean) / deviation) * scale + B.

    The mean is taken away twice and added once: the bound is then that of x * s + (B - mean * s), too, which ONNX
    Runtime computes with s = scale / deviation (harness/operators/batch_normalization.py).
    """
    attributes = link.node.attributes({"epsilon": DEFAULT_EPSILON, "momentum": 0.9, "training_mode": 0})
    shape = [1, -1, *[1] * (len(link.shape) - 2)]
    scale, offset, mean, variance = (
        _spread(link, _constant(graph, link, position).reshape(shape), link.output_shape) for position in range(1, 5)
    )
    if link.position or attributes["training_mode"] or not (variance + attributes["epsilon"] > 0).all():
        raise link.node.refusal("is not that of inference with constants", "variances above -epsilon")
    name, deviation = link.node.name, np.sqrt(variance + attributes["epsilon"])
    means = [Shift(name, -mean), Shift(name, mean), Shift(name, -mean)]
    return [*means, Scaling(name, 1 / deviation), Scaling(name, scale), Shift(name, offset)]


def _relu(_graph: Graph, link: Link) -> list[Step]:
    return [Relu(link.node.name)]


def _clip(graph: Graph, link: Link) -> list[Step]:
    given = {entry.name: onnx.helper.get_attribute_value(entry) for entry in link.node.proto.attribute}
    low, high = given.get("min", -np.inf), given.get("max", np.inf)  # inputs from opset 11 on
    low = link.node.single(1, "minimum", [graph.dtype]) if link.node.has(1) else low
    high = link.node.single(2, "maximum", [graph.dtype]) if link.node.has(2) else high
    if low != 0 or not high >= np.finfo(graph.dtype).max:
        raise link.node.refusal(f"clips to {low} .. {high}", "a minimum of 0 and no maximum, which is Relu")
    return [Relu(link.node.name)]


def _cast(graph: Graph, link: Link) -> list[Step]:
    to = onnx.helper.get_attribute_value(next(entry for entry in link.node.proto.attribute if entry.name == "to"))
    if to != onnx.helper.np_dtype_to_tensor_dtype(graph.dtype):
        raise link.node.refusal(
            f"casts {graph.dtype} to {element_type(to)}", f"one type from the input on: {graph.dtype}"
        )
    return []


READERS: dict[str, Callable[[Graph, Link], list[Step]]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "BatchNormalization": _batch_normalization,
    "Relu": _relu,
    "Clip": _clip,
    "Cast": _cast,
}
