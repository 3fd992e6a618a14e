"""The mutants of code in target vitis: changes of kernels/vitis, of what is generated, and of target c beside it.

The fabric computes QGemm, rounds by thresholds and has no floating point.  What would go wrong in floating point is put
into the place of the thresholds: the functions of tests/support/diagnosis/mutants.c, as C++.  A float32 output is
scaled by the processor, where they stand as they are.  Neither place knows its layer: it is recognised by the constants
it was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.build import codegen
from harness.operators.qgemm import QGemm
from harness.plan.plan import Plan
from tests.campaigns.mutation import target_c
from tests.campaigns.mutation.target_c import FUNCTIONS, Injection, kernel, product
from tests.campaigns.mutation.target_cuda import without_last_call
from tests.campaigns.mutation.target_tiovx import ROUNDINGS, finishings
from tests.support.diagnosis import mutants
from tests.support.programs.board_program import Patch

VITIS = "vitis"
LAYER, HOST, XRT = (f"kernels/vitis/{name}" for name in ("layer.hpp", "vitis.c", "xrt.cpp"))
FABRIC, NETWORK = "network.cpp", "network.c"
CODE = "held.lowest + (element)reached"
REAL = "scale_accumulator(array->width"
FINISHED = "finished(rounding, n, sums.acc[n])"
ROUNDED = "round_saturated(v_of(p), p->qmin, p->qmax, p->zy)"


@dataclass(frozen=True)
class InKernel(Patch):
    """A change of layer.hpp, in the place where the kernels include it.

    There, because its own text tells tests.support.programs.board_program to compile the double anew.
    """

    def apply(self, sources: dict[str, bytes]) -> dict[str, bytes]:
        text = sources[FABRIC].replace(b'#include "layer.hpp"\n', sources[LAYER])
        return super().apply(sources | {FABRIC: text})


@dataclass(frozen=True)
class Appended(Patch):
    """`new` behind all that stands in the file."""

    def apply(self, sources: dict[str, bytes]) -> dict[str, bytes]:
        return sources | {self.file: sources[self.file] + self.new.encode()}


@dataclass(frozen=True)
class Formula:
    """What takes the place of thresholds, and of the scaling: expressions of `p`, a struct product; "": they stay.

    `code` is the output of a QGemm as a code, `real` as a float32.
    """

    code: str = ""
    real: str = ""

    def patches(self, made: Plan) -> Iterator[Patch]:
        """Of the kernels whose layers there are."""
        to_codes, to_floats = (_finished(made, to_float=to_float) for to_float in (False, True))
        if self.code and to_codes:
            yield InKernel(FABRIC, CODE, "wrong_code(&held, n, acc)")
            yield InKernel(FABRIC, STREAMS, f"{STREAMS}\n{WRONG_CODE};\n")
            yield Appended(FABRIC, "", f"{_in_cpp()}{_table(to_codes, 'rounding', 'wrong::')}{_wrong_code(self.code)}")
        if self.real and to_floats:
            yield Patch(HOST, REAL, "wrong_real(array->width")
            yield Patch(HOST, SCALING, f"{SCALING}\n{WRONG_REAL};\n")
            yield FUNCTIONS
            yield Appended(NETWORK, "", f"{_table(to_floats, 'multiplier', 'struct ')}{_wrong_real(self.real)}")


STREAMS, SCALING = '#include "stream.hpp"\n', '#include "qgemm.h"\n'
WRONG_CODE = "int32_t wrong_code(const void *rounding, unsigned n, int32_t acc)"
WRONG_REAL = "void wrong_real(size_t width, const int32_t *acc, const float *multiplier, float *y)"


def _finished(made: Plan, *, to_float: bool) -> list[QGemm]:
    """What the fabric computes of one kind."""
    layers = (layer for layer in made.network.layers if isinstance(layer, QGemm))
    return [layer for layer in layers if (layer.dtype == np.float32) is to_float]


def _in_cpp() -> str:
    """mutants.c, whose names are also those of layer.hpp; GCC 12 has no _Float16 in C++, and nothing here needs it."""
    text = mutants.SOURCE.read_text(encoding="utf-8").replace("_Float16", "float")
    headers = "".join(re.findall(r"#include <.*>\n", text))
    functions = re.sub(r"#include <.*>\n", "", text)
    headers += '#include <stdlib.h>\n#include "saturate.h"\n'
    return f"\n{headers}\nnamespace wrong {{\n{functions}}} // namespace wrong\n"


def _table(layers: Iterable[QGemm], known_by: str, scope: str) -> str:
    """What the layers are computed from, and the constants by which they are known."""
    texts, rows = [], []
    for layer in layers:
        columns = ",\n    ".join(product(layer, column) for column in range(layer.size))
        texts.append(f"static const {scope}product {layer.name}_columns[] = {{\n    {columns}\n}};\n")
        rows.append(f"    {{&{layer.name}_{known_by}, {layer.name}_columns}},\n")
    head = (
        f"static const struct {{\n    const void *known_by;\n    const {scope}product *columns;\n}} known_layers[] = {{"
    )
    return f"\n{''.join(texts)}\n{head}\n{''.join(rows)}}};\n"


def _wrong_code(expression: str) -> str:
    return f"""
{WRONG_CODE}
{{
    using namespace wrong;
    for (const auto &layer : known_layers)
        if (layer.known_by == rounding) {{
            product column = layer.columns[n];
            const product *p = &column;
            column.sum = acc - column.bias;
            const int32_t code = {expression};
            return p->qmin < 0 ? (int8_t)code : (uint8_t)code;
        }}
    abort();
}}
"""


def _wrong_real(expression: str) -> str:
    return f"""
{WRONG_REAL};
{WRONG_REAL}
{{
    size_t i = 0;
    while (known_layers[i].known_by != multiplier)
        ++i;
    for (size_t n = 0; n < width; ++n) {{
        struct product column = known_layers[i].columns[n];
        const struct product *p = &column;
        column.sum = acc[n] - column.bias;
        y[n] = {expression};
    }}
}}
"""


def of_target_c(name: str) -> Injection:
    """What the processor computes goes wrong as there."""
    injection = target_c.INJECTIONS[name]
    assert callable(injection)
    return injection


def rounding(name: str) -> Injection:
    """QuantizeLinear, and QGemm by the formula of the specification, with the wrong rounding of target c."""
    return lambda made: [*of_target_c(name)(made), *Formula(ROUNDED).patches(made)]


def in_fabric(*changes: tuple[str, str]) -> Injection:
    """Of kernels/vitis/layer.hpp."""
    return kernel(*(InKernel(FABRIC, *change) for change in changes))


def one_wrong_threshold(made: Plan) -> Iterator[Patch]:
    """Of the first layer that has any: the one that is met first."""
    for layer in _finished(made, to_float=False)[:1]:
        texts = (each.text for code in codegen.generate(made).items for each in code.kernels or ())
        found = re.search(rf"({layer.name}_rounding = [{{\s]*)(-?\d+)", "\n".join(texts))
        assert found
        yield Patch(FABRIC, found[0], f"{found[1]}{int(found[2]) + 1}")


def of_another_launch(made: Plan) -> Iterator[Patch]:
    """The last launch's first output is taken from the buffer of the launch before."""
    text = codegen.generate(made).source
    launches = list(dict.fromkeys(re.findall(r"vitis_get\(&(\w+),", text)))
    if len(launches) > 1:
        wrong, right = launches[-2:]
        yield Patch(NETWORK, f"vitis_get(&{right},", f"vitis_get(&{wrong},")


