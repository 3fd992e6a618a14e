"""The second shape of ACETONE (section 3.3): the loops of every layer stand in network.c, with bounds of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import LayerCode, Table, signed_weights
from harness.targets.c import code
from harness.targets.c.code import Bodies

HEADERS = ("qgemm.h", "saturate.h")


def layer_code(layer: Layer, sources: Sequence[str]) -> LayerCode:
    """The code of `layer`, which reads the buffers `sources` of shape (vectors, input width) each."""
    if isinstance(layer, Add) and layer.addend is None:
        return code.addition(layer, sources, _loop(layer, "out[n] = in[n] + other[n];"))
    [source] = sources
    if isinstance(layer, QGemm):
        return code.qgemm(layer, source, code.qgemm_tables(layer), Bodies(_accumulate(layer), _finish(layer)))
    return code.elementwise(layer, source, *_elementwise(layer))


def _elementwise(layer: Layer) -> tuple[tuple[Table, ...], str]:
    """The constants and the statements of a layer with one source and one stage."""
    if isinstance(layer, QuantizeLinear):
        scale, zero_point = code.affine(layer)
        loop = _loop(layer, f"out[n] = {code.rounded(layer.dtype, 'in[n] / scale')};")
        values = code.not_known("float", "scale", f"{scale.name}[0]"), _zero_point(zero_point.name)
        return (scale, zero_point), "\n    ".join((*values, loop))
    if isinstance(layer, DequantizeLinear):
        scale, zero_point = code.affine(layer)
        return (scale, zero_point), _loop(layer, f"out[n] = (float)(in[n] - {zero_point.name}[0]) * {scale.name}[0];")
    if isinstance(layer, Add) and layer.addend is not None:
        addend = Table(f"{layer.name}_addend", layer.addend)
        return (addend,), _loop(layer, f"out[n] = in[n] + {addend.name}[n];")
    if isinstance(layer, ArgExtremum):
        loop = f"    for (size_t n = 1; n < {layer.input.size}; ++n)\n        {code.chosen(layer, 'n')}"
        return (), f"size_t best = 0;\n{loop}\n    out[0] = (int64_t)best;"
    raise TypeError(layer)


def _loop(layer: Layer, statement: str) -> str:
    return f"for (size_t n = 0; n < {layer.size}; ++n)\n        {statement}"


def _accumulate(layer: QGemm) -> str:
    name, depth = layer.name, layer.input.size
    zero_points = signed_weights(layer)[1].any()
    sum_of_codes = f"int32_t sum_a = 0;\n    for (size_t k = 0; k < {depth}; ++k)\n        sum_a += in[k];\n    "
    correction = f" - (uint32_t){name}_weights_zero_point[n] * (uint32_t)sum_a" if zero_points else ""
    return (
        f"{sum_of_codes if zero_points else ''}for (size_t n = 0; n < {layer.size}; ++n) {{\n"
        f"        int32_t sum = 0;\n        for (size_t k = 0; k < {depth}; ++k)\n"
        f"            sum += in[k] * {name}_weights[n][k];\n"
        f"        out[n] = (int32_t)({name}_offset[n] + (uint32_t)sum{correction});\n    }}"
    )


def _finish(layer: QGemm) -> str:
    product = f"(float)in[n] * {layer.name}_multiplier[n]"
    if layer.dtype == np.float32:
        return _loop(layer, f"out[n] = {product};")
    loop = _loop(layer, f"out[n] = {code.rounded(layer.dtype, product)};")
    return f"{_zero_point(f'{layer.name}_output_zero_point')}\n    {loop}"


def _zero_point(table: str) -> str:
    return code.not_known("int32_t", "zero_point", f"{table}[0]")
