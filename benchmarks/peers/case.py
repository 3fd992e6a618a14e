"""The network that all contenders compute: as quantised model, as float network and as constants.

The float network has the weights and biases that the codes stand for, and ReLU where the codes end at zero.  One of
`FLOATS` has no codes: its model is the float network.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import onnxruntime
from onnx import helper, inliner, numpy_helper

from harness.core.arrays import Array
from harness.core.installation import ROOT
from harness.model import parse
from harness.model.network import Network
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.linear import Linear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.reference import SpecificationReference
from peers import convolutional

sys.path.append(str(ROOT))
from models.families.networks import NETWORKS as FAMILIES
from models.floats.networks import NETWORKS
from tests.support import builders

FLOATS = NETWORKS | {
    name: FAMILIES[name]
    for name in ("kws_lstm", "kws_gru", "vit_tiny", "unet_tiny", "mobilenet_v3_tiny", "efficientnet_lite_tiny")
}
"""The float networks by name: those of one float32 input and one output."""
VECTORS = 4096
IMAGES = 64
PRODUCTS = 10**9  # of all vectors of a float network, which its specification computes in numpy
SEED = 1
GROUP, PANEL = 4, 16  # rows and columns of weights in one register: a lane sums four products of bytes


@dataclass(frozen=True, eq=False)
class Case:
    """One network and its input: float32 `vectors` (n, K).

    `exact` are the outputs of the model by its specification, `real` those of the float network, both (n, N): in
    float64, by ONNX Runtime for a convolutional one, or the same if the model is a float network.  `folder` has
    vectors.npy, model.onnx, float.onnx and network.npz for the contenders.
    """

    folder: Path
    network: Network
    vectors: Array
    exact: Array
    real: Array
    form: Literal["dense", "convolutional", "float"] = "dense"

    @property
    def products(self) -> tuple[Linear, ...]:
        """The layers of sums of products."""
        return products(self.network)

    @property
    def qgemms(self) -> tuple[QGemm, ...]:
        """The layers between QuantizeLinear and DequantizeLinear."""
        return tuple(layer for layer in self.network.layers if isinstance(layer, QGemm))

    @property
    def multiply_adds(self) -> int:
        """The multiply-adds of one inference."""
        return multiply_adds(self.network)

    @property
    def weight_bytes(self) -> int:
        """The bytes of float32 weights, or of int8 weights where each layer fills whole registers of (PANEL, GROUP)."""
        if self.form == "float":
            return sum(layer.weights.nbytes for layer in self.products)
        return sum(_up(len(each.weights), GROUP) * _up(each.weights.shape[1], PANEL) for each in self.products)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest output that the model's last codes can tell from others."""
        if self.form != "dense":
            return -math.inf, math.inf
        return 0.0, 255 * float(self.qgemms[-1].scales.y or 0)


def make(widths: Sequence[int], folder: Path) -> Case:
    """Return the random network of these widths and its files in `folder`."""
    model = builders.random_network(np.random.default_rng(SEED), widths, weights="int8", dequantize=True)
    for end in (*model.graph.input, *model.graph.output):
        end.type.tensor_type.shape.dim[0].dim_value = 1  # which makes ONNX Runtime faster than a number left open
    net = parse(model.SerializeToString(), "benchmark")
    vectors = _drawn(net, VECTORS)
    exact = SpecificationReference(net).activations(vectors)[-1]
    case = Case(folder, net, vectors, exact, _real_outputs(net, vectors))
    assert not any(layer.y_zero_point for layer in case.qgemms)  # noqa: S101 - codes end at zero, which is ReLU
    _write(case)
    return case


def make_convolutional(name: str, folder: Path) -> Case:
    """Return a network of `convolutional.NETWORKS` and its files in `folder`."""
    net = parse(convolutional.NETWORKS[name]("uint8").SerializeToString(), name)
    vectors = _drawn(net, IMAGES)
    content = convolutional.float_model(net).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    real = np.concatenate([session.run(["y"], {net.vector.name: vector[None]})[0] for vector in vectors])
    np.save(folder / "vectors.npy", vectors)
    (folder / "model.onnx").write_bytes(net.onnx_bytes)
    (folder / "float.onnx").write_bytes(content)
    convolutional.write_tables(net, folder)
    return Case(folder, net, vectors, SpecificationReference(net).activations(vectors)[-1], real, "convolutional")


