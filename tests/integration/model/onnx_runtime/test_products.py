"""The products that ONNX Runtime makes of a file, and the session in which they are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import ReferenceFailed, RequestError
from harness.model.onnx_runtime import products
from harness.model.onnx_runtime.hostcheck import Defect, check_host, instruction_set
from harness.operators.product import Product
from tests.support.builders import IR_VERSION, OPSET
from tests.support.importer.quantised import (
    Constants,
    built,
    codes_of_two_types,
    draw,
    matmul_integer,
    qdq,
    qgemm,
    qlinear_matmul,
    shared_weights,
)

Notation = Callable[..., list[onnx.NodeProto]]
NOTATIONS: list[tuple[Notation, dict[str, Any]]] = [
    (qgemm, {}),
    (qlinear_matmul, {}),
    (matmul_integer, {}),
    (qdq, {"bias": False}),
    (qdq, {"operator": "MatMul", "bias": False}),
]


def found(onnx_bytes: bytes) -> list[Product]:
    return list(products.products_of(products.optimised(onnx_bytes, "file")).values())


def expected(constants: Constants) -> list[Product]:
    before = [(constants.zero_point, constants.zero_point.dtype)]
    before += [(product.y_zero_point, product.y_zero_point.dtype) for product in constants.products]
    return [
        Product(
            dtype.name,
            product.weight.dtype.name,
            *product.weight.shape,
            int(zero_point),
            tuple(product.zero_point.reshape(-1).tolist()),
            small=False,
        )
        for product, (zero_point, dtype) in zip(constants.products, before, strict=False)
    ]


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize(("notation", "options"), NOTATIONS)
def test_products_have_the_constants_of_the_file(
    notation: Notation, options: dict[str, Any], weights: str, per_column: bool
) -> None:
    constants = draw(np.random.default_rng(1), (4, 9, 3), weights=weights, per_column=per_column)
    onnx_bytes = built(notation(1, **options) + notation(2, **options), constants)
    assert found(onnx_bytes) == expected(constants)


@pytest.mark.parametrize("notation", [qgemm, qlinear_matmul, matmul_integer])
def test_int8_codes_of_the_operator_format_stay_int8(notation: Notation) -> None:
    constants = draw(np.random.default_rng(1), (4, 9, 3), codes="int8")
    onnx_bytes = built(notation(1) + notation(2), constants, TensorProto.INT8)
    assert found(onnx_bytes) == expected(constants)


@pytest.mark.skipif(not instruction_set().startswith("x86_64"), reason="ONNX Runtime does this on x86-64 only")
def test_int8_codes_of_qdq_become_uint8_but_not_where_they_are_outputs() -> None:
    constants = draw(np.random.default_rng(1), (4, 9, 3), codes="int8")
    onnx_bytes = built(qdq(1) + qdq(2, end=True), constants, TensorProto.FLOAT)
    signed = expected(constants)
    assert [product.input_dtype for product in found(onnx_bytes)] == ["uint8", "uint8"]
    assert [product.input_zero_point - 128 for product in found(onnx_bytes)] == [
        product.input_zero_point for product in signed
    ]
    model = onnx.load_model_from_string(onnx_bytes)
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.INT8, None) for name in ("q0", "q1"))
    assert found(model.SerializeToString()) == signed


def test_weights_within_small_are_recognised() -> None:
    constants = draw(np.random.default_rng(1), (4, 9, 3))
    small = (constants.products[0].weight // 2).astype(np.int8)
    onnx_bytes = built(qgemm(1) + qgemm(2), constants.changed(weight=small))
    assert [product.small for product in found(onnx_bytes)] == [True, False]


def test_a_quantisation_without_zero_point_has_the_type_that_it_asks_for() -> None:
    nodes = matmul_integer(1)
    nodes[-1].input.pop()
    nodes[-1].attribute.append(helper.make_attribute("output_dtype", TensorProto.INT8))
    second = matmul_integer(2)
    second[0].input[2:] = ["", "wz2"]
    constants = draw(np.random.default_rng(1), (4, 9, 3), codes="int8")
    codes = [product.input_dtype for product in found(built(nodes + second, constants, TensorProto.INT8, opset=21))]
    assert codes == ["int8", "int8"]


def test_a_convolution_is_a_product_for_each_output_channel() -> None:
    weights = np.random.default_rng(1).integers(-128, 128, (6, 2, 3, 1)).astype(np.int8)
    constants = {"s": np.float32(0.1), "z": np.uint8(3), "w": weights, "wz": np.int8(-4)}
    convolution = helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "wz", "s", "z"], ["y"], group=2)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.UINT8, shape)
        for name, shape in {"x": [1, 4, 5, 5], "y": [1, 6, 3, 5]}.items()
    )
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([convolution], "one", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    assert found(model.SerializeToString()) == [Product("uint8", "int8", 6, 6, 3, (-4,))]


def product_of_a_newer_opset() -> bytes:
    return built(qlinear_matmul(1), draw(np.random.default_rng(1), (4, 9)), opset=26)


@pytest.mark.parametrize("made", [shared_weights, codes_of_two_types, product_of_a_newer_opset])
def test_a_file_that_excludes_the_option_has_a_session_only_where_products_are_exact(made: Callable[[], bytes]) -> None:
    """ONNX Runtime cannot convert shared weights twice, nor multiply int8 codes with the converted weights.

    It leaves the weights of operators of a newer version alone.
    """
    onnx_bytes = made()
    if dict(check_host().defects)["uint8 x int8"] is Defect.SATURATION:
        with pytest.raises(ReferenceFailed, match="saturate to int16"):
            products.exact_session(onnx_bytes, "file", 1, 1)
    else:
        (output,) = products.exact_session(onnx_bytes, "file", 1, 1).run(None, {"x": np.ones((1, 4), np.float32)})
        assert len(np.unique(output)) > 1


def test_a_file_that_onnx_runtime_refuses_is_a_wrong_request() -> None:
    model = onnx.load_model_from_string(built(qgemm(1), draw(np.random.default_rng(1), (4, 9))))
    model.opset_import[1].version = 99
    with pytest.raises(RequestError, match="ONNX Runtime refuses model 'future'"):
        products.exact_session(model.SerializeToString(), "future", 1, 1)
