"""The standard lowering of quantised products -> the quantised operators that have the same bits.

    MatMulInteger [Add int32] Cast [Mul by c] [Relu] QuantizeLinear    QGemm, or QLinearMatMul without Add
    MatMulInteger [Add int32] Cast [Mul by c]                          QGemm with float32 output
    ConvInteger   [Add int32] Cast [Mul by c] [Relu] QuantizeLinear    QLinearConv

With the scale s of QuantizeLinear, the chain computes (float32(acc) * c) / s, the quantised operator
float32(acc) * (c / s), each operation rounded to float32.  Both become codes that never fall with acc: they are the
same if each of the 255 steps is at the same accumulator, which is searched among all that the weights allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.importer import graph as graphs
from harness.model.importer.conversion import CODES, INT32, output_quantisation
from harness.model.importer.graph import Graph
from harness.model.onnx_runtime.products import code_types
from harness.operators import exact
from harness.operators.node import Node, domain_of, element_type
from harness.operators.tensor import FLOAT32

AFTER = ("Add", "Cast", "Mul", "Relu", "QuantizeLinear")
"""The nodes after a product, in this order; each reads only the one before it, and constants."""
ONE = np.ones((), np.float32)
WORKAROUND = (
    "a QuantizeLinear of scale 1 after a Mul by the quotient of the two scales; or quantise the float network again: "
    "harness models quantize FLOAT.onnx --data VECTORS.npy -o NAME"
)


def convert(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """Return the graph with a quantised operator for each chain, and a note for each.

    A MatMulInteger whose codes would change keeps its QuantizeLinear.  Raises RequestError, with the node, for a
    ConvInteger whose codes would change, and for a product whose int32 values are used.
    """
    products = [node for node in graph.nodes if node.operator in READERS and not domain_of(node.proto)]
    if not products:
        return graph, ()
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    types, following = code_types(model.graph, graph.constants), _following(graph)
    written: dict[str, onnx.NodeProto | None] = {}  # by the output of the node that it replaces
    notes = []
    for product in products:
        dtype = types.get(product.inputs[0], CODES[0])
        nodes, operator, inputs, reason = READERS[product.operator](_Chain.read(product, dtype, following))
        names = []
        for position, value in enumerate(inputs):
            names.append(value if isinstance(value, str) else f"{product.proto.output[0]}/{position}")
            if not isinstance(value, str):
                model.graph.initializer.append(numpy_helper.from_array(value, names[-1]))
        domain = "com.microsoft" if operator == "QGemm" else ""
        made = helper.make_node(operator, names, nodes[-1].proto.output, product.name, domain=domain)
        made.attribute.extend(product.proto.attribute)
        written |= dict.fromkeys(node.proto.output[0] for node in nodes) | {made.output[0]: made}
        notes.append(f"{product.operator} {product.name!r} to {nodes[-1].name!r} is a {operator}{reason}")
    kept = [written.get(node.output[0], node) for node in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(node for node in kept if node is not None)
    used = {name for node in model.graph.node for name in node.input}
    for tensor in [tensor for tensor in model.graph.initializer if tensor.name not in used]:
        model.graph.initializer.remove(tensor)
    if "com.microsoft" not in {entry.domain for entry in model.opset_import}:
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return graphs.read(model, graph.name), tuple(notes)


def _following(graph: Graph) -> dict[str, Node]:
    """Return the only reader of each tensor that has one and is no output of the model."""
    readers = Counter([name for node in graph.nodes for name in node.inputs] + graph.outputs)
    return {name: node for node in graph.nodes for name in node.inputs if readers[name] == 1}


@dataclass(frozen=True, eq=False)
class _Chain:
    """A product with constant weights, int8 or uint8 (K, N), and the nodes after it by their operators.

    `a_zero_point` is of shape (), the other constants () or (N,); `output` is scale and zero point of the
    QuantizeLinear, None without one, or if a Relu before it has an effect.
    """

    product: Node
    after: Mapping[str, Node]
    weights: Array
    a_zero_point: Array
    zero_point: Array
    bias: Array
    factor: Array
    output: tuple[Array, Array] | None

    @classmethod
    def read(cls, product: Node, dtype: np.dtype[Any], following: Mapping[str, Node]) -> _Chain:
        """Find the chain behind a product of codes of this type; refuse one without a Cast to float32."""
        after: dict[str, Node] = {}
        constant = {}  # the place of the constant among the inputs of a node
        last = product
        for operator in AFTER:
            node = following.get(last.proto.output[0])
            if node is not None and node.operator == operator and not domain_of(node.proto):
                constant[operator] = 1 - node.inputs.index(last.proto.output[0])
                after[operator] = last = node
        _require_cast_to_float32(product, after.get("Cast"))
        product.require_inputs(2, 4)
        weights, trailing = _weights(product)
        a_zero_point, zero_point = np.zeros((), dtype), np.zeros((), weights.dtype)
        if product.has(2):
            a_zero_point = np.asarray(product.single(2, "zero point of a", CODES))
        if product.has(3):
            given = product.constant(3, "zero point of the weights", [weights.dtype])
            zero_point = _outputs(product, given, weights.shape[1], 0)
        numbers = {"Add": np.zeros((), INT32), "Mul": ONE}
        for operator in numbers.keys() & after:
            what = "bias" if operator == "Add" else "scale"
            given = after[operator].constant(constant[operator], what, [numbers[operator].dtype])
            numbers[operator] = _outputs(after[operator], given, weights.shape[1], trailing)
        output = output_quantisation(after["QuantizeLinear"]) if "QuantizeLinear" in after else None
        if "Relu" in after and output is not None and output[1] != np.iinfo(output[1].dtype).min:
            output = None
        return cls(product, after, weights, a_zero_point, zero_point, numbers["Add"], numbers["Mul"], output)

    def nodes(self, *, floats: bool) -> list[Node]:
        """Return the nodes that become one operator, of codes or of float32 values."""
        return [self.product, *(node for name, node in self.after.items() if not floats or name in AFTER[:3])]

    def difference(self, scale: Array, y_zero_point: Array) -> str:
        """Return why the quantised operator has other codes than the chain; empty if it has the same."""
        if y_zero_point.dtype != self.a_zero_point.dtype:
            return f"it reads {self.a_zero_point.dtype} codes, and {y_zero_point.dtype} codes follow"
        with np.errstate(all="ignore"):
            factors = np.atleast_1d(self.factor)[:, None]
            multipliers = factors / scale
        both = np.concatenate([factors, multipliers])
        if not (np.isfinite(both) & (both >= np.finfo(FLOAT32).tiny)).all():
            return "the factor, or its quotient by the scale of QuantizeLinear, is no positive, normal float32"

        def codes(acc: Array, *, converted: bool) -> Array:
            with np.errstate(over="ignore"):
                values = acc.astype(FLOAT32) * multipliers if converted else acc.astype(FLOAT32) * factors / scale
            return exact.saturate(values, y_zero_point.dtype, int(y_zero_point)).astype(np.int64)

        limits = np.iinfo(y_zero_point.dtype)
        later = np.arange(limits.min + 1, limits.max + 1)
        low, high = (np.repeat(bound[:, None], len(later), axis=1) for bound in self._accumulators(len(factors)))
        steps = [
            exact.smallest(lambda acc, converted=converted: codes(acc, converted=converted) >= later, low, high + 1)  # type: ignore[misc] # mypy infers no default
            for converted in (False, True)
        ]
        different = np.argwhere(steps[0] != steps[1])
        if not len(different):
            return ""
        acc = np.minimum(*steps)[tuple(different[0])]
        here = np.full((len(factors), 1), acc)
        of_file, ours = (codes(here, converted=converted)[different[0][0], 0] for converted in (False, True))
        return f"the accumulator {acc} would become {ours} instead of {of_file}"

    def _accumulators(self, count: int) -> tuple[Array, Array]:
        """Return the least and the greatest accumulator of each output, (N,), or of all, (1,)."""
        weights = self.weights.astype(np.int64) - self.zero_point
        limits, zero_point = np.iinfo(self.a_zero_point.dtype), int(self.a_zero_point)
        rising, falling = np.maximum(weights, 0).sum(axis=0), np.minimum(weights, 0).sum(axis=0)
        low, high = limits.min - zero_point, limits.max - zero_point  # 0, that of padding, is between them
        least, greatest = self.bias + rising * low + falling * high, self.bias + rising * high + falling * low
        return (least, greatest) if count > 1 else (least.min(keepdims=True), greatest.max(keepdims=True))


def _require_cast_to_float32(product: Node, cast: Node | None) -> None:
    if cast is None:
        raise product.refusal("gives out int32 values", "Cast its output to float32, then Mul by a constant scale")
    to = cast.attributes({"to": 0, "saturate": 1})["to"]
    if to != TensorProto.FLOAT:
        raise cast.refusal(f"casts to {element_type(to)}", "a Cast to float32")


def _weights(product: Node) -> tuple[Array, int]:
    """Return the weights (K, N), and the number of axes after that of the outputs in the product's result."""
    given = product.constant(1, "weight", CODES)
    is_image = product.operator == "ConvInteger"
    if given.ndim < (3 if is_image else 1) or not given.size:
        shape = "(M, channels, kernel...)" if is_image else "(K, N)"
        raise product.refusal(f"the weights have shape {given.shape}", f"shape {shape} of sizes of 1 or more")
    if is_image:
        return given.reshape(len(given), -1).T, given.ndim - 2
    return given.reshape(len(given), -1), 0


