"""QLinearConv against ONNX Runtime: random configurations, refusals, wrong variants, faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
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
from tests.support.images import random_windows

F32 = np.float32
INPUTS = ("x", "sx", "zx", "w", "sw", "zw", "sy", "zy")


def agree_at_random(rng: np.random.Generator) -> None:
    dtype, axes = random_dtype(rng), int(rng.integers(1, 3))
    weights = np.dtype("int8") if dtype == np.int8 else random_dtype(rng)
    groups, inputs, outputs = int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    attributes = random_windows(rng, axes, dilated=True) | {"group": groups}
    width = groups * outputs
    (sx, sy), (zx, zy) = random_scales(rng, 2), random_zero_points(rng, 2, dtype)
    sw = random_scales(rng, width)
    given = {
        "sx": sx, "zx": zx, "sy": sy, "zy": zy, "sw": sw if rng.random() < 0.5 else sw[0],
        "w": random_codes(rng, weights, width, inputs, *attributes["kernel_shape"]),
        "zw": np.full(width if rng.random() < 0.5 else (), random_zero_points(rng, 1, weights)[0]),
    }  # fmt: skip
    if rng.random() < 0.6:
        given["b"] = rng.integers(-5000, 5000, width).astype(np.int32)
    if rng.random() < 0.5:
        del attributes["kernel_shape"]
    shape = [groups * inputs, *rng.integers(1, 9, axes).tolist()]
    proto = node("QLinearConv", *INPUTS, *(["b"] if "b" in given else []), **attributes)
    assert_agree(proto, given, {"x": random_codes(rng, dtype, 5, *shape)})


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(agree_at_random, count)


RNG = np.random.default_rng(0)
X = random_codes(RNG, np.dtype("uint8"), 60, 4, 6, 6)
ATTRIBUTES: dict[str, Any] = {"pads": [1, 0, 0, 2], "strides": [1, 1], "dilations": [1, 2], "group": 2}
GIVEN: dict[str, Any] = {
    "sx": F32(0.1), "zx": np.uint8(113), "w": RNG.integers(-9, 10, (6, 2, 3, 3)).astype(np.int8), "zw": np.int8(0),
    "sw": np.float32([0.3, 0.2, 0.1, 0.25, 0.15, 0.4]), "sy": F32(0.7), "zy": np.uint8(101),
    "b": RNG.integers(-300, 300, 6).astype(np.int32),
}  # fmt: skip


def convolution(x: Array, given: dict[str, Any], attributes: dict[str, Any], padding: int | None = None) -> Array:
    """The formula, written as loops over channels, positions and places of the kernel."""
    w, zx, groups = given["w"].astype(np.int64), int(given["zx"]), attributes["group"]
    (top, left, bottom, right), (down, across), (di, dj) = (
        attributes[name] for name in ("pads", "strides", "dilations")
    )
    outside = ((0, 0), (0, 0), (top, max(bottom, 0)), (left, right))
    padded = np.pad(x.astype(np.int64), outside, constant_values=zx if padding is None else padding) - zx
    padded = padded[:, :, : padded.shape[2] + min(bottom, 0)]
    rows = (padded.shape[2] - (w.shape[2] - 1) * di - 1) // down + 1
    columns = (padded.shape[3] - (w.shape[3] - 1) * dj - 1) // across + 1
    acc = np.zeros((len(x), len(w), rows, columns), np.int64) + given["b"][:, None, None]
    share, inputs = len(w) // groups, w.shape[1]
    for m, c, i, j in np.ndindex(w.shape):
        image = padded[:, attributes.get("of_channel", lambda m: m // share)(m) * inputs + c]
        part = image[:, i * di :: down, j * dj :: across][:, :rows, :columns]
        acc[:, m] += part * (w[m, c, i, j] - int(given["zw"]))
    return acc


def right_multiplier(sx: F32, sw: Array, sy: F32) -> Array:
    return sx * sw / sy


def finished(
    acc: Array,
    given: dict[str, Any],
    multiplier: Callable[..., Array] = right_multiplier,
    rounding: Callable[[Array, int], Array] = lambda v, zy: np.rint(v) + zy,
) -> Array:
    m = multiplier(given["sx"], given["sw"], given["sy"])[:, None, None]
    return np.clip(rounding((acc.astype(m.dtype) * m).astype(np.float64), int(given["zy"])), 0, 255).astype(np.uint8)


def convolved(padding: int | None = None, **changed: Any) -> Callable[[dict[str, Any]], Array]:
    """The output with other constants or attributes."""

    def compute(given: dict[str, Any]) -> Array:
        other = given | {name: value for name, value in changed.items() if name in GIVEN}
        attributes = ATTRIBUTES | {name: value for name, value in changed.items() if name not in GIVEN}
        return finished(convolution(changed.get("image", X), other, attributes, padding), given)

    return compute


def ended(*steps: Any) -> Callable[[dict[str, Any]], Array]:
    """The output with other steps after the sum."""
    return lambda given: finished(convolution(X, given, ATTRIBUTES), given, *steps)


W = GIVEN["w"]
SCALES = ((33 / 29, 1 / 29, 24 / 29), (33 / 8, 3 / 8, 39 / 8), (54 / 40, 18 / 40, 54 / 40), (0.5, 0.25, 1))
CONFIGURATIONS = [
    GIVEN,
    *(GIVEN | {"sx": F32(sx), "sw": np.full(6, sw, np.float32), "sy": F32(sy)} for sx, sw, sy in SCALES),
]
WRONG: dict[str, Callable[[dict[str, Any]], Array]] = {
    "padding is the code 0": convolved(padding=0),
    "flipped kernel": convolved(w=W[..., ::-1, ::-1]),
    "one row too early": convolved(pads=[2, 0, -1, 2]),
    "one column too late": convolved(image=np.roll(X, -1, axis=3)),
    "channels in the opposite order": convolved(image=X[:, [1, 0, 3, 2]]),
    "channels last": convolved(image=X.reshape(-1, 6, 6, 4).transpose(0, 3, 1, 2)),
    "dilation is left out": convolved(dilations=[1, 1], pads=[1, 0, 0, 0]),
    "rows and columns exchanged": convolved(w=W.swapaxes(2, 3)),
    "every channel reads the first group": convolved(of_channel=lambda _: 0),
    "groups in turn": convolved(of_channel=lambda m: m % 2),
    "the zero point of x is left out": convolved(zx=np.uint8(0), padding=0),
    "the bias is left out": convolved(b=np.zeros(6, np.int32)),
    "x_scale * (w_scale / y_scale)": ended(lambda sx, sw, sy: sx * (sw / sy)),
    "(x_scale / y_scale) * w_scale": ended(lambda sx, sw, sy: sx / sy * sw),
    "(x_scale * w_scale) * (1 / y_scale)": ended(lambda sx, sw, sy: sx * sw * (1 / sy)),
    "double precision": ended(lambda sx, sw, sy: sx * sw.astype(np.float64) / sy),
    "the zero point of y before the rounding": ended(right_multiplier, lambda v, zy: np.rint(v + zy)),
    "half away from zero": ended(right_multiplier, lambda v, zy: np.trunc(v + np.copysign(0.5, v)) + zy),
}


def differing(function: Callable[[dict[str, Any]], Array]) -> int:
    """The number of values that differ from ONNX Runtime's."""
    proto, count = node("QLinearConv", *INPUTS, "b", **ATTRIBUTES), 0
    for given in CONFIGURATIONS:
        right, found = runtime(proto, given, {"x": X}), function(given)
        assert found.shape == right.shape
        count += int((found != right).sum())
    return count


