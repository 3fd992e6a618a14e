from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

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


def test_all_unsupported_nodes_are_listed_each_with_a_way_around(tmp_path: Path) -> None:
    message, hint = refusal(tmp_path, conv1d())
    first, *lines = message.splitlines()
    assert first == "model 'network': 5 nodes are not supported:"
    convolutions, pool, softmax, tanh = lines
    assert convolutions.startswith("  nodes 'node_c', 'node_c2': operator Conv is no dense layer; quantise it with")
    assert "onnxruntime.quantization.quantize_static" in convolutions
    assert f"harness models quantize {tmp_path}/network.onnx --data VECTORS.npy -o NAME" in pool
    assert softmax.endswith(f"harness models import {tmp_path}/network.onnx --drop-final -o NAME")
    assert tanh.startswith("  node 'node_t': operator Tanh has no exact quantised operator in the harness")
    assert tanh.endswith("train the network with Relu")
    assert "Gemm'" not in message
    assert hint.startswith("accepted: MatMul, Gemm")


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


def test_the_command_for_a_computed_constant_makes_a_file_that_is_imported(tmp_path: Path) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    nodes = [node("Sqrt", "b2", "r"), *CHAIN, node("Add", "y r", "t")]
    onnx_bytes = model(nodes, ROWS | {"b2": np.ones(3, np.float32)}, shape=["n", 5])
    message, hint = refusal(tmp_path, onnx_bytes)
    assert message == "model 'network': node 'node_r' (Sqrt): computes a constant"
    assert "python -m onnxruntime.quantization.preprocess --skip_symbolic_shape true --input" in hint
    new = tmp_path / "new.onnx"
    quant_pre_process(str(saved(tmp_path, onnx_bytes)), str(new), skip_symbolic_shape=True)
    assert "Sqrt" not in {each.op_type for each in onnx.load(new).graph.node}
    assert len(floats(tmp_path, new.read_bytes()).network.layers) == 2
