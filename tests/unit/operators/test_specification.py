"""The integer specification against ONNX Runtime, byte for byte: random networks, enumeration, ONNX's own cases."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as onnx_cases
from onnx.backend.test.case.test_case import TestCase

from harness import model as networks
from harness.model.network import Network
from harness.model.onnx_runtime import sessions
from harness.model.onnx_runtime.hostcheck import Defect, check_host
from harness.operators import exact
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.reference.runtime import OnnxRuntimeReference
from harness.reference.specification import SpecificationReference
from tests.support.builders import make_model, random_network
from tests.support.examples import examples

Array = npt.NDArray[Any]

# On a machine whose kernels saturate, ONNX Runtime is right only with its option for that.
SATURATES = Defect.SATURATION in dict(check_host().defects).values()


def parse(model: Any) -> Network:
    return networks.parse(model.SerializeToString(), "test")


def assert_both_agree(parsed: Network, x: Array) -> tuple[Array, ...]:
    """Both references on the same vectors; what they agree on."""
    confirmed = SpecificationReference(parsed).activations(x)
    by_runtime = OnnxRuntimeReference(parsed, x64_quant_precision=SATURATES).activations(x)
    for layer, one, other in zip(parsed.layers, by_runtime, confirmed, strict=True):
        assert one.dtype == other.dtype == layer.dtype
        assert one.tobytes() == other.tobytes(), layer.name
    return confirmed


# Random networks.

OPTIONS = st.fixed_dictionaries(
    {
        "kinds": st.sampled_from([("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]),
        "widths": st.lists(st.integers(1, 70), min_size=2, max_size=4),
        "alpha": st.sampled_from([1.0, 0.7, 3.0]),
        "output": st.sampled_from(["codes", "float", "dequantize"]),
        **dict.fromkeys(["per_column", "power_of_two", "zero_points", "transposed", "argmax"], st.booleans()),
    }
)


@pytest.mark.slow
@examples(40)
@given(OPTIONS, st.integers(0, 2**32))
def test_random_networks_agree_on_every_byte(options: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    activations, weights = options.pop("kinds")
    output, widths = options.pop("output"), options.pop("widths")
    model = random_network(
        rng,
        widths,
        activations=activations,
        weights=weights,
        float_output=output == "float",
        dequantize=output == "dequantize",
        **options,
    )
    parsed = parse(model)
    assert_both_agree(parsed, rng.uniform(*parsed.box, (700, widths[0])).astype(np.float32))


RESIDUAL_OPTIONS = st.fixed_dictionaries(
    {
        "kinds": st.sampled_from([("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]),
        "widths": st.lists(st.integers(1, 50), min_size=2, max_size=4),
        "residual": st.sampled_from([2, 3]),
        "alpha": st.sampled_from([1.0, 0.7]),
        **dict.fromkeys(["per_column", "power_of_two", "zero_points", "transposed", "argmax"], st.booleans()),
    }
)


@pytest.mark.slow
@examples(30)
@given(RESIDUAL_OPTIONS, st.integers(0, 2**32))
def test_residual_networks_agree_on_every_byte(options: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    activations, weights = options.pop("kinds")
    widths = options.pop("widths")
    model = random_network(rng, widths, activations=activations, weights=weights, **options)
    parsed = parse(model)
    x = rng.uniform(*parsed.box, (500, widths[0])).astype(np.float32)
    assert_as_given(parsed, x, assert_both_agree(parsed, x))


def assert_as_given(parsed: Network, x: Array, activations: tuple[Array, ...]) -> None:
    """ONNX Runtime computes the model's own outputs alike where no other activation is given out."""
    model = onnx.load_model_from_string(parsed.onnx_bytes)
    outputs = [value.name for value in model.graph.output]
    expected = [activations[[layer.output.name for layer in parsed.layers].index(name)] for name in outputs]
    precise = SATURATES and parsed.layers[0].dtype == np.uint8
    session = sessions.session(parsed.onnx_bytes, 2, x64_quant_precision=precise)
    for name, found, right in zip(outputs, session.run(outputs, {"x": x}), expected, strict=True):
        assert found.tobytes() == right.tobytes(), name


