"""Operators of float32 operands with broadcasting against ONNX Runtime, ONNX's evaluator, and wrong variants."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import parse
from harness.operators import broadcast
from harness.operators.base import Layer
from tests.support.builders import make_model
from tests.support.codes import COUNTS, assert_agree_at_random, node, runtime, specified
from tests.support.floats import assert_within, numbers, read_node

BOUND = 1e30


def random_shapes(rng: np.random.Generator, count: int, *, constants: bool) -> list[list[int]]:
    """Shapes that fit, of `count` operands; of constants without axes in front after choice."""
    shape = rng.integers(1, 5, int(rng.integers(1, 4)))
    shapes = [np.where(rng.random(len(shape)) < 0.3, 1, shape).tolist() for _ in range(count)]
    return [each[int(rng.integers(0, len(each))) :] if constants and rng.random() < 0.3 else each for each in shapes]


def bounded(rng: np.random.Generator, *shape: int) -> Array:
    return np.clip(numbers(rng, *shape), np.float32(-BOUND), np.float32(BOUND))


def of_two(rng: np.random.Generator) -> None:
    operator = str(rng.choice(["Add", "Sub", "Mul", "Div"]))
    shapes = random_shapes(rng, 1, constants=False) + random_shapes(rng, 1, constants=True)
    given: dict[str, Any] = {"c": bounded(rng, *shapes[1])}
    given["c"] = np.where(given["c"] == 0, np.float32(0.7), given["c"])
    names = ["x", "c"] if operator == "Div" or rng.random() < 0.5 else ["c", "x"]
    if rng.random() < 0.5 and given["c"].ndim == len(shapes[0]):
        given["c"] = given["c"][None]
    assert_within(node(operator, *names), given, {"x": bounded(rng, 5, *shapes[0])}, bound=BOUND)


def of_two_activations(rng: np.random.Generator) -> None:
    operator = str(rng.choice(["Add", "Sub", "Mul"]))
    shapes = random_shapes(rng, 2, constants=False)
    inputs = {name: bounded(rng, 5, *shape) for name, shape in zip("xz", shapes, strict=True)}
    assert assert_within(node(operator, "x", "z"), {}, inputs, bound=BOUND) is not None


def of_many(rng: np.random.Generator) -> None:
    operator = str(rng.choice(["Max", "Min", "Sum", "Mean"]))
    shapes = random_shapes(rng, int(rng.integers(1, 5)), constants=False)
    names = "xabcd"[: len(shapes)]
    constant = [False, *(rng.random(len(shapes) - 1) < 0.4)]
    given = {name: bounded(rng, *shape) for name, shape, kept in zip(names, shapes, constant, strict=True) if kept}
    inputs = {
        name: bounded(rng, 5, *shape) for name, shape, kept in zip(names, shapes, constant, strict=True) if not kept
    }
    order = rng.permutation(list(names)).tolist()
    evaluator = operator != "Mean"  # it adds into the first operand, without broadcasting
    assert assert_within(node(operator, *order), given, inputs, bound=BOUND, evaluator=evaluator) is not None


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("check", [of_two, of_two_activations, of_many])
def test_random_configurations_agree(check: Callable[[np.random.Generator], None], count: int) -> None:
    assert_agree_at_random(check, count)


RNG = np.random.default_rng(3)
X, Z = (RNG.normal(0, 1, (50, *shape)).astype(np.float32) for shape in ((3, 4, 5), (3, 1, 5)))
CHANNELS = RNG.normal(0, 1, (3, 1, 1)).astype(np.float32)
WHOLE = np.float32([0, -1, 1]).reshape(3, 1, 1)
DIVISORS = np.abs(Z) + np.float32(0.1)


def layer_and_inputs(name: str) -> tuple[Layer, tuple[Array, ...]]:
    proto, given, inputs = CASES[name]
    layer = read_node(proto, given, inputs, bound=BOUND, least=0.1)
    return layer, tuple(inputs[source].reshape(50, -1) for source in layer.sources)


CASES: dict[str, tuple[onnx.NodeProto, dict[str, Array], dict[str, Array]]] = {
    "Add": (node("Add", "x", "c"), {"c": CHANNELS}, {"x": X}),
    "Sub": (node("Sub", "c", "x"), {"c": CHANNELS}, {"x": X}),
    "Mul": (node("Mul", "x", "z"), {}, {"x": X, "z": Z}),
    "Div": (node("Div", "x", "z"), {}, {"x": X, "z": DIVISORS}),
    "Div by channels": (node("Div", "x", "c"), {"c": CHANNELS}, {"x": X}),
    "Max": (node("Max", "x", "z", "c"), {"c": WHOLE}, {"x": np.round(X), "z": np.round(Z) * np.float32(-0.0)}),
    "Min": (node("Min", "c", "x", "z"), {"c": WHOLE}, {"x": np.round(X), "z": np.round(Z)}),
    "Sum": (node("Sum", "x", "z", "c", "z"), {"c": CHANNELS}, {"x": X, "z": Z}),
    "Mean": (node("Mean", "x", "z", "c"), {"c": CHANNELS}, {"x": X, "z": Z}),
}
RIGHT: dict[str, Array] = {
    "Add": X + CHANNELS, "Sub": CHANNELS - X, "Mul": X * Z, "Div": X / DIVISORS, "Div by channels": X / CHANNELS,
    "Sum": ((X + Z) + CHANNELS) + Z,
    "Mean": ((X + Z) + CHANNELS) / np.float32(3),
}  # fmt: skip
WRONG: dict[str, tuple[str, Array]] = {
    "the last axis instead of the channels": ("Add", X + RNG.permutation(np.resize(CHANNELS, 5))),
    "the first channel for all": ("Add", X + CHANNELS[0]),
    "exchanged": ("Sub", X - CHANNELS),
    "by the reciprocal": ("Div", X * (np.float32(1) / DIVISORS)),
    "by the reciprocal of a constant": ("Div by channels", X * (np.float32(1) / CHANNELS)),
    "in double precision": ("Sum", (X.astype(float) + Z + CHANNELS + Z).astype(np.float32)),
    "from right to left": ("Sum", X + (Z + (CHANNELS + Z))),
    "by the inverse": ("Mean", ((X + Z) + CHANNELS) * (np.float32(1) / np.float32(3))),
    "divided first": ("Mean", X / np.float32(3) + Z / np.float32(3) + CHANNELS / np.float32(3)),
    "z twice": ("Sum", (X + Z * np.float32(2)) + CHANNELS),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_specification_is_one_operation_of_ieee_754_for_each_operand(name: str) -> None:
    layer, inputs = layer_and_inputs(name)
    assert layer.prepare()(*inputs).tobytes() == RIGHT[name].tobytes()
    assert layer.output.shape == (3, 4, 5)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_variant_is_told_from_the_specification(wrong: str) -> None:
    name, output = WRONG[wrong]
    layer, inputs = layer_and_inputs(name)
    assert layer.prepare()(*inputs).tobytes() != output.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_every_fault_model_changes_some_values(name: str) -> None:
    layer, inputs = layer_and_inputs(name)
    right, causes = layer.prepare()(*inputs), []
    for model in layer.fault_models(*inputs):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        if not re.search("subnormal", model.cause):  # there are none
            assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) >= 5


def test_the_first_of_equal_zeros_stays() -> None:
    x, z = np.float32([[0, -0.0, -0.0, 1]]), np.float32([[-0.0, 0, -1, -0.0]])
    for operator, signs in (("Max", [False, True, True, False]), ("Min", [False, True, True, True])):
        layer = read_node(node(operator, "x", "z"), {}, {"x": x, "z": z})
        assert np.signbit(specified(layer, {"x": x, "z": z})).tolist() == [signs]


def test_loops_join_axes_along_which_all_operands_go_on() -> None:
    assert broadcast.axes((3, 4, 5), [(3, 4, 5), (3, 1, 1)]) == [(3, [20, 1]), (20, [1, 0])]
    assert broadcast.axes((3, 4, 5), [(3, 4, 5), (1, 4, 5)]) == [(3, [20, 0]), (20, [1, 1])]
    assert broadcast.axes((1, 4, 5), [(1, 4, 5), (1, 4, 5)]) == [(20, [1, 1])]
    assert broadcast.axes((2, 3, 4), [(2, 1, 4), (1, 3, 1)]) == [(2, [4, 0]), (3, [0, 1]), (4, [1, 0])]
    assert broadcast.axes((1, 1), [(1, 1), (1, 1)]) == [(1, [0, 0])]


ONE = np.float32(1)
REFUSED: dict[str, tuple[onnx.NodeProto, dict[str, Any], str, str]] = {
    "divisor": (node("Div", "x", "z"), {}, "its divisor can be 0, 'z'", "Clip to positive"),
    "a zero": (
        node("Div", "x", "c"),
        {"c": np.float32([1, 0, 2, 1, 1])},
        "its divisor can be 0, the constant",
        "other",
    ),
    "sizes": (node("Mul", "x", "c"), {"c": np.ones((2, 1, 1), np.float32)}, r"shape \(2, 1, 1\)", r"\(3, 4, 5\)"),
    "vectors": (node("Mul", "x", "c"), {"c": np.ones((2, 3, 4, 5), np.float32)}, r"shape \(2, 3, 4, 5\)", "axes"),
    "axes": (node("Add", "x", "v"), {}, "widths 3, 4, 5 and 5", "same width twice"),
    "constants": (node("Max", "c", "d"), {"c": ONE, "d": ONE}, "compares two constants", "results of two nodes"),
    "not finite": (node("Sum", "x", "c"), {"c": np.float32(np.inf)}, "operand 2 holds inf", "finite"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    proto, given, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        read_node(proto, given, {"x": X, "z": Z, "v": X[:, 0, 0]}, bound=BOUND)
    assert re.search(hint, caught.value.hint)


def test_a_divisor_that_clip_keeps_from_zero_is_accepted() -> None:
    nodes = [node("Clip", "x", "low", output="p"), node("Div", "x", "p")]
    net = parse(
        make_model(nodes, {"low": np.float32(0.5)}, {"y": ("float32", 2)}, width=2).SerializeToString(), "divided"
    )
    assert (net.layers[0].output.least, net.layers[1].output.bound) == (0.5, np.inf)
    nodes = [node("Clip", "x", "low", output="p"), node("Clip", "p", "", "high", output="q"), node("Div", "x", "q")]
    bounds = {"low": np.float32(0.5), "high": np.float32(0.25)}  # q is 0.25 always
    net = parse(make_model(nodes, bounds, {"y": ("float32", 2)}, width=2).SerializeToString(), "divided")
    assert net.layers[2].prepare()(np.float32([[3, -5]]), np.float32([[0.25, 0.25]])).tolist() == [[12, -20]]
    bounds["low"] = np.float32(-0.5)
    with pytest.raises(RequestError, match="divisor can be 0, 'q'"):
        parse(make_model(nodes, bounds, {"y": ("float32", 2)}, width=2).SerializeToString(), "divided")


def test_a_product_with_a_reciprocal_is_refused_as_onnx_runtime_divides_once() -> None:
    nodes = [node("Clip", "x", "low", output="p"), node("Div", "one", "p", output="r"), node("Mul", "x", "r")]
    made = make_model(nodes, {"low": np.float32(0.5), "one": ONE}, {"y": ("float32", 2)}, width=2)
    with pytest.raises(RequestError, match=r"'y' \(Mul\): multiplies by 'r', 1 / b"):
        parse(made.SerializeToString(), "reciprocal")
    x = np.random.default_rng(0).uniform(1, 2, (500, 2)).astype(np.float32)
    proto, given = node("Div", "one", "x"), {"one": ONE}
    assert (x * runtime(proto, given, {"x": x}) != np.float32(1)).any()
