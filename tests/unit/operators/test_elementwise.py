"""Float operators against ONNX Runtime, byte for byte: random shapes, special values, wrong variants."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from harness import model as networks
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.tensor import LARGEST
from tests.support.builders import make_model
from tests.support.examples import examples

Array = npt.NDArray[Any]
Nodes = list[onnx.NodeProto]

SPECIAL = (
    (
        np.array(
            [
                0,
                1,
                2,
                0x007FFFFF,
                0x00800000,
                0x00800001,
                0x1F800000,
                0x3F7FFFFF,
                0x3F800000,
                0x3F800001,
                0x7F000000,
                0x7F7FFFFF,
            ],
            np.uint32,
        )[:, None]
        | np.array([0, 1 << 31], np.uint32)
    )
    .ravel()
    .view(np.float32)
)
"""Zeros, subnormal numbers, ones, the largest numbers, and their neighbours, with both signs."""


def node(operator: str, *inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, list(inputs), [output], name=output, **attributes)


def network(nodes: Nodes, width: int, **constants: Any) -> Network:
    output = nodes[-1].output[0]
    made = make_model(nodes, constants, {output: ("float32", width)}, width=width)
    return networks.parse(made.SerializeToString(), "test")


def finite(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Numbers of all magnitudes, a third of them special."""
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x = np.where(np.isfinite(x), x, np.float32(1.5))
    return np.where(rng.random(shape) < 1 / 3, rng.choice(SPECIAL, shape), x)


def runtime(model: onnx.ModelProto | bytes, x: Array, *, optimised: bool) -> Array:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    found: Array = session.run(None, {"x": x})[0]
    return found


def evaluated(parsed: Network, x: Array) -> Array:
    values = {parsed.vector.name: x}
    for layer in parsed.layers:
        values[layer.output.name] = layer.prepare()(*(values[source] for source in layer.sources))
        assert values[layer.output.name].dtype == layer.dtype
        assert (np.abs(values[layer.output.name]) <= layer.output.bound).all()
        if not layer.output.negative_zero:
            written = values[layer.output.name]
            assert not np.signbit(written[written == 0]).any()
    return values[parsed.layers[-1].output.name]


def assert_same(parsed: Network, x: Array) -> Array:
    found = evaluated(parsed, x)
    for optimised in (True, False):
        expected = runtime(parsed.onnx_bytes, x, optimised=optimised)
        assert found.tobytes() == expected.tobytes(), (optimised, np.argwhere(found != expected)[:3])
    return found


SHAPES = (st.integers(1, 70), st.integers(1, 40), st.integers(0, 1 << 32))


# Relu, LeakyRelu and Clip.


@examples(25)
@given(*SHAPES)
def test_relu(width: int, count: int, seed: int) -> None:
    assert_same(network([node("Relu", "x")], width), finite(np.random.default_rng(seed), (count, width)))


ALPHAS = st.sampled_from([None, -LARGEST, -0.5, -0.0, 0.0, 1e-45, 1e-30, 0.3, 1.0, 3.0, LARGEST])


@examples(40)
@given(*SHAPES, ALPHAS)
def test_leaky_relu(width: int, count: int, seed: int, alpha: float | None) -> None:
    attributes = {} if alpha is None else {"alpha": alpha}
    x = finite(np.random.default_rng(seed), (count, width))
    assert_same(network([node("LeakyRelu", "x", **attributes)], width), x)


def test_leaky_relu_of_infinities() -> None:
    nodes = [node("Mul", "x", "two", output="p"), node("LeakyRelu", "p", alpha=-0.5)]
    x = np.float32([[LARGEST, -LARGEST, -0.0]])
    assert assert_same(network(nodes, 3, two=np.float32(2)), x).tolist() == [[math.inf, math.inf, -0.0]]


BOUNDS = st.sampled_from([-LARGEST, -2.5, -1e-45, -0.0, 0.0, 1e-45, 1.0, 6.0, LARGEST])


