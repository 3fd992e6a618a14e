"""The fastest: weights in panels of 16 columns, for the instruction that multiplies codes by fours (kernels/c/lanes.h).

All operators but QuantizeLinear and QGemm are the readable reference's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import C_TYPES, LayerCode, Stage, Table, offset, origin_of_weights, signed_weights
from harness.targets.c import code, plain

HEADERS = (*plain.HEADERS, "qgemm_vector.h", "quantize_vector.h")
LANES, QUAD = 16, 4  # in kernels/c/lanes.h, too


def layer_code(layer: Layer, sources: Sequence[str]) -> LayerCode:
    """The code of `layer`, which reads the buffers `sources` of shape (vectors, input width) each."""
    if isinstance(layer, QGemm):
        return _qgemm(layer, *sources)
    if isinstance(layer, QuantizeLinear):
        return _quantize_linear(layer, *sources)
    return plain.layer_code(layer, sources)


def _quantize_linear(layer: QuantizeLinear, source: str) -> LayerCode:
    scale, zero_point = code.affine(layer)
    call = f"quantize_vector_{layer.dtype}({layer.size}, in, {scale.name}[0], {zero_point.name}[0], out);"
    return code.elementwise(layer, source, (scale, zero_point), call)


def packed(weights: Array) -> Array:
    """Weights (K, N) in the order of qgemm_vector.h: (panels * groups, LANES * QUAD), filled up with zeros."""
    depth, width = weights.shape
    padded = np.zeros((_whole(depth, QUAD), _whole(width, LANES)), weights.dtype)
    padded[:depth, :width] = weights
    groups = padded.reshape(-1, QUAD, padded.shape[1] // LANES, LANES)  # (groups, QUAD, panels, LANES)
    return groups.transpose(2, 0, 3, 1).reshape(-1, LANES * QUAD)


def offsets(layer: QGemm) -> Array:
    """For codes as they are, and for those whose highest bit is flipped: uint32 (2, N)."""
    change = 128 if layer.input.dtype == np.uint8 else -128
    sums = change * signed_weights(layer)[0].astype(np.int64).sum(axis=0)
    return np.stack([offset(layer), (offset(layer) + sums).astype(np.uint32)])


def _whole(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _tables(layer: QGemm) -> tuple[Table, ...]:
    padded = _whole(layer.size, LANES)
    starts = Table(f"{layer.name}_offset", code.filled(offsets(layer), padded), "constant after init", computed=True)
    origin = f"{origin_of_weights(layer)}, in panels of {LANES} outputs: one row a group of {QUAD} inputs"
    weights = Table(f"{layer.name}_weights", packed(signed_weights(layer)[0]), origin)
    tables = code.column_tables(layer, starts, padded)
    return weights, *code.input_tables(layer), *tables


def _qgemm(layer: QGemm, source: str) -> LayerCode:
    tables, (accumulate, finish) = _tables(layer), code.stages(layer)
    return LayerCode(
        code.definitions(
            tables,
            code.function(accumulate, _accumulate(layer), _padded("ACCUMULATE", accumulate)),
            code.function(finish, _finish(layer), _padded("FINISH", finish)),
            aligned=True,
        ),
        code.each_vector(
            f"int32_t acc[PADDED({layer.size})] {code.ALIGNED};",
            f"{accumulate.name}({source}[v], acc);",
            f"{finish.name}(acc, {layer.name}_output[v]);",
        ),
        tables,
        (accumulate, finish),
    )


def _padded(part: str, stage: Stage) -> str:
    """How the proof calls a stage whose accumulators are filled up to whole panels."""
    if part == "ACCUMULATE":
        sizes = f"{C_TYPES[stage.input_dtype.name]}, {stage.input_width}, {stage.output_width}"
    else:
        sizes = f"{C_TYPES[stage.output_dtype.name]}, {stage.output_width}"
    return f"DEFINE_PADDED_{part}({stage.name}, {sizes})"


def _accumulate(layer: QGemm) -> str:
    operands = f"&{layer.name}_weights[0][0], {code.zero_points_argument(layer)}, &{layer.name}_offset[0][0]"
    return f"qgemm_vector_accumulate_{layer.input.dtype}({layer.input.size}, {layer.size}, in, {operands}, out);"


def _finish(layer: QGemm) -> str:
    return code.finish_call(layer, "scale_accumulator_vector", "requantize_vector")


def initialise(layer: QGemm) -> str:
    """The call that computes the offsets, a statement of an item's init."""
    return code.offset_call(layer, "qgemm_vector_offset", f"&{layer.name}_offset[0][0]")
