"""Operators on integers against ONNX Runtime, Python's integers and the evaluation in integers; their faults."""

from __future__ import annotations

import itertools
import operator as of_python
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.exact.integers import IntegerEvaluation
from harness.operators.integer_elements import IntegerElements
from harness.operators.integer_samples import special_integers
from harness.operators.tensor import INT16, INT64, INTEGERS, WIDE_INTEGERS, integer_limits
from tests.support.codes import node, runtime
from tests.support.diagnosis import layers
from tests.support.floats import read_node

Type = np.dtype[Any]
SIGNED = [kind for kind in INTEGERS if kind.kind == "i"]
UNSIGNED = [kind for kind in INTEGERS if kind.kind == "u"]


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


CASES: Mapping[str, tuple[list[Type], int, dict[str, Any], Callable[..., int]]] = {
    "Add": (list(INTEGERS), 2, {}, of_python.add),
    "Sub": (list(INTEGERS), 2, {}, of_python.sub),
    "Mul": (list(INTEGERS), 2, {}, of_python.mul),
    "Div": (list(INTEGERS), 2, {}, toward_zero),
    "Mod": (list(INTEGERS), 2, {}, of_python.mod),
    "Mod of C": (list(INTEGERS), 2, {"fmod": 1}, lambda a, b: a - toward_zero(a, b) * b),
    "Neg": (SIGNED, 1, {}, of_python.neg),
    "Abs": (list(INTEGERS), 1, {}, abs),
    "Sign": (list(INTEGERS), 1, {}, lambda x: (x > 0) - (x < 0)),
    "Relu": ([INT16, np.dtype(np.int32), INT64], 1, {}, lambda x: max(x, 0)),
    "Max": (list(INTEGERS), 3, {}, max),
    "Min": (list(INTEGERS), 3, {}, min),
    "BitShift": (UNSIGNED, 2, {"direction": "LEFT"}, lambda a, b: a << b),
    "BitShift right": (UNSIGNED, 2, {"direction": "RIGHT"}, lambda a, b: a >> b),
    "BitwiseAnd": (list(INTEGERS), 2, {}, of_python.and_),
    "BitwiseOr": (list(INTEGERS), 2, {}, of_python.or_),
    "BitwiseXor": (list(INTEGERS), 2, {}, of_python.xor),
    "BitwiseNot": (list(INTEGERS), 1, {}, of_python.invert),
}
EVERY = [(name, kind) for name, (kinds, *_) in CASES.items() for kind in kinds]
NOT_IN_RUNTIME = {
    **dict.fromkeys(("Max", "Min"), ("int16", "uint16")), "Relu": ("int16", "int64"),
    **dict.fromkeys(("BitShift", "BitShift right"), ("uint16",)),
}  # fmt: skip
"""Types for which ONNX Runtime 1.31 has no operator."""


def wrapped(value: int, dtype: Type) -> int:
    low, high = integer_limits(dtype)
    return (value - low) % (high - low + 1) + low


def operands(name: str, dtype: Type) -> dict[str, Array]:
    """Pairs of special values, then random ones, (n, 1) each; a divisor is neither 0 nor -1, a shift is possible."""
    count, rng = CASES[name][1], np.random.default_rng(0)
    special = special_integers(dtype)
    grids = np.array(list(itertools.product(special, repeat=count)), dtype).T
    random = rng.integers(*integer_limits(dtype), (count, 300), dtype, endpoint=True)
    values = np.concatenate([grids, random], axis=1)
    if name.startswith(("Div", "Mod")):
        values = values[:, (values[1] != 0) & ((values[1].astype(np.int64) != -1) | (dtype.kind == "u"))]
    if name.startswith("BitShift"):
        values[1] %= 8 * dtype.itemsize
    return {f"x{number}": row.reshape(-1, 1) for number, row in enumerate(values)}


def layer_of(name: str, inputs: Mapping[str, Array], constants: Mapping[str, Any] | None = None) -> IntegerElements:
    names = [*inputs, *(constants or {})]
    layer = read_node(node(name.split(maxsplit=1)[0], *names, **CASES[name][2]), constants or {}, inputs)
    assert isinstance(layer, IntegerElements)
    return layer