def sum_network(terms: list[str], constants: dict[str, Array], scale: float) -> Network:
    """The sum of `terms`: "a" is the first input's int8 code, "b" the second's times `scale`."""
    named: dict[str, Any] = {"one": np.float32(1), "zero": np.int8(0), "scale": np.float32(scale)}
    named |= {"left": np.int8([[1], [0]]), "right": np.int8([[0], [1]])}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["codes"]),
        *(
            helper.make_node("QGemm", ["codes", factor, "zero", half, "one", "zero"], [name], domain="com.microsoft")
            for name, factor, half in (("a", "one", "left"), ("b", "scale", "right"))
        ),
        helper.make_node("Add", terms, ["y"]),
    ]
    unread = {name: ("float32", 1) for name in ("a", "b") if name not in terms}
    return parse(make_model(nodes, named | constants, {"y": ("float32", 1)} | unread, width=2))


PAIRS = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)), axis=-1).reshape(-1, 2).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 2.0**-25, 0.1, 1.2e-38, 1e36, 16777217.0 / 255])
def test_sums_of_all_pairs_of_codes_agree(scale: float) -> None:
    """Exact sums and ties, sums that cancel, a term below the other's last place."""
    parsed = sum_network(["a", "b"], {}, scale)
    activations = assert_both_agree(parsed, PAIRS)
    assert len(np.unique(activations[3])) > 250
    assert_as_given(parsed, PAIRS, activations)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("addend", [0.0, -0.0, 1e-45, -1.2e-38, 0.1, -3.0, 3.4028235e38])
def test_sums_with_a_constant_agree(addend: float) -> None:
    """Also where an optimiser could drop the addition, and where the sum is subnormal."""
    parsed = sum_network(["addend", "b"], {"addend": np.float32(addend)}, 1.2e-38)
    activations = assert_both_agree(parsed, PAIRS)
    assert (activations[3] == activations[2]).all() == (addend == 0)
    assert_as_given(parsed, PAIRS, activations)


def test_sums_of_dequantised_codes_agree() -> None:
    """DequantizeLinear twice and Add: ONNX Runtime must not fuse them as long as no QuantizeLinear follows."""
    names = ["codes", "again"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", scale, "zero"], [name])
        for name, scale in zip(names, "st", strict=True)
    ]
    nodes += [helper.make_node("DequantizeLinear", [name, "u", "zero"], [f"{name}_real"]) for name in names]
    nodes += [helper.make_node("Add", ["codes_real", "again_real"], ["y"])]
    nodes += [helper.make_node("ArgMax", ["y"], ["best"], axis=1)]
    constants = {"s": np.float32(0.1), "t": np.float32(0.0237), "u": np.float32(0.3), "zero": np.uint8(3)}
    parsed = parse(make_model(nodes, constants, {"best": ("int64", 1), "again": ("uint8", 7)}, width=7))
    x = np.random.default_rng(5).uniform(-1, 27, (2000, 7)).astype(np.float32)
    assert_as_given(parsed, x, assert_both_agree(parsed, x))


def test_float_tensors_in_the_middle_of_the_chain_agree() -> None:
    """DequantizeLinear and QuantizeLinear between two layers, which ONNX Runtime must not drop."""
    model = random_network(np.random.default_rng(8), [5, 20], dequantize=True)
    scale, zero_point = np.float32(0.037), np.uint8(7)
    nodes = [
        *model.graph.node,
        helper.make_node("QuantizeLinear", ["dequantize_out", "s", "z"], ["again"]),
        helper.make_node("DequantizeLinear", ["again", "s", "z"], ["end"]),
    ]
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    constants |= {"s": scale, "z": zero_point}
    parsed = parse(make_model(nodes, constants, {"end": ("float32", 20)}, width=5))
    x = np.random.default_rng(1).uniform(*parsed.box, (2000, 5)).astype(np.float32)
    activations = assert_both_agree(parsed, x)
    assert len(np.unique(activations[3])) > 20
    assert_as_given(parsed, x, activations)


