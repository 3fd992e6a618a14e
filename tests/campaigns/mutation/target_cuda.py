"""The mutants of code in targets cuda:layerwise and cuda:fused: changes of kernels/cuda, and of what is generated.

The device code is compiled twice, by NVRTC and as host code, so that every change is one that both compilers take.
What the kernels do not compute in one expression is taken from tests/support/diagnosis/mutants.c, which knows the
scales.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

import numpy as np

from harness.build import codegen
from harness.core.errors import ToolError
from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.plan.plan import Plan
from harness.targets import KERNELS
from harness.targets.cuda import ptx
from harness.targets.cuda.build import SOURCE as NETWORK
from harness.targets.cuda.code import c_type
from tests.campaigns.mutation.target_c import (
    FIXED_POINT,
    INT16_SATURATED,
    PRODUCTS,
    SUM,
    TOWARDS_ZERO,
    both,
    has_sum,
    kernel,
    product,
    quantization,
)
from tests.support.diagnosis import mutants
from tests.support.programs.board_program import Patch

Injection = Callable[[Plan], Iterable[Patch]]

LAYERWISE, FUSED = "cuda:layerwise", "cuda:fused"
ROUNDING, OPERATORS, DOT4, ONE_LAYER, ALL_LAYERS = (
    f"kernels/cuda/{name}.cuh" for name in ("rounding", "operators", "dot4", "layerwise", "fused")
)
GPU, HOST = "kernels/cuda/gpu.c", "network.c"
LAST_INCLUDE = '#include "self_test.cuh"\n'
FORMULA = "template <unsigned DEPTH, unsigned WIDTH, typename A, typename B>"
GROUP = 4  # outputs that the fused kernel computes together
TWO, EIGHT = 2, 8

# Whether the self-test refuses is asked once; everything else of a mutant is tried past it.
PAST_THE_SELF_TEST = "PAST_THE_SELF_TEST"
WRONG_RESULT = "if (results[i] != self_test_cases[i].expected)"
TOLERANT = (
    Patch(GPU, WRONG_RESULT, f'{WRONG_RESULT[:-1]} && !getenv("{PAST_THE_SELF_TEST}"))'),
    Patch(GPU, "#include <string.h>\n", "#include <stdlib.h>\n#include <string.h>\n"),
)


@contextmanager
def past_the_inspection() -> Iterator[list[ToolError]]:
    """What the build refuses for its PTX is built all the same; the list then says why it would have been refused."""
    refusals: list[ToolError] = []
    inspect = ptx.inspect

    def noting(text: str, fusing: Collection[str] = ()) -> None:
        try:
            inspect(text, fusing)
        except ToolError as refusal:
            refusals.append(refusal)

    with mock.patch.object(ptx, "inspect", noting):
        yield refusals


def network_alone(text: str) -> str:
    """PTX of the network's own kernels: the self-test calls functions that the network may not.

    Without comments, in which NVRTC counts the calls that it has compiled since its process began.
    """
    others, found = re.subn(r"^\.visible \.entry self_test\(.*?^}\n", "", text, flags=re.MULTILINE | re.DOTALL)
    assert found == 1
    return re.sub(r"//.*", "", others)


# mutants.c as device code: without its tables and entry points, every function for both sides.
DEVICE_LANGUAGE = """
#ifdef __CUDACC_RTC__
#define INT64_C(value) value##ll
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#endif

