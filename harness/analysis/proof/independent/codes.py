"""Operators of codes: steps, zero points and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.analysis.proof.independent.node import (
    CODES,
    OMITTED,
    Constants,
    Node,
    Reader,
    integers,
    repeats_first,
    row,
)
from harness.core.arrays import Array
from harness.operators.exact import fused


def _scaled(node: Node) -> Constants:
    """Read QuantizeLinear or DequantizeLinear: x, its scale and zero point."""
    return {
        "scale": row(node.inputs[1]),
        "zero_point": integers(np.zeros(1) if node.inputs[2] is None else node.inputs[2]),
    }


def _qlinear_add(node: Node) -> Constants:
    """Read com.microsoft QLinearAdd: a, its scale and zero point, b, its scale and zero point, those of y."""
    a, sa, za, b, sb, zb, sy, zy, *_ = node.inputs
    if repeats_first(node):  # ONNX Runtime exchanges the terms
        a, sa, za, b, sb, zb = b, sb, zb, a, sa, za
    first, second = row(sa) / row(sy), row(sb) / row(sy)
    zero_points = [row(each).astype(np.float32) for each in (za, zb, zy)]
    both = fused(first, zero_points[0], second * zero_points[1])
    constants: Constants = {"first_ratio": first, "second_ratio": second, "fixed": zero_points[2] - both}
    operand = b if a is None else a
    return constants if operand is None else constants | {"addend": _spread(operand, node)}


def _spread(value: Array, node: Node) -> Array:
    """Return a constant term as one value for each of the output."""
    axes = value.shape[max(value.ndim - len(node.shape), 0) :]
    return np.broadcast_to(value.reshape(axes), node.shape).reshape(-1).copy()


def _qlinear_mul(node: Node) -> Constants:
    """Read com.microsoft QLinearMul; its inputs are those of QLinearAdd, a constant is the second factor."""
    a, sa, za, b, sb, zb, sy, zy, *_ = node.inputs
    operand = b if a is None else a
    exchanged = a is not None or repeats_first(node)
    zero_points = (zb, za, zy) if exchanged else (za, zb, zy)
    constants: Constants = {"multiplier": row(sa) * row(sb) / row(sy)}
    constants |= {f"{name}_zero_point": integers(each) for name, each in zip("aby", zero_points, strict=True)}
    return constants if operand is None else constants | {"factor": _spread(operand, node)}


def _table(steps: Sequence[Array | None], dtype: np.dtype[Any], function: Callable[[Array], Array]) -> Array:
    """Return the outputs for all codes, from the lowest on; `steps` are scale and zero point of x and of y."""
    sx, zx, sy, zy = steps
    codes, limits = np.arange(CODES + 1) + np.iinfo(dtype).min, np.iinfo(dtype)
    with np.errstate(over="ignore"):
        v = function((codes - integers(zx)).astype(np.float32) * row(sx)) / row(sy)
    return np.asarray(np.clip(np.rint(v.astype(np.float64)) + integers(zy), limits.min, limits.max).astype(dtype))


def _leaky_table(node: Node) -> Constants:
    """Read com.microsoft QLinearLeakyRelu: x, its scale and zero point, those of y."""
    alpha = np.float32(node.attributes.get("alpha", 0.01))
    return {"table": _table(node.inputs[1:5], node.dtype, lambda d: np.where(d < 0, alpha * d, d))}


def _logistic_table(node: Node) -> Constants:
    """Read com.microsoft QLinearSigmoid: x, its scale and zero point, those of y."""
    return {"table": _table(node.inputs[1:5], node.dtype, _logistic)}


def _tables(node: Node) -> Constants:
    """Read com.microsoft QLinearConcat: scale and zero point of y, then of each input three; one row an input."""
    y, of_inputs = node.inputs[:2], node.inputs[2:-OMITTED]
    steps = [[*of_inputs[start + 1 : start + 3], *y] for start in range(0, len(of_inputs), 3)]
    return {"table": np.stack([_table(step, node.dtype, lambda d: d) for step in steps])}


def _qlinear_softmax(node: Node) -> Constants:
    """Read com.microsoft QLinearSoftmax: x, its scale and zero point, those of y; exponentials are those of math."""
    _, sx, _, sy, zy, *_ = node.inputs
    scale, largest = float(row(sx)[0]), np.finfo(np.float32).max
    shift = max(0.0, float(np.float32(math.log(largest / np.float32(node.shape[-1])))) - 5) / scale
    table = np.array([math.exp((place - CODES + shift) * scale) for place in range(CODES + 1)], np.float32)
    return {"table": table, "inverse": np.floor(np.float32(1) / row(sy)), "y_zero_point": integers(zy)}


def _logistic(d: Array) -> Array:
    """Return MLAS's polynomial for the logistic function (onnxruntime/core/mlas/lib/logistic.cpp) with FMA."""
    alpha = (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03,
             2.48287947061529e-01)  # fmt: skip
    beta = (6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03,
            1.16817656904453e-01, 9.93151921023180e-01)  # fmt: skip
    d = np.clip(d, np.float32(-18), np.float32(18))
    square = d * d
    p, q = (np.full_like(d, np.float32(coefficients[0])) for coefficients in (alpha, beta))
    for coefficient in alpha[1:]:
        p = fused(p, square, np.full_like(d, coefficient))
    for coefficient in beta[1:]:
        q = fused(q, square, np.full_like(d, coefficient))
    return np.clip(p * d / q + np.float32(0.5), np.float32(0), np.float32(1))


READERS: dict[str, Reader] = {
    "DequantizeLinear": _scaled,
    "QLinearAdd": _qlinear_add,
    "QLinearConcat": _tables,
    "QLinearLeakyRelu": _leaky_table,
    "QLinearMul": _qlinear_mul,
    "QLinearSigmoid": _logistic_table,
    "QLinearSoftmax": _qlinear_softmax,
    "QuantizeLinear": _scaled,
}
