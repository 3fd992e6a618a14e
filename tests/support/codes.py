"""Nodes that read codes: as layers of harness, and alone in ONNX Runtime, with codes as inputs of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from harness import operators
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.model.onnx_runtime.hostcheck import Defect, check_host
from harness.model.onnx_runtime.values import computed
from harness.operators.base import Layer
from harness.operators.exact.integers import of_stages
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import program
from harness.operators.node import NEWEST_OPSET, Node
from harness.operators.product import are_small
from harness.operators.tensor import SHORT, Tensor
from tests.support.builders import IR_VERSION, OPSET, make_model
from tests.support.programs.board_program import parse

COUNTS = [50, pytest.param(2000, marks=pytest.mark.campaign)]
"""Random configurations of an operator: in the suite, in a campaign."""


def node(operator: str, *inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node of this operator; most that begin with QLinear are those of ONNX Runtime."""
    of_onnx = operator in ("QLinearConv", "QLinearMatMul") or not operator.startswith("QLinear")
    domain = "" if of_onnx else "com.microsoft"
    return helper.make_node(operator, list(inputs), [output], name=output, domain=domain, **attributes)


def pooled_with_zeros(weights: Array) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """Nodes and constants of a MaxPool of images with zeros around them, 4 x 3 values of x times float32 weights."""
    around = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    return [
        node("MatMul", "x", "w", output="dense"),
        node("Reshape", "dense", "image", output="images"),
        node("Pad", "images", "around", output="padded"),
        node("MaxPool", "padded", output="pooled", kernel_shape=[2, 2]),
        node("Flatten", "pooled", output="y"),
    ], {"w": weights, "image": np.array([-1, 1, 4, 3], np.int64), "around": around}


def layer_of(
    proto: onnx.NodeProto, constants: Mapping[str, Any], inputs: Mapping[str, Array], position: int = 0
) -> Layer:
    """The layer of the output at `position`, which reads activations like these inputs, (vectors, *shape)."""
    tensors = {name: Tensor(name, values.shape[1:], values.dtype) for name, values in inputs.items()}
    values = {name: np.asarray(value) for name, value in constants.items()}
    operator = operators.of_node(proto)
    assert operator is not None
    return operator.read(Node("test", proto, proto.name, values, tensors, position))


def runtime(
    proto: onnx.NodeProto,
    constants: Mapping[str, Any],
    inputs: Mapping[str, Array],
    *,
    optimised: bool = True,
    precise: bool = False,
) -> Array:
    """The first output of ONNX Runtime, (vectors, *shape)."""
    return outputs_of(proto, constants, inputs, optimised=optimised, precise=precise)[0]


def outputs_of(
    proto: onnx.NodeProto,
    constants: Mapping[str, Any],
    inputs: Mapping[str, Array],
    *,
    optimised: bool = True,
    precise: bool = False,
) -> list[Array]:
    """All outputs of ONNX Runtime, (vectors, *shape) each; with `precise` also without VNNI, see sessions.session."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if precise:
        options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    is_new = any(values.dtype in SHORT for values in inputs.values()) or proto.op_type == "Cast"
    content = model_of(proto, constants, inputs, NEWEST_OPSET if is_new else OPSET).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return computed(session, None, inputs)


def model_of(
    proto: onnx.NodeProto, constants: Mapping[str, Any], inputs: Mapping[str, Array], opset: int = OPSET
) -> onnx.ModelProto:
    """A model of one node with all its activations as inputs."""
    graph = helper.make_graph(
        [proto],
        "node",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(values.dtype), [None, *values.shape[1:]]
            )
            for name, values in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in proto.output],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def specified(layer: Layer, inputs: Mapping[str, Array]) -> Array:
    """The output of the specification, (vectors, size)."""
    found: Array = layer.prepare()(*(inputs[name].reshape(len(inputs[name]), -1) for name in layer.sources))
    return found


@cache
def products_saturate() -> bool:
    """Return whether this processor's kernels saturate sums of products of uint8 with int8."""
    return Defect.SATURATION in dict(check_host().defects).values()


def require_exact_products() -> None:
    """Skip a test of models that ONNX Runtime computes wrongly on this processor, whatever its options."""
    if products_saturate():
        pytest.skip("ONNX Runtime's sums of uint8 codes with int8 weights saturate on this processor: it has no VNNI")


def assert_agree(proto: onnx.NodeProto, constants: Mapping[str, Any], inputs: Mapping[str, Array]) -> Layer | None:
    """ONNX Runtime and the specification agree, optimised or not; None for a node that is refused.

    Without VNNI, sums of uint8 codes with int8 weights have to be precise, which only an optimised session is.
    """
    try:
        layer = layer_of(proto, constants, inputs)
    except RequestError:
        return None
    found = specified(layer, inputs)
    assert found.dtype == layer.dtype
    [first, *_] = inputs.values()
    if layer.sums is not None:
        sums, x = layer.sums, first.reshape(len(first), -1)
        definition = Program(program(sums.requantized(sums.summed())), sums.numbers())
        assert definition(x).tobytes() == found.tobytes()
        assert of_stages(definition, [x[:2]]).tobytes() == found[:2].tobytes()
    precise = layer.sums is not None and first.dtype == np.uint8 and products_saturate()
    is_signed = precise and layer.weights.dtype == np.int8
    if is_signed and proto.op_type == "QLinearMatMul" and not are_small(layer.weights):
        return layer  # nothing to compare with: its sums saturate whatever the options
    for optimised in (True,) if precise else (True, False):
        right = runtime(proto, constants, inputs, optimised=optimised, precise=precise)
        assert right.shape[1:] == layer.output.shape
        right = right.reshape(found.shape)
        assert found.tobytes() == right.tobytes(), (optimised, np.argwhere(found != right)[:3])
    return layer