def narrowed(bits: int, number: str) -> str:
    """A number in C++ of so many bits that it may wrap around."""
    return f"(int32_t)((uint32_t)({number}) << {32 - bits}) >> {32 - bits}"


ADDED = "acc[n] += product"
BEGUN = "acc[n] = held.bias[n]"
ROW = "int32_t acc[LAYER::WIDTH];\n"
WEIGHT = "held.weights[i - at][n]"
TAKEN = "sums = rows.read()"
OF_BOTH = "full || (whole && LAYER::needed(i))"
GIVEN, MADE = "kernel->given.sync(", "kernel->made.sync("
WAITED = "wait_for(kernel->name, kernel->run);"
NOT_FOR_THE_NETWORK = "if (asked.part != WHOLE)\n        "
RECORD = "made[v * made_width(launch)"
INPUTS_AT = "LAYER::at(0, full)"
OUTPUT_AT = "made_width(launch) + (size_t)at"
EIGHTS, TAIL = "i < at + LAYER::DEPTH / 8 * 8", f"(n < LAYER::WIDTH / 4 * 4 ? {FINISHED} : 0)"

HERE, THERE = "here it is called FPGA: ", "here it is called TIOVX: "
NO_PAIRS = "it adds product by product, of numbers less their zero points: no two products of codes are added before"
SUM_ELSEWHERE = "the fabric hands over products: who adds them does not have their accumulators"
NO_BARRIER = "a kernel has no threads: its processes hand over by streams"
NO_GROUPS = "codes and weights are not packed: each is a word, and there is none behind the last"
NO_STRIDES = "records stand one behind the other, as many as there are vectors"
FLOATING: Mapping[str, Injection | str] = {
    **{name: rounding(name) for name in ROUNDINGS},
    **{
        name: of_target_c(name)
        for name in (
            "x * (1 / scale)",
            "fmaf(x, 1 / scale, zp)",
            "x / scale in double",
            "NaN to the zero point",
            "conversion to int32 before the clamp",
        )
    },
    **finishings(lambda code, real: Formula(code, real).patches),
}
IN_FABRIC: Mapping[str, Injection | str] = {
    "FPGA: thresholds compared by <": in_fabric(("] <= acc", "] < acc")),
    "FPGA: first step of the search left out": in_fabric(("held.level_0[t][0] <= acc", "0")),
    "FPGA: last step of the search by the level before": in_fabric(
        ("held.level_7[t][reached]", "held.level_6[t][reached / 2]")
    ),
    "FPGA: one threshold off by one": one_wrong_threshold,
    "FPGA: thresholds of the next column": in_fabric(("TABLES == 1 ? 0 : n", "TABLES == 1 ? 0 : (n + 1) % TABLES")),
    "FPGA: accumulator of 16 bits": in_fabric((ADDED, f"acc[n] = {narrowed(16, 'acc[n] + product')}")),
    "FPGA: accumulator of 24 bits": in_fabric((ADDED, f"acc[n] = {narrowed(24, 'acc[n] + product')}")),
    "FPGA: product of 14 bits": in_fabric((ADDED, f"acc[n] += {narrowed(14, 'product')}")),
    "FPGA: input less its zero point in 8 bits": in_fabric(("(int16_t)(value", "(int8_t)(value")),
    "FPGA: weight less its zero point in 8 bits": in_fabric((WEIGHT, f"(int8_t){WEIGHT}")),
    "FPGA: input zero point left out": in_fabric(("value - held.input_zero_point", "value")),
    "FPGA: bias left out": in_fabric((BEGUN, "acc[n] = 0")),
    "FPGA: weights of the next input": in_fabric((WEIGHT, "held.weights[(i - at + 1) % LAYER::DEPTH][n]")),
    "FPGA: sums begin with those of the vector before": in_fabric(
        (ROW, f"static {ROW}static bool begun;\n"),
        (BEGUN, "acc[n] = begun ? acc[n] : held.bias[n];\n}\nbegun = true;\n{"),
        (ADDED, "acc[n] = (int32_t)((uint32_t)acc[n] + (uint32_t)product)"),
    ),
    "FPGA: sums of the vector before": in_fabric(
        (TAKEN, "sums = before;\nbefore = rows.read()"),
        ("const row<LAYER::WIDTH> sums", "static row<LAYER::WIDTH> before;\nconst row<LAYER::WIDTH> sums"),
    ),
    "FPGA: an element of a stream dropped": in_fabric(("passed.write(value)", "i ? passed.write(value) : (void)0")),
    "FPGA: what nobody reads not passed on": in_fabric((OF_BOTH, "whole && LAYER::needed(i)")),
    "FPGA: inputs taken an element too late": in_fabric((INPUTS_AT, f"{INPUTS_AT} + full")),
    "FPGA: inputs of a partial record taken an element too late": in_fabric((INPUTS_AT, f"{INPUTS_AT} + !full")),
    "FPGA: outputs taken an element too early": kernel(Patch(HOST, OUTPUT_AT, f"{OUTPUT_AT} - 1")),
    "FPGA: words of the next record": kernel(Patch(HOST, RECORD, RECORD.replace("[v", "[(v + 1) % vectors"))),
    "FPGA: uint8 codes taken for int8": kernel(Patch(HOST, "((const uint8_t *)from)", "((const int8_t *)from)")),
    "FPGA: int8 codes taken for uint8": kernel(Patch(HOST, "((const int8_t *)from)", "((const uint8_t *)from)")),
    "FPGA: output of another launch": of_another_launch,
    "FPGA: arguments in another order": kernel(
        Patch(XRT, "asked.given_width, asked.made_width", "asked.made_width, asked.given_width")
    ),
    "FPGA: nobody waits for the kernel": kernel(Patch(XRT, WAITED, f"{NOT_FOR_THE_NETWORK}{WAITED}")),
    "FPGA: inputs not synchronised": kernel(Patch(XRT, GIVEN, f"{NOT_FOR_THE_NETWORK}{GIVEN}")),
    "FPGA: outputs not synchronised": kernel(Patch(XRT, MADE, f"{NOT_FOR_THE_NETWORK}{MADE}")),
    "FPGA: inputs not copied": without_last_call("vitis_put"),
    "FPGA: outputs not copied": without_last_call("vitis_get"),
}
NO_THRESHOLDS = "it rounds in floating point, without thresholds"
NO_LEVELS = "its thresholds are not arranged by the steps of a search"
NO_WIDTHS = "the numbers of a processor have the widths of its instructions"
NO_STREAMS = "it reads its inputs from memory, not from a stream of records"
NO_WORDS = "codes do not become words on their way"
NO_RUNS = "it has no kernels behind XRT"
OF_CONSTANTS = "it has no code for that alone: "
ELSEWHERE: Mapping[str, str] = {
    "FPGA: thresholds compared by <": NO_THRESHOLDS,
    "FPGA: first step of the search left out": NO_THRESHOLDS,
    "FPGA: last step of the search by the level before": NO_THRESHOLDS,
    "FPGA: one threshold off by one": NO_THRESHOLDS,
    "FPGA: thresholds of the next column": NO_THRESHOLDS,
    "FPGA: accumulator of 16 bits": NO_WIDTHS,
    "FPGA: accumulator of 24 bits": NO_WIDTHS,
    "FPGA: product of 14 bits": NO_WIDTHS,
    "FPGA: input less its zero point in 8 bits": NO_WIDTHS,
    "FPGA: weight less its zero point in 8 bits": NO_WIDTHS,
    "FPGA: input zero point left out": f"{OF_CONSTANTS}see input zero point left out",
    "FPGA: bias left out": f"{OF_CONSTANTS}see bias left out",
    "FPGA: weights of the next input": NO_STREAMS,
    "FPGA: sums begin with those of the vector before": NO_STREAMS,
    "FPGA: sums of the vector before": NO_STREAMS,
    "FPGA: an element of a stream dropped": NO_STREAMS,
    "FPGA: what nobody reads not passed on": NO_STREAMS,
    "FPGA: inputs taken an element too late": NO_STREAMS,
    "FPGA: inputs of a partial record taken an element too late": NO_STREAMS,
    "FPGA: outputs taken an element too early": NO_STREAMS,
    "FPGA: words of the next record": NO_STREAMS,
    "FPGA: uint8 codes taken for int8": NO_WORDS,
    "FPGA: int8 codes taken for uint8": NO_WORDS,
    "FPGA: output of another launch": NO_RUNS,
    "FPGA: arguments in another order": NO_RUNS,
    "FPGA: nobody waits for the kernel": NO_RUNS,
    "FPGA: inputs not synchronised": NO_RUNS,
    "FPGA: outputs not synchronised": NO_RUNS,
    "FPGA: inputs not copied": NO_RUNS,
    "FPGA: outputs not copied": NO_RUNS,
}
"""Why those of the fabric have no meaning for targets without thresholds."""
ON_A_CORE: Mapping[str, str] = {
    **ELSEWHERE,
    "FPGA: thresholds compared by <": f"{THERE}thresholds compared by <",
    "FPGA: first step of the search left out": f"{THERE}first step of the search left out",
    "FPGA: last step of the search by the level before": NO_LEVELS,
    "FPGA: one threshold off by one": NO_LEVELS,
    "FPGA: thresholds of the next column": NO_LEVELS,
}
"""And for one with thresholds."""
INJECTIONS: Mapping[str, Injection | str] = {
    **FLOATING,
    "int16 pair saturation": NO_PAIRS,
    "products beyond a multiple of 8 inputs left out": in_fabric(("i < at + LAYER::DEPTH", EIGHTS)),
    "column tail not computed": in_fabric((FINISHED, TAIL)),
    **{
        name: of_target_c(name)
        for name in (
            "ArgMax: last of equal values",
            "ArgMax: smallest value",
            "Add: summed in double, then rounded",
            "Add: second term dropped",
            "Add: second term subtracted",
            "Add: truncated",
        )
    },
    "Add: product recomputed, not fused": SUM_ELSEWHERE,
    "Add: product and sum fused": SUM_ELSEWHERE,
    "Add: three terms summed in double": of_target_c("Add: three terms summed in double"),
    "Add: three terms in another order": of_target_c("Add: three terms in another order"),
    "GPU: barrier behind the inputs deleted": NO_BARRIER,
    "GPU: barrier behind the weights deleted": NO_BARRIER,
    "GPU: barrier behind the outputs deleted": NO_BARRIER,
    "GPU: last block of threads not launched": NO_BARRIER,
    "GPU: nobody waits for the launch": f"{HERE}nobody waits for the kernel",
    "GPU: inputs not copied": f"{HERE}inputs not copied",
    "GPU: outputs not copied": f"{HERE}outputs not copied",
    "GPU: neighbouring outputs swapped": NO_BARRIER,
    "GPU: codes packed in the other order": NO_GROUPS,
    "GPU: codes behind the last input not zero": NO_GROUPS,
    "GPU: codes behind the last input in the sum of a": NO_GROUPS,
    "TIOVX: thresholds compared by <": f"{HERE}thresholds compared by <",
    "TIOVX: first step of the search left out": f"{HERE}first step of the search left out",
    "TIOVX: NaN above all thresholds": "the processor rounds the inputs",
    "TIOVX: int8 codes not flipped": f"{HERE}int8 codes taken for uint8",
    "TIOVX: quads in the other byte order": NO_GROUPS,
    "TIOVX: weights of the neighbouring group": NO_GROUPS,
    "TIOVX: codes behind the last input not zero": NO_GROUPS,
    "TIOVX: rows beyond the vectors computed": NO_STRIDES,
    "TIOVX: rows taken for dense": NO_STRIDES,
    "TIOVX: constants not mapped": "its constants are part of the circuit",
    "TIOVX: result not unmapped": f"{HERE}outputs not synchronised",
    "TIOVX: scratch of another instance": "each kernel is a circuit of its own",
    "TIOVX: inputs not copied": f"{HERE}inputs not copied",
    "TIOVX: outputs not copied": f"{HERE}outputs not copied",
    **IN_FABRIC,
}
