"""Nodes of float32 against ONNX Runtime and ONNX's reference evaluator, within the tolerance of the layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from harness import operators
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.node import Node
from harness.operators.tensor import Tensor
from tests.support.codes import model_of, runtime, specified

SPECIAL = np.array([0, 1, 0x007FFFFF, 0x00800000, 0x1F800000, 0x3F800000, 0x3F800001, 0x7F7FFFFF], np.uint32)
SPECIAL = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.float32)
"""Zeros, subnormal numbers, ones and the largest numbers, with both signs."""


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers of one kind: near 1, of all magnitudes, special, or of few values, so that zeros and equals meet."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.normal(0, 1, shape).astype(np.float32)
    if kind == 1:
        bits = rng.integers(0, 0x7F800000, shape, dtype=np.uint32) | rng.integers(0, 2, shape, dtype=np.uint32) << 31
        return bits.astype(np.uint32).view(np.float32)
    return rng.choice(SPECIAL if kind == 2 else np.float32([0, -0.0, -1, 1, 3]), shape)


def read_node(
    proto: onnx.NodeProto,
    constants: Mapping[str, Any],
    inputs: Mapping[str, Array],
    *,
    bound: float = math.inf,
    least: float = 0.0,
) -> Layer:
    """The layer of a node whose activations have values with magnitudes from `least` to `bound`."""
    tensors = {name: Tensor(name, x.shape[1:], x.dtype, bound, True, least) for name, x in inputs.items()}
    operator = operators.of_node(proto)
    assert operator is not None
    values = {name: np.asarray(value) for name, value in constants.items()}
    return operator.read(Node("test", proto, proto.name, values, tensors))


def assert_within(
    proto: onnx.NodeProto,
    constants: Mapping[str, Any],
    inputs: Mapping[str, Array],
    *,
    evaluator: bool = True,
    bound: float = math.inf,
) -> Layer | None:
    """ONNX Runtime, optimised or not, and the evaluator lie within the tolerance; None for a node that is refused."""
    try:
        layer = read_node(proto, constants, inputs, bound=bound)
    except RequestError:
        return None
    output = specified(layer, inputs)
    assert output.dtype == layer.dtype
    assert not np.isnan(output).any()
    assert (np.abs(output) <= layer.output.bound).all()
    assert layer.output.negative_zero or not np.signbit(output[output == 0]).any()
    sources = [inputs[name].reshape(len(inputs[name]), -1) for name in layer.sources]
    tolerance = layer.tolerance(sources, output)
    found = {f"optimised: {each}": runtime(proto, constants, inputs, optimised=each) for each in (True, False)}
    if evaluator:
        with np.errstate(all="ignore"):
            found["evaluator"] = ReferenceEvaluator(model_of(proto, constants, inputs)).run(None, dict(inputs))[0]
    for name, other in found.items():
        assert other.shape[1:] == layer.output.shape, name
        flat = other.reshape(output.shape)
        if tolerance is None:
            assert flat.tobytes() == output.tobytes(), (name, np.argwhere(flat != output)[:3])
        else:
            wrong = outside(flat, output, tolerance)
            assert not wrong.any(), (name, np.argwhere(wrong)[:3], flat[wrong][:3], output[wrong][:3])
    return layer


def outside(found: Array, output: Array, tolerance: Array) -> Array:
    """Return where values are further from the output than the tolerance, bool."""
    with np.errstate(invalid="ignore"):  # infinities that are equal
        distance = np.abs(found.astype(np.float64) - output)
    wrong: Array = ~((found == output) | (distance <= tolerance) | np.isinf(tolerance))
    return wrong
