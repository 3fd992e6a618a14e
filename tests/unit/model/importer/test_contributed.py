"""Operators of ONNX Runtime by nodes of ONNX: the specification has the values of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from harness.core.errors import RequestError
from harness.model.importer import contributed
from harness.model.onnx_runtime.sessions import session
from tests.support.importer.graphs import Array, saved
from tests.unit.model.importer.test_functions import outputs_of

F = np.float32
RANDOM = np.random.default_rng(3)


def drawn(*shape: int) -> Array:
    """Random numbers."""
    return RANDOM.normal(size=shape).astype(F)


def codes(*shape: int, dtype: Any = np.uint8) -> Array:
    """Random codes."""
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, dtype, endpoint=True)


TOKENS = drawn(1, 6, 8)
MASK = np.array([[1, 1, 0, 1, 1, 0]], np.int32)
HALF = np.array(0.5, F)
Case = tuple[str, Mapping[str, Array], Sequence[Array | None], Mapping[str, Any]]
NONE: Array | None = None
CASES: Mapping[str, Case] = {
    "Conv and Relu": ("FusedConv", {"x": drawn(1, 3, 6, 6)}, [drawn(4, 3, 3, 3), drawn(4)],
                      {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    "Conv and Clip": ("FusedConv", {"x": drawn(1, 3, 6, 6)}, [drawn(4, 3, 3, 3), drawn(4)],
                      {"activation": "Clip", "activation_params": [-0.5, 1.0]}),
    "Conv, sum and LeakyRelu": ("FusedConv", {"x": drawn(1, 3, 6, 6)}, [drawn(4, 3, 3, 3), drawn(4), drawn(1, 4, 4, 4)],
                                {"activation": "LeakyRelu", "activation_params": [0.25]}),
    "Gemm and LeakyRelu": ("FusedGemm", {"x": drawn(1, 6)}, [drawn(4, 6), drawn(4)],
                           {"activation": "LeakyRelu", "activation_alpha": 0.25, "transB": 1}),
    "MatMul and scale": ("FusedMatMul", {"x": TOKENS, "x2": drawn(1, 5, 8)}, [], {"transB": 1, "alpha": 0.25}),
    "MatMul of columns": ("FusedMatMul", {"x": TOKENS, "x2": drawn(1, 6, 5)}, [], {"transA": 1}),
    "4 bits": ("MatMulNBits", {"x": drawn(1, 3, 40)}, [codes(5, 3, 8), drawn(15)],
               {"K": 40, "N": 5, "block_size": 16, "bits": 4}),
    "4 bits and zero points": ("MatMulNBits", {"x": drawn(1, 40)}, [codes(5, 3, 8), drawn(15), codes(10)],
                               {"K": 40, "N": 5, "block_size": 16, "bits": 4}),
    "8 bits": ("MatMulNBits", {"x": drawn(1, 64)}, [codes(5, 2, 32), drawn(10)],
               {"K": 64, "N": 5, "block_size": 32, "bits": 8}),
    "4 bits and a bias": ("MatMulNBits", {"x": drawn(1, 40)}, [codes(5, 3, 8), drawn(15), NONE, NONE, drawn(5)],
                          {"K": 40, "N": 5, "block_size": 16, "bits": 4}),
    "dynamic codes": ("DynamicQuantizeMatMul", {"x": drawn(1, 6, 8)},
                      [codes(8, 5, dtype=np.int8), HALF.reshape(1), np.zeros(1, np.int8), drawn(5)], {}),
    "root mean square": ("SimplifiedLayerNormalization", {"x": TOKENS}, [drawn(8)], {"epsilon": 1e-3, "axis": -1}),
    "root mean square of a sum": ("SkipSimplifiedLayerNormalization", {"x": TOKENS, "x2": drawn(1, 6, 8)},
                                  [drawn(8), drawn(8)], {"epsilon": 1e-3}),
    "attention": ("Attention", {"x": TOKENS}, [drawn(8, 24), drawn(24)], {"num_heads": 2}),
    "attention of other sizes": ("Attention", {"x": TOKENS}, [drawn(8, 28), drawn(28)],
                                 {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12], "scale": 0.5}),
    "attention of former tokens": ("Attention", {"x": TOKENS}, [drawn(8, 24), drawn(24)],
                                   {"num_heads": 2, "unidirectional": 1}),
    "attention and mask": ("Attention", {"x": TOKENS}, [drawn(8, 24), drawn(24), MASK], {"num_heads": 2}),
    "attention and bias": ("Attention", {"x": TOKENS}, [drawn(8, 24), drawn(24), NONE, NONE, drawn(1, 2, 6, 6)],
                           {"num_heads": 2}),
    "attention of three": ("MultiHeadAttention", {"x": TOKENS, "x2": drawn(1, 5, 8), "x3": drawn(1, 5, 8)}, [drawn(24)],
                           {"num_heads": 4}),
    "attention without bias": ("MultiHeadAttention", {"x": TOKENS, "x2": drawn(1, 5, 8), "x3": drawn(1, 5, 12)}, [],
                               {"num_heads": 2, "scale": 0.25}),
}  # fmt: skip
"""The operator, its activations, its constants behind them, None for those that are left out, and attributes."""


def model_of(case: Case, domain: str = "com.microsoft", opset: int = 17) -> onnx.ModelProto:
    """A model of one node."""
    operator, feed, constants, attributes = case
    names = [f"c{place}" if value is not None else "" for place, value in enumerate(constants)]
    node = helper.make_node(operator, [*feed, *names], ["y"], "node", domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feed.items()
    ]
    tensors = [numpy_helper.from_array(np.asarray(value), name)
               for name, value in zip(names, constants, strict=True) if value is not None]  # fmt: skip
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]

    def build(shape: Sequence[int]) -> onnx.ModelProto:
        y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph([node], "graph", inputs, [y], tensors)
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    [y] = session(build([0] * 9).SerializeToString(), 1, optimised=False).run(None, dict(feed))
    return build(y.shape)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("name", CASES)
def test_the_specification_has_the_values_of_onnx_runtime(name: str, opset: int, tmp_path: Path) -> None:
    case = CASES[name]
    model = model_of(case, "" if case[0] == "SimplifiedLayerNormalization" else "com.microsoft", opset)
    feed = dict(case[1])
    [expected] = session(model.SerializeToString(), 1).run(None, feed)
    [result] = outputs_of(saved(tmp_path, model.SerializeToString()), feed)
    np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_attention_of_dynamic_codes_has_the_values_of_onnx_runtime(tmp_path: Path) -> None:
    """Scales that follow from the data, as quantize_dynamic writes them."""
    constants = {"w": codes(8, 24, dtype=np.int8), "b": drawn(24), "s_w": HALF / 64, "z_w": np.int8(0)}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("QAttention", ["q", "w", "b", "s", "s_w", "", "z", "z_w"], ["y"], domain="com.microsoft",
                         num_heads=2),
    ]  # fmt: skip
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, TOKENS.shape) for name in "xy"]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    [expected] = session(data, 1).run(None, {"x": TOKENS})
    [result] = outputs_of(saved(tmp_path, data), {"x": TOKENS})
    np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("4 bits", {"accuracy_level": 4}, "accuracy_level 4"),
        ("Conv and Relu", {"activation": "Softplus"}, "its activation is Softplus"),
        ("MatMul and scale", {"transBatchA": 1}, "it exchanges axes of several matrices"),
        ("attention", {"do_rotary": 1}, "it has inputs or outputs beside those of all tokens"),
    ],
)
def test_other_forms_are_refused(name: str, attributes: dict[str, Any], message: str) -> None:
    model = model_of(CASES[name])
    node = model.graph.node[0]
    kept = [entry for entry in node.attribute if entry.name not in attributes]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(*pair) for pair in attributes.items())])
    with pytest.raises(RequestError, match=message):
        contributed.expand(model)
