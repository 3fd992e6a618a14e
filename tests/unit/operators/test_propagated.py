"""Bounds of results for inputs with errors: ONNX Runtime, ONNX's evaluator and the specification lie within them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.float_errors import Perturbed
from tests.support.codes import layer_of as layer_of_codes
from tests.support.codes import model_of, node, runtime
from tests.support.floats import read_node

RNG = np.random.default_rng(25)
SHAPE = (3, 5, 4)
VECTORS = 40


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


CONSTANTS: dict[str, Any] = {
    "kernels": normal(4, 3, 3, 2),
    "of_kernels": normal(4),
    "depthwise": normal(6, 1, 2, 2),
    "to_wider": normal(3, 2, 3, 2),
    "of_wider": normal(2),
    "matrix": normal(4, 7),
    "wide": normal(20, 6),
    "of_wide": normal(6),
    "shape": np.array([0, -1], np.int64),
    "around": np.array([0, 0, 1, 2, 0, 0, 2, 1], np.int64),
    "filler": np.float32(7),
    "chosen": np.array([2, 0, -1], np.int64),
    "starts": np.array([1], np.int64),
    "ends": np.array([-1], np.int64),
    "axis": np.array([2], np.int64),
    "channels": normal(3, 1, 1),
    "far": np.float32([2, -3, 5]).reshape(3, 1, 1),
    "slopes": np.float32([0.25, -0.5, 3]).reshape(3, 1, 1),
    "low": np.float32(-0.5),
    "high": np.float32(0.75),
    "gain": normal(3),
    "bias": normal(3),
    "mean": normal(3),
    "variance": np.abs(normal(3)),
    "twice": np.array([1, 1, 1.5, 2], np.float32),
    "one": np.float32(1),
}
NODES: dict[str, onnx.NodeProto] = {
    "Gemm": node("Gemm", "v", "wide", "of_wide", alpha=0.5),
    "MatMul": node("MatMul", "x", "matrix"),
    "Conv": node("Conv", "x", "kernels", "of_kernels", pads=[1, 0, 2, 1], strides=[2, 1]),
    "depthwise Conv": node("Conv", "x", "depthwise", group=3),
    "ConvTranspose": node("ConvTranspose", "x", "to_wider", "of_wider", strides=[2, 1]),
    "Reshape": node("Reshape", "x", "shape"),
    "Transpose": node("Transpose", "x", perm=[0, 2, 3, 1]),
    "Concat": node("Concat", "x", "z", axis=2),
    "Slice": node("Slice", "x", "starts", "ends", "axis"),
    "Pad": node("Pad", "x", "around", "filler"),
    "Pad, reflected": node("Pad", "x", "around", mode="reflect"),
    "Gather": node("Gather", "x", "chosen", axis=3),
    "MaxPool": node("MaxPool", "x", kernel_shape=[3, 2], pads=[1, 0, 0, 1]),
    "GlobalMaxPool": node("GlobalMaxPool", "x"),
    "ReduceMax": node("ReduceMax", "x", "axis"),
    "ReduceMin": node("ReduceMin", "x", "axis"),
    "ReduceSum": node("ReduceSum", "x", "axis"),
    "ReduceMean": node("ReduceMean", "x", "axis"),
    "Max": node("Max", "x", "channels", "z"),
    "Min": node("Min", "x", "z"),
    "Sum": node("Sum", "x", "channels", "z", "x"),
    "Mean": node("Mean", "x", "channels", "z"),
    "Relu": node("Relu", "x"),
    "Clip": node("Clip", "x", "low", "high"),
    "LeakyRelu": node("LeakyRelu", "x", alpha=0.1),
    "LeakyRelu, turned": node("LeakyRelu", "x", alpha=-2.0),
    "PRelu": node("PRelu", "x", "slopes"),
    "Exp": node("Exp", "x"),
    "Tanh": node("Tanh", "x"),
    "Sigmoid": node("Sigmoid", "x"),
    "Elu": node("Elu", "x", alpha=1.5),
    "Elu, turned": node("Elu", "x", alpha=-1.5),
    "HardSigmoid": node("HardSigmoid", "x"),
    "HardSwish": node("HardSwish", "x"),
    "Softmax": node("Softmax", "x", axis=1),
    "Softmax of rows": node("Softmax", "x", axis=-1),
    "LRN": node("LRN", "x", size=3, alpha=0.5, beta=0.75, bias=0.5),
    "AveragePool": node("AveragePool", "x", kernel_shape=[3, 2], pads=[1, 0, 0, 1]),
    "GlobalAveragePool": node("GlobalAveragePool", "x"),
    "BatchNormalization": node("BatchNormalization", "x", "gain", "bias", "mean", "variance"),
    "Add": node("Add", "x", "z"),
    "Add a constant": node("Add", "x", "channels"),
    "Sub": node("Sub", "x", "z"),
    "Mul": node("Mul", "x", "z"),
    "Div by a constant": node("Div", "x", "far"),
    "Div": node("Div", "z", "positive"),
    "Resize": node("Resize", "x", "", "twice", mode="linear"),
}
NOT_BY_THE_EVALUATOR = {"Pad", "Resize", "Div", "LRN"}
"""Nodes whose evaluator fails, or has other coordinates."""
LOOSE = {"Gemm", "MatMul", "Conv", "ConvTranspose", "LRN", "Softmax", "Softmax of rows", "Sum", "Mean"}


def inputs_of(proto: onnx.NodeProto, rng: np.random.Generator, spread: float) -> dict[str, Array]:
    """Values for the activations of a node."""
    names = dict.fromkeys(name for name in proto.input if name in ("x", "z", "v", "positive"))
    found = {}
    for name in names:
        shape = (VECTORS, 20) if name == "v" else (VECTORS, *SHAPE)
        values = rng.normal(0, spread, shape)
        found[name] = (np.abs(values) + spread / 2 if name == "positive" else values).astype(np.float32)
    return found


def layer_of(proto: onnx.NodeProto, inputs: dict[str, Array]) -> Layer:
    return read_node(proto, constants_of(proto), inputs, bound=1e6, least=1e-6 if proto.op_type == "Div" else 0)


def constants_of(proto: onnx.NodeProto) -> dict[str, Any]:
    return {name: CONSTANTS[name] for name in proto.input if name in CONSTANTS}


def moved(x: Array, errors: Array, share: Array | float) -> Array:
    """Return float32 values at this share, -1 to 1, of the errors, never beyond them."""
    y = (x.astype(np.float64) + share * errors).astype(np.float32)
    return np.where(np.abs(y.astype(np.float64) - x) > errors, x, y)


def results(proto: onnx.NodeProto, layer: Layer, inputs: dict[str, Array], *, evaluator: bool) -> dict[str, Array]:
    """The results of all engines, (vectors, size)."""
    constants = constants_of(proto)
    found = {f"ONNX Runtime, {each}": runtime(proto, constants, inputs, optimised=each) for each in (True, False)}
    if evaluator:
        found["evaluator"] = ReferenceEvaluator(model_of(proto, constants, inputs)).run(None, dict(inputs))[0]
    found["specification"] = layer.prepare()(*(inputs[name].reshape(VECTORS, -1) for name in layer.sources))
    return {name: values.reshape(VECTORS, -1) for name, values in found.items()}


@pytest.mark.half_of_cases
@pytest.mark.slow
@pytest.mark.parametrize("name", NODES)
def test_every_engine_lies_within_the_bound_for_inputs_with_errors(name: str) -> None:
    proto = NODES[name]
    for number, (spread, relative) in enumerate([(1, 1e-6), (1, 0.1), (3, 1e-3), (10, 1e-7), (30, 1.0), (1e-3, 0.3)]):
        rng = np.random.default_rng(number)
        inputs = inputs_of(proto, rng, spread)
        layer = layer_of(proto, inputs)
        values = [inputs[each].reshape(VECTORS, -1) for each in layer.sources]
        of_names = {
            each: rng.uniform(0, relative * spread, (VECTORS, x[0].size)) * rng.integers(0, 2, (VECTORS, x[0].size))
            for each, x in inputs.items()
        }
        if "positive" in inputs:
            of_names["positive"] = np.minimum(of_names["positive"], 0.9 * inputs["positive"].reshape(VECTORS, -1))
        errors = [of_names[each] for each in layer.sources]
        output = layer.prepare()(*values)
        bound = layer.errors.propagated(Perturbed(values, errors, output))
        assert (bound.shape, bound.dtype) == (output.shape, np.float64)
        assert np.isfinite(bound).mean() > (0.9 if name == "Exp" else 0.999999)  # it overflows
        kinds = [rng.uniform(-1, 1, SHAPE), rng.choice([-1, 1], SHAPE), np.ones(SHAPE)]
        for share, other in ((share, other) for share in (*kinds, -kinds[2]) for other in (1, -1)):
            others = {}
            for k, (x, error, source) in enumerate(zip(values, errors, layer.sources, strict=True)):
                of_source = np.resize(share, x.shape[1:]) * (other if k else 1)
                others[source] = moved(x, error, of_source).reshape(inputs[source].shape)
            engines = results(proto, layer, others, evaluator=name not in NOT_BY_THE_EVALUATOR)
            for engine, found in engines.items():
                wrong = np.abs(found.astype(np.float64) - output) > bound
                assert not wrong.any(), (engine, spread, relative, np.argwhere(wrong)[:3])


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", NODES)
def test_the_bound_is_near_the_largest_change(name: str) -> None:
    """Errors of 1 % of the values: rounding plays no part."""
    proto, rng = NODES[name], np.random.default_rng(0)
    inputs = inputs_of(proto, rng, 1)
    layer = layer_of(proto, inputs)
    values = [inputs[each].reshape(VECTORS, -1) for each in layer.sources]
    errors = [np.full(x.shape, 0.01) for x in values]
    output = layer.prepare()(*values)
    bound, largest = layer.errors.propagated(Perturbed(values, errors, output)), np.zeros(output.shape)
    for share in (1.0, -1.0, *(rng.choice([-1, 1], values[0].shape) for _ in range(60))):
        others = [
            moved(x, error, share if k == 0 else -share)
            for k, (x, error) in enumerate(zip(values, errors, strict=True))
        ]
        largest = np.maximum(largest, np.abs(layer.prepare()(*others).astype(np.float64) - output))
    ratio = bound[largest > 0] / largest[largest > 0]
    assert ratio.size > bound.size / 4
    assert np.median(ratio) < (20 if name in LOOSE else 4)


@pytest.mark.parametrize("name", NODES)
def test_without_errors_a_result_is_within_the_tolerance(name: str) -> None:
    """Also in a vector among others with errors."""
    proto = NODES[name]
    inputs = inputs_of(proto, np.random.default_rng(0), 1)
    layer = layer_of(proto, inputs)
    values = [inputs[each].reshape(VECTORS, -1) for each in layer.sources]
    output = layer.prepare()(*values)
    tolerance = layer.tolerance(values, output)
    right = np.zeros(output.shape) if tolerance is None else tolerance
    none = [np.zeros(x.shape) for x in values]
    assert (layer.errors.propagated(Perturbed(values, none, output)) == right).all()
    for errors in none:
        errors[1::2] = 1e-3
    bound = layer.errors.propagated(Perturbed(values, none, output))
    assert (bound[::2] == right[::2]).all()
    assert (bound[1::2] > right[1::2]).mean() > 0.2


def test_the_ends_are_rounded_outward() -> None:
    x = np.float32([[1, 1, -3, 0, 1]])
    errors = np.array([[2.0**-30, 2.0**-24, 0.1, 1e-46, np.inf]])
    low, high = Perturbed([x], [errors], x).ends()
    after, before = np.nextafter(np.float32(1), np.float32(2)), np.nextafter(np.float32(1), np.float32(0))
    least = np.nextafter(np.float32(0), np.float32(1))
    assert high.tolist() == [[after, after, np.nextafter(np.float32(-2.9), np.float32(0)), least, np.inf]]
    assert low.tolist() == [[before, before, np.nextafter(np.float32(-3.1), np.float32(-4)), -least, -np.inf]]
    assert (low.dtype, high.dtype) == (np.float32, np.float32)
    codes = np.int8([[-128, 100]])
    assert [end.tolist() for end in Perturbed([codes], [np.array([[1, 60.0]])], codes).ends()] == [
        [[-128, 40]],
        [[-127, 127]],
    ]


def test_a_code_is_certain_unless_a_threshold_is_near() -> None:
    x = np.float32([[-9, 0.049, 0.1, 0.151, 30]])
    constants = {"scale": np.float32(0.1), "zero_point": np.int8(3)}
    layer = layer_of_codes(node("QuantizeLinear", "x", "scale", "zero_point"), constants, {"x": x})
    output = layer.prepare()(x)
    errors = np.array([[1e-3, 2e-3, 1e-3, 0.11, np.inf]])
    assert output.tolist() == [[-87, 3, 4, 5, 127]]
    assert layer.errors.propagated(Perturbed([x], [errors], output)).tolist() == [[0, 1, 0, 2, np.inf]]


def test_codes_with_errors_become_numbers_with_errors() -> None:
    q = np.int8([[-128, 3, 4, 127]])
    constants = {"scale": np.float32(0.5), "zero_point": np.int8(3)}
    layer = layer_of_codes(node("DequantizeLinear", "q", "scale", "zero_point"), constants, {"q": q})
    output = layer.prepare()(q)
    errors = np.array([[1, 0, 2, 300.0]])
    assert layer.errors.propagated(Perturbed([q], [errors], output)).tolist() == [[0.5, 0, 1, 127.5]]


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_an_index_is_certain_if_its_value_is_beyond_all_others(operator: str) -> None:
    x = np.float32([[1, 3, 2], [1, 3, 2], [2, 2, 1], [0, 0, 1]]) * np.float32(1 if operator == "ArgMax" else -1)
    layer = layer_of_codes(node(operator, "x", axis=1), {}, {"x": x})
    errors = np.array([[0.25, 0.5, 0.25], [0, 0.5, 0.5], [1e-9, 0, 0], [0, 0.9, 0.05]])
    output = layer.prepare()(x)
    assert layer.errors.propagated(Perturbed([x], [errors], output))[:, 0].tolist() == [0, np.inf, np.inf, 0]


def test_codes_of_other_operators_have_no_bound_unless_they_are_exact() -> None:
    a = np.uint8([[1, 2], [3, 4]])
    constants = {"s": np.float32(0.1), "z": np.uint8(0)}
    layer = layer_of_codes(node("QLinearAdd", "a", "s", "z", "b", "s", "z", "s", "z"), constants, {"a": a, "b": a})
    errors = [np.array([[0, 0], [0, 1.0]]), np.zeros((2, 2))]
    bound = layer.errors.propagated(Perturbed([a, a], errors, layer.prepare()(a, a)))
    assert bound.tolist() == [[0, 0], [np.inf, np.inf]]


def test_an_overflow_within_the_errors_has_no_bound() -> None:
    x = np.full((2, 20), 1e36, np.float32)
    proto = NODES["Gemm"]
    layer = layer_of(proto, {"v": x})
    errors = np.zeros(x.shape)
    errors[1] = 3e38
    bound = layer.errors.propagated(Perturbed([x], [errors], layer.prepare()(x)))
    assert np.isfinite(bound[0]).all()
    assert np.isinf(bound[1]).all()


def test_a_constant_may_pass_the_roundings_of_the_sum_before() -> None:
    """ONNX Runtime makes it the bias: the bound of a large constant grows with the length of the sum."""
    x = np.float32([[1e-3]])
    proto = node("Add", "x", "large")
    layer = read_node(proto, {"large": np.float32([1e3])}, {"x": x})
    output, errors = layer.prepare()(x), [np.full((1, 1), 1e-9)]
    alone, together = (layer.errors.propagated(Perturbed([x], errors, output, each)).item() for each in (0, 4096))
    assert together > 500 * alone
    assert layer.runtime.roundings(4096) == 4096
    assert layer_of(NODES["Gemm"], {"v": np.zeros((1, 20), np.float32)}).runtime.roundings(0) == 31
    assert layer_of(NODES["Tanh"], {"x": np.zeros((1, *SHAPE), np.float32)}).runtime.roundings(31) == 0