def test_the_right_order_differs_nowhere() -> None:
    assert differing(convolved()) == 0


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variant_is_told_from_the_specification(name: str) -> None:
    assert differing(WRONG[name]) > 0


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "groups": ({"group": 3}, {}, "group is 3, the input has 4 channels", "divisor of the channels"),
    "weights": (
        {"group": 1},
        {},
        r"weights have shape \(6, 2, 3, 3\), the input has 4 channels",
        r"shape \(M, 4, kernel",
    ),
    "kernel": ({"kernel_shape": [2, 3]}, {}, r"kernel_shape is \(2, 3\), the weights have \(3, 3\)", "same shape"),
    "auto_pad": (
        {"auto_pad": "SAME_UPPER", "pads": []},
        {},
        "auto_pad is SAME_UPPER with dilations",
        "no such padding",
    ),
    "negative": ({"pads": [-1, 0, 0, 0]}, {}, r"pads is \[-1, 0, 0, 0\]", "0 or more"),
    "large": ({"dilations": [9, 1]}, {}, r"kernel of \(19, 3\) does not fit into \(6, 6\)", "smaller kernel"),
    "zero points": ({}, {"zw": np.arange(6).astype(np.int8)}, "zero points of w differ", "one zero point"),
    "scales": ({}, {"sw": np.float32([1, 2])}, r"shapes \(2,\) and \(\)", r"\(6,\)"),
    "bias": ({}, {"b": np.zeros(2, np.int32)}, r"bias has shape \(2,\)", r"shape \(6,\)"),
    "sums": ({}, {"b": np.full(6, 2**31 - 1, np.int32)}, "accumulator of column 0 can reach", "range of int32"),
    "type": ({}, {"zy": np.int8(3)}, "zero point of y is int8", "uint8 is accepted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    attributes, changed, message, hint = REFUSED[case]
    given = {name: value for name, value in (ATTRIBUTES | attributes).items() if value != []}
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        layer_of(node("QLinearConv", *INPUTS, "b", **given), GIVEN | changed, {"x": X})
    assert re.search(hint, caught.value.hint)


def test_every_fault_model_changes_some_values() -> None:
    changed: dict[str, int] = {}
    square = ATTRIBUTES | {"group": 1}
    for given in CONFIGURATIONS:
        for attributes, x in ((ATTRIBUTES, X), (square, X[:, :2])):
            layer = layer_of(node("QLinearConv", *INPUTS, "b", **attributes), given, {"x": x})
            right = specified(layer, {"x": x})
            for model in layer.fault_models(x.reshape(len(x), -1)):
                assert model.output.shape == right.shape
                assert model.output.dtype == right.dtype
                changed[model.cause] = changed.get(model.cause, 0) + int((model.output != right).sum())
    without = {cause for cause, count in changed.items() if not count}
    assert all(re.search("int16|16 bits|8 bits|1 / m", cause) for cause in without), without
    of_windows = {
        "the windows begin one row too early", "the windows begin one row too late", "padding is the code 0",
        "the windows begin one column too early", "the windows begin one column too late", "the kernel is flipped",
        "the dilation is left out", "rows and columns of the kernel are exchanged",
        "the channels of the input are read as the last axis", "the inputs belong to the groups in turn",
        "the channels of the input are in the opposite order", "every group reads the inputs of the first",
        "the channels of the weights are read as the last axis",
    }  # fmt: skip
    assert of_windows <= changed.keys() - without


def test_fault_models_are_those_of_wrong_convolutions() -> None:
    """Their outputs are those of the loops of this file with the same fault."""
    layer = layer_of(node("QLinearConv", *INPUTS, "b", **ATTRIBUTES), GIVEN, {"x": X})
    models = {model.cause: model.output for model in layer.fault_models(X.reshape(len(X), -1))}
    same = {
        "padding is the code 0": "padding is the code 0",
        "the kernel is flipped": "flipped kernel",
        "rows and columns of the kernel are exchanged": "rows and columns exchanged",
        "the channels of the input are in the opposite order": "channels in the opposite order",
        "the channels of the input are read as the last axis": "channels last",
        "the dilation is left out": "dilation is left out",
        "every group reads the inputs of the first": "every channel reads the first group",
        "the windows begin one row too early": "one row too early",
    }
    for cause, name in same.items():
        assert (models[cause] == WRONG[name](GIVEN).reshape(len(X), -1)).all(), cause
