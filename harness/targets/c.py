"""The reference target: every operator in plain C, one thread, on a CPU core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.network import Add, ArgExtremum, DequantizeLinear, Layer, QGemm, QuantizeLinear
from harness.profile import Profile
from harness.targets import (
    C_TYPES,
    HARDWARE,
    KERNELS,
    ItemCode,
    KernelCompiler,
    Launch,
    LayerCode,
    Part,
    Stage,
    Table,
    initialiser,
    offset,
    origin_of_weights,
    signed_weights,
    stage,
    too_deep,
)

together = False
unconfirmed = ()

INT32 = np.dtype(np.int32)


def refusal(layer: Layer) -> str | None:
    """Why this target cannot compute `layer` exactly; None if it can."""
    return too_deep(layer)


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
    return HARDWARE


def contradiction(profile: Profile, device: str) -> str | None:  # noqa: ARG001 - of the interface
    """None: an item on the processor names no device."""
    return None


def shortage(launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG001 - of the interface
    """None: whatever is long or large takes the processor longer."""
    return None


def forecast(launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:  # noqa: ARG001 - of the interface
    """Nothing."""
    return ()


def compiler() -> KernelCompiler | None:
    """None: C."""
    return None


def generate(item: str, launches: Sequence[Launch]) -> ItemCode:  # noqa: ARG001 - the names are the layers'
    """The code of an item; its init computes the offsets."""
    works = [work for launch in launches for work in launch]
    offsets = [_offset_call(work.layer) for work in works if isinstance(work.layer, QGemm)]
    return ItemCode(tuple(_layer(work.layer, work.sources) for work in works), initialise="\n".join(offsets))


def _layer(layer: Layer, sources: Sequence[str]) -> LayerCode:
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


def _quantize_linear(layer: QuantizeLinear, source: str) -> LayerCode:
    tables, arguments = _affine(layer)
    body = f"quantize_linear_{layer.dtype}({layer.width}, in, {arguments}, out);"
    return _elementwise(layer, source, tables, body)


def _dequantize_linear(layer: DequantizeLinear, source: str) -> LayerCode:
    tables, arguments = _affine(layer)
    body = f"dequantize_linear_{layer.input_dtype}({layer.width}, in, {arguments}, out);"
    return _elementwise(layer, source, tables, body)


def _affine(layer: QuantizeLinear | DequantizeLinear) -> tuple[tuple[Table, ...], str]:
    """Scale and zero point as tables, and as the arguments of a call."""
    scale = Table(f"{layer.name}_scale", np.atleast_1d(layer.scale))
    # Not _zero_point: layer dense_output would have the same table as dense, which is a QGemm.
    zero_point = Table(f"{layer.name}_zero", np.array([layer.zero_point], np.int32), "zero point")
    return (scale, zero_point), f"{scale.name}[0], {zero_point.name}[0]"


def _arg_extremum(layer: ArgExtremum, source: str) -> LayerCode:
    flags = f"{str(layer.largest).lower()}, {str(layer.last).lower()}"
    body = f"out[0] = arg_extremum_{layer.input_dtype}({layer.input_width}, in, {flags});"
    return _elementwise(layer, source, (), body)


def _elementwise(layer: Layer, source: str, tables: tuple[Table, ...], body: str) -> LayerCode:
    """A layer of one source and one stage; `body` makes one vector `out` of one vector `in`."""
    compute = stage(layer, Part.COMPUTE, layer.input_dtype, layer.input_width, layer.dtype, layer.width)
    forward = _each_vector(f"{compute.name}({source}[v], {layer.name}_output[v]);")
    return LayerCode(_definitions(tables, (compute, body)), forward, tables, (compute,))


def _add(layer: Add, *sources: str) -> LayerCode:
    if layer.addend is not None:
        addend = Table(f"{layer.name}_addend", layer.addend)
        body = f"add_float32({layer.width}, in, {addend.name}, out);"
        return _elementwise(layer, sources[0], (addend,), body)
    compute = stage(layer, Part.COMPUTE, layer.input_dtype, 2 * layer.width, layer.dtype, layer.width)
    function = (
        f"\nstatic ONE_CODE void {compute.name}(const float *in, const float *other, float *out)\n{{\n"
        f"    add_float32({layer.width}, in, other, out);\n}}\n"
        f"DEFINE_STAGE_OF_TWO({compute.name}, float, {layer.width}, float, {layer.width})"
    )
    terms = ", ".join(f"{source}[v]" for source in sources)
    return LayerCode(function, _each_vector(f"{compute.name}({terms}, {layer.name}_output[v]);"), (), (compute,))


def _qgemm(layer: QGemm, source: str) -> LayerCode:
    name, depth, width = layer.name, layer.input_width, layer.width
    tables = _qgemm_tables(layer)
    weights, zero_points = f"&{name}_weights[0][0]", _zero_points_argument(layer)
    accumulate = stage(layer, Part.ACCUMULATE, layer.input_dtype, depth, INT32, width)
    finish = stage(layer, Part.FINISH, INT32, width, layer.dtype, width)
    sizes = f"{depth}, {width}"
    kernel = f"qgemm_accumulate_{layer.input_dtype}({sizes}, in, {weights}, {zero_points}, {name}_offset, out);"
    return LayerCode(
        _definitions(tables, (accumulate, kernel), (finish, _qgemm_finish(layer))),
        _each_vector(
            f"int32_t acc[{width}];",
            f"{accumulate.name}({source}[v], acc);",
            f"{finish.name}(acc, {name}_output[v]);",
        ),
        tables,
        (accumulate, finish),
    )


def _offset_call(layer: QGemm) -> str:
    name = layer.name
    operands = f"&{name}_weights[0][0], {_zero_points_argument(layer)}, {name}_bias, {name}_input_zero_point[0]"
    return f"    qgemm_offset_{layer.input_dtype}({layer.input_width}, {layer.width}, {operands}, {name}_offset);"


def _zero_points_argument(layer: QGemm) -> str:
    return f"{layer.name}_weights_zero_point" if signed_weights(layer)[1].any() else "NULL"


def _qgemm_finish(layer: QGemm) -> str:
    if layer.dtype == np.float32:
        return f"scale_accumulator({layer.width}, in, {layer.name}_multiplier, out);"
    operands = f"{layer.width}, in, {layer.name}_multiplier, {layer.name}_output_zero_point[0], out"
    return f"requantize_{layer.dtype}({operands});"


def _qgemm_tables(layer: QGemm) -> tuple[Table, ...]:
    name, (weights, zero_points) = layer.name, signed_weights(layer)
    divided = "" if layer.dtype == np.float32 else " / y_scale"
    origin = f"{origin_of_weights(layer)}, transposed: one row an output"
    tables = [
        Table(f"{name}_weights", weights.T, origin),
        Table(f"{name}_bias", layer.bias),
        Table(f"{name}_input_zero_point", np.array([layer.a_zero_point], np.int32)),
        Table(f"{name}_multiplier", layer.multiplier, f"float32 bits of ((alpha * a_scale) * b_scale[n]){divided}"),
        Table(f"{name}_offset", offset(layer), "constant after init", computed=True),
    ]
    if zero_points.any():
        tables.append(Table(f"{name}_weights_zero_point", zero_points))
    if layer.dtype != np.float32:
        tables.append(Table(f"{name}_output_zero_point", np.array([layer.y_zero_point], np.int32)))
    return tuple(tables)


def _definitions(tables: Sequence[Table], *stages: tuple[Stage, str]) -> str:
    """The tables, and for every stage its function with the body given."""
    return "\n".join([*map(_table, tables), *(_function(of_layer, body) for of_layer, body in stages)])


def _function(of_layer: Stage, body: str) -> str:
    input_type, output_type = C_TYPES[of_layer.input_dtype.name], C_TYPES[of_layer.output_dtype.name]
    sizes = f"{input_type}, {of_layer.input_width}, {output_type}, {of_layer.output_width}"
    return (
        f"\nstatic ONE_CODE void {of_layer.name}(const {input_type} *in, {output_type} *out)\n{{\n    {body}\n}}\n"
        f"DEFINE_STAGE({of_layer.name}, {sizes})"
    )


def _table(table: Table) -> str:
    comment = f"/* {table.comment} */\n" if table.comment else ""
    array = table.name + "".join(f"[{size}]" for size in table.values.shape)
    c_type = C_TYPES[table.values.dtype.name]
    if table.computed:
        return f"{comment}static {c_type} {array};"
    return f"{comment}static const {c_type} {array} = {initialiser(table.values)};"


def _each_vector(*calls: str) -> str:
    body = "\n".join(f"        {call}" for call in calls)
    # The second bound tells the compiler that no index leaves the buffers.
    return f"    for (size_t v = 0; v < vectors && v < BLOCK; ++v) {{\n{body}\n    }}"
