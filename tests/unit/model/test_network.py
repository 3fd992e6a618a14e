from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import model as networks
from harness.analysis.proof.independent import file as independent_file
from harness.core.errors import RequestError
from harness.model.network import Network, Normalisation
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.reference.specification import SpecificationReference
from tests.support.builders import make_model, random_network

Change = Callable[[onnx.ModelProto], object]


def small(**options: Any) -> onnx.ModelProto:
    """QuantizeLinear "quantize" and QGemm "layer_0" (3 -> 4), "layer_1" (4 -> 2)."""
    return random_network(np.random.default_rng(5), [3, 4, 2], **options)


def parse(model: onnx.ModelProto) -> Network:
    return networks.parse(model.SerializeToString(), "small")


def constant(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def put(name: str, value: Any) -> Change:
    """The change that gives an initializer another value."""
    return lambda model: constant(model, name).CopyFrom(numpy_helper.from_array(np.asarray(value), name))


def attribute(node: int, name: str, value: Any) -> Change:
    return lambda model: model.graph.node[node].attribute.append(helper.make_attribute(name, value))


def rewire(node: int, position: int, name: str) -> Change:
    return lambda model: model.graph.node[node].input.__setitem__(position, name)


def append(operator: str, inputs: list[str], outputs: list[str], name: str = "added", **attributes: Any) -> Change:
    """The change that adds a last node and makes its result the output."""

    def change(model: onnx.ModelProto) -> None:
        model.graph.node.append(helper.make_node(operator, inputs, outputs, name=name, **attributes))
        model.graph.output[0].name = outputs[0]

    return change


def both(first: Change, second: Change) -> Change:
    return lambda model: (first(model), second(model))


def alpha(model: onnx.ModelProto) -> onnx.AttributeProto:
    return next(entry for entry in model.graph.node[1].attribute if entry.name == "alpha")


def changed(*changes: Change, **options: Any) -> onnx.ModelProto:
    model = small(**options)
    for change in changes:
        change(model)
    return model


# What is accepted.


def test_parse_gives_the_layers_of_the_chain_with_their_constants() -> None:
    model = small(dequantize=True, argmax=True)
    parsed = parse(model)
    quantize, first, second, dequantize, advisory = parsed.layers
    assert isinstance(quantize, QuantizeLinear)
    assert (quantize.name, quantize.sources, quantize.output.name) == ("quantize", ("x",), "quantize_out")
    assert quantize.scale == numpy_helper.to_array(constant(model, "x_scale"))
    assert isinstance(first, QGemm)
    assert (first.input.size, first.size, first.dtype, first.input.dtype) == (3, 4, np.uint8, np.uint8)
    assert np.array_equal(first.weights, numpy_helper.to_array(constant(model, "layer_0_weights")))
    assert np.array_equal(first.bias, numpy_helper.to_array(constant(model, "layer_0_bias")))
    assert isinstance(second, QGemm)
    assert second.sources == (first.output.name,)
    assert isinstance(dequantize, DequantizeLinear)
    assert (dequantize.dtype, dequantize.size) == (np.float32, 2)
    assert isinstance(advisory, ArgExtremum)
    assert (advisory.largest, advisory.last, advisory.size, advisory.dtype) == (True, False, 1, np.int64)
    assert (parsed.vector.name, parsed.vector.size, parsed.name) == ("x", 3, "small")


def test_load_names_the_network_after_the_file_and_keeps_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "acas.onnx"
    path.write_bytes(small().SerializeToString())
    loaded = networks.load(path)
    assert loaded.name == "acas"
    assert loaded.onnx_bytes == path.read_bytes()
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_multiplier_is_computed_in_float32_in_the_order_of_the_specification() -> None:
    a_scale, b_scale, y_scale = np.float32(0.1), np.float32([0.3, 0.7, 0.0236721, 1e-3]), np.float32(0.9)
    alpha = np.float32(0.7)
    changes = [put("layer_0_a_scale", a_scale), put("layer_0_b_scale", b_scale), put("layer_0_y_scale", y_scale)]
    layer = parse(changed(*changes, per_column=True, alpha=0.7)).layers[1]
    assert isinstance(layer, QGemm)
    expected = [np.float32(np.float32(np.float32(alpha * a_scale) * b) / y_scale) for b in b_scale]
    assert layer.multiplier.tobytes() == np.array(expected, np.float32).tobytes()
    assert layer.multiplier[2] != np.float32(0.7 * 0.1 * 0.0236721 / 0.9)  # the order shows
    assert layer.per_column
    assert (layer.scales.alpha, layer.scales.a, layer.scales.y) == (alpha, a_scale, y_scale)
    assert layer.scales.b.tobytes() == b_scale.tobytes()


def test_one_scale_of_the_weights_stands_for_every_column() -> None:
    layer = parse(changed(put("layer_0_b_scale", np.float32(0.3)))).layers[1]
    assert isinstance(layer, QGemm)
    assert layer.scales.b.tolist() == [np.float32(0.3)] * 4
    assert layer.scales.b.dtype == np.float32


def test_layers_with_arrays_are_equal_to_themselves_alone() -> None:
    """Two networks have layers of the same names."""
    first, second = (parse(small()).layers[1] for _ in range(2))
    assert first == first  # noqa: PLR0124 - the point
    assert first != second
    assert len({first, second}) == 2


def test_multiplier_of_a_float_output_is_not_divided() -> None:
    model = small(float_output=True)
    layer = parse(model).layers[-1]
    assert isinstance(layer, QGemm)
    a_scale, b_scale = (numpy_helper.to_array(constant(model, f"layer_1_{name}_scale")) for name in "ab")
    assert (layer.multiplier == a_scale * b_scale).all()
    assert (layer.dtype, layer.y_zero_point) == (np.float32, 0)
    assert layer.scales.y is None


def test_transposed_weights_are_the_same_network() -> None:
    plain, transposed = parse(small()).layers[1], parse(small(transposed=True)).layers[1]
    assert isinstance(plain, QGemm)
    assert isinstance(transposed, QGemm)
    assert np.array_equal(plain.weights, transposed.weights)
    assert transposed.weights.flags.c_contiguous


@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 4)])
def test_bias_of_every_accepted_shape_is_one_value_a_column(shape: tuple[int, ...]) -> None:
    layer = parse(changed(put("layer_0_bias", np.full(shape, -7, np.int32)))).layers[1]
    assert isinstance(layer, QGemm)
    assert layer.bias.tolist() == [-7, -7, -7, -7]


