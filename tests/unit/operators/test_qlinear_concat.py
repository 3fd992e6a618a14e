"""QLinearConcat against ONNX Runtime: random configurations, refusals, wrong variants, faults."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.obligations import Extent, Outputs
from tests.support.codes import (
    COUNTS,
    assert_agree,
    assert_agree_at_random,
    every_code,
    layer_of,
    node,
    random_codes,
    random_dtype,
    random_scales,
    random_zero_points,
)

F32 = np.float32


def joined(count: int, **attributes: Any) -> onnx.NodeProto:
    inputs = [name for number in range(count) for name in (f"x{number}", f"s{number}", f"z{number}")]
    return node("QLinearConcat", "sy", "zy", *inputs, **({"axis": 1} | attributes))


def constants(scales: Any, zero_points: Any, y: tuple[Any, Any], dtype: Any = "uint8") -> dict[str, Any]:
    """Quantisations of the inputs and of y."""
    named: dict[str, Any] = {"sy": F32(y[0]), "zy": np.array(y[1], dtype)}
    for number, (scale, zero_point) in enumerate(zip(scales, zero_points, strict=True)):
        named |= {f"s{number}": F32(scale), f"z{number}": np.array(zero_point, dtype)}
    return named


def agree(rng: np.random.Generator) -> None:
    dtype, count = random_dtype(rng), int(rng.integers(1, 5))
    scales, zero_points = random_scales(rng, count + 1), random_zero_points(rng, count + 1, dtype)
    if rng.random() < 0.3:  # of the first input nothing is changed
        scales[0], zero_points[0] = scales[-1], zero_points[-1]
    given = constants(scales[:-1], zero_points[:-1], (scales[-1], zero_points[-1]), dtype)
    rest = [(), (3, 2)][rng.integers(2)]
    inputs = {}
    for number in range(count):
        shape = (int(rng.integers(1, 9)), *rest)
        inputs[f"x{number}"] = every_code(rng, dtype, int(np.prod(shape))).reshape(256, *shape)
    axis = int(rng.choice([1, -1 - len(rest)]))
    assert assert_agree(joined(count, axis=axis), given, inputs) is not None


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(agree, count)


REFUSED: dict[str, tuple[onnx.NodeProto, dict[str, Any], dict[str, tuple[int, ...]], str, str]] = {
    "axis": (joined(2, axis=2), {}, {"x0": (2, 3), "x1": (2, 3)}, "'y' .*axis is 2", "axis 1"),
    "shapes": (joined(2), {}, {"x0": (2, 3), "x1": (2, 4)}, r"shapes \(2, 3\), \(2, 4\)", "all axes but the first"),
    "inputs": (node("QLinearConcat", "sy", "zy", "x0", "s0", axis=1), {}, {"x0": (2,)}, "has 4 inputs", "it takes 5"),
    "an input": (
        node("QLinearConcat", "sy", "zy", "x0", "s0", "z0", "x1", axis=1), {}, {"x0": (2,), "x1": (2,)},
        "has 6 inputs", "then three of each",
    ),
    "scale": (joined(1), {"s0": F32(1e37)}, {"x0": (2,)}, "255 codes of scale .* overflow", "at most"),
    "constant": (joined(2), {"x1": np.zeros((1, 2), np.uint8)}, {"x0": (2,)}, "'x1' is a constant", "another node"),
    "type": (joined(1), {"zy": np.int8(1)}, {"x0": (2,)}, "zero point of y is int8", "uint8 is accepted"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    proto, changed, shapes, message, hint = REFUSED[case]
    given = constants([0.1, 0.2], [1, 2], (0.3, 3)) | changed
    inputs = {name: np.zeros((1, *shape), np.uint8) for name, shape in shapes.items()}
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(proto, given, inputs)
    assert re.search(hint, caught.value.hint)


SCALES = [(0.5, 0.25, 1.5), (0.1, 0.07, 0.03), (1 / 3, 2 / 3, 7 / 3), (0.25, 0.75, 0.5), (0.9, 0.3, 0.6)]
GIVEN = [constants(scales[:2], (3, 117), (scales[2], zero)) for scales in SCALES for zero in (0, 120, 131)]


def test_faults_coverage_and_proof() -> None:
    rng, changed = np.random.default_rng(0), dict[str, int]()
    inputs = {"x0": every_code(rng, np.dtype("uint8"), 4), "x1": every_code(rng, np.dtype("uint8"), 3)}
    for given in GIVEN:
        layer = layer_of(joined(2), given, inputs)
        right = layer.prepare()(*inputs.values())
        for model in layer.fault_models(*inputs.values()):
            assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
            changed[model.cause] = changed.get(model.cause, 0) + int((model.output != right).sum())
        counter = layer.stimuli.counter(0)
        counter.add(*inputs.values(), right)
        assert all(met.met == met.reachable for met in counter.result().values())
    assert [cause for cause, count in changed.items() if not count] == []
    assert {
        "the inputs begin with number 2", "the codes are not requantised", "rounding is half away from zero",
        "the scales are divided first: x_scale / y_scale", "multiplication by 1 / y_scale instead of division",
    } < set(changed)  # fmt: skip
    [obligation] = layer.obligations(Extent(all_floats=False, random_vectors=0))
    assert isinstance(obligation.shown, Outputs)
    vectors = np.concatenate(list(obligation.shown.inputs()))
    assert obligation.complete
    assert vectors.size == obligation.cases
    expected: Array = layer.prepare()(vectors[:, :4], vectors[:, 4:])
    assert (obligation.shown.expected(vectors) == expected).all()


def test_codes_of_an_input_with_the_quantisation_of_the_output_stay() -> None:
    x = {"x0": random_codes(np.random.default_rng(0), np.dtype("int8"), 50, 7)}
    for scale in np.exp(np.random.default_rng(1).uniform(-80, 80, 300)):
        layer = layer_of(joined(1), constants([scale], [-5], (scale, -5), "int8"), x)
        assert (layer.prepare()(x["x0"]) == x["x0"]).all()
