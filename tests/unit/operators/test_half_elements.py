"""Arithmetic of float16 against ONNX Runtime and numpy: the bits, and the faults of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.cast import special_values
from harness.operators.half_elements import OPERANDS, HalfElements
from harness.operators.tensor import FLOAT16
from tests.support.codes import node, runtime
from tests.support.floats import read_node

OF_NUMPY: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Neg": np.negative, "Abs": np.abs,
}  # fmt: skip


def operands(operator: str) -> dict[str, Array]:
    """Pairs of special values, and of random bits, (n, 1) each."""
    rng, special = np.random.default_rng(0), special_values(FLOAT16, FLOAT16)
    random = rng.integers(0, 1 << 16, (2, 50_000), np.uint16).view(np.float16)
    pairs = np.concatenate([np.array(np.meshgrid(special, special)).reshape(2, -1), random], axis=1)
    return {f"x{number}": row[:, None] for number, row in enumerate(pairs[: OPERANDS[operator]])}


def layer_of(operator: str, inputs: dict[str, Array]) -> HalfElements:
    layer = read_node(node(operator, *inputs), {}, inputs)
    assert isinstance(layer, HalfElements)
    return layer


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERANDS)
def test_results_have_the_bits_of_numpy_and_of_onnx_runtime(operator: str) -> None:
    inputs = operands(operator)
    layer = layer_of(operator, inputs)
    result = layer.prepare()(*inputs.values())
    with np.errstate(all="ignore"):
        right = OF_NUMPY[operator](*inputs.values())
    is_number = ~np.isnan(right)
    assert result.dtype == FLOAT16
    assert result[is_number].tobytes() == right[is_number].tobytes()
    assert np.isnan(result[~is_number]).all()
    assert runtime(node(operator, *inputs), {}, inputs)[is_number].tobytes() == right[is_number].tobytes()
    assert layer.in_integers(list(inputs.values())).tobytes() == result.tobytes()


@pytest.mark.parametrize("operator", OPERANDS)
def test_every_fault_model_changes_some_values(operator: str) -> None:
    inputs = operands(operator)
    layer = layer_of(operator, inputs)
    right = layer.prepare()(*inputs.values())
    causes = []
    for model in layer.fault_models(*inputs.values()):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) >= 1


def test_other_types_than_float16_in_both_operands_are_refused() -> None:
    inputs = {"x0": np.zeros((1, 2), np.float16), "x1": np.zeros((1, 2), np.float32)}
    with pytest.raises(RequestError, match="'x1' is float32"):
        layer_of("Add", inputs)
