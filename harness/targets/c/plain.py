"""The readable reference: every operator is a function of kernels/c with the layer's sizes as arguments."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import LayerCode, Table
from harness.targets.c import code
from harness.targets.c.code import Bodies

HEADERS = ("add.h", "arg_extremum.h", "dequantize_linear.h", "qgemm.h", "quantize_linear.h")


def layer_code(layer: Layer, sources: Sequence[str], prefix: str = "") -> LayerCode:
    """The code of `layer`, which reads the buffers `sources` of shape (vectors, input width) each.

    `prefix` is that of the functions that are called.
    """
    if isinstance(layer, Add) and layer.addend is None:
        return code.addition(layer, sources, f"{prefix}add_float32({layer.size}, in, other, out);")
    [source] = sources
    if isinstance(layer, QGemm):
        return code.qgemm(layer, source, code.qgemm_tables(layer), _qgemm(layer, prefix))
    tables, call = _elementwise(layer)
    assigned = "out[0] = " if isinstance(layer, ArgExtremum) else ""
    return code.elementwise(layer, source, tables, f"{assigned}{prefix}{call}")


def _elementwise(layer: Layer) -> tuple[tuple[Table, ...], str]:
    """The constants and the call of a layer with one source and one stage."""
    if isinstance(layer, QuantizeLinear):
        scale, zero_point = code.affine(layer)
        arguments = f"{layer.size}, in, {scale.name}[0], {zero_point.name}[0], out"
        return (scale, zero_point), f"quantize_linear_{layer.dtype}({arguments});"
    if isinstance(layer, DequantizeLinear):
        scale, zero_point = code.affine(layer)
        arguments = f"{layer.size}, in, {scale.name}[0], {zero_point.name}[0], out"
        return (scale, zero_point), f"dequantize_linear_{layer.input.dtype}({arguments});"
    if isinstance(layer, Add) and layer.addend is not None:
        addend = Table(f"{layer.name}_addend", layer.addend)
        return (addend,), f"add_float32({layer.size}, in, {addend.name}, out);"
    if isinstance(layer, ArgExtremum):
        flags = f"{str(layer.largest).lower()}, {str(layer.last).lower()}"
        return (), f"arg_extremum_{layer.input.dtype}({layer.input.size}, in, {flags});"
    raise TypeError(layer)


def _qgemm(layer: QGemm, prefix: str) -> Bodies:
    name, sizes = layer.name, f"{layer.input.size}, {layer.size}"
    operands = f"&{name}_weights[0][0], {code.zero_points_argument(layer)}, {name}_offset"
    accumulate = f"{prefix}qgemm_accumulate_{layer.input.dtype}({sizes}, in, {operands}, out);"
    return Bodies(accumulate, code.finish_call(layer, f"{prefix}scale_accumulator", f"{prefix}requantize"))


def initialise(layer: QGemm) -> str:
    """The call that computes the offsets, a statement of an item's init."""
    return code.offset_call(layer, "qgemm_offset", f"{layer.name}_offset")
