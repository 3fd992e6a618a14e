"""QLinearAveragePool against ONNX Runtime: random configurations, neighbours, refusals, wrong variants, faults."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
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
    specified,
)
from tests.support.images import random_windows

F32 = np.float32
INPUTS = ("x", "sx", "zx", "sy", "zy")


def constants(scales: Any, zero_points: Any, dtype: Any = "uint8") -> dict[str, Any]:
    """Quantisations of x and y."""
    named = dict(zip(("sx", "sy"), map(F32, scales), strict=True))
    return named | {name: np.array(z, dtype) for name, z in zip(("zx", "zy"), zero_points, strict=True)}


def agree_at_random(rng: np.random.Generator) -> None:
    dtype, axes = random_dtype(rng), int(rng.integers(1, 3))
    shape = [int(rng.integers(1, 5)), *rng.integers(1, 10, axes).tolist()]
    attributes = random_windows(rng, axes, dilated=False)
    if rng.random() < 0.5:
        attributes |= {"ceil_mode": int(rng.integers(2)), "count_include_pad": int(rng.integers(2))}
    given = constants(random_scales(rng, 2), random_zero_points(rng, 2, dtype), dtype)
    assert_agree(node("QLinearAveragePool", *INPUTS, **attributes), given, {"x": random_codes(rng, dtype, 10, *shape)})


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(agree_at_random, count)


@pytest.mark.parametrize("strides", [[1, 1], [2, 3]])
def test_a_window_of_the_whole_image_is_the_mean_of_integers(strides: list[int]) -> None:
    rng = np.random.default_rng(0)
    x = random_codes(rng, np.dtype("uint8"), 1000, 3, 4, 5)
    given = constants([19 / 47, 15 / 47], [131, 99])
    whole = node("QLinearAveragePool", *INPUTS, kernel_shape=[4, 5], strides=strides)
    layer = assert_agree(whole, given, {"x": x})
    assert isinstance(layer, QLinearGlobalAveragePool)
    padded = node("QLinearAveragePool", *INPUTS, kernel_shape=[4, 5], strides=[2, 2], pads=[0, 0, 1, 1])
    other = assert_agree(padded, given, {"x": x})
    assert isinstance(other, QLinearAveragePool)
    assert (specified(other, {"x": x}) != specified(layer, {"x": x})).any()


X = np.concatenate([random_codes(np.random.default_rng(0), np.dtype("uint8"), 300, 2, 5, 5),
                    np.random.default_rng(1).integers(120, 150, (300, 2, 5, 5)).astype(np.uint8)])  # fmt: skip
SCALES = [constants([1, 0.25], [128, 128]), constants([1.5, 0.5], [100, 3]), constants([0.1, 0.07], [140, 21]),
          constants([19 / 47, 15 / 47], [131, 99]), constants([38 / 55, 46 / 55], [120, 7]),
          constants([1 / 3, 1 / 7], [90, 201])]  # fmt: skip
KERNEL = {"kernel_shape": [2, 3], "strides": [1, 2]}
PADDED = KERNEL | {"pads": [1, 1, 0, 2], "count_include_pad": 1}
CONFIGURATIONS = [(given, attributes) for given in SCALES for attributes in (KERNEL, PADDED)]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "channels last": ({"channels_last": 1}, {}, "'y' .*channels_last is 1", "channels_last 0"),
    "padding": ({"pads": [0, 3, 0, 0]}, {}, r"pads is \[0, 3, 0, 0\], the kernel \(2, 3\)", "smaller than the kernel"),
    "moved": (
        {"auto_pad": "SAME_UPPER", "kernel_shape": [1, 1], "strides": [3, 3]},
        {},
        "leaves out 2 values",
        "or pads",
    ),
    "kernel": ({"kernel_shape": [7, 3]}, {}, r"kernel of \(7, 3\) does not fit into \(6, 6\)", "smaller kernel"),
    "overflow": ({}, {"sx": F32(1e36)}, r"scale of x is 9.99.*e\+35", "could overflow"),
    "scale": ({}, {"sy": F32(0)}, "scale of y is 0", "normal float32"),
    "zero point": ({}, {"zx": np.int8(3)}, "zero point of x is int8", "uint8 is accepted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    attributes, changed, message, hint = REFUSED[case]
    proto = node("QLinearAveragePool", *INPUTS, **({"kernel_shape": [2, 3]} | attributes))
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(proto, SCALES[1] | changed, {"x": np.zeros((1, 2, 6, 6), np.uint8)})
    assert re.search(hint, caught.value.hint)


@pytest.mark.slow
def test_ties_and_faults_are_found() -> None:
    changed: dict[str, int] = {}
    for given, attributes in CONFIGURATIONS:
        layer, x = (
            assert_agree(node("QLinearAveragePool", *INPUTS, **attributes), given, {"x": X}),
            X.reshape(len(X), -1),
        )
        assert layer is not None
        right, ties = layer.stimuli.find_ties()(x)
        assert (right == layer.prepare()(x)).all()
        few = layer.in_integers([x])
        assert few is not None
        np.testing.assert_array_equal(few, right[: len(few)])
        v = layer.before_rounding(x)
        assert v is not None
        assert ((v - np.floor(v) == 0.5) == ties).all()
        assert given is not SCALES[1] or ties.sum() > 100
        for model in layer.fault_models(x):
            assert model.output.shape == right.shape
            assert model.output.dtype == right.dtype
            changed[model.cause] = changed.get(model.cause, 0) + int((model.output != right).sum())
    assert {cause for cause, count in changed.items() if not count} == set()
    assert len(changed) > 22