def test_blocks_and_threads_change_nothing() -> None:
    parsed = parse(random_network(np.random.default_rng(8), [5, 20, 5], residual=2))
    x = np.random.default_rng(1).uniform(*parsed.box, (exact.BLOCK * 2 + 3, 5)).astype(np.float32)
    whole = SpecificationReference(parsed, threads=3).activations(x)
    pieces = [SpecificationReference(parsed, threads=1).activations(x[start : start + 700]) for start in (0, 700, 1400)]
    for layer, values in enumerate(whole):
        assert np.array_equal(np.concatenate([piece[layer] for piece in pieces]), values[:2100])


# QuantizeLinear.


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("dtype", "zero_point", "scale"),
    [
        ("uint8", 0, 0.1),
        ("uint8", 128, 2.0**-7),
        ("int8", -3, 0.0236721),
        ("int8", 127, 1.0),
        ("uint8", 255, 1.2e-38),
        ("uint8", 3, 3.4e38),
        ("int8", 0, 1e38),
    ],
)
def test_quantize_linear_agrees_on_random_bits_and_on_every_boundary(dtype: str, zero_point: int, scale: float) -> None:
    rng = np.random.default_rng(3)
    constants = {"s": np.float32(scale), "z": np.array(zero_point, dtype)}
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    parsed = parse(make_model([node], constants, {"y": (dtype, 1)}, width=1))
    with np.errstate(over="ignore"):
        middles = np.arange(-257.5, 258).astype(np.float32) * np.float32(scale)
        neighbours = [middles]
        for bound in (np.float32(np.inf), np.float32(-np.inf)):
            neighbours += [np.nextafter(middles, bound), np.nextafter(np.nextafter(middles, bound), bound)]
        moderate = rng.uniform(-300, 300, 200_000).astype(np.float32) * np.float32(scale)
    special = np.array(
        [0x7FC00000, 0xFFC00000, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x80000001], np.uint32
    )
    patterns = rng.integers(0, 2**32, 1_000_000, dtype=np.uint32)
    x = np.concatenate([*neighbours, special.view(np.float32), patterns.view(np.float32), moderate])
    codes = assert_both_agree(parsed, x[:, None])[0]
    assert len(np.unique(codes)) == (256 if scale < 1e38 else {3.4e38: 5, 1e38: 9}[scale])


def test_quantize_thresholds_are_the_first_inputs_of_their_codes() -> None:
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    constants = {"s": np.float32(0.5), "z": np.uint8(2)}
    layer = parse(make_model([node], constants, {"y": ("uint8", 1)}, width=1)).layers[0]
    assert isinstance(layer, QuantizeLinear)
    # x / 0.5 is half way at -0.75, -0.25, 0.25, 0.75, and goes to the even of the differences -1, 0, 1, 2.
    up = np.float32(np.inf)
    expected = [np.nextafter(np.float32(-0.75), up), -0.25, np.nextafter(np.float32(0.25), up), 0.75]
    steps = layer.thresholds()
    assert steps[:4].tolist() == exact.ordered(np.array(expected, np.float32)).tolist()


def test_ordered_integers_go_back_to_the_same_number() -> None:
    x = np.random.default_rng(0).integers(0, 2**32, 10_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.float32([0, np.inf, -np.inf, 1e-45, -1e-45])])
    assert exact.from_ordered(exact.ordered(x)).tobytes() == x.tobytes()
    assert np.array_equal(np.argsort(exact.ordered(x)), np.argsort(x))


# QGemm.


