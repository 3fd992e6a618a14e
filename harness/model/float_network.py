"""A float network of dense layers, from which a quantised model is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from harness.model.canonical import IR_VERSION, OPSET, value_info
from harness.model.network import Normalisation
from harness.operators.tensor import FLOAT32

Floats32 = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Dense:
    """One layer, y = x @ weight + bias, then max(y, 0) where `relu`: `weight` float32 (K, N), `bias` float32 (N,)."""

    weight: Floats32
    bias: Floats32
    relu: bool


@dataclass(frozen=True, eq=False)
class DenseNetwork:
    """A chain of dense layers over float32 vectors.

    `box` is float32 (2, K), the lower and upper bound of every input, or None if unknown.  `metadata` are the
    model's properties, those of the box and the normalisation among them.
    """

    name: str
    layers: tuple[Dense, ...]
    input_name: str = "x"
    output_name: str = "y"
    box: Floats32 | None = None
    normalisation: Normalisation | None = None
    metadata: dict[str, str] = field(default_factory=dict)


def activations(layers: Sequence[Dense], vectors: Floats32) -> Iterator[Floats32]:
    """Yield the output (n, N) of every layer, after its ReLU, for `vectors` (n, K)."""
    values = vectors
    for layer in layers:
        values = values @ layer.weight + layer.bias
        if layer.relu:
            values = np.maximum(values, 0)
        yield values


def forward(layers: Sequence[Dense], vectors: Floats32) -> Floats32:
    """Return the output (n, N) of the last layer for `vectors` (n, K)."""
    *_, last = activations(layers, vectors)
    return last


def to_onnx(network: DenseNetwork) -> onnx.ModelProto:
    """Return the network as ONNX: Gemm (weights (K, N)) and Relu, from float32 (vectors, K) to (vectors, N)."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    taken = {network.input_name, network.output_name}
    source = network.input_name
    for number, layer in enumerate(network.layers, start=1):
        weight, bias, product, rectified = (
            _free(f"dense_{number}_{part}", taken) for part in ("weight", "bias", "product", "rectified")
        )
        if number == len(network.layers):
            product, rectified = (product, network.output_name) if layer.relu else (network.output_name, "")
        constants += [numpy_helper.from_array(layer.weight, weight), numpy_helper.from_array(layer.bias, bias)]
        nodes.append(helper.make_node("Gemm", [source, weight, bias], [product], name=f"dense_{number}"))
        if layer.relu:
            nodes.append(helper.make_node("Relu", [product], [rectified], name=f"relu_{number}"))
        source = rectified if layer.relu else product
    model = helper.make_model(
        helper.make_graph(
            nodes,
            network.name,
            [value_info(network.input_name, FLOAT32, len(network.layers[0].weight))],
            [value_info(network.output_name, FLOAT32, len(network.layers[-1].bias))],
            constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="harness",
    )
    helper.set_model_props(model, network.metadata)
    return model


def _free(name: str, taken: set[str]) -> str:
    """Return the name, or the like of it that is not taken."""
    while name in taken:
        name += "_"
    return name
