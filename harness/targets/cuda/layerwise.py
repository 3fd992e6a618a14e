"""One kernel a layer, one thread an output: see kernels/cuda/layerwise.cuh."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import Launch, Table, Work
from harness.targets.cuda.code import (
    VECTORS_LIMIT,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    affine_tables,
    c_type,
    elementwise_function,
    flags,
    output,
    parameters,
)

HEADER = "layerwise.cuh"


def refusal(layer: Layer) -> str | None:  # noqa: ARG001 - of the interface
    """None: every layer fits."""
    return None


def generate(launches: Sequence[Launch]) -> list[DeviceLaunch]:
    """The device code of an item."""
    return [_launch(launch) for launch in launches]


def carried(launches: Sequence[Launch]) -> int:  # noqa: ARG001 - of the interface
    """No block of threads carries vectors, so that any number is right."""
    return VECTORS_LIMIT


def _launch(launch: Launch) -> DeviceLaunch:
    texts, kernels = zip(*(_forward(work) for work in launch), strict=True)
    written = frozenset(output(work.layer) for work in launch)
    return DeviceLaunch(tuple(_layer(work) for work in launch), kernels, "\n\n".join(texts), written)


def _layer(work: Work) -> DeviceLayer:
    layer = work.layer
    if isinstance(layer, QGemm):
        return DeviceLayer(work, _qgemm_tables(layer), _qgemm_functions(layer))
    if isinstance(layer, QuantizeLinear | DequantizeLinear):
        return DeviceLayer(work, affine_tables(layer), elementwise_function(layer))
    if isinstance(layer, Add):
        addend = () if layer.addend is None else (Table(f"{layer.name}_addend", layer.addend, computed=True),)
        return DeviceLayer(work, addend, elementwise_function(layer))
    if isinstance(layer, ArgExtremum):
        head = f"ONE_CODE int32_t {layer.name}_compute(const {c_type(layer.input.dtype)} *x)"
        return DeviceLayer(work, (), f"{head}\n{{\n    return arg_extremum<{flags(layer)}>(x);\n}}")
    raise TypeError(layer)


def _qgemm_functions(layer: QGemm) -> str:
    name, a, y = layer.name, c_type(layer.input.dtype), c_type(layer.dtype)
    weights = f"&{name}_weights[0][0], {name}_weights_zero_point[n], {name}_bias[n], {name}_input_zero_point[0]"
    finish = (
        f"scale_accumulator(acc, {name}_multiplier[n])"
        if layer.dtype == np.float32
        else f"requantize<{y}>(acc, {name}_multiplier[n], {name}_output_zero_point[0])"
    )
    return (
        f"ONE_CODE int32_t {name}_accumulate(const {a} *a, unsigned n)\n{{\n"
        f"    return sum_of_products<{layer.input.size}, {layer.size}>(a, {weights}, n);\n}}\n\n"
        f"ONE_CODE {y} {name}_finish(int32_t acc, unsigned n)\n{{\n    return {finish};\n}}"
    )


def _qgemm_tables(layer: QGemm) -> tuple[Table, ...]:
    name, zero_points = layer.name, layer.weights_zero_point.astype(np.int32)
    divided = "" if layer.dtype == np.float32 else " / y_scale"
    tables = [
        Table(f"{name}_weights", layer.weights, f"weights of node {name}, one column an output", computed=True),
        Table(f"{name}_weights_zero_point", zero_points, computed=True),
        Table(f"{name}_bias", layer.bias, computed=True),
        Table(f"{name}_input_zero_point", np.array([layer.a_zero_point], np.int32), computed=True),
        Table(
            f"{name}_multiplier",
            layer.multiplier,
            f"float32 bits of ((alpha * a_scale) * b_scale[n]){divided}",
            computed=True,
        ),
    ]
    if layer.dtype != np.float32:
        tables.append(Table(f"{name}_output_zero_point", np.array([layer.y_zero_point], np.int32), computed=True))
    return tuple(tables)


def _forward(work: Work) -> tuple[str, Kernel]:
    """The kernel of the schedule, which also computes the stages by themselves."""
    layer = work.layer
    sources = tuple(dict.fromkeys(work.sources))
    given = [(f"const {c_type(layer.input.dtype)}", source) for source in sources]
    arguments = parameters([*given, (c_type(layer.dtype), output(layer))])
    body = "\n".join(f"    {line}" for line in _body(work))
    name = f"{layer.name}_forward"
    return f"KERNEL {name}({arguments})\n{{\n{body}\n}}", Kernel(
        name, (*sources, output(layer)), layer.size, (layer.name,)
    )


def _body(work: Work) -> list[str]:
    """From buffer to buffer; for a stage from what is given to what is made."""
    layer, source, made = work.layer, work.sources[0], output(work.layer)
    name, x, y = layer.name, c_type(layer.input.dtype), c_type(layer.dtype)
    if isinstance(layer, QGemm):
        return [
            f"const {x} *const a = part == ACCUMULATE ? (const {x} *)given : {source};",
            f"{y} *const y = part == FINISH ? ({y} *)made : {made};",
            "int32_t *const sums = (int32_t *)(part == FINISH ? given : made);",
            f"qgemm<{layer.input.size}, {layer.size}>(vectors, a, y, part, sums, {name}_accumulate, {name}_finish);",
        ]
    to = f"{y} *const y = part == COMPUTE ? ({y} *)made : {made};"
    return [
        f"const {x} *const x = part == COMPUTE ? (const {x} *)given : {source};",
        to,
        *_terms(work),
        f"write_outputs<{layer.size}>(vectors, y, [&](const Output<{layer.size}> &at) {{",
        f"    return {name}_compute({_operands(layer)});",
        "});",
    ]


def _terms(work: Work) -> list[str]:
    """Of a sum: where the second term stands, and how far apart the vectors."""
    if not isinstance(work.layer, Add) or work.layer.addend is not None:
        return []
    width = work.layer.size
    return [
        f"const float *const other = part == COMPUTE ? x + {width} : {work.sources[1]};",
        f"const size_t pitch = part == COMPUTE ? {2 * width} : {width};",
    ]


def _operands(layer: Layer) -> str:
    """Of the layer's function, for the output `at`."""
    if isinstance(layer, ArgExtremum):
        return f"&x[at.v * {layer.input.size}]"
    if isinstance(layer, Add) and layer.addend is None:
        return "x[at.v * pitch + at.n], other[at.v * pitch + at.n]"
    return f"x[at.i], {layer.name}_addend[at.n]" if isinstance(layer, Add) else "x[at.i]"
