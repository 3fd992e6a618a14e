"""Device code of whole networks, written out for the tests, and how it is launched in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.network import Add, ArgExtremum, Array, DequantizeLinear, Layer, Network, QGemm, QuantizeLinear
from harness.targets.cuda.nvrtc import compile_for
from tests.ptx.interpreter import Module

KERNELS = Path(__file__).parents[2] / "kernels" / "cuda"
TYPES = {"uint8": "uint8_t", "int8": "int8_t", "int32": "int32_t", "int64": "int64_t", "float32": "float"}
THREADS = 64


@cache
def headers() -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(KERNELS.glob("*.cuh"))}


def compiled(source: str, arch: str = "sm_72", changed: Mapping[str, bytes] | None = None) -> str:
    """The PTX of `source`, with the headers of kernels/cuda, of which some may be changed."""
    return compile_for(arch, "sample.cu", source.encode(), {**headers(), **(changed or {})}).ptx


def c_type(dtype: np.dtype[Any]) -> str:
    return TYPES[str(dtype)]


def tables(layer: Layer) -> dict[str, Array]:
    """A layer's constants, by the names that they have in the device code."""
    return {f"{layer.name}_{name}": values for name, values in _constants(layer).items()}


def _constants(layer: Layer) -> dict[str, Array]:
    if isinstance(layer, QuantizeLinear | DequantizeLinear):
        return {"scale": np.atleast_1d(layer.scale), "zero": np.array([layer.zero_point], np.int32)}
    if isinstance(layer, QGemm):
        return {
            "weights": layer.weights,
            "zb": layer.weights_zero_point,
            "bias": layer.bias,
            "za": np.array([layer.a_zero_point], np.int32),
            "m": layer.multiplier,
            "zero": np.array([layer.y_zero_point], np.int32),
        }
    if isinstance(layer, Add) and layer.addend is not None:
        return {"addend": layer.addend}
    return {}


def _definitions(constants: Mapping[str, Array]) -> str:
    return "".join(f"__device__ {c_type(a.dtype)} {name}[{a.size}];\n" for name, a in constants.items())


def layerwise(network: Network) -> str:
    """A kernel NAME_forward(vectors, source, ..., output) for each layer: one thread an output."""
    code = "".join(_definitions(tables(layer)) + _layer(layer) for layer in network.layers)
    return f'#include "layerwise.cuh"\n{code}'


def _layer(layer: Layer) -> str:
    sources = [f"source_{number}" for number in range(len(layer.sources))]
    rows = ", ".join(f"{source} + out.v * {layer.input_width}" for source in sources)
    inputs = "".join(f", const {c_type(layer.input_dtype)} *{source}" for source in sources)
    call, functions = _functions(layer)
    return f"""{functions}
KERNEL {layer.name}_forward(unsigned vectors{inputs}, {c_type(layer.dtype)} *output)
{{
    const Output<{layer.width}> out;
    if (out.v < vectors)
        output[out.v * {layer.width} + out.n] = {call.format(rows=rows)};
}}
"""


def _functions(layer: Layer) -> tuple[str, str]:
    """How the kernel computes output n, and the functions that it calls."""
    x, y, name = c_type(layer.input_dtype), c_type(layer.dtype), layer.name
    compute = f"{name}_compute({{rows}}, out.n)"
    if isinstance(layer, QGemm):
        sizes = f"{layer.input_width}, {layer.width}"
        arguments = f"x, {name}_weights, {name}_zb[n], {name}_bias[n], {name}_za[0], n"
        finish = f"requantize<{y}>(acc, {name}_m[n], {name}_zero[0])"
        if layer.dtype == np.float32:
            finish = f"scale_accumulator(acc, {name}_m[n])"
        return f"{name}_finish({name}_accumulate({{rows}}, out.n), out.n)", (
            f"ONE_CODE int32_t {name}_accumulate(const {x} *x, unsigned n)\n"
            f"{{ return qgemm_accumulate<{sizes}>({arguments}); }}\n"
            f"ONE_CODE {y} {name}_finish(int32_t acc, unsigned n)\n{{ return {finish}; }}\n"
        )
    if isinstance(layer, Add):
        b = "const float *b, " if layer.addend is None else ""
        other = "b[n]" if b else f"{name}_addend[n]"
        return compute, f"ONE_CODE float {name}_compute(const float *a, {b}unsigned n) {{ return add(a[n], {other}); }}"
    if isinstance(layer, ArgExtremum):
        flags = f"{str(layer.largest).lower()}, {str(layer.last).lower()}"
        search = f"arg_extremum<{layer.input_width}, {flags}>(x)"
        return f"{name}_compute({{rows}})", f"ONE_CODE int64_t {name}_compute(const {x} *x) {{ return {search}; }}"
    function = f"quantize<{y}>" if isinstance(layer, QuantizeLinear) else f"dequantize<{x}>"
    return compute, (
        f"ONE_CODE {y} {name}_compute(const {x} *x, unsigned n)\n"
        f"{{ return {function}(x[n], {name}_scale[0], {name}_zero[0]); }}\n"
    )


