"""Departures of networks from the safety-related profile: each restriction of the table, broken and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.model.analysis.propagation import propagate
from harness.model.sonnx import departures
from harness.model.sonnx.restrictions import DOCUMENTS, OPERATORS, RESTRICTIONS

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
IMAGE, ROW = (1, 2, 4, 4), (1, 3)


def constant(values: Any, dtype: Any = np.int64) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


def model(
    operator: str, inputs: Sequence[Any], output: tuple[int, ...] | None, /, domain: str = "", **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node; a tuple is the shape of a float32 input, an array a constant, None no input."""
    names = ["" if entry is None else f"in{at}" for at, entry in enumerate(inputs)]
    values = [
        helper.make_tensor_value_info(name, FLOAT, entry)
        for name, entry in zip(names, inputs, strict=True)
        if isinstance(entry, tuple)
    ]
    constants = [
        numpy_helper.from_array(entry, name)
        for name, entry in zip(names, inputs, strict=True)
        if isinstance(entry, np.ndarray)
    ]
    node = helper.make_node(operator, names, ["y"], "node", domain=domain, **attributes)
    graph = helper.make_graph([node], "net", values, [helper.make_tensor_value_info("y", FLOAT, output)], constants)
    opsets = [helper.make_opsetid("", 22), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets)


def numbers(graph: onnx.ModelProto) -> list[str]:
    """Return the numbers of the findings about nodes and edges."""
    return [finding.reason.partition(":")[0].partition(" of ")[0] for finding in reasons(graph)]


def reasons(graph: onnx.ModelProto) -> list[Any]:
    return [finding for finding in departures(graph, propagate(graph)) if finding.severity == "warning"]


WINDOW = {"dilations": [1, 1], "kernel_shape": [1, 1], "strides": [1, 1]}
CONV = {**WINDOW, "auto_pad": "NOTSET", "group": 1, "pads": [0] * 4}
POOL = {**WINDOW, "auto_pad": "NOTSET", "ceil_mode": 0, "storage_order": 0, "pads": [0] * 4}
GEMM = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
KERNEL = np.ones((2, 2, 1, 1), np.float32)
LENGTHS, STATE = constant([3], np.int32), np.zeros((1, 1, 2), np.float32)
CELL = [np.ones((1, 8, 3), np.float32), np.ones((1, 8, 2), np.float32), np.zeros((1, 16), np.float32), LENGTHS, STATE]
CELL += [STATE, np.zeros((1, 6), np.float32)]
LSTM = {
    "hidden_size": 2, "direction": "forward", "activations": ["Sigmoid", "Tanh", "Tanh"], "input_forget": 0, "layout": 0
}  # fmt: skip
STEPS = (3, 1, 3)

KEPT: Mapping[str, tuple[Sequence[Any], tuple[int, ...], Mapping[str, Any]]] = {
    "Add": ([ROW, ROW], ROW, {}),
    "Pow": ([ROW, np.ones(ROW, np.float32)], ROW, {}),
    "Clip": ([ROW, constant(0, np.float32), constant(1, np.float32)], ROW, {}),
    "Concat": ([ROW, ROW], (1, 6), {"axis": 1}),
    "Constant": ([], ROW, {"value": numpy_helper.from_array(np.ones(ROW, np.float32))}),
    "Conv": ([IMAGE, KERNEL], IMAGE, CONV),
    "Gemm": ([ROW, np.ones((3, 2), np.float32), np.ones((1, 2), np.float32)], (1, 2), GEMM),
    "LSTM": ([STEPS, *CELL], (3, 1, 1, 2), LSTM),
    "MatMul": ([ROW, np.ones((3, 2), np.float32)], (1, 2), {}),
    "MaxPool": ([IMAGE], IMAGE, POOL),
    "Slice": ([ROW, constant([0, 0]), constant([1, 2]), constant([0, 1]), constant([1, 1])], (1, 2), {}),
    "Softmax": ([ROW], ROW, {"axis": 1}),
}
"""A node of each operator that keeps all restrictions: inputs, shape of the output, attributes."""
BROKEN = [
    ("Add", [ROW, (3,)], {}, ["C1"]),
    ("Pow", [ROW, np.ones(ROW, np.int64)], {}, ["GR3"]),
    ("Clip", [ROW, constant([0], np.float32), constant([1], np.float32)], {}, ["C1", "C1"]),
    ("Concat", [ROW, ROW], {"axis": -1}, ["R1"]),
    ("Conv", [(1, 2, 4), np.ones((2, 2, 1), np.float32)],
     CONV | {"dilations": [1], "kernel_shape": [1], "strides": [1], "pads": [0, 0]}, ["R1"]),
    ("Conv", [IMAGE, KERNEL], CONV | {"auto_pad": "VALID"}, ["R2"]),
    ("Conv", [(1, 4, 4, 4), KERNEL], CONV | {"group": 2}, ["R3"]),
    ("Gemm", [ROW, np.ones((2, 3), np.float32)], GEMM | {"transB": 1, "alpha": 0.5}, ["R2", "R2", "R3", "R4"]),
    ("Gemm", [ROW, np.ones((3, 2), np.float32), np.ones(2, np.float32)], GEMM, ["R3"]),
    ("LSTM", [STEPS, *CELL[:3], None, *CELL[4:]], LSTM | {"layout": 1, "input_forget": 1}, ["-"] * 3),
    ("LSTM", [STEPS, *CELL], LSTM | {"activations": ["Tanh", "Tanh", "Tanh"]}, ["-"]),
    ("MatMul", [(2, 1, 3), np.ones((2, 3, 2), np.float32)], {}, ["C1", "C1"]),
    ("MaxPool", [IMAGE], POOL | {"ceil_mode": 1, "storage_order": 1}, ["R3", "R4"]),
    ("Slice", [ROW, constant([0]), constant([2])], {}, ["R1", "R2", "R3", "R6, R7", "R8"]),
    ("Slice", [ROW, constant([2, 3]), constant([1, 2]), constant([0, 1]), constant([1, 1])], {}, ["R6, R7", "R8"]),
    ("Softmax", [ROW], {"axis": -1}, ["R4"]),
]  # fmt: skip


