"""Changes of a file that the user asks for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.float_network import to_onnx
from harness.model.importer import Changes, FloatImport, NetworkImport
from tests.support.importer.graphs import Array, model, node, run, saved
from tests.support.importer.quantised import draw, named, qdq, qgemm
from tests.unit.model.importer.test_floating import CHAIN, ROWS, behind

FLOAT, FINAL, FIRST = TensorProto.FLOAT, Changes(drop_final=True), Changes(drop_first=True)
F = np.float32
SCALER = helper.make_node(
    "Scaler", ["x"], ["z"], "scaler", "", "ai.onnx.ml", offset=[1.0, -2, 3, 0, 9], scale=[0.3] * 5
)
VECTORS = np.random.default_rng(8).normal(size=(500, 5)).astype(F)


def classifier() -> bytes:
    """A network as scikit-learn's converters write it: label and ZipMap behind Softmax."""
    machine = {"domain": "ai.onnx.ml"}
    nodes = [
        *behind(SCALER),
        node("Softmax", "y", "p", axis=1),
        node("ArgMax", "p", "best", axis=1),
        node("ArrayFeatureExtractor", "classes best", "raw", **machine),
        node("Cast", "raw", "same", to=TensorProto.INT64),
        node("Reshape", "same flat", "label"),
        node("ZipMap", "p", "table", classlabels_int64s=[4, 5, 6], **machine),
    ]
    constants = ROWS | {"classes": np.array([4, 5, 6]), "flat": np.array([-1])}
    probabilities = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 5])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_value_info("table", helper.make_sequence_type_proto(probabilities)),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def floats(folder: Path, onnx_bytes: bytes, asked: Changes) -> FloatImport:
    found = importer.bring_in(saved(folder, onnx_bytes), asked=asked)
    assert isinstance(found, FloatImport)
    return found


def test_a_classifier_becomes_its_scores(tmp_path: Path) -> None:
    found = floats(tmp_path, classifier(), FINAL)
    note = found.notes[-1]
    assert note.startswith(
        "removed at the end: 'node_p' (Softmax), 'node_best' (ArgMax), 'node_raw' (ArrayFeatureExtractor), "
    )
    assert "The output is 'y', and the class is the place of its greatest value: Softmax keeps the order" in note
    assert json.loads(found.network.metadata["source_changes"]) == list(found.notes)
    labels = onnxruntime.InferenceSession(classifier()).run(["label"], {"x": VECTORS})[0]
    scores = run(to_onnx(found.network).SerializeToString(), VECTORS)[0]
    assert (labels == scores.argmax(axis=1) + 4).all()
    assert len(set(labels)) > 1
    with pytest.raises(RequestError, match=r"ArrayFeatureExtractor") as refused:
        importer.bring_in(saved(tmp_path, classifier()))
    assert "this helps: harness models import" in refused.value.hint
    assert "--drop-final" in refused.value.hint


def test_a_quantised_network_loses_softmax_and_its_rounding(tmp_path: Path) -> None:
    nodes = [
        *(node("QuantizeLinear", "x s0 z0", "q0"), *qdq(1), *qdq(2), node("DequantizeLinear", "q2 s2 z2", "d")),
        *(node("Softmax", "d", "p", axis=1), node("QuantizeLinear", "p s0 z0", "q")),
        node("DequantizeLinear", "q s0 z0", "y"),
    ]  # fmt: skip
    constants = named(draw(np.random.default_rng(11), (5, 9, 3)))
    used = {name: value for name, value in constants.items() if any(name in each.input for each in nodes)}
    found = importer.bring_in(saved(tmp_path, model(nodes, used, shape=["n", 5])), asked=FINAL)
    assert isinstance(found, NetworkImport)
    assert [layer.operator for layer in found.network.layers][-1] == "DequantizeLinear"
    before = model(
        nodes[:-3], {name: used[name] for each in nodes[:-3] for name in each.input if name in used}, shape=["n", 5]
    )
    assert run(found.network.onnx_bytes, VECTORS)[0].tobytes() == run(before, VECTORS)[0].tobytes()


def scaled(operator: str, constant: Array) -> bytes:
    return model(behind(node(operator, "x m", "z")), ROWS | {"m": constant}, shape=["n", 5])


@pytest.mark.parametrize(
    ("onnx_bytes", "asked", "message"),
    [
        (model(CHAIN, ROWS, shape=["n", 5]), FINAL, "--drop-final finds no node to remove before 'y'"),
        (model([node("Softmax", "x", "y")], {}, shape=["n", 5]), FINAL, "--drop-final finds no node to remove"),
        (model(CHAIN, ROWS, shape=["n", 5]), FIRST, "--drop-first finds no node to remove behind the input 'x'"),
        (scaled("Mul", F([1, 1, 0, 1, 1])), FIRST, "multiply by 0"),
        (scaled("Add", np.ones((3, 5), F)), FIRST, "has shape (3, 5)"),
    ],
)
def test_changes_of_nothing_are_refused(tmp_path: Path, onnx_bytes: bytes, asked: Changes, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        importer.bring_in(saved(tmp_path, onnx_bytes), asked=asked)
    assert message in refused.value.message


LEADING: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "Scaler": ([SCALER], {}),
    "Sub, Div": ([node("Sub", "x m", "c"), node("Div", "c r", "z")], {"m": F([1, -2, 3, 0, 9]), "r": F(0.3)}),
    "Mul, Add": ([node("Mul", "x r", "c"), node("Add", "m c", "z")], {"m": F([1, -2, 3, 0, 9]), "r": F(0.3)}),
    "c - x": ([node("Sub", "m x", "z")], {"m": F([1, -2, 3, 0, 9])}),
}


