"""A layer as what a core is given of it: integers alone, in the order of kernels/tiovx/protocol.h."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness import targets
from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import Table

KERNELS_VERSION = 1  # in protocol.h, too
PARTS = ("OFFSET", "ZERO_POINTS", "TABLE", "MULTIPLIER", "WEIGHTS")
"""In the order of `enum part`."""
LANES, QUAD = 16, 4  # of kernels/c/integer/dot4.h
FLIP = 128
HEAD = "version, depth, width, flip, low, bytes of the parts"


@dataclass(frozen=True, eq=False)
class Constants:
    """The head and the parts that a layer has, by their names in `enum part`."""

    head: Table
    parts: Mapping[str, Table]

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of it."""
        return (self.head, *self.parts.values())


def of_layer(layer: QuantizeLinear | QGemm) -> Constants:
    """What the kernel of the layer computes with."""
    return _of_quantize_linear(layer) if isinstance(layer, QuantizeLinear) else _of_qgemm(layer)


def _of_quantize_linear(layer: QuantizeLinear) -> Constants:
    steps = layer.thresholds().astype(np.int32)
    origin = "the least float32, as ordered numbers, that become each code above the lowest"
    table = Table(f"{layer.name}_thresholds", steps[None], origin, computed=True)
    return _with_head(layer, {"TABLE": table}, flip=0)


def _of_qgemm(layer: QGemm) -> Constants:
    name, (weights, zero_points) = layer.name, targets.signed_weights(layer)
    parts = {"OFFSET": Table(f"{name}_offset", offset(layer), "bias[n] - za * sum_k (b[k][n] - zb[n])", computed=True)}
    if zero_points.any():
        parts["ZERO_POINTS"] = Table(f"{name}_weights_zero_point", zero_points, computed=True)
    if layer.dtype == np.float32:
        origin = "float32 bits of ((alpha * a_scale) * b_scale[n])"
        parts["MULTIPLIER"] = Table(f"{name}_multiplier", layer.multiplier, origin, computed=True)
    else:
        origin = "of each column the least accumulators that become each code above the lowest"
        parts["TABLE"] = Table(f"{name}_thresholds", layer.thresholds(), origin, computed=True)
    origin = f"{targets.origin_of_weights(layer)}, in the order of dot4.h"
    parts["WEIGHTS"] = Table(f"{name}_weights", packed(weights), origin, computed=True)
    return _with_head(layer, parts, flip=FLIP if layer.input.dtype == np.int8 else 0)


def _with_head(layer: QuantizeLinear | QGemm, parts: Mapping[str, Table], *, flip: int) -> Constants:
    low = 0 if layer.dtype == np.float32 else int(np.iinfo(layer.dtype).min) % 256
    sizes = [parts[part].values.nbytes if part in parts else 0 for part in PARTS]
    fields = [KERNELS_VERSION, layer.input.size, layer.size, flip, low, *sizes]
    return Constants(Table(f"{layer.name}_head", np.array(fields, np.uint32), HEAD, computed=True), parts)


def offset(layer: QGemm) -> Array:
    """acc[n] without its sums over a, modulo 2^32, uint32 (N,); int8 codes of a are taken as uint8 ones, 128 more."""
    shift = FLIP if layer.input.dtype == np.int8 else 0
    return targets.offset(dataclasses.replace(layer, a_zero_point=layer.a_zero_point + shift))


def packed(weights: Array) -> Array:
    """int8 (K, N) in the order of kernels/c/integer/dot4.h, a row for the operand of an instruction: int8 (n, 64)."""
    groups, quads = (-(-size // unit) for size, unit in zip(weights.shape[::-1], (LANES, QUAD), strict=True))
    whole = np.zeros((quads * QUAD, groups * LANES), np.int8)
    whole[: weights.shape[0], : weights.shape[1]] = weights
    by_group = whole.reshape(quads, QUAD, groups, LANES).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(by_group).reshape(groups * quads, LANES * QUAD)


def parts_in_order(constants: Constants) -> Sequence[tuple[str, Table]]:
    """The parts that there are, as they follow each other in memory."""
    return [(part, constants.parts[part]) for part in PARTS if part in constants.parts]
