"""One kernel a layer, one thread an output: see kernels/cuda/layerwise.cuh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from harness.network import Add, ArgExtremum, DequantizeLinear, Layer, QGemm, QuantizeLinear
from harness.targets import Launch, Table, Work
from harness.targets.cuda.code import (
    VECTORS_LIMIT,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    affine_tables,
    c_type,
    compute_stage,
    elementwise_function,
    flags,
    output,
    parameters,
    qgemm_stages,
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
        return _qgemm(work, layer)
    if isinstance(layer, QuantizeLinear | DequantizeLinear):
        return _computed(work, affine_tables(layer), elementwise_function(layer), f"{layer.name}_compute(in[{_AT}])")
    if isinstance(layer, Add):
        return _add(work, layer)
    if isinstance(layer, ArgExtremum):
        given = f"const {c_type(layer.input_dtype)} *x"
        function = (
            f"ONE_CODE int32_t {layer.name}_compute({given})\n{{\n    return arg_extremum<{flags(layer)}>(x);\n}}"
        )
        return _computed(work, (), function, f"{layer.name}_compute(&in[at.v * {layer.input_width}])")
    raise TypeError(layer)


_AT = "at.i"


def _add(work: Work, layer: Add) -> DeviceLayer:
    if layer.addend is not None:
        addend = Table(f"{layer.name}_addend", layer.addend, computed=True)
        call = f"{layer.name}_compute(in[{_AT}], {addend.name}[at.n])"
        return _computed(work, (addend,), elementwise_function(layer), call)
    terms = f"in[{_AT} + at.v * {layer.width}]", f"in[{_AT} + (at.v + 1) * {layer.width}]"
    return _computed(work, (), elementwise_function(layer), f"{layer.name}_compute({', '.join(terms)})")


def _computed(work: Work, tables: tuple[Table, ...], function: str, call: str) -> DeviceLayer:
    """A layer of one stage, whose output a thread makes by `call`."""
    stage = compute_stage(work.layer)
    text, kernel = _kernel(
        f"{stage.name}_stage", work.layer.width, [("in", stage.input_dtype)], stage.output_dtype, call
    )
    return DeviceLayer(work, tables, f"{function}\n\n{text}", ((stage, kernel),))


def _qgemm(work: Work, layer: QGemm) -> DeviceLayer:
    name, accumulated, finished = layer.name, *qgemm_stages(layer)
    a, y = c_type(layer.input_dtype), c_type(layer.dtype)
    weights = f"&{name}_weights[0][0], {name}_weights_zero_point[n], {name}_bias[n], {name}_input_zero_point[0]"
    finish = (
        f"scale_accumulator(acc, {name}_multiplier[n])"
        if layer.dtype == np.float32
        else f"requantize<{y}>(acc, {name}_multiplier[n], {name}_output_zero_point[0])"
    )
    functions = (
        f"ONE_CODE int32_t {name}_accumulate(const {a} *a, unsigned n)\n{{\n"
        f"    return qgemm_accumulate<{layer.input_width}, {layer.width}>(a, {weights}, n);\n}}\n\n"
        f"ONE_CODE {y} {name}_finish(int32_t acc, unsigned n)\n{{\n    return {finish};\n}}"
    )
    calls = f"{name}_accumulate(&in[at.v * {layer.input_width}], at.n)", f"{name}_finish(in[{_AT}], at.n)"
    kernels = [
        _kernel(f"{stage.name}_stage", layer.width, [("in", stage.input_dtype)], stage.output_dtype, call)
        for stage, call in zip((accumulated, finished), calls, strict=True)
    ]
    text = "\n\n".join([functions, *(text for text, _ in kernels)])
    stages = tuple(zip((accumulated, finished), (kernel for _, kernel in kernels), strict=True))
    return DeviceLayer(work, _qgemm_tables(layer), text, stages)


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
    """The kernel of the schedule: the same functions, from buffer to buffer."""
    layer, source = work.layer, work.sources[0]
    name, given = layer.name, f"&{source}[at.v * {layer.input_width}]"
    if isinstance(layer, QGemm):
        call = f"{name}_finish({name}_accumulate({given}, at.n), at.n)"
    elif isinstance(layer, ArgExtremum):
        call = f"{name}_compute({given})"
    elif isinstance(layer, Add):
        other = f"{name}_addend[at.n]" if layer.addend is not None else f"{work.sources[1]}[{_AT}]"
        call = f"{name}_compute({source}[{_AT}], {other})"
    else:
        call = f"{name}_compute({source}[{_AT}])"
    sources = [(source, layer.input_dtype) for source in dict.fromkeys(work.sources)]
    return _kernel(f"{name}_forward", layer.width, sources, layer.dtype, call, output(layer))


def _kernel(
    name: str,
    width: int,
    sources: Iterable[tuple[str, np.dtype[np.generic]]],
    dtype: np.dtype[np.generic],
    call: str,
    result: str = "out",
) -> tuple[str, Kernel]:
    """A kernel whose threads make an output each, by `call`, out of the buffers `sources`."""
    sources = list(sources)
    given = [(f"const {c_type(kind)}", source) for source, kind in sources]
    text = (
        f"KERNEL {name}({parameters([*given, (c_type(dtype), result)])})\n{{\n"
        f"    const Output<{width}> at;\n    if (at.v < vectors)\n        {result}[{_AT}] = {call};\n}}"
    )
    return text, Kernel(name, (*(source for source, _ in sources), result), width)
