"""Functions of float32: accuracy, special values, ONNX Runtime and ONNX's reference within the tolerance, refusals."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from harness import model as networks
from harness.core.errors import ReferenceFailed, RequestError
from harness.operators.base import Layer
from harness.operators.contracted import contracted
from harness.operators.exact import from_ordered, functions, ordered
from harness.operators.exact.evaluation import numpy_function
from harness.operators.softmax import FLUSHED, Softmax
from harness.operators.staged import Staged
from harness.operators.tensor import LARGEST
from harness.reference import Reference
from tests.support.builders import make_model
from tests.support.examples import examples
from tests.support.functions import CROSS, FUNCTIONS, NATIVE, PLAIN, Build, compiled, nodes_of

Array = npt.NDArray[Any]
INF = math.inf
FLOAT = np.float32


def layer_of(operator: str, shape: tuple[int, ...] = (5,), **attributes: Any) -> tuple[Layer, onnx.ModelProto]:
    """The layer of this operator in a model that reads vectors of this shape, and the model."""
    size = math.prod(shape)
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"], name="r")] if len(shape) > 1 else []
    constants = {"shape": np.array([-1, *shape])} if nodes else {}
    more, given = nodes_of(operator, "r" if nodes else "x", **attributes)
    model = make_model([*nodes, *more], constants | given, {}, width=size)
    output = helper.make_tensor_value_info("y", 1, ["vectors", *shape])
    model.graph.output.append(output)
    return networks.parse(model.SerializeToString(), "test").layers[-1], model


def evaluated(layer: Layer, x: Array) -> Array:
    y = layer.prepare()(x)
    assert y.dtype == FLOAT
    assert (np.abs(y) <= layer.output.bound).all()
    assert layer.output.negative_zero or not np.signbit(y[y == 0]).any()
    return y


def by_runtime(model: onnx.ModelProto, x: Array, *, optimised: bool = True) -> Array:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: Array = session.run(None, {"x": x})[0].reshape(x.shape)
    return found


def by_reference(model: onnx.ModelProto, x: Array) -> Array:
    with np.errstate(all="ignore"):
        found: Array = ReferenceEvaluator(model).run(None, {"x": x})[0].reshape(x.shape)
    return found


def outside(layer: Layer, x: Array, y: Array, found: Array) -> Array:
    """Return the indices at which another implementation is outside the tolerance."""
    allowed = layer.tolerance([x], y)
    with np.errstate(invalid="ignore"):
        distance = np.where(found == y, 0, np.abs(found.astype(np.float64) - y))
    if allowed is None:
        return np.argwhere(found.view(np.uint32) != y.view(np.uint32))
    assert (allowed.shape, allowed.dtype) == (y.shape, np.float64)
    return np.argwhere(~(distance <= allowed))


def numbers(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Numbers of the size of activations, of all magnitudes, and special ones."""
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32).view(FLOAT)
    wide = np.where(np.isfinite(bits), bits, FLOAT(1.5))
    special = rng.choice(FLOAT([0, -0.0, 1e-45, -1e-45, LARGEST, -LARGEST, 88.72284, -87.4, -103.9]), shape)
    kinds = [rng.normal(0, 3, shape), rng.normal(0, 50, shape), wide, special]
    return np.choose(rng.integers(0, len(kinds), shape), kinds).astype(FLOAT)


FACTORS = st.sampled_from([-LARGEST, -0.5, -0.0, 1e-30, 0.3, 1.0, LARGEST])
KINDS: dict[str, dict[str, st.SearchStrategy[float]]] = {
    "Exp": {},
    "Tanh": {},
    "Sigmoid": {},
    "Elu": {"alpha": FACTORS},
    "HardSigmoid": {"alpha": FACTORS, "beta": st.sampled_from([-LARGEST, -0.5, 0.0, 1e-45, 0.4, 3.0])},
    "HardSwish": {},
}


@pytest.mark.parametrize("operator", KINDS)
@examples(25)
@given(width=st.integers(1, 70), count=st.integers(1, 60), seed=st.integers(0, 1 << 32), data=st.data())
def test_onnx_runtime_is_within_the_tolerance(
    operator: str, width: int, count: int, seed: int, data: st.DataObject
) -> None:
    attributes = {name: float(FLOAT(data.draw(values))) for name, values in KINDS[operator].items()}
    layer, model = layer_of(operator, (width,), **attributes)
    x = numbers(np.random.default_rng(seed), (count, width))
    y = evaluated(layer, x)
    assert not outside(layer, x, y, by_runtime(model, x)).size


