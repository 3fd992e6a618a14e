"""The mutants of code in target c: changes of kernels/c, and of the functions that the target generates.

`c:vector` has a column of its own, as it has sums and roundings of its own.  What the kernels do not compute in one
expression is taken from tests/support/diagnosis/mutants.c, which knows the scales.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from harness.build import codegen
from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.obligations import StageKind
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.plan.plan import Plan
from harness.targets import C_TYPES, LayerCode
from tests.support.diagnosis.mutants import SOURCE
from tests.support.programs.board_program import Patch

Injection = Callable[[Plan], Iterable[Patch]]

PRODUCTS = {
    "FMA: rint(fmaf(acc, m, zp))": "fused_zero_point",
    "FMA into magic": "fused_magic",
    "product in double, m float32": "product_in_double",
    "24-bit mantissa integer product": "significands",
    "product in double, half away": "product_in_double_half_away",
    "m in double, product in double": "all_in_double",
    "m in double, product in double, half away": "all_in_double_half_away",
    "dequant then divide": "dequantised_divided",
    "dequant then * (1 / sy)": "dequantised_reciprocal",
}
"""The functions of mutants.c that take the product and its rounding otherwise."""
FIXED_POINT = {
    "gemmlowp Q31, two roundings": "gemmlowp_double",
    "gemmlowp Q31 from float32 m": "gemmlowp_float",
    "TFLite Q31, single rounding": "tflite",
    "Q31 from float32 m, single rounding": "q31_of_float",
    "Q15 16-bit multiplier": "q15",
}
"""Those that compute it in fixed point."""

SATURATE, QGEMM, ARG_EXTREMUM = (f"kernels/c/{name}.h" for name in ("saturate", "qgemm", "arg_extremum"))
NETWORK = "network.c"
ACCUMULATE = "sum[r] += a[k] * b[r * depth + k];"
SCALED = "y[n] = (float)acc[n] * m[n];"
SUM = "= A + B;"
CLAMP_LOW, CLAMP_HIGH = "v = v > low ? v : low;", "v = v < high ? v : high;"
ROUNDED = "(int32_t)rintf(v) + zero_point"
INCLUDE = '#include "network.h"\n'
FUNCTIONS = Patch(NETWORK, INCLUDE, f"{INCLUDE}\n{SOURCE.read_text()}")
VECTOR_UNIT = 4  # columns that a loop without its tail computes together


def kernel(*patches: Patch) -> Injection:
    """The same change whatever the network."""
    return lambda _: patches


def rounding(expression: str) -> Injection:
    """Of the float32 v to an integer, in QuantizeLinear and QGemm alike."""
    return kernel(Patch(SATURATE, "rintf(v)", expression))


def adding(expression: str) -> Injection:
    """Return another operation on the terms A and B, for networks that have a sum."""
    return lambda made: [Patch(NETWORK, SUM, f"= {expression};")] if has_sum(made) else []


def has_sum(made: Plan) -> bool:
    return any(isinstance(layer, Add) for layer in made.network.layers)


def codes_of(made: Plan) -> Iterator[tuple[Layer, LayerCode]]:
    return zip(made.network.layers, codegen.generate(made).tasks, strict=True)


def with_body(code: LayerCode, part: StageKind, body: str) -> Patch:
    """The stage with another body."""
    stage = next(stage for stage in code.stages if stage.part is part)
    found = re.search(rf"ONE_CODE void {stage.name}\(.*\)\n{{\n", code.definitions)
    assert found
    end = code.definitions.index("\n}\n", found.end())
    head = found[0]
    return Patch(NETWORK, head + code.definitions[found.end() : end], f"{head}    {body}")


def finishing(function: str) -> Injection:
    """Every QGemm with codes as output computes them by this function of mutants.c."""
    return lambda made: _with_function(made, function, lambda layer: layer.dtype != np.float32)


def scaling(function: str) -> Injection:
    """Every QGemm with a float32 output computes it by this function of mutants.c."""
    return lambda made: _with_function(made, function, lambda layer: layer.dtype == np.float32)


def both(*injections: Injection) -> Injection:
    """One after the other."""
    return lambda made: [*dict.fromkeys(patch for injection in injections for patch in injection(made))]


def _with_function(made: Plan, function: str, wanted: Callable[[QGemm], bool]) -> Sequence[Patch]:
    found = [
        with_body(code, StageKind.FINISH, _of_products(layer, function))
        for layer, code in codes_of(made)
        if isinstance(layer, QGemm) and wanted(layer)
    ]
    return [FUNCTIONS, *found] if found else []


def _of_products(layer: QGemm, function: str) -> str:
    rows = ",\n        ".join(product(layer, column) for column in range(layer.size))
    return (
        f"static const struct product columns[] = {{\n        {rows}\n    }};\n"
        f"    for (size_t n = 0; n < {layer.size}; ++n) {{\n        struct product p = columns[n];\n"
        f"        p.sum = in[n] - p.bias;\n        out[n] = ({C_TYPES[layer.dtype.name]}){function}(&p);\n    }}"
    )


def product(layer: QGemm, column: int) -> str:
    """The initialiser of a struct product."""
    scales = layer.scales
    info = np.iinfo(layer.dtype if layer.dtype != np.float32 else np.uint8)
    real = (scales.alpha, scales.a, scales.b[column], scales.y or np.float32(0))
    integers = (layer.y_zero_point, info.min, info.max)
    values = ["0", str(layer.bias[column]), *(f"{float(value).hex()}f" for value in real), *map(str, integers)]
    return f"{{{', '.join(values)}}}"


def quantization(layer: QuantizeLinear) -> str:
    """The initialiser of a struct quantization."""
    info = np.iinfo(layer.dtype)
    return f"{{{float(layer.scale).hex()}f, {layer.zero_point}, {info.min}, {info.max}}}"


def quantizing(function: str) -> Injection:
    """Every QuantizeLinear computes its codes by this function of mutants.c."""

    def body(layer: QuantizeLinear) -> str:
        return (
            f"static const struct quantization q = {quantization(layer)};\n"
            f"    for (size_t n = 0; n < {layer.size}; ++n)\n"
            f"        out[n] = ({C_TYPES[layer.dtype.name]}){function}(&q, in[n]);"
        )

    def patches(made: Plan) -> Iterator[Patch]:
        yield FUNCTIONS
        for layer, code in codes_of(made):
            if isinstance(layer, QuantizeLinear):
                yield with_body(code, StageKind.COMPUTE, body(layer))

    return patches


def without_column_tail(made: Plan) -> Iterator[Patch]:
    """A loop over vectors of columns ends before the last columns, which then keep what their buffer held: zeros."""
    for layer, code in codes_of(made):
        if isinstance(layer, QGemm) and layer.size % VECTOR_UNIT:
            whole = layer.size // VECTOR_UNIT * VECTOR_UNIT
            stage = next(stage for stage in code.stages if stage.part is StageKind.FINISH)
            found = re.search(rf"ONE_CODE void {stage.name}\(.*\)\n{{\n +\w+\(", code.definitions)
            assert found
            yield Patch(NETWORK, f"{found[0]}{layer.size},", f"{found[0]}{whole},")


def summing(terms: int, expression: str) -> Injection:
    """The last of a sum's two or three terms is added by an expression of t1, t2, t3, and of the second's acc and m.

    No stage could compute it, as it reads more than a layer's sources: it stands where the schedule calls one.
    """

    def patches(made: Plan) -> Iterator[Patch]:
        forward = {layer.name: code.forward for layer, code in codes_of(made)}
        for layer in made.network.layers:
            if isinstance(layer, Add) and layer.name.endswith(f"_sum_{terms}"):
                group = layer.name.removesuffix(f"_sum_{terms}")
                wrong = _sum(layer, terms, expression, group, forward[f"{group}_term_2"])
                yield Patch(NETWORK, _forward(layer, forward[layer.name]), _forward(layer, wrong))

    return patches


def _forward(layer: Layer, body: str) -> str:
    return f"{layer.name}_forward(size_t vectors, uint64_t execution __attribute__((unused)))\n{{\n{body}\n}}"


def _sum(layer: Add, terms: int, expression: str, group: str, second: str) -> str:
    pointers = " ".join(f"const float *t{k} = {group}_term_{k}_output[v];" for k in range(1, terms + 1))
    anew = _accumulated(group, second) if "acc" in expression else ""
    return (
        f"    for (size_t v = 0; v < vectors && v < BLOCK; ++v) {{\n        {pointers}\n{anew}"
        f"        for (size_t n = 0; n < {layer.size}; ++n)\n"
        f"            {layer.name}_output[v][n] = {expression};\n    }}"
    )


def _accumulated(group: str, second: str) -> str:
    """The accumulators of the second term, which its stages do not leave behind, and their multipliers."""
    found = re.search(r"int32_t acc\[.+\].*;\s+\w+\(.*\);", second)
    assert found
    return f"        {found[0]}\n        const float *m = {group}_term_2_multiplier;\n"


PAIRS = (
    "sum[r] += k % 2 ? 0 : int16_saturated("
    "a[k] * b[r * depth + k] + (k + 1 < depth ? a[k + 1] * b[r * depth + k + 1] : 0));"
)
# x86's VPMADDUBSW
INT16_SATURATED = """static inline int32_t int16_saturated(int32_t sum)
{
    return sum < -32768 ? -32768 : sum > 32767 ? 32767 : sum;
}
"""
TOWARDS_ZERO = """static inline float towards_zero(double x)
{
    const float y = (float)x;
    return fabs(y) > fabs(x) ? nextafterf(y, 0) : y;
}
"""
NO_THREADS = "one thread computes all of a vector"
NO_LAUNCH = "its code is called, not launched, and works in the program's own memory"
NO_WORDS = "codes and weights are read one by one: there are no words"

INJECTIONS: Mapping[str, Injection | str] = {
    "clamp after round": kernel(
        Patch(SATURATE, CLAMP_LOW, f"v = rintf(v);\n    {CLAMP_LOW}"),
        Patch(SATURATE, "(int32_t)rintf(v)", "(int32_t)v"),
    ),
    "round half away (roundf)": rounding("roundf(v)"),
    "(int)(v + 0.5f) after + zp": kernel(Patch(SATURATE, ROUNDED, "(int32_t)((v + (float)zero_point) + 0.5f)")),
    "round half up, floorf(v + 0.5f)": rounding("floorf(v + 0.5f)"),
    "round half up, floor(v + 0.5)": rounding("floor(v + 0.5)"),
    "round half down, ceil(v - 0.5)": rounding("ceil(v - 0.5)"),
    "truncate toward zero": rounding("truncf(v)"),
    "floor (toward -inf)": rounding("floorf(v)"),
    "ceil (toward +inf)": rounding("ceilf(v)"),
    "+ zp in float before rint": kernel(Patch(SATURATE, ROUNDED, "(int32_t)rintf(v + (float)zero_point)")),
    "sat clamp one code early": kernel(Patch(SATURATE, "qmax - zero_point", "qmax - 1 - zero_point")),
    "wrap instead of clamp": kernel(
        Patch(SATURATE, CLAMP_LOW, "(void)low;"), Patch(SATURATE, CLAMP_HIGH, "(void)high;")
    ),
    "x * (1 / scale)": quantizing("quantize_reciprocal"),
    "fmaf(x, 1 / scale, zp)": quantizing("quantize_fused"),
    "x / scale in double": quantizing("quantize_double"),
    "NaN to the zero point": quantizing("quantize_nan_to_zero"),
    "conversion to int32 before the clamp": quantizing("quantize_int32_first"),
    "m computed on the board as specified": both(finishing("right"), scaling("scale_right")),
    **{name: finishing(function) for name, function in PRODUCTS.items()},
    "bias added after scaling in float": both(finishing("late_bias"), scaling("scale_late")),
    "bias added after scaling, fused": both(finishing("late_bias_fused"), scaling("scale_fused")),
    "bias added before the division": finishing("late_real_bias"),
    **{name: finishing(function) for name, function in FIXED_POINT.items()},
    "float output: acc not rounded first": kernel(Patch(QGEMM, SCALED, "y[n] = (float)((double)acc[n] * m[n]);")),
    "float output: truncated": scaling("scale_truncated"),
    # Volatile, as the compiler may keep more precision than a _Float16 has.
    "float output: through float16": kernel(
        Patch(QGEMM, SCALED, "{ volatile _Float16 half = (_Float16)((float)acc[n] * m[n]); y[n] = (float)half; }")
    ),
    "byte order of m": both(finishing("m_swapped"), scaling("scale_swapped_m")),
    "int16 pair saturation": kernel(
        Patch(SATURATE, "\n\n#endif\n", f"\n\n{INT16_SATURATED}\n#endif\n"), Patch(QGEMM, ACCUMULATE, PAIRS)
    ),
    "products beyond a multiple of 8 inputs left out": kernel(
        Patch(QGEMM, ACCUMULATE, "sum[r] += k < depth / 8 * 8 ? a[k] * b[r * depth + k] : 0;")
    ),
    "column tail not computed": without_column_tail,
    "ArgMax: last of equal values": kernel(
        Patch(ARG_EXTREMUM, "last & (x[i] == x[best])", "!last & (x[i] == x[best])")
    ),
    "ArgMax: smallest value": kernel(Patch(ARG_EXTREMUM, "= largest ?", "= !largest ?")),
    "Add: summed in double, then rounded": adding("(float)((double)A + B)"),
    "Add: second term dropped": adding("A; (void)B"),
    "Add: second term subtracted": adding("A - B"),
    "Add: truncated": both(
        adding("towards_zero((double)A + B)"),
        kernel(Patch(NETWORK, INCLUDE, f"{INCLUDE}#include <math.h>\n\n{TOWARDS_ZERO}")),
    ),
    "Add: product recomputed, not fused": summing(2, "t1[n] + (float)acc[n] * m[n]"),
    "Add: product and sum fused": summing(2, "fmaf((float)acc[n], m[n], t1[n])"),
    "Add: three terms summed in double": summing(3, "(float)((double)t1[n] + t2[n] + t3[n])"),
    "Add: three terms in another order": summing(3, "t1[n] + (t2[n] + t3[n])"),
    "GPU: barrier behind the inputs deleted": NO_THREADS,
    "GPU: barrier behind the weights deleted": NO_THREADS,
    "GPU: barrier behind the outputs deleted": NO_THREADS,
    "GPU: last block of threads not launched": NO_THREADS,
    "GPU: nobody waits for the launch": NO_LAUNCH,
    "GPU: inputs not copied": NO_LAUNCH,
    "GPU: outputs not copied": NO_LAUNCH,
    "GPU: neighbouring outputs swapped": NO_THREADS,
    "GPU: codes packed in the other order": NO_WORDS,
    "GPU: codes behind the last input not zero": NO_WORDS,
    "GPU: codes behind the last input in the sum of a": NO_WORDS,
}

VECTOR = "c:vector"
LANES, QGEMM_VECTOR = "kernels/c/lanes.h", "kernels/c/qgemm_vector.h"
PLAIN_ROUNDING = (
    Patch(
        QGEMM_VECTOR,
        "lanes_round(&acc[n], &m[n], QMIN, QMAX, zy, &y[n]);",
        "for (size_t lane = n; lane < n + LANES; ++lane) "
        "y[lane] = (Y##_t)round_saturated((float)acc[lane] * m[lane], QMIN, QMAX, zy);",
    ),
    Patch(
        QGEMM_VECTOR,
        "lanes_round(&acc[whole], &m[whole], QMIN, QMAX, zy, tail);",
        "for (size_t lane = whole; lane < width; ++lane) "
        "tail[lane - whole] = (Y##_t)round_saturated((float)acc[lane] * m[lane], QMIN, QMAX, zy);",
    ),
)
"""Column by column by the function that QuantizeLinear has, too: what goes wrong in that, goes wrong in both."""
PRODUCTS_OF_A_LANE = "for (int i = 0; i < QUAD; ++i)\n            sums.lane[lane] += code[i] * b[QUAD * lane + i];"
PAIRS_OF_A_LANE = (
    "for (int i = 0; i < QUAD; i += 2)\n            sums.lane[lane] += int16_saturated("
    "code[i] * b[QUAD * lane + i] + code[i + 1] * b[QUAD * lane + i + 1]);"
)
WITHOUT_INSTRUCTIONS = f"#define LANES_H\n#define LANES_PORTABLE\n#include <stdint.h>\n{INT16_SATURATED}"
LAST_GROUPS = "for (size_t g = rounds * chains; g < groups; ++g)"
TAIL_STORED = "memcpy(&y[whole], tail, (width - whole) * sizeof *y);"
NO_PANELS = "it has no panels of columns, in which groups of codes meet their weights"
NO_CHAINS = "it has no chains of sums that are added in the end"


def scaled(expression: str) -> Injection:
    """Every float32 output is this, of the column {}."""

    def patch(first: str, to: str, loop: str) -> Patch:
        return Patch(QGEMM_VECTOR, f"lanes_scale(&acc[{first}], &m[{first}], {to});", loop)

    value = expression.format("lane")
    in_panel = f"for (size_t lane = n; lane < n + LANES; ++lane) y[lane] = {value};"
    in_tail = f"for (size_t lane = whole; lane < width; ++lane) tail[lane - whole] = {value};"
    return kernel(patch("n", "&y[n]", in_panel), patch("whole", "tail", in_tail))


def rounded_alike(name: str) -> Injection:
    """The mutant of target c, in QuantizeLinear and QGemm alike."""
    injection = INJECTIONS[name]
    assert callable(injection)
    return both(kernel(*PLAIN_ROUNDING), injection)


ROUNDINGS = (
    "clamp after round",
    "round half away (roundf)",
    "(int)(v + 0.5f) after + zp",
    "round half up, floorf(v + 0.5f)",
    "round half up, floor(v + 0.5)",
    "round half down, ceil(v - 0.5)",
    "truncate toward zero",
    "floor (toward -inf)",
    "ceil (toward +inf)",
    "+ zp in float before rint",
    "sat clamp one code early",
    "wrap instead of clamp",
)
VECTOR_INJECTIONS: Mapping[str, Injection | str] = {
    **INJECTIONS,
    **{name: rounded_alike(name) for name in ROUNDINGS},
    "float output: acc not rounded first": scaled("(float)((double)acc[{0}] * m[{0}])"),
    "float output: through float16": scaled(
        "({{ volatile _Float16 half = (_Float16)((float)acc[{0}] * m[{0}]); (float)half; }})"
    ),
    "int16 pair saturation": kernel(
        Patch(LANES, "#define LANES_H\n", WITHOUT_INSTRUCTIONS), Patch(LANES, PRODUCTS_OF_A_LANE, PAIRS_OF_A_LANE)
    ),
    "products beyond a multiple of 8 inputs left out": kernel(
        Patch(QGEMM_VECTOR, LAST_GROUPS, LAST_GROUPS.replace("< groups", "< depth / 8 * 2"))
    ),
    "column tail not computed": kernel(
        Patch(QGEMM_VECTOR, TAIL_STORED, TAIL_STORED.replace("width - whole", "width / 4 * 4 - whole"))
    ),
    "GPU: codes packed in the other order": "here it is called vector: codes of a group in the other order",
    "GPU: codes behind the last input not zero": "only as many bytes as there are codes are read",
    "GPU: codes behind the last input in the sum of a": "the sum is taken of the codes one by one",
}
ON_PANELS: Mapping[str, Injection] = {
    "vector: sums of one chain forgotten": kernel(
        Patch(QGEMM_VECTOR, "for (size_t i = panels; i <", "for (size_t i = 2 * panels; i <")
    ),
    "vector: all last groups in one chain": kernel(
        Patch(QGEMM_VECTOR, "&sums[(g - rounds * chains) * panels]", "&sums[0]")
    ),
    "vector: last group of inputs left out": kernel(
        Patch(QGEMM_VECTOR, LAST_GROUPS, LAST_GROUPS.replace("< groups", "< groups - 1"))
    ),
    "vector: codes of a group in the other order": kernel(
        Patch(QGEMM_VECTOR, "lanes_spread(codes ^ flip)", "lanes_spread(__builtin_bswap32(codes ^ flip))")
    ),
    "vector: weights of the first panel for all": kernel(
        Patch(QGEMM_VECTOR, "&b[p * groups * GROUP_BYTES]", "&b[0 * p * groups * GROUP_BYTES]")
    ),
    "vector: multipliers of the first panel for the last": kernel(
        Patch(QGEMM_VECTOR, "lanes_round(&acc[whole], &m[whole]", "lanes_round(&acc[whole], &m[0]"),
        Patch(QGEMM_VECTOR, "lanes_scale(&acc[whole], &m[whole]", "lanes_scale(&acc[whole], &m[0]"),
    ),
    "vector: offset of the other codes": kernel(
        Patch(QGEMM_VECTOR, "flip ? PADDED(width) : 0", "flip ? 0 : PADDED(width)")
    ),
    "vector: codes not flipped": kernel(Patch(QGEMM_VECTOR, "lanes_spread(codes ^ flip)", "lanes_spread(codes)")),
    "vector: last inputs not in the sum of a": kernel(
        Patch(QGEMM_VECTOR, "zb && k < depth;", "zb && k < depth / QUAD * QUAD;")
    ),
}
ELSEWHERE: Mapping[str, str] = {name: NO_CHAINS if "chain" in name else NO_PANELS for name in ON_PANELS}
"""Of targets without panels."""
