"""Random chains of convolutions and poolings of every form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.network import Network
from tests.support.programs.board_program import parse

LARGEST = 5000
"""Values of a layer."""


def random_convolutions(rng: np.random.Generator, axes: int, activations: str, weights: str, layers: int) -> Network:
    """Groups, strides, dilations, padding and zero points of all kinds; a MaxPool after the first convolution."""
    constants: dict[str, Array] = {}
    limits = np.iinfo(activations)

    def constant(name: str, value: Any) -> str:
        constants[name] = np.asarray(value)
        return name

    def affine(name: str) -> list[str]:
        zero_point = np.array(rng.integers(limits.min, limits.max + 1), activations)
        return [constant(f"{name}_scale", np.float32(0.02)), constant(f"{name}_zero", zero_point)]

    shape = (int(rng.integers(1, 9)), *(int(rng.integers(8, 24)) for _ in range(axes)))
    channels, sizes, tensor, codes = shape[0], list(shape[1:]), "codes", affine("x")
    nodes = [helper.make_node("QuantizeLinear", ["x", *codes], [tensor], name="quantise")]
    for layer in range(layers):
        window, outputs = _window(rng, sizes)
        name, middle = f"conv_{layer}", 128 if weights == "uint8" else 0
        groups = int(rng.choice([each for each in range(1, channels + 1) if channels % each == 0]))
        share = int(rng.integers(1, max(2, min(40, LARGEST // math.prod(outputs)) // groups + 1)))
        of_weights = (groups * share, channels // groups, *window["kernel_shape"])
        scale = rng.uniform(0.5, 1.5, of_weights[0]) / (50 * math.sqrt(math.prod(of_weights[1:])))
        inputs = [
            constant(f"{name}_w", rng.integers(middle - 128, middle + 128, of_weights).astype(weights)),
            constant(f"{name}_w_scale", scale.astype(np.float32)),
            constant(f"{name}_w_zero", np.array(middle + layer % 2 * rng.integers(-9, 10), weights)),
            *affine(name),
            constant(f"{name}_bias", rng.integers(-3000, 3000, of_weights[0]).astype(np.int32)),
        ]
        nodes.append(helper.make_node("QLinearConv", [tensor, *codes, *inputs], [name], name, group=groups, **window))
        tensor, codes, channels, sizes = name, inputs[3:5], of_weights[0], outputs
        if layer == 0:
            kernel = [min(size, 3) for size in sizes]
            pads = [1 if size > 1 else 0 for size in sizes] * 2
            nodes.append(
                helper.make_node(
                    "MaxPool", [tensor], ["pool"], "pool", kernel_shape=kernel, strides=[2] * axes, pads=pads
                )
            )
            tensor = "pool"
            sizes = [(size + 2 * pad - k) // 2 + 1 for size, pad, k in zip(sizes, pads, kernel, strict=False)]
    made = helper.make_tensor_value_info(tensor, helper.np_dtype_to_tensor_dtype(limits.dtype), ["n", channels, *sizes])
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "convolutions", [given], [made], stored)
    return parse(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def _window(rng: np.random.Generator, sizes: list[int]) -> tuple[dict[str, list[int]], list[int]]:
    """Return the attributes of a window that fits, and the sizes of its output."""
    axes = len(sizes)

    def sometimes(usual: int, low: int, high: int, count: int) -> list[int]:
        return [usual] * count if rng.random() < 0.4 else [int(each) for each in rng.integers(low, high, count)]

    while True:
        kernel, strides, dilations = sometimes(1, 1, 6, axes), sometimes(1, 1, 4, axes), sometimes(1, 1, 4, axes)
        pads = sometimes(0, 0, 3, 2 * axes)
        outputs = [
            (size + pads[axis] + pads[axis + axes] - (kernel[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
            for axis, size in enumerate(sizes)
        ]
        if min(outputs) > 0:
            return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}, outputs
