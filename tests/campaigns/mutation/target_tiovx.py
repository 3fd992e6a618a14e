"""The mutants of code in target tiovx:c7x: changes of kernels/tiovx and kernels/c/integer, and of target c beside it.

A core rounds by thresholds and has no floating point.  What would go wrong in floating point is put into its place: the
functions of tests/support/diagnosis/mutants.c, and the rounding of kernels/c with the very changes that it has for
target c.  A kernel does not know its layer; what takes its place recognises one by the constants that the kernel was
given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np

from harness import targets
from harness.build import codegen
from harness.core.arrays import Array
from harness.core.errors import ToolError
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.plan.plan import Plan
from harness.targets import KERNELS, threshold_check
from harness.targets.tiovx.code import CoreItem
from harness.targets.tiovx.constants import Constants
from tests.campaigns.mutation import target_c
from tests.campaigns.mutation.target_c import (
    FIXED_POINT,
    INT16_SATURATED,
    NO_THREADS,
    PRODUCTS,
    ROUNDINGS,
    SATURATE,
    Injection,
    kernel,
    product,
    quantization,
)
from tests.campaigns.mutation.target_cuda import without_last_call
from tests.support.diagnosis import mutants
from tests.support.programs.board_program import Patch

C7X, MPU = "tiovx:c7x", "tiovx:mpu"
QGEMM, QUANTIZE, CALLBACKS, WRONG = (
    f"kernels/tiovx/target/{name}.c" for name in ("qgemm", "quantize_linear", "callbacks", "wrong")
)
CODE = "threshold_codes(&table[n * THRESHOLDS], THRESHOLDS, lanes, &acc[n], constants->low, &result[n]);"
EACH_LANE = "for (uint32_t lane = 0; lane < lanes; ++lane)\n            "
REAL = "scaled_accumulator(acc[n], m[n])"
QUANTIZED = "threshold_codes(table, 0, lanes, numbers, constants->low, &q[i]);"
FNV_BASIS, FNV_PRIME, WORD = 0xCBF29CE484222325, 0x100000001B3, 1 << 64


@dataclass(frozen=True)
class Added(Patch):
    """A source file more; what lies in the folder of the kernels is compiled with them."""

    def apply(self, sources: dict[str, bytes]) -> dict[str, bytes]:
        assert self.file not in sources, f"{self.file} is there already"
        return sources | {self.file: self.new.encode()}


@dataclass(frozen=True)
class Formula:
    """What takes the place of thresholds: expressions in C; "": the kernels stay as they are.

    `code` and `real` are the output of a QGemm by `p`, a struct product, as a code or a float; `quantized` is that of
    QuantizeLinear by `q`, a struct quantization, and `x`.  `rounding` are changes of round_saturated.
    """

    code: str = ""
    real: str = ""
    quantized: str = ""
    rounding: Sequence[Patch] = ()

    def patches(self, made: Plan) -> Iterator[Patch]:
        """Of the kernels whose layers there are."""
        found = [
            (
                QGEMM,
                CODE,
                f"{EACH_LANE}result[n + lane] = (uint8_t)wrong_code(constants, n + lane, acc[n + lane]);",
                self.code,
                _finished(made, to_float=False),
            ),
            (QGEMM, REAL, "wrong_real(constants, n, acc[n])", self.real, _finished(made, to_float=True)),
            (
                QUANTIZE,
                QUANTIZED,
                f"{EACH_LANE}q[i + lane] = (uint8_t)wrong_quantized(constants, x[i + lane]);",
                self.quantized,
                _quantizing(made),
            ),
        ]
        used = [(unit, old, new) for unit, old, new, expression, layers in found if expression and layers]
        if used:
            yield Added(WRONG, "", self._text(made))
            yield from (Patch(unit, old, new) for unit, old, new in used)
            yield from (_declared(unit) for unit in dict.fromkeys(unit for unit, *_ in used))

    def _text(self, made: Plan) -> str:
        saturate = {SATURATE: (KERNELS / "c" / "saturate.h").read_bytes()}
        for patch in self.rounding:
            saturate = patch.apply(saturate)
        functions = [
            _function("int32_t wrong_code(const struct head *head, uint32_t n, int32_t acc)", self.code or "0"),
            _function("static float real_of(const struct head *head, uint32_t n, int32_t acc)", self.real or "0"),
            WRONG_REAL,
            _function("int32_t wrong_quantized(const struct head *head, uint32_t bits)", self.quantized or "0"),
        ]
        return "\n".join(
            [saturate[SATURATE].decode(), mutants.SOURCE.read_text(encoding="utf-8"), LAYERS, _tables(made), *functions]
        )


@contextmanager
def past_the_trial() -> Iterator[list[ToolError]]:
    """Thresholds that the build refuses are built in all the same; the list then says why it would have refused."""
    refusals: list[ToolError] = []
    try_all = threshold_check.all_layers

    def noting(layers: Sequence[Layer], thresholds: Mapping[str, Array]) -> list[threshold_check.ThresholdCheck]:
        try:
            return try_all(layers, thresholds)
        except ToolError as refusal:
            refusals.append(refusal)
            return []

    with mock.patch.object(threshold_check, "all_layers", noting):
        yield refusals


def _declared(unit: str) -> Patch:
    return Patch(unit, '#include "callbacks.h"\n', f'#include "callbacks.h"\n\n{DECLARATIONS}')


DECLARATIONS = """int32_t wrong_code(const struct head *head, uint32_t n, int32_t acc);
uint32_t wrong_real(const struct head *head, uint32_t n, int32_t acc);
int32_t wrong_quantized(const struct head *head, uint32_t bits);
"""
LAYERS = f"""
#include <stdlib.h>

