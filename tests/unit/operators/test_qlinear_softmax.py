"""QLinearSoftmax against ONNX Runtime: random configurations, refusals, wrong variants, faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.obligations import Extent, Outputs
from harness.operators.qlinear_softmax import QLinearSoftmax
from tests.support.codes import (
    COUNTS,
    assert_agree,
    assert_agree_at_random,
    layer_of,
    node,
    random_codes,
    random_dtype,
    random_zero_points,
    runtime,
)

F32 = np.float32
SOFTMAX = node("QLinearSoftmax", "x", "sx", "zx", "sy", "zy", axis=-1, opset=13)


def constants(scale: float, y: tuple[float, int], dtype: Any = "uint8") -> dict[str, Any]:
    return {"sx": F32(scale), "zx": np.array(3, dtype), "sy": F32(y[0]), "zy": np.array(y[1], dtype)}


def vectors(rng: np.random.Generator, dtype: np.dtype[Any], size: int) -> Array:
    """Codes far apart, near each other, and equal."""
    x = random_codes(rng, dtype, 30, size)
    x[10:20] = rng.integers(90, 110, (10, size))
    x[20:25] = x[20:25, :1]
    return x


def agree(rng: np.random.Generator) -> None:
    dtype, size = random_dtype(rng), int(rng.integers(1, rng.choice([12, 80, 300])))
    lowest = np.iinfo(dtype).min
    zero_point = lowest if rng.random() < 0.6 else int(random_zero_points(rng, 1, dtype)[0])
    scale = rng.choice([rng.uniform(0.001, 0.5), rng.uniform(0.5, 3), 1 / 16, 0.25, 1])
    y_scale = rng.choice([1 / 256, 1 / 255, 1 / 128, rng.uniform(0.002, 0.1)])
    rows = [(), (3,), (2, 5)][rng.integers(3)]
    attributes = {"axis": int(rng.choice([1 + len(rows), -1])), "opset": int(rng.choice([11, 13]))}
    proto = node("QLinearSoftmax", "x", "sx", "zx", "sy", "zy", **attributes)
    x = vectors(rng, dtype, size * int(np.prod(rows)))
    assert_agree(proto, constants(scale, (y_scale, zero_point), dtype), {"x": x.reshape(-1, *rows, size)})


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(agree, count)


REFUSED: dict[str, tuple[dict[str, Any], tuple[int, ...], dict[str, Any], str, str]] = {
    "axis": ({"axis": 2}, (4,), {}, "'y' .*axis is 2", "axis 1 or -1"),
    "first axis": ({"axis": 1}, (2, 4), {}, "'y' .*axis is 1", "axis 2 or -1"),
    "overflow": ({"axis": -1}, (1,), {}, "an exponential times 1 / y_scale, 256, overflows", "more values"),
    "zero point": ({"axis": -1}, (4,), {"zx": np.int8(3)}, "zero point of x is int8", "uint8 is accepted"),
    "scale": ({"axis": -1}, (4,), {"sx": F32(0)}, "scale of x is 0", "normal float32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    attributes, shape, changed, message, hint = REFUSED[case]
    proto = node("QLinearSoftmax", "x", "sx", "zx", "sy", "zy", opset=13, **attributes)
    given = constants(0.1, (1 / 256, 0)) | changed
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(proto, given, {"x": np.zeros((1, *shape), np.uint8)})
    assert re.search(hint, caught.value.hint)


def test_an_exponential_that_overflows_gives_the_lowest_code_in_onnx_runtime() -> None:
    assert runtime(SOFTMAX, constants(0.1, (1 / 256, 0)), {"x": np.zeros((1, 1), np.uint8)}).tolist() == [[0]]


# What must not pass: for each wrong order the number of differing values, of which none may be 0.

GIVEN = [constants(scale, (y, zero)) for scale in (0.0625, 0.25, 1.0, 0.03)
         for y, zero in ((1 / 256, 0), (1 / 101.5, 7), (1 / 77.5, 0))]  # fmt: skip


def quotients(x: Array, given: dict[str, Any], total: Callable[[Array], Array], inverse: Any) -> Array:
    layer = layer_of(SOFTMAX, given, {"x": x})
    assert isinstance(layer, QLinearSoftmax)
    entries = layer.table()[x.astype(int) - x.max(axis=1, keepdims=True) + 255]
    return entries * inverse / total(entries)


def in_order(entries: Array) -> Array:
    return np.cumsum(entries, axis=1, dtype=F32)[:, -1:]


def floored(given: dict[str, Any]) -> np.float32:
    return F32(np.floor(F32(1) / given["sy"]))


def right(x: Array, given: dict[str, Any]) -> Array:
    return np.rint(quotients(x, given, in_order, floored(given))) + int(given["zy"])


WRONG: dict[str, Callable[[Array, dict[str, Any]], Array]] = {
    "1 / y_scale is not rounded down": lambda x, given: np.rint(
        quotients(x, given, in_order, F32(1) / given["sy"])
    ) + int(given["zy"]),
    "the zero point before the rounding": lambda x, given: np.rint(
        quotients(x, given, in_order, floored(given)) + F32(given["zy"])
    ),
    "half away from zero": lambda x, given: np.trunc(
        quotients(x, given, in_order, floored(given)) + F32(0.5)
    ) + int(given["zy"]),
    "a Softmax of float32, quantised": lambda x, given: np.rint(
        F32(1) / np.exp((x[:, None, :] - x[:, :, None].astype(F32)) * given["sx"]).sum(axis=2) / given["sy"]
    ) + int(given["zy"]),
    "a column is left out of the sum": lambda x, given: np.rint(
        quotients(x, given, lambda entries: in_order(entries[:, :-1]), floored(given))
    ) + int(given["zy"]),
}  # fmt: skip


def differing(function: Callable[[Array, dict[str, Any]], Array]) -> int:
    rng, count = np.random.default_rng(3), 0
    for given in GIVEN:
        for size in (2, 4, 12):
            x = vectors(rng, np.dtype("uint8"), size)
            found = np.clip(function(x, given), 0, 255).astype(np.uint8)
            count += int((found != runtime(SOFTMAX, given, {"x": x})).sum())
    return count


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_order_is_told_from_the_specification(name: str) -> None:
    assert differing(WRONG[name]) > 0


def test_the_right_order_differs_nowhere() -> None:
    assert differing(right) == 0


@pytest.mark.slow
def test_faults_and_proof() -> None:
    rng, changed = np.random.default_rng(0), dict[str, int]()
    for given in GIVEN:
        for size in (2, 4, 12):
            x = vectors(rng, np.dtype("uint8"), size)
            layer = layer_of(SOFTMAX, given, {"x": x})
            expected = layer.prepare()(x)
            assert layer.before_rounding(x) is not None
            for model in layer.fault_models(x):
                assert (model.output.shape, model.output.dtype) == (expected.shape, expected.dtype)
                changed[model.cause] = changed.get(model.cause, 0) + int((model.output != expected).sum())
    never = {cause for cause, count in changed.items() if not count}
    assert len(changed) - len(never) > 12, never
    assert {"the inverse of y_scale is not rounded down", "the exponentials have base 2"} < set(changed) - never
    [obligation] = layer.obligations(Extent(all_floats=False, random_vectors=0))
    assert isinstance(obligation.shown, Outputs)
    assert not obligation.complete
    tried = np.concatenate(list(obligation.shown.inputs()))
    assert tried.size == obligation.cases
    assert set(tried.argmax(axis=1)) == set(range(12))
    assert all(len(np.unique(tried[:, column])) == 256 for column in range(12))
    [assumption] = layer.assumptions()
    assert assumption.startswith("QLinearSoftmax rounds")
