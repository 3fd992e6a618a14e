"""The operations that a description is written in, as NNEF fragments whose formulas are written out.

They stand in every file that uses them, and a reader refuses a file in which one of them says something else.  The
Khronos interpreter can run them: it computes in IEEE float32 and rounds every operation, so that it gives the very
activations wherever an accumulator stays below 2^24, up to where float32 holds every integer.
"""

from __future__ import annotations

from collections.abc import Iterable

_ROUND = """\
# The integer nearest to x, and of two that are equally near the even one.
fragment round_half_even(x: tensor<scalar>) -> (y: tensor<scalar>)
{
    below = floor(x);
    even = 2.0 * floor((below + 1.0) / 2.0);    # the even one of below and below + 1
    rest = x - below;                           # exact; but for -0.5 < x < 0, where every way leads to 0
    y = select(rest < 0.5, below, select(rest > 0.5, below + 1.0, even));
}
"""

_QUANTIZE_LINEAR = """\
# ONNX QuantizeLinear, float32 -> uint8 or int8 (type).  Division and rounding are one IEEE float32 operation each.
fragment quantize_linear(
    x: tensor<scalar>,                      # float32 (vectors, N)
    scale: scalar,                          # float32
    zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    type: string)
-> (y: tensor<scalar>)
{
    code = round_half_even(x / scale) + scalar(zero_point);
    y = clamp(code, scalar(low), scalar(high));
}
"""

_DEQUANTIZE_LINEAR = """\
# ONNX DequantizeLinear, uint8 or int8 -> float32: the difference is exact, the product one IEEE float32 operation.
fragment dequantize_linear(
    q: tensor<scalar>,                      # codes (vectors, N)
    scale: scalar,                          # float32
    zero_point: integer,
    type: string)
-> (y: tensor<scalar>)
{
    y = (q - scalar(zero_point)) * scale;
}
"""

_ACCUMULATOR = """\
# acc[n] = bias[n] + sum over k of (a[k] - a_zero_point) * (weights[k, n] - weights_zero_point[n])
# All of it is integer arithmetic, exact in int32, so that the order of the sum does not matter.
fragment qgemm_accumulator(
    a: tensor<scalar>,                      # codes (vectors, K)
    weights: tensor<integer>,               # int8 or uint8 (K, N)
    weights_zero_point: tensor<integer>,    # int32 (1, N)
    bias: tensor<integer>,                  # int32 (1, N)
    a_zero_point: integer)
-> (accumulator: tensor<scalar>)
{
    centered = cast<scalar>(weights) - cast<scalar>(weights_zero_point);
    accumulator = matmul(a - scalar(a_zero_point), centered) + cast<scalar>(bias);
}
"""

_QGEMM = """\
# com.microsoft QGemm, the quantised fully connected layer, -> uint8 or int8 (type).
# multiplier[n] = ((alpha * a_scale) * b_scale[n]) / y_scale, each of the three one IEEE float32 operation: computed
# once, and its bits are the constant.  The accumulator is rounded to float32, the product is one IEEE float32
# operation.
fragment qgemm(
    a: tensor<scalar>,                      # codes (vectors, K)
    weights: tensor<integer>,               # int8 or uint8 (K, N)
    weights_zero_point: tensor<integer>,    # int32 (1, N)
    bias: tensor<integer>,                  # int32 (1, N)
    multiplier: tensor<scalar>,             # float32 (1, N)
    b_scale: tensor<scalar>,                # float32 (1, N): the multiplier holds it
    alpha: scalar, a_scale: scalar,         # float32: the multiplier holds them
    a_zero_point: integer,
    y_scale: scalar,                        # float32: the multiplier holds it
    y_zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>)
{
    accumulator = qgemm_accumulator(a, weights, weights_zero_point, bias, a_zero_point = a_zero_point);
    code = round_half_even(accumulator * multiplier) + scalar(y_zero_point);
    y = clamp(code, scalar(low), scalar(high));
}
"""

