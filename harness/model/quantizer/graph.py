"""Integer layers -> ONNX.

    x --QuantizeLinear--> uint8 --QGemm--> uint8 ... --QGemm--> scores (float32) [--ArgMax, ArgMin--> selected (int64)]

A layer of several terms is a QGemm with float32 output for each, a left-to-right chain of Add, and QuantizeLinear; its
zero point 0 is the ReLU.  uint8 scores leave through DequantizeLinear, so that the output is float32 in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from harness.model.canonical import IR_VERSION, OPSET, value_info
from harness.model.quantizer.codes import Codes
from harness.model.quantizer.layers import QuantizedDense, QuantizedNetwork
from harness.model.quantizer.weights import Term
from harness.operators.tensor import FLOAT32, INT64


@dataclass(frozen=True)
class Select:
    """The last node: the column of the greatest or least score, the first of equals, int64 (vectors, 1)."""

    operator: Literal["ArgMax", "ArgMin"]
    node: str = "select"
    output: str = "selected"


@dataclass(frozen=True)
class _Tensor:
    """A quantised tensor: the names of its codes, their scale and their zero point."""

    codes: str
    scale: str
    zero_point: str


def to_onnx(
    network: QuantizedNetwork,
    name: str,
    metadata: Mapping[str, str],
    input_name: str = "x",
    output_name: str = "scores",
    select: Select | None = None,
) -> onnx.ModelProto:
    """Return the model: float32 (vectors, K) to float32 scores (vectors, N), and with `select` also its output.

    Equal arguments give equal bytes.  Names of tensors within give way to the names of inputs and outputs.
    """
    outputs = [value_info(output_name, FLOAT32, len(network.layers[-1].bias))]
    inputs = [value_info(input_name, FLOAT32, len(network.layers[0].terms[0].weight))]
    graph = _Graph([input_name, output_name])
    if select:
        selected = graph.fresh(select.output)
        outputs.append(value_info(selected, INT64, 1))
    graph.chain(network, input_name, output_name)
    if select:
        graph.node(select.operator, select.node, [output_name], selected, axis=1, keepdims=1, select_last_index=0)
    model = helper.make_model(
        helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, dict(metadata))
    return model


class _Graph:
    """The nodes and constants under construction."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._taken = set(taken)

    def chain(self, network: QuantizedNetwork, source: str, scores: str) -> None:
        """Add everything from the input to the scores."""
        *hidden, last = network.layers
        tensor = self.quantize("quantize_input", source, network.input, self.fresh(f"{source}_quantized"), source)
        for number, layer in enumerate(hidden, start=1):
            tensor = self.dense(f"dense_{number}", tensor, layer, self.fresh(f"activation_{number}"))
        name = f"dense_{len(network.layers)}"
        if last.output is None:
            self.dense(name, tensor, last, scores)
            return
        tensor = self.dense(name, tensor, last, self.fresh(f"{scores}_quantized"))
        self.node("DequantizeLinear", "dequantize_output", [tensor.codes, tensor.scale, tensor.zero_point], scores)

    def dense(self, name: str, source: _Tensor, layer: QuantizedDense, output: str) -> _Tensor:
        """Return one layer, from codes to codes, or to float32 where it has no output codes."""
        if len(layer.terms) > 1:
            return self.expansion(name, source, layer, output)
        inputs = self.term(name, source, layer.terms[0], layer.bias)
        tensor = _Tensor(output, "", "")
        if layer.output is not None:
            tensor = self.tensor(output, name, layer.output)
            inputs += [tensor.scale, tensor.zero_point]
        self.node("QGemm", name, inputs, output, domain="com.microsoft")
        return tensor

    def expansion(self, name: str, source: _Tensor, layer: QuantizedDense, output: str) -> _Tensor:
        """Return one layer as the float32 sum of its terms."""
        order = len(layer.terms)
        total = ""
        for k, term in enumerate(layer.terms, start=1):
            node = f"{name}_term_{k}"
            inputs = self.term(node, source, term, layer.bias if k == 1 else None)
            value = self.node("QGemm", node, inputs, self.fresh(f"{output}_term_{k}"), domain="com.microsoft")
            is_whole = k == order and layer.output is None
            summed = output if is_whole else self.fresh(f"{output}_sum_{k}")
            total = value if k == 1 else self.node("Add", f"{name}_sum_{k}", [total, value], summed)
        if layer.output is None:
            return _Tensor(output, "", "")
        return self.quantize(f"{name}_quantize", total, layer.output, output, name)

    def term(self, name: str, source: _Tensor, term: Term, bias: npt.NDArray[np.int32] | None) -> list[str]:
        """Return the inputs of a QGemm, but for those of its output's codes."""
        inputs = [
            source.codes,
            source.scale,
            source.zero_point,
            self.constant(f"{name}_weight", term.weight),
            self.constant(f"{name}_weight_scale", term.scale),
            self.constant(f"{name}_weight_zero_point", term.zero_point),
        ]
        return inputs if bias is None else [*inputs, self.constant(f"{name}_bias", bias)]

    def quantize(self, node: str, source: str, codes: Codes, output: str, stem: str) -> _Tensor:
        """Return QuantizeLinear of a float32 tensor; `stem` names its constants."""
        tensor = self.tensor(output, stem, codes)
        self.node("QuantizeLinear", node, [source, tensor.scale, tensor.zero_point], tensor.codes)
        return tensor

    def tensor(self, output: str, stem: str, codes: Codes) -> _Tensor:
        """Return the quantised tensor `output` with the constants of its codes."""
        scale = self.constant(f"{stem}_scale", codes.scale)
        return _Tensor(output, scale, self.constant(f"{stem}_zero_point", np.uint8(codes.zero_point)))

    def constant(self, name: str, value: np.generic | npt.NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), self.fresh(name)))
        return self.constants[-1].name

    def node(self, operator: str, name: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=name, **attributes))
        return output

    def fresh(self, name: str) -> str:
        """Return the name, underscored until no tensor has it."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name