def make_float(name: str, folder: Path) -> Case:
    """Return a network of `FLOATS` and its files in `folder`; float.onnx reads an image as a row.

    LiteRT and ACETONE read tables of constants, which only the networks of `models.floats.networks` have.
    """
    path = ROOT / "models" / f"{name}.onnx"
    model = onnx.load(path) if path.exists() else FLOATS[name]()
    _rename_ends(model.graph)
    net = parse(model.SerializeToString(), name)
    vectors = _drawn(net, int(np.clip(PRODUCTS // multiply_adds(net), 2, VECTORS)))
    np.save(folder / "vectors.npy", vectors)
    (folder / "model.onnx").write_bytes(net.onnx_bytes)
    _read_rows(model.graph, net.vector.shape)
    _write_row(model.graph)
    images = np.moveaxis(vectors.reshape(-1, *net.vector.shape), 1, -1)
    np.save(folder / "channels_last.npy", images.reshape(vectors.shape))
    (folder / "float.onnx").write_bytes(inliner.inline_local_functions(model).SerializeToString())
    if name not in FAMILIES:
        convolutional.write_tables(net, folder)
    exact = SpecificationReference(net).activations(vectors)[-1]
    return Case(folder, net, vectors, exact, exact, "float")


def products(net: Network) -> tuple[Linear, ...]:
    """Return the layers of sums of products."""
    return tuple(layer for layer in net.layers if isinstance(layer, Linear))


def multiply_adds(net: Network) -> int:
    """Return the number of products of one inference."""
    return sum(layer.weights.size * layer.positions for layer in products(net))


def _drawn(net: Network, count: int) -> Array:
    """Return vectors within the network's box, float32 (count, K)."""
    low, high = net.box
    return np.random.default_rng(SEED).uniform(low, high, (count, net.vector.size)).astype(np.float32)


def _rename_ends(graph: onnx.GraphProto) -> None:
    """Call the function `network`, its input x, its output y; one vector at a time."""
    graph.name = "network"
    names = {graph.input[0].name: "x", graph.output[0].name: "y"}
    for node in graph.node:
        node.input[:] = [names.get(tensor, tensor) for tensor in node.input]
        node.output[:] = [names.get(tensor, tensor) for tensor in node.output]
    for end in (graph.input[0], graph.output[0]):
        end.name = names[end.name]
        end.type.tensor_type.shape.dim[0].dim_value = 1


def _read_rows(graph: onnx.GraphProto, shape: tuple[int, ...]) -> None:
    """Let the input be one row, which all contenders are given; nothing changes for a dense network."""
    if len(shape) == 1:
        return
    graph.node[0].input[0] = "image"
    graph.node.insert(0, helper.make_node("Reshape", ["x", "image_shape"], ["image"]))
    graph.initializer.append(numpy_helper.from_array(np.array([1, *shape]), "image_shape"))
    graph.input[0].CopyFrom(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, math.prod(shape)]))


def _write_row(graph: onnx.GraphProto) -> None:
    """Let the output be one row, as all contenders return it; nothing changes for scores."""
    sizes = [size.dim_value for size in graph.output[0].type.tensor_type.shape.dim]
    if len(sizes) == 2:
        return
    for node in graph.node:
        node.output[:] = ["y_image" if tensor == "y" else tensor for tensor in node.output]
    graph.node.append(helper.make_node("Flatten", ["y_image"], ["y"]))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, math.prod(sizes)]))


def float_constants(net: Network) -> list[tuple[Array, Array]]:
    """Weights (K, N) and bias (N,) of every QGemm as the numbers that their codes stand for, float32."""
    return [
        (
            ((layer.weights.astype(int) - layer.weights_zero_point) * layer.scales.b).astype(np.float32),
            (layer.bias * (layer.scales.a * layer.scales.b)).astype(np.float32),
        )
        for layer in net.layers
        if isinstance(layer, QGemm)
    ]