/* IEEE 754 binary16: 11 bits of significand, exponents from -14, to nearest, half to even */
struct binary16 {
    float value;
    __device__ binary16(double exact)
    {
        int exponent;
        frexp(exact, &exponent);
        const int last = (exponent > -13 ? exponent : -13) - 11;
        value = (float)ldexp(rint(ldexp(exact, -last)), last);
        if (fabsf(value) > 65504.0f)
            value = value > 0 ? __uint_as_float(0x7f800000) : __uint_as_float(0xff800000);
    }
    __device__ operator float() const
    {
        return value;
    }
};
"""


def _device_functions() -> str:
    text = re.sub(r"#include <.*>\n", "", mutants.SOURCE.read_text(encoding="utf-8"))
    text = re.sub(r"^static const struct {\n    const char \*name;.*?^};\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(const char \*|void )\w+\(.*?^}\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^static ", "__device__ inline ", text, flags=re.MULTILINE).replace("_Float16", "binary16")
    return f"{DEVICE_LANGUAGE}\nnamespace wrong {{\n{text}}}\n"


FUNCTIONS = Patch(NETWORK, LAST_INCLUDE, f"{LAST_INCLUDE}{_device_functions()}")


def is_fused(made: Plan) -> bool:
    return any(item.target == FUSED for item in made.items)


def device_text(made: Plan) -> str:
    """The generated device code of all items."""
    return "\n\n".join(code.kernels.text for code in codegen.generate(made).items if code.kernels)


def layers_of(made: Plan, kind: type[Layer]) -> Iterator[Layer]:
    return (layer for layer in made.network.layers if isinstance(layer, kind))


def with_body(made: Plan, function: str, body: str, before: str = "") -> Patch:
    """A function of one code, with another body and something that stands before it."""
    found = re.search(rf"ONE_CODE \w+ {function}\(.*\)\n{{\n", device_text(made))
    assert found
    text, head = device_text(made), found[0]
    return Patch(NETWORK, text[found.start() : text.index("\n}", found.end())], f"{before}{head}    {body}")


def rounding(expression: str) -> Injection:
    """Of the float32 v to an integer, in QuantizeLinear and QGemm alike."""
    return kernel(Patch(ROUNDING, "__float2int_rn(v)", f"(int32_t)({expression})"))


def quotient(expression: str) -> Injection:
    """Of x and scale, in QuantizeLinear."""
    return kernel(Patch(ROUNDING, "__fdiv_rn(x, scale)", expression))


def adding(expression: str) -> Injection:
    """Return another operation on the terms A and B, for networks that have a sum."""
    return lambda made: [Patch(NETWORK, SUM, f"= {expression};")] if has_sum(made) else []


def scaled(expression: str) -> Injection:
    """The float32 output of acc and m; what becomes a code keeps its product."""
    right = "__fmul_rn(__int2float_rn(acc), m)"
    return kernel(
        Patch(ROUNDING, f"return {right};", f"return {expression};"),
        Patch(ROUNDING, "(scale_accumulator(acc, m), zero_point)", f"({right}, zero_point)"),
    )


def finishing(function: str) -> Injection:
    """Every QGemm with codes as output computes them by this function of mutants.c."""
    return lambda made: _with_function(made, function, lambda layer: layer.dtype != np.float32)


def scaling(function: str) -> Injection:
    """Every QGemm with a float32 output computes it by this function of mutants.c."""
    return lambda made: _with_function(made, function, lambda layer: layer.dtype == np.float32)


def _with_function(made: Plan, function: str, wanted: Callable[[QGemm], bool]) -> Sequence[Patch]:
    layers = [layer for layer in made.network.layers if isinstance(layer, QGemm) and wanted(layer)]
    body = _four_outputs if is_fused(made) else _one_output
    found = [
        with_body(made, f"{layer.name}_finish", body(layer, function), f"{_columns(layer)}\n\n") for layer in layers
    ]
    return [FUNCTIONS, *found] if found else []


def _columns(layer: QGemm) -> str:
    """The constants of every output, and of those that fill up the last group."""
    columns = [min(column, layer.size - 1) for column in range(-(-layer.size // GROUP) * GROUP)]
    rows = ",\n    ".join(product(layer, column) for column in columns)
    return f"__device__ wrong::product {layer.name}_columns[] = {{\n    {rows}\n}};"


def _one_output(layer: QGemm, function: str) -> str:
    return (
        f"wrong::product p = {layer.name}_columns[n];\n    p.sum = acc - p.bias;\n"
        f"    return ({c_type(layer.dtype)})wrong::{function}(&p);"
    )


def _four_outputs(layer: QGemm, function: str) -> str:
    values = [f"one({i}, acc.{axis})" for i, axis in enumerate("xyzw")]
    if layer.dtype == np.float32:
        made = f"make_float4({', '.join(values)})"
    else:
        made = " | ".join(f"(uint32_t)(uint8_t){value} << {8 * i}" for i, value in enumerate(values))
    return (
        f"const auto one = [&](unsigned i, int32_t sum) {{\n"
        f"        wrong::product p = {layer.name}_columns[{GROUP} * g + i];\n        p.sum = sum - p.bias;\n"
        f"        return wrong::{function}(&p);\n    }};\n    return {made};"
    )


def quantizing(function: str) -> Injection:
    """Every QuantizeLinear computes its codes by this function of mutants.c."""

    def patches(made: Plan) -> Iterator[Patch]:
        yield FUNCTIONS
        for layer in made.network.layers:
            if isinstance(layer, QuantizeLinear):
                call = f"return ({c_type(layer.dtype)})wrong::{function}(&q, x);"
                body = f"const wrong::quantization q = {quantization(layer)};\n    {call}"
                yield with_body(made, f"{layer.name}_compute", body)

    return patches


def saturated_pairs(made: Plan) -> Iterable[Patch]:
    """Of products of codes, as they are stored."""
    helper = f"__device__ {INT16_SATURATED}"
    if is_fused(made):
        one = "(A)(a >> {0}) * (B)(b >> {0})"
        pair = f"{one.format('shift')} + {one.format('(shift + 8)')}"
        before = "template <typename A, typename B> __device__"
        return [
            Patch(DOT4, before, f"{helper}\n{before}"),
            Patch(DOT4, "#ifdef __CUDACC_RTC__\n#define", "#if 0\n#define"),
            Patch(DOT4, "shift += 8", "shift += 16"),
            Patch(DOT4, f"({one.format('shift')})", f"int16_saturated({pair})"),
        ]
    one = "a[{0}] * b[({0}) * WIDTH + n]"
    step = "acc += (a[k] - za) * (b[k * WIDTH + n] - zb);"
    pair = f"{one.format('k - 1')} + {one.format('k')}"
    lost = f"{{\n            const int32_t pair = {pair};\n            acc += int16_saturated(pair) - pair;\n        }}"
    return [
        Patch(ONE_LAYER, FORMULA, f"{helper}\n{FORMULA}"),
        Patch(ONE_LAYER, step, f"{{\n        {step}\n        if (k % 2)\n        {lost}\n        }}"),
    ]


def whole_eights(made: Plan) -> Iterator[Patch]:
    """The sum ends at a multiple of eight inputs."""
    if not is_fused(made):
        yield Patch(ONE_LAYER, "k < DEPTH;", "k < DEPTH / 8 * 8;")
        return
    for layer in layers_of(made, QGemm):
        head = rf"ONE_CODE int4 {layer.name}_accumulate\(.*\)\n{{\n    return accumulate_four<\w+, \w+, "
        found = re.search(rf"({head}){layer.input.size}>", device_text(made))
        assert found
        if layer.input.size % EIGHT:
            yield Patch(NETWORK, found[0], f"{found[1]}{layer.input.size // EIGHT * EIGHT}>")


def without_column_tail(made: Plan) -> Iterator[Patch]:
    """The outputs behind the last whole group are zeros."""
    for layer in layers_of(made, QGemm):
        whole = layer.size // GROUP
        if layer.size % GROUP:
            tail = f"g >= {whole}" if is_fused(made) else f"n >= {whole * GROUP}"
            zero = "make_float4(0, 0, 0, 0)" if is_fused(made) and layer.dtype == np.float32 else "0"
            found = re.search(rf"ONE_CODE \w+ {layer.name}_finish\(.*\)\n{{\n", device_text(made))
            assert found
            yield Patch(NETWORK, found[0], f"{found[0]}    if ({tail})\n        return {zero};\n")


def summing(terms: int, expression: str) -> Injection:
    """The last of a sum's two or three terms is added by an expression of t1, t2, t3, or of the second's acc and m.

    No stage could compute it, as it reads more than a layer's sources: it stands in the kernel of the schedule.
    """

    def patches(made: Plan) -> Iterator[Patch]:
        for layer in made.network.layers:
            if isinstance(layer, Add) and layer.name.endswith(f"_sum_{terms}"):
                group = layer.name.removesuffix(f"_sum_{terms}")
                second = next(other for other in made.network.layers if other.name == f"{group}_term_2")
                if is_fused(made):
                    yield _sum_of_tiles(made, layer, terms, expression, second)
                else:
                    yield from _sum_of_buffers(made, layer, terms, expression, second)

    return patches


def _source(made: Plan, layer: Layer) -> str:
    """The buffer that it reads."""
    by_output = {other.output.name: other.name for other in made.network.layers}
    return f"{by_output[layer.sources[0]]}_output"


def _sum_of_tiles(made: Plan, layer: Add, terms: int, expression: str, second: Layer) -> Patch:
    """In the kernel of all layers."""
    group = second.name.removesuffix("_term_2")
    found = re.search(rf"{layer.name}_compute\(&\w+\[v\], &\w+\[v\], n\)", device_text(made))
    assert found
    given = _stored(layer, group, found[0]) if terms > TWO else _accumulated(_source(made, second), second)
    return Patch(NETWORK, found[0], _evaluated(found[0], f"{given} return {expression};"))


def _evaluated(right: str, statements: str) -> str:
    """As an expression; the proof, which asks for the layer by itself, gets the right one."""
    return f"[&]() -> float {{ if (part != WHOLE) return {right}; {statements} }}()"


def _accumulated(source: str, second: Layer) -> str:
    """The second term's acc anew, from its source, which is still there."""
    weights = f"(const uint4 *){second.name}_weights + n / {GROUP} * {-(-second.input.size // 4)}"
    first = second.name.removesuffix("2") + "1_output_tile"
    return (
        f"const int4 sums = {second.name}_accumulate(&{source}_tile[v], {weights}, n / {GROUP}); "
        f"const int32_t each[] = {{sums.x, sums.y, sums.z, sums.w}}, acc = each[n % {GROUP}]; "
        f"const float m = {second.name}_multiplier[n], t1 = Values<float>{{&{first}[v]}}[n];"
    )


