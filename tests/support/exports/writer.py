"""A writer of graphs that names and orders nodes as exporters do, and the layers of which networks consist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array

FLOAT, INT32, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL
KINDS = {"tensor(float)": FLOAT, "tensor(int64)": INT64}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Export:
    """A graph under construction; each method adds nodes and returns the names of their outputs."""

    def __init__(self, seed: int, opset: int = 17) -> None:
        self._random = np.random.default_rng(seed)
        self._opset = opset
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._domains = {""}

    def input(self, *shape: int | str, kind: int = FLOAT) -> str:
        """Add an input of the network."""
        name = f"input_{len(self._inputs)}"
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, *shape: int, positive: bool = False) -> str:
        """Add an initializer, normal of the variance 1 / (inputs of a sum)."""
        values = self._random.normal(0, 1 / np.sqrt(max(np.prod(shape[1:]), 1)), shape)
        return self.initializer((np.abs(values) + 0.5 if positive else values).astype(np.float32))

    def initializer(self, values: Any, dtype: Any = None) -> str:
        """Add an initializer."""
        name = f"onnx::{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Add a Constant node."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(values, dtype)))

    def number(self, value: float) -> str:
        """Add a Constant node with a float32 scalar."""
        return self.constant(value, np.float32)

    def op(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        return self.ops(1, operator, *inputs, domain=domain, **attributes)[0]

    def ops(self, count: int, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        name = f"/{operator}_{len(self._nodes)}"
        outputs = [f"{name}_output_{number}" for number in range(count)]
        self._nodes.append(helper.make_node(operator, inputs, outputs, name, domain=domain, **attributes))
        self._domains.add(domain)
        return outputs

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Return the model, with the types and shapes of outputs that ONNX Runtime infers."""
        model = self._model([onnx.ValueInfoProto(name=name) for name in outputs])
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return self._model(
            [helper.make_tensor_value_info(each.name, KINDS[each.type], each.shape) for each in session.get_outputs()]
        )

    def _model(self, values: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, "main_graph", self._inputs, values, self._constants)
        versions = {"": self._opset, "com.microsoft": 1, "ai.onnx.ml": 3}
        opsets = [helper.make_opsetid(domain, versions[domain]) for domain in sorted(self._domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="pytorch")

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Add a layer as MatMul and Add, as of an input with more than two axes."""
        return self.op("Add", self.weight(outputs), self.op("MatMul", x, self.weight(inputs, outputs)))

    def gemm(self, x: str, inputs: int, outputs: int) -> str:
        """Add a layer as Gemm, as of an input with two axes."""
        return self.op("Gemm", x, self.weight(outputs, inputs), self.weight(outputs), alpha=1.0, beta=1.0, transB=1)

    def conv(
        self, x: str, inputs: int, outputs: int, kernel: int = 3, activation: str = "Relu", **attributes: Any
    ) -> str:
        """Add a convolution with padding that keeps the size, BatchNormalization and activation, "" for none."""
        groups, dilation = attributes.get("group", 1), attributes.pop("dilation", 1)
        padding = [dilation * (kernel // 2)] * 4
        window = {"kernel_shape": [kernel] * 2, "pads": padding, "dilations": [dilation] * 2, "strides": [1, 1]}
        y = self.op("Conv", x, self.weight(outputs, inputs // groups, kernel, kernel), **(window | attributes))
        parts = (self.weight(outputs), self.weight(outputs), self.weight(outputs), self.weight(outputs, positive=True))
        y = self.op("BatchNormalization", y, *parts, epsilon=1e-5)
        return self.activate(y, activation)

    def activate(self, x: str, activation: str) -> str:
        """Add an activation; Silu, Gelu and Relu6 have no operator of their own."""
        if activation == "Silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if activation == "Gelu":
            erf = self.op("Erf", self.op("Div", x, self.number(2**0.5)))
            return self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.number(1))), self.number(0.5))
        if activation == "Relu6":
            return self.op("Clip", x, self.number(0), self.number(6))
        return self.op(activation, x) if activation else x

    def layer_norm(self, x: str, size: int, *, decomposed: bool = False) -> str:
        """Add a normalisation of the last axis, as one node or as exporters before opset 17 write it."""
        scale, bias = self.weight(size, positive=True), self.weight(size)
        if not decomposed:
            return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Pow", centred, self.number(2)), axes=[-1])
        deviation = self.op("Sqrt", self.op("Add", variance, self.number(1e-5)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, deviation), scale), bias)

    def rms_norm(self, x: str, size: int) -> str:
        """Add a normalisation by the mean square of the last axis."""
        mean = self.op("ReduceMean", self.op("Pow", x, self.number(2)), axes=[-1])
        inverse = self.op("Div", self.number(1), self.op("Sqrt", self.op("Add", mean, self.number(1e-6))))
        return self.op("Mul", self.weight(size, positive=True), self.op("Mul", x, inverse))

    def heads(self, x: str, count: int, size: int) -> str:
        """Split the last axis into heads: (1, steps, count * size) to (1, count, steps, size)."""
        steps = self.op("Gather", self.op("Shape", x), self.constant(1), axis=0)
        sizes = [self.constant([1]), self.op("Unsqueeze", steps, self.constant([0])), self.constant([count, size])]
        return self.op("Transpose", self.op("Reshape", x, self.op("Concat", *sizes, axis=0)), perm=[0, 2, 1, 3])

    def attention(self, x: str, size: int, heads: int, mask: str = "", memory: str = "") -> str:
        """Add attention of (1, steps, size), to itself or to `memory`; where `mask` is false a score is -inf."""
        key_source = memory or x
        query, key, value = (
            self.heads(self.linear(source, size, size), heads, size // heads) for source in (x, key_source, key_source)
        )
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.op("Div", scores, self.number((size // heads) ** 0.5))
        if mask:
            scores = self.op("Where", mask, scores, self.number(-1e9))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        merged = self.op("Reshape", self.op("Transpose", mixed, perm=[0, 2, 1, 3]), self.constant([1, -1, size]))
        return self.linear(merged, size, size)

    def block(
        self, x: str, size: int, heads: int, activation: str = "Gelu", mask: str = "", *, old: bool = False
    ) -> str:
        """Add an encoder block with normalisation in front."""
        attended = self.attention(self.layer_norm(x, size, decomposed=old), size, heads, mask)
        x = self.op("Add", x, attended)
        hidden = self.activate(self.linear(self.layer_norm(x, size, decomposed=old), size, 2 * size), activation)
        return self.op("Add", x, self.linear(hidden, 2 * size, size))

    def recurrent(
        self, x: str, cell: str, inputs: int, hidden: int, direction: str = "forward", **attributes: Any
    ) -> str:
        """Add a recurrence over (steps, 1, inputs); the result is (steps, 1, directions * hidden)."""
        count = 2 if direction == "bidirectional" else 1
        rows, bias = GATES[cell] * hidden, self.weight(count, 2 * GATES[cell] * hidden)
        parts = [self.weight(count, rows, inputs), self.weight(count, rows, hidden), bias, ""]
        states = [self.initializer(np.zeros((count, 1, hidden), np.float32))] * (2 if cell == "LSTM" else 1)
        y = self.op(cell, x, *parts, *states, hidden_size=hidden, direction=direction, **attributes)
        if count == 1:
            return self.op("Squeeze", y, self.constant([1]))
        return self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.constant([0, 0, -1]))

    def pooled(self, x: str) -> str:
        """Add the mean of each channel of an image, flattened."""
        return self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)

    def squeezed(self, x: str, channels: int) -> str:
        """Add a gate for each channel (squeeze and excitation)."""
        gate = self.op("ReduceMean", x, axes=[2, 3], keepdims=1)
        gate = self.op(
            "Relu", self.op("Conv", gate, self.weight(channels // 2, channels, 1, 1), self.weight(channels // 2))
        )
        gate = self.op("Conv", gate, self.weight(channels, channels // 2, 1, 1), self.weight(channels))
        return self.op("Mul", x, self.op("HardSigmoid", gate, alpha=1 / 6))

    def maximum(self, x: str, kernel: int = 2, stride: int = 2, padding: int = 0) -> str:
        """Add a maximum over windows."""
        return self.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4)

    def upsampled(self, x: str, mode: str = "nearest", scale: float = 2) -> str:
        """Add an image of twice the size."""
        scales = self.constant([1, 1, scale, scale], np.float32)
        options = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"} if mode == "nearest" else {}
        return self.op("Resize", x, "", scales, mode=mode, **options)

    def sliced(self, x: str, start: int, end: int, axis: int, step: int = 1) -> str:
        """Add a slice of one axis."""
        parts: Sequence[Sequence[int]] = ([start], [end], [axis], [step])
        return self.op("Slice", x, *(self.constant(part) for part in parts))


def causal(steps: int) -> Array:
    """Return the mask of the steps that each step may read, bool (1, 1, steps, steps)."""
    return np.tril(np.ones((1, 1, steps, steps), bool))
