"""Networks with several inputs: vectors as records, boxes, and what needs a single float input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from harness.core.errors import RequestError
from harness.model import parse
from harness.model.network import Network
from tests.support import inputs
from tests.support.builders import make_model


@pytest.fixture(scope="module")
def network() -> Network:
    return parse(inputs.every_type().SerializeToString(), "inputs")


def values_of(network: Network, count: int = 50) -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        tensor.name: random.integers(0, 2, (count, tensor.size)).astype(tensor.dtype)
        if tensor.dtype == np.bool_
        else np.frombuffer(random.bytes(count * tensor.size * tensor.dtype.itemsize), tensor.dtype).reshape(count, -1)
        for tensor in network.inputs
    }


def with_box(low: dict[str, float], high: dict[str, float]) -> bytes:
    model = inputs.every_type()
    ends = (
        [given.get(name, inputs.BOX[name][end]) for name in inputs.SIZES for _ in range(inputs.SIZES[name])]
        for end, given in enumerate((low, high))
    )
    helper.set_model_props(model, dict(zip(("input_box_low", "input_box_high"), map(json.dumps, ends), strict=True)))
    return bytes(model.SerializeToString())


def test_inputs_have_their_names_types_and_shapes_in_the_order_of_the_file(network: Network) -> None:
    assert [(tensor.name, str(tensor.dtype), tensor.shape) for tensor in network.inputs] == [
        ("x", "float32", (6,)), ("s", "float32", (4,)), ("k", "bool", (4,)), ("c", "uint8", (4,)),
        ("i", "int64", (3,)), ("t", "float32", (4,)),
    ]  # fmt: skip
    assert network.record.itemsize == (6 + 4 + 4) * 4 + 4 + 4 + 3 * 8 == network.vector.size
    assert network.vector.dtype == np.uint8


def test_vectors_are_the_bytes_of_all_values_one_behind_the_other(network: Network) -> None:
    values = values_of(network)
    vectors = network.vectors(values)
    rows = [b"".join(values[tensor.name][row].tobytes() for tensor in network.inputs) for row in range(50)]
    assert (vectors.shape, vectors.tobytes()) == ((50, network.vector.size), b"".join(rows))
    for name, array in network.values(vectors).items():
        assert (array.dtype, array.shape, array.tobytes()) == (
            values[name].dtype, values[name].shape, values[name].tobytes(),
        )  # fmt: skip
    some = network.values(vectors[7:9])
    assert all(np.ascontiguousarray(some[name]).tobytes() == values[name][7:9].tobytes() for name in some)


def test_the_only_input_is_the_vector_itself() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    network = parse(make_model([node], {}, {"y": ("float32", 3)}, width=3).SerializeToString(), "one")
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (network.vector, network.float_input("this")) == (network.inputs[0], network.inputs[0])
    assert network.values(vectors)["x"] is vectors
    assert network.vectors({"x": vectors}) is vectors


def test_the_box_has_the_bounds_of_each_input_in_its_type(network: Network) -> None:
    box = network.values(network.box)
    assert {name: tuple(bounds[:, 0].tolist()) for name, bounds in box.items()} == {
        **inputs.BOX, "k": (False, True),
    }  # fmt: skip
    assert network.numbers(network.box)[0].tolist() == [inputs.BOX[name][0] for name, _ in network.places]


def test_without_a_box_integers_have_all_values_of_their_type() -> None:
    model = inputs.every_type()
    del model.metadata_props[:]
    network = parse(model.SerializeToString(), "inputs")
    box = network.values(network.box)
    assert box["i"][:, 0].tolist() == [-(2**63), 2**63 - 1]
    assert (box["c"][:, 0].tolist(), box["k"][:, 0].tolist()) == ([0, 255], [False, True])
    assert box["x"][:, 0].tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ({"c": -1}, {}, "the input box of 'c' is"),
        ({}, {"c": 256}, "the input box of 'c' is"),
        ({"i": 0.5}, {}, "the input box of 'i' is"),
        ({"s": 3}, {}, "the input box is"),
    ],
)
def test_bounds_that_a_type_does_not_have_are_refused(
    low: dict[str, float], high: dict[str, float], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        parse(with_box(low, high), "inputs")


def test_features_of_one_float_input_name_the_inputs_of_the_network(network: Network) -> None:
    with pytest.raises(
        RequestError, match=r"--stream needs .* one float32 input; this one has 'x' \(float32 6\)"
    ) as no:
        network.float_input("--stream")
    assert "harness run" in no.value.hint


def test_an_input_that_no_node_reads_is_part_of_the_vectors() -> None:
    model = inputs.every_type()
    model.graph.input.append(helper.make_tensor_value_info("idle", onnx.TensorProto.FLOAT, ["n", 2]))
    del model.metadata_props[:]
    network = parse(model.SerializeToString(), "inputs")
    assert network.values(network.box)["idle"].tolist() == [[-1, -1], [1, 1]]
    assert network.readers_of(network.inputs[-1]) == ()