#include "protocol.h"

struct layer {{
    uint64_t key;
    const struct product *columns;
    struct quantization quantization;
}};

/* The head and the first part that there is, which begins where the head's room ends. */
static uint64_t key_of(const struct head *head)
{{
    const uint32_t *words = (const uint32_t *)head;
    uint64_t key = {FNV_BASIS:#x}u;
    unsigned part = 0;
    while (!head->bytes[part])
        ++part;
    for (size_t i = 0; i < sizeof *head / sizeof *words; ++i)
        key = (key ^ words[i]) * {FNV_PRIME:#x}u;
    for (size_t i = 0; i < head->bytes[part] / sizeof *words; ++i)
        key = (key ^ words[ALIGNMENT / sizeof *words + i]) * {FNV_PRIME:#x}u;
    return key;
}}
"""
LAYER_OF = """
static const struct layer *layer_of(const struct head *head)
{
    const uint64_t key = key_of(head);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i)
        if (layers[i].key == key)
            return &layers[i];
    abort();
}
"""
WRONG_REAL = """
uint32_t wrong_real(const struct head *head, uint32_t n, int32_t acc)
{
    const float y = real_of(head, n, acc);
    uint32_t bits;
    memcpy(&bits, &y, sizeof bits);
    return bits;
}
"""
OF_COLUMN = """    struct product column = layer_of(head)->columns[n];
    const struct product *p = &column;
    column.sum = acc - column.bias;
"""
OF_NUMBER = """    const struct quantization *q = &layer_of(head)->quantization;
    float x;
    memcpy(&x, &bits, sizeof x);
"""


def _function(head: str, expression: str) -> str:
    return f"{head}\n{{\n{OF_NUMBER if 'bits' in head else OF_COLUMN}    return {expression};\n}}\n"


def _layers(made: Plan) -> list[QuantizeLinear | QGemm]:
    """Those on a core."""
    items = (code.kernels for code in codegen.generate(made).items)
    return [layer for item in items if isinstance(item, CoreItem) for layer, _ in item.layers]


def _finished(made: Plan, *, to_float: bool) -> list[QGemm]:
    return [layer for layer in _layers(made) if isinstance(layer, QGemm) and (layer.dtype == np.float32) is to_float]


def _quantizing(made: Plan) -> list[QuantizeLinear]:
    return [layer for layer in _layers(made) if isinstance(layer, QuantizeLinear)]


def key_of(held: Constants) -> int:
    """As in C: FNV-1a, of words of 32 bits, over the head and the first part."""
    key = FNV_BASIS
    for table in held.tables[:2]:
        for word in table.values.ravel().view(np.uint32).tolist():
            key = (key ^ word) * FNV_PRIME % WORD
    return key


def _tables(made: Plan) -> str:
    """What the layers on the core are computed from, and by which constants they are known."""
    layers = _layers(made)
    keys = [key_of(targets.find("tiovx:c7x").lowering_of(layer).constants(layer)) for layer in layers]
    assert len(set(keys)) == len(keys), "two layers have the same constants"
    known = zip(keys, map(_columns, layers), map(_scale, layers), strict=True)
    rows = "".join(f"    {{{key:#x}u, {columns}, {scale}}},\n" for key, columns, scale in known)
    return f"static const struct layer layers[] = {{\n{rows}}};\n{LAYER_OF}"


def _columns(layer: QuantizeLinear | QGemm) -> str:
    if isinstance(layer, QuantizeLinear):
        return "0"
    return f"(const struct product[]){{{', '.join(product(layer, column) for column in range(layer.size))}}}"


def _scale(layer: QuantizeLinear | QGemm) -> str:
    return quantization(layer) if isinstance(layer, QuantizeLinear) else "{0}"


def rounding(name: str) -> Injection:
    """QuantizeLinear and QGemm by the formulas of the specification, with the wrong rounding of target c."""

    def patches(made: Plan) -> Iterable[Patch]:
        wrong = target_c.INJECTIONS[name]
        assert callable(wrong)
        code = "round_saturated(v_of(p), p->qmin, p->qmax, p->zy)"
        quantized = "round_saturated(x / q->scale, q->qmin, q->qmax, q->zero_point)"
        return Formula(code, "", quantized, tuple(wrong(made))).patches(made)

    return patches


def finishings(replace: Callable[[str, str], Injection]) -> dict[str, Injection]:
    """Every QGemm by the functions of mutants.c: `replace` takes the expressions of a code and of a float32 output."""

    def by(code: str, real: str = "") -> Injection:
        return replace(f"{code}(p)" if code else "", f"{real}(p)" if real else "")

    return {
        "m computed on the board as specified": by("right", "scale_right"),
        **{name: by(function) for name, function in PRODUCTS.items()},
        "bias added after scaling in float": by("late_bias", "scale_late"),
        "bias added after scaling, fused": by("late_bias_fused", "scale_fused"),
        "bias added before the division": by("late_real_bias"),
        **{name: by(function) for name, function in FIXED_POINT.items()},
        "float output: acc not rounded first": replace("", "(float)((double)acc_of(p) * float_m(p))"),
        "float output: truncated": by("", "scale_truncated"),
        "float output: through float16": replace("", HALF),
        "byte order of m": by("m_swapped", "scale_swapped_m"),
    }


def quantizing(function: str) -> Injection:
    """Every QuantizeLinear by this function of mutants.c."""
    return Formula(quantized=f"{function}(q, x)").patches


def integer(header: str, units: Sequence[str], *changes: tuple[str, str]) -> Injection:
    """A header of kernels/c/integer with changes, in the place where a unit includes it.

    There, because the headers of another folder do not tell tests.support.programs.board_program to compile a unit
    anew.
    """

    def patches(_: Plan) -> Iterator[Patch]:
        text = (KERNELS / "c" / "integer" / header).read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, f"{header} has changed: {old!r} is not in it any more"
            text = text.replace(old, new)
        yield from (Patch(unit, f'#include "{header}"\n', text) for unit in units)

    return patches


def thresholds(*changes: tuple[str, str]) -> Injection:
    """Of both kernels."""
    return integer("thresholds.h", (QGEMM, QUANTIZE), *changes)


def dot_products(*changes: tuple[str, str]) -> Injection:
    """The sums."""
    return integer("dot4.h", (QGEMM,), *changes)


def of_target_c(name: str) -> Injection | str:
    """The layer is computed by the processor."""
    return target_c.INJECTIONS[name]


ONE_PRODUCT = "sum[lane] += a[q * QUAD + i] * weights[lane * QUAD + i];"
PAIR = " + ".join(f"a[q * QUAD + i + {i}] * weights[lane * QUAD + i + {i}]" for i in range(2))
CODES = "a[k] = codes[k] ^ flip;\n        sum += a[k];"
OF_EIGHTS = f"{CODES}\n        a[k] = k < constants->depth / 8 * 8 ? a[k] : 0;"
FINISHED = "constants->low, &result[n]);\n    }\n"
ZEROS = f"""{FINISHED}    const size_t element = m ? sizeof *m : 1;
    memset(&result[constants->width / 4 * 4 * element], 0, constants->width % 4 * element);
"""
HALF = "({ volatile _Float16 half = (_Float16)scale_right(p); (float)half; })"  # see target_c
MAPPED = "return *mapped ? tivxMemBufferMap("
UNMAPPED = "    return tivxMemBufferUnmap("
IF_CONSTANTS = "parameter->type == TIVX_OBJ_DESC_USER_DATA_OBJECT && access == VX_READ_ONLY"
INSTANCE = "    struct work work = {.command"
IF_RESULT = "parameter->type == TIVX_OBJ_DESC_TENSOR && access == VX_WRITE_ONLY"
STRIDE = "{mapped[first_of(parameters, which)], source->stride[1]}"
DENSE = "{mapped[first_of(parameters, which)], source->dimensions[0] * source->stride[0]}"
FIRST_INSTANCE = "    static void *first;\n    first = first ? first : scratch;\n    scratch = first;\n"
SUM_ON_CORE = "the core hands over products: who adds them does not have their accumulators"
NO_LAUNCH = "a node is computed by one thread of the core, and vxProcessGraph returns when it has been"
SUM_OF_CODES = "the sum is taken of the codes one by one, before zeros are put behind them"
HERE = "here it is called TIOVX: "

FLOATING: Mapping[str, Injection | str] = {
    **{name: rounding(name) for name in ROUNDINGS},
    "x * (1 / scale)": quantizing("quantize_reciprocal"),
    "fmaf(x, 1 / scale, zp)": quantizing("quantize_fused"),
    "x / scale in double": quantizing("quantize_double"),
    "NaN to the zero point": quantizing("quantize_nan_to_zero"),
    "conversion to int32 before the clamp": quantizing("quantize_int32_first"),
    **finishings(lambda code, real: Formula(code, real).patches),
}
ON_CORE: Mapping[str, Injection | str] = {
    "TIOVX: thresholds compared by <": thresholds(("<= x", "< x")),
    "TIOVX: first step of the search left out": thresholds(("step = 128", "step = 64")),
    "TIOVX: NaN above all thresholds": thresholds(("return INT32_MIN;", "return INT32_MAX;")),
    "TIOVX: int8 codes not flipped": kernel(Patch(QGEMM, "codes[k] ^ flip", "codes[k]")),
    "TIOVX: quads in the other byte order": dot_products(("a[q * QUAD + i]", "a[q * QUAD + QUAD - 1 - i]")),
    "TIOVX: weights of the neighbouring group": dot_products(("&b[(g * quads", "&b[((g + 1) % groups * quads")),
    "TIOVX: codes behind the last input not zero": kernel(
        Patch(QGEMM, "    memset(&a[constants->depth], 0, ", "    (void)(")
    ),
    "TIOVX: rows beyond the vectors computed": kernel(
        Patch(CALLBACKS, "((const tivx_obj_desc_scalar_t *)parameters[VECTORS])->data.u32", "result->dimensions[1]")
    ),
    "TIOVX: rows taken for dense": kernel(Patch(CALLBACKS, STRIDE, DENSE)),
    "TIOVX: constants not mapped": kernel(
        Patch(CALLBACKS, MAPPED, f"if (*mapped && {IF_CONSTANTS})\n        return VX_SUCCESS;\n    {MAPPED}")
    ),
    "TIOVX: result not unmapped": kernel(
        Patch(CALLBACKS, UNMAPPED, f"    if ({IF_RESULT})\n        return VX_SUCCESS;\n{UNMAPPED}")
    ),
    "TIOVX: scratch of another instance": kernel(Patch(CALLBACKS, INSTANCE, f"{FIRST_INSTANCE}{INSTANCE}")),
    "TIOVX: inputs not copied": without_last_call("tiovx_put"),
    "TIOVX: outputs not copied": without_last_call("tiovx_get"),
}
NO_THRESHOLDS = "it rounds in floating point, without thresholds"
NO_GROUPS = "inputs and outputs are not arranged for VDOTP4SUBW"
NO_BUFFERS = "no kernel has to map its buffers, or is given their strides or memory of its own"
ELSEWHERE: Mapping[str, str] = {
    "TIOVX: thresholds compared by <": NO_THRESHOLDS,
    "TIOVX: first step of the search left out": NO_THRESHOLDS,
    "TIOVX: NaN above all thresholds": NO_THRESHOLDS,
    "TIOVX: int8 codes not flipped": NO_GROUPS,
    "TIOVX: quads in the other byte order": NO_GROUPS,
    "TIOVX: weights of the neighbouring group": NO_GROUPS,
    "TIOVX: codes behind the last input not zero": NO_GROUPS,
    "TIOVX: rows beyond the vectors computed": NO_BUFFERS,
    "TIOVX: rows taken for dense": NO_BUFFERS,
    "TIOVX: constants not mapped": NO_BUFFERS,
    "TIOVX: result not unmapped": NO_BUFFERS,
    "TIOVX: scratch of another instance": NO_BUFFERS,
    "TIOVX: inputs not copied": NO_BUFFERS,
    "TIOVX: outputs not copied": NO_BUFFERS,
}
"""Why those of a core have no meaning for other targets."""
INJECTIONS: Mapping[str, Injection | str] = {
    **FLOATING,
    "int16 pair saturation": dot_products(
        ("static inline void dot_products", f"{INT16_SATURATED}\nstatic inline void dot_products"),
        ("++i)", "i += 2)"),
        (ONE_PRODUCT, f"sum[lane] += int16_saturated({PAIR});"),
    ),
    "products beyond a multiple of 8 inputs left out": kernel(Patch(QGEMM, CODES, OF_EIGHTS)),
    "column tail not computed": kernel(Patch(QGEMM, FINISHED, ZEROS)),
    "ArgMax: last of equal values": of_target_c("ArgMax: last of equal values"),
    "ArgMax: smallest value": of_target_c("ArgMax: smallest value"),
    "Add: summed in double, then rounded": of_target_c("Add: summed in double, then rounded"),
    "Add: second term dropped": of_target_c("Add: second term dropped"),
    "Add: second term subtracted": of_target_c("Add: second term subtracted"),
    "Add: truncated": of_target_c("Add: truncated"),
    "Add: product recomputed, not fused": SUM_ON_CORE,
    "Add: product and sum fused": SUM_ON_CORE,
    "Add: three terms summed in double": of_target_c("Add: three terms summed in double"),
    "Add: three terms in another order": of_target_c("Add: three terms in another order"),
    "GPU: barrier behind the inputs deleted": NO_LAUNCH,
    "GPU: barrier behind the weights deleted": NO_LAUNCH,
    "GPU: barrier behind the outputs deleted": NO_LAUNCH,
    "GPU: last block of threads not launched": NO_LAUNCH,
    "GPU: nobody waits for the launch": NO_LAUNCH,
    "GPU: inputs not copied": f"{HERE}inputs not copied",
    "GPU: outputs not copied": f"{HERE}outputs not copied",
    "GPU: neighbouring outputs swapped": NO_THREADS,
    "GPU: codes packed in the other order": f"{HERE}quads in the other byte order",
    "GPU: codes behind the last input not zero": f"{HERE}codes behind the last input not zero",
    "GPU: codes behind the last input in the sum of a": SUM_OF_CODES,
    **ON_CORE,
}
