"""Lowerings of the target litert: the TFLite operators of a layer, whose results have the layer's bits or a bound."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.tensor import BOOL, CODES, FLOAT32, INT64
from harness.targets.base import Claim, Lowering
from harness.targets.litert.graph import Graph, Value, image_of, order

L = TypeVar("L", bound=Layer)


class LiteRtLowering(Lowering[L]):
    """The operators of one layer."""

    claim: ClassVar[Claim] = Claim.EXACT
    """The equality with the specification of what XNNPACK computes."""

    def unsupported(self, layer: L, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse bools and other types, of which no operator here takes any."""
        dtype = layer.input.dtype
        if dtype == BOOL:
            return "it reads bools, for which there is no type here"
        return None if dtype in {FLOAT32, INT64, *CODES} else f"it reads {dtype}, for which there is no type here"

    def claim_of(self, layer: L) -> Claim:  # noqa: ARG002 - lowerings override it
        """Return the equality of this layer."""
        return self.claim

    @abstractmethod
    def emit(self, layer: L, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the layer to the graph and return its output, whose tensor has the name of the activation."""


def broadcast(graph: Graph, constant: Array, layer: Layer, like: Value, name: str) -> int:
    """Add a constant that is repeated over the layer's output, in the order of `like`, without its repetitions."""
    rank = len(layer.output.shape)
    whole = np.broadcast_to(constant.reshape((1,) * (rank - constant.ndim) + constant.shape), layer.output.shape)
    if constant.size == 1:
        return graph.constant(name, constant.reshape(1))
    stored = whole.reshape(-1)[like.places()].reshape(like.shape)
    for axis, length in enumerate(like.shape):
        first = stored.take([0], axis=axis)
        if length > 1 and (stored.view(f"V{stored.itemsize}") == first.view(f"V{stored.itemsize}")).all():
            stored = first
    return graph.constant(name, np.ascontiguousarray(stored))


def image(graph: Graph, value: Value, layer: Layer) -> Value:
    """Return the first input of a layer over images, with the channels last."""
    return graph.as_image(value, image_of(layer.inputs[0].shape))


def rows_of(weights: Array, value: Value) -> Array:
    """Return weights (K, N) with their rows in the order of the stored values of a vector."""
    return weights[order(value.image)] if value.image else weights
