"""The standard form: the same bits by operators of ONNX's own domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from harness.applications.convert.check import ConversionCheck, check_standard
from harness.core.errors import RequestError
from harness.model import standard
from harness.model.network import Network
from harness.model.standard import qlinear_add, standard_form
from harness.operators.base import Layer
from tests.support import builders, codes, float_images, images
from tests.support.examples import examples
from tests.support.programs.board_program import parse
from tests.support.programs.convolutions import random_convolutions

NETWORKS: Mapping[str, Callable[[], Network]] = {
    "codes uint8": lambda: codes.every_operator("uint8", 9),
    "codes int8": lambda: codes.every_operator("int8", 9),
    "images uint8": lambda: images.every_operator("uint8"),
    "images int8": lambda: images.every_operator("int8"),
    "float images": float_images.every_operator,
    "sequences": lambda: random_convolutions(np.random.default_rng(1), 1, "uint8", "int8", 2),
    "unsigned weights": lambda: random_convolutions(np.random.default_rng(2), 2, "uint8", "uint8", 2),
    "columns": lambda: parse(
        builders.random_network(np.random.default_rng(3), (5, 9, 4), per_column=True, zero_points=True, argmax=True)
    ),
    "constants as inputs": lambda: with_constants_as_inputs(
        builders.random_network(np.random.default_rng(3), (5, 9, 4), alpha=0.7)
    ),
}
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def with_constants_as_inputs(model: onnx.ModelProto) -> Network:
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return parse(model)


def checked(net: Network, model: onnx.ModelProto) -> ConversionCheck:
    return check_standard(net, model, 40, 1, lambda _: None)


def wrong(found: ConversionCheck) -> list[str]:
    return [each.layer.name for each in found.layers if not each.holds]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_keeps_its_bits_its_name_and_its_shape(name: str) -> None:
    net = NETWORKS[name]()
    model = standard_form(net)
    onnx.checker.check_model(model, full_check=True)
    assert {entry.domain for entry in model.opset_import} == {""}
    found = checked(net, model)
    assert (wrong(found), found.outputs_alike) == ([], True)
    values = {value.name: value.type.tensor_type for value in (*model.graph.value_info, *model.graph.output)}
    for layer in net.layers:
        inferred = values[layer.output.name]
        sizes = [dim.dim_value for dim in inferred.shape.dim[1:]]
        assert np.prod(sizes, dtype=int) == layer.size, layer.name
        assert helper.tensor_dtype_to_np_dtype(inferred.elem_type) == layer.dtype


def test_a_sum_whose_two_roundings_matter_becomes_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    net = codes.every_operator("uint8", 9)
    monkeypatch.setattr(qlinear_add, "_in_float64", lambda layer: layer.table() + 1)
    model = standard_form(net)
    assert standard.operators_of(model, net)["sum"] == ("Cast", "Cast", "Mul", "Add", "Gather")
    assert wrong(checked(net, model)) == []


@examples(200)
@given(FLOATS, st.floats(2.0**-60, 2.0**60, width=32), st.integers(-300, 300))
def test_a_division_by_multiplication_in_float64_is_the_quotient(x: float, scale: float, half: int) -> None:
    """Compute `Form.quotient` like an engine that multiplies by 1 / divisor."""
    divisor = np.float32(scale)
    with np.errstate(all="ignore"):
        for number in (np.float32(x), np.float32((half + 0.5) * divisor)):
            right = number / divisor
            found = np.float32(np.float64(number) * (1 / np.float64(divisor)))
            assert found == right or abs(right) < np.finfo(np.float32).tiny


@pytest.mark.parametrize("role", ["weights", "bias", "multiplier", "y_zero_point"])
def test_a_wrong_constant_is_found(role: str) -> None:
    net = parse(builders.random_network(np.random.default_rng(4), (5, 9, 4)))
    model, layer = standard_form(net), net.layers[1]
    tensor = next(each for each in model.graph.initializer if each.name == f"{layer.output.name}/{role}")
    values = numpy_helper.to_array(tensor).copy()
    values.reshape(-1)[...] = (
        np.roll(values, 1, axis=-1).reshape(-1) if values.size > 1 else values + values.dtype.type(1)
    )
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    assert wrong(checked(net, model)) == [layer.name]


def test_refusals_name_node_and_reason() -> None:
    net = codes.every_operator("uint8", 9)
    old = builders.random_network(np.random.default_rng(4), (5, 9, 4))
    old.opset_import[0].version = 12
    with pytest.raises(RequestError, match="is of opset 12, and its standard form needs 13"):
        standard_form(parse(old))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standard, "names", lambda: frozenset({"qlinear_add"}))
        with pytest.raises(RequestError, match=r"node 'leaky' \(QLinearLeakyRelu\) has no standard form"):
            standard_form(net)


def test_every_quantised_operator_has_a_form() -> None:
    from harness import operators
    from harness.operators.onnx_function import DOMAIN

    classes: set[type[Layer]] = {
        found for (domain, _), found in operators.by_onnx_name().items() if domain not in {"", DOMAIN}
    }
    assert {each.__module__.rpartition(".")[2] for each in classes} <= standard.names()
