"""What a reader asks of a model first: its size, its widths, the bounds of its accumulators."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import onnx

from harness.model.network import Network
from harness.model.text.tensors import constants
from harness.operators.qgemm import QGemm

PARAMETERS = {"QGemm": (3, 6), "Add": (0, 1)}  # the inputs that are weights or bias, where they are constant


@dataclass(frozen=True)
class Accumulator:
    """Bounds of a layer's accumulators, over all columns, all input codes and every partial sum in any order."""

    low: int
    high: int

    @property
    def headroom_bits(self) -> int:
        """How many times the bounds can be doubled before int32 overflows."""
        return 31 - max((value if value >= 0 else ~value).bit_length() for value in (self.low, self.high))

    @property
    def float32_exact(self) -> bool:
        """Whether float32 holds every integer within the bounds."""
        return max(-self.low, self.high) <= 1 << 24


def accumulator(layer: QGemm) -> Accumulator:
    """The bounds of a layer over all of its columns."""
    low, high = layer.accumulator_bounds()
    return Accumulator(int(low.min()), int(high.max()))


def parameter_count(network: Network) -> int:
    """The number of weights and bias values: the constant tensors that QGemm reads as B and C, and Add as a term."""
    graph = onnx.ModelProto.FromString(network.onnx_bytes).graph
    sizes = {name: math.prod(tensor.dims) for name, tensor in constants(graph)}
    read = {
        node.input[position]
        for node in graph.node
        for position in PARAMETERS.get(node.op_type, ())
        if position < len(node.input)
    }
    return sum(sizes[name] for name in read & sizes.keys())


def widths(network: Network) -> tuple[int, ...]:
    """The width of the input and of every fully connected layer; QGemms that read the same codes are one layer."""
    dense = {layer.sources: layer.size for layer in network.layers if isinstance(layer, QGemm)}
    return (network.input.size, *dense.values())


def short_widths(sizes: tuple[int, ...]) -> str:
    """Widths with repeated ones counted: 5-50x8-5."""
    runs = ((size, len(list(run))) for size, run in itertools.groupby(sizes))
    return "-".join(f"{size}x{count}" if count > 1 else str(size) for size, count in runs)