def _stored(layer: Add, group: str, right: str) -> str:
    """Two terms from memory, the third where it is; the right sum where they are not written to memory."""
    buffers = [f"{group}_term_{k}_output" for k in (1, 2, 3)]
    unknown = " || ".join(["v >= carry.count", *(f"{buffer} == nullptr" for buffer in buffers[:2])])
    values = [f"t{k} = {buffer}[(carry.first + v) * {layer.size} + n]" for k, buffer in enumerate(buffers[:2], 1)]
    values.append(f"t3 = Values<float>{{&{buffers[2]}_tile[v]}}[n]")
    return f"if ({unknown}) return {right}; const float {', '.join(values)};"


def _sum_of_buffers(made: Plan, layer: Add, terms: int, expression: str, second: Layer) -> Iterator[Patch]:
    """In a kernel that is also given all terms and the second's source, before its own arguments."""
    name, group, source = layer.name, second.name.removesuffix("_term_2"), _source(made, second)
    buffers = [*(f"{group}_term_{k}_output" for k in range(1, terms + 1)), source]
    head = re.search(rf"KERNEL {name}_forward\(.*?(?=const float \*)", device_text(made))
    call = re.search(rf"{name}_compute\(&x_0.*, &x_1.*, at\.n\)(?=;)", device_text(made))
    assert head
    assert call
    kinds = [*["float"] * terms, c_type(second.input.dtype)]
    added = "".join(f"const {kind} *added_{k}, " for k, kind in enumerate(kinds, 1))
    terms_read = ", ".join(f"t{k} = added_{k}[at.i]" for k in range(1, terms + 1))
    accumulated = f"{second.name}_accumulate(&added_{terms + 1}[at.v * {second.input.size}], at.n)"
    given = f"const float {terms_read}, m = {second.name}_multiplier[at.n]; const int32_t acc = {accumulated};"
    yield Patch(NETWORK, head[0], head[0] + added)
    yield Patch(NETWORK, call[0], _evaluated(call[0], f"{given} return {expression};"))
    yield _with_arguments(codegen.generate(made).source, f"{name}_forward", buffers)


