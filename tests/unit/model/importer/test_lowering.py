"""MatMulInteger and ConvInteger with all that requantises their sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from onnx import TensorProto

from tests.support.examples import examples
from tests.support.importer.graphs import Array, model, node, refusal, run
from tests.support.importer.quantised import Product, built, draw, matmul_integer, named
from tests.unit.model.importer.test_quantised import quantised

UINT8, INT8, FLOAT = TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT
IMAGE = (2, 6, 6)


def convolution(bias: bool, relu: bool) -> list[onnx.NodeProto]:
    nodes = [node("QuantizeLinear", "x s0 z0", "q0"), node("ConvInteger", "q0 w z0 wz", "a", pads=[1, 0, 1, 0])]
    nodes += [node("Add", "a b", "ab")] if bias else []
    nodes += [node("Cast", nodes[-1].output[0], "f", to=FLOAT), node("Mul", "m f", "y")]
    nodes += [node("Relu", "y", "r")] if relu else []
    return [*nodes, node("QuantizeLinear", f"{nodes[-1].output[0]} s z", "q")]


def constants(
    random: np.random.Generator, codes: str, weights: str, *, per_channel: bool, relu: bool
) -> dict[str, Any]:
    info, limits = np.iinfo(codes), np.iinfo(weights)
    return {
        "s0": np.float32(0.01),
        "z0": np.array(random.integers(info.min + 60, info.max - 60), codes),
        "w": random.integers(limits.min, limits.max + 1, (4, 2, 3, 3)).astype(weights),
        "wz": np.array(
            random.integers((limits.min + limits.max) // 2 - 9, (limits.min + limits.max) // 2 + 9), weights
        ),
        "b": random.integers(-9999, 9999, (1, 4, 1, 1)).astype(np.int32),
        "m": random.uniform(0.001, 0.01, (1, 4, 1, 1) if per_channel else ()).astype(np.float32),
        "s": np.float32(1),
        "z": np.array(info.min if relu else 9, codes),
    }


@pytest.mark.slow
@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    codes=st.sampled_from(["uint8", "int8"]),
    per_channel=st.booleans(),
    bias=st.booleans(),
    relu=st.booleans(),
)
def test_a_convolution_of_integers_is_a_qlinear_conv(
    tmp_path: Path, seed: int, codes: str, per_channel: bool, bias: bool, relu: bool
) -> None:
    random = np.random.default_rng(seed)
    values = constants(random, codes, "int8", per_channel=per_channel, relu=relu)
    if not bias:
        del values["b"]
    kind = {"uint8": UINT8, "int8": INT8}[codes]
    onnx_bytes = model(convolution(bias, relu), values, shape=["n", *IMAGE], outputs={"q": kind}, rank=4)
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QLinearConv"]
    images = random.uniform(-1.5, 1.5, (50, *IMAGE)).astype(np.float32)
    (theirs,), (ours,) = run(onnx_bytes, images), run(found.network.onnx_bytes, images)
    assert theirs.tobytes() == ours.tobytes()
    assert len(np.unique(ours)) > 9
    exact = found.network.layers[0].prepare()(images.reshape(50, -1))
    assert found.network.layers[1].prepare()(exact).tobytes() == ours.tobytes()


@pytest.mark.parametrize("scale", [1.0, 0.5, 4.0])
@pytest.mark.parametrize("bias", ["", "int32"])
def test_a_scale_that_is_a_power_of_two_is_part_of_the_product(tmp_path: Path, scale: float, bias: str) -> None:
    made = draw(np.random.default_rng(4), (4, 9), per_column=True, relu=True)
    more = {"s1": np.float32(scale), "m1": named(made)["m1"] * np.float32(scale / 0.05)}
    onnx_bytes = built(matmul_integer(1, bias=bias, relu=True), made, more=more)
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QGemm"]
    assert found.notes[0] == "MatMulInteger 'node_a1' to 'node_q1' is a QGemm"
    vectors = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    theirs = run(onnx_bytes, vectors)[0]
    assert theirs.tobytes() == run(found.network.onnx_bytes, vectors)[0].tobytes()
    assert len(np.unique(theirs)) > 9


def test_float_values_behind_a_product_stay(tmp_path: Path) -> None:
    nodes = [*matmul_integer(1, relu=True, end=True), node("Mul", "r1 s0", "z")]
    onnx_bytes = built(nodes, draw(np.random.default_rng(4), (4, 9)), FLOAT)
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QGemm", "Relu", "Mul"]
    vectors = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    assert run(onnx_bytes, vectors)[0].tobytes() == run(found.network.onnx_bytes, vectors)[0].tobytes()


def sums_that_round_apart() -> tuple[np.float32, np.float32, int]:
    """A factor, a scale and a sum up to 60,000 whose code depends on which is divided first."""
    random = np.random.default_rng(3)
    sums = np.arange(1, 60_000, dtype=np.float32)
    while True:
        factor, scale = random.uniform(0.0001, 0.01, 2).astype(np.float32)
        different = np.rint(sums * factor / scale) != np.rint(sums * (factor / scale))
        different &= sums * factor / scale < 120
        if different.any():
            return factor, scale, int(sums[different][0])


@pytest.mark.slow
def test_a_scale_that_would_change_a_code_keeps_its_rounding(tmp_path: Path) -> None:
    factor, scale, acc = sums_that_round_apart()
    weights = np.full((4, 1), 127, np.int8)
    bias = np.array([acc], np.int32)  # the inputs at their zero point leave this sum
    product = Product(weights, np.float32(1), np.int8(0), bias, scale, np.uint8(0))
    made = draw(np.random.default_rng(4), (4, 1)).changed(**product.__dict__)
    onnx_bytes = built(matmul_integer(1, bias="int32"), made, more={"m1": factor})
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QGemm", "QuantizeLinear"]
    [note] = found.notes
    assert "with float32 output; its QuantizeLinear stays, because the accumulator " in note
    zeros = np.zeros((1, 4), np.float32)
    assert run(onnx_bytes, zeros)[0].tobytes() == run(found.network.onnx_bytes, zeros)[0].tobytes()
    below = built(matmul_integer(1, bias="int32"), made, more={"m1": factor, "b1": bias - 2**25})
    assert "MatMulInteger 'node_a1' to 'node_q1' is a QGemm" in quantised(tmp_path, below).notes  # out of reach


def refused(folder: Path, nodes: list[onnx.NodeProto], kind: int = UINT8, **changes: Array) -> tuple[str, str]:
    values = constants(np.random.default_rng(2), "uint8", "int8", per_channel=True, relu=False) | changes
    used = {name: values[name] for entry in nodes for name in entry.input if name in values}
    return refusal(folder, model(nodes, used, shape=["n", *IMAGE], outputs={nodes[-1].output[0]: kind}, rank=4))


@pytest.mark.slow
def test_convolutions_that_would_change_are_refused(tmp_path: Path) -> None:
    factor, scale, _ = sums_that_round_apart()
    message, hint = refused(tmp_path, convolution(True, False), m=factor, s=scale)
    assert "node 'node_a' (ConvInteger): is no QLinearConv: the accumulator " in message
    assert hint.startswith("a QuantizeLinear of scale 1")
    assert "harness models quantize FLOAT.onnx --data VECTORS.npy -o NAME" in hint
    assert (
        "reads uint8 codes, and int8 codes follow" in refused(tmp_path, convolution(True, False), INT8, z=np.int8(3))[0]
    )
    assert "is not followed by QuantizeLinear" in refused(tmp_path, convolution(True, False)[:-1], FLOAT)[0]
    assert "Relu before that has an effect" in refused(tmp_path, convolution(True, True))[0]
    assert "no positive, normal float32" in refused(tmp_path, convolution(True, False), m=np.float32(-1))[0]
    wrong = np.ones((1, 1, 1, 6), np.float32)
    assert "a constant has shape (1, 1, 1, 6)" in refused(tmp_path, convolution(True, False), m=wrong)[0]


@pytest.mark.parametrize("shape", [(0, 2, 3, 3), (), (4, 2)])
def test_weights_of_no_convolution_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    message, _ = refused(tmp_path, convolution(True, False), w=np.ones(shape, np.int8))
    assert f"node 'node_a' (ConvInteger): the weights have shape {shape}" in message


def test_zero_points_that_differ_are_refused(tmp_path: Path) -> None:
    message, _ = refused(tmp_path, convolution(True, False), wz=np.arange(4, dtype=np.int8))
    assert "the zero points of w differ" in message