def assert_agree_at_random(check: Callable[[np.random.Generator], object], count: int) -> None:
    """Check so many random configurations."""

    @settings(max_examples=count, deadline=None)
    @given(st.integers(0, (1 << 32) - 1))
    def at_random(seed: int) -> None:
        check(np.random.default_rng(seed))

    at_random()


def random_dtype(rng: np.random.Generator) -> np.dtype[Any]:
    return np.dtype(rng.choice(["uint8", "int8"]))


def random_scales(rng: np.random.Generator, count: int) -> Array:
    """Scales of one kind: any, of many magnitudes, powers of two, and ratios of small integers, for ties."""
    kind = rng.integers(5)
    if kind == 0:
        return rng.uniform(0.001, 0.1, count).astype(np.float32)
    if kind == 1:
        return np.exp(rng.uniform(-8, 8, count)).astype(np.float32)
    if kind == 2:
        return np.exp2(rng.integers(-8, 4, count)).astype(np.float32)
    if kind == 3:
        return np.float32(rng.uniform(0.001, 0.1)) * np.exp2(rng.integers(-3, 3, count)).astype(np.float32)
    return (rng.integers(1, 40, count) / rng.integers(1, 40)).astype(np.float32)


def random_zero_points(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Zero points anywhere, or at an end of the codes or 0."""
    limits = np.iinfo(dtype)
    anywhere = rng.integers(limits.min, limits.max + 1, count)
    return np.where(rng.random() < 0.7, anywhere, rng.choice([limits.min, limits.max, 0], count)).astype(dtype)


def random_codes(rng: np.random.Generator, dtype: np.dtype[Any], *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def every_pair(rng: np.random.Generator, dtype: np.dtype[Any], size: int) -> tuple[Array, Array]:
    """All pairs of codes in a random order, (vectors, size) each."""
    numbers = rng.permutation(1 << 16)
    numbers = np.resize(numbers, -(-len(numbers) // size) * size).reshape(-1, size)
    return (numbers >> 8).astype(np.uint8).view(dtype), (numbers & 255).astype(np.uint8).view(dtype)


def count_pairs(first: Array, second: Array) -> int:
    """Return how many pairs of codes (n,), uint8, are in the same places of both arrays."""
    occurs = np.zeros(1 << 16, np.bool_)
    occurs[first.astype(np.uint16) << 8 | second] = True
    return int(np.count_nonzero(occurs))


def every_code(rng: np.random.Generator, dtype: np.dtype[Any], size: int) -> Array:
    """All codes at every place, (256, size)."""
    return np.stack([rng.permutation(256) for _ in range(size)], axis=1).astype(np.uint8).view(dtype)


def every_operator(dtype: str, width: int, scales: tuple[float, float, float] = (0.1, 0.0625, 0.17)) -> Network:
    """A network with all elementwise operators on codes of one type."""
    shift = 0 if dtype == "uint8" else -128
    constants = {
        "one": np.float32(1),
        **dict(zip("stu", map(np.float32, scales), strict=True)),
        "z": np.array(100 + shift, dtype),
        "w": np.array(141 + shift, dtype),
        "row": np.arange(width).astype(np.uint8).view(dtype) * np.array(3, dtype),
        "number": np.array(77, dtype),
    }
    first, second, result = ["q", "s", "z"], ["leaky", "t", "w"], ["u", "z"]
    nodes = [
        node("QuantizeLinear", "x", "one", "z", output="q"),
        node("QLinearLeakyRelu", *first, *second[1:], output="leaky", alpha=0.3),
        node("QLinearSigmoid", *first, "t", "w", output="sigmoid"),
        node("QLinearAdd", *first, *second, *result, output="sum"),
        node("QLinearAdd", "row", "t", "w", *first, *result, output="row_sum"),
        node("QLinearAdd", *first, "number", "t", "w", *result, output="number_sum"),
        node("QLinearAdd", "number", "t", "w", *first, *result, output="exchanged_sum"),
        node("QLinearMul", *first, *second, *result, output="product"),
        node("QLinearMul", "row", "t", "w", *first, *result, output="row_product"),
    ]
    bounds = {"low": np.array(20 + shift, dtype), "high": np.array(200 + shift, dtype)}
    nodes += [
        node("Clip", "q", "low", "high", output="clipped"),
        node("Clip", "leaky", "", "high", output="clipped_above"),
        *([node("Relu", "q", output="rectified")] if dtype == "int8" else []),
    ]
    nodes += [
        node("QLinearConcat", "t", "w", *first, *second, *first, output="joined", axis=1),
        node("QLinearConcat", "s", "z", *first, output="copied", axis=-1),
    ]
    softmax = node("QLinearSoftmax", *first, "v", "w", output="softmax", axis=-1, opset=13)
    nodes.append(softmax)
    constants |= bounds | {"v": np.float32(1 / 127)}
    outputs = [each.output[0] for each in nodes[2:]]
    widths = {name: (dtype, 3 * width if name == "joined" else width) for name in outputs}
    return parse(make_model(nodes, constants, widths, width=width, metadata=None))