def test_missing_bias_is_zero() -> None:
    layer = parse(changed(rewire(1, 6, ""))).layers[1]
    assert isinstance(layer, QGemm)
    assert layer.bias.tolist() == [0, 0, 0, 0]


def test_constant_nodes_and_initializers_among_the_inputs_are_constants() -> None:
    model = small()
    scale = constant(model, "x_scale")
    node = helper.make_node("Constant", [], ["x_scale"], value=scale)
    model.graph.initializer.remove(scale)
    model.graph.node.insert(0, node)
    bias = constant(model, "layer_0_bias")
    model.graph.input.append(helper.make_tensor_value_info(bias.name, bias.data_type, bias.dims))
    assert [layer.name for layer in parse(model).layers] == ["quantize", "layer_0", "layer_1"]


def test_fixed_batch_and_axis_attribute_are_no_obstacle() -> None:
    model = changed(attribute(0, "axis", 1))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    assert parse(model).vector.size == 3


def test_quantize_linear_without_zero_point_is_uint8_from_zero_or_of_its_output_dtype() -> None:
    for attributes, dtype in (({}, "uint8"), ({"output_dtype": TensorProto.INT8}, "int8")):
        node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], **attributes)
        layer = parse(make_model([node], {"s": np.float32(0.5)}, {"y": (dtype, 2)}, width=2)).layers[0]
        assert isinstance(layer, QuantizeLinear)
        assert (layer.dtype, layer.zero_point, layer.node) == (dtype, 0, "QuantizeLinear_0")


def test_box_and_normalisation_come_from_the_metadata() -> None:
    metadata = {
        "input_box_low": "[-0.5, 0]", "input_box_high": "[0.5, 1]", "input_names": '["rho", "theta"]',
        "input_units": '["ft", "rad"]', "input_mean": "[10, 0]", "input_range": "[100, 6.28]",
    }  # fmt: skip
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"])
    parsed = parse(make_model([node], {"s": np.float32(0.5)}, {"y": ("uint8", 2)}, width=2, metadata=metadata))
    assert parsed.box.dtype == np.float32
    assert parsed.box.tolist() == [[-0.5, 0.0], [0.5, 1.0]]
    assert parsed.normalisation == Normalisation(("rho", "theta"), ("ft", "rad"), (10.0, 0.0), (100.0, 6.28))
    assert parsed.metadata == metadata


def test_box_without_metadata_is_the_codes_range_and_one_more_on_each_side() -> None:
    model = changed(put("x_scale", np.float32(0.5)), put("x_zero_point", np.uint8(100)))
    del model.metadata_props[:]
    parsed = parse(model)
    assert parsed.box.tolist() == [[-50.5] * 3, [78.0] * 3]
    assert parsed.normalisation is None


def test_accumulator_bounds_are_reached_and_never_exceeded() -> None:
    model = random_network(np.random.default_rng(3), [2, 9], zero_points=True, per_column=True, weights="uint8")
    layer = parse(model).layers[1]
    assert isinstance(layer, QGemm)
    codes = np.array(list(itertools.product(range(256), repeat=2)))
    acc = layer.bias + (codes - layer.a_zero_point) @ (layer.weights.astype(np.int64) - layer.weights_zero_point)
    low, high = layer.accumulator_bounds()
    assert np.array_equal(low, acc.min(axis=0))
    assert np.array_equal(high, acc.max(axis=0))


