"""ConvTranspose: one product after the other, ONNX Runtime's bound and ONNX's evaluator, wrong orders, refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node, specified
from tests.support.floats import assert_within, numbers, read_node


def configuration(rng: np.random.Generator, axes: int) -> tuple[dict[str, Any], dict[str, Array], list[int]]:
    """Attributes, constants and the shape of the input."""
    groups = int(rng.integers(1, 4))
    inputs, share, kernel = groups * int(rng.integers(1, 4)), int(rng.integers(1, 4)), rng.integers(1, 5, axes)
    strides, dilations = rng.integers(1, 4, axes), rng.integers(1, 3, axes)
    more = [int(rng.integers(0, stride)) for stride in strides]
    attributes = {
        "group": groups,
        "strides": strides.tolist(),
        "dilations": dilations.tolist(),
        "pads": [],
        "output_padding": more,
    }
    constants = {"w": rng.normal(size=(inputs, share, *kernel)).astype(np.float32)}
    if rng.random() < 0.7:
        constants["b"] = rng.normal(size=groups * share).astype(np.float32)
    sizes = rng.integers(1, 7, axes)
    most = (sizes - 1) * strides + (kernel - 1) * dilations  # one value is left, or more
    attributes["pads"] = [int(rng.integers(0, 1 + each // 2)) for each in (*most, *most)]
    return attributes, constants, [inputs, *sizes.tolist()]


def summed_one_by_one(x: Array, weights: Array, bias: Array, attributes: dict[str, Any], shape: list[int]) -> Array:
    """The sums of one image, each operation a float32 of its own, added as they reach the output."""
    share, (top, left, *_) = weights.shape[1], attributes["pads"]
    (sy, sx), (dy, dx) = attributes["strides"], attributes["dilations"]
    of_group = len(weights) // attributes["group"]
    y = np.broadcast_to((bias + np.float32(0))[:, None, None], shape).copy()
    for m, c, i, j in np.ndindex(shape[0], of_group, *weights.shape[2:]):
        channel = m // share * of_group + c
        for p, q in np.ndindex(x.shape[1:]):
            row, column = p * sy - top + i * dy, q * sx - left + j * dx
            if 0 <= row < shape[1] and 0 <= column < shape[2]:
                y[m, row, column] += np.float32(x[channel, p, q] * weights[channel, m % share, i, j])
    return y


@pytest.mark.parametrize("seed", range(25))
def test_one_product_after_the_other_is_added(seed: int) -> None:
    rng = np.random.default_rng(seed)
    attributes, constants, shape = configuration(rng, 2)
    x = rng.normal(size=(2, *shape)).astype(np.float32)
    layer = layer_of(node("ConvTranspose", "x", *constants, **attributes), constants, {"x": x})
    bias = constants.get("b", np.zeros(layer.output.shape[0], np.float32))
    for image, values in zip(x, specified(layer, {"x": x}), strict=True):
        expected = summed_one_by_one(image, constants["w"], bias, attributes, list(layer.output.shape))
        assert values.tobytes() == expected.tobytes()


def transposed(rng: np.random.Generator) -> None:
    axes = int(rng.integers(1, 3))
    attributes, constants, shape = configuration(rng, axes)
    if rng.random() < 0.5:
        padding = str(rng.choice(["VALID", "SAME_UPPER", "SAME_LOWER", "NOTSET"]))
        attributes = {name: attributes[name] for name in ("group", "strides", "dilations")} | {"auto_pad": padding}
        if padding == "NOTSET":
            sizes = [attributes["strides"], attributes["dilations"], constants["w"].shape[2:], shape[1:]]
            for stride, step, count, size in zip(*sizes, strict=True):
                whole = (size - 1) * stride + (count - 1) * step + 1
                attributes.setdefault("output_shape", []).append(int(rng.integers(max(whole - 3, 1), whole + stride)))
    x = np.clip(numbers(rng, 4, *shape), np.float32(-1e30), np.float32(1e30))  # no sum overflows
    proto = node("ConvTranspose", "x", *constants, **attributes)
    is_read = assert_within(proto, constants, {"x": x}, evaluator=False, bound=1e30) is not None
    assert is_read or attributes.get("auto_pad", "").startswith("SAME")  # with strides larger than the kernel


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(transposed, count)


def test_the_evaluator_agrees() -> None:
    for attributes in ({}, {"strides": [2, 3]}, {"pads": [1, 0, 1, 1], "strides": [2, 1], "output_padding": [1, 0]}):
        proto = node("ConvTranspose", "x", "w", "b", **attributes)
        given = {"w": WEIGHTS, "b": np.float32([0.3, -1, 2])}
        assert assert_within(proto, given, {"x": X}, evaluator=True, bound=10) is not None


X = np.random.default_rng(0).normal(0, 1, (30, 4, 3, 5)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(0, 1, (4, 3, 3, 2)).astype(np.float32)
GIVEN = {"w": WEIGHTS, "b": np.float32([0.3, -1, 2, 0.1, 5, -7])}
ATTRIBUTES: dict[str, Any] = {"group": 2, "strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 0, 1]}


def test_every_fault_model_changes_some_values() -> None:
    layer = layer_of(node("ConvTranspose", "x", "w", "b", **ATTRIBUTES), GIVEN, {"x": X})
    right, causes = specified(layer, {"x": X}), []
    for model in layer.fault_models(X.reshape(30, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        if model.cause != "a subnormal result is flushed to zero":  # there is none here
            assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert "the channels are added first, then the places of the kernel (col2im)" in causes
    assert len(causes) == len(set(causes)) >= 18


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "no such padding": (GIVEN, {"auto_pad": "SAME"}, "auto_pad is SAME", "no auto_pad of VALID"),
    "stated shape": (GIVEN, {"output_shape": [1, 4, 7, 8]}, "output_shape", "2 sizes and no auto_pad of VALID"),
    "no padding": (GIVEN, {"auto_pad": "SAME_UPPER", "strides": [4, 1]}, r"has shape \(12, 5\)", r"at most \(11, 7\)"),
    "beyond": (GIVEN, {"output_shape": [9, 8]}, r"the output has shape \(9, 8\)", r"at most \(8, 7\)"),
    "groups": (GIVEN, {"group": 3}, "group is 3", "a divisor"),
    "no output": (GIVEN, {"pads": [5, 0, 5, 0]}, "the output has shape", "less padding"),
    "much more": (GIVEN, {"output_padding": [2, 2]}, r"output_padding is \[2, 2\]", "less than the stride"),
    "infinite": (GIVEN | {"w": np.full_like(WEIGHTS, np.inf)}, {}, "the weight holds inf", "finite numbers"),
    "bias": (GIVEN | {"b": np.float32([1])}, {}, "the bias has shape", r"shape \(6,\)"),
    "channels": (GIVEN | {"w": WEIGHTS[:2]}, {}, "the weights have shape", "images or sequences"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    given, attributes, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        read_node(node("ConvTranspose", "x", "w", "b", **ATTRIBUTES | attributes), given, {"x": X})
    assert re.search(hint, caught.value.hint)
