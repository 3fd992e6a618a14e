"""Each transform on ONNX: the nodes that it removes, keeps and refuses, and its values in ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection

import numpy as np
import onnx
import onnx.shape_inference
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import transforms
from harness.model.transforms import batch_normalization, edit
from tests.support.transforms import Chain, floats, random_network, statistics

RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


def run(model: onnx.ModelProto | bytes, x: Array) -> list[Array]:
    """The outputs of ONNX Runtime, which computes the nodes one by one."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    onnx_bytes = model if isinstance(model, bytes) else model.SerializeToString()
    outputs: list[Array] = onnxruntime.InferenceSession(onnx_bytes, options).run(None, {"x": x})
    return outputs


def transformed(model: onnx.ModelProto, *asked: str) -> onnx.ModelProto:
    *_, last = transforms.apply(model.SerializeToString(), "net", asked)
    return onnx.load_model_from_string(last.onnx_bytes)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def constant(model: onnx.ModelProto, name: str) -> Array:
    return next(numpy_helper.to_array(each) for each in model.graph.initializer if each.name == name)


def assert_same(before: onnx.ModelProto, after: onnx.ModelProto, x: Array) -> None:
    assert [value.name for value in after.graph.output] == [value.name for value in before.graph.output]
    onnx.shape_inference.infer_shapes(after, check_type=True, strict_mode=True)  # no stated shape is wrong
    for one, other in zip(run(before, x), run(after, x), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_random_networks_keep_the_bits_of_onnx_runtime(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_network(rng)
    after = transformed(model)
    assert not {"Dropout", "Identity"} & set(operators(after))
    assert len([each for each in operators(after) if each in RESHAPES]) == 1
    assert_same(model, after, floats(rng, 7, *[size.dim_value for size in _sizes(model)]))


@pytest.mark.parametrize("seed", range(20))
def test_folds_of_random_networks_are_near_in_onnx_runtime_and_the_evaluator(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_network(rng)
    after = transformed(model, "dropout", "normalization", "batch-normalization")
    assert [each for each in operators(after) if each not in RESHAPES] == ["Conv", "Relu", "Gemm"]
    x = floats(rng, 7, *[size.dim_value for size in _sizes(model)])
    [before], [folded] = run(model, x), run(after, x)
    scale = float(np.abs(before).max())
    assert 0 < np.abs(folded - before).max() < 2e-5 * scale
    [evaluated] = ReferenceEvaluator(after).run(None, {"x": x})
    assert np.abs(evaluated - before).max() < 2e-5 * scale


def _sizes(model: onnx.ModelProto) -> Collection[onnx.TensorShapeProto.Dimension]:
    return list(model.graph.input[0].type.tensor_type.shape.dim)[1:]


def test_the_metadata_stay_and_name_the_transforms_and_the_file() -> None:
    model = random_network(np.random.default_rng(0))
    onnx_bytes = model.SerializeToString()
    after = transformed(model, "dropout", "batch-normalization")
    metadata = {entry.key: entry.value for entry in after.metadata_props}
    assert metadata["description"] == "random"
    sha256 = hashlib.sha256(onnx_bytes).hexdigest()
    assert json.loads(metadata["transforms"]) == [
        {"transform": "dropout", "nodes": 2, "source_sha256": sha256},
        {"transform": "batch-normalization", "nodes": 2, "source_sha256": sha256},
    ]
    again = transformed(after, "normalization")
    listed = json.loads({entry.key: entry.value for entry in again.metadata_props}["transforms"])
    assert [entry["transform"] for entry in listed] == ["dropout", "batch-normalization", "normalization"]
    assert listed[2]["source_sha256"] == hashlib.sha256(after.SerializeToString()).hexdigest()


def test_other_metadata_of_that_name_are_refused() -> None:
    for text in ("none", "1"):
        chain = Chain()
        chain.add("Relu")
        with pytest.raises(RequestError, match="model 'net': metadata transforms is no JSON list"):
            transformed(chain.model((2,), metadata={"transforms": text}))


def test_nodes_without_a_name_keep_the_names_of_their_layers() -> None:
    model = random_network(np.random.default_rng(0))
    for node in model.graph.node:
        node.name = ""
    data = model.SerializeToString()
    before = {layer.name for layer in transforms.original(data, "net").layers}
    *_, last = transforms.apply(data, "net")
    assert {layer.name for layer in last.network.layers} < before


def test_an_unknown_transform_is_named_with_its_neighbours() -> None:
    with pytest.raises(RequestError, match="unknown transform 'dropouts'") as caught:
        transformed(random_network(np.random.default_rng(0)), "dropouts")
    assert "did you mean dropout?" in caught.value.hint


def test_a_transform_that_is_asked_for_and_finds_nothing_is_an_error() -> None:
    chain = Chain()
    chain.add("Relu")
    with pytest.raises(RequestError, match="transform 'dropout' finds nothing to change"):
        transformed(chain.model((3,)), "dropout")


def test_constants_are_computed_and_those_of_a_library_are_refused() -> None:
    chain = Chain()
    chain.nodes += [
        helper.make_node("Constant", [], ["variance"], value=numpy_helper.from_array(np.float32([4, 9]))),
        helper.make_node("Sqrt", ["variance"], ["deviation"], "sqrt"),
        helper.make_node("Neg", ["deviation"], ["divisor"], "neg"),
        helper.make_node("Div", ["x", "divisor"], ["y"], "div"),
    ]
    chain.tensor = "y"
    model = chain.model((2,))
    after = transformed(model, "constants")
    assert operators(after) == ["Div"]
    np.testing.assert_array_equal(constant(after, "divisor"), np.float32([-2, -3]))
    assert [tensor.name for tensor in after.graph.initializer] == ["divisor"]
    assert_same(model, after, floats(np.random.default_rng(0), 5, 2))
    for operator in ("Exp", "ReduceProd"):
        model.graph.node[1].op_type = operator
        message = rf"node 'sqrt' \({operator}\) computes a constant whose bits ONNX does not fix"
        with pytest.raises(RequestError, match=message):
            transforms.original(model.SerializeToString(), "net")


def test_dropout_that_makes_an_output_of_an_input_or_gives_its_mask_stays() -> None:
    chain = Chain()
    chain.add("Identity")
    first = chain.tensor
    chain.add("Relu")
    chain.add("Dropout")
    after = transformed(chain.model((3,), first), "dropout")
    assert operators(after) == ["Identity", "Relu"]
    assert after.graph.node[1].output[0] == chain.tensor
    chain.add("Identity")
    model = chain.model((3,), "identity_0:out", "dropout_2:out")
    after = transformed(model, "dropout")
    assert operators(after) == ["Identity", "Relu", "Identity"]
    assert_same(model, after, floats(np.random.default_rng(0), 5, 3))
    masked = Chain()
    masked.add("Relu")
    masked.add("Dropout")
    masked.nodes[-1].output.append("mask")
    graph = masked.model((3,)).graph
    graph.output.append(helper.make_tensor_value_info("mask", onnx.TensorProto.BOOL, None))
    applied = transforms.TRANSFORMS["dropout"].apply(onnx.ModelProto(graph=graph), "net")
    assert (applied.nodes, applied.kept) == ((), ("node 'dropout_1' (Dropout): its mask is read",))


@pytest.mark.parametrize(
    ("shapes", "left"),
    [
        ([(3, 4), (2, 6), (12,)], ["Reshape"]),
        ([(3, 4), (2, 2, 3)], []),
        ([(2, 2, 3)], []),
        ([(3, 4), None, (12,)], ["Relu", "Reshape"]),
        ([(3, 4), None, (2, 2, 3)], ["Relu"]),
        ([(3, 4), None], ["Reshape", "Relu"]),
        ([None, (12,), None], ["Relu", "Reshape", "Relu"]),
    ],
)
@pytest.mark.parametrize("at_the_end", [False, True])
def test_reshapes_merge(shapes: list[tuple[int, ...] | None], left: list[str], *, at_the_end: bool) -> None:
    """None is Relu; the network has the input (2, 2, 3)."""
    chain = Chain()
    chain.add("LeakyRelu")
    for shape in shapes:
        chain.add(*(("Relu",) if shape is None else ("Reshape", np.array([0, *shape]))))
    if not at_the_end:
        chain.add("HardSwish")
    model = chain.model((2, 2, 3))
    after = transformed(model)
    assert operators(after) == ["LeakyRelu", *left, *(() if at_the_end else ("HardSwish",))]
    assert_same(model, after, floats(np.random.default_rng(0), 5, 2, 2, 3))


def test_a_reshape_stays_where_its_shape_matters() -> None:
    """A constant per channel, outputs inside, and a branch."""
    chain = Chain()
    chain.add("Reshape", np.array([-1, 3, 4]))
    chain.add("Mul", np.float32([[1], [2], [3]]))
    chain.add("Flatten")
    model = chain.model((12,))
    assert operators(transformed(model)) == ["Reshape", "Mul", "Flatten"]
    for between in ((), ("Relu",)):
        chain = Chain()
        chain.add("Reshape", np.array([-1, 3, 4]))
        for operator in between:
            chain.add(operator)
        inner = chain.tensor
        chain.add("Reshape", np.array([-1, 2, 6]))
        model = chain.model((12,), inner)
        after = transformed(model)
        assert operators(after) == ["Reshape", *between, "Reshape"]
        assert_same(model, after, floats(np.random.default_rng(0), 5, 12))
        chain.add("HardSwish")
        outer, chain.tensor = chain.tensor, inner
        chain.add("Mul", np.float32([[1], [2], [3]]))
        model = chain.model((12,), outer)
        after = transformed(model)
        assert operators(after) == ["Reshape", *between, "Reshape", "HardSwish", "Mul"]
        assert_same(model, after, floats(np.random.default_rng(0), 5, 12))


def test_batch_normalization_folds_into_the_weights_of_the_formula() -> None:
    chain = Chain()
    chain.add("Gemm", np.float32([[1, 2], [3, 4]]), np.float32([5, 6]))
    ones = np.ones(2, np.float32)
    chain.add("BatchNormalization", 3 * ones, ones, 2 * ones, np.float32([4, 16]), epsilon=0.0)
    after = transformed(chain.model((2,)), "batch-normalization")
    assert operators(after) == ["Gemm"]
    np.testing.assert_array_equal(constant(after, "gemm_0/weights"), np.float32([[1.5, 1.5], [4.5, 3]]))
    np.testing.assert_array_equal(constant(after, "gemm_0/bias"), np.float32([5.5, 4]))
    assert len(after.graph.initializer) == 2


def test_batch_normalization_folds_into_conv_transpose_with_groups() -> None:
    rng = np.random.default_rng(0)
    chain = Chain()
    chain.add("ConvTranspose", floats(rng, 4, 3, 2, 2), floats(rng, 6), group=2, strides=[2, 2])
    chain.add("BatchNormalization", *statistics(rng, 6))
    model = chain.model((4, 3, 3))
    before = onnx.ModelProto()
    before.CopyFrom(model)
    assert batch_normalization.apply(model, "net").nodes == ("batchnormalization_1",)
    edit.tidy(model.graph)
    x = floats(rng, 3, 4, 3, 3)
    [one], [other] = run(before, x), run(model, x)
    assert 0 < np.abs(one - other).max() < 1e-5 * np.abs(one).max()


def test_batch_normalization_stays_behind_a_relu_and_a_branch() -> None:
    rng = np.random.default_rng(0)
    chain = Chain()
    chain.add("Conv", floats(rng, 2, 1, 2, 2))
    inner = chain.tensor
    chain.add("BatchNormalization", *statistics(rng, 2))
    chain.add("Relu")
    chain.add("BatchNormalization", *statistics(rng, 2))
    with pytest.raises(RequestError, match="'batch-normalization' finds nothing to change; node 'batchnorm") as caught:
        transformed(chain.model((1, 3, 3), inner), "batch-normalization")
    assert "batchnormalization_1" in caught.value.message
    assert "batchnormalization_3" in caught.value.message


def test_shared_weights_are_folded_into_a_copy() -> None:
    rng = np.random.default_rng(0)
    chain = Chain()
    chain.add("Gemm", floats(rng, 3, 3))
    chain.add("BatchNormalization", *statistics(rng, 3))
    chain.add("Gemm", np.zeros((3, 3), np.float32))
    chain.nodes[2].input[1] = chain.nodes[0].input[1]
    del chain.constants["gemm_2/0"]
    model = chain.model((3,))
    after = transformed(model, "batch-normalization")
    weights = after.graph.node[1].input[1]
    np.testing.assert_array_equal(constant(after, weights), chain.constants["gemm_0/0"])
    assert (constant(after, "gemm_0/weights") != chain.constants["gemm_0/0"]).any()


def test_weights_beyond_float32_are_refused() -> None:
    chain = Chain()
    chain.add("Gemm", np.full((1, 1), 1e38, np.float32))
    chain.add("BatchNormalization", *np.float32([[10], [0], [0], [1]]))
    with pytest.raises(RequestError, match="its weights with the folded factors are beyond float32"):
        transformed(chain.model((1,)), "batch-normalization")


def test_normalization_folds_into_a_dense_layer_behind_flatten() -> None:
    chain = Chain()
    chain.add("Sub", np.float32([[[1, 2]], [[3, 4]]]))
    chain.add("Div", np.float32(2))
    chain.add("Flatten")
    chain.add("Gemm", np.float32([[2], [4], [6], [8]]), np.float32([1]))
    after = transformed(chain.model((2, 1, 2)), "normalization")
    assert operators(after) == ["Flatten", "Gemm"]
    np.testing.assert_array_equal(constant(after, "gemm_3/weights"), np.float32([[1], [2], [3], [4]]))
    np.testing.assert_array_equal(constant(after, "gemm_3/bias"), np.float32([-29]))  # 1 - (1 + 4 + 9 + 16)


def test_normalization_reads_the_input_as_the_second_operand_too() -> None:
    chain = Chain()
    chain.add("Sub", np.float32([1, 2]), first=False)
    chain.add("Gemm", np.float32([[2], [4]]))
    after = transformed(chain.model((2,)), "normalization")
    np.testing.assert_array_equal(constant(after, "gemm_1/weights"), np.float32([[-2], [-4]]))
    np.testing.assert_array_equal(constant(after, "gemm_1/bias"), np.float32([10]))


@pytest.mark.parametrize("padding", [{"pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER"}])
def test_an_offset_is_not_folded_into_padding_but_a_factor_is(padding: dict[str, object]) -> None:
    def network(operator: str) -> onnx.ModelProto:
        chain = Chain()
        chain.add(operator, np.float32(0.5))
        chain.add("Conv", np.ones((1, 1, 3, 3), np.float32), **padding)
        return chain.model((1, 4, 4))

    with pytest.raises(RequestError, match="pads with 0 after the normalisation; an offset cannot be folded exactly"):
        transformed(network("Sub"), "normalization")
    model = network("Mul")
    after = transformed(model, "normalization")
    assert operators(after) == ["Conv"]
    assert_same(model, after, floats(np.random.default_rng(0), 3, 1, 4, 4))  # a power of two rounds nothing


def test_constants_that_differ_within_a_channel_are_not_folded_into_a_conv() -> None:
    chain = Chain()
    chain.add("Sub", np.arange(16, dtype=np.float32).reshape(4, 4))
    chain.add("Conv", np.ones((1, 1, 3, 3), np.float32))
    with pytest.raises(RequestError, match=r"the constants differ within a channel of node 'conv_1' \(Conv\)"):
        transformed(chain.model((1, 4, 4)), "normalization")
