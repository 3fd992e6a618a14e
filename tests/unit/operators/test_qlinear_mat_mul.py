"""QLinearMatMul against ONNX Runtime: random configurations, refusals, wrong variants, accumulators alone."""

from __future__ import annotations

import re
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import pytest

from harness.core.errors import ReferenceFailed, RequestError
from harness.operators.contraction import Contraction
from harness.reference import exhaustive
from tests.support.codes import (
    COUNTS,
    assert_agree,
    assert_agree_at_random,
    layer_of,
    node,
    random_codes,
    random_dtype,
    random_scales,
    random_zero_points,
)
from tests.support.images import every_operator

F32 = np.float32
NODE = node("QLinearMatMul", "a", "sa", "za", "b", "sb", "zb", "sy", "zy")


def agree_at_random(rng: np.random.Generator) -> None:
    dtype = random_dtype(rng)
    weights = np.dtype("int8") if dtype == np.int8 else random_dtype(rng)
    depth, width = (int(size) for size in rng.integers(1, 40, 2))
    columns = width if rng.random() < 0.5 else 1
    (sa, sy), (za, zy) = random_scales(rng, 2), random_zero_points(rng, 2, dtype)
    sb, zb = random_scales(rng, columns), random_zero_points(rng, columns, weights)
    if columns == 1 and rng.random() < 0.5:
        sb, zb = sb[0], zb[0]
    b = random_codes(rng, weights, depth, width)
    given = {"sa": sa, "za": za, "b": b, "sb": sb, "zb": zb, "sy": sy, "zy": zy}
    assert_agree(NODE, given, {"a": random_codes(rng, dtype, 40, depth)})


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(agree_at_random, count)


X = random_codes(np.random.default_rng(0), np.dtype("uint8"), 20_000, 3)
B = np.array([[1, -2, 3, 5], [3, 1, -1, 2], [2, 2, 1, -4]], np.int8)
CONFIGURATIONS: list[dict[str, Any]] = [
    {"sa": F32(sa), "za": np.uint8(za), "b": B, "sb": np.float32(sb), "zb": np.int8(zb), "sy": F32(sy),
     "zy": np.uint8(zy)}
    for sa, sb, sy, za, zb, zy in (
        (0.5, 0.25, 1, 100, 0, 3), (19 / 47, 15 / 47, 1 / 3, 131, 2, 99), (0.1, 0.07, 0.013, 120, -1, 8),
        (38 / 55, [46 / 55, 1 / 7, 1 / 3, 2 / 3], 34 / 19, 117, [1, 0, -1, 2], 128),
        (33 / 8, 3 / 8, 39 / 8, 123, 0, 129), (33 / 29, 1 / 29, 24 / 29, 120, 1, 130),
        (54 / 40, 18 / 40, 54 / 40, 110, -1, 130),
    )
]  # fmt: skip


@pytest.mark.parametrize("given", CONFIGURATIONS)
def test_products_near_ties_agree(given: dict[str, Any]) -> None:
    assert assert_agree(NODE, given, {"a": X}) is not None


REFUSED: dict[str, tuple[dict[str, Any], tuple[int, ...], str, str]] = {
    "weights": ({"b": B.T}, (3,), r"'y' .*weights have shape \(4, 3\), the input has width 3", r"\(K, N\) with K = 3"),
    "images": ({}, (1, 3), r"shape \(vectors, 1, 3\)", r"\(vectors, 3\): Flatten it"),
    "scales": ({"sb": np.float32([1, 2, 3])}, (3,), r"shapes \(3,\) and \(\)", r"\(\), \(1,\) or \(4,\)"),
    "multiplier": ({"sa": F32(1e-30), "sy": F32(1e30)}, (3,), "multiplier .* is 0.0", "normal float32"),
    "type": ({"zy": np.int8(3)}, (3,), "zero point of y is int8", "uint8 is accepted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    changed, shape, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(NODE, CONFIGURATIONS[0] | changed, {"a": np.zeros((1, *shape), np.uint8)})
    assert re.search(hint, caught.value.hint)


def test_sums_beyond_int32_are_refused() -> None:
    given = CONFIGURATIONS[0] | {"b": np.full((70_000, 1), -128, np.int8), "zb": np.int8(127)}
    with pytest.raises(RequestError, match="accumulator of column 0 can reach"):
        layer_of(NODE, given, {"a": np.zeros((1, 70_000), np.uint8)})


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_onnx_runtime_computes_every_accumulator_alone(dtype: str) -> None:
    """Confirm contractions over vectors and images; find a wrong zero point."""
    net = every_operator(dtype)
    for name in ("columns", "other_columns", "mean", "whole", "conv"):
        layer = next(layer for layer in net.layers if layer.name == name)
        exhaustive.confirm(net, layer, Event())
        assert isinstance(layer, Contraction)
        wrong = replace(layer, y_zero_point=layer.y_zero_point + 1)
        with pytest.raises(ReferenceFailed, match=rf"layer '{name}', column \d+, input"):
            exhaustive.confirm(net, wrong, Event())
