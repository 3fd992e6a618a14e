"""The canonical quantised model under construction: nodes that read one chain, each with its constants."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.canonical import IR_VERSION, OPSET, value_info
from harness.model.importer.graph import MOVES, Graph, Link, chain
from harness.operators.node import Node, element_type
from harness.operators.quantize_linear import QUANTISED_TYPES
from harness.operators.tensor import FLOAT32

CODES = tuple(QUANTISED_TYPES.values())
INT32 = np.dtype(np.int32)


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of a QGemm: scales and zero points, weights (K, N)."""

    a_scale: Array
    a_zero_point: Array
    weight: Array
    b_scale: Array
    b_zero_point: Array


@dataclass(frozen=True, eq=False)
class Output:
    """The output of a product: codes, or float32 if scale and zero point are None."""

    name: str
    scale: Array | None = None
    zero_point: Array | None = None


class Conversion:
    """The walk along the chain; `source` is the canonical tensor that it has come to."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        links = chain(graph)
        moves = [link for link in links if link.operator[0] == "" and link.operator[1] in MOVES]
        self.alias = {link.output: link.node.inputs[link.position] for link in moves}
        self.links = deque(link for link in links if link not in moves)
        self.source = graph.input_name
        self.types: dict[str, tuple[np.dtype[Any], int]] = {self.source: (FLOAT32, math.prod(graph.input_shape))}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.from_qdq = False
        self.float_product = False  # `source` is float32, and straight from a product
        self.notes: list[str] = []

    def follows(self, *operators: str) -> bool:
        """Return whether the next node is one of these, of ONNX's own domain."""
        return bool(self.links) and self.links[0].operator in [("", operator) for operator in operators]

    def emit(
        self, operator: str, link: Link, inputs: Mapping[str, Array | None], output: str, **attributes: Any
    ) -> None:
        """Add a node that reads the chain and these constants; `output` becomes the chain's end."""
        names = [self.source]
        for what, value in inputs.items():
            name = self._free(f"{link.node.name}_{what}") if value is not None else ""
            names.append(name)
            if value is not None:
                self.constants[name] = value
        domain = "com.microsoft" if operator == "QGemm" else ""
        self.nodes.append(helper.make_node(operator, names, [output], link.node.name, domain=domain, **attributes))
        self.source = output

    def emit_qgemm(self, link: Link, factors: Factors, bias: Array | None, output: Output, alpha: float = 1.0) -> None:
        """Add a QGemm."""
        inputs: dict[str, Array | None] = {
            "a_scale": factors.a_scale,
            "a_zero_point": factors.a_zero_point,
            "weight": factors.weight,
        }
        inputs |= {"weight_scale": factors.b_scale, "weight_zero_point": factors.b_zero_point, "bias": bias}
        if output.scale is not None:
            inputs |= {"scale": output.scale, "zero_point": output.zero_point}
        elif bias is None:
            del inputs["bias"]
        attributes = {} if alpha == 1.0 else {"alpha": alpha}
        self.emit("QGemm", link, inputs, output.name, **attributes)
        dtype = FLOAT32 if output.zero_point is None else output.zero_point.dtype
        self.types[output.name] = (dtype, factors.weight.shape[1])

    def _free(self, name: str) -> str:
        tensors = {name for node in self.graph.model.graph.node for name in (*node.input, *node.output)}
        while name in self.constants or name in tensors:
            name += "_"
        return name

    def _renamed_outputs(self) -> dict[str, str]:
        """Return the canonical tensors that the file gives out, and their names there."""
        outputs: dict[str, str] = {}
        for name in self.graph.outputs:
            root = name
            while root in self.alias:
                root = self.alias[root]
            if root not in self.types or root == self.graph.input_name or root in outputs:
                raise RequestError(
                    f"model {self.graph.name!r} gives out {name!r}, which is inside what becomes one operator",
                    "the tensors between operators: onnxruntime, too, fuses no QDQ group whose product is an output",
                )
            outputs[root] = name
        return outputs

    def codes(self) -> tuple[str, ...]:
        """Return the names of the 8-bit tensors, in the file too."""
        return tuple(name for name, (dtype, _) in self.types.items() if dtype in CODES)

    def model(self) -> onnx.ModelProto:
        """Return the finished model, with the outputs of the file."""
        outputs = self._renamed_outputs()
        for node in self.nodes:
            node.input[:] = [outputs.get(name, name) for name in node.input]
            node.output[:] = [outputs.get(name, name) for name in node.output]
        self.types = {outputs.get(name, name): kind for name, kind in self.types.items()}
        unique: dict[str, int] = {}
        for node in self.nodes:
            unique[node.name] = unique.get(node.name, 0) + 1
            node.name += f"_{unique[node.name]}" if unique[node.name] > 1 else ""
        graph = helper.make_graph(
            self.nodes,
            self.graph.name,
            [value_info(self.graph.input_name, *self.types[self.graph.input_name])],
            [value_info(name, *self.types[name]) for name in outputs.values()],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="harness")