def _with_arguments(host: str, kernel: str, buffers: Sequence[str]) -> Patch:
    """The processor's row of a kernel, with buffers of its launch before its own arguments."""
    launches = re.findall(r"_launch_arrays\[\] = {\n(.*?)^};", host, re.DOTALL | re.MULTILINE)
    arrays = next(text for text in launches if all(f"/* {buffer} */" in text for buffer in buffers))
    places = re.findall(r"/\* (\w+) \*/", arrays)
    row = re.search(rf'({{"{kernel}",.*?\(const size_t\[\]\){{)(.*?)}}, (\d+)', host)
    assert row
    indices = "".join(f"{places.index(buffer)}, " for buffer in buffers)
    return Patch(HOST, row[0], f"{row[1]}{indices}{row[2]}}}, {int(row[3]) + len(buffers)}")


def without_barrier(number: int, behind: str) -> Patch:
    """Of the fused kernels, the first or second barrier behind a line."""
    text = (KERNELS.parent / ALL_LAYERS).read_text(encoding="utf-8")
    begin = end = text.index(behind)
    for _ in range(number):
        end = text.index(BARRIER, end) + len(BARRIER)
    return Patch(ALL_LAYERS, text[begin:end], text[begin : end - len(BARRIER)])


def without_last_call(call: str) -> Injection:
    """The last launch, or the last layer, is without this."""

    def patches(made: Plan) -> Iterator[Patch]:
        yield Patch(HOST, re.findall(rf"^ +{call}\(.*\);\n", codegen.generate(made).source, re.MULTILINE)[-1], "")

    return patches