def test_names_of_layers_are_unique_and_safe_for_files_and_c() -> None:
    model = small(argmax=True)
    names = ("/Gemm/fc1", "gemm fc1", "../é", "2nd")
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    layers = parse(model).layers
    assert tuple(layer.name for layer in layers) == ("gemm_fc1", "gemm_fc1_2", "qgemm", "argmax_2nd")
    assert tuple(layer.node for layer in layers) == names


# Branches that join.


def test_a_residual_expansion_is_read_with_what_each_layer_reads() -> None:
    layers = {layer.name: layer for layer in parse(small(residual=3)).layers}
    sources = {name: layer.sources for name, layer in layers.items() if name.startswith("layer_0")}
    assert sources == {
        "layer_0_term_1": ("quantize_out",),
        "layer_0_term_2": ("quantize_out",),
        "layer_0_sum_2": ("layer_0_term_1_out", "layer_0_term_2_out"),
        "layer_0_term_3": ("quantize_out",),
        "layer_0_sum_3": ("layer_0_sum_2_out", "layer_0_term_3_out"),
        "layer_0_quantize": ("layer_0_sum_3_out",),
    }
    total = layers["layer_0_sum_3"]
    assert isinstance(total, Add)
    assert total.addend is None
    assert (total.input.size, total.input.dtype, total.size, total.dtype) == (4, np.float32, 4, np.float32)
    assert list(layers)[-1] == "layer_1_sum_3"


def test_layers_stand_in_the_order_of_the_nodes_whichever_is_possible() -> None:
    model = small(residual=2)
    first, second = (onnx.NodeProto.FromString(model.graph.node[index].SerializeToString()) for index in (1, 2))
    model.graph.node[1].CopyFrom(second)
    model.graph.node[2].CopyFrom(first)
    names = [layer.name for layer in parse(model).layers]
    assert names[:4] == ["quantize", "layer_0_term_2", "layer_0_term_1", "layer_0_sum_2"]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (1, 2)])
def test_addend_of_every_accepted_shape_is_one_value_a_column(shape: tuple[int, ...], *, swapped: bool) -> None:
    layer = parse(with_addend(np.full(shape, -0.5, np.float32), swapped=swapped)).layers[-1]
    assert isinstance(layer, Add)
    assert layer.sources == ("layer_1_out",)
    assert layer.addend is not None
    assert (layer.addend.dtype, layer.addend.tolist()) == (np.float32, [-0.5, -0.5])


def with_addend(addend: Any, *, swapped: bool = False) -> onnx.ModelProto:
    """`small` with a float32 output (2 columns), to which a constant is added by node "added"."""
    terms = ["layer_1_out", "addend"]
    model = changed(append("Add", terms[::-1] if swapped else terms, ["y"]), float_output=True)
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(addend), "addend"))
    return model


def test_a_term_may_be_added_to_itself_and_the_input_be_quantised_twice() -> None:
    model = changed(append("Add", ["layer_1_out", "layer_1_out"], ["y"]), float_output=True)
    again = helper.make_node("QuantizeLinear", ["x", "x_scale"], ["again"], name="again")
    model.graph.node.append(again)
    model.graph.output.append(helper.make_tensor_value_info("again", TensorProto.UINT8, ["vectors", 3]))
    twice, other = parse(model).layers[-2:]
    assert twice.sources == ("layer_1_out", "layer_1_out")
    assert other.sources == ("x",)


def test_a_sum_just_below_the_largest_number_is_accepted() -> None:
    largest = np.finfo(np.float32).max
    layer = parse(with_addend(largest)).layers[-1]  # the term is less than half of its last place
    assert isinstance(layer, Add)
    assert layer.addend is not None
    assert layer.addend[0] == largest


def fused_by_onnx_runtime(model: onnx.ModelProto) -> None:
    """Two results of DequantizeLinear, their sum, QuantizeLinear."""
    constants = ["layer_1_y_scale", "layer_1_y_zp"]
    model.graph.node.extend(
        [
            helper.make_node("DequantizeLinear", ["layer_1_out", *constants], ["a"], name="a"),
            helper.make_node("DequantizeLinear", ["layer_1_out", *constants], ["b"], name="b"),
            helper.make_node("Add", ["a", "b"], ["sum"], name="sum"),
            helper.make_node("QuantizeLinear", ["sum", *constants], ["y"], name="requantize"),
        ]
    )
    model.graph.output[0].name = "y"


SUM = 3  # the node layer_0_sum_2
SUM_REFUSALS: dict[str, tuple[Change, str, str]] = {
    "one term unread": (
        rewire(SUM, 1, "layer_0_term_1_out"),
        r"node 'layer_0_term_2' \(QGemm\) is for nothing",
        "layer_0_term_2_out",
    ),
    "codes": (rewire(SUM, 0, "quantize_out"), "'layer_0_sum_2' .*'layer_0_term_2_out' is float32", "reads uint8"),
    "the input": (rewire(SUM, 0, "x"), "'layer_0_sum_2' .*widths 3 and 4", "the same width"),
    "another width": (
        append("Add", ["layer_0_sum_2_out", "layer_1_sum_2_out"], ["y"]),
        "'added' .*widths 4 and 2",
        "the same width",
    ),
    "two constants": (append("Add", ["x_scale", "x_scale"], ["y"]), "adds two constants", "of one and a constant"),
    "three terms": (lambda model: model.graph.node[SUM].input.append("x_scale"), "has 3 inputs", "2 to 2"),
    "attribute": (attribute(SUM, "axis", 1), "attribute 'axis' is unknown", "attributes are"),
}


