"""Operators whose functions take their place at import: the values of ONNX Runtime, or of NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from harness.core.errors import RequestError
from harness.model import load
from harness.model.importer.changes import changes_of
from harness.reference.specification import SpecificationReference
from harness.targets import supports
from tests.support.importer.graphs import Array, saved

F = np.float32
RANDOM = np.random.default_rng(5)
ROWS = RANDOM.normal(size=(2, 4, 6)).astype(F)
WEIGHTS = {name: RANDOM.normal(size=6).astype(F) for name in ("gamma", "beta", "bias")}
MICROSOFT: dict[str, tuple[str, str, dict[str, float]]] = {
    "Gelu": ("x", "y", {}),
    "BiasGelu": ("x bias", "y", {}),
    "FastGelu": ("x", "y", {}),
    "FastGelu with a bias": ("x bias", "y", {}),
    "QuickGelu": ("x", "y", {"alpha": 1.5}),
    "QuickGelu without attributes": ("x", "y", {}),
    "SkipLayerNormalization": ("x x2 gamma beta bias", "y", {"epsilon": 1e-3}),
    "SkipLayerNormalization without bias": ("x x2 gamma", "y", {"epsilon": 1e-3}),
    "SkipLayerNormalization with its sum": ("x x2 gamma beta bias", "y   s", {"epsilon": 1e-3}),
    "SkipSimplifiedLayerNormalization": ("x x2 gamma", "y", {"epsilon": 1e-3}),
}
"""The inputs, the outputs and the attributes of a node of com.microsoft; x2 is a second activation."""


def model_of(
    operator: str, inputs: str, outputs: str, attributes: dict[str, float], dtype: int = TensorProto.FLOAT,
    *, domain: str = "", opset: int = 23,
) -> onnx.ModelProto:  # fmt: skip
    """A model of one node; inputs that begin with x are of shape (2, 4, 6), the others are `WEIGHTS`."""
    names = inputs.split(" ")
    nodes = [helper.make_node(operator, names, outputs.split(" "), domain=domain, **attributes)]
    values = [helper.make_tensor_value_info(name, dtype, ROWS.shape) for name in names if name.startswith("x")]
    shapes = {"m": [2, 4, 1], "i": [2, 4, 1]}
    results = [helper.make_tensor_value_info(name, dtype, shapes.get(name, ROWS.shape))
               for name in outputs.split()]  # fmt: skip
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in WEIGHTS.items() if name in names]
    graph = helper.make_graph(nodes, "graph", values, results, constants)
    versions = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def outputs_of(path: Path, inputs: dict[str, Array]) -> list[Array]:
    """The outputs of the specification of an imported file."""
    network = load(path)
    rows = {tensor.name: inputs[tensor.name].reshape(-1, tensor.size) for tensor in network.inputs}
    activations = SpecificationReference(network).activations(network.vectors(rows))
    results = {layer.output.name: values for layer, values in zip(network.layers, activations, strict=True)}
    return [results[value.name] for value in onnx.load_model_from_string(network.onnx_bytes).graph.output]


@pytest.mark.parametrize("case", MICROSOFT)
def test_operators_of_onnx_runtime_have_its_values(tmp_path: Path, case: str) -> None:
    inputs, outputs, attributes = MICROSOFT[case]
    model = model_of(case.split(maxsplit=1)[0], inputs, outputs, attributes, domain="com.microsoft")
    feed = {name: ROWS[:: 1 if name == "x" else -1] for name in inputs.split() if name.startswith("x")}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    for result, value in zip(outputs_of(saved(tmp_path, model.SerializeToString()), feed), expected, strict=True):
        np.testing.assert_allclose(result.reshape(value.shape), value, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "attributes"),
    [
        ("Attention", "x x2 x3", "y", {"q_num_heads": 2, "kv_num_heads": 2}),
        ("Attention", "x x2 x3", "y", {"q_num_heads": 2, "kv_num_heads": 2, "is_causal": 1}),
        ("RMSNormalization", "x gamma", "y", {"axis": -1}),
        ("LayerNormalization", "x gamma beta", "y m i", {"axis": -1}),
        ("Swish", "x", "y", {"alpha": 1.5}),
    ],
)
def test_operators_of_onnx_have_the_values_of_onnx_runtime(
    tmp_path: Path, operator: str, inputs: str, outputs: str, attributes: dict[str, float]
) -> None:
    model = model_of(operator, inputs, outputs, attributes, opset=24)
    path = saved(tmp_path, model.SerializeToString())
    feed = {name: np.roll(ROWS, len(name)) for name in inputs.split() if name.startswith("x")}
    assert changes_of(load(path).metadata)[0] == f"the functions of '{operator}' are in their place"
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feed)
    for result, value in zip(outputs_of(path, feed), expected, strict=True):
        np.testing.assert_allclose(result.reshape(value.shape), value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_shifts_of_signed_integers(tmp_path: Path, direction: str, dtype: str) -> None:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = model_of("BitShift", "x x2", "y", {"direction": direction}, number, opset=28)  # type: ignore[dict-item]
    limits, bits = np.iinfo(dtype), np.iinfo(dtype).bits
    values = RANDOM.integers(limits.min, limits.max, ROWS.shape, dtype, endpoint=True)
    counts = RANDOM.integers(-2, bits + 2, ROWS.shape, dtype)
    is_within = (counts >= 0) & (counts < bits)
    shifted = (np.left_shift if direction == "LEFT" else np.right_shift)(values, np.where(is_within, counts, 0))
    beyond = -(values < 0).astype(dtype) if direction == "RIGHT" else np.zeros_like(values)
    [result] = outputs_of(saved(tmp_path, model.SerializeToString()), {"x": values, "x2": counts})
    assert np.array_equal(result.reshape(ROWS.shape), np.where(is_within, shifted, beyond))


def test_a_function_that_means_something_else_in_the_opset_of_the_model_is_refused(tmp_path: Path) -> None:
    model = model_of("ReduceLogSum", "x", "y", {}, opset=13)
    with pytest.raises(RequestError, match=r"ReduceLogSum.*no function can take its place"):
        load(saved(tmp_path, model.SerializeToString()))


def test_an_infinite_mask_is_added_on_all_targets(tmp_path: Path) -> None:
    mask = np.where(np.tri(4, 6) > 0, 0, -np.inf).astype(F)
    values = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 6])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, 6])
    nodes = [helper.make_node("Add", ["x", "mask"], ["y"])]
    graph = helper.make_graph(nodes, "graph", [values], [result], [onnx.numpy_helper.from_array(mask, "mask")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = saved(tmp_path, model.SerializeToString())
    [outputs] = outputs_of(path, {"x": ROWS})
    assert np.array_equal(outputs.reshape(ROWS.shape), ROWS + mask)
    [layer] = load(path).layers
    assert [supports(name, layer) for name in ("c:generic", "iree:static", "cuda:layerwise")] == [True, True, True]
