"""Networks of tables: scalers, linear models, trees, centres, mixtures and dynamic quantisation."""

from __future__ import annotations

import numpy as np

from tests.support.exports.writer import Export


def table(g: Export, columns: int = 4) -> str:
    """Add a row of a table as input."""
    return g.input("batch", columns)


def scaled_classifier(g: Export) -> str:
    x = g.op("Scaler", table(g), domain="ai.onnx.ml", offset=[0.1, 0.2, 0.3, 0.4], scale=[1.0, 2.0, 0.5, 4.0])
    options = {"coefficients": [0.5, -1.0, 0.25, 2.0] * 3, "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [0, 1, 2]}
    return g.ops(2, "LinearClassifier", x, domain="ai.onnx.ml", post_transform="SOFTMAX", **options)[1]


def linear_regressor(g: Export) -> str:
    return g.op("LinearRegressor", table(g), domain="ai.onnx.ml", coefficients=[0.5, -1.0, 0.25, 2.0], intercepts=[0.5])


def tree_regressor(g: Export) -> str:
    nodes = {
        "nodes_treeids": [0] * 5, "nodes_nodeids": [*range(5)], "nodes_featureids": [0, 1, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ"] * 2 + ["LEAF"] * 3, "nodes_values": [0.5, -0.25, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 3, 0, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0],
    }  # fmt: skip
    leaves = {"target_treeids": [0] * 3, "target_nodeids": [2, 3, 4], "target_ids": [0] * 3}
    weights = {"target_weights": [1.0, 2.0, 3.0], "n_targets": 1}
    return g.op("TreeEnsembleRegressor", table(g), domain="ai.onnx.ml", **nodes, **leaves, **weights)


def normalised_rows(g: Export) -> str:
    return g.gemm(g.op("Normalizer", table(g), domain="ai.onnx.ml", norm="L2"), 4, 3)


def principal_components(g: Export) -> str:
    return g.op("MatMul", g.op("Sub", table(g), g.weight(4)), g.weight(4, 2))


def nearest_centre(g: Export) -> str:
    distance = g.op("Sub", g.op("Unsqueeze", table(g), g.constant([1])), g.weight(1, 3, 4))
    return g.op("ArgMin", g.op("ReduceSumSquare", distance, axes=[2], keepdims=0), axis=1, keepdims=0)


def mixture(g: Export) -> str:
    difference = g.op("Sub", g.op("Unsqueeze", table(g), g.constant([1])), g.weight(1, 3, 4))
    squares = g.op(
        "ReduceSum", g.op("Mul", g.op("Mul", difference, difference), g.weight(1, 3, 4)), g.constant([2]), keepdims=0
    )
    return g.op("LogSoftmax", g.op("Mul", squares, g.number(-0.5)), axis=1)


def naive_bayes(g: Export) -> str:
    scores = g.gemm(g.op("Log", g.op("Clip", table(g), g.number(1e-6), g.number(1e6))), 4, 3)
    return g.op("Exp", g.op("Sub", scores, g.op("ReduceLogSumExp", scores, axes=[1])))


def kernel_machine(g: Export) -> str:
    difference = g.op("Sub", g.op("Unsqueeze", table(g), g.constant([1])), g.weight(1, 5, 4))
    squares = g.op("ReduceSumSquare", difference, axes=[2], keepdims=0)
    return g.gemm(g.op("Exp", g.op("Mul", squares, g.number(-0.5))), 5, 1)


def chosen_columns(g: Export) -> str:
    x = g.op("Gather", table(g, 6), g.constant([0, 2, 5]), axis=1)
    return g.op("Where", g.op("Greater", x, g.number(0)), g.gemm(x, 3, 3), x)


def dynamic_quantisation(g: Export) -> str:
    x, scale, zero_point = g.ops(3, "DynamicQuantizeLinear", g.input(1, 4))
    weights = g.initializer(np.arange(-6, 6).reshape(4, 3), np.int8)
    sums = g.op("MatMulInteger", x, weights, zero_point)
    return g.op("Mul", g.op("Cast", sums, to=1), g.op("Mul", scale, g.number(0.02)))
