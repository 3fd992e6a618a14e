"""The loops of dense operators in MLIR, for codes and for float32."""

from __future__ import annotations

from harness.operators.linear import Linear
from harness.targets.iree.builder import Body, Function, Value


def dense(
    layer: Linear,
    function: Function,
    x: Value,
    bias: Value,
    body: Body,
    others: tuple[Value, ...] = (),
    *,
    products: bool = False,
) -> Value:
    """Return sums (rows, N) of x (rows, K), from the bias (N,) on, over k = 0 to K - 1.

    The body gets an input, its weight, an element of each of the `others` (N,), then the sum so far.
    """
    depth, width = layer.weights.shape
    rows = function.reshape(x, (x.size // depth, depth))
    weights = function.constant("weights", layer.weights)
    init = function.repeated(bias, "d1", (rows.shape[0], width), products=products)
    factors = [(rows, "d0, d2"), (weights, "d2, d1"), *((each, "d1") for each in others)]
    return function.loops(init, factors, body, 1, products=products)
