"""Operators between DequantizeLinear and QuantizeLinear, as ONNX Runtime runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.analysis.proof.independent import file
from harness.model import importer
from harness.model.importer import Changes, NetworkImport
from harness.model.quantizer import with_data
from harness.reference import Reference
from harness.reference.stimuli import uniform
from tests.support.examples import ALL

SHAPE = (4, 6, 6)
F = np.float32


def weights(rng: np.random.Generator, *, codes: bool) -> dict[str, Any]:
    """Weights (4, 3, 2, 2) of a ConvTranspose: float32, or codes with a scale for each output channel."""
    if not codes:
        return {"w": rng.standard_normal((4, 3, 2, 2)).astype(F)}
    return {
        "w_codes": rng.integers(-90, 91, (4, 3, 2, 2)).astype(np.int8),
        "w_scale": (0.01 + rng.random(3) / 50).astype(F),
        "w_zero": np.zeros(3, np.int8),
    }


FORMS: dict[str, tuple[str, dict[str, Any], str]] = {
    "BatchNormalization": ("BatchNormalization", {}, "BatchNormalization"),
    "ConvTranspose": ("ConvTranspose", {"strides": [2, 2]}, "ConvTranspose"),
    "ConvTranspose of float weights": ("ConvTranspose", {"strides": [2, 2]}, "ConvTranspose"),
    "AveragePool": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "QLinearAveragePool"),
    "GlobalAveragePool": ("GlobalAveragePool", {}, "QLinearGlobalAveragePool"),
    "Sigmoid": ("Sigmoid", {}, "QLinearSigmoid"),
    "LeakyRelu": ("LeakyRelu", {"alpha": 0.1}, "QLinearLeakyRelu"),
    "Tanh": ("Tanh", {}, "Tanh"),
    "ReduceMean": ("ReduceMean", {"axes": [2, 3]}, "ReduceMean"),
    "Resize": ("Resize", {"mode": "nearest"}, "Resize"),
    "Pad": ("Pad", {}, "Pad"),
    "Gather": ("Gather", {"axis": 1}, "Gather"),
}
"""The operator and its attributes, and the operator as which ONNX Runtime runs it."""
CONSTANTS: dict[str, dict[str, Any]] = {
    "Resize": {"": None, "sizes": F([1, 1, 2, 2])},
    "Pad": {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])},
    "Gather": {"places": np.array([2, 0, 3])},
}


def group(form: str, kind: type[np.integer[Any]], rng: np.random.Generator) -> onnx.ModelProto:
    """A model of one group with random scales and zero points."""
    operator, attributes, _ = FORMS[form]
    limits = np.iinfo(kind)
    constants: dict[str, Any] = {name: F(0.01 + rng.random() / 20) for name in ("x_scale", "y_scale")}
    constants |= {name: kind(rng.integers(limits.min + 20, limits.max - 20)) for name in ("x_zero", "y_zero")}
    own: dict[str, Any] = CONSTANTS.get(operator, {})
    before = []
    if operator == "BatchNormalization":
        own = {name: rng.random(SHAPE[0]).astype(F) + F(0.2) for name in ("scale", "bias", "mean", "variance")}
    if operator == "ConvTranspose":
        constants |= weights(rng, codes=form == operator)
        own = {"w": None}
        if form == operator:
            stored = ["w_codes", "w_scale", "w_zero"]
            before = [helper.make_node("DequantizeLinear", stored, ["w"], "weights", axis=1)]
    constants |= {name: value for name, value in own.items() if value is not None}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["q"], "q"),
        helper.make_node("DequantizeLinear", ["q", "x_scale", "x_zero"], ["d"], "d"),
        *before,
        helper.make_node(operator, ["d", *own], ["p"], "operator", **attributes),
        helper.make_node("QuantizeLinear", ["p", "y_scale", "y_zero"], ["pq"], "pq"),
        helper.make_node("DequantizeLinear", ["pq", "y_scale", "y_zero"], ["y"], "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "group",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *SHAPE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "channels", "rows", "columns"])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("form", FORMS)
def test_a_group_is_what_onnx_runtime_runs(tmp_path: Path, form: str, kind: type[np.integer[Any]]) -> None:
    rng = np.random.default_rng([len(form), kind == np.int8])
    for number in range(3 if ALL else 1):
        path = tmp_path / f"group_{number}.onnx"
        onnx.save(group(form, kind, rng), path)
        found = importer.bring_in(path)
        assert isinstance(found, NetworkImport)
        operators = [layer.operator for layer in found.network.layers]
        assert FORMS[form][2] in operators
        expected = Reference(found.network).expected(uniform(found.network, number, 40))
        assert len(np.unique(expected.activations[-1])) > 5
        own = file.nodes(found.network.onnx_bytes)
        for layer in found.network.layers:
            for name in {"weights"} & layer.constants().keys():
                assert own[layer.output.name].constants[name].tobytes() == np.asarray(layer.constants()[name]).tobytes()


def image_network(rng: np.random.Generator) -> onnx.ModelProto:
    """Conv, Relu, Pad, ConvTranspose, Gather, Resize, a squeeze-and-excite product, ReduceMean and Gemm."""
    constants = {
        "w1": rng.standard_normal((4, 3, 3, 3)).astype(F) / 4,
        "w2": rng.standard_normal((4, 3, 2, 2)).astype(F) / 4,
        "w3": rng.standard_normal((3, 5)).astype(F),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "places": np.array([2, 0, 1]),
        "sizes": F([1, 1, 2, 2]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Pad", ["r", "pads"], ["p"], "pad"),
        helper.make_node("ConvTranspose", ["p", "w2"], ["t"], "transposed", strides=[2, 2]),
        helper.make_node("Gather", ["t", "places"], ["g"], "gather", axis=1),
        helper.make_node("Resize", ["g", "", "sizes"], ["z"], "resize", mode="nearest"),
        helper.make_node("GlobalAveragePool", ["z"], ["mean"], "mean"),
        helper.make_node("Sigmoid", ["mean"], ["gate"], "gate"),
        helper.make_node("Mul", ["z", "gate"], ["s"], "product"),
        helper.make_node("ReduceMean", ["s"], ["m"], "reduce", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["m", "w3"], ["y"], "dense"),
    ]
    graph = helper.make_graph(
        nodes,
        "images",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
def test_a_network_of_every_kind_of_operator_can_be_quantised(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    onnx.save(image_network(rng), tmp_path / "images.onnx")
    floats = with_data.read(tmp_path / "images.onnx", Changes())
    vectors = rng.standard_normal((20, 3, 6, 6)).astype(F)
    found = with_data.quantize_with_data(floats, vectors, with_data.DataChoices(), "images")
    operators = {layer.operator for layer in found.network.layers}
    assert {"QLinearConv", "ConvTranspose", "Gather", "Resize", "QLinearMul", "ReduceMean", "QGemm"} <= operators
    expected = Reference(found.network).expected(vectors.reshape(20, -1))
    assert len(np.unique(expected.activations[-1])) > 5
