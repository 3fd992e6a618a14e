"""Concat, Reshape and Flatten against ONNX Runtime, byte for byte, NaN payloads included: nothing is computed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from harness import model as networks
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.reference.runtime import OnnxRuntimeReference
from harness.reference.specification import SpecificationReference
from tests.support.builders import make_model
from tests.support.examples import examples

Array = npt.NDArray[Any]
KINDS = st.sampled_from(["uint8", "int8", "float32", "int64"])


def parse(nodes: list[onnx.NodeProto], outputs: dict[str, tuple[str, int]], width: int, **constants: Any) -> Network:
    made = make_model(nodes, constants, outputs, width=width)
    return networks.parse(made.SerializeToString(), "test")


def of_kind(kind: str) -> tuple[list[onnx.NodeProto], dict[str, Any], list[str]]:
    """Two activations of a type, of 6 values each, or of 1 index; their nodes, constants and names."""
    if kind == "float32":
        return [helper.make_node("Relu", ["x"], ["a"], name="a")], {}, ["x", "a"]
    if kind == "int64":
        nodes = [helper.make_node(name, ["x"], [name], name=name, axis=1) for name in ("ArgMax", "ArgMin")]
        return nodes, {}, ["ArgMax", "ArgMin"]
    constants = {"s": np.float32(0.1), "t": np.float32(0.2), "z": np.zeros((), kind)}
    scales = {"a": "s", "b": "t"}
    nodes = [helper.make_node("QuantizeLinear", ["x", scale, "z"], [name], name=name) for name, scale in scales.items()]
    return nodes, constants, ["a", "b"]


def assert_agree(parsed: Network, x: Array) -> Array:
    """Return the last layer's values, on which both references agree with all activations given out, and without."""
    right = SpecificationReference(parsed).activations(x)
    runtime = OnnxRuntimeReference(parsed)
    for layer, one, other in zip(parsed.layers, runtime.activations(x), right, strict=True):
        assert one.dtype == other.dtype == layer.dtype
        assert one.tobytes() == other.tobytes(), layer.name
    for name, output in runtime.given_outputs(x).items():
        layer = next(index for index, layer in enumerate(parsed.layers) if layer.output.name == name)
        assert output.tobytes() == right[layer].tobytes()
    return right[-1]


def vectors(seed: int, count: int, width: int) -> Array:
    x = np.random.default_rng(seed).uniform(-15, 15, (count, width)).astype(np.float32)
    x[::3, ::2] = -0.0
    return x


@examples(30)
@given(KINDS, st.lists(st.integers(0, 1), min_size=1, max_size=5), st.sampled_from([1, -1]), st.integers(0, 1 << 32))
def test_concat(kind: str, order: list[int], axis: int, seed: int) -> None:
    nodes, constants, names = of_kind(kind)
    read = [names[index] for index in [0, 1, *order]]
    nodes.append(helper.make_node("Concat", read, ["y"], name="y", axis=axis))
    width = (1 if kind == "int64" else 6) * len(read)
    parsed = parse(nodes, {"y": (kind, width)}, 6, **constants)
    assert (parsed.layers[-1].size, parsed.layers[-1].dtype) == (width, kind)
    assert_agree(parsed, vectors(seed, 33, 6))


SHAPES = [[-1, 6], [0, 6], [0, -1], [-1, 2, 3], [0, 2, -1], [-1, 0], [0, 0], [-1, 3, 1, 2]]


@examples(30)
@given(KINDS, st.sampled_from(SHAPES), st.booleans(), st.integers(0, 1 << 32))
def test_reshape_and_flatten(kind: str, shape: list[int], flattened: bool, seed: int) -> None:
    nodes, constants, names = of_kind(kind)
    nodes = nodes[: 1 if kind != "int64" else 2]
    size = 1 if kind == "int64" else 6
    asked = [-1, 1, 1] if kind == "int64" else shape
    source = nodes[0].output[0]
    nodes.append(helper.make_node("Reshape", [source, "shape"], ["r"], name="r"))
    outputs = {"r": (kind, size), **({names[1]: (kind, 1)} if kind == "int64" else {})}
    if flattened:
        nodes.append(helper.make_node("Flatten", ["r"], ["y"], name="y"))
        outputs = {"y": (kind, size), **{name: value for name, value in outputs.items() if name != "r"}}
    parsed = parse(nodes, outputs, 6, shape=np.array(asked, np.int64), **constants)
    last = parsed.layers[-1]
    assert last.size == size
    assert not flattened or last.output.shape == (size,)
    assert_agree(parsed, vectors(seed, 33, 6))


def test_bits_of_nan_are_kept() -> None:
    """The network refuses NaN as input, but a layer by itself copies whatever it reads."""
    x = np.array([0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x80000000], np.uint32).view(np.float32)[None]
    nodes = [helper.make_node("Concat", ["x", "x"], ["c"], axis=1), helper.make_node("Flatten", ["c"], ["y"])]
    parsed = parse(nodes, {"y": ("float32", 8)}, 4)
    assert assert_agree(parsed, x).tobytes() == np.hstack([x, x]).tobytes()


