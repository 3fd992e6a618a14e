"""Float sums in the specified order: against Python's own float32 loop, ONNX Runtime's bound, and wrong orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import ReferenceFailed, RequestError
from harness.core.installation import ROOT
from harness.model.graph import load, parse
from harness.model.network import Network
from harness.operators import float_contraction
from harness.operators.base import Layer
from harness.operators.staged import Staged
from harness.reference import Reference, require_within_tolerance

Array = npt.NDArray[Any]


def network(node: onnx.NodeProto, constants: dict[str, Array], shape: tuple[int, ...], rank: int) -> Network:
    """A network of one node that reads x of this shape and writes y of `rank` axes."""
    graph = helper.make_graph(
        [node],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", *(None,) * (rank - 1)])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return parse(model.SerializeToString(), "one")


def gemm(rng: np.random.Generator, depth: int, width: int) -> Network:
    constants = {
        "w": rng.normal(size=(width, depth)).astype(np.float32),
        "b": rng.normal(size=width).astype(np.float32),
    }
    return network(helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1), constants, (depth,), 2)


def conv(rng: np.random.Generator, channels: int = 3) -> tuple[Network, Array, Array, dict[str, Any]]:
    """A random Conv of at most so many channels a group, with its weights, bias and attributes."""
    groups, kernel = int(rng.choice([1, 2, 3])), rng.integers(1, 4, 2)
    inputs, outputs = groups * int(rng.integers(1, 3)), groups * int(rng.integers(1, channels + 1))
    pads = [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
    attributes = {"group": groups, "strides": rng.integers(1, 4, 2).tolist(), "pads": pads,
                  "dilations": rng.integers(1, 3, 2).tolist()}  # fmt: skip
    weights = rng.normal(size=(outputs, inputs // groups, *kernel)).astype(np.float32)
    bias = rng.normal(size=outputs).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    return network(node, {"w": weights, "b": bias}, (inputs, 9, 8), 4), weights, bias, attributes


def rows(rng: np.random.Generator, depth: int, width: int, shape: tuple[int, ...]) -> tuple[Network, Array]:
    """A MatMul of each row of this shape and depth, and its weights."""
    weights = rng.normal(size=(depth, width)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return network(node, {"w": weights}, (*shape, depth), len(shape) + 2), weights


def only(model: Network) -> Layer:
    [layer] = model.layers
    return layer


@pytest.mark.parametrize("seed", range(25))
def test_many_sums_at_once_have_the_bits_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for model in (conv(rng)[0], rows(rng, 9, 4, (2, 3))[0], gemm(rng, 7, 5)):
        layer = only(model)
        x = rng.normal(size=(2, layer.input.size)).astype(np.float32)
        values = layer.prepare()(x).view(np.uint32)
        assert isinstance(layer, Staged)
        in_integers = layer.in_integers([x])
        assert in_integers is not None
        for other in (layer.program(x), in_integers):
            np.testing.assert_array_equal(values, other.view(np.uint32))


@pytest.mark.parametrize("shape", [(5,), (2, 3), (1, 4)])
def test_the_rows_of_a_matmul_are_no_pieces(shape: tuple[int, ...]) -> None:
    layer = only(rows(np.random.default_rng(0), 9, 4, shape)[0])
    assert layer.output.shape == (*shape, 4)
    assert layer.division.pieces("channels") is None


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("seed", range(30))
def test_onnx_runtime_lies_within_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth, width = int(rng.integers(1, 300)), int(rng.integers(1, 40))
    made = {
        0: lambda: gemm(rng, depth, width),
        1: lambda: conv(rng)[0],
        2: lambda: rows(rng, depth, width, (2, 3))[0],
    }
    model = made[seed % 3]()
    spread = np.ldexp(rng.uniform(-1, 1, (40, model.vector.size)), rng.integers(-30, 30, (40, model.vector.size)))
    expected = Reference(model).expected(spread.astype(np.float32))
    [ratio] = expected.ratios
    assert ratio is not None
    assert 0 <= ratio <= 1


def test_a_value_beyond_the_bound_is_refused() -> None:
    model = gemm(np.random.default_rng(0), 20, 3)
    layer, x = only(model), np.ones((1, 20), np.float32)
    right = layer.prepare()(x)
    tolerance = layer.tolerance([x], right)
    assert tolerance is not None
    host = Reference(model).host
    beyond = (right + 3 * tolerance).astype(np.float32)
    with pytest.raises(ReferenceFailed, match="further apart than the bound"):
        require_within_tolerance(model.layers, (beyond,), (right,), host, {"x": x})
    inside = (right + 0.5 * tolerance).astype(np.float32)
    [ratio] = require_within_tolerance(model.layers, (inside,), (right,), host, {"x": x})
    assert ratio is not None
    assert 0 < ratio <= 1


def test_a_sum_that_is_no_number_has_no_reference() -> None:
    model = gemm(np.random.default_rng(0), 4, 2)
    with pytest.raises(ReferenceFailed, match="no number"):
        Reference(model).expected(np.array([[np.inf, -np.inf, np.inf, np.nan]], np.float32))


@pytest.mark.parametrize("kind", ["gemm", "rows", "conv"])
def test_every_other_order_gives_other_bits(kind: str) -> None:
    rng = np.random.default_rng(1)
    if kind == "gemm":
        model = gemm(rng, 64, 16)
    elif kind == "rows":
        model, _ = rows(rng, 64, 16, (5,))
    else:
        constants = {"w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "b": rng.normal(size=4).astype(np.float32)}
        node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
        model = network(node, constants, (3, 6, 6), 4)
    layer = only(model)
    x = rng.normal(size=(20, model.vector.size)).astype(np.float32)
    absent = {"a subnormal result is flushed to zero"}
    absent |= {"the bias is left out"} if kind == "rows" else set()  # it is 0
    right, causes = layer.prepare()(x), []
    for fault in layer.fault_models(x):
        if fault.cause not in absent:
            assert (fault.output.view(np.uint32) != right.view(np.uint32)).any(), fault.cause
        causes.append(fault.cause)
    assert "multiplications and additions are contracted (FMA)" in causes
    assert "the terms are added from the last to the first" in causes
    assert "the terms are added pairwise, as a tree" in causes
    assert ("the products are added by row, column and channel (im2col)" in causes) is (kind == "conv")
    assert len(causes) == len(set(causes))


@pytest.mark.parametrize("name", ["acas_coc", "lenet5_int8", "resnet8_int8"])
def test_a_quantised_network_is_confirmed_as_a_whole_and_on_every_bit(name: str) -> None:
    model = load(ROOT / "models" / f"{name}.onnx")
    assert not any(layer.errors.has_tolerance for layer in model.layers)
    x = np.random.default_rng(0).uniform(*model.box, (3, model.vector.size)).astype(np.float32)
    assert set(Reference(model).expected(x).ratios) == {None}


def test_a_bias_of_negative_zero_counts_as_zero() -> None:
    constants = {"w": np.ones((1, 1), np.float32), "b": np.array([-0.0], np.float32)}
    layer = only(network(helper.make_node("Gemm", ["x", "w", "b"], ["y"]), constants, (1,), 2))
    assert not np.signbit(layer.prepare()(np.array([[-0.0]], np.float32))).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(value: float) -> None:
    constants = {"w": np.full((1, 1), value, np.float32)}
    with pytest.raises(RequestError, match="the weight holds"):
        network(helper.make_node("MatMul", ["x", "w"], ["y"]), constants, (1,), 2)


@pytest.mark.parametrize("wrong", [1.0, 1e-3, 1e30, np.inf])
def test_onnx_runtime_does_not_confirm_a_wrong_specification(wrong: float) -> None:
    model = gemm(np.random.default_rng(0), 20, 3)
    x = np.random.default_rng(1).normal(size=(1, 20)).astype(np.float32)
    right = only(model).prepare()(x)
    host, runtime = Reference(model).host, right
    with pytest.raises(ReferenceFailed, match="further apart than the bound"):
        require_within_tolerance(model.layers, (runtime,), ((right + wrong).astype(np.float32),), host, {"x": x})


def test_values_that_differ_without_a_finite_bound_are_refused() -> None:
    constants = {"w": np.ones((20, 3), np.float32)}
    model = network(helper.make_node("MatMul", ["x", "w"], ["y"]), constants, (20,), 2)
    x = np.full((1, 20), 3e38, np.float32)
    right = only(model).prepare()(x)
    host, other = Reference(model).host, np.where(np.isinf(right), np.float32(1), right)
    assert np.isinf(right).all()
    with pytest.raises(ReferenceFailed, match="further apart than the bound inf"):
        require_within_tolerance(model.layers, (other,), (right,), host, {"x": x})


@pytest.mark.parametrize("width", [1, 2, 3, 129])
def test_sums_of_columns_have_the_same_bits_in_blocks(width: int) -> None:
    weights = np.random.default_rng(width).normal(size=(20_000, width)).astype(np.float32)
    sums = np.abs(weights.astype(np.float64)).sum(axis=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(float_contraction, "BLOCK", 1 << 16)
        assert float_contraction._absolute_sums(weights).tobytes() == sums.tobytes()
