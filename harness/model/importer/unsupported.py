"""The first node of a file that an import does not take, before any shape is computed."""

from __future__ import annotations

from collections.abc import Collection

import onnx

from harness import operators
from harness.core.errors import RequestError
from harness.model.importer import floating, fused, lowering, quantised
from harness.model.importer.graph import FOLDS, MOVES
from harness.operators.node import domain_of

FROM_SHAPES = "a fixed input shape, for one vector: what depends on it only is computed then"
UNROLL = "its steps as layers of their own"
ADVICE = {
    **dict.fromkeys(("Shape", "Gather", "Range", "ConstantOfShape"), FROM_SHAPES),
    **dict.fromkeys(("RNN", "LSTM", "GRU", "Loop", "Scan"), UNROLL),
    "If": "a condition that follows from shapes and constants",
    **dict.fromkeys(
        ("DynamicQuantizeLinear", "DynamicQuantizeLSTM"),
        "static scales: quantise the float network again, with vectors of its input",
    ),
}
"""Operators that no network may have, and what can stand for them."""
REASONS = {
    "Loop": "has a count or a condition that depends on the data",
    "If": "has a condition that depends on the data",
    **dict.fromkeys(
        ("DynamicQuantizeLinear", "DynamicQuantizeLSTM"),
        "takes its scale from the data, so that no constant multiplier exists",
    ),
}
OTHERWISE = "leave it out, or compute it before or after the network"
QUANTISERS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "QGemm")


def require_supported(model: onnx.ModelProto, name: str, *, dense: bool = False) -> None:
    """Refuse the first node that no import takes, or, if `dense`, that is no dense layer."""
    graph, accepted = model.graph, _accepted(model.graph, dense=dense)
    constants = {tensor.name for tensor in graph.initializer}
    for index, node in enumerate(graph.node):
        text = f"model {name!r}: node {node.name or f'{node.op_type}_{index}'!r} ({node.op_type})"
        operator = ".".join(filter(None, (domain_of(node), node.op_type)))
        if not domain_of(node) and all(not source or source in constants for source in node.input):
            constants.update(node.output)
            if node.op_type not in FOLDS and node.op_type != "DequantizeLinear":
                raise RequestError(f"{text}: computes a constant whose bits ONNX does not fix", "store its value")
        elif (domain_of(node), node.op_type) not in accepted:
            chain = dense and not is_quantised(graph)
            reason = "is no dense layer" if chain else "is not supported"
            accepts = floating.ACCEPTED if chain else "`harness models operators` lists the supported operators"
            own = "put the package of the operator on the Python path, or " if domain_of(node) else ""
            raise RequestError(
                f"{text}: operator {operator} {REASONS.get(node.op_type, reason)}",
                f"{own}{ADVICE.get(node.op_type, OTHERWISE)}; {accepts}",
            )


def is_quantised(graph: onnx.GraphProto) -> bool:
    """Return whether an operator of the graph quantises, dequantises or multiplies integers."""
    names = {node.op_type for node in graph.node}
    return any(name.startswith("QLinear") or "Integer" in name or name in QUANTISERS for name in names)


def is_dense(graph: onnx.GraphProto) -> bool:
    """Return whether the graph has the operators of a network of dense layers only."""
    constants = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if all(source in constants for source in node.input if source):
            constants.update(node.output)
        elif domain_of(node) or node.op_type not in {*MOVES, *floating.READERS}:
            return False
    return True


def _accepted(graph: onnx.GraphProto, *, dense: bool) -> Collection[tuple[str, str]]:
    """Return domain and name of the operators that an import takes, of float or of quantised networks."""
    chains = {("", operator) for operator in (*MOVES, *floating.READERS)}
    if not is_quantised(graph):
        return chains if dense else {*chains, *operators.by_onnx_name()}
    moves = [("", operator) for operator in (*MOVES, "Split", *lowering.READERS)]
    return {*moves, *quantised.READERS, *fused.GROUPS, *operators.by_onnx_name()}
