"""The nodes of an ONNX file as the proof reads them, with their constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from harness.core.arrays import Array
from harness.operators.region import Region

CODES = 255  # thresholds of a layer with 8-bit outputs
OMITTED = 10  # inputs that a node may not have
GIVE_BOOLS = ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor")
"""The operators whose results are bools."""
PAIRS = ("QLinearAdd", "QLinearMul")
"""The operators whose terms are broadcast; their layers read the terms in the order of `repeats_first`."""
OPERANDS = ("addend", "factor")
"""The constant operands."""
DENSE = ("QGemm", "QLinearMatMul")
"""The operators with the constants and tables of a QGemm."""
FLOAT_DENSE = ("Gemm", "MatMul")
"""The operators with the constants and tables of a Gemm."""
FLOAT_CONVOLUTIONS = ("Conv", "ConvTranspose")
"""The operators with weights and bias of each channel."""
Constants: TypeAlias = dict[str, Array]
"""Constants of a node by the names that `Node` lists."""


@dataclass(frozen=True)
class Shaped:
    """Shape of a tensor without vectors, and its type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the ONNX file with its constants, or those of some of its columns.

    `constants` are: of QuantizeLinear and DequantizeLinear `scale` and `zero_point`; of an Add of one source
    `addend`, of a Mul `factor`, of a Sub `minuend` or `subtrahend`, of a Div `dividend` or `divisor`, of Max, Min,
    Mean, Sum `terms`; of LeakyRelu and Elu `alpha`; of HardSigmoid `alpha` and `beta`; of Clip `low` and `high`; of
    ArgMax and ArgMin `last`; of a QGemm `weights` (K, N) as stored, `bias`, `weights_zero_point`, `multiplier` and
    `b_scale`, (N,) each, and `alpha`, `a_scale`, `input_zero_point`, for a code as output `y_scale` and
    `output_zero_point`; of Gemm, MatMul, Conv, ConvTranspose `weights` (K, N), `bias`; of QLinearAdd `first_ratio`,
    `second_ratio` and `fixed`, of QLinearMul `multiplier` and three zero points, both with `addend` or `factor` if they
    read one source; of QLinearLeakyRelu and QLinearSigmoid the `table` of all codes, of QLinearConcat one row for each
    input; of QLinearSoftmax `table`, `inverse` and `y_zero_point`; of AveragePool `count`, one a window.  Zero points
    are int32.  `window` of QLinearConv has the channels and the kernel that a sum reads.  `images` are the shapes of
    the sources, `image` that of the first, `shape` that of the output, `depth` the width of all sources.  `inputs` are
    the constants of the file by their position, None for an activation and for an omitted input.
    """

    operator: str
    sources: tuple[str, ...]
    output: str
    input_width: int
    input_dtype: np.dtype[Any]
    width: int
    dtype: np.dtype[Any]
    inputs: list[Array | None]
    constants: Mapping[str, Array] = field(default_factory=dict)
    window: tuple[int, ...] = ()
    image: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    images: tuple[tuple[int, ...], ...] = ()
    depth: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def constant_first(self) -> bool:
        """Return True if the first input is a constant, and ONNX Runtime does not exchange the inputs."""
        return self.inputs[0] is not None and not repeats_first(self)

    def columns(self, region: Region) -> Node:
        """Return the node with these columns alone: whole channels, or rows, which have all weights."""
        if region.size == self.width:
            return self
        cut, (start, stop) = dict(self.constants), (region.start, region.stop)
        channels = self.constants["weights"].shape[1] if "weights" in cut else 1
        positions = self.width // channels
        if channels > 1 and region.runs == 1:
            taken = slice(start // positions, stop // positions)
            per_channel = ("weights", "bias", "weights_zero_point", "multiplier", "b_scale")
            cut |= {name: cut[name][..., taken] for name in per_channel if name in cut}
            if "groups" in cut:
                cut["groups"] = np.maximum(cut["groups"] * (taken.stop - taken.start) // channels, 1)
        if np.size(cut.get("count", ())) == self.width // region.runs:  # one for each window of a channel
            cut["count"] = cut["count"][start:stop]
        for name in OPERANDS:
            if np.size(cut.get(name, ())) == self.width:
                cut[name] = cut[name].reshape(-1)[region.indices(self.width)]
        return replace(self._of_shape(region), width=region.size, constants=cut)

    def _of_shape(self, region: Region) -> Node:
        """Return the node with the shapes of a part and of the image that it reads, which dense layers do not need.

        Only outer borders are padded.  Windows in the padding alone have one row, behind all of them.
        """
        if self.operator in (*DENSE, *FLOAT_DENSE, *FLOAT_CONVOLUTIONS):
            return self
        (channels, *others), image, attributes = self.shape, self.image, dict(self.attributes)
        positions, row = math.prod(others), math.prod(others[1:])
        if region.runs == 1 and region.start % positions == region.stop % positions == 0:
            first, last = region.start // positions, region.stop // positions
            shape = (last - first, *others)
            share = channels // attributes.get("group", 1) if self.window else 1
            attributes["group"] = groups = -(-last // share) - first // share
            image = (groups * (self.window[0] if self.window else 1), *image[1:])
        else:
            first, last = region.start // row, region.stop // row
            shape = (channels, last - first, *others[1:])
            if "dilations" in attributes:
                begin, end = (each * attributes["strides"][0] - attributes["pads"][0] for each in (first, last - 1))
                end += (attributes["kernel_shape"][0] - 1) * attributes["dilations"][0] + 1
                first, last, before = max(begin, 0), min(end, image[1]), max(-begin, 0)
                if first >= last:
                    first, last, before = 0, 1, end - begin
                attributes["pads"] = [before, *attributes["pads"][1:]]
            image = (image[0], last - first, *image[2:])
        width = math.prod(image)
        depth = self.depth // self.input_width * width
        return replace(self, shape=shape, image=image, attributes=attributes, input_width=width, depth=depth)

    @property
    def centred(self) -> Array:
        """The weights minus their zero points, int64 (K, N)."""
        difference: Array = self.constants["weights"].astype(np.int64) - self.constants["weights_zero_point"]
        return difference

    @property
    def signed_shift(self) -> int:
        """The number to subtract from stored weights and their zero points to get int8 weights."""
        return 128 if self.constants["weights"].dtype == np.uint8 else 0

    @property
    def signed(self) -> Array:
        """The weights as the kernels for int8 weights take them, int8 (K, N)."""
        return (self.constants["weights"].astype(np.int32) - self.signed_shift).astype(np.int8)


Reader: TypeAlias = Callable[[Node], Constants]


def no_constants(_: Node) -> Constants:
    """Return the constants of an operator that has none."""
    return {}


def repeats_first(node: Node) -> bool:
    """Return whether the first term has one value along the last axis that is longer than 1, and the second several."""
    rank, operands = len(node.shape), (node.inputs[0], node.inputs[3])
    shapes = iter(node.images)
    sizes = [next(shapes) if value is None else value.shape for value in operands]
    first, second = ((*(1,) * (rank - len(size)), *size[max(len(size) - rank, 0) :]) for size in sizes)
    longer = [axis for axis in range(rank) if node.shape[axis] > 1]
    return bool(longer) and first[longer[-1]] == 1 < second[longer[-1]]


def row(value: Array | None, width: int = 1) -> Array:
    """Return a constant as `width` values; ONNX broadcasts a single value."""
    return np.broadcast_to(np.asarray(value).reshape(-1), width).copy()


def integers(value: Array | None, width: int = 1) -> Array:
    """Return an integer constant as `width` values of int32."""
    return row(value, width).astype(np.int32)