def divided_by_constant(name: str, inputs: Mapping[str, Array]) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """The inputs, and none as constants; of a division the divisors are constants, one after the other."""
    if not name.startswith(("Div", "Mod")):
        return [(dict(inputs), {})]
    a, b = inputs.values()
    return [({"x0": a[b == divisor][:, None]}, {"x1": np.array([divisor])}) for divisor in np.unique(b)[::7]]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_values_are_those_of_python_modulo_2_to_the_n_and_of_onnx_runtime(name: str, dtype: Type) -> None:
    for inputs, constants in divided_by_constant(name, operands(name, dtype)):
        layer = layer_of(name, inputs, constants)
        result = layer.prepare()(*inputs.values())
        assert result.dtype == dtype
        rows = zip(*(x[:, 0].tolist() for x in inputs.values()), strict=True)
        fixed = [value.item() for value in constants.values()]
        assert result[:, 0].tolist() == [wrapped(CASES[name][3](*row, *fixed), dtype) for row in rows]
        assert result.tobytes() == layer.in_integers(list(inputs.values())).tobytes()
        arguments = layer.arguments(list(inputs.values()))
        assert IntegerEvaluation(layer.definition).broadcast(arguments, result.shape).tobytes() == result.tobytes()
        if dtype.name not in NOT_IN_RUNTIME.get(name, ()):
            right = runtime(node(name.split(maxsplit=1)[0], *inputs, *constants, **CASES[name][2]), constants, inputs)
            tolerance = layer.tolerance(list(inputs.values()), result)
            is_exact = np.full(result.shape, True) if tolerance is None else tolerance == 0
            assert right.dtype == result.dtype
            assert np.array_equal(right[is_exact], result[is_exact])


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_every_fault_model_changes_some_values(name: str, dtype: Type) -> None:
    inputs = operands(name, dtype)
    constants = {}
    if name.startswith(("Div", "Mod")):
        inputs, constants = {"x0": inputs["x0"]}, {"x1": np.array([7 if dtype.kind == "u" else -7], dtype)}
    layer = layer_of(name, inputs, constants)
    right, causes = layer.prepare()(*inputs.values()), []
    for model in layer.fault_models(*inputs.values()):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) >= 1


@pytest.mark.parametrize("dtype", WIDE_INTEGERS)
def test_a_clip_without_a_bound_ends_at_the_type(dtype: Type) -> None:
    x = special_integers(dtype)[:, None]
    layer = read_node(node("Clip", "x", "low"), {"low": dtype.type(3)}, {"x": x})
    assert isinstance(layer, IntegerElements)
    assert layer.prepare()(x).tolist() == np.maximum(x, dtype.type(3)).tolist()
    low, high = layer.errors.output_bounds([x[:1]], [x[-1:]])
    assert (low.item(), high.item()) == (3, integer_limits(dtype)[1])


REFUSED = {
    "an activation as divisor": ("Div", {}, {"x0": np.int32([[1]]), "x1": np.int32([[1]])}, "divisor can be 0, 'x1'"),
    "a constant 0": ("Mod", {"x1": np.int8([0])}, {"x0": np.int8([[1]])}, "divisor can be 0, the constant"),
    "the least integer by -1": ("Div", {"x1": np.int64([-1])}, {"x0": np.int64([[1]])}, "divisor can be -1"),
    "two types": ("Add", {}, {"x0": np.int8([[1]]), "x1": np.int16([[1]])}, "reads int16 and int8"),
    "signed shifts": ("BitShift", {}, {"x0": np.int8([[1]]), "x1": np.int8([[1]])}, "is int8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_nodes_are_refused(case: str) -> None:
    name, constants, inputs, message = REFUSED[case]
    with pytest.raises(RequestError, match=message):
        layer_of(name, inputs, constants)


def test_a_shift_by_all_bits_is_0_and_is_not_compared_with_onnx_runtime() -> None:
    inputs = {"x0": np.uint32([[7], [7]]), "x1": np.uint32([[31], [32]])}
    layer = layer_of("BitShift", inputs)
    result = layer.prepare()(*inputs.values())
    assert result.tolist() == [[1 << 31], [0]]
    tolerance = layer.tolerance(list(inputs.values()), result)
    assert tolerance is not None
    assert tolerance.tolist() == [[0], [np.inf]]
    assert layer_of("BitShift", {"x0": inputs["x0"]}, {"x1": np.uint32([31])}).tolerance([inputs["x0"]], result) is None


def test_a_diagnosis_names_a_result_that_saturates() -> None:
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-128, 128, (300, 5), np.int8) for name in ("x0", "x1")}
    exact = sum(x.astype(int) for x in inputs.values())
    diagnosis = layers.found(layer_of("Add", inputs), tuple(inputs.values()), np.clip(exact, -128, 127).astype(np.int8))
    assert "the result is limited to the type" in layers.causes(diagnosis)
