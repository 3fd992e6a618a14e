"""Operators that choose values against ONNX Runtime, which computes their functions: bits, faults, refusals, bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from harness import operators
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.transforms.edit import declare_functions
from harness.operators.base import Layer
from harness.operators.float_errors import Perturbed
from harness.operators.node import Node
from harness.operators.scatter_elements import REDUCTIONS
from harness.operators.selection import TYPES, Selection
from harness.operators.tensor import Tensor
from tests.support.codes import assert_agree_at_random, model_of, node, outputs_of

K = 4
"""Places of the axis."""


def of_harness(operator: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, ["y"], "y", domain="harness", **attributes)


def in_runtime(proto: onnx.NodeProto, constants: Mapping[str, Array], inputs: Mapping[str, Array]) -> Array:
    model = model_of(proto, constants, inputs)
    model.opset_import.append(helper.make_opsetid("harness", 1))
    declare_functions(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [y] = session.run(None, dict(inputs))
    return np.asarray(y)


def layer_of(
    proto: onnx.NodeProto,
    constants: Mapping[str, Array],
    inputs: Mapping[str, Array],
    limits: tuple[float, float] = (-K, K - 1),
    position: int = 0,
) -> Layer:
    """The layer of a node whose index is within the limits."""
    tensors = {name: Tensor(name, values.shape[1:], values.dtype, 1e30, True) for name, values in inputs.items()}
    operator = operators.of_node(proto)
    assert operator is not None
    bounds = lambda name: limits if name == "index" else (-1e30, 1e30)  # noqa: E731 - of one test
    return operator.read(Node("test", proto, "y", dict(constants), tensors, position, bounds=bounds))


def values(rng: np.random.Generator, dtype: np.dtype[Any], *shape: int) -> Array:
    """Values of which some are equal."""
    return rng.integers(-3, 4, shape).astype(dtype) * dtype.type(rng.choice([1, 1000]))


def rows(inputs: Mapping[str, Array], layer: Layer) -> list[Array]:
    return [inputs[name].reshape(len(inputs[name]), -1) for name in layer.sources]


def random_selection(
    rng: np.random.Generator, reduction: str | None
) -> tuple[onnx.NodeProto, dict[str, Array], set[str]]:
    """A GatherElements, or a ScatterElements with this reduction: its inputs, and the names of those to be constant."""
    outer, m, inner = (int(size) for size in rng.integers(1, 4, 3))
    is_float = reduction in ("add", "mul") or rng.random() < 0.5
    dtype = np.dtype(np.float32) if is_float else TYPES[rng.integers(1, len(TYPES))]
    outer_of_index, inner_of_index = (int(rng.choice([1, size])) for size in (outer, inner))
    tensors = {
        "data": values(rng, dtype, 3, outer, K, inner),
        "index": rng.integers(-K, K, (3, outer_of_index, m, inner_of_index)).astype(dtype),
    }
    if reduction is None:
        constant = {"data"} if rng.random() < 0.3 else set()
        if constant:
            tensors["index"] = tensors["index"].astype(rng.choice(["int32", "int64"]))
        return of_harness("GatherElements", "data", "index"), tensors, constant
    tensors["updates"] = values(rng, dtype, 3, outer, m, inner)
    constant = {name for name in tensors if rng.random() < 0.4}
    constant = set() if len(constant) == len(tensors) else constant
    return of_harness("ScatterElements", *tensors, reduction=reduction), tensors, constant


def agree(rng: np.random.Generator, reduction: str | None) -> None:
    proto, tensors, constant = random_selection(rng, reduction)
    constants = {name: tensors.pop(name)[:1] for name in constant}
    layer = layer_of(proto, constants, tensors)
    result, right = layer.prepare()(*rows(tensors, layer)), in_runtime(proto, constants, tensors)
    assert right.dtype == result.dtype
    assert np.array_equal(right.reshape(result.shape), result)  # zeros of either sign are equal
    assert isinstance(layer, Selection)
    assert layer.program(*rows(tensors, layer)).tobytes() == result.tobytes()
    integers = layer.in_integers(rows(tensors, layer))
    assert integers is not None
    assert integers.tobytes() == result.tobytes()


@pytest.mark.parametrize("reduction", [None, *REDUCTIONS])
@pytest.mark.parametrize("count", [8, pytest.param(1000, marks=pytest.mark.campaign)])
def test_values_at_indices_are_those_of_onnx_runtime(count: int, reduction: str | None) -> None:
    assert_agree_at_random(lambda rng: agree(rng, reduction), count)


def test_an_index_that_is_no_place_reads_nothing() -> None:
    data, index = np.arange(1, 5, dtype=np.int64).reshape(1, 1, 4, 1), np.array([4, -5, 2**40, -(2**63)])
    tensors = {"data": data, "index": index.reshape(1, 1, 4, 1)}
    layer = layer_of(of_harness("GatherElements", *tensors), {}, tensors)
    assert layer.prepare()(*rows(tensors, layer)).tolist() == [[0, 0, 0, 0]]
    broken = {name: np.float32([0.5, np.nan, -1.5, np.inf]).reshape(1, 1, 4, 1) for name in tensors}
    layer = layer_of(of_harness("GatherElements", *broken), {}, broken)
    assert isinstance(layer, Selection)
    for evaluate in (layer.prepare(), layer.program):
        assert evaluate(*rows(broken, layer)).tolist() == [[0, 0, 0, 0]]
    tensors["updates"] = np.full((1, 1, 4, 1), 9)
    layer = layer_of(of_harness("ScatterElements", *tensors), {}, tensors)
    assert layer.prepare()(*rows(tensors, layer)).tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin", "TopK"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_ranks_are_those_of_onnx_runtime(operator: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = values(rng, np.dtype(dtype), 20, 2, 5, 3)
    for axis, flag in [(1, 0), (2, 1), (-1, 0), (-2, 1)]:
        constants = {"k": np.array([2])} if operator == "TopK" else {}
        flags = {"largest": flag} if operator == "TopK" else {"select_last_index": flag, "keepdims": flag}
        proto = node(operator, "x", *constants, axis=axis, **flags)
        if operator == "TopK":
            proto.output.append("places")
        for position, right in enumerate(outputs_of(proto, constants, {"x": x})):
            layer = layer_of(proto, constants, {"x": x}, position=position)
            result = layer.prepare()(x.reshape(20, -1))
            assert layer.output.shape == right.shape[1:]
            assert result.dtype == right.dtype
            assert np.array_equal(result.reshape(right.shape), right)


def faulty(name: str) -> tuple[Layer, dict[str, Array]]:
    """A layer and inputs for which its faults are visible."""
    rng = np.random.default_rng(1)
    if name in ("ArgMax", "TopK"):
        x = rng.integers(0, 3, (40, 2, 5, 3)).astype(np.float32) - 1
        constants = {"k": np.array([2])} if name == "TopK" else {}
        proto = node(name, "data", *constants, axis=2)
        proto.output.extend(["places"] if name == "TopK" else [])
        return layer_of(proto, constants, {"data": x}), {"data": x}
    few = name in ("max", "min")
    numbers = rng.choice([0, -0.0, 1, 2, -1, 3, -2], (2, 40, 2, 5, 3)) if few else rng.normal(size=(2, 40, 2, 5, 3))
    first, second = numbers.astype(np.float32)
    data = {"data": first[:, :, :K], "index": rng.integers(-K, K, (40, 2, 5, 3)).astype(np.float32)}
    if name == "GatherElements":
        return layer_of(of_harness(name, *data), {}, data), data
    data["updates"] = second
    return layer_of(of_harness("ScatterElements", *data, reduction=name), {}, data), data


@pytest.mark.parametrize("name", ["ArgMax", "TopK", "GatherElements", *REDUCTIONS])
def test_every_fault_model_changes_some_values(name: str) -> None:
    layer, inputs = faulty(name)
    right = layer.prepare()(*rows(inputs, layer))
    causes = []
    for model in layer.fault_models(*rows(inputs, layer)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) > 2


def test_values_with_errors_are_within_the_distance() -> None:
    rng = np.random.default_rng(2)
    for name in ("GatherElements", "none", "max"):
        layer, inputs = faulty(name)
        sources = rows(inputs, layer)
        errors = [np.full(x.shape, 0.25 * (place != 1)) for place, x in enumerate(sources)]
        output = layer.prepare()(*sources)
        bound = layer.errors.propagated(Perturbed(sources, errors, output))
        others = [x + rng.uniform(-1, 1, x.shape).astype(np.float32) * error.astype(np.float32)
                  for x, error in zip(sources, errors, strict=True)]  # fmt: skip
        assert (np.abs(layer.prepare()(*others) - output) <= bound).all()
        assert bound.max() == 0.25


@pytest.mark.parametrize(
    ("limits", "attributes", "shape", "message"),
    [
        ((-5, 3), {}, (1, 1, 2, 1), "an index can be from -5 to 3, and the axis has 4 places; indices from -4 to 3"),
        ((0, 4), {}, (1, 1, 2, 1), "an index can be from 0 to 4"),
        ((0, 3), {}, (1, 3, 2, 1), "data and indices have shapes (2, 4, 1) and (3, 2, 1)"),
        ((0, 3), {"reduction": "mean"}, (1, 1, 2, 1), "reduction 'mean'"),
    ],
)
def test_refusal_names_the_node_and_what_is_accepted(
    limits: tuple[float, float], attributes: dict[str, Any], shape: tuple[int, ...], message: str
) -> None:
    inputs = {"data": np.ones((1, 2, K, 1), np.float32), "index": np.zeros(shape, np.float32)}
    inputs["updates"] = np.ones((1, 2, 2, 1), np.float32)
    with pytest.raises(RequestError) as caught:
        layer_of(of_harness("ScatterElements", *inputs, **attributes), {}, inputs, limits)
    assert message in f"{caught.value}; {caught.value.hint}"


@pytest.mark.parametrize("count", [0, 6])
def test_top_k_refuses_more_values_than_the_axis_has(count: int) -> None:
    proto = node("TopK", "x", "k")
    with pytest.raises(RequestError, match=f"k is {count}"):
        layer_of(proto, {"k": np.array([count])}, {"x": np.ones((2, 5), np.float32)})
