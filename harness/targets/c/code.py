"""Pieces of C text that all variants of the target are made of: tables, stages, and loops over the vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.obligations import Part
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import (
    C_TYPES,
    LayerCode,
    Stage,
    Table,
    initialiser,
    offset,
    origin_of_weights,
    signed_weights,
    stage,
)

INT32 = np.dtype(np.int32)
ALIGNED = "__attribute__((aligned(64)))"


@dataclass(frozen=True)
class Bodies:
    """Of the two stages of a QGemm: from a vector `in` of codes to `out`, the accumulators, and on from them."""

    accumulate: str
    finish: str


def elementwise(layer: Layer, source: str, tables: tuple[Table, ...], body: str) -> LayerCode:
    """A layer of one source and one stage; `body` makes one vector `out` of one vector `in`."""
    compute = stage(layer, Part.COMPUTE, layer.input.dtype, layer.input.size, layer.dtype, layer.size)
    forward = each_vector(f"{compute.name}({source}[v], {layer.name}_output[v]);")
    return LayerCode(definitions(tables, function(compute, body)), forward, tables, (compute,))


def addition(layer: Add, sources: Sequence[str], body: str) -> LayerCode:
    """An Add of two sources; `body` makes one vector `out` of the vectors `in` and `other`."""
    compute = stage(layer, Part.COMPUTE, layer.input.dtype, 2 * layer.size, layer.dtype, layer.size)
    text = (
        f"\nstatic ONE_CODE void {compute.name}(const float *in, const float *other, float *out)\n{{\n"
        f"    {body}\n}}\n"
        f"DEFINE_STAGE_OF_TWO({compute.name}, float, {layer.size}, float, {layer.size})"
    )
    terms = ", ".join(f"{source}[v]" for source in sources)
    return LayerCode(text, each_vector(f"{compute.name}({terms}, {layer.name}_output[v]);"), (), (compute,))


def qgemm(layer: QGemm, source: str, tables: tuple[Table, ...], bodies: Bodies) -> LayerCode:
    """A QGemm of two stages; nothing is between them but the accumulators of a vector."""
    accumulate, finish = stages(layer)
    return LayerCode(
        definitions(tables, function(accumulate, bodies.accumulate), function(finish, bodies.finish)),
        each_vector(
            f"int32_t acc[{layer.size}];",
            f"{accumulate.name}({source}[v], acc);",
            f"{finish.name}(acc, {layer.name}_output[v]);",
        ),
        tables,
        (accumulate, finish),
    )


def stages(layer: QGemm) -> tuple[Stage, Stage]:
    """Of a QGemm: from the codes to the accumulators, and from them to its output."""
    return (
        stage(layer, Part.ACCUMULATE, layer.input.dtype, layer.input.size, INT32, layer.size),
        stage(layer, Part.FINISH, INT32, layer.size, layer.dtype, layer.size),
    )


def affine(layer: QuantizeLinear | DequantizeLinear) -> tuple[Table, Table]:
    """Scale and zero point."""
    scale = Table(f"{layer.name}_scale", np.atleast_1d(layer.scale))
    # Not _zero_point: layer dense_output would have the same table as dense, which is a QGemm.
    return scale, Table(f"{layer.name}_zero", np.array([layer.zero_point], np.int32), "zero point")


def qgemm_tables(layer: QGemm) -> tuple[Table, ...]:
    """All constants of a QGemm, its weights with one row an output."""
    weights = Table(
        f"{layer.name}_weights",
        signed_weights(layer)[0].T,
        f"{origin_of_weights(layer)}, transposed: one row an output",
    )
    starts = Table(f"{layer.name}_offset", offset(layer), "constant after init", computed=True)
    return weights, *input_tables(layer), *column_tables(layer, starts)


def input_tables(layer: QGemm) -> tuple[Table, Table]:
    """What init alone reads."""
    return (
        Table(f"{layer.name}_bias", layer.bias),
        Table(f"{layer.name}_input_zero_point", np.array([layer.a_zero_point], np.int32)),
    )


def column_tables(layer: QGemm, starts: Table, width: int | None = None) -> tuple[Table, ...]:
    """What is added and multiplied in each column, behind the last filled up with zeros to `width`."""
    name, zero_points = layer.name, signed_weights(layer)[1]
    divided = "" if layer.dtype == np.float32 else " / y_scale"
    origin = f"float32 bits of ((alpha * a_scale) * b_scale[n]){divided}"
    tables = [Table(f"{name}_multiplier", filled(layer.multiplier, width), origin), starts]
    if zero_points.any():
        tables.append(Table(f"{name}_weights_zero_point", filled(zero_points, width)))
    if layer.dtype != np.float32:
        tables.append(Table(f"{name}_output_zero_point", np.array([layer.y_zero_point], np.int32)))
    return tuple(tables)


def filled(values: Array, size: int | None) -> Array:
    """The values of the last dimension, and zeros up to this size."""
    room = 0 if size is None else size - values.shape[-1]
    result: Array = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, room)])
    return result


def rounded(dtype: np.dtype[Any], value: str) -> str:
    """A float32 as a code of this type, by the one rounding of saturate.h and the variable `zero_point`."""
    limits = np.iinfo(dtype)
    return f"({C_TYPES[dtype.name]})round_saturated({value}, {limits.min}, {limits.max}, zero_point)"


def not_known(c_type: str, name: str, value: str) -> str:
    """A variable of which compilers do not know the value (saturate.h)."""
    return f"{c_type} {name} = {value};\n    NOT_KNOWN({name});"


def chosen(layer: ArgExtremum, column: int | str) -> str:
    """The statement that makes this column the best if it is better than in[best], without a branch."""
    comparison = {(True, False): ">", (True, True): ">=", (False, False): "<", (False, True): "<="}
    better = f"(size_t)(in[{column}] {comparison[layer.largest, layer.last]} in[best])"
    return f"best = best + ({column} - best) * {better};"


def finish_call(layer: QGemm, scale: str, requantize: str) -> str:
    """The call of a QGemm's second stage, by the functions of a shape for float32 outputs and for codes."""
    if layer.dtype == np.float32:
        return f"{scale}({layer.size}, in, {layer.name}_multiplier, out);"
    operands = f"{layer.size}, in, {layer.name}_multiplier, {layer.name}_output_zero_point[0], out"
    return f"{requantize}_{layer.dtype}({operands});"