@examples(40)
@given(*SHAPES, st.tuples(BOUNDS, BOUNDS), st.sampled_from(["both", "min", "max", "none"]))
def test_clip(width: int, count: int, seed: int, bounds: tuple[float, float], given_: str) -> None:
    low, high = sorted(bounds)
    low = low or 0.0  # a min of -0 is refused
    names = {"both": ["low", "high"], "min": ["low"], "max": ["", "high"], "none": []}[given_]
    constants = {name: np.float32({"low": low, "high": high}[name]) for name in names if name}
    x = finite(np.random.default_rng(seed), (count, width))
    x[0, 0] = bounds[0]
    assert_same(network([node("Clip", "x", *names)], width, **constants), x)


def test_clip_of_an_old_opset_has_attributes_and_defaults_that_are_finite() -> None:
    made = make_model([node("Clip", "p", min=-1.0)], {}, {"y": ("float32", 3)}, width=3)
    made.opset_import[0].version = 10
    made.graph.node.insert(0, node("Mul", "x", "two", output="p"))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(2), "two"))
    parsed = networks.parse(made.SerializeToString(), "old")
    x = np.float32([[LARGEST, -LARGEST, -0.0]])
    assert assert_same(parsed, x).tolist() == [[LARGEST, -1.0, 0.0]]
    assert parsed.layers[0].output.bound == math.inf
    assert parsed.layers[1].output.bound == LARGEST


@pytest.mark.parametrize("inputs", [("Relu", "x"), ("Clip", "x", "low", "high")])
def test_a_nan_stays(inputs: tuple[str, ...]) -> None:
    """Compare the specification with ONNX Runtime: formula and kernels keep a NaN, too."""
    parsed = network([node(*inputs)], 2, **{name: np.float32(len(name) - 3.5) for name in inputs[2:]})
    x = np.array([[0x7FC00000, 0xFFC00001]], np.uint32).view(np.float32)
    assert np.isnan(parsed.layers[-1].prepare()(x)).all()
    assert np.isnan(runtime(parsed.onnx_bytes, x, optimised=True)).all()


# Add, Sub and Mul: of an activation and a constant, and of two activations, which Clip has made finite enough.


def between(limit: float, *names: str) -> tuple[Nodes, dict[str, Any]]:
    """Clips of x to -limit..limit, and of its negation."""
    clips = [node("Clip", source, "low", "high", output=name) for source, name in zip(["x", "z"], names, strict=True)]
    negate = node("Sub", "zero", "x", output="z")
    return [negate, *clips], {"low": np.float32(-limit), "high": np.float32(limit), "zero": np.float32(0)}


@examples(60)
@given(*SHAPES, st.sampled_from(["Add", "Sub", "Mul"]), st.booleans(), st.sampled_from(["one", "row", "all"]))
def test_with_a_constant(width: int, count: int, seed: int, operator: str, swapped: bool, shape: str) -> None:
    rng = np.random.default_rng(seed)
    constant = finite(rng, (1, width)) if shape == "row" else finite(rng, (1, width))[0]
    constant = constant[0] if shape == "one" else constant
    if operator != "Mul":
        constant = np.clip(constant, np.float32(-1e31), np.float32(1e31))
    if np.size(constant) == 1 and np.all(constant == 0):
        constant = np.float32(3)  # a zero of one value may be refused
    inputs = ["c", "x"] if swapped else ["x", "c"]
    assert_same(network([node(operator, *inputs)], width, c=constant), finite(rng, (count, width)))


@examples(40)
@given(*SHAPES, st.sampled_from(["Add", "Sub", "Mul"]))
def test_of_two_activations(width: int, count: int, seed: int, operator: str) -> None:
    clips, constants = between(1e30, "a", "b")
    x = finite(np.random.default_rng(seed), (count, width))
    assert_same(network([*clips, node(operator, "a", "b")], width, **constants), x)


