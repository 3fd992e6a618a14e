"""PRelu against ONNX Runtime and ONNX's reference evaluator, but for signs of zeros; wrong variants, refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.operators.tensor import LARGEST
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node, specified
from tests.support.floats import SPECIAL, assert_within, numbers, read_node


def rectified(rng: np.random.Generator) -> None:
    shape = rng.integers(1, 7, int(rng.integers(1, 4))).tolist()
    sizes = [size if rng.random() < 0.5 else 1 for size in shape]
    given = {"slope": numbers(rng, *sizes[int(rng.integers(0, 1 + len(sizes))) :])}
    layer = assert_within(node("PRelu", "x", "slope"), given, {"x": numbers(rng, 6, *shape)}, bound=LARGEST)
    assert layer is not None


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(rectified, count)


X = np.random.default_rng(0).choice(np.append(SPECIAL, np.float32([-3, 1 / 3, -1 / 3, -7])), (40, 3, 5, 4))
PROTO, SLOPE = node("PRelu", "x", "slope"), {"slope": np.float32([0.3, -2, 1.7]).reshape(3, 1, 1)}


def test_each_channel_has_its_slope_and_zeros_keep_their_sign() -> None:
    right = specified(layer_of(PROTO, SLOPE, {"x": X}), {"x": X}).reshape(X.shape)
    for channel, slope in enumerate([np.float32(0.3), np.float32(-2), np.float32(1.7)]):
        x = X[:, channel]
        with np.errstate(over="ignore"):
            assert right[:, channel].tobytes() == np.where(x < 0, slope * x, x).tobytes()


def test_every_fault_model_changes_some_values() -> None:
    layer, causes = layer_of(PROTO, SLOPE, {"x": X}), []
    right = specified(layer, {"x": X})
    for model in layer.fault_models(X.reshape(40, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) == 17


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "axes": ({"s": np.ones((2, 1, 1), np.float32)}, "the slope has shape", "axes of size 1"),
    "more values": ({"s": np.ones((2, 3, 5, 4), np.float32)}, "the slope has shape", "axes of size 1"),
    "infinite": ({"s": np.float32(np.inf)}, "the slope holds inf", "finite numbers"),
    "zero": ({"s": np.float32([0, 1, 1, 1])}, "can be NaN", "other slopes"),
    "computed": ({}, "the slope, 's', is not constant", "initializer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    given, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        read_node(node("PRelu", "x", "s"), given, {"x": X})
    assert re.search(hint, caught.value.hint)
