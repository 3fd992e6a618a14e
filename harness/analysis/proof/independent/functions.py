"""Functions of one value: attributes, bounds and slopes."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader, no_constants, row


def _numbers(**defaults: float) -> Reader:
    """Read attributes that are float32 numbers; `defaults` are those of ONNX."""
    return lambda node: {
        name: row(np.array(node.attributes.get(name, value), np.float32)) for name, value in defaults.items()
    }


def _bounds(node: Node) -> Constants:
    """Read Clip: min and max are inputs, or attributes before opset 11; without them all finite numbers are kept."""
    kept: Any = np.finfo(node.dtype) if node.dtype == np.float32 else np.iinfo(node.dtype)
    low, high = (
        node.attributes.get(name, getattr(kept, name)) if value is None else value
        for name, value in (("min", node.inputs[1]), ("max", node.inputs[2]))
    )
    bounds = [row(np.asarray(end, node.dtype)) for end in (low, high)]
    if node.dtype != np.float32 and node.dtype.itemsize > 1:
        return {"terms": np.concatenate(bounds)}
    return dict(zip(("low", "high"), bounds, strict=True))


def _slope(node: Node) -> Constants:
    """Read PRelu: x, slope."""
    return {"slope": np.asarray(node.inputs[1]).reshape(-1)}


WITHOUT_CONSTANTS = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Cos", "Cosh", "CumSum",
    "Dropout", "Erf", "Exp", "Floor", "Gelu", "HardSwish", "Log", "Mish", "Neg", "Pow", "Reciprocal", "Relu", "Round",
    "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
READERS: dict[str, Reader] = {
    **dict.fromkeys(WITHOUT_CONSTANTS, no_constants),
    "Celu": _numbers(alpha=1.0),
    "Clip": _bounds,
    "Elu": _numbers(alpha=1.0),
    "HardSigmoid": _numbers(alpha=0.2, beta=0.5),
    "LeakyRelu": _numbers(alpha=0.01),
    "PRelu": _slope,
    "Shrink": _numbers(lambd=0.5, bias=0.0),
    "Selu": _numbers(alpha=1.6732632, gamma=1.050701),
    "ThresholdedRelu": _numbers(alpha=1.0),
}
