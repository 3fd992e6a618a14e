"""A proof asks for numbers of all exponents, all pairs of codes of a window, and the last columns of QuantizeLinear."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from harness.operators import quantize_linear, sweeps
from harness.operators.float_samples import EXPONENTS, every_exponent
from harness.operators.obligations import Extent, Obligation, Outputs, Pairs, Steps
from tests.support.codes import layer_of, node

F32 = np.float32
EXTENT = Extent(all_floats=True, random_vectors=0)
CODES: dict[str, Any] = {"sx": F32(0.1), "zx": np.uint8(3), "sy": F32(0.2), "zy": np.uint8(0)}
MEAN = node("QLinearAveragePool", "x", "sx", "zx", "sy", "zy", kernel_shape=[2, 2])
POOLS = {"MaxPool": (node("MaxPool", "x", kernel_shape=[2, 2]), {}), "QLinearAveragePool": (MEAN, CODES)}


def asked(proto: Any, constants: dict[str, Any], x: Any) -> list[Obligation]:
    return list(layer_of(proto, constants, {"x": x}).obligations(EXTENT))


def test_every_column_has_every_exponent_and_sign() -> None:
    values = every_exponent(5)
    heads = {sign | exponent for sign, exponent in itertools.product((0, 256), range(EXPONENTS))}
    for half in np.split(values.view(np.uint32) >> 23, 2):
        assert all(set(column.tolist()) == heads for column in half.T)
    assert np.isfinite(values).all()
    assert ((values != 0) & (np.abs(values) < 2.0**-126)).any(axis=0).all(), "subnormal numbers"


@pytest.mark.parametrize(
    "proto",
    [node("Softmax", "x"), node("Gemm", "x", "w"), node("Div", "x", "s"), node("Mul", "x", "s")],
    ids=lambda proto: str(proto.op_type),
)
def test_float_layers_are_asked_for_all_exponents(proto: Any) -> None:
    constants = {"w": np.eye(4, dtype=F32), "s": F32(3)}
    claims = asked(
        proto, {name: values for name, values in constants.items() if name in proto.input}, np.zeros((1, 4), F32)
    )
    [claim] = [claim for claim in claims if "all 255 exponents" in claim.method]
    assert isinstance(claim.shown, Outputs)
    [values] = claim.shown.inputs()
    assert not np.isnan(claim.shown.expected(values)).any()
    assert len(np.unique(values.view(np.uint32)[:, 0] >> 23)) > EXPONENTS


@pytest.mark.parametrize("name", POOLS)
def test_any_two_codes_of_a_window_have_every_pair(name: str) -> None:
    proto, constants = POOLS[name]
    [claim] = [c for c in asked(proto, constants, np.zeros((1, 2, 6, 6), np.uint8)) if "every pair" in c.method]
    assert isinstance(claim.shown, Outputs)
    images = np.concatenate(list(claim.shown.inputs())).reshape(-1, 2, 6, 6).astype(np.intp)
    assert claim.cases == len(images) * 2 * 25
    for one, other in itertools.combinations(list(np.ndindex(2, 2)), 2):
        first, second = (images[:, :, i : i + 5, j : j + 5] for i, j in (one, other))
        for channel in range(2):
            assert len(np.unique(256 * first[:, channel] + second[:, channel])) == 1 << 16


def test_windows_that_the_sequence_cannot_fill_get_an_orthogonal_array() -> None:
    proto = node("MaxPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    [claim] = [c for c in asked(proto, {}, np.zeros((1, 1, 2, 2), np.uint8)) if "every pair" in c.method]
    assert isinstance(claim.shown, Pairs)
    assert claim.cases == 4 << 16


@pytest.mark.parametrize(("size", "alone"), [(5, 1), (6, 2), (490, 2), (64, 64)])
def test_the_last_columns_have_the_floats_below_saturation(
    size: int, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep over all floats has a slice of them in each column; vector code computes the last ones apart."""
    monkeypatch.setattr(quantize_linear, "LAST_COLUMNS", 1 << 16)
    quantize = node("QuantizeLinear", "x", "sx", "zx")
    claims = asked(quantize, {"sx": F32(0.1), "zx": np.uint8(120)}, np.zeros((1, size), F32))
    claims = [claim for claim in claims if "last columns" in claim.statement]
    for claim, sign in zip(claims, (0, sweeps.NEGATIVE), strict=True):
        assert isinstance(claim.shown, Steps)
        values = np.sort(claim.shown.sweep.values()[:, -alone:].reshape(-1) - np.uint32(sign))
        assert np.array_equal(values, np.arange(values[0], values[0] + len(values)))
        high = values[-1:].view(F32)[0]
        assert high / F32(0.1) == pytest.approx(134.5, rel=1e-5)
