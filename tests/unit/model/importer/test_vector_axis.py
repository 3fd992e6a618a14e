"""Networks whose first axis cannot be the number of vectors: one vector is the whole input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from harness import model as networks
from harness import operators
from harness.core.errors import RequestError
from harness.model import graph, importer
from harness.model.importer import NetworkImport, axis_rules, changes, vector_axis
from harness.model.importer.axis_products import MOST_COPIES
from harness.model.onnx_runtime.sessions import Stored
from harness.reference.backend import HarnessBackend
from tests.support.importer.graphs import model, node, saved
from tests.support.recurrent import Recurrences

RANDOM = np.random.default_rng(7)
NOTE = "a new axis of vectors is in front"
Constants = Mapping[str, npt.NDArray[Any]]


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


IMAGE = [1, 2, 4, 4]
CASES: dict[str, tuple[Sequence[onnx.NodeProto], Constants, Sequence[int | str]]] = {
    "number": ([node("Exp", "x", "y")], {}, []),
    "one axis": ([node("Exp", "x", "y")], {}, [5]),
    "broadcast constant": ([node("Add", "x a", "y")], {"a": floats(3, 4)}, [4]),
    "broadcast activation": (
        [node("ReduceMax", "x", "m", axes=[0], keepdims=0), node("Sub", "x m", "y")],
        {},
        [3, 4],
    ),
    "where": (
        [node("Greater", "x a", "c"), node("Where", "c x b", "y")],
        {"a": floats(3, 4), "b": floats(1, 4)},
        [3, 4],
    ),
    "reshape": ([node("Reshape", "x s", "r"), node("Relu", "r", "y")], {"s": integers(2, 6)}, [3, 4]),
    "flatten": ([node("Flatten", "x", "r", axis=2), node("Relu", "r", "y")], {}, [2, 3, 4]),
    "squeeze": ([node("Squeeze", "x a", "r"), node("Relu", "r", "y")], {"a": integers(0)}, [1, 3, 4]),
    "unsqueeze": ([node("Unsqueeze", "x a", "r"), node("Relu", "r", "y")], {"a": integers(0, 3)}, [3, 4]),
    "only renamed": ([node("Reshape", "x s", "y")], {"s": integers(4, 3)}, [3, 4]),
    "transpose": ([node("Transpose", "x", "y")], {}, [2, 3, 4]),
    "transpose perm": ([node("Transpose", "x", "y", perm=[1, 2, 0])], {}, [2, 3, 4]),
    "softmax of the first axis": ([node("Softmax", "x", "y", axis=0)], {}, [3, 4]),
    "softmax of the last axis": ([node("Softmax", "x", "y")], {}, [4]),
    "concat": ([node("Relu", "x", "r"), node("Concat", "x r", "y", axis=0)], {}, [3, 4]),
    "concat of constants": (
        [node("Concat", "a x b c", "y", axis=0)],
        {"a": floats(2, 4), "b": floats(1, 4), "c": -np.zeros((1, 4), np.float32)},
        [3, 4],
    ),
    "concat from the end": (
        [node("Relu", "x", "r"), node("Concat", "x a r", "y", axis=-2)],
        {"a": floats(2, 4)},
        [3, 4],
    ),
    "gather": ([node("Gather", "x i", "y", axis=0)], {"i": integers(2, 0)}, [3, 4]),
    "gather of a place": ([node("Gather", "x i", "y", axis=0)], {"i": np.array(1)}, [3, 4]),
    "gather of a number": ([node("Gather", "x i", "y")], {"i": np.array(-1)}, [5]),
    "reduce all": ([node("ReduceSum", "x", "y", keepdims=0)], {}, [3, 4]),
    "reduce the first axis": ([node("ReduceSum", "x a", "y", keepdims=0)], {"a": integers(0)}, [3, 4]),
    "reduce by attribute": ([node("ReduceMean", "x", "y", axes=[-3, 1])], {}, [2, 3, 4]),
    "reduce a number": ([node("ReduceMean", "x", "y", keepdims=0)], {}, []),
    "arg": ([node("ArgMax", "x", "y", axis=0, keepdims=0)], {}, [5]),
    "split": ([node("Split", "x s", "a"), node("Relu", "a", "y")], {"s": integers(1, 2)}, [3, 4]),
    "tile": ([node("Tile", "x n", "y")], {"n": integers(2, 1)}, [3, 4]),
    "expand": ([node("Expand", "x s", "y")], {"s": integers(2, 3, 4)}, [4]),
    "slice": ([node("Slice", "x a b", "y")], {"a": integers(1, 0), "b": integers(3, 2)}, [3, 4]),
    "slice of the first axis": (
        [node("Slice", "x a b", "y")],
        {"a": integers(0), "b": integers(2)},
        [3, 4],
    ),
    "slice of axes": (
        [node("Slice", "x a b c", "y")],
        {"a": integers(1), "b": integers(3), "c": integers(-2)},
        [3, 4],
    ),
    "pad": ([node("Pad", "x p", "y")], {"p": integers(1, 0, 2, 0)}, [3, 4]),
    "cumulated sum": ([node("CumSum", "x a", "y")], {"a": np.array(0)}, [3, 4]),
    "layer normalization": (
        [node("LayerNormalization", "x s b", "y", axis=0)],
        {"s": floats(3, 4), "b": floats(3, 4)},
        [3, 4],
    ),
    "vector times matrix": ([node("MatMul", "x w", "y")], {"w": floats(4, 3)}, [4]),
    "vector times vector": ([node("MatMul", "x w", "y")], {"w": floats(4)}, [4]),
    "matrix times vector": ([node("Transpose", "x", "t"), node("MatMul", "t w", "y")], {"w": floats(3)}, [3, 4]),
    "constant times matrix": ([node("MatMul", "w x", "y")], {"w": floats(2, 3)}, [3, 4]),
    "constant row times matrix": ([node("MatMul", "w x", "y")], {"w": floats(3)}, [3, 4]),
    "constant times vector": ([node("MatMul", "w x", "y")], {"w": floats(2, 3)}, [3]),
    "gemm of several rows": (
        [node("Transpose", "x", "t"), node("Gemm", "t w b", "y", transA=1, transB=1, alpha=0.5, beta=2.0)],
        {"w": floats(2, 3), "b": floats(2)},
        [4, 3],
    ),
    "gemm of one row": (
        [node("Reshape", "x s", "r"), node("Gemm", "r w b", "y")],
        {"s": integers(1, 12), "w": floats(12, 2), "b": floats(1, 2)},
        [3, 4],
    ),
    "image between reshapes": (
        [node("Reshape", "x s", "r"), node("Conv", "r w", "c"), node("Relu", "c", "d"), node("Add", "d b", "e"),
         node("MaxPool", "e", "m", kernel_shape=[2, 2]), node("Flatten", "m", "y", axis=0)],
        {"s": integers(*IMAGE), "w": floats(3, 2, 1, 1), "b": floats(1, 3, 1, 1)},
        [4, 8],
    ),
    "several images": (
        [node("Conv", "x w", "c"), node("Transpose", "c", "y", perm=[1, 0, 2, 3])],
        {"w": floats(3, 2, 2, 2)},
        [3, 2, 4, 4],
    ),
    "free first axis": ([node("Flatten", "x", "y", axis=0)], {}, ["n", 3, 4]),
}  # fmt: skip


def bytes_of(case: str) -> bytes:
    nodes, constants, shape = CASES[case]
    nodes = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
    if case == "split":
        nodes[0].output.append("b")
        nodes.append(node("Exp", "b", "z"))
    outputs = dict.fromkeys(["y", "z"] if case == "split" else ["y"], 7 if case == "arg" else 1)
    return without_shapes(model(nodes, constants, shape=shape, outputs=outputs))


def without_shapes(onnx_bytes: bytes) -> bytes:
    """The file with the shapes of its outputs that follow."""
    file = onnx.load_model_from_string(onnx_bytes)
    for value in file.graph.output:
        value.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(file)
    return bytes(inferred.SerializeToString())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_network_computes_the_file(tmp_path: Path, case: str) -> None:
    onnx_bytes = bytes_of(case)
    network = graph.load(saved(tmp_path, onnx_bytes))
    sizes = tuple(size if isinstance(size, int) else 1 for size in CASES[case][2])
    assert network.inputs[0].shape == (sizes or (1,))
    assert NOTE in changes.changes_of(network.metadata)[-1]
    file = onnx.load_model_from_string(onnx_bytes)
    value = RANDOM.standard_normal(sizes).astype(np.float32)
    expected = ReferenceEvaluator(file).run(None, {"x": value})
    results = HarnessBackend.run_model(file, [value])
    for result, right in zip(results, map(np.asarray, expected), strict=True):
        assert result.dtype == right.dtype
        np.testing.assert_allclose(result.reshape(right.shape), right, rtol=1e-5, atol=1e-6)


def test_several_inputs_of_other_first_sizes_are_one_vector(tmp_path: Path) -> None:
    file = onnx.load_model_from_string(model([node("Mul", "x a", "y")], {}, shape=[1, 4], outputs={"y": 1}))
    file.graph.input.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [3, 1]))
    network = graph.load(saved(tmp_path, file.SerializeToString()))
    assert [tensor.shape for tensor in network.inputs] == [(1, 4), (3, 1)]
    assert network.layers[-1].output.shape == (3, 4)
    values = floats(1, 4), floats(3, 1)
    [result] = HarnessBackend.run_model(file, values)
    assert np.array_equal(result.reshape(3, 4), values[0] * values[1])


def test_several_vectors_are_several_inputs_of_the_file(tmp_path: Path) -> None:
    network = graph.load(saved(tmp_path, bytes_of("transpose")))
    vectors = RANDOM.standard_normal((3, 24)).astype(np.float32)
    [activations] = [layer.prepare()(vectors) for layer in network.layers]
    assert np.array_equal(activations, vectors.reshape(3, 2, 3, 4).transpose(0, 3, 2, 1).reshape(3, 24))


def test_a_recurrence_is_computed_for_each_place_of_its_own_batch_axis(tmp_path: Path) -> None:
    recurrences = Recurrences(5, 3, 4, np.random.default_rng(3))
    for operator in ("LSTM", "GRU", "RNN"):
        recurrences.add(operator)
    file = recurrences.model()
    file.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    file.graph.node.append(node("Transpose", "layer_0", "y", perm=[1, 0, 2]))
    file.graph.output.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [5, 2, 4]))
    network = graph.load(saved(tmp_path, file.SerializeToString()))
    assert network.inputs[0].shape == (2, 5, 3)
    found = [layer.operator for layer in network.layers]
    assert [found.count(operator) for operator in ("LSTM", "GRU", "RNN")] == [2, 2, 2]


def test_an_import_puts_the_axis_in_front_too(tmp_path: Path) -> None:
    imported = importer.bring_in(saved(tmp_path, bytes_of("several images")))
    assert isinstance(imported, NetworkImport)
    assert imported.network.inputs[0].shape == (3, 2, 4, 4)
    assert imported.notes == (f"{NOTE}: one vector is all of 'x' (3, 2, 4, 4)",)
    assert NOTE in changes.changes_of(imported.network.metadata)[-1]
    again = networks.parse(imported.network.onnx_bytes, "network")
    assert [layer.operator for layer in again.layers].count("Conv") == 3


def test_reshapes_next_to_each_other_are_left_out(tmp_path: Path) -> None:
    network = graph.load(saved(tmp_path, bytes_of("image between reshapes")))
    expected = ["Reshape", "Conv", "Relu", "Add", "MaxPool", "Reshape"]
    assert [layer.operator for layer in network.layers] == expected


def test_a_file_that_is_read_as_it_is_keeps_its_bytes(tmp_path: Path) -> None:
    onnx_bytes = model([node("Exp", "x", "y")], {}, shape=[3, 4])
    network = graph.load(saved(tmp_path, onnx_bytes))
    assert network.onnx_bytes == onnx_bytes


def test_an_operator_without_a_rule_is_refused_by_the_present_reading(tmp_path: Path) -> None:
    nodes = [node("Softmax", "x", "s", axis=0), node("Unique", "s", "y")]
    onnx_bytes = model(nodes, {}, shape=[3, 4], outputs={"y": onnx.TensorProto.INT64})
    file = onnx.load_model_from_string(onnx_bytes)
    with pytest.raises(RequestError, match="no rule puts an axis of vectors in front of operator Unique"):
        axis_rules.require_known(file.graph, "network")
    with pytest.raises(RequestError, match="axis is 0"):
        graph.load(saved(tmp_path, onnx_bytes))


def test_too_many_images_are_refused(tmp_path: Path) -> None:
    nodes, constants, _ = CASES["several images"]
    onnx_bytes = without_shapes(model(nodes, constants, shape=[MOST_COPIES + 1, 2, 4, 4]))
    with pytest.raises(RequestError, match="perm is"):
        graph.load(saved(tmp_path, onnx_bytes))


def test_a_large_tensor_is_refused_before_it_is_computed(tmp_path: Path) -> None:
    nodes = [node("Tile", "x n", "y")]
    onnx_bytes = model(nodes, {"n": integers(1 << 20, 1 << 20)}, shape=["n", 4])
    file = onnx.load_model_from_string(onnx_bytes)
    with pytest.raises(RequestError, match=r"'y' has 4,398,046,511,104 values in one vector"):
        vector_axis.add_axis(file, Stored(file), "network", {"x": (1, 4)})
    with pytest.raises(RequestError, match="repeats is"):
        graph.load(saved(tmp_path, onnx_bytes))


QUANTISED = {
    "a": np.float32(0.05), "z": np.uint8(120), "v": np.int8(0), "b": np.float32(0.01), "y": np.float32(0.07),
    "s": integers(*IMAGE), "w": RANDOM.integers(-127, 128, (3, 2, 1, 1)).astype(np.int8),
}  # fmt: skip
OF_CODES = [
    node("QuantizeLinear", "x a z", "q"), node("Reshape", "q s", "r"), node("QLinearConv", "r a z w b v y z", "c"),
    node("Transpose", "c", "t", perm=[2, 3, 1, 0]), node("DequantizeLinear", "t y z", "o"),
]  # fmt: skip
OF_GROUPS = [
    node("QuantizeLinear", "x a z", "q"), node("DequantizeLinear", "q a z", "d"), node("Reshape", "d s", "r"),
    node("DequantizeLinear", "w b v", "k"), node("Conv", "r k", "c"), node("QuantizeLinear", "c y z", "e"),
    node("DequantizeLinear", "e y z", "f"), node("Transpose", "f", "o", perm=[2, 3, 1, 0]),
]  # fmt: skip


@pytest.mark.parametrize("nodes", [OF_CODES, OF_GROUPS])
def test_a_quantised_network_is_imported(tmp_path: Path, nodes: Sequence[onnx.NodeProto]) -> None:
    onnx_bytes = without_shapes(model(nodes, QUANTISED, shape=[4, 8], outputs={"o": 1}))
    imported = importer.bring_in(saved(tmp_path, onnx_bytes), with_advice=False)
    assert isinstance(imported, NetworkImport)
    assert imported.network.inputs[0].shape == (4, 8)
    found = [layer.operator for layer in imported.network.layers]
    assert found == ["QuantizeLinear", "Reshape", "QLinearConv", "Reshape", "Transpose", "DequantizeLinear"]


def test_a_bias_that_onnx_runtime_would_misread_is_refused_behind_a_reshape(tmp_path: Path) -> None:
    nodes = [onnx.NodeProto.FromString(each.SerializeToString()) for each in OF_GROUPS]
    nodes[4].input.append("n")
    onnx_bytes = without_shapes(model(nodes, QUANTISED | {"n": floats(3)}, shape=[4, 8], outputs={"o": 1}))
    with pytest.raises(RequestError):
        importer.bring_in(saved(tmp_path, onnx_bytes), with_advice=False)


def test_a_network_that_is_refused_for_another_reason_gets_no_axis(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Sqrt", "x", "s"), node("Add", "r s", "y")]
    onnx_bytes = model(nodes, {}, shape=["n", 3])
    file = onnx.load_model_from_string(onnx_bytes)
    with pytest.raises(RequestError, match="the first axis of all activations is that of vectors"):
        vector_axis.add_axis(file, Stored(file), "network", {"x": (1, 3)})
    with pytest.raises(RequestError, match="its result can be NaN"):
        graph.load(saved(tmp_path, onnx_bytes))


def test_a_wrong_rule_is_found_by_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(axis_rules.RULES, ("", "Transpose"), axis_rules.RULES["", "Reshape"])
    with pytest.raises(RequestError, match="perm is"):
        graph.load(saved(tmp_path, bytes_of("transpose")))


OF_VECTORS = {"CellUnion", "CheckPositions", "Delay", "GRUSteps", "HybridSelect", "LSTMSteps", "Position", "RNNSteps"}
"""Operators of domain harness, which are defined for vectors."""


def test_every_operator_has_a_rule() -> None:
    without = set()
    for domain, operator in operators.by_onnx_name():
        try:
            axis_rules.rule_of(onnx.helper.make_node(operator, [], [], domain=domain), "network")
        except RequestError:
            without.add(operator)
    assert without == OF_VECTORS
