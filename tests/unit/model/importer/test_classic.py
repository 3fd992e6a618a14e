"""Operators of ai.onnx.ml as those of ONNX's own domain, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness.backend
from harness.core.errors import RequestError
from harness.model.importer import trees
from harness.model.importer.simplify import simplify
from tests.support.trees import RandomTrees

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
FEATURES = 5
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def model(
    operator: str, outputs: Sequence[tuple[int, Sequence[Any]]], *, kind: int = FLOAT, places: Any = None, **given: Any
) -> onnx.ModelProto:
    """Return a model of one node, with the types and shapes of its outputs."""
    names = [f"y{number}" for number in range(len(outputs))]
    tensors = [] if places is None else [numpy_helper.from_array(np.array(places), "places")]
    node = helper.make_node(operator, ["x", *(tensor.name for tensor in tensors)], names, "node", "",  "ai.onnx.ml",
                            **given)  # fmt: skip
    graph = helper.make_graph(
        [node], "classic", [helper.make_tensor_value_info("x", kind, ["n", FEATURES])],
        [helper.make_tensor_value_info(name, *output) for name, output in zip(names, outputs, strict=True)], tensors,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def ensemble(kind: str, targets: int, count: int, *, modes: Sequence[str] = MODES[:1], **given: Any) -> onnx.ModelProto:
    """Return a model of some trees of depth 4."""
    random = RandomTrees({"Regressor": "target", "Classifier": "class"}[kind], targets, FEATURES,
                         np.random.default_rng(count), modes)  # fmt: skip
    for tree in range(count):
        random.add(tree, 4)
    if kind == "Regressor":
        return model("TreeEnsembleRegressor", [(FLOAT, ["n", targets])], n_targets=targets, **random.attributes(),
                     **given)  # fmt: skip
    labels = [3 + 2 * number for number in range(targets)]
    return model("TreeEnsembleClassifier", [(INT64, ["n"]), (FLOAT, ["n", targets])], classlabels_int64s=labels,
                 **random.attributes(), **given)  # fmt: skip


def linear(rows: int) -> dict[str, list[float]]:
    random = np.random.default_rng(rows)
    return {
        "coefficients": random.normal(size=rows * FEATURES).tolist(),
        "intercepts": random.normal(size=rows).tolist(),
    }


SCORES = [(INT64, ["n"]), (FLOAT, ["n", 3])]
ALIKE = [(FLOAT, ["n", FEATURES])]
MODELS = {
    "scaler": lambda: model("Scaler", ALIKE, offset=[0.5, 1, 2, 3, 4], scale=[2.0, 1, 3, 0.5, 1]),
    "binarizer": lambda: model("Binarizer", ALIKE, threshold=0.25),
    "features": lambda: model("ArrayFeatureExtractor", [(FLOAT, ["n", 3])], places=[4, 0, 0]),
    "normalizer L1": lambda: model("Normalizer", ALIKE, norm="L1"),
    "normalizer L2": lambda: model("Normalizer", ALIKE, norm="L2"),
    "labels of integers": lambda: model(
        "LabelEncoder", [(FLOAT, ["n", FEATURES])], kind=INT64, keys_int64s=[0, 1, 2], values_floats=[0.5, -1.0, 7.0],
        default_float=9.0,
    ),
    "labels of floats": lambda: model(
        "LabelEncoder", [(INT64, ["n", FEATURES])], keys_floats=[0.0, 1.0], values_int64s=[5, 6]
    ),
    "linear regressor": lambda: model("LinearRegressor", [(FLOAT, ["n", 2])], targets=2, **linear(2)),
    "linear classifier": lambda: model("LinearClassifier", SCORES, classlabels_ints=[4, 7, 9], post_transform="SOFTMAX",
                                       **linear(3)),
    "a tree": lambda: ensemble("Regressor", 1, 1),
    "trees of two targets": lambda: ensemble("Regressor", 2, 7, aggregate_function="AVERAGE", base_values=[0.5, 2.0]),
    "trees of all modes": lambda: ensemble("Regressor", 2, 9, modes=MODES),
    "a forest": lambda: ensemble("Classifier", 3, 12),
    "a forest with a transformation": lambda: ensemble("Classifier", 4, 3, post_transform="SOFTMAX"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_onnx_runtime(name: str) -> None:
    network = MODELS[name]()
    session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(5)
    vectors = random.normal(size=(64, FEATURES)) if "labels" not in name else random.integers(-1, 4, (64, FEATURES))
    x = vectors.astype(np.int64 if session.get_inputs()[0].type == "tensor(int64)" else np.float32)
    for ours, theirs in zip(harness.backend.prepare(network).run([x]), session.run(None, {"x": x}), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=1e-6, atol=1e-6)


def test_nan_takes_the_branch_that_the_node_states() -> None:
    random = RandomTrees("target", 1, FEATURES, np.random.default_rng(1), MODES[:4])
    random.add(0, 4)
    tracks = [number % 2 for number in range(len(random.nodes["treeids"]))]
    network = model("TreeEnsembleRegressor", [(FLOAT, ["n", 1])], n_targets=1, nodes_missing_value_tracks_true=tracks,
                    **random.attributes())  # fmt: skip
    x = np.random.default_rng(2).normal(size=(64, FEATURES)).astype(np.float32)
    x[::2, ::2] = np.nan
    before = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = before.run(None, {"x": x})
    after = onnxruntime.InferenceSession(
        simplify(network, "trees").model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    np.testing.assert_array_equal(after.run(None, {"x": x})[0], expected[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ensemble("Regressor", 1, 2, aggregate_function="MIN"), "aggregate_function is MIN"),
        (lambda: ensemble("Regressor", 1, 2, post_transform="PROBIT"), "post_transform is PROBIT"),
        (lambda: ensemble("Classifier", 2, 3), "has two labels"),
        (lambda: model("Normalizer", ALIKE, norm="MAX"), "norm is MAX"),
    ],
)
def test_other_forms_are_refused_by_name(build: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        simplify(build(), "classic")


def test_deep_trees_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "DEEPEST", 2)
    with pytest.raises(RequestError, match="deeper than 2"):
        simplify(ensemble("Regressor", 1, 2), "trees")


def test_a_key_that_is_no_number_stays_as_it_is() -> None:
    """Equal is false for NaN."""
    labels = model("LabelEncoder", [(INT64, ["n", FEATURES])], keys_floats=[np.nan, 1.0], values_int64s=[5, 6])
    assert [node.op_type for node in simplify(labels, "labels").model.graph.node] == ["LabelEncoder"]
