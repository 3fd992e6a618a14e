"""Other orders and roundings of float operators, written here a second time, are named by the diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from tests.support.codes import layer_of, node
from tests.support.diagnosis.layers import causes, found

FLOAT = np.float32
RNG = np.random.default_rng(0)
X = RNG.normal(0, 1, (60, 4, 5, 6)).astype(FLOAT)
WEIGHTS, BIAS = RNG.normal(size=(4, 3, 3, 2)).astype(FLOAT), RNG.normal(size=3).astype(FLOAT)
MATRIX, SLOPES = RNG.normal(size=(6, 7)).astype(FLOAT), FLOAT([-0.3, 0.7, 1.9, 0.1]).reshape(4, 1, 1)
SIZES = np.array([9, 11])


def linear_rows_first() -> Array:
    """Linear interpolation with align_corners, between the rows first."""
    rows, columns = (np.arange(n, dtype=FLOAT) * FLOAT(size - 1) / FLOAT(n - 1) for n, size in ((9, 5), (11, 6)))
    (r, dr), (c, dc) = ((at.astype(int), at - np.floor(at)) for at in (rows, columns))
    r1, c1 = np.minimum(r + 1, 4), np.minimum(c + 1, 5)
    ends = X[:, :, r] * (1 - dr)[:, None] + X[:, :, r1] * dr[:, None]
    return ends[..., c] * (1 - dc) + ends[..., c1] * dc


def reversed_mean() -> Array:
    total = np.zeros((60, 4), FLOAT)
    for i in range(4, -1, -1):
        for j in range(5, -1, -1):
            total = total + X[:, :, i, j]
    return total / FLOAT(30)


def sum_in_order() -> Array:
    total = np.zeros((60, 4), FLOAT)
    for i in range(5):
        for j in range(6):
            total = total + X[:, :, i, j]
    return total


def base_of_lrn(order: int) -> Array:
    """2 + 0.1 * the sum of the squares of three channels, from the first (1) or the last (-1) on."""
    base = np.zeros_like(X)
    for channel in range(4):
        for other in range(max(channel - 1, 0), min(channel + 2, 4))[::order]:
            base[:, channel] += X[:, other] * X[:, other]
    return FLOAT(2) + FLOAT(0.3) / FLOAT(3) * base


def by_roots(d: Array) -> Array:
    return np.sqrt(d) * np.sqrt(np.sqrt(d))


def transposed(*, channels_first: bool) -> Array:
    """ConvTranspose: by place of the kernel and then channel, or the channels first and the bias last."""
    y = np.zeros((60, 3, 7, 7), FLOAT)
    if not channels_first:
        y += BIAS[:, None, None]
    for i in range(3):
        for j in range(2):
            part = np.zeros((60, 3, 5, 6), FLOAT)
            for channel in range(4):
                product = X[:, channel, None] * WEIGHTS[channel, :, i, j][:, None, None]
                if channels_first:
                    part = part + product
                else:
                    y[:, :, i : i + 5, j : j + 6] += product
            if channels_first:
                y[:, :, i : i + 5, j : j + 6] += part
    return y + BIAS[:, None, None] if channels_first else y


def rows_reversed() -> Array:
    y = np.zeros((60, 4, 5, 7), FLOAT)
    for k in range(5, -1, -1):
        y = y + X[..., k, None] * MATRIX[k]
    return y


RESIZE = node("Resize", "x", "", "", "sizes", mode="linear", axes=[2, 3],
              coordinate_transformation_mode="align_corners")  # fmt: skip
MEAN = node("ReduceMean", "x", "axes", keepdims=0)
BASE = "bias[] + factor[] * s[c, p]"
POWER = f"sqrt({BASE}) * sqrt(sqrt({BASE}))"
LRN = node("LRN", "x", size=3, alpha=0.3, beta=0.75, bias=2.0)
TRANSPOSE = node("ConvTranspose", "x", "w", "b")
GIVEN: dict[str, Any] = {"sizes": SIZES, "axes": np.array([2, 3]), "w": WEIGHTS, "b": BIAS, "m": MATRIX, "s": SLOPES}
WRONG: list[tuple[Any, str, Callable[[], Array]]] = [
    (RESIZE, "the rows are interpolated first", linear_rows_first),
    (MEAN, "the terms are added from the last to the first", reversed_mean),
    (MEAN, "in y: s[i] is multiplied by 1 / count[] in s[i] / count[]",
     lambda: sum_in_order() * (FLOAT(1) / FLOAT(30))),
    (MEAN, "in y: count[] is left out of s[i] / count[]", sum_in_order),
    (node("ReduceMax", "x", "axes", keepdims=0), "the value at the other end is taken", lambda: X.min(axis=(2, 3))),
    (LRN, "the terms are added from the last to the first", lambda: X / by_roots(base_of_lrn(-1))),
    (LRN, f"in y: x[c, p] is multiplied by 1 / ({POWER}) in x[c, p] / ({POWER})",
     lambda: X * (FLOAT(1) / by_roots(base_of_lrn(1)))),
    (LRN, "the power is the float32 nearest to it",
     lambda: X / (base_of_lrn(1).astype(np.float64) ** 0.75).astype(FLOAT)),
    (TRANSPOSE, "the channels are added first, then the places of the kernel (col2im)",
     lambda: transposed(channels_first=True)),
    (TRANSPOSE, "the products are added by row, column and channel (im2col)", lambda: transposed(channels_first=False)),
    (node("MatMul", "x", "m"), "the terms are added from the last to the first", rows_reversed),
    (node("PRelu", "x", "s"), "the first value of slope is taken for all", lambda: np.where(X < 0, X * FLOAT(-0.3), X)),
    (node("PRelu", "x", "s"), "all numbers are multiplied", lambda: X * SLOPES),
]  # fmt: skip


@pytest.mark.parametrize(("proto", "cause", "wrong"), WRONG, ids=[f"{each[0].op_type}: {each[1]}" for each in WRONG])
def test_another_order_is_named(proto: Any, cause: str, wrong: Callable[[], Array]) -> None:
    constants = {name: GIVEN[name] for name in proto.input if name in GIVEN}
    layer = layer_of(proto, constants, {"x": X})
    actual = wrong()
    assert actual.dtype == FLOAT
    assert causes(found(layer, X.reshape(60, -1), actual.reshape(60, -1))) == [cause]
