"""QLinearGlobalAveragePool against ONNX Runtime: random configurations, refusals, wrong variants, faults."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.operators import contraction_proof
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
    runtime,
    specified,
)

F32 = np.float32
NODE = node("QLinearGlobalAveragePool", "x", "sx", "zx", "sy", "zy")


def constants(scales: Any, zero_points: Any, dtype: Any = "uint8") -> dict[str, Any]:
    """Quantisations of x and y."""
    named = dict(zip(("sx", "sy"), map(F32, scales), strict=True))
    return named | {name: np.array(z, dtype) for name, z in zip(("zx", "zy"), zero_points, strict=True)}


def agree_at_random(rng: np.random.Generator) -> None:
    dtype, axes = random_dtype(rng), int(rng.integers(1, 4))
    shape = [int(rng.integers(1, 6)), *rng.integers(1, 13, axes).tolist()]
    given = constants(random_scales(rng, 2), random_zero_points(rng, 2, dtype), dtype)
    x = random_codes(rng, dtype, 40, *shape)
    assert_agree(NODE, given, {"x": x})


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(agree_at_random, count)


X = np.concatenate([random_codes(np.random.default_rng(0), np.dtype("uint8"), 3000, 2, 2, 3),
                    np.random.default_rng(1).integers(120, 150, (3000, 2, 2, 3)).astype(np.uint8)])  # fmt: skip
CONFIGURATIONS = [
    constants([1, 0.25], [128, 128]),
    constants([1.5, 0.5], [100, 3]),
    constants([0.5, 1], [7, 129]),
    constants([0.1, 0.07], [140, 20]),
    constants([19 / 47, 15 / 47], [131, 99]),
    constants([38 / 55, 46 / 55], [120, 7]),
]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[int, ...], str, str]] = {
    "channels last": ({"channels_last": 1}, {}, (2, 2, 3), "'y' .*channels_last is 1", "channels_last 0"),
    "vectors": ({}, {}, (6,), r"shape \(vectors, 6\)", r"\(vectors, channels, height, width\)"),
    "large": ({}, {"sx": F32(1e4)}, (2, 2, 3), r"x_scale / .y_scale \* 6. is 6666.6", "less than 256"),
    "small": ({}, {"sx": F32(1e-11)}, (2, 2, 3), "is 6.66.*e-12", r"2\^-32 or more"),
    "scale": ({}, {"sy": F32(0)}, (2, 2, 3), "scale of y is 0", "normal float32"),
    "zero point": ({}, {"zy": np.int8(3)}, (2, 2, 3), "zero point of y is int8", "uint8 is accepted"),
    "sums": ({}, {"sx": F32(1e4)}, (1, 4000, 4000), "accumulator of column 0 can reach 0 to 4080000000", "int32"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    attributes, changed, shape, message, hint = REFUSED[case]
    proto = node("QLinearGlobalAveragePool", "x", "sx", "zx", "sy", "zy", **attributes)
    given = constants([0.5, 0.25], [0, 3]) | {"sy": F32(0.25)} | changed
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(proto, given, {"x": np.zeros((1, *shape), np.uint8)})
    assert re.search(hint, caught.value.hint)


def test_onnx_runtime_refuses_the_multipliers_that_are_refused() -> None:
    for scale in (1e-11, 1e4):
        given = constants([scale, 0.25], [0, 3])
        with pytest.raises(Exception, match="out of computation range"):
            runtime(NODE, given, {"x": X})
        with pytest.raises(RequestError, match="multiplier"):
            layer_of(NODE, given, {"x": X})


def test_every_fault_model_changes_some_values() -> None:
    changed: dict[str, int] = {}
    for given in CONFIGURATIONS:
        layer, right = assert_agree(NODE, given, {"x": X}), specified(layer_of(NODE, given, {"x": X}), {"x": X})
        assert layer is not None
        for model in layer.fault_models(X.reshape(len(X), -1)):
            assert model.output.shape == right.shape
            changed[model.cause] = changed.get(model.cause, 0) + int((model.output != right).sum())
    without = {cause for cause, count in changed.items() if not count}
    assert {"the channels are read as the last axis", "m = (x_scale / P) / y_scale"} <= changed.keys() - without
    assert all(re.search("bias|weights|16 bits|int16|1 / m", cause) for cause in without), without
    assert len(changed) > 50


def test_a_proof_drives_every_sum_to_its_bounds() -> None:
    layer = layer_of(NODE, CONFIGURATIONS[1], {"x": X})
    assert isinstance(layer, QLinearGlobalAveragePool)
    low, high = layer.accumulator_bounds()
    assert (low.tolist(), high.tolist()) == ([-600] * 2, [155 * 6] * 2)
    sums = layer.accumulate()(layer.extremes())
    assert (sums.min(axis=0).tolist(), sums.max(axis=0).tolist()) == (low.tolist(), high.tolist())
    alone = np.concatenate([codes for codes, _ in contraction_proof.single_codes(layer).cases()])
    assert alone.shape == (6 * 256, 12)
    assert ((alone != 100).sum(axis=1) <= 2).all()