@pytest.mark.parametrize("case", SUM_REFUSALS)
def test_refusal_of_a_sum_says_what_and_what_would_be_accepted(case: str) -> None:
    change, message, hint = SUM_REFUSALS[case]
    with pytest.raises(RequestError, match=message) as caught:
        parse(changed(change, residual=2))
    assert re.search(hint, caught.value.hint)


@pytest.mark.parametrize(
    ("addend", "message", "hint"),
    [
        (np.float32([np.nan, 0]), "the addend holds nan", "finite"),
        (np.zeros(2), "the addend is float64", "float32 is accepted"),
        (np.zeros((2, 1), np.float32), r"the addend has shape \(2, 1\)", r"\(2,\) or \(1, 2\)"),
        (np.zeros(3, np.float32), r"the addend has shape \(3,\)", r"\(2,\) or \(1, 2\)"),
    ],
)
def test_refusal_of_an_addend_says_what_and_what_would_be_accepted(addend: Any, message: str, hint: str) -> None:
    with pytest.raises(RequestError, match=f"'added' .*{message}") as caught:
        parse(with_addend(addend))
    assert re.search(hint, caught.value.hint)


def test_a_sum_that_onnx_runtime_would_fuse_is_refused() -> None:
    model = changed(fused_by_onnx_runtime)
    with pytest.raises(
        RequestError, match=r"'requantize' .*the sum of two results of DequantizeLinear \('sum'\)"
    ) as caught:
        parse(model)
    assert "QLinearAdd, with other roundings" in caught.value.message
    assert caught.value.hint == "harness models import FILE -o NAME, which writes it as QLinearAdd"


@pytest.mark.parametrize("read", ["a", "sum"])
def test_an_added_zero_hides_no_sum_that_onnx_runtime_would_fuse(read: str) -> None:
    model = with_a_zero_behind(read)
    x = np.random.default_rng(0).uniform(0, 2.5, (5000, 20)).astype(np.float32)
    fused = output_of(model, x)
    with pytest.raises(RequestError, match=r"'requantize' .*the sum of two results of DequantizeLinear \('sum'\)"):
        parse(model)
    model.graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, None))
    assert 0 < (fused != output_of(model, x)).sum() < 1000


def with_a_zero_behind(tensor: str) -> onnx.ModelProto:
    """The sum where fusing matters, with 0 added to one of its terms or to itself."""
    model = a_sum_where_fusing_matters()
    nodes = model.graph.node
    at = next(index for index, node in enumerate(nodes) if tensor in node.output) + 1
    nodes[-1 if tensor == "sum" else -2].input[0] = "same"
    nodes.insert(at, helper.make_node("Add", [tensor, "zero"], ["same"], name="same"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0), "zero"))
    return model


def a_sum_where_fusing_matters() -> onnx.ModelProto:
    """Decimal scales, with which many sums lie half way between two codes; for inputs (n, 20) of 0 to 2.5."""
    model = random_network(np.random.default_rng(5), [20, 20, 20])
    fused_by_onnx_runtime(model)
    scales = {"x_scale": 0.01, "layer_0_y_scale": 0.0173, "layer_1_y_scale": 0.00237}
    rescale = [put(name, np.float32(scale)) for name, scale in scales.items()]
    for change in (*rescale, rewire(3, 0, "layer_0_out"), rewire(3, 1, "layer_0_y_scale"), rewire(6, 1, "x_scale")):
        change(model)
    return model


def test_the_fused_sum_really_is_another_than_the_one_with_all_activations_given_out() -> None:
    model = a_sum_where_fusing_matters()
    x = np.random.default_rng(0).uniform(0, 2.5, (5000, 20)).astype(np.float32)
    fused = output_of(model, x)
    model.graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, None))
    assert 0 < (fused != output_of(model, x)).sum() < 1000


def output_of(model: onnx.ModelProto, x: Any) -> Any:
    """Its "y" by ONNX Runtime as everybody runs it."""
    return onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": x})[0]


# What is refused.

