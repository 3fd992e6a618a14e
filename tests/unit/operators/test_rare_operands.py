"""A proof asks for numbers of all exponents, all pairs of codes of a window, and the last columns of QuantizeLinear."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from harness.operators import quantize_linear, sweeps
from harness.operators.float_samples import EXPONENTS, every_exponent
from harness.operators.obligations import Extent, Obligation, Outputs, Steps
from harness.operators.windowed import Windowed
from tests.support.codes import count_pairs, layer_of, node

F32 = np.float32
EXTENT = Extent(all_floats=True, random_vectors=0)
CODES: dict[str, Any] = {"sx": F32(0.1), "zx": np.uint8(3), "sy": F32(0.2), "zy": np.uint8(0)}
POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "MaxPool": ("MaxPool", {}),
    "mean": ("QLinearAveragePool", CODES),
}


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


SHAPES = {"apart": {}, "common values": {"strides": [1, 1]}, "padding": {"pads": [1, 0, 1, 1], "strides": [2, 2]}}


@pytest.mark.slow
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("how", SHAPES)
def test_any_two_codes_of_a_window_have_every_pair(name: str, how: str) -> None:
    """The others of the window are the lowest code, or a larger one would hide both from a maximum."""
    operator, constants = POOLS[name]
    proto = node(operator, "x", *constants, kernel_shape=[2, 3], **({"strides": [2, 3]} | SHAPES[how]))
    layer = layer_of(proto, constants, {"x": np.zeros((1, 2, 6, 8), np.uint8)})
    assert isinstance(layer, Windowed)
    [claim] = [claim for claim in layer.obligations(EXTENT) if "every pair" in claim.method]
    assert isinstance(claim.shown, Outputs)
    images = np.concatenate(list(claim.shown.inputs())).reshape(-1, 48)
    assert claim.cases == len(images) // 2 * layer.size
    other = constants["zx"] if constants else 0
    windows = np.concatenate(
        [np.hstack([images, np.full((len(images), 1), other)])[:, w] for w in layer.window.sources(1)[0]]
    )
    columns = np.ascontiguousarray(windows.T, np.uint8)
    is_other = columns == other
    for pair in itertools.combinations(range(6), 2):
        rest = [column for column in range(6) if column not in pair]
        first, second = columns[list(pair)][:, is_other[rest].all(axis=0)]
        assert count_pairs(first, second) == 1 << 16


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
