"""All nodes of a file that an import does not take, with a way around each, before any shape is computed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import onnx

from harness import operators
from harness.core.errors import RequestError
from harness.model.importer import floating, fused, lowering, quantised
from harness.model.importer.graph import FOLDS, MOVES
from harness.operators.node import domain_of

PREPROCESS = "python -m onnxruntime.quantization.preprocess --skip_symbolic_shape true --input {file} --output {new}"
FOLD = f"fold it before: {PREPROCESS}"
FIXED_SHAPE = f"export with a fixed input shape, for one vector; then fold what depends on it: {PREPROCESS}"
QUANTISE = (
    "quantise it with calibration vectors: harness models quantize {file} --data VECTORS.npy -o NAME, or with "
    "onnxruntime.quantization.quantize_static, and import the result"
)
CUT = "remove it behind the scores: harness models import {file} --drop-final -o NAME"
SELECT = f"{CUT}; `harness models quantize --select {{select}}` adds it again"
FIRST = "at the start of the network, remove it: harness models import {file} --drop-first -o NAME"
RETRAIN = "train the network with Relu"
STATIC = (
    "static scales: quantise the float network again, with vectors of its input: harness models quantize FLOAT.onnx "
    "--data VECTORS.npy -o NAME"
)
UNROLL = "unroll its steps into layers of their own"
CURVED = "has no exact quantised operator in the harness"
RECTIFIER = "is a rectifier other than Relu"
NOT_DENSE = "is no dense layer"
FROM_DATA = "takes its scale from the data, so that no constant multiplier exists"

FLOATS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat", "Pad", "Sigmoid", "LeakyRelu", "Slice"),
        (NOT_DENSE, QUANTISE),
    ),
    **dict.fromkeys(("ReduceMean", "GlobalMaxPool"), (NOT_DENSE, f"GlobalAveragePool or MaxPool; then {QUANTISE}")),
    "ConvTranspose": (NOT_DENSE, f"Resize and Conv; then {QUANTISE}"),
    **dict.fromkeys(("Shape", "Gather", "Where", "Expand"), ("is not supported", FIXED_SHAPE)),
    **dict.fromkeys(("Tanh", "HardSigmoid", "Elu", "Selu", "Gelu", "Softplus", "Erf"), (CURVED, RETRAIN)),
    **dict.fromkeys(("PRelu", "ThresholdedRelu", "HardSwish", "Mish"), (RECTIFIER, RETRAIN)),
    "Softmax": (NOT_DENSE, CUT),
    **dict.fromkeys(("LogSoftmax", "Exp"), (CURVED, CUT)),
    **{operator: ("is no score", SELECT.replace("{select}", operator.lower())) for operator in ("ArgMax", "ArgMin")},
    **dict.fromkeys(("ZipMap", "ArrayFeatureExtractor", "LabelEncoder"), ("is no score", CUT)),
    **dict.fromkeys(("RNN", "LSTM", "GRU", "Loop", "If", "Scan"), ("is more than one layer", UNROLL)),
    "BatchNormalization": (
        "is not folded",
        f"export for inference with its factors folded into the layer before it: model.eval(), or {PREPROCESS}",
    ),
}
"""Operators that no float network may have: the reason and the way around."""
QUANTISED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"), (FROM_DATA, STATIC)),
    **dict.fromkeys(("Shape", "Gather", "Where", "Expand"), ("is not supported", FIXED_SHAPE)),
    **dict.fromkeys(("LogSoftmax", "Exp", "ZipMap", "LabelEncoder"), ("is not supported", CUT)),
    "Div": ("is not supported", FIRST),
    "BatchNormalization": ("is not folded", f"fold it into the layer before it and quantise again: {PREPROCESS}"),
}
"""Operators that no quantised network may have."""
OTHERWISE = "leave it out, or compute it before or after the network"
QUANTISERS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "QGemm")
SHOWN = 20  # operators in a message
NAMES = 4  # nodes of an operator in a message


@dataclass(frozen=True)
class Problem:
    """A node that is not supported: the reason and the way around."""

    node: str
    operator: str
    reason: str
    advice: str


def require_supported(model: onnx.ModelProto, name: str, file: str, also: Collection[tuple[str, str]] = ()) -> None:
    """Refuse a file with operators that no import takes, nor are among `also`; the message names all of them."""
    graph = model.graph
    found = list(_problems(graph, file, {*_accepted(graph), *also}))
    if not found:
        return
    accepted = ", ".join([floating.ACCEPTED, *(operator for _, operator in also)])
    if is_quantised(graph):
        accepted = f"{quantised.ACCEPTED}; {', '.join(operator for _, operator in operators.by_onnx_name())}"
    if len(found) == 1:
        [one] = found
        text = f"node {one.node!r} ({one.operator.rpartition('.')[2]}): {_described(one)}"
        raise RequestError(f"model {name!r}: {text}", f"{one.advice}; {accepted}")
    groups: dict[tuple[str, str, str], list[str]] = {}
    for problem in found:
        groups.setdefault((_described(problem), problem.operator, problem.advice), []).append(problem.node)
    lines = [f"\n  {_names(nodes)}: {reason}; {advice}" for (reason, _, advice), nodes in groups.items()]
    rest = [f"\n  and {len(lines) - SHOWN} other operators"] if len(lines) > SHOWN else []
    raise RequestError(
        f"model {name!r}: {len(found)} nodes are not supported:{''.join([*lines[:SHOWN], *rest])}", accepted
    )


def is_quantised(graph: onnx.GraphProto) -> bool:
    """Return whether an operator of the graph quantises, dequantises or multiplies integers."""
    names = {node.op_type for node in graph.node}
    return any(name.startswith("QLinear") or "Integer" in name or name in QUANTISERS for name in names)


def _described(problem: Problem) -> str:
    return problem.reason if problem.reason.startswith("computes") else f"operator {problem.operator} {problem.reason}"


def _names(nodes: Collection[str]) -> str:
    listed = list(nodes)
    more = f" and {len(listed) - NAMES} more" if len(listed) > NAMES else ""
    return f"node{'s' if len(listed) > 1 else ''} {', '.join(map(repr, listed[:NAMES]))}{more}"


def _problems(graph: onnx.GraphProto, file: str, accepted: Collection[tuple[str, str]]) -> Iterator[Problem]:
    """Yield the nodes that are not supported, in the order of the graph."""
    constants = {tensor.name for tensor in graph.initializer}
    is_integer = is_quantised(graph)
    known, unknown = (
        (QUANTISED, "is not supported in a quantised model") if is_integer else (FLOATS, "is not supported")
    )
    new = f"{file.rpartition('.')[0]}_new.onnx"
    for index, node in enumerate(graph.node):
        name = node.name or f"{node.op_type}_{index}"
        operator = ".".join(filter(None, (domain_of(node), node.op_type)))
        source = next((each for each in node.input if each and each not in constants), "")
        words = {"file": shlex.quote(file), "new": shlex.quote(new)}
        if not source and not domain_of(node):
            constants.update(node.output)
            if node.op_type not in FOLDS and node.op_type != "DequantizeLinear":
                yield Problem(name, operator, "computes a constant", FOLD.format_map(words))
        elif (domain_of(node), node.op_type) not in accepted:
            reason, advice = known.get(node.op_type, (unknown, OTHERWISE))
            yield Problem(name, operator, reason, advice.format_map(words))


def _accepted(graph: onnx.GraphProto) -> Collection[tuple[str, str]]:
    """Return domain and name of the operators that an import takes, of float or of quantised networks."""
    moves = [("", operator) for operator in MOVES]
    if not is_quantised(graph):
        return {*moves, *(("", operator) for operator in floating.READERS)}
    known: Mapping[tuple[str, str], object] = operators.by_onnx_name()
    return {
        *moves,
        *quantised.READERS,
        *fused.GROUPS,
        *known,
        *(("", operator) for operator in ("Split", *lowering.READERS)),
    }