def run_layerwise(module: Module, network: Network, vectors: npt.NDArray[np.float32]) -> tuple[Array, ...]:
    """Every layer's output."""
    written: dict[str, Array] = {network.input_name: vectors.copy()}
    for layer in network.layers:
        fill(module, tables(layer))
        output = np.empty((len(vectors), layer.width), layer.dtype)
        grid = (-(-output.size // THREADS), 1, 1)
        sources = [written[source] for source in layer.sources]
        module.launch(f"{layer.name}_forward", grid, (THREADS, 1, 1), [len(vectors), *sources, output])
        written[layer.output] = output
    return tuple(written[layer.output] for layer in network.layers)


def fill(module: Module, constants: Mapping[str, Array]) -> None:
    for name, values in constants.items():
        module.globals[name][:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def fused(network: Network, vectors: int = 16) -> str:
    """One kernel fused(vectors, input, output of each layer) for QuantizeLinear and QGemms, one after the other."""
    first, *dense = network.layers
    words = max(-(-first.width // 4), *(_words(layer) for layer in dense)) if dense else -(-first.width // 4)
    outputs = "".join(f", {c_type(layer.dtype)} *{layer.name}_output" for layer in network.layers)
    tiles = ("&tiles[0]", f"&tiles[{words} * STRIDE]")
    body = "".join(_fused_layer(layer, tiles[i % 2], tiles[(i + 1) % 2]) for i, layer in enumerate(dense))
    functions = "".join(_fused_functions(layer) for layer in dense)
    return f"""#define VECTORS {vectors}
#include "fused.cuh"
{_definitions(tables(first))}
ONE_CODE {c_type(first.dtype)} {first.name}_compute(float x)
{{ return quantize<{c_type(first.dtype)}>(x, {first.name}_scale[0], {first.name}_zero[0]); }}
{functions}
KERNEL __launch_bounds__(256) fused(unsigned vectors, const float *input{outputs})
{{
    __shared__ uint4 staged[STAGED];
    __shared__ uint32_t tiles[{2 * words} * STRIDE];
    const Carried carry = carried(vectors);
    fill<{c_type(first.dtype)}, {first.width}>({tiles[0]}, [&](unsigned v, unsigned n) {{
        const float x = v < carry.count ? input[(carry.first + v) * {first.width} + n] : 0;
        return {first.name}_compute(x);
    }});
    store<{c_type(first.dtype)}, {first.width}>(carry, {tiles[0]}, {first.name}_output);
{body}}}
"""


def _words(layer: Layer) -> int:
    return layer.width if layer.dtype == np.float32 else -(-layer.width // 4)


def _fused_functions(layer: Layer) -> str:
    a, y, name, words = c_type(layer.input_dtype), c_type(layer.dtype), layer.name, -(-layer.input_width // 4)
    assert isinstance(layer, QGemm)
    groups, b = -(-layer.width // 4), c_type(layer.weights.dtype)
    is_float = layer.dtype == np.float32
    finish = "scale_four(acc, M[g])" if is_float else f"requantize_four<{y}>(acc, M[g], {name}_zero[0])"
    return f"""
__device__ uint4 {name}_packed[{groups * words}], {name}_offset[{groups}], {name}_zb[{groups}];
__device__ float4 {name}_m[{groups}];
__device__ int32_t {name}_zero[1];
ONE_CODE int4 {name}_accumulate(const uint32_t *a, const uint4 *b, unsigned g)
{{ return accumulate_four<{a}, {b}, {layer.input_width}>(a, b, {name}_offset[g], &{name}_zb[g]); }}
ONE_CODE {"float4" if is_float else "uint32_t"} {name}_finish(int4 acc, unsigned g)
{{ return {finish.replace("M[g]", f"{name}_m[g]")}; }}
"""


def _fused_layer(layer: Layer, source: str, target: str) -> str:
    sizes = f"{-(-layer.input_width // 4)}, {layer.width}"
    name = layer.name
    return f"""    each_group<{sizes}>({name}_packed, staged, {source}, {target},
        [](const uint32_t *a, const uint4 *b, unsigned g) {{ return {name}_finish({name}_accumulate(a, b, g), g); }});
    store<{c_type(layer.dtype)}, {layer.width}>(carry, {target}, {name}_output);
"""


def fused_tables(layer: Layer) -> dict[str, Array]:
    """As `fused` declares them: everything by groups of four outputs, 0 behind the last."""
    if not isinstance(layer, QGemm):
        return tables(layer)
    depth, width = layer.weights.shape
    words, groups = -(-depth // 4), -(-width // 4)
    packed = np.zeros((words * 4, groups * 4), layer.weights.dtype)
    packed[:depth, :width] = layer.weights
    offset = layer.bias + depth * layer.a_zero_point * layer.weights_zero_point.astype(np.int64)
    offset -= layer.a_zero_point * layer.weights.astype(np.int64).sum(axis=0)
    behind = (0, 4 * groups - width)
    constants = {
        "packed": packed.reshape(words, 4, groups, 4).transpose(2, 0, 3, 1),
        "offset": np.pad(offset.astype(np.int32), behind),
        "zb": np.pad(layer.weights_zero_point, behind),
        "m": np.pad(layer.multiplier, behind),
        "zero": np.array([layer.y_zero_point], np.int32),
    }
    return {f"{layer.name}_{name}": values for name, values in constants.items()}


def run_fused(
    module: Module,
    network: Network,
    vectors: npt.NDArray[np.float32],
    block: tuple[int, int],
    asked: Sequence[bool] | None = None,
) -> tuple[Array, ...]:
    """Every layer's output, by blocks of (vectors, lanes) threads; of those not `asked` for, zeros."""
    outputs = [np.zeros((len(vectors), layer.width), layer.dtype) for layer in network.layers]
    for layer in network.layers:
        fill(module, fused_tables(layer))
    wanted = [output if ask else None for output, ask in zip(outputs, asked or [True] * len(outputs), strict=True)]
    grid = (-(-len(vectors) // block[0]), 1, 1)
    module.launch("fused", grid, (*block, 1), [len(vectors), vectors.copy(), *wanted])
    return tuple(outputs)
