"""Operations of layers, compared with published numbers and with a count from the ONNX file that shares no code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.installation import ROOT
from harness.model.graph import load
from harness.operators.exact.expression import argument, larger, select
from harness.operators.operations import Operations, moved_bytes, operation_count, operations_of
from tests.support.every_operator import NETWORKS

MODELS = ROOT / "models"
PUBLISHED = {"acas_coc": 18_000, "lenet5_int8": 281_640, "ds_cnn_int8": 2_656_768, "resnet8_int8": 12_501_632}
"""Multiply-adds of MLPerf Tiny's and ACAS' shapes, which a count of CMSIS-NN's loops gave."""
WITHOUT_DEFINITION = {"ArgExtremum", "QLinearConcat", "QLinearSoftmax"}


@pytest.mark.parametrize(("name", "multiply_adds"), PUBLISHED.items())
def test_multiply_adds_are_the_published_ones(name: str, multiply_adds: int) -> None:
    found = [operations_of(layer) for layer in load(MODELS / f"{name}.onnx").layers]
    assert sum(each.multiply_adds for each in found if each) == multiply_adds


@pytest.mark.parametrize("name", ["cifarnet", "unet_tiny", "mobilenet_v3_tiny", "vit_tiny"])
def test_multiply_adds_are_those_of_the_shapes_in_the_file(name: str) -> None:
    network = load(MODELS / f"{name}.onnx")
    from_file = dict(products_of(MODELS / f"{name}.onnx"))
    layers = {layer.output.name: layer for layer in network.layers}
    compared = {output for output in from_file if output in layers}
    assert len(compared) == len(from_file), "the network has the products of the file under their names"
    for output in compared:
        found = operations_of(layers[output])
        assert found is not None
        assert found.multiply_adds == from_file[output], output


def products_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the output of each product of matrices and each convolution, and its multiply-adds by ONNX's shapes."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
    tensors = [*graph.input, *graph.value_info, *graph.output]
    shapes = {each.name: [max(axis.dim_value, 1) for axis in each.type.tensor_type.shape.dim] for each in tensors}
    shapes |= {each.name: list(each.dims) for each in graph.initializer}
    for node in graph.node:
        written = math.prod(shapes[node.output[0]]) if node.output[0] in shapes else 0
        if node.op_type == "Conv":
            yield node.output[0], written * math.prod(shapes[node.input[1]][1:])
        elif node.op_type == "ConvTranspose":
            yield node.output[0], math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])
        elif node.op_type in {"Gemm", "MatMul"}:
            yield node.output[0], written * shapes[node.input[0]][-1]


@pytest.mark.parametrize(("name", "gates", "hidden"), [("kws_gru", 3, 24), ("kws_lstm", 4, 24)])
def test_each_step_of_a_recurrence_counts(name: str, gates: int, hidden: int) -> None:
    layer = load(MODELS / f"{name}.onnx").layers[0]
    steps, inputs = layer.input.shape
    found = operations_of(layer)
    assert found is not None
    assert found.multiply_adds == steps * gates * hidden * (inputs + hidden)


def test_an_average_has_no_products() -> None:
    layers = {layer.name: layer for layer in load(MODELS / "ds_cnn_int8.onnx").layers}
    pool = operations_of(layers["pool"])
    assert pool is not None
    assert pool.multiply_adds == 0
    assert pool.others >= layers["pool"].input.size, "each value is added"


def test_operations_of_functions_count_and_changes_of_the_type_of_bits_do_not() -> None:
    x = argument("x")
    assert operation_count(x) == 0
    assert operation_count(larger(x + 1, 0)) == 3  # an addition, a comparison, a selection
    assert operation_count(select(x < 0, -x, x)) == 3


@pytest.mark.slow
def test_every_operator_but_a_few_has_its_operations() -> None:
    layers = [layer for network in NETWORKS.values() for layer in network().layers]
    without = {type(layer).__name__ for layer in layers if operations_of(layer) is None}
    assert without == WITHOUT_DEFINITION
    moving = [operations_of(layer) for layer in layers if layer.operator in {"Transpose", "Flatten", "Concat"}]
    assert set(moving) == {Operations(0, 0)}


def test_bytes_are_those_of_constants_inputs_and_output() -> None:
    layer = load(MODELS / "lenet5.onnx").layers[0]
    weights = 6 * 25 * 4 + 6 * 4
    arrays = sum(np.asarray(value).nbytes for value in layer.constants().values())
    assert arrays >= weights
    assert moved_bytes(layer) == arrays + 4 * (28 * 28 + 6 * 24 * 24)
