from __future__ import annotations

import numpy as np
import onnx.helper
import onnx.numpy_helper
import pytest

from harness.core.errors import ReferenceFailed, RequestError
from harness.model import parse
from harness.reference.runtime import OnnxRuntimeReference
from harness.reference.specification import SpecificationReference
from tests.support.builders import random_network

RNG = np.random.default_rng(4)


def test_activations_are_those_of_every_layer_in_order_and_of_the_models_types() -> None:
    model = random_network(RNG, [3, 4, 2], float_output=True, argmax=True)
    parsed = parse(model.SerializeToString(), "small")
    x = RNG.uniform(*parsed.box, (6, 3)).astype(np.float32)
    activations = OnnxRuntimeReference(parsed).activations(x)
    assert [(array.shape, array.dtype.name) for array in activations] == [
        ((6, 3), "uint8"), ((6, 4), "uint8"), ((6, 2), "float32"), ((6, 1), "int64"),
    ]  # fmt: skip
    assert np.array_equal(activations[3][:, 0], activations[2].argmax(axis=1))


def test_fixed_batch_and_annotated_shapes_do_not_limit_the_number_of_vectors() -> None:
    model = random_network(RNG, [3, 4, 2])
    free = parse(model.SerializeToString(), "free")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    model.graph.value_info.append(model.graph.output[0])
    model.graph.value_info[0].name = "quantize_out"
    model.graph.value_info[0].type.tensor_type.shape.dim[1].dim_value = 3
    fixed = parse(model.SerializeToString(), "fixed")
    x = RNG.uniform(*free.box, (6, 3)).astype(np.float32)
    for one, other in zip(*(OnnxRuntimeReference(each).activations(x) for each in (free, fixed)), strict=True):
        assert np.array_equal(one, other)


def test_keepdims_0_still_gives_one_column() -> None:
    model = random_network(RNG, [3, 4], argmax=True)
    model.graph.node[-1].attribute.add(name="keepdims", type=2, i=0)
    del model.graph.output[1].type.tensor_type.shape.dim[1]
    parsed = parse(model.SerializeToString(), "flat")
    assert OnnxRuntimeReference(parsed).activations(np.zeros((5, 3), np.float32))[-1].shape == (5, 1)


def test_model_that_onnx_runtime_refuses_is_a_wrong_request() -> None:
    model = random_network(RNG, [3, 4])
    model.opset_import[1].version = 99  # of com.microsoft, which only ONNX Runtime knows
    with pytest.raises(RequestError, match="ONNX Runtime refuses model 'future'"):
        OnnxRuntimeReference(parse(model.SerializeToString(), "future"))


def test_a_constant_node_that_several_products_read_is_accepted() -> None:
    """ONNX Runtime itself refuses to convert it for each of them."""
    model = random_network(RNG, [3, 4, 5, 2], zero_points=True)
    constants = list(model.graph.initializer)
    del model.graph.initializer[:]
    for node in model.graph.node:
        if node.op_type == "QGemm":
            node.input[5] = "shared"
    nodes = [onnx.helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in constants]
    shared = onnx.numpy_helper.from_array(np.int8(3), "weights_zero_point")
    nodes += [onnx.helper.make_node("Constant", [], ["shared"], value=shared), *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    parsed = parse(model.SerializeToString(), "shared")
    x = RNG.uniform(*parsed.box, (50, 3)).astype(np.float32)
    found, right = (reference(parsed).activations(x) for reference in (OnnxRuntimeReference, SpecificationReference))
    assert all(np.array_equal(one, other) for one, other in zip(found, right, strict=True))


def test_failing_run_is_a_failed_reference() -> None:
    parsed = parse(random_network(RNG, [3, 4]).SerializeToString(), "small")
    with pytest.raises(ReferenceFailed, match="ONNX Runtime failed"):
        OnnxRuntimeReference(parsed).activations(np.zeros((5, 3), np.float64))


@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_x64_quant_precision_is_exact_on_every_machine_and_for_all_types(kinds: tuple[str, str]) -> None:
    model = random_network(RNG, [5, 20, 5], activations=kinds[0], weights=kinds[1], zero_points=True)
    parsed = parse(model.SerializeToString(), "small")
    x = RNG.uniform(*parsed.box, (500, 5)).astype(np.float32)
    precise = OnnxRuntimeReference(parsed, x64_quant_precision=True).activations(x)
    exact = SpecificationReference(parsed).activations(x)
    assert all(np.array_equal(one, other) for one, other in zip(precise, exact, strict=True))