BARRIER = "__syncthreads();"
NO_BARRIER = "no thread reads what another one wrote: its kernels have no barrier"
NO_WORDS = "codes and weights are read one by one: there are no words"
QUANTIZED = "return round_saturated<Code>(__fdiv_rn(x, scale), zero_point);"
COLUMN = "(unsigned)(i % WIDTH)"
ROUNDED = "__float2int_rn(v) + zero_point"

COMMON: Mapping[str, Injection] = {
    "clamp after round": kernel(Patch(ROUNDING, "v = v > low ? v : low;", "v = rintf(v);\n    v = v > low ? v : low;")),
    "round half away (roundf)": rounding("roundf(v)"),
    "(int)(v + 0.5f) after + zp": kernel(Patch(ROUNDING, ROUNDED, "(int32_t)((v + (float)zero_point) + 0.5f)")),
    "round half up, floorf(v + 0.5f)": rounding("floorf(v + 0.5f)"),
    "round half up, floor(v + 0.5)": rounding("floor(v + 0.5)"),
    "round half down, ceil(v - 0.5)": rounding("ceil(v - 0.5)"),
    "truncate toward zero": rounding("v"),
    "floor (toward -inf)": rounding("floorf(v)"),
    "ceil (toward +inf)": rounding("ceilf(v)"),
    "+ zp in float before rint": kernel(
        Patch(ROUNDING, ROUNDED, "__float2int_rn(__fadd_rn(v, __int2float_rn(zero_point)))")
    ),
    "sat clamp one code early": kernel(Patch(ROUNDING, "HIGHEST - zero_point", "HIGHEST - 1 - zero_point")),
    "wrap instead of clamp": kernel(
        Patch(ROUNDING, "v = v > low ? v : low;", "(void)low;"),
        Patch(ROUNDING, "v = v < high ? v : high;", "(void)high;"),
    ),
    "x * (1 / scale)": quotient("__fmul_rn(x, __fdiv_rn(1.0f, scale))"),
    "fmaf(x, 1 / scale, zp)": quantizing("quantize_fused"),
    "x / scale in double": quantizing("quantize_double"),
    "NaN to the zero point": kernel(
        Patch(ROUNDING, QUANTIZED, QUANTIZED.replace("return", "return x != x ? (Code)zero_point :"))
    ),
    "conversion to int32 before the clamp": quantizing("quantize_int32_first"),
    "m computed on the board as specified": both(finishing("right"), scaling("scale_right")),
    **{name: finishing(function) for name, function in PRODUCTS.items()},
    "bias added after scaling in float": both(finishing("late_bias"), scaling("scale_late")),
    "bias added after scaling, fused": both(finishing("late_bias_fused"), scaling("scale_fused")),
    "bias added before the division": finishing("late_real_bias"),
    **{name: finishing(function) for name, function in FIXED_POINT.items()},
    "float output: acc not rounded first": scaled("(float)((double)acc * m)"),
    "float output: truncated": scaling("scale_truncated"),
    "float output: through float16": scaling("scale_half"),
    "byte order of m": both(finishing("m_swapped"), scaling("scale_swapped_m")),
    "int16 pair saturation": saturated_pairs,
    "products beyond a multiple of 8 inputs left out": whole_eights,
    "column tail not computed": without_column_tail,
    "ArgMax: last of equal values": kernel(Patch(OPERATORS, "(LAST && x[n]", "(!LAST && x[n]")),
    "ArgMax: smallest value": kernel(Patch(OPERATORS, "= LARGEST ?", "= !LARGEST ?")),
    "Add: summed in double, then rounded": adding("(float)((double)A + B)"),
    "Add: second term dropped": adding("A"),
    "Add: second term subtracted": adding("A - B"),
    "Add: truncated": both(
        adding("towards_zero((double)A + B)"),
        kernel(
            Patch(ROUNDING, "__device__ inline float add(", f"__device__ {TOWARDS_ZERO}\n__device__ inline float add(")
        ),
    ),
    "Add: product recomputed, not fused": summing(2, "__fadd_rn(t1, __fmul_rn(__int2float_rn(acc), m))"),
    "Add: product and sum fused": summing(2, "fmaf((float)acc, m, t1)"),
    "Add: three terms summed in double": summing(3, "(float)((double)t1 + t2 + t3)"),
    "Add: three terms in another order": summing(3, "__fadd_rn(t1, __fadd_rn(t2, t3))"),
}