def test_an_activation_and_itself() -> None:
    clips, constants = between(1e30, "a", "b")
    x = np.resize(SPECIAL, (9, 6)).astype(np.float32)
    for operator in ("Add", "Sub", "Mul"):
        found = assert_same(
            network([*clips[1:2], node(operator, "a", "a")], 6, low=constants["low"], high=constants["high"]), x
        )
        assert operator != "Sub" or found.tobytes() == np.zeros((9, 6), np.float32).tobytes()


def test_sums_with_infinities() -> None:
    largest, inf = np.finfo(np.float32).max, np.float32(np.inf)
    nodes = [node("Mul", "x", "two", output="p"), node("Add", "p", "x", output="s"), node("Sub", "s", "c")]
    parsed = network(nodes, 4, two=FLOAT(2), c=FLOAT(1e38))
    x = FLOAT([[largest, -largest, 1e38, -1e38]])
    assert assert_same(parsed, x).tolist() == [[inf, -inf, float(FLOAT(3e38) - FLOAT(1e38)), -inf]]
    assert [layer.output.bound for layer in parsed.layers] == [math.inf] * 3


FLOAT = np.float32

# Refusals.

REFUSED: dict[str, tuple[Nodes, dict[str, Any], str, str]] = {
    "Sub of constants": ([node("Sub", "c", "c")], {"c": FLOAT(1)}, "subtracts two constants", "results of two nodes"),
    "Sub of shapes": (
        [node("Sub", "x", "c")],
        {"c": np.ones(3, FLOAT)},
        r"term has shape \(3,\)",
        r"\(2,\) or \(1, 2\)",
    ),
    "Sub of NaN": ([node("Sub", "x", "c")], {"c": FLOAT(np.nan)}, "constant term holds nan", "finite"),
    "Mul of infinity": ([node("Mul", "x", "c")], {"c": FLOAT(np.inf)}, "factor holds inf", "finite"),
    "Mul of float64": ([node("Mul", "x", "c")], {"c": np.float64(1)}, "factor is float64", "float32 is accepted"),
    "Add of 0": (
        [node("Relu", "x", output="r"), node("Add", "c", "r")],
        {"c": FLOAT(0)},
        "turn -0 into 0, and 'r'",
        "leave",
    ),
    "Sub of -0": ([node("Sub", "x", "c")], {"c": FLOAT([-0.0])}, "turn -0 into 0, and 'x' can be", "leave it out"),
    "Relu of codes": (
        [node("QuantizeLinear", "x", "c", output="q"), node("Relu", "q")],
        {"c": FLOAT(1)},
        "'q' is uint8",
        "float32 or int8",
    ),
    "Clip upside down": (
        [node("Clip", "x", "c", "z")],
        {"c": FLOAT(2), "z": FLOAT(1)},
        "min is 2.0, above max, 1.0",
        "max or less",
    ),
    "Clip to -0": ([node("Clip", "x", "c")], {"c": FLOAT(-0.0)}, "min is -0.0", "0.0"),
    "Clip to infinity": ([node("Clip", "x", "", "c")], {"c": FLOAT(np.inf)}, "max is inf", "finite"),
    "Clip to NaN": ([node("Clip", "x", "c")], {"c": FLOAT(np.nan)}, "min is nan", "finite"),
    "Clip to a row": ([node("Clip", "x", "c")], {"c": np.zeros(2, FLOAT)}, r"min has shape \(2,\)", "one value"),
    "Clip to an activation": ([node("Clip", "x", "x")], {}, "min, 'x', is not constant", "initializer"),
    "LeakyRelu by infinity": ([node("LeakyRelu", "x", alpha=math.inf)], {}, "alpha is inf", "finite"),
    "LeakyRelu by NaN": ([node("LeakyRelu", "x", alpha=math.nan)], {}, "alpha is nan", "finite"),
    "LeakyRelu that is NaN": (
        [node("Mul", "x", "c", output="p"), node("LeakyRelu", "p", alpha=0.0)],
        {"c": FLOAT(2)},
        "'y' .*result can be NaN: 'p' can be infinite and alpha is 0",
        "Clip",
    ),
    "Relu with an attribute": ([node("Relu", "x", alpha=1.0)], {}, "attribute 'alpha' is unknown", "attributes are"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    nodes, constants, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=message) as caught:
        network(nodes, 2, **constants)
    assert re.search(hint, caught.value.hint)


def test_the_refused_zeros_are_really_left_out_by_onnx_runtime() -> None:
    x = np.float32([[-0.0, 0.0, -1.0]])
    for operator, zero in (("Add", 0.0), ("Sub", -0.0)):
        nodes = [node("Relu", "x", output="r"), node(operator, "r", "c", output="s"), node("Relu", "s")]
        made = make_model(nodes, {"c": FLOAT(zero)}, {"y": ("float32", 3)}, width=3)
        signs = [np.signbit(runtime(made, x, optimised=optimised))[0, 0] for optimised in (True, False)]
        assert signs == [True, False]


def test_a_min_of_negative_zero_is_another_after_relu_in_onnx_runtime() -> None:
    nodes = [node("Relu", "x", output="r"), node("Clip", "r", "c")]
    made = make_model(nodes, {"c": FLOAT(-0.0)}, {"y": ("float32", 1)}, width=1)
    signs = [np.signbit(runtime(made, np.float32([[-1]]), optimised=optimised)).item() for optimised in (True, False)]
    assert signs == [True, False]


def test_a_product_of_two_dequantised_activations_is_refused_as_a_sum_is() -> None:
    quantisation = ["scale", "zero"]
    nodes = [
        node("QuantizeLinear", "x", *quantisation, output="q"),
        node("DequantizeLinear", "q", *quantisation, output="a"),
        node("Reshape", "a", "shape", output="b"),
        node("Mul", "a", "b", output="p"),
        node("Mul", "p", "one", output="same"),
        node("QuantizeLinear", "same", *quantisation),
    ]
    constants = {"scale": FLOAT(0.1), "zero": np.uint8(100), "shape": np.array([-1, 2]), "one": FLOAT(1)}
    with pytest.raises(RequestError, match=r"'y' .*quantises the product of two results .*\('p'\).* one QLinearMul"):
        network(nodes, 2, **constants)


# What must not pass.


def flushed(y: Array) -> Array:
    return np.where(np.abs(y) < np.finfo(np.float32).tiny, np.float32(0), y)


def leaky(x: Array, alpha: np.float32) -> Array:
    return np.where(x < 0, x * alpha, x)


X = finite(np.random.default_rng(1), (400, 5))
ROW = np.float32([0.1, -3.0, 1e-20, 7e-39, 1.0])
double = np.float64
WRONG: dict[str, tuple[Nodes, dict[str, Any], Callable[[Array], Array]]] = {
    "Relu: subnormals flushed": ([node("Relu", "x")], {}, lambda x: flushed(np.where(x < 0, FLOAT(0), x))),
    "Relu: leaky": ([node("Relu", "x")], {}, lambda x: np.where(x < 0, x * FLOAT(0.01), x)),
    "LeakyRelu: alpha in double precision": (
        [node("LeakyRelu", "x")],
        {},
        lambda x: np.where(x < 0, x.astype(double) * 0.01, x),
    ),
    "LeakyRelu: subnormals flushed": (
        [node("LeakyRelu", "x")],
        {},
        lambda x: np.where(x < 0, flushed(leaky(x, FLOAT(0.01))), x),
    ),
    "Clip: the bounds swapped": (
        [node("Clip", "x", "low", "high")],
        {"low": FLOAT(-1), "high": FLOAT(6)},
        lambda x: np.clip(x, FLOAT(-6), FLOAT(1)),
    ),
    "Sub: subnormals flushed": ([node("Sub", "x", "row")], {"row": ROW}, lambda x: flushed(x - ROW)),
    "Sub: -(b - a), whose zeros are negative": (
        [node("Sub", "x", "one")],
        {"one": FLOAT(1)},
        lambda x: -(FLOAT(1) - x),
    ),
    "Mul: subnormals flushed": ([node("Mul", "x", "row")], {"row": ROW}, lambda x: flushed(x * ROW)),
    "Mul: subnormal inputs flushed": ([node("Mul", "x", "row")], {"row": ROW}, lambda x: flushed(x) * ROW),
    "Mul: 0 without a sign": ([node("Mul", "x", "row")], {"row": ROW}, lambda x: x * ROW + FLOAT(0)),
    "Mul: saturates": (
        [node("Mul", "x", "row")],
        {"row": ROW},
        lambda x: np.clip(x * ROW, -FLOAT(LARGEST), FLOAT(LARGEST)),
    ),
    "Mul: through float16": (
        [node("Mul", "x", "row")],
        {"row": ROW},
        lambda x: (x.astype(np.float16) * ROW.astype(np.float16)).astype(np.float32),
    ),
}


FAULTY: dict[str, tuple[Nodes, dict[str, Any], str]] = {
    "Relu": ([node("Relu", "x")], {}, "none"),
    "Clip": ([node("Clip", "x", "low", "high")], {"low": FLOAT(-1), "high": FLOAT(6)}, "equality"),
    "Clip from 0": (
        [node("Clip", "x", "low", "high")],
        {"low": FLOAT(0), "high": FLOAT(6)},
        "bound is 0|high includes|bytes of low",
    ),
    "Sub": ([node("Sub", "x", "row")], {"row": ROW}, "none"),
    "Mul": ([node("Mul", "x", "row")], {"row": ROW}, "none"),
}
"""Layers, and their faults that change nothing."""


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_fault_changes_some_values(name: str) -> None:
    nodes, constants, harmless = FAULTY[name]
    [layer] = network(nodes, X.shape[1], **constants).layers
    right = layer.prepare()(X)
    outputs = {model.cause: model.output.tobytes() for model in layer.fault_models(X)}
    assert len(outputs) >= 6
    assert [
        cause for cause, output in outputs.items() if output == right.tobytes() and not re.search(harmless, cause)
    ] == []


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_variant_is_told_from_the_specification(name: str) -> None:
    nodes, constants, wrong = WRONG[name]
    right = assert_same(network(nodes, X.shape[1], **constants), X)
    assert wrong(X).astype(np.float32).tobytes() != right.tobytes()


def test_vectors_of_the_wrong_variants_are_not_all_wrong() -> None:
    """The table above would prove nothing if any function passed for wrong."""
    for nodes, constants, right in (
        ([node("Relu", "x")], {}, lambda x: np.where(x < 0, FLOAT(0), x)),
        ([node("LeakyRelu", "x", alpha=3.0)], {}, lambda x: leaky(x, FLOAT(3))),
        ([node("Sub", "x", "row")], {"row": ROW}, lambda x: x - ROW),
        ([node("Mul", "x", "row")], {"row": ROW}, lambda x: x * ROW),
    ):
        with np.errstate(over="ignore", under="ignore"):
            assert right(X).tobytes() == assert_same(network(nodes, X.shape[1], **constants), X).tobytes()


def test_grids_of_stimuli_lie_around_the_steps() -> None:
    relu = network([node("Relu", "x")], 2).layers[0]
    assert [str(value) for value in relu.stimuli.boundaries()[0]] == ["-1e-45", "0.0", "1e-45"]
    clip = network([node("Clip", "x", "low", "high")], 2, low=FLOAT(-1), high=FLOAT(2)).layers[0]
    assert sorted({round(float(value)) for value in clip.stimuli.boundaries()[0]}) == [-1, 2]
    assert clip.stimuli.representable() == (-2.0, 3.0)
    assert all(itertools.starmap(float.__lt__, itertools.pairwise(clip.stimuli.boundaries()[0].tolist())))
    above = network([node("Clip", "x", "low")], 2, low=FLOAT(5)).layers[0]
    assert above.stimuli.representable() == (4.0, 7.0)
    assert np.isfinite(above.stimuli.boundaries()[0]).all()