def _outputs(node: Node, values: Array, width: int, trailing: int) -> Array:
    """Return a constant as one value, (), or one for each output, (width,); `trailing` axes of size 1 follow those."""
    if values.size == 1:
        return values.reshape(())
    axis = values.ndim - 1 - trailing
    if axis < 0 or values.size != width or values.shape[axis] != width:
        raise node.refusal(f"a constant has shape {values.shape}", f"one value, or one for each of {width} outputs")
    return values.reshape(-1)


Converted: TypeAlias = tuple[list[Node], str, list[Array | str], str]
"""The nodes that become one operator, its name, its inputs, and the end of a note."""


def _dense(chain: _Chain) -> Converted:
    shape = np.broadcast_shapes(chain.factor.shape, chain.zero_point.shape)
    scale, zero_point = (np.broadcast_to(each, shape).copy() for each in (chain.factor, chain.zero_point))
    weights = chain.product.inputs[1] if chain.product.constants[chain.product.inputs[1]].ndim == 2 else chain.weights
    inputs: list[Array | str] = [chain.product.inputs[0], ONE, chain.a_zero_point, weights, scale, zero_point]
    bias = np.broadcast_to(chain.bias, chain.weights.shape[1]).copy() if "Add" in chain.after else ""
    reason = chain.difference(*chain.output) if chain.output else ""
    if chain.output and not reason:
        return chain.nodes(floats=False), "QGemm", [*inputs, bias, *chain.output], ""
    stays = f"; its QuantizeLinear stays, because {reason}" if reason else ""
    return chain.nodes(floats=True), "QGemm", [*inputs, bias], f" with float32 output{stays}"


def _convolution(chain: _Chain) -> Converted:
    if chain.output is None:
        raise chain.product.refusal(
            "is not followed by QuantizeLinear, or a Relu before that has an effect", WORKAROUND
        )
    if reason := chain.difference(*chain.output):
        raise chain.product.refusal(f"is no QLinearConv: {reason}", WORKAROUND)
    inputs: list[Array | str] = [chain.product.inputs[0], ONE, chain.a_zero_point, chain.product.inputs[1]]
    inputs += [chain.factor, chain.zero_point, *chain.output]
    bias = [np.broadcast_to(chain.bias, chain.weights.shape[1]).copy()] if "Add" in chain.after else []
    return chain.nodes(floats=False), "QLinearConv", [*inputs, *bias], ""


READERS = {"MatMulInteger": _dense, "ConvInteger": _convolution}
