"""Every known way to compute a quantised network wrongly: what it is called, and how the diagnosis calls it.

A mutant either has another plan than the right one, with other constants or another schedule, which is the same for
every target; or other code, which each target's module injects into its own sources under the mutant's name, see
TARGETS.  The names are those of the mutation table in which the effects were first measured, where that has them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.plan.plan import Cross, Plan
from tests.campaigns.mutation import target_c, target_cuda, target_tiovx, target_vitis
from tests.support.programs.board_program import Patch

# A new target adds its column here: its module has an injection for every mutant of code, or says why it has none.
TARGETS: Mapping[str, Mapping[str, Callable[[Plan], Iterable[Patch]] | str]] = {
    "c": {**target_c.INJECTIONS, **target_tiovx.ELSEWHERE, **target_vitis.ELSEWHERE, **target_c.ELSEWHERE},
    target_c.VECTOR: {
        **target_c.VECTOR_INJECTIONS,
        **target_tiovx.ELSEWHERE,
        **target_vitis.ELSEWHERE,
        **target_c.ON_PANELS,
    },
    **{
        target: {**of_gpu, **target_tiovx.ELSEWHERE, **target_vitis.ELSEWHERE, **target_c.ELSEWHERE}
        for target, of_gpu in target_cuda.INJECTIONS.items()
    },
    target_tiovx.C7X: {**target_tiovx.INJECTIONS, **target_vitis.ON_A_CORE, **target_c.ELSEWHERE},
    target_vitis.VITIS: {**target_vitis.INJECTIONS, **target_c.ELSEWHERE},
}

Change = Callable[[Plan], Plan]


@dataclass(frozen=True)
class Mutant:
    """A wrong program.

    `causes` are the names under which the diagnosis knows exactly this mistake; there are several where they depend
    on the network.  None: it knows none, and must not claim another.  `change` makes its plan from the right one;
    without it the mutant is one of code.  One that is `equivalent` is written differently, but the same function.
    """

    name: str
    causes: tuple[str, ...] = ()
    change: Change | None = None
    equivalent: bool = False

    def plan(self, right: Plan) -> Plan:
        """The plan that the wrong program is generated from."""
        return self.change(right) if self.change else right

    def patches(self, right: Plan, target: str = "c") -> tuple[Patch, ...]:
        """What has to be changed in the sources of a plan whose items have this target."""
        if self.change:
            return ()
        injection = TARGETS[target][self.name]
        assert callable(injection), f"{self.name} has no meaning for {target}: {injection}"
        return tuple(injection(right))

    def senseless(self, target: str) -> str | None:
        """Why it has no meaning for a target; None if it has one."""
        injection = None if self.change else TARGETS[target][self.name]
        return injection if isinstance(injection, str) else None


def of_layers(wrong: Callable[[Layer], Layer]) -> Change:
    """Other layers."""

    def change(right: Plan) -> Plan:
        layers = tuple(map(wrong, right.network.layers))
        return dataclasses.replace(right, network=dataclasses.replace(right.network, layers=layers))

    return change


def of_qgemm(wrong: Callable[[QGemm], Mapping[str, object]]) -> Change:
    """Other constants of every QGemm, by their names."""
    return of_layers(lambda layer: _replaced(layer, wrong(layer)) if isinstance(layer, QGemm) else layer)


def of_dequantize(wrong: Callable[[DequantizeLinear], Mapping[str, object]]) -> Change:
    """Other constants of every DequantizeLinear."""
    return of_layers(lambda layer: _replaced(layer, wrong(layer)) if isinstance(layer, DequantizeLinear) else layer)


def _replaced(layer: QGemm | DequantizeLinear, wrong: Mapping[str, object]) -> Layer:
    return dataclasses.replace(layer, **wrong)  # type: ignore[arg-type] # the names are those of the class


def multiplier(wrong: Callable[[QGemm], Array]) -> Change:
    """Other multipliers, (N,)."""
    return of_qgemm(lambda layer: {"multiplier": wrong(layer).astype(np.float32)})


def in_order(order: Callable[[np.float32, Array, np.float32], Array]) -> Change:
    """m from alpha * a_scale, b_scale and y_scale in another order, each operation rounded to float32."""

    def wrong(layer: QGemm) -> Array:
        scales = layer.scales
        return layer.multiplier if scales.y is None else order(scales.alpha * scales.a, scales.b, scales.y)

    return multiplier(wrong)


def in_double(layer: QGemm) -> Array:
    """m as float64, from the scales."""
    scales = layer.scales
    m: Array = np.float64(scales.alpha) * np.float64(scales.a) * scales.b.astype(np.float64)
    return m if scales.y is None else m / np.float64(scales.y)


def transposed(layer: QGemm) -> Array:
    """The memory of weights stored by outputs, read as if they were stored by inputs."""
    return np.ascontiguousarray(layer.weights.T).reshape(layer.weights.shape)


def misread(layer: QGemm) -> Array:
    """Weights stored as uint8 and read as int8, or the other way round."""
    return layer.weights.view(np.int8 if layer.weights.dtype == np.uint8 else np.uint8)


def without_last_input(layer: QGemm) -> Array:
    """Weights of which the last input's count for nothing."""
    return np.vstack([layer.weights[:-1], layer.weights_zero_point.astype(layer.weights.dtype)[None]])


