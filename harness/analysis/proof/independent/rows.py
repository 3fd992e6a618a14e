"""Reductions and normalisations of rows."""

from __future__ import annotations

import math

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader, no_constants


def _share(node: Node) -> Constants:
    """Read GlobalAveragePool or ReduceMean: the number of values of a mean."""
    return {"count": np.array([math.prod(node.image) / node.width], np.float32)}


def _scaled_rows(node: Node) -> Constants:
    """Read LayerNormalization or InstanceNormalization: x, scale, bias."""
    scale = np.asarray(node.inputs[1]).reshape(-1)
    has_bias = len(node.inputs) > 2 and node.inputs[2] is not None
    bias = np.asarray(node.inputs[2]).reshape(-1) if has_bias else np.zeros(scale.shape, np.float32)
    is_layer = node.operator == "LayerNormalization"
    count = scale.size if is_layer else math.prod(node.image[1:])
    epsilon = np.float32(node.attributes.get("epsilon", 1e-5))
    return {"scale": scale, "bias": bias, "epsilon": np.array([epsilon]), "count": np.array([count], np.float32)}


WITHOUT_CONSTANTS = (
    "LogSoftmax", "LpNormalization", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "Softmax",
)  # fmt: skip
READERS: dict[str, Reader] = {
    **dict.fromkeys(WITHOUT_CONSTANTS, no_constants),
    "GlobalAveragePool": _share,
    "InstanceNormalization": _scaled_rows,
    "LayerNormalization": _scaled_rows,
    "ReduceMean": _share,
}