def test_elementwise_operators_take_any_shape_and_dense_ones_ask_for_vectors() -> None:
    reshape = helper.make_node("Reshape", ["x", "shape"], ["r"], name="r")
    shape = np.array([-1, 2, 3], np.int64)
    nodes = [
        reshape,
        helper.make_node("Mul", ["r", "factor"], ["p"], name="p"),
        helper.make_node("Sub", ["p", "term"], ["d"], name="d"),
        helper.make_node("QuantizeLinear", ["d", "s"], ["q"], name="q"),
    ]
    factor = np.arange(6, dtype=np.float32).reshape(2, 3) / 8
    parsed = parse(nodes, {"q": ("uint8", 6)}, 6, shape=shape, factor=factor, term=np.float32(0.5), s=np.float32(0.01))
    assert [layer.output.shape for layer in parsed.layers] == [(2, 3)] * 4
    assert_agree(parsed, vectors(1, 50, 6))
    with pytest.raises(RequestError, match=r"factor has shape \(2,\)") as caught:
        parse(nodes, {"q": ("uint8", 6)}, 6, shape=shape, factor=factor[:, 0], term=np.float32(0.5), s=np.float32(0.01))
    assert caught.value.hint == "shape (), (1,), (2, 3) or (1, 2, 3), or axes of size 1"
    select = [reshape, helper.make_node("ArgMax", ["r"], ["y"], name="y", axis=1)]
    with pytest.raises(RequestError, match=r"'y' .*input 'r' has shape \(vectors, 2, 3\)") as caught:
        parse(select, {"y": ("int64", 1)}, 6, shape=shape)
    assert caught.value.hint == "(vectors, 6): Flatten it"


REFUSED: dict[str, tuple[str, list[str], dict[str, Any], dict[str, Any], str, str]] = {
    "axis 0": ("Concat", ["x", "x"], {"axis": 0}, {}, "axis is 0", "axis 1 to 1, or -1"),
    "no axis": ("Concat", ["x", "x"], {}, {}, "axis is 0", "axis 1 to 1, or -1"),
    "two types": ("Concat", ["x", "q"], {"axis": 1}, {}, "'q' is uint8", "reads float32"),
    "a constant": (
        "Concat",
        ["x", "c"],
        {"axis": 1},
        {"c": np.ones((1, 6), np.float32)},
        "'c' is a constant",
        "another node",
    ),
    "vectors joined": (
        "Reshape",
        ["x", "c"],
        {},
        {"c": np.array([1, -1])},
        r"shape is \[1, -1\]",
        r"such as \[-1, 6\]",
    ),
    "another size": ("Reshape", ["x", "c"], {}, {"c": np.array([-1, 4])}, r"shape is \[-1, 4\]", "6 values together"),
    "not a divisor": (
        "Reshape",
        ["x", "c"],
        {},
        {"c": np.array([0, 4, -1])},
        "6 values in a vector",
        "6 values together",
    ),
    "flat": ("Reshape", ["x", "c"], {}, {"c": np.array([-1])}, r"shape is \[-1\]", "6 values together"),
    "no shape": ("Reshape", ["x", "c"], {}, {"c": np.zeros(0, np.int64)}, r"shape is \[\]", "6 values together"),
    "zeros are zeros": (
        "Reshape",
        ["x", "c"],
        {"allowzero": 1},
        {"c": np.array([0, 6])},
        r"shape is \[0, 6\]",
        "6 values",
    ),
    "computed shape": ("Reshape", ["x", "x"], {}, {}, "shape, 'x', is not constant", "initializer"),
    "flatten all": ("Flatten", ["x"], {"axis": 0}, {}, "axis is 0", "axis 1"),
    "flatten nothing": ("Flatten", ["x"], {"axis": 2}, {}, "axis is 2", "axis 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    operator, inputs, attributes, constants, message, hint = REFUSED[case]
    quantize = helper.make_node("QuantizeLinear", ["x", "s"], ["q"], name="q")
    nodes = [quantize, helper.make_node(operator, inputs, ["y"], name="last", **attributes)]
    with pytest.raises(RequestError, match=f"'last' .*{message}") as caught:
        parse(nodes, {"y": ("float32", 6), "q": ("uint8", 6)}, 6, s=np.float32(1), **constants)
    assert re.search(hint, caught.value.hint)


X = vectors(5, 20, 6)
R = np.where(X < 0, np.float32(0), X)
WRONG: dict[str, tuple[str, Callable[[], Array]]] = {
    "Concat: the other order": ("Concat", lambda: np.hstack([R, X])),
    "Concat: values interleaved": ("Concat", lambda: np.stack([X, R], axis=2).reshape(len(X), 12)),
    "Concat: vectors one after the other": ("Concat", lambda: np.vstack([X, R]).reshape(len(X), 12)),
    "Concat: the first input twice": ("Concat", lambda: np.hstack([X, X])),
    "Concat: -0 becomes 0": ("Concat", lambda: np.hstack([X, R]) + np.float32(0)),
    "Reshape: transposed": ("Reshape", lambda: X.reshape(-1, 2, 3).swapaxes(1, 2).reshape(len(X), 6)),
    "Reshape: reversed": ("Reshape", lambda: np.ascontiguousarray(X[:, ::-1])),
    "Reshape: columns first": (
        "Reshape",
        lambda: np.ascontiguousarray(X.reshape(X.shape, order="F").T).reshape(X.shape),
    ),
    "Reshape: -0 becomes 0": ("Reshape", lambda: X + np.float32(0)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variant_is_told_from_the_specification(name: str) -> None:
    operator, wrong = WRONG[name]
    if operator == "Concat":
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Concat", ["x", "r"], ["y"], axis=1)]
        right = assert_agree(parse(nodes, {"y": ("float32", 12)}, 6), X)
        assert right.tobytes() == np.hstack([X, R]).tobytes()
    else:
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
        right = assert_agree(parse(nodes, {"y": ("float32", 6)}, 6, shape=np.array([-1, 3, 2])), X)
        assert right.tobytes() == X.tobytes()
    assert wrong().tobytes() != right.tobytes()
