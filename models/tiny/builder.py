"""A quantised convolutional network under construction, in QOperator form, with int8 activations and weights.

Every scale follows from calibration vectors that pass through the integer layers as they are added: sums of integers
in float64, which are exact in any order, and order statistics of them.  The model has the same bytes on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.model.canonical import IR_VERSION, OPSET

Floats = npt.NDArray[np.float64]
LOW, HIGH = -128, 127
WEIGHT_MAX = 127
SPAN = 0.999
"""Share of the calibration values that a tensor's codes span."""


@dataclass(frozen=True)
class Tensor:
    """An activation: its codes for the calibration vectors, (n, channels, height, width) or (n, size)."""

    name: str
    scale: np.float32
    zero_point: int
    codes: Floats

    @property
    def centered(self) -> Floats:
        """The codes minus the zero point."""
        return self.codes - self.zero_point


@dataclass(frozen=True)
class Weights:
    """Codes (outputs, K), one scale for each output, and biases (int32) in units of scale * scale of the input."""

    codes: Floats
    scale: npt.NDArray[np.float32]
    bias: Floats

    def real_scale(self, source: Tensor) -> Floats:
        """Return the value of one unit of the sums, (outputs,)."""
        return self.scale.astype(np.float64) * float(source.scale)


class Builder:
    """The nodes and constants of one network; `vectors` are its calibration inputs, float32."""

    def __init__(self, seed: int, vectors: npt.NDArray[np.float32], scale: float, zero_point: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self.shape = vectors.shape[1:]
        codes = np.clip(np.rint(vectors / np.float32(scale)) + zero_point, LOW, HIGH)
        self.input = Tensor("codes", np.float32(scale), zero_point, codes.astype(np.float64))
        self._node("QuantizeLinear", "quantize_input", ["input", *self._quantisation(self.input)], "codes")

    def convolution(
        self,
        name: str,
        source: Tensor,
        outputs: int,
        kernel: tuple[int, int],
        *,
        stride: int = 1,
        depthwise: bool = False,
        relu: bool = True,
        padding: bool = True,
        weights: Weights | None = None,
    ) -> Tensor:
        """Add a QLinearConv; `padding` is that of TensorFlow's SAME, without `weights` they are random."""
        sizes = source.codes.shape[2:]
        pads = [_same(size, extent, stride) if padding else (0, 0) for size, extent in zip(sizes, kernel, strict=True)]
        images = np.pad(source.centered, [(0, 0), (0, 0), *pads])
        windows = np.lib.stride_tricks.sliding_window_view(images, kernel, axis=(2, 3))[:, :, ::stride, ::stride]
        channels = 1 if depthwise else windows.shape[1]
        used = weights or self._random_weights(outputs, channels * kernel[0] * kernel[1])
        if depthwise:
            sums = np.einsum("nchwyx,cyx->nchw", windows, used.codes.reshape(outputs, *kernel))
        else:
            patches = windows.transpose(0, 2, 3, 1, 4, 5).reshape(*_positions(windows), -1)
            sums = np.moveaxis(patches @ used.codes.T, 3, 1)
        used = used if weights else self._normalised(source, used, np.moveaxis(sums, 1, -1))
        real = (sums + used.bias[:, None, None]) * used.real_scale(source)[:, None, None]
        result = _calibrated(f"{name}_codes", real, relu=relu)
        inputs = self._weights(name, source, used, (outputs, channels, *kernel))
        inputs += self._quantisation(result)
        self.constants[f"{name}_bias"] = used.bias.astype(np.int32)
        attributes = {"pads": [*(before for before, _ in pads), *(after for _, after in pads)]} if padding else {}
        group = outputs if depthwise else 1
        self._node(
            "QLinearConv", name, [*inputs, f"{name}_bias"], result.name, strides=[stride] * 2, group=group, **attributes
        )
        return result

    def dense(
        self, name: str, source: Tensor, outputs: int, *, relu: bool = True, weights: Weights | None = None
    ) -> Tensor:
        """Add a QGemm; without `weights` they are random."""
        used = weights or self._random_weights(outputs, source.codes.shape[1])
        sums = source.centered @ used.codes.T
        used = used if weights else self._normalised(source, used, sums)
        result = _calibrated(f"{name}_codes", (sums + used.bias) * used.real_scale(source), relu=relu)
        inputs = self._weights(name, source, used, None)
        self.constants[f"{name}_bias"] = used.bias.astype(np.int32)
        inputs += [f"{name}_bias", *self._quantisation(result)]
        self._node("QGemm", name, inputs, result.name, "com.microsoft")
        return result

    def add(self, name: str, first: Tensor, second: Tensor) -> Tensor:
        """Add a QLinearAdd; the zero point of its output is the least code, a Relu."""
        values = first.centered * float(first.scale) + second.centered * float(second.scale)
        result = _calibrated(f"{name}_codes", values, relu=True)
        inputs = [name for tensor in (first, second) for name in (tensor.name, *self._quantisation(tensor))]
        self._node("QLinearAdd", name, [*inputs, *self._quantisation(result)], result.name, "com.microsoft")
        return result

    def maximum(self, name: str, source: Tensor, size: int) -> Tensor:
        """Add a MaxPool over squares without overlap."""
        count, channels, height, width = source.codes.shape
        squares = source.codes.reshape(count, channels, height // size, size, width // size, size)
        result = Tensor(f"{name}_codes", source.scale, source.zero_point, squares.max(axis=(3, 5)))
        shape = {"kernel_shape": [size] * 2, "strides": [size] * 2}
        self._node("MaxPool", name, [source.name], result.name, **shape)
        return result

    def mean(self, name: str, source: Tensor) -> Tensor:
        """Add a QLinearGlobalAveragePool."""
        values = source.centered.sum(axis=(2, 3), keepdims=True) * float(source.scale)
        result = _calibrated(f"{name}_codes", values / np.prod(source.codes.shape[2:]), relu=False)
        inputs = [source.name, *self._quantisation(source), *self._quantisation(result)]
        self._node("QLinearGlobalAveragePool", name, inputs, result.name, "com.microsoft", channels_last=0)
        return result

    def flatten(self, source: Tensor) -> Tensor:
        """Add a Flatten."""
        codes = source.codes.reshape(len(source.codes), -1)
        self._node("Flatten", "flatten", [source.name], "flat_codes")
        return Tensor("flat_codes", source.scale, source.zero_point, codes)

    def model(self, name: str, last: Tensor, metadata: Mapping[str, object]) -> onnx.ModelProto:
        """Add a DequantizeLinear and return the network."""
        self._node("DequantizeLinear", "dequantize_output", [last.name, *self._quantisation(last)], "output")
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["vectors", *self.shape])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["vectors", last.codes.shape[1]])],
            [numpy_helper.from_array(value, key) for key, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="harness")
        helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
        onnx.checker.check_model(model)
        return model

    def _node(
        self, operator: str, name: str, inputs: list[str], output: str, domain: str = "", **attributes: Any
    ) -> None:
        self.nodes.append(helper.make_node(operator, inputs, [output], name, domain=domain, **attributes))

    def _quantisation(self, tensor: Tensor) -> list[str]:
        names = [f"{tensor.name}_scale", f"{tensor.name}_zero_point"]
        values = np.array(tensor.scale, np.float32), np.array(tensor.zero_point, np.int8)
        self.constants |= dict(zip(names, values, strict=True))
        return names

    def _weights(self, name: str, source: Tensor, weights: Weights, shape: tuple[int, ...] | None) -> list[str]:
        """Return the inputs of a product up to its weights' zero point; without `shape` they are (K, outputs)."""
        codes = weights.codes.astype(np.int8)
        self.constants |= {
            f"{name}_weights": codes.reshape(shape) if shape else np.ascontiguousarray(codes.T),
            f"{name}_weights_scale": weights.scale,
            f"{name}_weights_zero_point": np.zeros(len(codes), np.int8),
        }
        parts = ("weights", "weights_scale", "weights_zero_point")
        return [source.name, *self._quantisation(source), *(f"{name}_{part}" for part in parts)]

    def _random_weights(self, outputs: int, inputs: int) -> Weights:
        values = self.random.normal(size=(outputs, inputs))
        codes = np.rint(values / np.abs(values).max(axis=1, keepdims=True) * WEIGHT_MAX)
        return Weights(codes, np.ones(outputs, np.float32), np.zeros(outputs))

    def _normalised(self, source: Tensor, weights: Weights, sums: Floats) -> Weights:
        """Return random weights with scales and biases that give every output a similar distribution.

        The median of an output becomes a random number, its distance to the 84 % quantile about 1: what batch
        normalisation does.  `sums` are (..., outputs).
        """
        outputs = len(weights.codes)
        flat = np.sort(sums.reshape(-1, outputs), axis=0)
        middle, upper = flat[len(flat) // 2], flat[len(flat) * 84 // 100]
        spread = np.maximum(upper - middle, 1)
        gain = self.random.uniform(0.5, 1, outputs)
        scale = (gain / (spread * float(source.scale))).astype(np.float32)
        bias = np.rint(spread * self.random.normal(0, 0.3, outputs) - middle)
        return Weights(weights.codes, scale, bias)


def _calibrated(name: str, values: Floats, *, relu: bool) -> Tensor:
    """Return the tensor whose codes span most of the values; with `relu` its zero point is the least code."""
    ordered = np.sort(values, axis=None)
    rest = int((1 - SPAN) * len(ordered))
    low, high = (0.0 if relu else min(ordered[rest], 0.0)), max(ordered[-1 - rest], 1e-6)
    scale = np.float32((high - low) / (HIGH - LOW))
    zero_point = int(LOW - np.rint(low / float(scale)))
    return Tensor(name, scale, zero_point, np.clip(np.rint(values / float(scale)) + zero_point, LOW, HIGH))


def _same(size: int, extent: int, stride: int) -> tuple[int, int]:
    """Return the padding before and after an axis that gives size / stride windows, rounded up."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def _positions(windows: npt.NDArray[Any]) -> tuple[int, int, int]:
    return windows.shape[0], windows.shape[2], windows.shape[3]