def requantized_by_runtime(layer: QGemm, accumulators: Array) -> Array:
    """The real QGemm with this layer's constants on every accumulator (M,), injected as bias: (M, N)."""
    constants: dict[str, Array] = {
        "a_scale": np.float32(1), "a_zero_point": np.array(layer.a_zero_point, layer.input.dtype),
        "b": layer.weights, "b_scale": layer.multiplier,
        "b_zero_point": layer.weights_zero_point.astype(layer.weights.dtype),
        "y_scale": np.float32(1), "y_zero_point": np.array(layer.y_zero_point, layer.dtype),
    }  # fmt: skip
    inputs = ["a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "c", "y_scale", "y_zero_point"]
    element_type = helper.np_dtype_to_tensor_dtype(layer.input.dtype)
    graph = helper.make_graph(
        [helper.make_node("QGemm", inputs, ["y"], domain="com.microsoft")],
        "requantize",
        [
            helper.make_tensor_value_info("a", element_type, ["m", layer.input.size]),
            helper.make_tensor_value_info("c", TensorProto.INT32, ["m", layer.size]),
        ],
        [helper.make_tensor_value_info("y", element_type, ["m", layer.size])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    a = np.full((len(accumulators), layer.input.size), layer.a_zero_point, layer.input.dtype)
    c = np.repeat(accumulators.astype(np.int32)[:, None], layer.size, axis=1)
    precise = SATURATES and layer.input.dtype == np.uint8
    return sessions.session(model.SerializeToString(), 2, x64_quant_precision=precise).run(None, {"a": a, "c": c})[0]


def codes_by_thresholds(layer: QGemm, accumulators: Array) -> Array:
    steps = layer.thresholds()
    counts = [np.searchsorted(column, accumulators, side="right") for column in steps]
    return (np.stack(counts, axis=1) + np.iinfo(layer.dtype).min).astype(layer.dtype)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("per_column", [False, True])
def test_thresholds_equal_onnx_runtime_on_every_reachable_accumulator(
    kinds: tuple[str, str], per_column: bool, power_of_two: bool
) -> None:
    rng = np.random.default_rng(21)
    options = {"per_column": per_column, "power_of_two": power_of_two, "zero_points": True}
    layer = parse(random_network(rng, [50, 3], activations=kinds[0], weights=kinds[1], **options)).layers[1]
    assert isinstance(layer, QGemm)
    low, high = layer.accumulator_bounds()
    accumulators = np.arange(low.min(), high.max() + 1)
    reachable = (accumulators[:, None] >= low) & (accumulators[:, None] <= high)
    runtime_codes = requantized_by_runtime(layer, accumulators)
    differing = (runtime_codes != codes_by_thresholds(layer, accumulators)) & reachable
    assert not differing.any()
    assert reachable.sum() > 300_000
    assert len(np.unique(runtime_codes)) == 256


def test_thresholds_equal_onnx_runtime_beyond_24_bits() -> None:
    """Accumulators that float32 rounds: weights all alike, so that the bounds are far apart."""
    rng = np.random.default_rng(5)
    weights = np.full((9000, 2), 127, np.int8)
    weights[:, 1] = -128
    zero = np.zeros((), np.uint8)
    constants = {
        "xs": np.float32(1), "xz": np.uint8(0), "s": np.float32(1), "z": zero, "w": weights,
        "ws": np.float32(8.7e-7), "wz": np.int8(0), "c": np.int32([0, 5]), "ys": np.float32(1.0), "yz": np.uint8(100),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("QGemm", ["q", "s", "z", "w", "ws", "wz", "c", "ys", "yz"], ["y"], domain="com.microsoft"),
    ]
    layer = parse(make_model(nodes, constants, {"y": ("uint8", 2)}, width=9000)).layers[1]
    assert isinstance(layer, QGemm)
    low, high = layer.accumulator_bounds()
    near = (layer.thresholds().astype(np.int64)[:, :, None] + np.arange(-40, 41)).ravel()
    accumulators = np.concatenate([near, rng.integers(low.min(), high.max() + 1, 200_000)])
    inside = (accumulators[:, None] >= low) & (accumulators[:, None] <= high)
    small = parse(make_model(nodes, constants | {"w": weights[:1]}, {"y": ("uint8", 2)}, width=1)).layers[1]
    assert isinstance(small, QGemm)
    differing = (requantized_by_runtime(small, accumulators) != codes_by_thresholds(layer, accumulators)) & inside
    assert not differing.any()
    assert (np.abs(accumulators[inside.any(axis=1)]) > 2**24).sum() > 100_000


def test_thresholds_are_int32_ascending_and_within_one_of_the_bounds() -> None:
    layer = parse(random_network(np.random.default_rng(2), [5, 7], per_column=True)).layers[1]
    assert isinstance(layer, QGemm)
    steps = layer.thresholds()
    low, high = layer.accumulator_bounds()
    assert (steps.shape, steps.dtype) == ((7, 255), np.int32)
    assert (np.diff(steps) >= 0).all()
    assert (steps >= low[:, None]).all()
    assert (steps <= high[:, None] + 1).all()


@examples(60)
@given(
    st.lists(st.integers(-2000, 2000), min_size=1, max_size=255),
    st.integers(0, 3000),
    st.integers(1, 40),
)
def test_staircase_counts_like_a_sorted_search(steps: list[int], margin: int, stretch: int) -> None:
    steps = sorted(step * stretch for step in steps)
    low, high = steps[0] - margin, steps[-1] + margin
    column = np.array([steps + [high + 1] * (255 - len(steps))], np.int32)
    staircase = exact.Staircase.of(column, np.array([low]), np.array([high]))
    near = np.concatenate([np.linspace(low, high, 500).astype(np.int64), *(column[0] + d for d in (-1, 0, 1))])
    acc = np.clip(near, low, high)
    assert staircase.count(acc[:, None])[:, 0].tolist() == np.searchsorted(column[0], acc, side="right").tolist()


def test_wide_layers_are_summed_without_rounding() -> None:
    """More terms than float32 sums exactly: the products go through float64."""
    rng = np.random.default_rng(0)
    model = random_network(rng, [4000, 4], weights="uint8", zero_points=True)
    parsed = parse(model)
    layer = parsed.layers[1]
    assert isinstance(layer, QGemm)
    assert layer.accumulator_bounds()[1].max() > 2**24
    codes = rng.choice([0, 255], (50, 4000)).astype(np.uint8)
    exact = layer.bias + (codes.astype(np.int64) - layer.a_zero_point) @ (
        layer.weights.astype(np.int64) - layer.weights_zero_point
    )
    assert np.array_equal(layer.accumulate()(codes), exact)
    assert_both_agree(parsed, rng.uniform(*parsed.box, (200, 4000)).astype(np.float32))


# DequantizeLinear, float outputs and ArgMax.


@pytest.mark.parametrize("scale", [0.1, 1.2e-38, 1.3e36, 1.0])
@pytest.mark.parametrize(("dtype", "zero_point"), [("uint8", 0), ("uint8", 200), ("int8", -128), ("int8", 5)])
def test_dequantize_linear_agrees_on_every_code(dtype: str, zero_point: int, scale: float) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = {"one": np.float32(1), "z": np.array(zero_point, dtype), "s": np.float32(scale)}
    parsed = parse(make_model(nodes, constants, {"y": ("float32", 1)}, width=1))
    x = np.arange(-256, 256, dtype=np.float32)[:, None]
    codes, numbers = assert_both_agree(parsed, x)
    assert len(np.unique(codes)) == 256
    assert len(np.unique(numbers)) == 256
    assert np.isfinite(numbers).all()


def test_float_output_that_overflows_is_infinite_in_both() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "z"], ["q"]),
        helper.make_node("QGemm", ["q", "big", "z", "w", "big", "wz"], ["y"], domain="com.microsoft"),
    ]
    constants = {
        "one": np.float32(1),
        "big": np.float32(1e18),
        "z": np.int8(0),
        "w": np.int8([[1, 100]]),
        "wz": np.int8(0),
    }
    parsed = parse(make_model(nodes, constants, {"y": ("float32", 2)}, width=1))
    x = np.arange(-128, 128, dtype=np.float32)[:, None]
    numbers = assert_both_agree(parsed, x)[1]
    assert np.isposinf(numbers).any()
    assert np.isneginf(numbers).any()
    assert np.isfinite(numbers).any()


