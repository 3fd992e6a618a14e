from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from harness.model.quantizer import Codes, codes_for

bounds = st.floats(-1e6, 1e6)


def through_onnxruntime(codes: Codes, values: np.ndarray) -> np.ndarray:
    """The float32 values after QuantizeLinear and DequantizeLinear."""
    constants = {"scale": codes.scale, "zero_point": np.uint8(codes.zero_point)}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", *constants], ["q"]),
            helper.make_node("DequantizeLinear", ["q", *constants], ["y"]),
        ],
        "codes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": values})[0]


@given(bounds, bounds)
def test_codes_span_the_bounds_and_zero_within_half_a_step(one: float, other: float) -> None:
    low, high = sorted((one, other))
    codes = codes_for(low, high)
    first, last = codes.range
    half = float(codes.scale) / 2 * (1 + 1e-6)
    assert 0 <= codes.zero_point <= 255
    assert first <= 0 <= last
    assert first - half <= min(low, 0)
    assert max(high, 0) <= last + half
    assert codes.rounded(np.zeros(1))[0] == 0


def test_positive_ranges_start_at_code_zero_and_end_at_code_255() -> None:
    assert codes_for(0.0, 51.0) == Codes(np.float32(0.2), 0)
    assert codes_for(20.0, 51.0) == Codes(np.float32(0.2), 0)
    assert codes_for(-51.0, -1.0) == Codes(np.float32(0.2), 255)


def test_the_published_box_of_the_acas_networks_has_the_published_codes() -> None:
    codes = codes_for(-0.5, 0.6798577687)
    assert (codes.scale, codes.zero_point) == (pytest.approx(0.0046268, rel=1e-4), 108)


@pytest.mark.parametrize("greatest", [0.0, 1e-45, 1e-38])
def test_a_range_of_nothing_keeps_a_normal_scale(greatest: float) -> None:
    assert codes_for(-greatest, greatest) == Codes(np.float32(1 / 255), 0)


@pytest.mark.parametrize("codes", [Codes(np.float32(1 / 240), 120), Codes(np.float32(0.25), 0), codes_for(-1.7, 0.4)])
def test_rounded_is_what_onnxruntime_computes(codes: Codes) -> None:
    ties = (np.arange(-200, 300) + 0.5) * float(codes.scale)
    values = np.concatenate([ties, np.random.default_rng(1).normal(size=1000)]).astype(np.float32)
    assert np.array_equal(codes.rounded(values), through_onnxruntime(codes, values))