@pytest.mark.parametrize("operator", KINDS)
def test_the_reference_evaluator_of_onnx_is_within_the_tolerance(operator: str) -> None:
    layer, model = layer_of(operator)
    x = numbers(np.random.default_rng(1), (400, 5))
    x = x[(np.abs(x) < 1e6).all(axis=1)]
    y = evaluated(layer, x)
    found = by_reference(model, x)
    if operator in {"HardSigmoid", "HardSwish"}:  # it computes them in another precision or order
        np.testing.assert_allclose(found, y, rtol=3e-7, atol=3e-7)
    else:
        assert not outside(layer, x, y, found).size


# Accuracy, against float64; all 2^32 inputs are in tests/campaigns/functions.

BY_NAME = {function.name: function for function in FUNCTIONS}
RANGES = {
    "exponential": (-104, 88),
    "exponential_minus_one": (-25, 0),
    "hyperbolic_tangent": (-10, 10),
    "logistic": (-104, 18),
    "logarithm": (0, 3),
    "logarithm_of_one_plus": (0, 1),
    "error_function": (-4.5, 4.5),
    "sine": (-1e4, 1e4),
    "cosine": (-1e4, 1e4),
    "tangent": (-1e4, 1e4),
    "arctangent": (-10, 10),
    "arcsine": (-1, 1),
    "arccosine": (-1, 1),
    "hyperbolic_sine": (-89, 89),
    "hyperbolic_cosine": (0, 89),
    "inverse_hyperbolic_sine": (-100, 100),
    "inverse_hyperbolic_cosine": (1, 2),
    "inverse_hyperbolic_tangent": (-0.9999, 0.9999),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", BY_NAME)
def test_errors_are_below_the_stated_ones_and_nearly_reach_them(name: str) -> None:
    function, rng, (low, high) = BY_NAME[name], np.random.default_rng(1), RANGES[name]
    x = np.concatenate([rng.uniform(low, high, 1 << 20), rng.uniform(-3, 3, 1 << 20)]).astype(FLOAT)
    x = x[(x >= low) & (x <= high)]
    exact = function.real(x.astype(np.float64))
    ulp = 2.0 ** np.maximum(np.frexp(exact)[1] - 24, -149)
    errors = np.abs(numpy_function(function)(x) - exact) / ulp
    assert function.ulp * 0.85 < errors.max() < function.ulp + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_stated_facts_of_functions_hold(name: str) -> None:
    """Compare neighbours at random places, and around 0: the order, the limits and the sign of zero."""
    function, rng, (low, high) = BY_NAME[name], np.random.default_rng(2), RANGES[name]
    keys = ordered(np.concatenate([rng.uniform(low, high, 1000), rng.uniform(-1e-3, 1e-3, 1000), [0]]).astype(FLOAT))
    near = from_ordered(np.unique(keys[:, None] + np.arange(64)))
    far = np.linspace(low, high, 1 << 18, dtype=FLOAT)
    for x in (near[(near >= low) & (near <= high)], far):
        y = numpy_function(function)(x)
        assert (y >= function.limits[0]).all()
        assert (y <= function.limits[1]).all()
        steps = np.diff(y)[np.isfinite(y[1:]) & np.isfinite(y[:-1])]
        assert not function.is_monotone or (steps >= 0).all()


EXP, EXP_MINUS_ONE, TANH, LOGISTIC = (
    numpy_function(function)
    for function in (
        functions.exponential,
        functions.exponential_minus_one,
        functions.hyperbolic_tangent,
        functions.logistic,
    )
)


@pytest.mark.parametrize(
    ("function", "pairs"),
    [
        (EXP, [(0, 1), (-0.0, 1), (1, 2.7182817), (-INF, 0), (INF, INF), (88.72283, 3.4027985e38),
                          (88.72284, INF), (-103.97208, 1e-45), (-103.97209, 0), (-87.5, 9.982351e-39), (LARGEST, INF),
                          (-LARGEST, 0)]),
        (EXP_MINUS_ONE, [(-1e-45, -1e-45), (-1e-30, -1e-30), (-24, -1), (-INF, -1), (-LARGEST, -1)]),
        (TANH, [(-0.0, -0.0), (0, 0), (1e-45, 1e-45), (-1e-30, -1e-30), (INF, 1), (-INF, -1), (9.1, 1),
                           (-LARGEST, -1)]),
        (LOGISTIC, [(0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (17, 1), (-100, 3.783506e-44),
                               (-103.9, 1e-45), (-104, 0), (LARGEST, 1)]),
    ],
)  # fmt: skip
def test_special_values(function: Callable[[Array], Array], pairs: list[tuple[float, float]]) -> None:
    x, right = np.array(pairs, FLOAT).T.copy()
    assert function(x).tobytes() == right.tobytes(), list(zip(x, function(x), right, strict=True))
    bits = np.array([0x7F800001, 0x7FC00000, 0xFF800001, 0xFFFFFFFF], np.uint32)
    assert np.isnan(function(bits.view(FLOAT))).all()


@pytest.mark.slow
@pytest.mark.parametrize("build", [NATIVE, PLAIN, CROSS], ids=["native", "without optimisation", "emulated aarch64"])
def test_the_kernels_give_the_bits_of_the_specification(build: Build | None, tmp_path: Path) -> None:
    """Compare every 65,521st float32; tests/campaigns/functions tries all of them."""
    if build is None:
        pytest.skip("no compiler for aarch64, or no qemu-aarch64")
    program, step = compiled(build, tmp_path), 65_521
    for name, function in {**BY_NAME, "exp": functions.exponential}.items():
        first = 1 << 31 if name == "exponential_minus_one" else 0
        x = np.arange(first, 1 << 32, step, dtype=np.int64).astype(np.uint32).view(FLOAT)
        found = np.frombuffer(program(name, "values", first, len(x), step), FLOAT)
        right = numpy_function(function)(x)
        assert (np.isnan(found) == np.isnan(right)).all()
        assert found[~np.isnan(right)].tobytes() == right[~np.isnan(right)].tobytes(), name


def test_elu_keeps_small_numbers_and_zeros() -> None:
    layer, _ = layer_of("Elu", (4,), alpha=2.0)
    x = FLOAT([[-1e-30, -0.0, 0.0, -LARGEST]])
    assert evaluated(layer, x).tobytes() == FLOAT([[-2e-30, -0.0, 0.0, -2.0]]).tobytes()


# Softmax.


@examples(40)
@given(st.integers(1, 300), st.integers(1, 3), st.integers(1, 30), st.integers(0, 1 << 32), st.sampled_from([1, 20, 0]))
def test_softmax_is_within_the_tolerance(length: int, rows: int, count: int, seed: int, scale: int) -> None:
    shape = (length,) if rows == 1 else (rows, length)
    layer, model = layer_of("Softmax", shape, axis=-1)
    assert isinstance(layer, Softmax)
    rng = np.random.default_rng(seed)
    size = rows * length
    x = rng.normal(0, scale, (count, size)).astype(FLOAT) if scale else numbers(rng, (count, size))
    y = evaluated(layer, x)
    for found in (by_runtime(model, x), by_reference(model, x)):
        assert not outside(layer, x, y, found).size
    sums = y.reshape(count, rows, length).astype(np.float64).sum(axis=2)
    assert np.abs(sums - 1).max() < length * 2.0**-23


def test_the_stated_tolerance_of_softmax_is_below_the_derived_one() -> None:
    layer, _ = layer_of("Softmax", (3, 7), axis=2)
    assert isinstance(layer, Softmax)
    x = numbers(np.random.default_rng(4), (300, 21))
    y = evaluated(layer, x)
    stated, derived = layer.tolerance([x], y), Staged.tolerance(layer, [x], y)
    assert (stated <= derived + FLUSHED).all()
    assert np.median(derived / stated) < 3


def test_softmax_sums_in_the_order_of_the_columns() -> None:
    layer, _ = layer_of("Softmax", (3,))
    x = np.log(FLOAT([[1, 2.0**-24, 2.0**-24]]))
    e = EXP(x)
    assert (e[0, 1] + e[0, 2]) + e[0, 0] != (e[0, 0] + e[0, 1]) + e[0, 2]
    assert evaluated(layer, x).tobytes() == (e / ((e[0, 0] + e[0, 1]) + e[0, 2])).tobytes()


# Refusals.

DOUBLED = [helper.make_node("Mul", ["x", "two"], ["p"], name="p")]
REFUSED: dict[str, tuple[str, dict[str, Any], bool, str, str]] = {
    "Elu by infinity": ("Elu", {"alpha": INF}, False, "alpha is inf", "finite"),
    "HardSigmoid with NaN": ("HardSigmoid", {"beta": math.nan}, False, "beta is nan", "finite"),
    "HardSigmoid with -0": ("HardSigmoid", {"beta": -0.0}, False, "beta is -0.0", "0.0"),
    "HardSigmoid that is NaN": ("HardSigmoid", {"alpha": 0.0}, True, "result can be NaN: 'p' can be infinite", "Clip"),
    "Softmax of the vectors": ("Softmax", {"axis": 2}, False, "axis is 2", "axes 1 to 1"),
    "Tanh with an attribute": ("Tanh", {"alpha": 1.0}, False, "attribute 'alpha' is unknown", "attributes are"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    operator, attributes, infinite, message, hint = REFUSED[case]
    last = helper.make_node(operator, ["p" if infinite else "x"], ["y"], name="y", **attributes)
    nodes = [*DOUBLED, last] if infinite else [last]
    model = make_model(nodes, {"two": FLOAT(2)} if infinite else {}, {"y": ("float32", 2)}, width=2)
    with pytest.raises(RequestError, match=f"'y' .*{message}") as caught:
        networks.parse(model.SerializeToString(), "test")
    assert re.search(hint, caught.value.hint)


@examples(40)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(-3, 3), st.integers(0, 1 << 32))
def test_softmax_along_any_axis_is_within_the_tolerance(shape: list[int], axis: int, seed: int) -> None:
    if axis % (len(shape) + 1) == 0 or not -len(shape) <= axis <= len(shape):
        return
    layer, model = layer_of("Softmax", tuple(shape), axis=axis)
    x = np.random.default_rng(seed).normal(0, 3, (10, math.prod(shape))).astype(FLOAT)
    y = evaluated(layer, x)
    for found in (by_runtime(model, x), by_reference(model, x)):
        assert not outside(layer, x, y, found).size
    rows = x.reshape(10, *shape)
    e = EXP(rows - rows.max(axis=axis, keepdims=True))
    total = functools.reduce(np.add, np.moveaxis(e, axis, 0))
    assert y.tobytes() == (e / np.expand_dims(total, axis)).tobytes()


@pytest.mark.parametrize(("opset", "axis", "row"), [(12, None, 24), (12, 2, 12), (13, None, 4), (13, 2, 3)])
def test_softmax_has_other_rows_before_operator_set_13(opset: int, axis: int | None, row: int) -> None:
    _, model = layer_of("Softmax", (2, 3, 4), **({} if axis is None else {"axis": axis}))
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", opset))
    layer = networks.parse(model.SerializeToString(), "test").layers[-1]
    assert isinstance(layer, Softmax)
    assert layer.count == row
    x = np.random.default_rng(0).normal(0, 3, (10, 24)).astype(FLOAT)
    y = evaluated(layer, x)
    assert not outside(layer, x, y, by_runtime(model, x)).size


def test_softmax_of_the_vectors_is_refused() -> None:
    with pytest.raises(RequestError, match="axis is 0") as caught:
        layer_of("Softmax", (2, 3), axis=0)
    assert "axes 1 to 2" in caught.value.hint


def test_a_quantised_softmax_of_a_dequantised_activation_is_refused() -> None:
    """ONNX Runtime computes these nodes as one, with other codes, unless the inner activations are outputs."""
    quantisation = ["scale", "zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *quantisation], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", *quantisation], ["d"], name="d"),
        helper.make_node("Softmax", ["d"], ["s"], name="s"),
        helper.make_node("QuantizeLinear", ["s", "step", "zero"], ["y"], name="y"),
    ]
    constants = {"scale": FLOAT(0.02), "step": FLOAT(0.0077), "zero": np.uint8(100)}
    model = make_model(nodes, constants, {"y": ("uint8", 5)}, width=5)
    with pytest.raises(RequestError, match=r"'y' .*the Softmax of a result of DequantizeLinear .* one QLinearSoftmax"):
        networks.parse(model.SerializeToString(), "test")
    x = np.random.default_rng(1).normal(0, 1, (200, 5)).astype(FLOAT)
    codes = [by_runtime(model, x, optimised=optimised) for optimised in (True, False)]
    assert (codes[0] != codes[1]).sum() > 100


# What must not pass.


@pytest.mark.parametrize("operator", [*KINDS, "Softmax"])
def test_wrong_variants_are_told_from_the_specification(operator: str) -> None:
    layer, _ = layer_of(operator, (3, 7), **({"axis": -1} if operator == "Softmax" else {}))
    x = numbers(np.random.default_rng(2), (3000, 21))
    x[:1500] = np.random.default_rng(3).normal(0, 2, (1500, 21))
    right = evaluated(layer, x)
    same = [model.cause for model in layer.fault_models(x) if model.output.tobytes() == right.tobytes()]
    small_input, small_result = "a subnormal input is read as zero", "a subnormal result is flushed to zero"
    at_bounds = ["the condition v > 1.0 includes equality", "the condition w < 0.0 includes equality"]
    expected = {
        "Exp": [small_input],
        "Sigmoid": [small_input],
        "Elu": ["alpha is left out of alpha * exponential_minus_one(x)"],
        "HardSigmoid": [*at_bounds, small_result, small_input],
        "HardSwish": at_bounds,
        "Softmax": ["in m: the condition x[i, k] > m includes equality"],  # exp of 0 and -0 is 1
    }
    assert same == expected.get(operator, [])


@pytest.mark.parametrize("operator", KINDS)
def test_the_tolerance_is_no_excuse_for_a_wrong_function(operator: str) -> None:
    layer, _ = layer_of(operator, (21,))
    x = np.random.default_rng(3).normal(0, 2, (1500, 21)).astype(FLOAT)
    y = evaluated(layer, x)
    assert not outside(layer, x, y, y).size
    wrong = y * FLOAT(1 + 2.0**-15)
    assert len(outside(layer, x, y, wrong)) > x.size * 0.4


def test_contraction_rounds_once() -> None:
    x = np.random.default_rng(1).normal(0, 1, (2, 50_000)).astype(FLOAT)
    exact = (x[0].astype(np.float64) * x[0] + x[1]).astype(FLOAT)
    found = contracted(lambda values: values[0] * values[0] + values[1], x)
    assert found.tobytes() == exact.tobytes()
    assert (found != x[0] * x[0] + x[1]).any()
    assert contracted(lambda values: values[1] - values[0] * values[0], x).tobytes() == (
        (x[1] - x[0].astype(np.float64) * x[0]).astype(FLOAT).tobytes()
    )


def test_grids_of_stimuli_lie_around_the_changes_of_the_formula() -> None:
    tanh, _ = layer_of("Tanh")
    boundaries, ties = tanh.stimuli.boundaries()
    assert {-0.625, 0.0, 0.625} <= set(boundaries.tolist())
    assert len(boundaries) == 3 * 7
    assert not ties.size
    assert tanh.stimuli.representable() == (-10.0, 10.0)


@pytest.mark.parametrize(("operator", "value"), [("Softmax", 3e38), ("HardSwish", -3e38), ("Mul", -3e38)])
def test_a_result_that_is_nan_after_an_overflow_fails_the_reference(operator: str, value: float) -> None:
    nodes = [*DOUBLED, helper.make_node(operator, ["p"], ["y"], name="last")]
    if operator == "Mul":  # SiLU
        nodes[-1].input.append("gate")
        nodes.insert(-1, helper.make_node("Sigmoid", ["p"], ["gate"], name="gate"))
    model = make_model(nodes, {"two": FLOAT(2)}, {"y": ("float32", 2)}, width=2)
    reference = Reference(networks.parse(model.SerializeToString(), "test"))
    found = reference.expected(FLOAT([[1, -1]])).activations[-1]
    assert np.isfinite(found).all()
    with pytest.raises(ReferenceFailed, match=r"layer 'last' .*vector 1, column \d: the specified value is no number"):
        reference.expected(FLOAT([[1, -1], [value, 1]]))