@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_arg_extremum_agrees_where_most_vectors_have_ties(operator: str, last: int, is_float: bool) -> None:
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])]
    if is_float:
        nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]))
    nodes.append(helper.make_node(operator, ["f" if is_float else "q"], ["y"], axis=-1, select_last_index=last))
    constants = {"s": np.float32(0.3), "z": np.int8(0)}
    parsed = parse(make_model(nodes, constants, {"y": ("int64", 1)}, width=37))
    x = np.random.default_rng(6).integers(-3, 4, (3000, 37)).astype(np.float32) * np.float32(0.3)
    column = assert_both_agree(parsed, x)[-1][:, 0]
    signed = x if operator == "ArgMax" else -x
    expected = 36 - signed[:, ::-1].argmax(axis=1) if last else signed.argmax(axis=1)
    assert np.array_equal(column, expected)
    assert (np.sum(signed == signed.max(axis=1, keepdims=True), axis=1) > 1).mean() > 0.9


# ONNX's own cases of the operators: importing a module makes its cases.

OPERATORS = ("QuantizeLinear", "DequantizeLinear", "ArgMax", "ArgMin")
for operator in OPERATORS:
    importlib.import_module(f"{onnx_cases.__name__}.{operator.lower()}")
CASES = {
    case.name: case
    for case in onnx_cases._NodeTestCases
    if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in OPERATORS
}