@pytest.mark.parametrize("operator", KEPT)
def test_a_node_that_states_everything_keeps_the_profile(operator: str) -> None:
    inputs, output, attributes = KEPT[operator]
    assert reasons(model(operator, inputs, output, **attributes)) == []


@pytest.mark.parametrize(("operator", "inputs", "attributes", "expected"), BROKEN)
def test_each_restriction_is_found(
    operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any], expected: list[str]
) -> None:
    graph = model(operator, inputs, KEPT[operator][1], **attributes)
    del graph.graph.output[0].type.tensor_type.shape.dim[:]
    graph.graph.output[0].type.tensor_type.ClearField("shape")
    listed = [number for number in numbers(graph) if number not in ("GR2", "GR4")]
    assert listed == expected


def test_every_operator_with_restrictions_has_a_broken_node() -> None:
    alike = {"Sub", "Mul", "Div", "Less", "Where"}  # as Add
    assert {entry[0] for entry in BROKEN} | alike | {"Constant"} == set(RESTRICTIONS)
    assert numbers(model("Constant", [], (1,), value_floats=[1.0])) == ["R1"]


def test_general_restrictions_name_tensors_and_attributes() -> None:
    graph = model("Conv", [IMAGE, KERNEL], IMAGE)
    [finding] = reasons(graph)
    assert finding.reason == (
        "GR4: attributes have their defaults: auto_pad (NOTSET), dilations, group (1), kernel_shape, pads, strides"
    )
    graph.graph.output[0].type.tensor_type.ClearField("shape")
    assert "GR2: type and shape are not stated for 'y'" in [finding.reason for finding in reasons(graph)]
    graph.graph.sparse_initializer.add().values.name = "zeros"
    assert reasons(graph)[0].reason == "GR1: tensor 'zeros' is sparse"


def test_operators_outside_the_list_are_named_with_their_domain() -> None:
    for domain, name in (("", "Asinh"), ("com.microsoft", "Gelu")):
        [finding, *_] = reasons(model(name, [ROW], ROW, domain=domain))
        operator = f"{domain}.{name}" if domain else name
        assert finding.reason == f"REQ OP 000: operator {operator} is none of the 55 operators of the profile"


def test_what_is_not_known_is_no_compliance() -> None:
    graph = model("Conv", [IMAGE, KERNEL], IMAGE, **CONV)
    graph.graph.input[0].type.tensor_type.ClearField("shape")
    graph.graph.output[0].type.tensor_type.ClearField("shape")
    del graph.graph.initializer[:]
    listed = [finding.reason for finding in reasons(graph)]
    assert "R1 of Conv (transient): cannot be checked: input X has 2 spatial dimensions" in listed[-1]


def test_the_table_names_operators_that_onnx_has() -> None:
    assert len(OPERATORS) == 55
    for name in OPERATORS:
        onnx.defs.get_schema(name)
    assert {*RESTRICTIONS, *DOCUMENTS} <= OPERATORS