REFUSALS: dict[str, tuple[Change, str, str]] = {
    "float operator": (
        append("Det", ["layer_1_out"], ["y"]),
        r"'added' \(Det\): operator Det is not",
        "models import FILE",
    ),
    "unknown domain": (append("QGemm", ["layer_1_out"], ["y"]), "operator QGemm is not supported", "com.microsoft"),
    "scale zero": (put("x_scale", np.float32(0)), "'quantize' .*scale is 0.0", "positive, finite, normal"),
    "scale negative": (put("x_scale", np.float32(-1)), "scale is -1.0", "positive, finite, normal"),
    "scale NaN": (put("x_scale", np.float32(np.nan)), "scale is nan", "positive, finite, normal"),
    "scale infinite": (put("layer_0_y_scale", np.float32(np.inf)), "scale of y is inf", "positive, finite"),
    "scale subnormal": (put("layer_0_a_scale", np.float32(1e-39)), r"scale of a is 1\.\d+e-39", "normal float32"),
    "scale of a column": (put("layer_0_b_scale", np.float32(0)), "scale of b is 0.0", "positive"),
    "scale of float64": (put("x_scale", np.float64(1)), "scale is float64", "float32 is accepted"),
    "scale an axis": (put("x_scale", np.ones(3, np.float32)), r"scale has shape \(3,\)", "whole tensor"),
    "multiplier inf": (
        both(lambda model: setattr(alpha(model), "f", 3e38), put("layer_0_b_scale", np.float32(1e9))),
        "multiplier .* is inf",
        "positive",
    ),
    "multiplier subnormal": (put("layer_0_y_scale", np.float32(3e38)), "multiplier .* is", "normal float32"),
    "multiplier zero": (
        both(put("layer_0_a_scale", np.float32(1e-30)), put("layer_0_b_scale", np.float32(1e-30))),
        "multiplier .* is 0.0",
        "positive",
    ),
    "alpha negative": (lambda model: setattr(alpha(model), "f", -1.0), "multiplier .* is -", "positive"),
    "alpha NaN": (lambda model: setattr(alpha(model), "f", np.nan), "multiplier .* is nan", "positive"),
    "overflow": (
        put("layer_0_bias", np.array([0, 0, 2**31 - 1, 0], np.int32)),
        r"accumulator of column 2 can reach \d+ to \d+",
        "-2147483648 to 2147483646",
    ),
    "weights not constant": (rewire(1, 3, "quantize_out"), "weight .*'quantize_out', is not constant", "initializer"),
    "zero point not constant": (rewire(0, 2, "nowhere"), "zero point, 'nowhere', is not constant", "initializer"),
    "weights too narrow": (put("layer_0_weights", np.ones((2, 4), np.int8)), r"shape \(2, 4\).*width 3", r"K = 3"),
    "weights empty": (put("layer_0_weights", np.ones((3, 0), np.int8)), r"shape \(3, 0\)", "N of 1 or more"),
    "weights rank 1": (put("layer_0_weights", np.ones(3, np.int8)), r"shape \(3,\)", r"\(K, N\)"),
    "weights int16": (put("layer_0_weights", np.ones((3, 4), np.int16)), "is int16", "uint8 or int8"),
    "bias float": (put("layer_0_bias", np.ones(4, np.float32)), "bias is float32", "int32 is accepted"),
    "bias length": (put("layer_0_bias", np.ones(3, np.int32)), r"bias has shape \(3,\)", r"\(4,\) or \(1, 4\)"),
    "bias column": (put("layer_0_bias", np.ones((4, 1), np.int32)), r"shape \(4, 1\)", r"\(4,\) or \(1, 4\)"),
    "zero point type": (put("x_zero_point", np.int16(0)), "zero point is int16", "uint8 or int8"),
    "zero point of a": (put("layer_0_a_zero_point", np.int8(0)), "zero point of a is int8", "uint8 is accepted"),
    "zero point of b": (put("layer_0_b_zero_point", np.uint8(0)), "zero point of b is uint8", "int8 is accepted"),
    "zero point of y": (put("layer_0_y_zp", np.int8(0)), "zero point of y is int8", "uint8 is accepted"),
    "columns of b": (put("layer_0_b_zero_point", np.zeros(4, np.int8)), r"shapes \(\) and \(4,\)", "same shape"),
    "y_scale alone": (lambda model: model.graph.node[1].input.pop(), "only one of y_scale", "both"),
    "transA": (attribute(1, "transA", 1), "transA is 1", "a vector is a row"),
    "unknown attribute": (attribute(1, "beta", 1.0), "attribute 'beta' is unknown", "alpha, transA, transB"),
    "attribute type": (attribute(0, "block_size", 1.5), "'block_size' is 1.5", "a number such as 0"),
    "blocks": (attribute(0, "block_size", 2), "block_size is 2", "per-tensor"),
    "16-bit output": (attribute(0, "output_dtype", TensorProto.UINT16), "output_dtype is 4", "uint8 or int8"),
    "half precision": (attribute(0, "precision", TensorProto.FLOAT16), "precision is 10", "float, or none"),
    "output types differ": (attribute(0, "output_dtype", TensorProto.INT8), "output_dtype is int8", "same type"),
    "too few inputs": (lambda model: model.graph.node[0].input.__delitem__(slice(1, 3)), "has 1 inputs", "2 to 3"),
    "axis": (append("ArgMax", ["layer_1_out"], ["y"], axis=0), "axis is 0", "axes 1 to 1"),
    "after ArgMax": (
        both(append("ArgMax", ["layer_1_out"], ["y"], axis=1), append("Softmax", ["y"], ["z"], name="late", axis=1)),
        r"'late' \(Softmax\): its input 'y' is int64",
        "reads float32",
    ),
    "node twice": (
        lambda model: setattr(model.graph.node[2], "name", "layer_0"),
        "2 nodes are named 'layer_0'",
        "its own name",
    ),
    "type of the input": (append("QuantizeLinear", ["layer_1_out", "x_scale"], ["y"]), "is uint8", "reads float32"),
    "unread result": (
        lambda model: setattr(model.graph.output[0], "name", "layer_0_out"),
        r"gives out 'layer_0_out'; node 'layer_1' \(QGemm\) is for nothing",
        "that no node reads an output",
    ),
    "input given out": (
        lambda model: setattr(model.graph.output.add(), "name", "x"),
        "gives out 'layer_1_out', 'x'",
        "out",
    ),
    "nobody's result": (rewire(2, 0, "elsewhere"), "'elsewhere' is not written by any node before", "quantize_out"),
    "later result": (rewire(1, 0, "layer_1_out"), "'layer_1_out' is not written by any node before it", "topological"),
    "constant as activation": (rewire(1, 0, "x_scale"), "'x_scale' is a constant", "result of another node"),
    "reading the input": (rewire(1, 0, "x"), "'layer_0' .* its input 'x' is float32", "reads uint8 or int8"),
    "strange output": (lambda model: setattr(model.graph.output[0], "name", "x_scale"), "gives out 'x_scale'", "out"),
    "tensor twice": (
        lambda model: model.graph.node[2].output.__setitem__(0, "layer_0_out"),
        "2 tensors are named 'layer_0_out'",
        "its own name",
    ),
    "control characters": (lambda model: setattr(model.graph.node[1], "name", "a\nb"), r"'a\\nb' has control", "print"),
    "external data": (
        lambda model: setattr(constant(model, "layer_0_weights"), "data_location", TensorProto.EXTERNAL),
        "'layer_0_weights' is stored in another file",
        "onnx.save",
    ),
    "short data": (
        lambda model: setattr(constant(model, "layer_0_weights"), "raw_data", b"123"),
        "'layer_0_weights' is malformed",
        "export it again",
    ),
    "no input": (
        lambda model: model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 3), np.float32), "x")),
        "has no input",
        "one at least",
    ),
    "scale as an input": (
        lambda model: (
            model.graph.initializer.remove(constant(model, "x_scale")),
            model.graph.input.append(helper.make_tensor_value_info("x_scale", TensorProto.FLOAT, [])),
        ),
        r"input 'x_scale' is float of shape \(\)",
        "scales, zero points",
    ),
    "input of rank 1": (
        lambda model: model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])),
        r"'x' is float of shape \(3\)",
        r"images, \(vectors, channels, height, width\)",
    ),
    "input of rank 4 before a dense layer": (
        lambda model: model.graph.input[0].CopyFrom(
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 3])
        ),
        r"its input .* has shape \(vectors, 1, 1, 3\)",
        "Flatten it",
    ),
    "input of free width": (
        lambda model: model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])),
        r"shape \(1, n\)",
        "fixed sizes",
    ),
    "input uint8": (
        lambda model: model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 3])),
        "'x' is uint8",
        "reads float32",
    ),
    "input of strings": (
        lambda model: model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.STRING, [1, 3])),
        "'x' is string",
        "float32, uint8, int8",
    ),
    "new IR version": (lambda model: setattr(model, "ir_version", 14), "IR version 14", "up to 13"),
    "new opset": (lambda model: setattr(model.opset_import[0], "version", 27), "opset 27", "10 to 26"),
    "old opset": (lambda model: setattr(model.opset_import[0], "version", 9), "opset 9", "10 to 26"),
    "sparse": (lambda model: model.graph.sparse_initializer.add(), "sparse initializers", "dense"),
    "local functions": (
        lambda model: model.functions.add(name="Own", domain="own"),
        "defines the function own.Own",
        "inline",
    ),
    "no nodes": (lambda model: model.graph.ClearField("node"), "no nodes", "com.microsoft.QGemm.*QuantizeLinear"),
    "invalid for ONNX": (lambda model: model.graph.ClearField("name"), "not valid ONNX", "onnx.checker"),
    "box of wrong length": (
        lambda model: helper.set_model_props(model, {"input_box_low": "[0]", "input_box_high": "[1]"}),
        "input_box_low is '\\[0\\]'",
        "3 values",
    ),
    "half a box": (
        lambda model: helper.set_model_props(model, {"input_box_low": "[0, 0, 0]"}),
        "input_box_high is None",
        "3 values",
    ),
    "box upside down": (
        lambda model: helper.set_model_props(model, {"input_box_low": "[2, 2, 2]", "input_box_high": "[1, 1, 1]"}),
        "input box is",
        "low <= high",
    ),
    "box of text": (
        lambda model: helper.set_model_props(model, {"input_box_low": '["a", 2, 2]', "input_box_high": "[1, 1, 1]"}),
        "input_box_low is",
        "finite numbers",
    ),
    "box beyond float64": (
        lambda model: helper.set_model_props(
            model, {"input_box_low": f"[-1{'0' * 400}, 0, 0]", "input_box_high": "[1, 1, 1]"}
        ),
        r"input_box_low is '\[-10{77}\.\.\.'",
        "finite numbers",
    ),
    "box beyond what Python reads": (
        lambda model: helper.set_model_props(
            model, {"input_box_low": f"[{'1' * 5000}, 0, 0]", "input_box_high": "[1, 1, 1]"}
        ),
        "input_box_low is",
        "3 values",
    ),
    "box without an end": (
        lambda model: helper.set_model_props(model, {"input_box_low": "[" * 10_000, "input_box_high": "[1, 1, 1]"}),
        "input_box_low is",
        "3 values",
    ),
    "half a normalisation": (
        lambda model: helper.set_model_props(model, {"input_mean": "[0, 0, 0]"}),
        "lacks input_names, input_units, input_range",
        "or none",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_says_what_and_what_would_be_accepted(case: str) -> None:
    change, message, hint = REFUSALS[case]
    with pytest.raises(RequestError, match=message) as caught:
        parse(changed(change))
    assert "model 'small'" in caught.value.message
    assert re.search(hint, caught.value.hint)


def test_float_network_is_told_what_is_supported_and_how_to_quantise() -> None:
    node = helper.make_node("Det", ["x"], ["y"])
    model = make_model([node], {}, {"y": ("float32", 2)}, width=2)
    with pytest.raises(RequestError, match="operator Det is not supported") as caught:
        parse(model)
    assert "harness models import FILE" in caught.value.hint
    assert ", Softmax, " in caught.value.hint


def test_float_operator_between_quantisers_is_told_of_the_import() -> None:
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["q"]), helper.make_node("Det", ["q"], ["y"])]
    constants = {"s": np.float32(1)}
    with pytest.raises(RequestError, match="operator Det is not supported") as caught:
        parse(make_model(nodes, constants, {"y": ("float32", 2)}, width=2))
    assert "harness models import FILE" in caught.value.hint


