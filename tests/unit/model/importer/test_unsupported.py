from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.importer import Changes, FloatImport, advice
from tests.support.importer.graphs import Array, model, node, refusal, saved
from tests.unit.model.importer.test_floating import CHAIN, ROWS, floats

IMAGE = {"k": np.ones((1, 1, 3), np.float32), "w": np.ones((3, 2), np.float32)}


def conv1d() -> bytes:
    """Conv1d, GlobalAveragePool, Softmax and Tanh around a Gemm."""
    nodes = [
        *(node("Conv", "x k", "c"), node("GlobalAveragePool", "c", "g"), node("Flatten", "g", "f")),
        *(node("Gemm", "f w", "y"), node("Conv", "x k", "c2"), node("Softmax", "y", "s")),
        *(node("Flatten", "c2", "f2"), node("Tanh", "s", "t"), node("Add", "t f2", "u")),
    ]
    return model(nodes, IMAGE, shape=["n", 1, 5])


def test_the_first_unsupported_node_is_named(tmp_path: Path) -> None:
    message, hint = refusal(tmp_path, conv1d())
    assert message == "model 'network': node 'node_c' (Conv): operator Conv is no dense layer"
    assert "accepted: MatMul, Gemm" in hint


def advised(tmp_path: Path, onnx_bytes: bytes) -> tuple[str, str]:
    """Message and hint of an import."""
    with pytest.raises(RequestError) as refused:
        importer.bring_in(saved(tmp_path, onnx_bytes))
    return refused.value.message, refused.value.hint


def test_a_command_that_helps_is_named_and_works(tmp_path: Path) -> None:
    labelled = node("LabelEncoder", "m", "t", classes_strings=["left", "right", "ahead"])
    labelled.domain = "ai.onnx.ml"
    nodes = [*CHAIN, node("ArgMax", "y", "m", axis=1), labelled]
    onnx_bytes = model(nodes, ROWS, shape=["n", 5], outputs={"t": onnx.TensorProto.STRING})
    message, hint = advised(tmp_path, onnx_bytes)
    assert message.endswith("node 'node_t' (LabelEncoder): operator ai.onnx.ml.LabelEncoder is not supported")
    command = f"harness models import {tmp_path}/network.onnx --drop-final -o NAME"
    assert hint.endswith(f"this helps: {command}")
    found = importer.bring_in(saved(tmp_path, onnx_bytes), asked=Changes(drop_final=True))
    assert isinstance(found, FloatImport)
    assert len(found.network.layers) == 2


def test_where_no_command_helps_none_is_named(tmp_path: Path) -> None:
    nodes = [*CHAIN, node("Det", "y", "t"), node("MatMul", "t w3", "u")]
    message, hint = advised(tmp_path, model(nodes, ROWS | {"w3": np.ones((3, 3), np.float32)}, shape=["n", 5]))
    assert message.endswith("node 'node_t' (Det): operator Det is not supported")
    assert hint.endswith(advice.NONE)


def test_an_operator_of_a_domain_without_import_is_named(tmp_path: Path) -> None:
    foreign = onnx.load_model_from_string(model([*CHAIN, node("Relu", "y", "t")], ROWS, shape=["n", 5]))
    foreign.graph.node[-1].domain, foreign.graph.node[-1].op_type = "qonnx.custom_op.general", "Quant"
    message, _ = advised(tmp_path, foreign.SerializeToString())
    assert message.endswith("node 'node_t' (Quant): operator qonnx.custom_op.general.Quant is not supported")


@pytest.mark.parametrize(
    ("operator", "inputs", "more", "attributes"),
    [
        ("Slice", "x a b", {"a": np.array([0, 0]), "b": np.array([1, 3])}, {}),
        ("Gather", "x a", {"a": np.array([0, 1])}, {"axis": 1}),
        ("Pad", "x a", {"a": np.array([0, 1, 0, 1])}, {}),
        ("ReduceMean", "x", {}, {"axes": [1], "keepdims": 1}),
    ],
)
def test_an_operator_before_a_gemm_is_not_an_error_of_the_gemm(
    tmp_path: Path, operator: str, inputs: str, more: dict[str, Array], attributes: dict[str, object]
) -> None:
    width = {"Slice": 3, "Gather": 2, "Pad": 7, "ReduceMean": 1}[operator]
    nodes = [node(operator, inputs, "p", **attributes), node("Gemm", "p w", "y")]
    constants = more | {"w": np.ones((width, 2), np.float32)}
    message, hint = refusal(tmp_path, model(nodes, constants, shape=["n", 5]))
    assert message.startswith(f"model 'network': node 'node_p' ({operator}): operator {operator} is ")
    assert "node_y" not in message + hint


def test_nodes_that_no_output_needs_are_ignored(tmp_path: Path) -> None:
    dead = [node("Shape", "x", "shape"), node("Tanh", "p1", "tanh")]
    found = floats(tmp_path, model([*dead[:1], CHAIN[0], *dead[1:], *CHAIN[1:]], ROWS, shape=["n", 5]))
    assert len(found.network.layers) == 2


def test_a_constant_that_sqrt_computes_is_stored(tmp_path: Path) -> None:
    nodes = [node("Sqrt", "b2", "r"), *CHAIN, node("Add", "y r", "t")]
    found = floats(tmp_path, model(nodes, ROWS | {"b2": np.full(3, 2, np.float32)}, shape=["n", 5]))
    assert found.notes == ("computed what depends on shapes and constants only: 'Sqrt'",)
    assert len(found.network.layers) == 2
