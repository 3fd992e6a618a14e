"""QGemm in C: a stage that accumulates and a stage that rounds; the item's init computes the offsets.

The unrolled code has no tables; its constants are read back from the code by init, so that the proof sees them here
too: all but the multiplier and the zero point of the output, which the sweep over every accumulator covers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.contraction import Contraction
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.contraction import (
    offset,
    origin_of_multiplier,
    origin_of_weights,
    signed_weights,
    stages,
    too_deep,
)
from harness.targets.generated import C_TYPES, LayerCode, Stage, Table, literal

LANES, QUAD = 16, 4  # in kernels/c/lanes.h, too


class QGemmLowering(CLowering[QGemm]):
    """Weights have one row per output, but in the vector code: panels of 16 outputs (kernels/c/lanes.h)."""

    operator = (QGemm, QLinearMatMul)

    def unsupported(self, layer: QGemm, variant: str) -> str | None:
        """Refuse sums that could leave int32, and unrolled code that no compiler finishes."""
        return code.too_long(layer.input.size * layer.size, variant) or too_deep(layer)

    def plain(self, layer: QGemm, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/qgemm.h."""
        operands = f"&{layer.name}_weights[0][0], {_zero_points(layer)}, {layer.name}_offset"
        accumulate = (
            f"{prefix}qgemm_accumulate_{layer.input.dtype}({layer.input.size}, {layer.size}, in, {operands}, out);"
        )
        finish = _finish_call(layer, f"{prefix}scale_accumulator", f"{prefix}requantize")
        return code.two_stages(layer, sources, stages(layer), tables(layer), accumulate, finish, _initialise(layer))

    def inlined(self, layer: QGemm, sources: Sequence[str]) -> LayerCode:
        """Loop over outputs and inputs."""
        bodies = _accumulate_loop(layer), _finish_loop(layer)
        return code.two_stages(layer, sources, stages(layer), tables(layer), *bodies, _initialise(layer))

    def unrolled(self, layer: QGemm, sources: Sequence[str]) -> LayerCode:
        """Write every product; a sum of products is inside int32, with the offset it is computed modulo 2^32."""
        accumulate = code.assigned(
            f"(int32_t)({start}u + (uint32_t)({_sum(row)}))"
            for start, row in zip(offset(layer), _centred(layer), strict=True)
        )
        name, c_type, first = layer.name, C_TYPES[layer.input.dtype.name], stages(layer)[0].name
        sizes = f"{layer.input.size}, {layer.size}"
        read_back = f"    READ_STATEMENTS({first}, {c_type}, {sizes}, {name}_start, {name}_terms);"
        of_layer, codes = _read_back(layer), _finish_statements(layer)
        return code.two_stages(layer, sources, stages(layer), of_layer, accumulate, codes, read_back)

    def vector(self, layer: QGemm, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/qgemm_vector.h; accumulators are filled up to whole panels."""
        of_layer, (accumulate, finish) = _vector_tables(layer), stages(layer)
        name, [source] = layer.name, sources
        operands = f"&{name}_weights[0][0], {_zero_points(layer)}, &{name}_offset[0][0]"
        sizes = f"{layer.input.size}, {layer.size}"
        sums = f"qgemm_vector_accumulate_{layer.input.dtype}({sizes}, in, {operands}, out);"
        values = _finish_call(layer, "scale_accumulator_vector", "requantize_vector")
        given, made = C_TYPES[layer.input.dtype.name], C_TYPES[layer.dtype.name]
        return LayerCode(
            code.definitions(
                of_layer,
                code.function(accumulate, sums, f"DEFINE_PADDED_ACCUMULATE({accumulate.name}, {given}, {sizes})"),
                code.function(finish, values, f"DEFINE_PADDED_FINISH({finish.name}, {made}, {layer.size})"),
                aligned=True,
            ),
            _forward(layer, source, accumulate, finish, f"int32_t acc[PADDED({layer.size})] {code.ALIGNED};"),
            of_layer,
            (accumulate, finish),
            initialise=_offset_call(layer, "qgemm_vector_offset", f"&{name}_offset[0][0]"),
        )


def _forward(layer: QGemm, source: str, accumulate: Stage, finish: Stage, accumulators: str) -> str:
    output = f"{layer.name}_output[v]"
    return code.each_vector(accumulators, f"{accumulate.name}({source}[v], acc);", f"{finish.name}(acc, {output});")


def tables(layer: QGemm) -> tuple[Table, ...]:
    """Return all constants of a QGemm, its weights with one row per output."""
    weights = Table(
        f"{layer.name}_weights",
        signed_weights(layer)[0].T,
        f"{origin_of_weights(layer)}, transposed: one row an output",
    )
    starts = Table(f"{layer.name}_offset", offset(layer), "constant after init", computed=True)
    return weights, *_input_tables(layer), *_column_tables(layer, starts)


def _vector_tables(layer: QGemm) -> tuple[Table, ...]:
    padded = _whole(layer.size, LANES)
    starts = Table(f"{layer.name}_offset", code.filled(offsets(layer), padded), "constant after init", computed=True)
    origin = f"{origin_of_weights(layer)}, in panels of {LANES} outputs: one row a group of {QUAD} inputs"
    weights = Table(f"{layer.name}_weights", packed(signed_weights(layer)[0]), origin)
    return weights, *_input_tables(layer), *_column_tables(layer, starts, padded)


def _input_tables(layer: QGemm) -> tuple[Table, Table]:
    """Return the tables that only init reads."""
    return (
        Table(f"{layer.name}_bias", layer.bias),
        Table(f"{layer.name}_input_zero_point", np.array([layer.a_zero_point], np.int32)),
    )


def _column_tables(layer: QGemm, starts: Table, width: int | None = None) -> tuple[Table, ...]:
    """Return the constants of each output, filled up with zeros to `width`."""
    name, zero_points = layer.name, signed_weights(layer)[1]
    multiplier = code.filled(layer.multiplier, width)
    found = [Table(f"{name}_multiplier", multiplier, origin_of_multiplier(layer)), starts]
    if zero_points.any():
        found.append(Table(f"{name}_weights_zero_point", code.filled(zero_points, width)))
    if layer.dtype != np.float32:
        found.append(Table(f"{name}_output_zero_point", np.array([layer.y_zero_point], np.int32)))
    return tuple(found)


def packed(weights: Array) -> Array:
    """Return weights (K, N) in the order of qgemm_vector.h: (panels * groups, LANES * QUAD), filled up with zeros."""
    depth, width = weights.shape
    padded = np.zeros((_whole(depth, QUAD), _whole(width, LANES)), weights.dtype)
    padded[:depth, :width] = weights
    groups = padded.reshape(-1, QUAD, padded.shape[1] // LANES, LANES)  # (groups, QUAD, panels, LANES)
    return groups.transpose(2, 0, 3, 1).reshape(-1, LANES * QUAD)


def _whole(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def offsets(layer: Contraction) -> Array:
    """Return the offsets for unchanged inputs, and for inputs with the highest bit flipped: uint32 (2, N)."""
    change = 128 if layer.input.dtype == np.uint8 else -128
    sums = change * signed_weights(layer)[0].astype(np.int64).sum(axis=0)
    return np.stack([offset(layer), (offset(layer) + sums).astype(np.uint32)])


def _finish_call(layer: QGemm, scale: str, requantize: str) -> str:
    """Return the call of the second stage, by the functions for float32 outputs and for quantised ones."""
    if layer.dtype == np.float32:
        return f"{scale}({layer.size}, in, {layer.name}_multiplier, out);"
    operands = f"{layer.size}, in, {layer.name}_multiplier, {layer.name}_output_zero_point[0], out"
    return f"{requantize}_{layer.dtype}({operands});"


def _initialise(layer: QGemm) -> str:
    return _offset_call(layer, "qgemm_offset", f"{layer.name}_offset")


def _offset_call(layer: QGemm, function: str, to: str) -> str:
    """Return the statement of an item's init that computes the offsets."""
    name = layer.name
    operands = f"&{name}_weights[0][0], {_zero_points(layer)}, {name}_bias, {name}_input_zero_point[0]"
    return f"    {function}_{layer.input.dtype}({layer.input.size}, {layer.size}, {operands}, {to});"


def _zero_points(layer: QGemm) -> str:
    """Return the weights' zero points as an argument."""
    return f"{layer.name}_weights_zero_point" if signed_weights(layer)[1].any() else "NULL"


def _accumulate_loop(layer: QGemm) -> str:
    name, depth = layer.name, layer.input.size
    zero_points = signed_weights(layer)[1].any()
    sum_of_codes = f"int32_t sum_a = 0;\n    for (size_t k = 0; k < {depth}u; ++k)\n        sum_a += in[k];\n    "
    correction = f" - (uint32_t){name}_weights_zero_point[n] * (uint32_t)sum_a" if zero_points else ""
    return (
        f"{sum_of_codes if zero_points else ''}for (size_t n = 0; n < {layer.size}u; ++n) {{\n"
        f"        int32_t sum = 0;\n        for (size_t k = 0; k < {depth}u; ++k)\n"
        f"            sum += in[k] * {name}_weights[n][k];\n"
        f"        out[n] = (int32_t)({name}_offset[n] + (uint32_t)sum{correction});\n    }}"
    )


def _finish_loop(layer: QGemm) -> str:
    product = f"(float)in[n] * {layer.name}_multiplier[n]"
    if layer.dtype == np.float32:
        return code.loop(layer, f"out[n] = {product};")
    loop = code.loop(layer, f"out[n] = {code.rounded(layer.dtype, product)};")
    return f"{code.zero_point(f'{layer.name}_output_zero_point[0]')}\n    {loop}"


def _centred(layer: QGemm) -> Array:
    """Return the weights less their zero points, int32 (N, K)."""
    weights: Array = (layer.weights.astype(np.int32) - layer.weights_zero_point).T
    return weights


def _sum(row: Array) -> str:
    return " + ".join(f"in[{k}] * {weight}" for k, weight in enumerate(row))


def _finish_statements(layer: QGemm) -> str:
    products = [f"(float)in[{n}] * {literal(multiplier)}" for n, multiplier in enumerate(layer.multiplier)]
    if layer.dtype == np.float32:
        return code.assigned(products)
    codes = code.assigned(code.rounded(layer.dtype, product) for product in products)
    return f"{code.zero_point(str(layer.y_zero_point))}\n    {codes}"


def _read_back(layer: QGemm) -> tuple[Table, Table]:
    comment = "in the statements, read back in init"
    return (
        Table(f"{layer.name}_start", offset(layer).view(np.int32), f"constants {comment}", computed=True),
        Table(f"{layer.name}_terms", _centred(layer), f"factors {comment}", computed=True),
    )