def naive_header(net: Network) -> str:
    """Return the constants of naive_worker.c."""
    first, *layers, last = net.layers
    assert isinstance(first, QuantizeLinear)  # noqa: S101 - as `make` made it
    assert isinstance(last, DequantizeLinear)  # noqa: S101
    names = "const int width, depth, a_zero_point, y_zero_point; const float multiplier; const int8_t *weights"
    tables = [_naive_tables(index, layer) for index, layer in enumerate(layers) if isinstance(layer, QGemm)]
    widest = max(net.vector.size, *(layer.size for layer in layers))
    return "\n".join([
        f"enum {{ LAYERS = {len(layers)}, WIDTH_LIMIT = {widest} }};",
        f"static const float input_scale = {_hex(first.scale)}, output_scale = {_hex(last.scale)};",
        f"struct naive_layer {{ {names}; const int32_t *bias; }};",
        *(text for text, _ in tables),
        f"static const struct naive_layer layers[] = {{{', '.join(entry for _, entry in tables)}}};\n",
    ])  # fmt: skip


def _naive_tables(index: int, layer: QGemm) -> tuple[str, str]:
    """Return the arrays of a layer, and its entry of the table of layers."""
    weights = ", ".join(map(str, (layer.weights.astype(int) - layer.weights_zero_point).ravel()))
    bias = ", ".join(map(str, layer.bias))
    text = f"static const int8_t weights_{index}[] = {{{weights}}};\nstatic const int32_t bias_{index}[] = {{{bias}}};"
    numbers = f"{layer.size}, {layer.input.size}, {layer.a_zero_point}, {layer.y_zero_point}"
    return text, f"{{{numbers}, {_hex(layer.multiplier.flat[0])}, weights_{index}, bias_{index}}}"


def _hex(value: np.float32) -> str:
    return f"{float(value).hex()}f"


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


def _real_outputs(net: Network, vectors: Array) -> Array:
    values = vectors.astype(np.float64)
    constants = float_constants(net)
    for weights, bias in constants[:-1]:
        values = np.maximum(values @ weights + bias, 0)
    weights, bias = constants[-1]
    outputs: Array = values @ weights + bias
    return outputs


def _write(case: Case) -> None:
    np.save(case.folder / "vectors.npy", case.vectors)
    (case.folder / "model.onnx").write_bytes(case.network.onnx_bytes)
    (case.folder / "float.onnx").write_bytes(_float_model(case.network).SerializeToString())
    tables: dict[str, Array] = {}
    for index, (layer, (weights, bias)) in enumerate(zip(case.qgemms, float_constants(case.network), strict=True)):
        tables |= {f"weights_{index}": weights, f"bias_{index}": bias}
        tables |= {f"codes_{index}": layer.weights, f"bias_codes_{index}": layer.bias}
    last = case.qgemms[-1]
    scales = [layer.scales.a for layer in case.qgemms] + [last.scales.y]
    zero_points = [layer.a_zero_point for layer in case.qgemms] + [last.y_zero_point]
    weight_scales = [layer.scales.b.flat[0] for layer in case.qgemms]
    numbers = {"layers": len(case.qgemms), "scales": scales, "zero_points": zero_points, "weight_scales": weight_scales}
    np.savez(case.folder / "network.npz", **tables, **numbers)


def _float_model(net: Network) -> onnx.ModelProto:
    """Gemm and Relu, for one vector at a time; the function is called `network`, its output y."""
    tables = float_constants(net)
    nodes, constants, tensor = [], {}, net.vector.name
    for index, (weights, bias) in enumerate(tables):
        pair = {f"weights_{index}": weights, f"bias_{index}": bias}
        last = index == len(tables) - 1
        constants |= pair
        nodes.append(helper.make_node("Gemm", [tensor, *pair], ["y" if last else f"sum_{index}"]))
        if not last:
            tensor = f"activation_{index}"
            nodes.append(helper.make_node("Relu", [f"sum_{index}"], [tensor]))
    outputs = {"y": ("float32", net.layers[-1].size)}
    return builders.make_model(nodes, constants, outputs, width=net.vector.size, batch=1)
