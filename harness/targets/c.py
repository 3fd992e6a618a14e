"""The reference target: every operator in plain C, one thread, on a CPU core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.network import Add, ArgExtremum, Array, DequantizeLinear, Layer, QGemm, QuantizeLinear
from harness.profile import Profile
from harness.targets import KERNELS, LayerCode

DEPTH_LIMIT = 33025  # QGEMM_DEPTH_LIMIT in kernels/c/qgemm.h


def refusal(layer: Layer) -> str | None:
    """Why this target cannot compute `layer` exactly; None if it can."""
    if isinstance(layer, QGemm) and layer.input_width > DEPTH_LIMIT:
        return f"{layer.input_width} inputs, but the kernel's sums stay inside int32 for at most {DEPTH_LIMIT}"
    return None


def folders() -> tuple[Path, ...]:
    """Folders of fixed sources."""
    return (KERNELS / "c",)


def headers() -> tuple[str, ...]:
    """The headers that the generated code needs."""
    return ("add.h", "arg_extremum.h", "dequantize_linear.h", "qgemm.h", "quantize_linear.h")


def ran_on(profile: Profile) -> str:
    """`hardware`, or the emulated CPU."""
    if profile.emulated and profile.emulator:
        return f"emulated-cpu (qemu {profile.emulator.cpu})"
    return "hardware"


def generate(layer: Layer, sources: Sequence[str]) -> LayerCode:
    """The code of `layer`, which reads the buffers `sources` of shape (vectors, input width) each."""
    if isinstance(layer, QuantizeLinear):
        return _quantize_linear(layer, *sources)
    if isinstance(layer, DequantizeLinear):
        return _dequantize_linear(layer, *sources)
    if isinstance(layer, QGemm):
        return _qgemm(layer, *sources)
    if isinstance(layer, Add):
        return _add(layer, *sources)
    if isinstance(layer, ArgExtremum):
        return _arg_extremum(layer, *sources)
    raise TypeError(layer)


def _each_vector(*calls: str) -> str:
    body = "\n".join(f"        {call}" for call in calls)
    # The second bound tells the compiler that no index leaves the buffers.
    return f"    for (size_t v = 0; v < vectors && v < BLOCK; ++v) {{\n{body}\n    }}"


def _quantize_linear(layer: QuantizeLinear, source: str) -> LayerCode:
    arguments = f"{layer.width}, {source}[v], {_float(layer.scale)}, {layer.zero_point}, {layer.name}_output[v]"
    return LayerCode("", "", _each_vector(f"quantize_linear_{layer.dtype}({arguments});"))


def _dequantize_linear(layer: DequantizeLinear, source: str) -> LayerCode:
    arguments = f"{layer.width}, {source}[v], {_float(layer.scale)}, {layer.zero_point}, {layer.name}_output[v]"
    return LayerCode("", "", _each_vector(f"dequantize_linear_{layer.input_dtype}({arguments});"))


def _add(layer: Add, *sources: str) -> LayerCode:
    terms = [f"{source}[v]" for source in sources]
    constants = ""
    if layer.addend is not None:
        terms.append(f"{layer.name}_addend")
        constants = f"static const float {layer.name}_addend[{layer.width}] = {_table(layer.addend)};"
    return LayerCode(
        constants, "", _each_vector(f"add_float32({layer.width}, {', '.join(terms)}, {layer.name}_output[v]);")
    )


def _arg_extremum(layer: ArgExtremum, source: str) -> LayerCode:
    flags = f"{str(layer.largest).lower()}, {str(layer.last).lower()}"
    call = f"arg_extremum_{layer.input_dtype}({layer.input_width}, {source}[v], {flags})"
    return LayerCode("", "", _each_vector(f"{layer.name}_output[v][0] = {call};"))


def _qgemm(layer: QGemm, source: str) -> LayerCode:
    name, depth, width = layer.name, layer.input_width, layer.width
    kernel = layer.input_dtype
    zero_points = f"{name}_weights_zero_point" if _zero_points(layer).any() else "NULL"
    weights = f"&{name}_weights[0][0]"
    operands = f"{depth}, {width}, {source}[v], {weights}, {zero_points}, {name}_offset, acc"
    accumulate = f"qgemm_accumulate_{kernel}({operands});"
    if layer.dtype == np.float32:
        finish = f"scale_accumulator({width}, acc, {name}_multiplier, {name}_output[v]);"
    else:
        finish = f"requantize_{layer.dtype}({width}, acc, {name}_multiplier, {layer.y_zero_point}, {name}_output[v]);"
    offset = f"{depth}, {width}, {weights}, {zero_points}, {name}_bias, {layer.a_zero_point}, {name}_offset"
    return LayerCode(
        _qgemm_constants(layer),
        f"    qgemm_offset_{kernel}({offset});",
        _each_vector(f"int32_t acc[{width}];", accumulate, finish),
    )


def _qgemm_constants(layer: QGemm) -> str:
    name, width = layer.name, layer.width
    weights = (layer.weights.T.astype(np.int32) - _shift(layer)).astype(np.int8)
    less = f", less {_shift(layer)}" if _shift(layer) else ""
    tables = [
        f"/* {layer.weights.dtype} weights of node {name}{less}, transposed: one row an output */",
        f"static const int8_t {name}_weights[{width}][{layer.input_width}] = {_table(weights)};",
        f"static const int32_t {name}_bias[{width}] = {_table(layer.bias)};",
        f"/* float32 bits of ((alpha * a_scale) * b_scale[n]){'' if layer.dtype == np.float32 else ' / y_scale'} */",
        f"static const float {name}_multiplier[{width}] = {_table(layer.multiplier)};",
        f"static uint32_t {name}_offset[{width}]; /* constant after init */",
    ]
    if _zero_points(layer).any():
        tables.insert(2, f"static const int32_t {name}_weights_zero_point[{width}] = {_table(_zero_points(layer))};")
    return "\n".join(tables)


def _shift(layer: QGemm) -> int:
    """What the kernel wants subtracted from the weights and their zero points."""
    return 128 if layer.weights.dtype == np.uint8 else 0


def _zero_points(layer: QGemm) -> Array:
    """The zero points of the weights as the kernel wants them, int32 (N,)."""
    return layer.weights_zero_point - _shift(layer)


def _float(value: np.floating) -> str:
    """The exact value as a C hexadecimal literal."""
    return f"{float(value).hex()}f"


def _literal(value: np.generic) -> str:
    return _float(value) if isinstance(value, np.floating) else str(int(value))


def _table(values: Array) -> str:
    if values.ndim == 1:
        return "{" + ", ".join(_literal(value) for value in values) + "}"
    return "{\n" + ",\n".join("    " + _table(row) for row in values) + "\n}"
