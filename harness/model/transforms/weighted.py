"""The weights of Conv, ConvTranspose, Gemm and MatMul in one layout, to multiply factors into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper
from onnx import numpy_helper

from harness.core.errors import RequestError
from harness.model.transforms.constants import readable
from harness.model.transforms.edit import add_constant, named

OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, eq=False)
class Weighted:
    """The exact weights and bias of a node, float64.

    `weights` are (groups, outputs of a group, inputs of a group, window), `bias` (outputs,); `window` is the shape of
    the last axis.
    """

    weights: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    window: tuple[int, ...]

    @classmethod
    def read(cls, graph: onnx.GraphProto, node: onnx.NodeProto) -> Self | None:
        """Return the weights of a node of `OPERATORS`; None if they are not initializers, or those of no matrix."""
        constants = {tensor.name: tensor for tensor in graph.initializer if tensor.name in node.input}
        if node.op_type not in OPERATORS or any(each not in constants for each in list(node.input)[1:] if each):
            return None
        given = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        values, *rest = (
            numpy_helper.to_array(constants[each]).astype(np.float64) for each in list(node.input)[1:] if each
        )
        if node.op_type in ("Gemm", "MatMul"):
            if values.ndim != 2 or given.get("transA"):
                return None
            matrix = values if given.get("transB") else values.T
            weights = given.get("alpha", 1.0) * matrix[None, :, :, None]
            window: tuple[int, ...] = ()
        else:
            groups, window = given.get("group", 1), values.shape[2:]
            weights = values.reshape(groups, values.shape[0] // groups, values.shape[1], -1)
            weights = weights.swapaxes(1, 2) if node.op_type == "ConvTranspose" else weights
        outputs = weights.shape[0] * weights.shape[1]
        bias = np.broadcast_to(given.get("beta", 1.0) * rest[0].reshape(-1) if rest else np.zeros(1), outputs)
        return cls(weights, bias, window)

    def write(self, graph: onnx.GraphProto, node: onnx.NodeProto, name: str) -> None:
        """Make these the weights of the node, each rounded to float32 once; a MatMul becomes a Gemm.

        Raises RequestError for a number beyond float32.
        """
        groups, outputs, inputs, _ = self.weights.shape
        if node.op_type in ("Gemm", "MatMul"):
            weights = self.weights[0, :, :, 0].T
            node.op_type = "Gemm"
            del node.attribute[:]
        elif node.op_type == "ConvTranspose":
            weights = self.weights.swapaxes(1, 2).reshape(groups * inputs, outputs, *self.window)
        else:
            weights = self.weights.reshape(groups * outputs, inputs, *self.window)
        del node.input[1:]
        for part, exact in (("weights", weights), ("bias", self.bias)):
            with np.errstate(over="ignore"):
                rounded = np.ascontiguousarray(exact, np.float32)
            if not np.isfinite(rounded).all():
                raise RequestError(
                    f"model {name!r}: {named(node)}: its {part} with the folded factors are beyond float32",
                    "leave the transform out of --apply",
                )
            node.input.append(add_constant(graph, rounded, f"{node.name}/{part}"))


def has_rows(model: onnx.ModelProto, name: str, node: onnx.NodeProto) -> bool:
    """Return whether the node is a MatMul that a Gemm cannot replace, as it multiplies several rows of a vector."""
    if node.op_type != "MatMul":
        return False
    layers = readable(model, name).layers
    return next(len(layer.output.shape) for layer in layers if layer.node == node.name) > 1