def qdq_product(weights: onnx.NodeProto, **constants: Any) -> onnx.ModelProto:
    """A MatMul between codes; `weights` is the node that writes 'd'."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        weights,
        helper.make_node("MatMul", ["a", "d"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    values = {"s": np.float32(0.1), "z": np.uint8(3), "w": np.ones((2, 2), np.int8), "i": np.int8(0), **constants}
    return make_model(nodes, values, {"y": ("uint8", 2)}, width=2)


def test_a_qdq_model_is_told_of_the_import() -> None:
    with pytest.raises(RequestError, match=r"ONNX Runtime computes its groups of .* as QLinearMatMul") as caught:
        parse(qdq_product(helper.make_node("DequantizeLinear", ["w", "s", "i"], ["d"])))
    assert "harness models import FILE" in caught.value.hint


@pytest.mark.parametrize("axis", [0, -2])
def test_dequantised_constants_are_those_of_onnx_runtime(axis: int) -> None:
    rng = np.random.default_rng(3)
    codes, scales = rng.integers(-128, 128, (2, 3)).astype(np.int8), rng.random((2, 3)[axis]).astype(np.float32)
    zero_points = rng.integers(-5, 5, scales.size).astype(np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=axis),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    model = make_model(nodes, {"w": codes, "s": scales, "z": zero_points}, {"y": ("float32", 3)}, width=2)
    weights: Any = parse(model).layers[0]
    assert weights.weights.tobytes() == output_of(model, np.eye(2, dtype=np.float32)).tobytes()


@pytest.mark.parametrize(
    ("scales", "message"),
    [(np.ones(3, np.float32), r"shapes \(3,\) and \(\)"), (np.float32([1, np.inf]), "scale is inf")],
)
def test_scales_of_constants_that_do_not_fit_are_refused(scales: Any, message: str) -> None:
    weights = helper.make_node("DequantizeLinear", ["w", "scales", "i"], ["d"], "weights")
    with pytest.raises(RequestError, match=f"node 'weights' .*{message}"):
        parse(qdq_product(weights, scales=scales))


def test_a_scale_with_which_codes_overflow_is_refused() -> None:
    quantize = helper.make_node("QuantizeLinear", ["x", "s"], ["q"])
    largest = np.float32(2.0**128 / 255 * (1 - 2.0**-23))
    model = make_model(
        [quantize, helper.make_node("DequantizeLinear", ["q", "large"], ["y"], name="end")],
        {"s": np.float32(1), "large": largest},
        {"y": ("float32", 2)},
        width=2,
    )
    assert parse(model).layers[1].dtype == np.float32
    next(t for t in model.graph.initializer if t.name == "large").CopyFrom(
        onnx.numpy_helper.from_array(np.float32(largest * 1.001), "large")
    )
    with pytest.raises(RequestError, match=r"'end' .*255 codes of scale 1\.33.*e\+36 overflow"):
        parse(model)


def test_the_first_layer_may_be_any_operator_and_the_box_is_then_the_default() -> None:
    select = helper.make_node("ArgMax", ["x"], ["y"], name="advisory", axis=1)
    parsed = parse(make_model([select], {}, {"y": ("int64", 1)}, width=2))
    assert [layer.operator for layer in parsed.layers] == ["ArgMax"]
    assert parsed.box.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert not parsed.takes_every_input
    quantize = helper.make_node("QuantizeLinear", ["x", "s"], ["q"])
    outputs = {"y": ("int64", 1), "q": ("uint8", 2)}
    both_read = parse(make_model([quantize, select], {"s": np.float32(0.5)}, outputs, width=2))
    assert both_read.box.tolist() == [[-1.0, -1.0], [128.0, 128.0]]
    assert not both_read.takes_every_input
    assert parse(small()).takes_every_input


def test_nothing_reads_an_index() -> None:
    nodes = [helper.make_node("ArgMax", ["x"], ["y"], axis=1), helper.make_node("QuantizeLinear", ["y", "s"], ["q"])]
    with pytest.raises(RequestError, match="its input 'y' is int64") as caught:
        parse(make_model(nodes, {"s": np.float32(0.5)}, {"q": ("uint8", 1)}, width=2))
    assert caught.value.hint == "it reads float32"


def test_a_network_of_constants_is_refused() -> None:
    tensor = numpy_helper.from_array(np.float32([1]))
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    with pytest.raises(RequestError, match="has constants only"):
        parse(make_model([node], {}, {"y": ("float32", 1)}, width=2))


def test_arg_max_need_not_be_the_last_node() -> None:
    model = changed(append("ArgMax", ["layer_1_out"], ["y"], axis=1))
    again = helper.make_node("QuantizeLinear", ["x", "x_scale"], ["again"], name="again")
    model.graph.node.append(again)
    model.graph.output.append(helper.make_tensor_value_info("again", TensorProto.UINT8, ["vectors", 3]))
    assert [layer.operator for layer in parse(model).layers[-2:]] == ["ArgMax", "QuantizeLinear"]


def test_int8_input_wants_int8_weights() -> None:
    with pytest.raises(RequestError, match="weight for a int8 input is uint8") as caught:
        parse(small(activations="int8", weights="uint8"))
    assert caught.value.hint == "int8 is accepted"


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x89HDF\r\n\x1a\n" * 9, b"PK\x03\x04" * 9])
def test_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=r"is empty|is not an ONNX model") as caught:
        networks.load(path)
    assert caught.value.hint == "give a complete .onnx file"


def test_a_name_that_no_description_can_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"net\xff.onnx")
    path.write_bytes(b"")
    with pytest.raises(RequestError, match=r"the file's name is no UTF-8"):
        networks.load(path)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        networks.load(tmp_path / "missing.onnx")
    with pytest.raises(RequestError, match="Is a directory"):
        networks.load(tmp_path)


def test_truncated_and_corrupted_files_are_refused_or_read_but_never_crash_the_loader() -> None:
    content = small(dequantize=True, argmax=True).SerializeToString()
    rng = np.random.default_rng(0)
    refused = 0
    damaged = [content[:length] for length in range(0, len(content), 7)]
    for _ in range(500):
        copy = bytearray(content)
        copy[rng.integers(len(copy))] = rng.integers(256)
        damaged.append(bytes(copy))
    for damage in damaged:
        try:
            networks.parse(damage, "damaged")
        except RequestError:
            refused += 1
    assert refused > len(content) // 7  # every truncation, and many of the corruptions


# The limits are the runtime's.


@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize("kind", ["ir_version", "opset"])
def test_limits_of_the_versions_are_those_of_onnx_runtime(kind: str, excess: int) -> None:
    model = small()
    if kind == "opset":
        model.opset_import[0].version = networks.NEWEST_OPSET + excess
    else:
        model.ir_version = networks.NEWEST_IR_VERSION + excess
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - ONNX Runtime's exceptions have no common base of their own
        assert excess == 1
    else:
        assert excess == 0


def test_outputs_of_a_node_that_nothing_reads_are_no_layers() -> None:
    """A TopK of which only the values are an output, and a Split of which one part is read."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "places"], name="best"),
        helper.make_node("Split", ["values", "sizes"], ["left", "right"], name="split", axis=1),
    ]
    constants = {"k": np.array([3], np.int64), "sizes": np.array([1, 2], np.int64)}
    model = make_model(nodes, constants, {"right": ("float32", 2)}, width=5).SerializeToString()
    network = networks.parse(model, "network")
    assert [layer.output.name for layer in network.layers] == ["values", "right"]
    assert list(independent_file.nodes(model)) == ["values", "right"]
    x = np.array([[3, 1, 4, 1, 5]], np.float32)
    assert SpecificationReference(network).activations(x)[-1].tolist() == [[4, 3]]