def out_of_scope(case: TestCase) -> str:
    """Why a case is out of scope; empty where it is in scope."""
    node, inputs = case.model.graph.node[0], case.data_sets[0][0]
    types = {str(np.asarray(value).dtype) for value in (*inputs, *case.data_sets[0][1])}
    if types - {"float32", "uint8", "int8", "int64"}:
        return "types other than float32, uint8 and int8"
    if any(np.size(value) > 1 for value in inputs[1:]):
        return "quantised by axis or by block"
    if node.op_type in ("ArgMax", "ArgMin"):
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
        if np.ndim(inputs[0]) != 2:
            return "tensors of rank 3"
        return "" if axis in (1, -1) else "over the vectors, not within one"
    return ""


IN_SCOPE = [name for name, case in CASES.items() if not out_of_scope(case)]


def test_cases_of_onnx_in_scope_are_these() -> None:
    arguments = ["keepdims_example", "no_keepdims_example", "negative_axis_keepdims_example"]
    expected = {
        f"test_{operator}_{example}{suffix}"
        for operator in ("argmax", "argmin")
        for example in arguments
        for suffix in ("", "_select_last_index")
    }
    assert set(IN_SCOPE) == expected | {"test_quantizelinear", "test_dequantizelinear"}
    reasons = Counter(map(out_of_scope, CASES.values()))
    assert reasons["over the vectors, not within one"] == 4
    assert reasons["tensors of rank 3"] == 16
    assert reasons["quantised by axis or by block"] >= 3
    assert len(IN_SCOPE) == 14


@pytest.mark.parametrize("name", IN_SCOPE)
def test_case_of_onnx_passes_in_both_references(name: str) -> None:
    """Parameters become initializers; a float or code input comes through a QuantizeLinear that does not change it."""
    node, (inputs, (expected,)) = CASES[name].model.graph.node[0], CASES[name].data_sets[0]
    data = np.atleast_2d(inputs[0])
    constants = dict(zip(node.input[1:], inputs[1:], strict=True))
    is_first = node.op_type == "QuantizeLinear"
    nodes, constants = ([], constants) if is_first else _entrance(constants, data.dtype)
    case = onnx.NodeProto.FromString(node.SerializeToString())
    case.input[0] = "x" if is_first else "data"
    width = 1 if node.op_type.startswith("Arg") else data.shape[1]
    model = make_model([*nodes, case], constants, {node.output[0]: (str(expected.dtype), width)}, width=data.shape[1])
    if expected.ndim == 1 and width == 1:
        del model.graph.output[0].type.tensor_type.shape.dim[1]
    result = assert_both_agree(parse(model), data.astype(np.float32))[-1]
    assert result.tobytes() == np.asarray(expected).tobytes()


def _entrance(constants: dict[str, Array], dtype: Any) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """The nodes from the float input x to "data", codes or numbers of the same values; their constants too."""
    is_float = dtype == np.float32
    constants = constants | {"one": np.float32(1), "zero": np.zeros((), np.uint8 if is_float else dtype)}
    codes = "codes" if is_float else "data"
    nodes = [helper.make_node("QuantizeLinear", ["x", "one", "zero"], [codes])]
    if is_float:
        nodes.append(helper.make_node("DequantizeLinear", [codes, "one", "zero"], ["data"]))
    return nodes, constants