def scalar(node: Node, position: int, what: str, dtypes: Sequence[np.dtype[Any]]) -> Array:
    """Return a constant of the node that is one value for the whole tensor, of shape ()."""
    return np.asarray(node.single(position, what, dtypes))


def columns(link: Link, values: Array, what: str, width: int) -> Array:
    """Return one value for the tensor, of shape (), or one for each column, (width,)."""
    if values.size == 1:
        return values.reshape(())
    if values.size == width and values.ndim <= 2 and values.shape[-1] == width:
        return values.reshape(-1)
    raise link.node.refusal(f"the {what} has shape {values.shape}", f"one value, or one for each of {width} columns")


def factors(link: Link, a: tuple[Array, Array], weight: Array, scale: Array, zero_point: Array) -> Factors:
    """Return the factors; scale and zero point of the weights get the same shape, as QGemm wants them."""
    width = weight.shape[1]
    b_scale = columns(link, scale, "scale of the weights", width)
    b_zero_point = columns(link, zero_point, "zero point of the weights", width)
    shape = np.broadcast_shapes(b_scale.shape, b_zero_point.shape)
    b_scale, b_zero_point = (np.ascontiguousarray(np.broadcast_to(v, shape)) for v in (b_scale, b_zero_point))
    return Factors(*a, weight, b_scale.reshape(shape), b_zero_point.reshape(shape))


def int32_bias(link: Link, values: Array) -> Array:
    """Return an int32 bias as (N,)."""
    if values.dtype != INT32:
        raise link.node.refusal(f"the bias is {values.dtype}", "an int32 bias")
    try:
        return np.ascontiguousarray(np.broadcast_to(values, link.output_shape)).reshape(-1)
    except ValueError as error:
        raise link.node.refusal(f"the bias has shape {values.shape}", f"shape {link.output_shape}") from error


def require_weights_on_the_right(link: Link) -> None:
    """Refuse W @ x."""
    if link.position != 0:
        raise link.node.refusal("has its weights on the left", "x @ W: the vector first, then the weights")


def leave_out_relu(conversion: Conversion, link: Link) -> None:
    """Drop a ReLU: QuantizeLinear with the least code as zero point maps all negative values to that code."""
    if conversion.follows("QuantizeLinear"):
        zero_point = output_quantisation(conversion.links[0].node)[1]
        if zero_point == np.iinfo(zero_point.dtype).min:
            conversion.notes.append(f"Relu {link.node.name!r} is done by the zero point after it")
            return
    raise link.node.refusal(
        "is not followed by a QuantizeLinear whose zero point is the least code: onnxruntime would compute it, and a "
        "Gemm before it, in float32",
        "a QuantizeLinear after it, with zero point 0 for uint8 or -128 for int8",
    )


def output_quantisation(node: Node) -> tuple[Array, Array]:
    """Return scale and zero point of a QuantizeLinear, of shape () each."""
    attributes = node.attributes({"axis": 1, "saturate": 1, "block_size": 0, "output_dtype": 0, "precision": 0})
    if attributes["block_size"] or attributes["precision"] not in (0, TensorProto.FLOAT):
        raise node.refusal("quantises in blocks, or in another precision", "one float32 scale for the tensor")
    asked = attributes["output_dtype"] or TensorProto.UINT8
    if asked not in QUANTISED_TYPES:
        raise node.refusal(f"quantises to {element_type(asked)}", "uint8 or int8")
    zero_point = scalar(node, 2, "zero point", CODES) if node.has(2) else np.zeros((), QUANTISED_TYPES[asked])
    return scalar(node, 1, "scale", [FLOAT32]), zero_point
