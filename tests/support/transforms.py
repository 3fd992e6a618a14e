"""Float networks for transforms: each part is there or not, at random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array

OPSET = 17


@dataclass
class Chain:
    """A network under construction: every node reads the result of the one before it."""

    tensor: str = "x"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def add(self, operator: str, *constants: Any, first: bool = True, **attributes: Any) -> str:
        """Add a node, which reads the chain as its first or its last input, and return its name."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        given = [f"{name}/{place}" for place in range(len(constants))]
        self.constants |= {key: np.asarray(value) for key, value in zip(given, constants, strict=True)}
        inputs = [self.tensor, *given] if first else [*given, self.tensor]
        self.tensor = f"{name}:out"
        self.nodes.append(helper.make_node(operator, inputs, [self.tensor], name, **attributes))
        return name

    def model(self, shape: tuple[int, ...], *outputs: str, metadata: dict[str, str] | None = None) -> onnx.ModelProto:
        """The network with an input of this shape; the outputs are the tensors named and the last one."""
        names = dict.fromkeys([*outputs, self.tensor])
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["vectors", *shape])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
            [numpy_helper.from_array(values, name) for name, values in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        helper.set_model_props(model, metadata or {})
        return onnx.shape_inference.infer_shapes(model)


def floats(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normal numbers."""
    return (rng.normal(size=shape) * scale).astype(np.float32)


def statistics(rng: np.random.Generator, channels: int) -> tuple[Array, ...]:
    """Scale, B, mean and variance of a BatchNormalization."""
    scale, offset, mean, variance = floats(rng, 4, channels)
    return scale, offset, mean, np.abs(variance) + np.float32(0.01)


def random_network(rng: np.random.Generator) -> onnx.ModelProto:
    """Normalisation, Conv, BatchNormalization, Relu, Dropout, reshapes, a dense layer, BatchNormalization, Identity."""
    chain, groups = Chain(), int(rng.integers(1, 3))
    channels, width = groups * int(rng.integers(1, 3)), groups * int(rng.integers(1, 4))
    per_channel = (1, channels, 1, 1) if rng.integers(2) else (channels, 1, 1)
    chain.add("Sub", floats(rng, *per_channel))
    chain.add(("Mul", "Div")[rng.integers(2)], np.abs(floats(rng, *per_channel)) + np.float32(0.1))
    bias = [floats(rng, width)] if rng.integers(2) else []
    chain.add("Conv", floats(rng, width, channels // groups, 3, 2), *bias, group=groups, strides=[1, 2])
    chain.add("BatchNormalization", *statistics(rng, width), epsilon=float(rng.choice([1e-5, 1e-2])))
    chain.add("Dropout")
    size = width * 4 * 3
    if rng.integers(2):
        chain.add("Reshape", np.array([-1, 2, size // 2]))
    chain.add("Relu")
    chain.add("Flatten")
    if rng.integers(2):
        chain.add("Unsqueeze", np.array([1]))
        chain.add("Squeeze", np.array([1]))
    outputs = int(rng.integers(1, 6))
    if rng.integers(2):
        chain.add("MatMul", floats(rng, size, outputs, scale=0.2))
    else:
        weights = floats(rng, outputs, size, scale=0.2)
        chain.add("Gemm", weights, floats(rng, 1, outputs), transB=1, alpha=0.3, beta=1.7)
    chain.add("BatchNormalization", *statistics(rng, outputs))
    chain.add("Identity")
    return chain.model((channels, 6, 6), metadata={"description": "random"})