GPU_ALONE: Mapping[str, Injection] = {
    "GPU: last block of threads not launched": kernel(
        Patch(GPU, "(threads + x - 1) / x", "threads < x ? 1 : threads / x")
    ),
    "GPU: nobody waits for the launch": kernel(
        Patch(GPU, "    CUDA(cuStreamSynchronize, launch->name, launch->stream);\n", "")
    ),
    "GPU: inputs not copied": without_last_call("gpu_put"),
    "GPU: outputs not copied": without_last_call("gpu_get"),
}
INJECTIONS: Mapping[str, Mapping[str, Injection | str]] = {
    LAYERWISE: {
        **COMMON,
        "GPU: barrier behind the inputs deleted": NO_BARRIER,
        "GPU: barrier behind the weights deleted": NO_BARRIER,
        "GPU: barrier behind the outputs deleted": NO_BARRIER,
        **GPU_ALONE,
        "GPU: neighbouring outputs swapped": kernel(
            Patch(ONE_LAYER, COLUMN, f"{COLUMN} < WIDTH / 2 * 2 ? {COLUMN} ^ 1 : {COLUMN}")
        ),
        "GPU: codes packed in the other order": NO_WORDS,
        "GPU: codes behind the last input not zero": NO_WORDS,
        "GPU: codes behind the last input in the sum of a": NO_WORDS,
    },
    FUSED: {
        **COMMON,
        "GPU: barrier behind the inputs deleted": kernel(without_barrier(1, "tile[w * STRIDE + threadIdx.x] =")),
        "GPU: barrier behind the weights deleted": kernel(without_barrier(1, "staged[i] =")),
        "GPU: barrier behind the outputs deleted": kernel(without_barrier(2, "staged[i] =")),
        **GPU_ALONE,
        "GPU: neighbouring outputs swapped": kernel(Patch(ALL_LAYERS, "return x | y << 8", "return y | x << 8")),
        "GPU: codes packed in the other order": kernel(Patch(ALL_LAYERS, "<< (8 * i);", "<< (24 - 8 * i);")),
        "GPU: codes behind the last input not zero": kernel(
            Patch(ALL_LAYERS, "if (channel < WIDTH / POSITIONS)\n", "")
        ),
        "GPU: codes behind the last input in the sum of a": kernel(Patch(ALL_LAYERS, "ones<DEPTH>(w)", "0x01010101u")),
    },
}
