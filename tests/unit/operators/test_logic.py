"""Comparisons, And, Or, Xor, Not, Cast and Where against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import targets
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import parse
from harness.model.importer import bring_in, logic
from harness.model.importer.files import NetworkImport
from harness.operators.float_errors import Perturbed
from harness.operators.logic import DEFINITIONS, NUMBERS, Logic, operands_of
from harness.operators.tensor import BOOL, CODES, EVERY_TYPE, FLOAT32, INT64, STORED
from tests.support.builders import make_model
from tests.support.codes import COUNTS, assert_agree_at_random, node
from tests.support.diagnosis import layers
from tests.support.floats import numbers, read_node
from tests.unit.operators.test_broadcasting import bounded, random_shapes

CASES = [(name, kind) for kind, own in DEFINITIONS.items() for name in own]


CHOICES = ("Where", "Select")


def operands(rng: np.random.Generator, operator: str, dtype: np.dtype[Any], *shapes: list[int]) -> list[Array]:
    """Operands of an operator, some of them equal; the condition of a Where of float32 is 0 or 1."""
    if dtype != FLOAT32:
        values = [rng.choice(NUMBERS[dtype], shape) for shape in shapes]
        if operator == "Select":
            values[0] = rng.integers(0, 2, shapes[0]).astype(dtype)
        return values
    values = [np.round(bounded(rng, *shape)) if rng.random() < 0.5 else bounded(rng, *shape) for shape in shapes]
    if operator == "Where":
        values[0] = rng.integers(0, 2, values[0].shape).astype(np.float32)
    return values


def of_onnx(operator: str, values: list[Array]) -> Array:
    """The value of the ONNX operator in ONNX Runtime."""
    feed = dict(zip(operands_of(operator), values, strict=True))
    if operator in CHOICES:
        operator, feed["operand_1"] = "Where", feed["operand_1"].astype(bool)
    proto = helper.make_node(operator, list(feed), ["y"])
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feed.items()
    ]
    graph = helper.make_graph([proto], "one", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: Array = session.run(None, feed)[0]
    return result


def layer_of(operator: str, constants: dict[str, Array], inputs: dict[str, Array]) -> Logic:
    names = list(operands_of(operator))
    domain = "harness" if operator in CHOICES else ""
    proto = helper.make_node(operator, names, ["y"], name="y", domain=domain)
    layer = read_node(proto, constants, inputs, bound=1.1e30)
    assert isinstance(layer, Logic)
    return layer


def of_random_operands(rng: np.random.Generator) -> None:
    operator, dtype = CASES[rng.integers(len(CASES))]
    if operator == "Select" and str(dtype) not in {"uint8", "int8", "int32", "int64", "uint32"}:
        return  # ONNX Runtime has no Where of this type
    names = operands_of(operator)
    vectors = [[5, *shape] for shape in random_shapes(rng, len(names), constants=False)]
    is_constant = [False, *(rng.random(len(names) - 1) < 0.4)]
    sizes = [[1, *shape[1:]] if constant else shape for shape, constant in zip(vectors, is_constant, strict=True)]
    values = operands(rng, operator, dtype, *sizes)
    pairs = list(zip(names, values, is_constant, strict=True))
    constants = {name: value for name, value, constant in pairs if constant}
    inputs = {name: value for name, value, constant in pairs if not constant}
    layer = layer_of(operator, constants, inputs)
    result = layer.prepare()(*(inputs[source].reshape(5, -1) for source in layer.sources))
    right = of_onnx(operator, values)
    assert result.dtype == layer.dtype == right.dtype
    assert np.array_equal(result.reshape(right.shape), right)
    if operator != "Where":  # ONNX Runtime's Where gives 0 in the place of -0
        assert result.tobytes() == right.tobytes()
    assert (np.abs(result.astype(np.float64)) <= layer.output.bound).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree_with_onnx_runtime(count: int) -> None:
    assert_agree_at_random(of_random_operands, count)


@pytest.mark.parametrize(("operator", "dtype"), CASES)
def test_every_fault_model_changes_some_values(operator: str, dtype: np.dtype[Any]) -> None:
    names = operands_of(operator)
    grids = np.meshgrid(*[NUMBERS[dtype]] * len(names))
    values = [grid.reshape(-1, 1) for grid in grids]
    layer = layer_of(operator, {}, dict(zip(names, values, strict=True)))
    right = layer.prepare()(*values)
    causes = []
    for model in layer.fault_models(*values):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) >= 1
    if right.dtype == BOOL:
        assert "the result is negated" in causes


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "dtype"), CASES)
def test_the_bound_holds_for_every_value_within_the_errors(operator: str, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(1)
    names = operands_of(operator)
    values = [rng.choice(NUMBERS[dtype], (300, 4)) for _ in names]
    errors = [np.where(rng.random(value.shape) < 0.5, 1, 0).astype(np.float64) for value in values]
    layer = layer_of(operator, {}, dict(zip(names, values, strict=True)))
    evaluate = layer.prepare()
    output = evaluate(*values)
    bound = layer.errors.propagated(Perturbed(values, errors, output))
    largest = np.zeros(output.shape)
    for _ in range(60):
        others = [
            np.where(error > 0, rng.choice(NUMBERS[dtype], value.shape), value).astype(dtype)
            for value, error in zip(values, errors, strict=True)
        ]
        is_within = np.logical_and.reduce(
            [np.abs(other - value.astype(np.float64)) <= error
             for other, value, error in zip(others, values, errors, strict=True)]
        )  # fmt: skip
        difference = np.abs(evaluate(*others).astype(np.float64) - output)
        assert (difference <= bound)[is_within].all()
        largest = np.where(is_within, np.maximum(largest, difference), largest)
    assert (largest > 0).any()
    assert (bound[np.logical_and.reduce([error == 0 for error in errors])] == 0).all()


NODES = [
    node("Less", "x", "limit", output="is_less"),
    node("Unsqueeze", "is_less", "axis", output="wide"),
    node("Squeeze", "wide", "axis", output="narrow"),
    node("And", "narrow", "mask", output="both"),
    node("Where", "both", "x", "limit", output="chosen"),
    node("Where", "mask", "chosen", "limit", output="masked"),
    node("Cast", "both", output="number", to=TensorProto.FLOAT),
    node("Add", "masked", "number", output="sum"),
]
CONSTANTS: dict[str, Any] = {
    "limit": np.float32([0.25, -0.5, 0]),
    "axis": np.array([2]),
    "mask": np.array([[True, True, False]]),
}


def saved(folder: Path, nodes: list[onnx.NodeProto], output: str, kind: int = TensorProto.FLOAT) -> Path:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["vectors", 3])]
    outputs = [helper.make_tensor_value_info(output, kind, ["vectors", 3])]
    constants = [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items()]
    graph = helper.make_graph(nodes, "logic", inputs, outputs, constants)
    path = folder / "logic.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_an_import_keeps_bools_and_gives_each_where_a_float_condition(tmp_path: Path) -> None:
    imported = bring_in(saved(tmp_path, NODES, "sum"))
    assert isinstance(imported, NetworkImport)
    kinds = {layer.output.name: (layer.operator, str(layer.dtype)) for layer in imported.network.layers}
    assert kinds == {
        "is_less": ("Less", "bool"), "wide": ("Unsqueeze", "bool"), "narrow": ("Squeeze", "bool"),
        "both": ("And", "bool"), "chosen/condition": ("Cast", "float32"), "chosen": ("Where", "float32"),
        "masked": ("Where", "float32"), "number": ("Cast", "float32"), "sum": ("Add", "float32"),
    }  # fmt: skip
    assert any("2 Where read a number of their type as condition" in note for note in imported.notes)
    x = numbers(np.random.default_rng(0), 40, 3)
    values = {"x": x}
    for layer in imported.network.layers:
        inputs = [values[source].reshape(40, -1) for source in layer.sources]
        values[layer.output.name] = layer.prepare()(*inputs)
    limit, mask = CONSTANTS["limit"], CONSTANTS["mask"]
    both = (x < limit) & mask
    chosen = np.where(mask, np.where(both, x, limit), limit)
    assert values["sum"].tobytes() == (chosen + both.astype(np.float32)).tobytes()


def test_a_bool_can_be_the_output_of_a_network(tmp_path: Path) -> None:
    imported = bring_in(saved(tmp_path, NODES[:1], "is_less", TensorProto.BOOL))
    assert isinstance(imported, NetworkImport)
    assert imported.network.layers[-1].dtype == BOOL


def test_a_network_without_bools_stays() -> None:
    model = make_model([node("Relu", "x")], {}, {}, width=3)
    before = model.SerializeToString()
    assert logic.convert(model) == []
    assert model.SerializeToString() == before


def test_a_function_with_another_body_is_refused(tmp_path: Path) -> None:
    imported = bring_in(saved(tmp_path, NODES, "sum"))
    assert isinstance(imported, NetworkImport)
    model = onnx.load_model_from_string(imported.network.onnx_bytes)
    [where] = model.functions
    next(part for part in where.node if part.op_type == "Greater").op_type = "Less"
    with pytest.raises(RequestError, match=r"the function harness\.Where is not that of the operator"):
        parse(model.SerializeToString(), "logic")


def test_where_keeps_the_sign_of_a_zero_and_allows_both() -> None:
    values = [np.ones((1, 2), np.float32), np.float32([[-0.0, 0]]), np.ones((1, 2), np.float32)]
    layer = layer_of("Where", {}, dict(zip(operands_of("Where"), values, strict=True)))
    output = layer.prepare()(*values)
    assert np.signbit(output).tolist() == [[True, False]]
    allowed = layer.tolerance(values, output)
    assert allowed is not None
    assert not allowed.any()
    assert not np.signbit(of_onnx("Where", values)).any()


@pytest.mark.parametrize(("operator", "dtype"), [case for case in CASES if case[0] != "Where"])
def test_every_bit_must_agree_but_for_where(operator: str, dtype: np.dtype[Any]) -> None:
    values = {name: NUMBERS[dtype].reshape(1, -1) for name in operands_of(operator)}
    assert not layer_of(operator, {}, values).errors.has_tolerance


def test_a_diagnosis_names_the_faults_of_bools() -> None:
    rng = np.random.default_rng(0)
    integers = [rng.integers(-2, 3, (400, 6)).astype(np.float32) for _ in "ab"]
    less = layer_of("Less", {}, dict(zip(operands_of("Less"), integers, strict=True)))
    diagnosis = layers.found(less, tuple(integers), np.less_equal(*integers))
    assert "the condition operand_1 < operand_2 includes equality" in layers.causes(diagnosis)
    bools = [rng.integers(0, 2, (400, 6)).astype(np.bool_) for _ in "ab"]
    both = layer_of("And", {}, dict(zip(operands_of("And"), bools, strict=True)))
    diagnosis = layers.found(both, tuple(bools), bools[0])
    assert "operand_2 is left out of operand_1 & operand_2" in layers.causes(diagnosis)


def test_the_range_of_a_bool_as_float32_is_from_0_to_1() -> None:
    nodes = [
        node("Less", "x", "limit", output="is_less"),
        node("Cast", "is_less", output="number", to=TensorProto.FLOAT),
        node("Sqrt", "number", output="root"),
    ]
    model = make_model(nodes, {"limit": CONSTANTS["limit"]}, {"root": ("float32", 3)}, width=3)
    network = parse(model.SerializeToString(), "range")
    number, root = network.layers[1:]
    low, high = number.errors.output_bounds([np.zeros((1, 3), np.bool_)], [np.ones((1, 3), np.bool_)])
    assert (low.tolist(), high.tolist()) == ([[0, 0, 0]], [[1, 1, 1]])
    assert root.output.bound == 1


MOVES = {
    "Identity": node("Identity", "x"),
    "Concat": node("Concat", "x", "x", axis=1),
    "Transpose": node("Transpose", "x", perm=[0, 2, 1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["litert:builtin", "litert:xnnpack", "tiovx:c7x", "tiovx:mpu", "vitis"])
@pytest.mark.parametrize("operator", MOVES)
@pytest.mark.parametrize("dtype", [kind for kind in (*EVERY_TYPE, *STORED) if kind not in {FLOAT32, INT64, *CODES}])
def test_targets_without_a_type_refuse_to_move_it(operator: str, target: str, dtype: np.dtype[Any]) -> None:
    layer = read_node(MOVES[operator], {}, {"x": np.zeros((2, 3, 4), dtype)})
    assert layer.dtype == dtype
    assert targets.find("c").unsupported(layer) is None
    assert targets.find(target).unsupported(layer) is not None