@pytest.mark.parametrize("case", LEADING)
def test_leading_arithmetic_becomes_the_description_of_the_input(tmp_path: Path, case: str) -> None:
    first, more = LEADING[case]
    constants = named(draw(np.random.default_rng(11), (5, 9))) | more
    nodes = [*first, node("QuantizeLinear", "z s0 z0", "q0"), *qgemm(1)]
    used = {name: value for name, value in constants.items() if any(name in each.input for each in nodes)}
    box = {"input_box_low": "[-1, -2, -3, -4, -5]", "input_box_high": "[1, 2, 3, 4, 6]"}
    made = model(nodes, used, shape=["n", 5], outputs={"q1": TensorProto.UINT8}, metadata=box)
    proto = onnx.load_model_from_string(made)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    onnx_bytes = proto.SerializeToString()
    found = importer.bring_in(saved(tmp_path, onnx_bytes), asked=FIRST)
    assert isinstance(found, NetworkImport)
    network = found.network
    assert [layer.operator for layer in network.layers] == ["QuantizeLinear", "QGemm"]
    normalised = onnxruntime.InferenceSession(_with_output(onnx_bytes, "z")).run(["z"], {"x": VECTORS})[0]
    assert run(network.onnx_bytes, normalised)[0].tobytes() == run(onnx_bytes, VECTORS)[0].tobytes()
    assert network.normalisation is not None
    mean, span = np.array(network.normalisation.mean), np.array(network.normalisation.range)
    assert np.allclose((VECTORS - mean) / span, normalised, rtol=1e-5, atol=1e-5)
    ends = (np.array([[-1, -2, -3, -4, -5], [1, 2, 3, 4, 6]]) - mean) / span
    assert np.allclose(network.box, np.sort(ends, axis=0), rtol=1e-6)
    note = found.notes[-1]
    bound, difference = (float(note.split(text)[1].split()[0].strip(";")) for text in ("by at most ", "found: "))
    assert 0 <= difference <= bound < 1e-4


def _with_output(onnx_bytes: bytes, name: str) -> bytes:
    made = onnx.load_model_from_string(onnx_bytes)
    made.graph.output.append(helper.make_tensor_value_info(name, FLOAT, None))
    return bytes(made.SerializeToString())


def test_a_scaler_stays_as_sub_and_mul(tmp_path: Path) -> None:
    found = floats(tmp_path, classifier(), FINAL)
    assert [name.rpartition("/")[2].partition("_")[0] for name in found.folded] == ["Sub", "Mul"]
    both = floats(tmp_path, classifier(), Changes(drop_final=True, drop_first=True))
    assert both.folded == ()
    assert both.network.normalisation is not None
    assert both.network.normalisation.mean == (1, -2, 3, 0, 9)
    assert len(both.notes) == len(json.loads(both.network.metadata["source_changes"])) == 3


def test_a_split_of_onnx_runtime_is_slices(tmp_path: Path) -> None:
    """Two QDQ branches whose inputs have one scale: ONNX Runtime makes one Split of the two Slices."""
    constants = named(draw(np.random.default_rng(11), (4, 5, 3)))
    nodes = [
        *(node("Slice", f"x {name}", name[0]) for name in ("a0 a1 one", "b0 b1 one")),
        *(node("QuantizeLinear", f"{name} s0 z0", f"q{name}") for name in "ab"),
        *(node("DequantizeLinear", f"q{name} s0 z0", f"d{name}") for name in "ab"),
        *(node("Add", "da db", "s"), node("QuantizeLinear", "s s1 z1", "y")),
    ]
    constants |= {name: np.array([at]) for name, at in {"a0": 0, "a1": 4, "b0": 4, "b1": 8, "one": 1}.items()}
    used = {name: value for name, value in constants.items() if any(name in each.input for each in nodes)}
    onnx_bytes = model(nodes, used, shape=["n", 8], outputs={"y": TensorProto.UINT8})
    found = importer.bring_in(saved(tmp_path, onnx_bytes))
    assert isinstance(found, NetworkImport)
    operators = [layer.operator for layer in found.network.layers]
    assert sorted(operators) == ["QLinearAdd", "QuantizeLinear", "Slice", "Slice"]
    vectors = np.random.default_rng(2).normal(size=(100, 8)).astype(F)
    theirs = onnxruntime.InferenceSession(onnx_bytes).run(None, {"x": vectors})[0]
    assert theirs.tobytes() == run(found.network.onnx_bytes, vectors)[0].tobytes()
