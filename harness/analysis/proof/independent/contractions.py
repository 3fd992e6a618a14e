"""Sums of products: weights, bias and scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader, integers, row
from harness.core.arrays import Array
from harness.operators.scaled_sum import Scales


def _qgemm(node: Node) -> Constants:
    """Read com.microsoft QGemm: a, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point."""
    weights = np.asarray(node.inputs[3])
    return _quantised_sum(
        weights.T if node.attributes.get("transB") else weights,
        node.inputs[1:3] + node.inputs[4:6] + node.inputs[7:9],
        node.inputs[6],
        node.attributes.get("alpha", 1.0),
    )


def _qlinear_matmul(node: Node) -> Constants:
    """Read QLinearMatMul: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point."""
    return _quantised_sum(np.asarray(node.inputs[3]), node.inputs[1:3] + node.inputs[4:8], None)


def _qlinear_conv(node: Node) -> Constants:
    """Read QLinearConv: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B."""
    weights = np.asarray(node.inputs[3])
    return _quantised_sum(weights.reshape(len(weights), -1).T, node.inputs[1:3] + node.inputs[4:8], node.inputs[8])


def _quantised_sum(weights: Array, steps: Sequence[Array | None], bias: Array | None, alpha: float = 1) -> Constants:
    """Return the constants of a sum of `weights` (K, N); `steps` are scale and zero point of a, of b and of y."""
    a_scale, a_zero_point, b_scale, b_zero_point, y_scale, y_zero_point = steps
    width = weights.shape[1]
    constants: Constants = {
        "weights": weights,
        "bias": np.zeros(width, np.int32) if bias is None else row(bias, width),
        "weights_zero_point": integers(b_zero_point, width),
        "input_zero_point": integers(a_zero_point),
        "alpha": np.array([alpha], np.float32),
        "a_scale": row(a_scale),
        "b_scale": row(b_scale, width),
    }
    if y_scale is not None:
        constants |= {"y_scale": row(y_scale), "output_zero_point": integers(y_zero_point)}
    to_code = None if y_scale is None else constants["y_scale"][0]
    scales = Scales(np.float32(alpha), constants["a_scale"][0], constants["b_scale"], to_code)
    return constants | {"multiplier": scales.multiplier_bits().view(np.float32)}


def _mat_mul(node: Node) -> Constants:
    """Read MatMul: A, B, one of which can be a constant."""
    if node.inputs[1] is not None:
        return _gemm(node)
    return {} if node.inputs[0] is None else {"a": np.asarray(node.inputs[0]).reshape(-1)}


def _gemm(node: Node) -> Constants:
    """Read Gemm or MatMul: A, B, C."""
    weights = np.asarray(node.inputs[1])
    alpha, beta = (np.float32(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    tables = _float_sum(weights.T if node.attributes.get("transB") else weights, node.inputs[2])
    return {"weights": alpha * tables["weights"], "bias": beta * tables["bias"]}


def _conv(node: Node) -> Constants:
    """Read Conv: X, W, B."""
    weights = np.asarray(node.inputs[1])
    groups = np.array([node.attributes.get("group", 1)])
    return {**_float_sum(weights.reshape(len(weights), -1).T, node.inputs[2]), "groups": groups}


def _conv_transpose(node: Node) -> Constants:
    """Read ConvTranspose: X, W (channels, M / groups, kernel), B; a sum has the channels of one group."""
    weights_of_file, groups = np.asarray(node.inputs[1]), node.attributes.get("group", 1)
    parts = np.split(weights_of_file.reshape(*weights_of_file.shape[:2], -1), groups)
    weights = np.concatenate([part.swapaxes(1, 2).reshape(-1, weights_of_file.shape[1]) for part in parts], axis=1)
    return {**_float_sum(weights, node.inputs[2]), "groups": np.array([groups])}


def _float_sum(weights: Array, bias: Array | None) -> Constants:
    """Return the constants of a float32 sum of `weights` (K, N)."""
    width = weights.shape[1]
    return {"weights": weights, "bias": np.zeros(width, np.float32) if bias is None else row(bias, width)}


READERS: dict[str, Reader] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _mat_mul,
    "QGemm": _qgemm,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
}
