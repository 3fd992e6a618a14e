"""What the operators compute, in words and formulas for the head of a description, and what their inputs are called."""

from __future__ import annotations

INPUT_ROLES = {
    "QuantizeLinear": ("x", "scale", "zero_point"),
    "QGemm": ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point"),
    "DequantizeLinear": ("x", "scale", "zero_point"),
    "Add": ("A", "B"),
    "ArgMax": ("data",),
    "ArgMin": ("data",),
}

GENERAL = """\
Every float32 operation below is one IEEE 754 operation, rounded half to even; nothing is fused or reordered.
LOW..HIGH are the codes of the output's type: 0..255 for uint8, -128..127 for int8."""

FORMULAS = {
    "Constant": "y = the tensor of its attribute `value`",
    "QuantizeLinear": """\
v = x / scale                                                  in float32
v = min(max(v, LOW - zero_point), HIGH - zero_point)           NaN becomes LOW - zero_point
y = round_half_even(v) + zero_point                            uint8 or int8, as zero_point is""",
    "QGemm": """\
A (vectors, K) and B (K, N), or B (N, K) transposed where transB is 1, are codes; C is 0 where it is not read.
acc[n] = C[n] + sum over k of (A[k] - a_zero_point) * (B[k, n] - b_zero_point[n])      in int32
m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale              in float32, in this order; alpha is 1 if not given
v[n] = float32(acc[n]) * m[n]                                  in float32, the conversion rounded half to even
v[n] = min(max(v[n], LOW - y_zero_point), HIGH - y_zero_point)
y[n] = round_half_even(v[n]) + y_zero_point                    of A's type
Without y_scale and y_zero_point the output is float32:
y[n] = float32(acc[n]) * ((alpha * a_scale) * b_scale[n])
A b_scale, b_zero_point or C of one value serves every n.""",
    "DequantizeLinear": "y = float32(x - zero_point) * scale                            in float32",
    "Add": """\
y[n] = A[n] + B[n]                                             in float32; a constant serves every vector""",
    "ArgMax": "y = the column of the largest value, the first of equal ones, or the last where select_last_index is 1",
    "ArgMin": "y = the column of the smallest value, the first of equal ones, or the last where select_last_index is 1",
}
