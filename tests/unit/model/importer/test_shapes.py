"""Shapes that a file computes, as PyTorch and TensorFlow export `flatten` and `view`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.importer import FloatImport, NetworkImport, graph
from tests.support.codes import require_exact_products
from tests.support.importer.graphs import Array, model, node, refusal, saved

F = np.float32
RANDOM = np.random.default_rng(5)
WEIGHTS = {"w": RANDOM.normal(size=(12, 4)).astype(F)}
INDICES = {
    "first": np.array(0),
    "second": np.array(1),
    "third": np.array(2),
    "zero": np.array([0]),
    "one": np.array([1]),
}
INDICES |= {"rest": np.array([-1]), "rest32": np.array([-1], np.int32), "two": np.array([2])}
Nodes = list[onnx.NodeProto]


def axis(source: str, output: str, opset: int) -> onnx.NodeProto:
    """A number as a list of one."""
    return node("Unsqueeze", f"{source} zero", output) if opset >= 13 else node("Unsqueeze", source, output, axes=[0])


def size(index: str, opset: int) -> Nodes:
    """`x.size(index)`, as a list."""
    return [
        node("Shape", "x", f"shape_{index}"),
        node("Gather", f"shape_{index} {index}", f"at_{index}"),
        axis(f"at_{index}", f"size_{index}", opset),
    ]


def view(opset: int) -> Nodes:
    return [*size("first", opset), node("Concat", "size_first rest", "to", axis=0)]


def view_of_products(opset: int) -> Nodes:
    return [
        *(*size("second", opset), *size("third", opset), node("Mul", "size_second size_third", "product")),
        node("Concat", "rest product", "to", axis=0),
    ]


def tensorflow(opset: int) -> Nodes:
    bounds = {"starts": [0], "ends": [1], "axes": [0]}
    return [
        *(node("Shape", "x", "dims"), node("Cast", "dims", "s32", to=TensorProto.INT32)),
        node("Slice", "s32 zero one zero", "n") if opset >= 10 else node("Slice", "s32", "n", **bounds),
        *(node("Concat", "n rest32", "to32", axis=0), node("Cast", "to32", "to", to=TensorProto.INT64)),
    ]


def part(_opset: int) -> Nodes:
    return [node("Shape", "x", "n", start=0, end=1), node("Concat", "n rest", "to", axis=0)]


FORMS: dict[str, tuple[Callable[[int], Nodes], list[int]]] = {
    "view": (view, list(range(7, 27))),
    "view of a product": (view_of_products, [7, 13, 26]),
    "TensorFlow": (tensorflow, [7, 10, 17, 26]),
    "part of a shape": (part, [15, 26]),
}
CASES = [(form, opset) for form, (_, opsets) in FORMS.items() for opset in opsets]


def made(nodes: Nodes, constants: dict[str, Array], opset: int, batch: int | str, output: int) -> bytes:
    used = {name: value for name, value in (INDICES | constants).items() if any(name in each.input for each in nodes)}
    proto = onnx.load_model_from_string(
        model(nodes, used, shape=[batch, 3, 4], outputs={nodes[-1].output[0]: output}, opset=opset)
    )
    proto.ir_version = 13
    return bytes(proto.SerializeToString())


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize(("form", "opset"), CASES)
def test_a_float_network_with_a_computed_shape(tmp_path: Path, form: str, opset: int, batch: int | str) -> None:
    nodes = [*FORMS[form][0](opset), node("Reshape", "x to", "z"), node("MatMul", "z w", "y")]
    found = importer.bring_in(saved(tmp_path, made(nodes, WEIGHTS, opset, batch, TensorProto.FLOAT)))
    assert isinstance(found, FloatImport)
    assert [layer.weight.tolist() for layer in found.network.layers] == [WEIGHTS["w"].tolist()]


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize(("form", "opset"), [case for case in CASES if case[1] in (10, 17, 26)])
def test_a_quantised_network_with_a_computed_shape(tmp_path: Path, form: str, opset: int, batch: int | str) -> None:
    """A convolution, then a shape that its output determines."""
    if opset == 26:
        require_exact_products()
    constants: dict[str, Array] = {"s": F(0.01), "z": np.uint8(128), "ws": F(0.005), "wz": np.int8(0)}
    constants |= {"k": RANDOM.integers(-99, 99, (2, 3, 2)).astype(np.int8)[:, :, :1]}
    constants |= {"w8": RANDOM.integers(-99, 99, (8, 3)).astype(np.int8)}
    reshape = FORMS[form][0](opset)
    for each in reshape:
        each.input[:] = ["d" if name == "x" else name for name in each.input]
    nodes = [
        *(node("QuantizeLinear", "x s z", "q"), node("QLinearConv", "q s z k ws wz s z", "c")),
        *(node("DequantizeLinear", "c s z", "d"), *reshape, node("Reshape", "d to", "f")),
        *(node("QuantizeLinear", "f s z", "fq"), node("QLinearMatMul", "fq s z w8 ws wz s z", "y")),
    ]
    onnx_bytes = made(nodes, constants, opset, batch, TensorProto.UINT8)
    found = importer.bring_in(saved(tmp_path, onnx_bytes))
    assert isinstance(found, NetworkImport)
    assert not {"Shape", "Gather"} & {layer.operator for layer in found.network.layers}
    vectors = np.random.default_rng(1).normal(size=(50, 3, 4)).astype(F)
    session = onnxruntime.InferenceSession(onnx_bytes)
    theirs = np.concatenate([session.run(None, {"x": vector[None]})[0] for vector in vectors])
    ours = onnxruntime.InferenceSession(found.network.onnx_bytes).run(None, {"x": vectors})[0]
    assert theirs.tobytes() == ours.tobytes()
    assert len(np.unique(ours)) > 9


def test_a_size_that_follows_from_the_weights_need_not_be_stated(tmp_path: Path) -> None:
    tail = [*view(17), node("Reshape", "x to", "z"), node("MatMul", "z w", "y")]
    unknown = onnx.load_model_from_string(made(tail, WEIGHTS, 17, 1, TensorProto.FLOAT))
    unknown.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "m"
    found = importer.bring_in(saved(tmp_path, unknown.SerializeToString()))
    assert isinstance(found, FloatImport)
    assert len(found.network.layers[0].weight) == 12


def test_wrong_shapes_behind_computed_ones_are_refused_with_the_node(tmp_path: Path) -> None:
    tail = [*view(17), node("Reshape", "x to", "z"), node("MatMul", "z w", "y")]
    wrong = onnx.load_model_from_string(made(tail, WEIGHTS, 17, 1, TensorProto.FLOAT))
    wrong.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    message, _ = refusal(tmp_path, wrong.SerializeToString())
    assert message.startswith("model 'network': node 'node_y': size 0 is 12 and 20")


def test_shapes_that_do_not_follow_from_the_input_are_refused(tmp_path: Path) -> None:
    tail = [*view(17), node("Reshape", "x to", "z"), node("Relu", "z", "y")]
    unknown = onnx.load_model_from_string(made(tail, {}, 17, 1, TensorProto.FLOAT))
    unknown.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "m"
    with pytest.raises(RequestError) as refused:
        importer.bring_in(saved(tmp_path, unknown.SerializeToString()), with_advice=False)
    assert "'x' has shape" in refused.value.message


def test_constants_that_are_computed_from_constants(tmp_path: Path) -> None:
    nodes = [
        *(
            node("Shape", "w", "s"),
            node("Gather", "s first", "twelve"),
            helper.make_node("Cast", ["twelve"], ["f"], to=1),
        ),
        *(node("Div", "w f", "v"), node("Flatten", "x", "z"), node("MatMul", "z v", "y")),
    ]
    found = importer.bring_in(saved(tmp_path, made(nodes, WEIGHTS, 17, "n", TensorProto.FLOAT)))
    assert isinstance(found, FloatImport)
    assert found.network.layers[0].weight.tobytes() == (WEIGHTS["w"] / F(12)).tobytes()


def test_a_constant_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "LARGEST", 1 << 20)
    doubled = [node("Concat", f"c{number} c{number}", f"c{number + 1}", axis=0) for number in range(40)]
    nodes = [*doubled, node("Gather", "c40 second", "g"), node("Flatten", "x", "z"), node("Add", "z g", "y")]
    onnx_bytes = made(nodes, {"c0": np.zeros(1 << 16, F)}, 17, "n", TensorProto.FLOAT)
    message, _ = refusal(tmp_path, onnx_bytes)
    assert "(Concat): computes a constant of 67,108,864 bytes" in message


def test_a_network_of_constants_only_is_refused(tmp_path: Path) -> None:
    onnx_bytes = made([node("Flatten", "w", "y")], WEIGHTS, 17, "n", TensorProto.FLOAT)
    assert "has no layer that computes" in refusal(tmp_path, onnx_bytes)[0]