def with_a_wrong_weight(layer: QGemm) -> Array:
    """Weights, the first of which is off by one."""
    weights: Array = layer.weights.copy()
    weights[0, 0] ^= 1
    return weights


def without_barrier(which: int) -> Change:
    """Neither item crosses the first barrier (0), or the last one (-1)."""

    def change(right: Plan) -> Plan:
        gone = Cross(range(len(right.hand_overs))[which])
        kept = tuple(tuple(step for step in schedule if step != gone) for schedule in right.schedules)
        return dataclasses.replace(right, schedules=kept)

    return change


def swapped_buffer(right: Plan) -> Plan:
    """The last layer that could read another one's buffer, by its type and width, does."""
    layers = list(right.network.layers)
    for index, layer in reversed(list(enumerate(layers))):
        shape = (layer.input.dtype, layer.input.size)
        others = (other.output.name for other in layers[:index] if (other.dtype, other.size) == shape)
        wrong = next((output for output in others if output not in layer.sources), None)
        if wrong:
            layers[index] = dataclasses.replace(
                layer, inputs=(dataclasses.replace(layer.input, name=wrong), *layer.inputs[1:])
            )
            return dataclasses.replace(right, network=dataclasses.replace(right.network, layers=tuple(layers)))
    return right


EXACT = "the product is not rounded to float32 before rounding to a code"
UNROUNDED = f"{EXACT} (double precision, an FMA into a magic constant, or integer significands)"
IN_DOUBLE = "m and the product are in double precision"
FIXED = "the product is Q31 fixed point"
TRANSPOSED = "the weights are transposed"
STORED = ("", ", of weights less 128")
NOTHING_COMPUTED = tuple(f"nothing is computed: {seen}" for seen in ("zeros", "always the same values"))
OF_8_BITS = "less their zero point have 8 bits and wrap around"
STALE = "it reads what belongs to the vector one block earlier: a missing barrier, a stale buffer"
TERMS = tuple(f"layer_{layer}_term_{term}_out" for layer in (0, 1) for term in (1, 2, 3))
STALE_SOURCES = (STALE, *(f"{STALE}, of {term}" for term in TERMS))  # all of a sum, or one

LAST_INPUTS_LEFT_OUT = (
    "the last input is left out of the sum",
    *(f"the last {n} inputs are left out of it" for n in range(2, 8)),
    *(
        f"the products of the last {n} inputs are left out, not their zero points{stored}"
        for n in range(1, 8)
        for stored in STORED
    ),
)