_QGEMM_FLOAT32 = """\
# com.microsoft QGemm with a float32 result.
# multiplier[n] = (alpha * a_scale) * b_scale[n], both of them one IEEE float32 operation: computed once, and its bits
# are the constant.  The accumulator is rounded to float32, the product is one IEEE float32 operation.
fragment qgemm_float32(
    a: tensor<scalar>,                      # codes (vectors, K)
    weights: tensor<integer>,               # int8 or uint8 (K, N)
    weights_zero_point: tensor<integer>,    # int32 (1, N)
    bias: tensor<integer>,                  # int32 (1, N)
    multiplier: tensor<scalar>,             # float32 (1, N)
    b_scale: tensor<scalar>,                # float32 (1, N): the multiplier holds it
    alpha: scalar, a_scale: scalar,         # float32: the multiplier holds them
    a_zero_point: integer,
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>)
{
    y = qgemm_accumulator(a, weights, weights_zero_point, bias, a_zero_point = a_zero_point) * multiplier;
}
"""

_ADD = """\
# ONNX Add: one IEEE float32 operation.
fragment add_float32(
    a: tensor<scalar>,                      # float32 (vectors, N)
    b: tensor<scalar>,                      # float32 (vectors, N), or a constant (1, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = a + b;
}
"""


def _arg_extremum(operation: str, extreme: str, reduce: str) -> str:
    return f"""\
# ONNX {operation} over the columns, -> int64: of several columns with the {extreme} value the first, or the last.
fragment {operation.lower()}(
    x: tensor<scalar>,                      # (vectors, width)
    width: integer,
    select_last_index: logical,
    type: string)
-> (y: tensor<integer>)
{{
    column = constant<scalar>(shape = [1, width], value = [for n in range_of([0] * width) yield scalar(n)]);
    is_other = cast<scalar>(x != {reduce}(x, axes = [1]));      # 0.0 in the columns with the {extreme} value, else 1.0
    first = min_reduce(column + scalar(width) * is_other, axes = [1]);
    last = max_reduce(column - scalar(width) * is_other, axes = [1]);
    y = cast<integer>(last if select_last_index else first);
}}
"""


FRAGMENTS = {
    "round_half_even": _ROUND,
    "quantize_linear": _QUANTIZE_LINEAR,
    "dequantize_linear": _DEQUANTIZE_LINEAR,
    "qgemm_accumulator": _ACCUMULATOR,
    "qgemm": _QGEMM,
    "qgemm_float32": _QGEMM_FLOAT32,
    "add_float32": _ADD,
    "argmax": _arg_extremum("ArgMax", "greatest", "max_reduce"),
    "argmin": _arg_extremum("ArgMin", "least", "min_reduce"),
}
"""The text of every fragment, by name; each stands behind those that it uses."""

USES = {
    "quantize_linear": ("round_half_even",),
    "qgemm": ("round_half_even", "qgemm_accumulator"),
    "qgemm_float32": ("qgemm_accumulator",),
}
"""The fragments that a fragment's formula uses."""

EXCHANGE = {
    "variablesync": """\
# A variable that one item writes and others read.
fragment variablesync<? = scalar>(shape: integer[]) -> (output: tensor<?>);
""",
    "get_var": """\
# The reader's side: a local variable with what the item `source` has sent.
fragment get_var<? = scalar>(source: graphitem, data: variablesync) -> (output: tensor<?>);
""",
    "send_var": """\
# The writer's side: gives a tensor to the items `dest`.
fragment send_var<? = scalar>(dest: graphitem[], data: scalar) -> (output: variablesync);
""",
}
"""What items exchange data by (the paper's syntax 2 to 4), by name."""


def needed(operations: Iterable[str]) -> list[str]:
    """The fragments that these operations need, each behind those that it uses itself."""
    named = set(operations)
    used = named.union(*(USES.get(name, ()) for name in named))
    return [name for name in FRAGMENTS if name in used]
