"""The third shape of ACETONE (section 3.4): no loops, and no tables, but every product as a statement's term.

What the statements of a QGemm hold is read back from the code by init, so that the proof sees constants here too: all
but the multiplier and the zero point of its output, of which the sweep over every accumulator says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import C_TYPES, LayerCode, Table, literal, offset, too_deep
from harness.targets.c import code
from harness.targets.c.code import Bodies

HEADERS = ("saturate.h", "unrolled.h")
TERM_LIMIT = 100_000
"""Products in one layer: each is some 10 bytes of code, and compilers take minutes for more."""


def refusal(layer: Layer) -> str | None:
    """Why this target cannot compute `layer` exactly, or not sensibly; None if it can."""
    terms = layer.input.size * layer.size
    if isinstance(layer, QGemm) and terms > TERM_LIMIT:
        return f"{terms:,} products, but code without loops is limited to {TERM_LIMIT:,} a layer; take c:inlined"
    return too_deep(layer)


def layer_code(layer: Layer, sources: Sequence[str]) -> LayerCode:
    """The code of `layer`, which reads the buffers `sources` of shape (vectors, input width) each."""
    if isinstance(layer, Add) and layer.addend is None:
        return code.addition(layer, sources, _assigned(f"in[{n}] + other[{n}]" for n in range(layer.size)))
    [source] = sources
    if isinstance(layer, QGemm):
        return code.qgemm(layer, source, _read_back(layer), Bodies(_accumulate(layer), _finish(layer)))
    return code.elementwise(layer, source, (), _elementwise(layer))


def _elementwise(layer: Layer) -> str:
    """The statements of a layer with one source and one stage."""
    columns = range(layer.size)
    if isinstance(layer, QuantizeLinear):
        scale = code.not_known("float", "scale", literal(layer.scale))
        codes = _assigned(code.rounded(layer.dtype, f"in[{n}] / scale") for n in columns)
        return f"{scale}\n    {_zero_point(layer.zero_point)}\n    {codes}"
    if isinstance(layer, DequantizeLinear):
        scale = literal(layer.scale)
        return _assigned(f"(float)(in[{n}] - {layer.zero_point}) * {scale}" for n in columns)
    if isinstance(layer, Add) and layer.addend is not None:
        return _assigned(f"in[{n}] + {literal(layer.addend[n])}" for n in columns)
    if isinstance(layer, ArgExtremum):
        choices = [code.chosen(layer, n) for n in range(1, layer.input.size)]
        return "\n    ".join(["size_t best = 0;", *choices, "out[0] = (int64_t)best;"])
    raise TypeError(layer)


def _assigned(values: Iterable[str]) -> str:
    """Statements that make the columns of `out`."""
    return "\n    ".join(f"out[{n}] = {value};" for n, value in enumerate(values))


def _weights(layer: QGemm) -> Array:
    """Less their zero points, int32 (N, K)."""
    weights: Array = (layer.weights.astype(np.int32) - layer.weights_zero_point).T
    return weights


def _accumulate(layer: QGemm) -> str:
    """The sum of terms is inside int32, that with the start, which stands for all zero points, modulo 2^32."""
    return _assigned(
        f"(int32_t)({start}u + (uint32_t)({_sum(row)}))"
        for start, row in zip(offset(layer), _weights(layer), strict=True)
    )


def _sum(row: Array) -> str:
    return " + ".join(f"in[{k}] * {weight}" for k, weight in enumerate(row))


def _finish(layer: QGemm) -> str:
    products = [f"(float)in[{n}] * {literal(multiplier)}" for n, multiplier in enumerate(layer.multiplier)]
    if layer.dtype == np.float32:
        return _assigned(products)
    codes = _assigned(code.rounded(layer.dtype, product) for product in products)
    return f"{_zero_point(layer.y_zero_point)}\n    {codes}"


def _zero_point(value: int) -> str:
    return code.not_known("int32_t", "zero_point", str(value))


def _read_back(layer: QGemm) -> tuple[Table, Table]:
    comment = "in the statements, read back in init"
    return (
        Table(f"{layer.name}_start", offset(layer).view(np.int32), f"constants {comment}", computed=True),
        Table(f"{layer.name}_terms", _weights(layer), f"factors {comment}", computed=True),
    )


def initialise(layer: QGemm) -> str:
    """What reads the statements back, in an item's init."""
    name, c_type = layer.name, C_TYPES[layer.input.dtype.name]
    stage = code.stages(layer)[0].name
    return f"    READ_STATEMENTS({stage}, {c_type}, {layer.input.size}, {layer.size}, {name}_start, {name}_terms);"
