"""MaxPool of codes against ONNX Runtime: random configurations, neighbours, refusals, wrong variants, faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.max_pool import MaxPool
from harness.operators.obligations import Extent, Outputs
from tests.support.codes import (
    COUNTS,
    assert_agree,
    assert_agree_at_random,
    layer_of,
    node,
    random_codes,
    random_dtype,
    runtime,
    specified,
)
from tests.support.images import random_windows


def agree_at_random(rng: np.random.Generator) -> None:
    dtype, axes = random_dtype(rng), int(rng.integers(1, 3))
    attributes = random_windows(rng, axes, dilated=True) | {"ceil_mode": int(rng.integers(2))}
    shape = [int(rng.integers(1, 5)), *rng.integers(1, 11, axes).tolist()]
    x = random_codes(rng, dtype, 10, *shape)
    if rng.random() < 0.5:
        x = np.minimum(x, np.iinfo(dtype).min + 5).astype(dtype)  # near the code that padding must not exceed
    assert_agree(node("MaxPool", "x", **attributes), {}, {"x": x})


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(agree_at_random, count)


X = random_codes(np.random.default_rng(0), np.dtype("int8"), 50, 3, 7, 6) // 2 - 60
ATTRIBUTES: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2],
                              "ceil_mode": 1}  # fmt: skip


def pooled(x: Array, padding: int = -128, choose: Any = np.maximum, **changed: Any) -> Array:
    """The formula as loops over the places of the kernel."""
    attributes = ATTRIBUTES | changed
    (top, left, bottom, right), (down, across), (di, dj) = (
        attributes[name] for name in ("pads", "strides", "dilations")
    )
    room = ((0, 0), (0, 0), (top, bottom + attributes["ceil_mode"]), (left, right))
    padded = np.pad(x, room, constant_values=padding)
    height, width = attributes["kernel_shape"]
    rows = (padded.shape[2] - (height - 1) * di - 1) // down + 1
    columns = (padded.shape[3] - (width - 1) * dj - 1) // across + 1
    parts = [
        padded[:, :, i * di :: down, j * dj :: across][:, :, :rows, :columns] for i, j in np.ndindex(height, width)
    ]
    found = parts[0]
    for part in parts[1:]:
        found = choose(found, part)
    return found


WRONG: dict[str, Callable[[], Array]] = {
    "the smallest": lambda: pooled(X, padding=127, choose=np.minimum),
    "padding is the code 0": lambda: pooled(X, padding=0),
    "the dilation is left out": lambda: pooled(X, dilations=[1, 1], pads=[1, 0, 0, 0]),
    "floor instead of ceil": lambda: pooled(X, ceil_mode=0),
    "begins and ends exchanged": lambda: pooled(X, pads=[0, 1, 1, 0]),
    "the first value": lambda: pooled(X, choose=lambda first, _: first),
    "the last value": lambda: pooled(X, choose=lambda _, last: last),
    "compared as uint8": lambda: pooled(X.view(np.uint8), padding=0).view(np.int8),
    "channels last": lambda: pooled(X.reshape(-1, 7, 6, 3).transpose(0, 3, 1, 2)),
}


def right() -> Array:
    return runtime(node("MaxPool", "x", **ATTRIBUTES), {}, {"x": X})


def test_the_right_windows_differ_nowhere() -> None:
    assert (pooled(X) == right()).all()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variant_is_told_from_the_specification(name: str) -> None:
    found = WRONG[name]()
    assert found.shape != right().shape or (found != right()).any()
    layer = layer_of(node("MaxPool", "x", **ATTRIBUTES), {}, {"x": X})
    assert (specified(layer, {"x": X}) == right().reshape(len(X), -1)).all()


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "padding": ({"pads": [3, 0, 0, 0]}, r"pads is \[3, 0, 0, 0\], the kernel \(3, 2\)", "smaller than the kernel"),
    "padding alone": ({"kernel_shape": [2, 2], "pads": [1, 0, 1, 0], "dilations": [8, 1]},
                      "a window lies in the padding alone", "less padding"),
    "moved": ({"auto_pad": "SAME_LOWER", "kernel_shape": [1, 1], "strides": [4, 4], "pads": None, "dilations": None},
              "leaves out 2 values", "or pads"),
    "dilated": ({"auto_pad": "SAME_UPPER", "pads": None}, "auto_pad is SAME_UPPER with dilations", "no such padding"),
    "axes": ({"kernel_shape": [2]}, r"kernel has shape \(2,\)", "2 sizes"),
    "strides": ({"strides": [0, 1]}, r"strides is \[0, 1\]", "2 integers of 1 or more"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    changed, message, hint = REFUSED[case]
    attributes = {name: value for name, value in (ATTRIBUTES | changed).items() if value is not None}
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        layer_of(node("MaxPool", "x", **attributes), {}, {"x": X})
    assert re.search(hint, caught.value.hint)


def test_volumes_are_refused() -> None:
    with pytest.raises(RequestError, match=r"shape \(vectors, 2, 3, 4, 5\)"):
        layer_of(node("MaxPool", "x", kernel_shape=[2] * 3), {}, {"x": np.zeros((1, 2, 3, 4, 5), np.int8)})


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_fault_model_changes_some_values(dtype: str) -> None:
    x = X.astype(np.int16) + (0 if dtype == "int8" else 128)
    layer, codes = layer_of(node("MaxPool", "x", **ATTRIBUTES), {}, {"x": x.astype(dtype)}), x.astype(dtype)
    right, causes = specified(layer, {"x": codes}), set()
    for model in layer.fault_models(codes.reshape(len(x), -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert (model.output != right).any(), model.cause
        causes.add(model.cause)
    other = "uint8" if dtype == "int8" else "int8"
    common = {"the value at the other end is taken", f"the codes are compared as {other}"}
    common |= {f"the last values along {axis} are left out of y" for axis in "ij"}
    common |= {f"y begins one place {when} along {axis}" for when in ("early", "late") for axis in "ij"}
    assert common <= causes
    assert ("places outside x count as 0 in y" in causes) == (dtype == "int8")


def test_a_proof_gives_every_value_of_a_window_every_code() -> None:
    layer = layer_of(node("MaxPool", "x", **ATTRIBUTES), {}, {"x": X})
    assert isinstance(layer, MaxPool)
    alone, mixed, _ = layer.obligations(Extent(all_floats=False, random_vectors=0))
    assert isinstance(alone.shown, Outputs)
    assert (alone.complete, mixed.complete) == (True, False)
    vectors = np.concatenate(list(alone.shown.inputs()))
    assert vectors.shape == (2 * 256 * 6, X[0].size)
    outputs = alone.shown.expected(vectors)
    for column in (0, outputs.shape[1] // 2, outputs.shape[1] - 1):
        assert len(np.unique(outputs[:, column])) == 256
