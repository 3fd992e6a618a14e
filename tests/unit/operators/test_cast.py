"""Cast against ONNX Runtime: every pair of types, the limits of types, wrong conversions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.cast import Cast, special_values
from harness.operators.exact import formats
from harness.operators.exact.integers import IntegerEvaluation
from harness.operators.logic import NUMBERS
from harness.operators.tensor import (
    BOOL,
    EVERY_TYPE,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INTEGERS,
    SHORT,
    STORED,
    UINT8,
    UINT16,
    integer_limits,
)
from tests.support.codes import runtime
from tests.support.diagnosis import layers
from tests.support.floats import numbers, read_node

PAIRS = [pair for pair in itertools.product(EVERY_TYPE, EVERY_TYPE) if pair[0] != pair[1]]
OF_HALF = [pair for kind in EVERY_TYPE for pair in ((FLOAT16, kind), (kind, FLOAT16))]
TO_DOUBLE = (FLOAT32, BOOL, UINT8, INT8, UINT16, INT16, FLOAT16)
OF_DOUBLE = [*((kind, FLOAT64) for kind in TO_DOUBLE), *((FLOAT64, kind) for kind in (FLOAT32, BOOL, FLOAT16))]
KNOWN = [kind for kind in SHORT if kind != formats.E2M1]
"""Those that ONNX Runtime has."""
OF_SHORT = [pair for kind in KNOWN for other in (FLOAT32, FLOAT16, INT8)
            for pair in ((kind, other), (other, kind))
            if not (kind == formats.E8M0 and other == INT8)]  # fmt: skip
PAIRS += [*OF_HALF, *OF_DOUBLE, *OF_SHORT]
Type = np.dtype[Any]


def values_of(source: Type, dtype: Type) -> Array:
    """Values of a type, those at its limits and at those of the other type among them, (n, 1)."""
    rng = np.random.default_rng(0)
    if source in SHORT and source.itemsize == 1:
        return special_values(source, dtype)[:, None]
    if source in STORED:
        words = rng.integers(0, 1 << 16, (4096, source.itemsize // 2), np.uint16)
        near = rng.normal(size=4096) * 2.0 ** rng.integers(-160, 140, 4096)
        with np.errstate(over="ignore"):
            values = [special_values(source, dtype), words.view(source)[:, 0], near.astype(source)]
        return np.concatenate(values)[:, None]
    if source == FLOAT32:
        special = special_values(FLOAT32, dtype)
        random = [numbers(rng, 500), (rng.normal(size=500) * 10.0 ** rng.integers(0, 20, 500)).astype(np.float32)]
        return np.concatenate([special, np.float32([np.nan]), *random])[:, None]
    if source == BOOL:
        return NUMBERS[BOOL][:, None]
    random = rng.integers(*integer_limits(source), 500, source, endpoint=True)
    small = random >> random.dtype.type(8 * random.dtype.itemsize - 8)
    return np.concatenate([NUMBERS[source], random, small])[:, None]


def node_of(dtype: Type) -> Any:
    return helper.make_node("Cast", ["x"], ["y"], name="y", to=helper.np_dtype_to_tensor_dtype(dtype))


def layer_of(x: Array, dtype: Type) -> Cast:
    layer = read_node(node_of(dtype), {}, {"x": x})
    assert isinstance(layer, Cast)
    return layer


@pytest.mark.slow
@pytest.mark.parametrize(("source", "dtype"), PAIRS)
def test_a_cast_has_the_bits_of_onnx_runtime_where_onnx_defines_them(source: Type, dtype: Type) -> None:
    x = values_of(source, dtype)
    layer = layer_of(x, dtype)
    result = layer.prepare()(x)
    assert result.dtype == dtype
    assert result.tobytes() == IntegerEvaluation(layer.definition)({"operand_1": x}).tobytes()
    tolerance = layer.tolerance([x], result)
    is_defined = np.full(x.shape, True) if tolerance is None else tolerance == 0
    assert is_defined.sum() > 1
    is_defined &= result == result  # noqa: PLR0124 - no NaN
    assert np.array_equal(runtime(node_of(dtype), {}, {"x": x})[is_defined], result[is_defined])
    magnitudes = np.abs(result.astype(np.float64))
    assert (magnitudes[is_defined] <= layer.output.bound).all()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_float_outside_of_the_type_becomes_its_end_and_nan_becomes_0(dtype: Type) -> None:
    low, high = integer_limits(dtype)
    x = np.float32([[np.nan], [np.inf], [-np.inf], [1e30], [-1e30], [2.5], [high + 1], [low]])
    layer = layer_of(x, dtype)
    result = layer.prepare()(x)
    assert result.reshape(-1).tolist() == [0, high, low, high, low, 2, high, low]
    tolerance = layer.tolerance([x], result)
    assert tolerance is not None
    assert tolerance.reshape(-1).tolist() == [np.inf] * 5 + [0, np.inf, 0]


@pytest.mark.parametrize(("source", "dtype"), PAIRS)
def test_every_fault_model_changes_some_values(source: Type, dtype: Type) -> None:
    x = values_of(source, dtype)
    x = x[np.isfinite(x)][:, None] if source.kind == "f" else x
    layer = layer_of(x, dtype)
    right = layer.prepare()(x)
    causes = []
    for model in layer.fault_models(x):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes))


def test_a_diagnosis_names_a_sign_that_is_not_extended() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (200, 6), np.int8)
    layer = layer_of(x, np.dtype(np.int32))
    diagnosis = layers.found(layer, (x,), x.view(np.uint8).astype(np.int32))
    assert "the sign of the input's type is another" in layers.causes(diagnosis)


def test_other_types_are_refused() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], name="y", to=helper.np_dtype_to_tensor_dtype(np.dtype(np.complex64)))
    with pytest.raises(RequestError, match="casts float32 to complex64"):
        read_node(node, {}, {"x": np.zeros((1, 2), np.float32)})


@pytest.mark.parametrize(("source", "dtype"), [(FLOAT64, np.dtype(np.int32)), (np.dtype(np.int64), FLOAT64)])
def test_conversions_of_double_precision_that_have_no_definition_are_refused(source: Type, dtype: Type) -> None:
    with pytest.raises(RequestError, match=f"casts {source} to {dtype}"):
        layer_of(np.zeros((1, 2), source), dtype)


def test_every_binary16_is_converted_to_float32_and_back() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)[:, None]
    wide = layer_of(x, FLOAT32).prepare()(x)
    is_number = ~np.isnan(x)
    assert wide[is_number].tobytes() == x[is_number].astype(np.float32).tobytes()
    assert np.isnan(wide[~is_number]).all()
    back = layer_of(wide, FLOAT16).prepare()(wide)
    assert back[is_number].tobytes() == x[is_number].tobytes()
