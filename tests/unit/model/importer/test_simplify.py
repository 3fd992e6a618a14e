"""Files in the forms of other tools: what is rewritten, and that the outputs stay those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from harness.analysis.folded import verify
from harness.core.errors import RequestError
from harness.model import importer, load
from harness.model.analysis.folding import fold
from harness.model.analysis.propagation import propagate
from harness.model.importer import Changes, NetworkImport
from harness.model.importer.changes import changes_of
from harness.model.importer.simplify import simplify
from harness.model.onnx_runtime.agreement import require_same
from harness.model.onnx_runtime.sessions import Stored
from harness.model.quantizer import with_data
from tests.support.importer.graphs import Array, model, node, saved

F = np.float32
RANDOM = np.random.default_rng(3)
IMAGE = {
    "k": RANDOM.normal(size=(2, 1, 3, 3)).astype(F), "b": RANDOM.normal(size=(2, 1, 1)).astype(F),
    "w": RANDOM.normal(size=(2, 2, 2, 3)).astype(F), "flat": np.array([1, 8]), "matrix": np.array([8, 3]),
}  # fmt: skip
CONVOLUTION = [
    node("Reshape", "w matrix", "v"), node("Conv", "x k", "c", kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    node("Add", "c b", "s"), node("Relu", "s", "r"), node("MaxPool", "r", "m", kernel_shape=[2, 2], strides=[2, 2]),
    node("Reshape", "m flat", "f"), node("MatMul", "f v", "y"),
]  # fmt: skip


def mnist(opset: int = 8, batch: int = 1) -> bytes:
    """A network of the form of MNIST-8: old opset, initializers as inputs, weights that a Reshape makes a matrix."""
    constants = IMAGE | {"flat": np.array([batch, 8])}
    return model(CONVOLUTION, constants, shape=[batch, 1, 4, 4], opset=opset, listed=True)


def outputs(onnx_bytes: bytes, vectors: Array, at_once: int) -> Array:
    """The outputs of ONNX Runtime for so many vectors at once."""
    session = onnxruntime.InferenceSession(onnx_bytes)
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: part})[0] for part in np.split(vectors, len(vectors) // at_once)])


@pytest.mark.parametrize(("opset", "batch"), [(8, 1), (9, 4), (17, 1), (17, 4)])
def test_a_network_of_the_form_of_mnist_is_imported_and_runs_as_it_is(tmp_path: Path, opset: int, batch: int) -> None:
    onnx_bytes = mnist(opset, batch)
    path = saved(tmp_path, onnx_bytes)
    found = importer.bring_in(path)
    assert isinstance(found, NetworkImport)
    assert [layer.operator for layer in found.network.layers][-1] == "MatMul"
    assert "5 initializers that were also inputs are constants now" in found.notes
    assert (f"converted from opset {opset} to 13 by onnx.version_converter" in found.notes) == (opset < 13)
    network = load(path)
    assert changes_of(network.metadata) == list(found.notes)
    vectors = RANDOM.normal(size=(8, 1, 4, 4)).astype(F)
    theirs = outputs(onnx_bytes, vectors, batch)
    for ours in (found.network, network):
        assert ours.vector.shape == (1, 4, 4)
        np.testing.assert_allclose(outputs(ours.onnx_bytes, vectors, 8), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (1 << 14, 1)])
def test_slopes_before_opset_7_are_those_of_channels(tmp_path: Path, shape: tuple[int, int]) -> None:
    """ONNX Runtime does not run opset 6; the last axis fits the slopes, too, or they have more than 64 KiB."""
    slopes = np.linspace(0.25, 4, shape[0], dtype=F)
    onnx_bytes = model([node("PRelu", "x s", "y")], {"s": slopes}, shape=["n", *shape], opset=6)
    network = load(saved(tmp_path, onnx_bytes))
    assert "ONNX Runtime does not run the file" in changes_of(network.metadata)[0]
    assert (outputs(network.onnx_bytes, -np.ones((2, *shape), F), 2) == -slopes[:, None]).all()


@pytest.mark.parametrize(
    ("operator", "opset", "stated", "missing"),
    [
        ("Dropout", 6, {"is_test": 1}, "is_test"),
        ("BatchNormalization", 6, {"is_test": 1}, "is_test"),
        ("Selu", 5, {"alpha": 1.5, "gamma": 1.25}, "alpha"),
    ],
)
def test_defaults_that_changed_must_be_stated(
    tmp_path: Path, operator: str, opset: int, stated: dict[str, float], missing: str
) -> None:
    constants = {name: np.ones(3, F) for name in "abcd"} if operator == "BatchNormalization" else {}

    def file(**attributes: float) -> Path:
        nodes = [node(operator, " ".join(["x", *constants]), "z", **attributes), node("Neg", "z", "y")]
        return saved(tmp_path, model(nodes, constants, shape=["n", 3], opset=opset))

    assert load(file(**stated)).layers[-1].operator == "Neg"
    with pytest.raises(RequestError, match=rf"\({operator}\): it has no {missing}, whose default in opset {opset}"):
        load(file())


def test_slopes_before_opset_7_that_are_an_input_are_refused(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "s"), node("PRelu", "x s", "y")]
    with pytest.raises(RequestError, match=r"\(PRelu\): its slope is not constant"):
        load(saved(tmp_path, model(nodes, {}, shape=["n", 3, 3], opset=6)))


def branches(condition: Sequence[onnx.NodeProto], constants: dict[str, Array]) -> bytes:
    """Relu, or Tanh of Relu, of a product: both branches name their tensors alike."""
    kind = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
    then = helper.make_graph([node("Relu", "p", "inner")], "then", [], [kind])
    other = helper.make_graph([node("Relu", "p", "t"), node("Tanh", "t", "inner")], "else", [], [kind])
    nodes = [node("MatMul", "x w", "p"), *condition, node("If", "c", "y", then_branch=then, else_branch=other)]
    return model(nodes, {"w": np.eye(3, dtype=F), **constants}, shape=["n", 3])


@pytest.mark.parametrize(("size", "operators"), [(3, ["MatMul", "Relu"]), (4, ["MatMul", "Relu", "Tanh"])])
def test_the_branch_of_a_constant_condition_is_taken(tmp_path: Path, size: int, operators: list[str]) -> None:
    condition = [node("Shape", "x", "s"), node("Gather", "s one", "g"), node("Equal", "g size", "c")]
    onnx_bytes = branches(condition, {"one": np.array(1), "size": np.array(size)})
    network = load(saved(tmp_path, onnx_bytes))
    assert [layer.operator for layer in network.layers if layer.operator != "Identity"] == operators
    vectors = RANDOM.normal(size=(4, 3)).astype(F)
    assert (outputs(network.onnx_bytes, vectors, 4) == outputs(onnx_bytes, vectors, 4)).all()


def test_a_condition_that_is_data_is_refused(tmp_path: Path) -> None:
    condition = [node("ReduceMax", "p", "m", keepdims=0), node("Cast", "m", "c", to=TensorProto.BOOL)]
    with pytest.raises(RequestError, match=r"node 'node_y' \(If\): operator If has a condition that depends on the"):
        importer.bring_in(saved(tmp_path, branches(condition, {})), with_advice=False)


@pytest.mark.parametrize(("wide", "is_removed"), [(TensorProto.DOUBLE, True), (TensorProto.FLOAT16, False)])
def test_casts_to_a_wider_type_and_back_are_removed(wide: int, is_removed: bool) -> None:
    nodes = [node("Cast", "x", "d", to=wide), node("Cast", "d", "f", to=TensorProto.FLOAT), node("Sigmoid", "f", "y")]
    changed = simplify(onnx.load_model_from_string(model(nodes, {}, shape=["n", 3])), "net")
    assert [each.op_type for each in changed.model.graph.node] == ["Cast", "Cast", "Sigmoid"][2 * is_removed :]
    changed.check()


def test_a_first_axis_that_is_no_batch_stays() -> None:
    """W @ x of one column: its rows are the inputs of one vector."""
    given = onnx.load_model_from_string(model([node("MatMul", "w x", "y")], {"w": np.ones((2, 5), F)}, shape=[5, 1]))
    changed = simplify(given, "net")
    assert changed.notes == ()
    assert changed.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 5
    mean = onnx.load_model_from_string(model([node("ReduceMean", "x", "y", axes=[0])], {}, shape=[4, 3]))
    assert simplify(mean, "net").notes == ()


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    made = onnx.load_model_from_string(model([node("MatMul", "x w", "p")], {"w": np.eye(3, dtype=F)}, shape=["n", 3]))
    body = [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Tanh", ["s"], ["b"])]
    made.functions.append(helper.make_function("local", "Gate", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    made.opset_import.append(helper.make_opsetid("local", 1))
    made.graph.node.append(helper.make_node("Gate", ["p"], ["y"], domain="local"))
    made.graph.output[0].name = "y"
    network = load(saved(tmp_path, made.SerializeToString()))
    assert [layer.operator for layer in network.layers] == ["MatMul", "Sigmoid", "Tanh"]


def test_inlined_functions_have_the_defaults_of_their_attributes(tmp_path: Path) -> None:
    outer = onnx.load_model_from_string(model([node("MatMul", "x w", "p")], {"w": np.eye(3, dtype=F)}, shape=["n", 3]))
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    inner = helper.make_node("Inner", ["a"], ["b"], domain="local")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    slope = [helper.make_attribute("slope", 0.25)]
    for name, body, defaults in (("Inner", leaky, slope), ("Outer", inner, [])):
        function = helper.make_function("local", name, ["a"], ["b"], [body], opsets, attribute_protos=defaults)
        outer.functions.append(function)
    outer.opset_import.append(opsets[1])
    outer.graph.node.append(helper.make_node("Outer", ["p"], ["y"], domain="local"))
    outer.graph.output[0].name = "y"
    outer.ir_version = 9
    layers = load(saved(tmp_path, outer.SerializeToString())).layers
    assert layers[1].text.facts()["alpha"] == F(0.25)


def test_another_value_of_a_rewritten_file_is_refused() -> None:
    before, after = (
        onnx.load_model_from_string(model([node("Mul", "x w", "y")], {"w": F([1, value])}, shape=["n", 2]))
        for value in (2, np.nextafter(F(2), F(3)))
    )
    require_same(Stored(before), before, "net")
    with pytest.raises(RequestError, match=r"output 'y' has other values after the changes at import"):
        require_same(Stored(before), after, "net")


def test_cyclic_graphs_are_refused_with_the_node(tmp_path: Path) -> None:
    nodes = [node("Add", "x r", "a"), node("Relu", "a", "r"), node("Relu", "r", "y")]
    with pytest.raises(RequestError, match=r"topologically sorted, .* name: node_a OpType: Add"):
        load(saved(tmp_path, model(nodes, {}, shape=["n", 2])))


def test_a_network_of_the_form_of_mnist_is_quantised(tmp_path: Path) -> None:
    """ONNX Runtime makes a Gemm of its MatMul and Add, with a bias of shape (1, N)."""
    nodes = [*CONVOLUTION, node("Add", "y o", "z")]
    constants = IMAGE | {"o": RANDOM.normal(size=(1, 3)).astype(F)}
    path = saved(tmp_path, model(nodes, constants, shape=[1, 1, 4, 4], opset=8, listed=True))
    floats = with_data.read(path, Changes())
    vectors = RANDOM.normal(size=(16, 1, 4, 4)).astype(F)
    found = with_data.quantize_with_data(floats, vectors, with_data.DataChoices(), "q")
    assert "QGemm" in [layer.operator for layer in found.network.layers]


def test_folding_the_weights_of_a_product_keeps_all_bits() -> None:
    """ONNX Runtime computes a product with constant weights that it packs before in another order."""
    constants = {"w": RANDOM.normal(size=(4, 14, 14, 10)).astype(F), "matrix": np.array([784, 10])}
    nodes = [node("Reshape", "w matrix", "v"), node("MatMul", "x v", "y")]
    before = onnx.load_model_from_string(model(nodes, constants, shape=[1, 784]))
    propagation = propagate(before)
    after, _ = fold(before, propagation, "sinks")
    assert [each.op_type for each in after.graph.node] == ["MatMul"]
    assert verify(before, after, propagation, 16, 1).values == 160


def test_a_later_opset_that_says_the_same_of_the_operators_is_read(tmp_path: Path) -> None:
    file = onnx.load_model_from_string(model([node("Celu", "x", "y")], {}, shape=["n", 3], opset=28))
    file.ir_version = 14
    network = load(saved(tmp_path, file.SerializeToString()))
    assert changes_of(network.metadata) == [
        "opset 28 is 26 now, in which ONNX says the same of all its operators",
        "IR version 14 is 13 now, to which it adds types only",
    ]


def test_a_later_opset_of_another_operator_is_refused(tmp_path: Path) -> None:
    onnx_bytes = model([node("SpaceToDepth", "x", "y", blocksize=2, mode="CRD")], {}, shape=["n", 2, 4, 4], opset=28)
    with pytest.raises(RequestError, match="is of opset 28"):
        load(saved(tmp_path, onnx_bytes))


def test_constants_that_a_step_adds_are_no_inputs(tmp_path: Path) -> None:
    nodes = [node("Squeeze", "x", "s", axes=[1]), node("Relu", "s", "y")]
    file = onnx.load_model_from_string(model(nodes, {}, shape=["n", 1, 3], opset=9))
    file.ir_version = 3
    assert load(saved(tmp_path, file.SerializeToString())).inputs[0].shape == (1, 3)


def test_a_shape_that_depends_on_the_data_is_no_number_of_vectors(tmp_path: Path) -> None:
    nodes = [node("Unique", "x", "i"), node("Neg", "i", "y")]
    with pytest.raises(RequestError, match="operator Unique is not supported"):
        load(saved(tmp_path, model(nodes, {}, shape=[2, 3])))


def test_a_cast_like_a_tensor_of_known_type_is_a_cast(tmp_path: Path) -> None:
    nodes = [node("CastLike", "half x", "h"), node("Greater", "x h", "g"), node("CastLike", "g x", "y")]
    network = load(saved(tmp_path, model(nodes, {"half": np.array(0.5)}, shape=["n", 3])))
    assert "2 CastLike are Cast to a type that is known" in changes_of(network.metadata)
    assert [layer.operator for layer in network.layers] == ["Greater", "Cast"]
    vectors = np.array([[0, 0.5, 1]], F)
    assert outputs(network.onnx_bytes, vectors, 1).tolist() == [[0, 0, 1]]


def test_an_input_can_be_a_number(tmp_path: Path) -> None:
    file = onnx.load_model_from_string(model([node("Add", "x a", "y")], {}, shape=[4, 3]))
    file.graph.input.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, []))
    network = load(saved(tmp_path, file.SerializeToString()))
    assert [tensor.shape for tensor in network.inputs] == [(4, 3), (1,)]
