"""From a float network to a quantised ONNX model: QuantizeLinear, QGemm for every layer, ArgMax.

    state  --QuantizeLinear-->  uint8  --QGemm-->  uint8  ...  --QGemm-->  scores (float32)  --ArgMax-->  advisory

Activations are uint8 with one scale a tensor.  Behind a ReLU the zero point is 0, and QGemm's clamp to 0..255 is the
ReLU.  Weights are int8, symmetric (-127..127), one scale a column; biases are int32 at scale a_scale * b_scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from models.acas.dense import activations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from models.acas.dense import Dense, Floats32

INPUT_SCALE = np.float32(1 / 240)
INPUT_ZERO_POINT = 120
"""Codes 0..240 span [-0.5, 0.5].  A grid of 41 angles has 40 intervals of exactly six codes, so it lies on codes."""

WEIGHT_MAX = 127
OPSET = 17
IR_VERSION = 8


@dataclass(frozen=True)
class QuantizedDense:
    """The constants of one QGemm.

    `weight` int8 (inputs, outputs); `weight_scale` float32 (outputs,); `bias` int32 (outputs,); `output_scale` float32,
    or None where the output stays float32.
    """

    weight: NDArray[np.int8]
    weight_scale: Floats32
    bias: NDArray[np.int32]
    output_scale: np.float32 | None


def on_codes(states: NDArray[np.floating]) -> Floats32:
    """The normalised states (n, inputs) after quantisation and back."""
    codes = np.clip(np.rint(states.astype(np.float32) / INPUT_SCALE), -INPUT_ZERO_POINT, 255 - INPUT_ZERO_POINT)
    return np.asarray(codes * INPUT_SCALE, dtype=np.float32)


def activation_scales(layers: Sequence[Dense], states: NDArray[np.floating]) -> Floats32:
    """The scale of each hidden layer's output: its greatest activation over `states` (n, inputs), normalised, is 255.

    Returns (len(layers) - 1,).
    """
    hidden = list(activations(layers, on_codes(states)))[:-1]
    return np.array([values.max() / 255 for values in hidden], dtype=np.float32)


def weight_scales(weight: Floats32) -> Floats32:
    """The scale (outputs,) of each column of `weight` (inputs, outputs): its greatest magnitude is 127."""
    greatest = np.abs(weight).max(axis=0)
    return np.asarray(np.where(greatest > 0, greatest, 1) / np.float32(WEIGHT_MAX), dtype=np.float32)


def quantize(layers: Sequence[Dense], hidden_scales: Floats32) -> tuple[QuantizedDense, ...]:
    """The integer layers for the activation scales given, (len(layers) - 1,)."""
    input_scales = (INPUT_SCALE, *hidden_scales)
    output_scales = (*hidden_scales, None)
    return tuple(
        _quantize_layer(layer, input_scale, output_scale)
        for layer, input_scale, output_scale in zip(layers, input_scales, output_scales, strict=True)
    )


def _quantize_layer(layer: Dense, input_scale: np.float32, output_scale: np.float32 | None) -> QuantizedDense:
    scale = weight_scales(layer.weight)
    weight = np.rint(layer.weight / scale).astype(np.int8)
    bias = np.rint(layer.bias / (np.float64(input_scale) * scale)).astype(np.int32)
    return QuantizedDense(weight, scale, bias, output_scale)


Quantized = tuple[str, str, str]
"""The names of a quantised tensor, of its scale and of its zero point."""


class _Graph:
    """The nodes and constants of a model under construction."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: np.generic | NDArray[np.generic]) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operator: str, name: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=name, **attributes))
        return output

    def quantize_input(self, state: str) -> Quantized:
        scale = self.constant("state_scale", INPUT_SCALE)
        zero_point = self.constant("state_zero_point", np.uint8(INPUT_ZERO_POINT))
        self.add("QuantizeLinear", "quantize_input", [state, scale, zero_point], "state_quantized")
        return "state_quantized", scale, zero_point

    def dense(self, name: str, source: Quantized, layer: QuantizedDense, output: str) -> Quantized:
        """Add one QGemm.  An output that stays float has no scale and no zero point; their names are empty."""
        inputs = [
            *source,
            self.constant(f"{name}_weight", layer.weight),
            self.constant(f"{name}_weight_scale", layer.weight_scale),
            self.constant(f"{name}_weight_zero_point", np.zeros_like(layer.weight[0])),
            self.constant(f"{name}_bias", layer.bias),
        ]
        scale = zero_point = ""
        if layer.output_scale is not None:
            scale = self.constant(f"{name}_scale", layer.output_scale)
            zero_point = self.constant(f"{name}_zero_point", np.uint8(0))
            inputs += [scale, zero_point]
        self.add("QGemm", name, inputs, output, domain="com.microsoft")
        return output, scale, zero_point


def to_onnx(layers: Sequence[QuantizedDense], name: str, metadata: Mapping[str, str]) -> onnx.ModelProto:
    """The model: input `state` float32 (vectors, inputs), outputs `scores` float32 (vectors, outputs) and `advisory`.

    `advisory` is int64 (vectors, 1), the index of the greatest score, the first of equals.
    """
    graph = _Graph()
    source = graph.quantize_input("state")
    for number, layer in enumerate(layers, start=1):
        output = "scores" if layer.output_scale is None else f"activation_{number}"
        source = graph.dense(f"dense_{number}", source, layer, output)
    graph.add("ArgMax", "select_advisory", ["scores"], "advisory", axis=1, keepdims=1, select_last_index=0)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [_vectors("state", TensorProto.FLOAT, layers[0].weight.shape[0])],
            [_vectors("scores", TensorProto.FLOAT, len(layers[-1].bias)), _vectors("advisory", TensorProto.INT64, 1)],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, dict(metadata))
    return model


def _vectors(name: str, element_type: int, width: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type, ["vectors", width])