ROUNDING = (
    Mutant("clamp after round", equivalent=True),
    Mutant("round half away (roundf)", ("rounding is half away from zero",)),
    Mutant("(int)(v + 0.5f) after + zp", ("rounding is (int)(v + 0.5f) after the zero point is added",)),
    Mutant("round half up, floorf(v + 0.5f)", ("rounding is half up by floorf(v + 0.5f)",)),
    Mutant("round half up, floor(v + 0.5)", ("rounding is half up",)),
    Mutant("round half down, ceil(v - 0.5)", ("rounding is half down",)),
    Mutant("truncate toward zero", ("rounding is truncation toward zero",)),
    Mutant("floor (toward -inf)", ("rounding is down (floor)",)),
    Mutant("ceil (toward +inf)", ("rounding is up (ceil)",)),
    Mutant("+ zp in float before rint", ("the zero point is added before rounding",)),
    Mutant("sat clamp one code early", tuple(f"saturation is one code early at the top: {top}" for top in (254, 126))),
    Mutant("wrap instead of clamp", ("wrap-around instead of saturation",)),
)
INPUT = (
    Mutant("x * (1 / scale)", ("multiplication by 1 / scale instead of division",)),
    Mutant("fmaf(x, 1 / scale, zp)", ("multiplication by 1 / scale, fused with the addition of the zero point (FMA)",)),
    Mutant("x / scale in double", ("the division is in double precision",)),
    Mutant("NaN to the zero point", ("NaN becomes the zero point",)),
    Mutant(
        "conversion to int32 before the clamp",
        ("numbers beyond int32 become its lowest: saturation comes after the conversion to int32",),
    ),
)
PRODUCT = (
    Mutant("m computed on the board as specified", equivalent=True),
    Mutant("FMA: rint(fmaf(acc, m, zp))", ("the product is fused with the addition of the zero point (FMA)",)),
    Mutant("FMA into magic", (UNROUNDED,)),
    Mutant("product in double, m float32", (UNROUNDED,)),
    Mutant("24-bit mantissa integer product", (UNROUNDED,)),
    Mutant("product in double, half away", (f"{EXACT}, which is half away from zero",)),
    Mutant("m in double, product in double", (IN_DOUBLE,)),
    Mutant("m in double, product in double, half away", (f"{IN_DOUBLE}, and rounding is half away from zero",)),
    Mutant("dequant then divide", ("the sum is dequantised, then divided by y_scale",)),
    Mutant("dequant then * (1 / sy)", ("the sum is dequantised, then multiplied by 1 / y_scale",)),
    Mutant("bias added after scaling in float", ("the bias is added after the scaling, in float32",)),
    Mutant("bias added after scaling, fused", ("the bias is added after the scaling, fused with it (FMA)",)),
    Mutant(
        "bias added before the division",
        ("the bias is added to the dequantised sum, in float32, before the division by y_scale",),
    ),
    Mutant("gemmlowp Q31, two roundings", (f"{FIXED} with two roundings (gemmlowp), m from double precision",)),
    Mutant("gemmlowp Q31 from float32 m", (f"{FIXED} with two roundings (gemmlowp), m from float32",)),
    Mutant(
        "TFLite Q31, single rounding", (f"{FIXED} with a single rounding, half up (TFLite), m from double precision",)
    ),
    Mutant("Q31 from float32 m, single rounding", (f"{FIXED} from the float32 m, with a single rounding, half up",)),
    Mutant("Q15 16-bit multiplier", ("the product is Q15 fixed point (a 16-bit multiplier)",)),
    Mutant("float output: acc not rounded first", ("the accumulator is not rounded to float32 before the product",)),
    Mutant("float output: truncated", ("the product is truncated toward zero",)),
    Mutant("float output: through float16", ("the output is rounded to float16",)),
)
MULTIPLIER = (
    Mutant(
        "m one ulp up",
        ("m is one unit in the last place too large",),
        multiplier(lambda layer: np.nextafter(layer.multiplier, np.float32(np.inf))),
    ),
    Mutant(
        "m one ulp down",
        ("m is one unit in the last place too small",),
        multiplier(lambda layer: np.nextafter(layer.multiplier, np.float32(0))),
    ),
    Mutant(
        "m in double, cast to float32",
        ("m is computed in double precision, then cast to float32",),
        multiplier(in_double),
    ),
    Mutant(
        "m = (sa * sb) * (1 / sy)",
        ("m = (a_scale * b_scale) * (1 / y_scale)",),
        in_order(lambda a, b, y: a * b * (np.float32(1) / y)),
    ),
    Mutant("m = sa * (sb / sy)", ("m = a_scale * (b_scale / y_scale)",), in_order(lambda a, b, y: a * (b / y))),
    Mutant("m = (sa / sy) * sb", ("m = (a_scale / y_scale) * b_scale",), in_order(lambda a, b, y: a / y * b)),
    Mutant("float16 m", ("m is a float16",), multiplier(lambda layer: in_double(layer).astype(np.float16))),
    Mutant("byte order of m", ("the bytes of m are in the other order",)),
)
SUM = (
    Mutant("int16 pair saturation", tuple(f"pairs of products saturate to int16{stored}" for stored in STORED)),
    Mutant(
        "products beyond a multiple of 8 inputs left out",
        (*LAST_INPUTS_LEFT_OUT, *NOTHING_COMPUTED),  # nothing of less than 8
    ),
    Mutant(
        "column tail not computed",
        tuple(f"the last {n} of {width} columns are not computed: zeros" for width in range(64) for n in range(1, 4)),
    ),
    Mutant("bias left out", ("the bias is left out",), of_qgemm(lambda layer: {"bias": np.zeros_like(layer.bias)})),
    Mutant(
        "byte order of the bias",
        ("the bytes of the bias are in the other order",),
        of_qgemm(lambda layer: {"bias": layer.bias.byteswap()}),
    ),
    Mutant("input zero point left out", ("the input zero point is left out",), of_qgemm(lambda _: {"a_zero_point": 0})),
    Mutant("input zero point 128", ("the input zero point is 128",), of_qgemm(lambda _: {"a_zero_point": 128})),
    Mutant(
        "weight zero point left out",
        ("the weight zero point is left out",),
        of_qgemm(lambda layer: {"weights_zero_point": np.zeros_like(layer.weights_zero_point)}),
    ),
    Mutant("output zero point left out", ("the zero point is left out",), of_qgemm(lambda _: {"y_zero_point": 0})),
    Mutant(
        "last input left out",
        ("the last input is left out of the sum",),
        of_qgemm(lambda layer: {"weights": without_last_input(layer)}),
    ),
    Mutant(
        "transposed weights",
        (
            TRANSPOSED,
            *(f"{TRANSPOSED}: stored by {a}, read by {b}" for a, b in (("outputs", "inputs"), ("inputs", "outputs"))),
        ),
        of_qgemm(lambda layer: {"weights": transposed(layer)}),
    ),
    Mutant(
        "weights read as the other type",
        tuple(f"the weights are read as {other}" for other in ("int8", "uint8")),
        of_qgemm(lambda layer: {"weights": misread(layer)}),
    ),
    Mutant("one weight off by one", change=of_qgemm(lambda layer: {"weights": with_a_wrong_weight(layer)})),
)
OTHERS = (
    Mutant(
        "DequantizeLinear: zero point left out",
        ("the zero point is left out",),
        of_dequantize(lambda _: {"zero_point": 0}),
    ),
    Mutant(
        "DequantizeLinear: float16 scale",
        ("the scale is a float16",),
        of_dequantize(lambda layer: {"scale": np.float32(np.float16(layer.scale))}),
    ),
    Mutant("ArgMax: last of equal values", ("of equal values the last column wins",)),
    Mutant("ArgMax: smallest value", ("the smallest value is searched",)),
    Mutant("Add: summed in double, then rounded", equivalent=True),
    Mutant("Add: second term dropped", ("B is left out of A + B",)),
    Mutant("Add: second term subtracted", ("the sign of B is changed", "B is subtracted in A + B")),
    Mutant("Add: truncated", ("the result is truncated toward zero",)),
    Mutant("Add: product recomputed, not fused", equivalent=True),
    Mutant("Add: product and sum fused"),
    Mutant("Add: three terms summed in double"),
    Mutant("Add: three terms in another order"),
)
TIOVX = (
    Mutant("TIOVX: thresholds compared by <"),
    Mutant("TIOVX: first step of the search left out"),
    Mutant("TIOVX: NaN above all thresholds"),
    Mutant("TIOVX: int8 codes not flipped"),
    Mutant("TIOVX: quads in the other byte order"),
    Mutant("TIOVX: weights of the neighbouring group"),
    Mutant("TIOVX: codes behind the last input not zero", equivalent=True),
    Mutant("TIOVX: rows beyond the vectors computed", equivalent=True),
    Mutant("TIOVX: rows taken for dense"),
    Mutant("TIOVX: constants not mapped"),
    Mutant("TIOVX: result not unmapped"),
    Mutant("TIOVX: scratch of another instance"),
    Mutant("TIOVX: inputs not copied"),
    Mutant("TIOVX: outputs not copied", NOTHING_COMPUTED),
)
FPGA = (
    Mutant("FPGA: thresholds compared by <"),
    Mutant("FPGA: first step of the search left out"),
    Mutant("FPGA: last step of the search by the level before"),
    Mutant("FPGA: one threshold off by one"),
    Mutant("FPGA: thresholds of the next column"),
    Mutant("FPGA: accumulator of 16 bits", ("the accumulator has 16 bits and wraps around",)),
    Mutant("FPGA: accumulator of 24 bits"),
    Mutant("FPGA: product of 14 bits"),
    Mutant("FPGA: input less its zero point in 8 bits", (f"the inputs {OF_8_BITS}",)),
    Mutant("FPGA: weight less its zero point in 8 bits", (f"the weights {OF_8_BITS}",)),
    Mutant("FPGA: input zero point left out", ("the input zero point is left out",)),
    Mutant("FPGA: bias left out", ("the bias is left out",)),
    Mutant("FPGA: weights of the next input"),
    Mutant("FPGA: sums begin with those of the vector before"),
    Mutant("FPGA: sums of the vector before"),
    Mutant("FPGA: an element of a stream dropped"),
    Mutant("FPGA: what nobody reads not passed on"),
    Mutant("FPGA: inputs taken an element too late"),
    Mutant("FPGA: inputs of a partial record taken an element too late"),
    Mutant("FPGA: outputs taken an element too early", ("the columns are moved by one to the right",)),
    Mutant("FPGA: words of the next record"),
    Mutant("FPGA: uint8 codes taken for int8", ("the input codes are read as int8",)),
    Mutant("FPGA: int8 codes taken for uint8", ("the input codes are read as uint8",)),
    Mutant("FPGA: output of another launch"),
    Mutant("FPGA: arguments in another order"),
    Mutant("FPGA: nobody waits for the kernel"),
    Mutant("FPGA: inputs not synchronised"),
    Mutant("FPGA: outputs not synchronised", NOTHING_COMPUTED),
    Mutant("FPGA: inputs not copied", NOTHING_COMPUTED),
    Mutant("FPGA: outputs not copied", NOTHING_COMPUTED),
)
VECTOR = (
    Mutant("vector: sums of one chain forgotten", LAST_INPUTS_LEFT_OUT),  # those of the only group in it
    Mutant("vector: all last groups in one chain", equivalent=True),
    Mutant("vector: last group of inputs left out", LAST_INPUTS_LEFT_OUT),
    Mutant("vector: codes of a group in the other order"),
    Mutant("vector: weights of the first panel for all"),
    Mutant("vector: multipliers of the first panel for the last"),
    Mutant("vector: offset of the other codes", ("the input zero point is -128",)),  # which is the same if it is 0
    Mutant("vector: codes not flipped"),
    Mutant("vector: last inputs not in the sum of a"),
)
SCHEDULE = (
    Mutant("first barrier deleted", STALE_SOURCES, without_barrier(0)),
    Mutant("last barrier deleted", STALE_SOURCES, without_barrier(-1)),
    Mutant("swapped buffer", change=swapped_buffer),
    Mutant("GPU: barrier behind the inputs deleted"),
    Mutant("GPU: barrier behind the weights deleted"),
    Mutant("GPU: barrier behind the outputs deleted"),
    Mutant("GPU: last block of threads not launched"),
    Mutant("GPU: nobody waits for the launch"),
    Mutant("GPU: inputs not copied", NOTHING_COMPUTED),
    Mutant("GPU: outputs not copied", NOTHING_COMPUTED),
    Mutant("GPU: neighbouring outputs swapped", ("the columns are in another order",)),
    Mutant("GPU: codes packed in the other order"),
    Mutant("GPU: codes behind the last input not zero", equivalent=True),
    Mutant("GPU: codes behind the last input in the sum of a"),
    *TIOVX,
    *FPGA,
    *VECTOR,
)
MUTANTS = (*ROUNDING, *INPUT, *PRODUCT, *MULTIPLIER, *SUM, *OTHERS, *SCHEDULE)