def offset_call(layer: QGemm, function: str, to: str) -> str:
    """The statement of an item's init that computes a QGemm's offsets."""
    name = layer.name
    operands = f"&{name}_weights[0][0], {zero_points_argument(layer)}, {name}_bias, {name}_input_zero_point[0]"
    return f"    {function}_{layer.input.dtype}({layer.input.size}, {layer.size}, {operands}, {to});"


def zero_points_argument(layer: QGemm) -> str:
    """The weights' zero points as the kernels take them."""
    return f"{layer.name}_weights_zero_point" if signed_weights(layer)[1].any() else "NULL"


def definitions(tables: Sequence[Table], *functions: str, aligned: bool = False) -> str:
    """The tables, which can be `aligned` to lines of the cache, then the functions."""
    return "\n".join([*(_table(table, f" {ALIGNED}" if aligned else "") for table in tables), *functions])


def function(of_layer: Stage, body: str, wrapper: str | None = None) -> str:
    """The one code of a stage, and how the proof calls it: `wrapper`, or once for every vector."""
    input_type, output_type = C_TYPES[of_layer.input_dtype.name], C_TYPES[of_layer.output_dtype.name]
    sizes = f"{input_type}, {of_layer.input_width}, {output_type}, {of_layer.output_width}"
    return (
        f"\nstatic ONE_CODE void {of_layer.name}(const {input_type} *in, {output_type} *out)\n{{\n    {body}\n}}\n"
        f"{wrapper or f'DEFINE_STAGE({of_layer.name}, {sizes})'}"
    )


def _table(table: Table, attribute: str) -> str:
    comment = f"/* {table.comment} */\n" if table.comment else ""
    array = table.name + "".join(f"[{size}]" for size in table.values.shape) + attribute
    c_type = C_TYPES[table.values.dtype.name]
    if table.computed:
        return f"{comment}static {c_type} {array};"
    return f"{comment}static const {c_type} {array} = {initialiser(table.values)};"


def each_vector(*calls: str) -> str:
    """The body of a forward that does this for every vector v."""
    body = "\n".join(f"        {call}" for call in calls)
    # The second bound tells the compiler that no index leaves the buffers.
    return f"    for (size_t v = 0; v < vectors && v < BLOCK; ++v) {{\n{body}\n    }}"
