"""Functions of operators of ONNX Runtime, and of some of ONNX, in the text form of ONNX.

ONNX's own functions of normalisations compute a variance as E[x^2] - E[x]^2, which rounding can make negative.  Those
here compute E[(x - E[x])^2], as ONNX's descriptions of the operators say.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.parser

from harness.operators.node import domain_of

OPSET = 18
"""The version of ONNX's own domain in which the functions are written."""

STATISTICS = """
    sum = ReduceSum (X, axes)
    rows = Size (sum)
    values = Size (X)
    row_size = Div (values, rows)
    count = CastLike (row_size, X)
    mean = Div (sum, count)
    d = Sub (X, mean)
    dd = Mul (d, d)
    squares = ReduceSum (dd, axes)
    variance = Div (squares, count)
"""
"""The steps from `X` and `axes` to mean and variance along the axes, of size 1 then."""
LAYER_NORMALIZATION = f"""LayerNormalization <axis, epsilon> (X, Scale, B) => (Y, Mean, InvStdDev) {{
    Y = LayerNormalization <axis: int = @axis, epsilon: float = @epsilon> (X, Scale, B)
    shape = Shape (X)
    rank = Size (shape)
    axis = Constant <value_int: int = @axis> ()
    first = Mod (axis, rank)
    one = Constant <value_int = 1> ()
    axes = Range (first, rank, one)
{STATISTICS}
    Mean = Identity (mean)
    number = Constant <value_float: float = @epsilon> ()
    small = CastLike (number, X)
    shifted = Add (variance, small)
    deviation = Sqrt (shifted)
    InvStdDev = Reciprocal (deviation)
}}"""
GROUP_NORMALIZATION = """GroupNormalization <epsilon, num_groups> (X, scale, bias) => (Y) {
    number = Constant <value_int: int = @num_groups> ()
    one = Constant <value_ints = [1]> ()
    groups = Reshape (number, one)
    first = Constant <value_ints = [0]> ()
    all = Constant <value_ints = [-1]> ()
    grouped_shape = Concat <axis = 0> (first, groups, all)
    grouped = Reshape (X, grouped_shape)
    ones = ConstantOfShape <value = float[1] {1}> (groups)
    zeros = ConstantOfShape <value = float[1] {0}> (groups)
    normalized = InstanceNormalization <epsilon: float = @epsilon> (grouped, ones, zeros)
    shape = Shape (X)
    y = Reshape (normalized, shape)
    places = Shape <start = 2> (X)
    rank = Shape (places)
    spatial = ConstantOfShape <value = int64[1] {1}> (rank)
    of_channels = Concat <axis = 0> (all, spatial)
    own_scale = Reshape (scale, of_channels)
    own_bias = Reshape (bias, of_channels)
    scaled = Mul (y, own_scale)
    Y = Add (scaled, own_bias)
}"""
MEAN_VARIANCE_NORMALIZATION = f"""MeanVarianceNormalization <axes> (X) => (Y) {{
    axes = Constant <value_ints: ints = @axes> ()
{STATISTICS}
    deviation = Sqrt (variance)
    number = Constant <value_float = 1e-9> ()
    small = CastLike (number, X)
    divisor = Add (deviation, small)
    Y = Div (d, divisor)
}}"""
BATCH_NORMALIZATION = f"""BatchNormalization <epsilon, momentum> (X, scale, B, mean_before, var_before)
=> (Y, running_mean, running_var) {{
    shape = Shape (X)
    rank = Size (shape)
    one = Constant <value_int = 1> ()
    two = Constant <value_int = 2> ()
    places = Range (two, rank, one)
    first = Constant <value_ints = [0]> ()
    axes = Concat <axis = 0> (first, places)
{STATISTICS}
    number = Constant <value_float: float = @epsilon> ()
    small = CastLike (number, X)
    shifted = Add (variance, small)
    deviation = Sqrt (shifted)
    normalized = Div (d, deviation)
    column = Shape (variance)
    own_scale = Reshape (scale, column)
    own_bias = Reshape (B, column)
    scaled = Mul (normalized, own_scale)
    Y = Add (scaled, own_bias)
    row = Shape (mean_before)
    own_mean = Reshape (mean, row)
    own_variance = Reshape (variance, row)
    whole = Constant <value_float = 1.0> ()
    share = Constant <value_float: float = @momentum> ()
    rest = Sub (whole, share)
    kept = CastLike (share, mean_before)
    new = CastLike (rest, mean_before)
    mean_1 = Mul (mean_before, kept)
    mean_2 = Mul (own_mean, new)
    running_mean = Add (mean_1, mean_2)
    variance_1 = Mul (var_before, kept)
    variance_2 = Mul (own_variance, new)
    running_var = Add (variance_1, variance_2)
}}"""
"""BatchNormalization in training mode, which computes the statistics of all its vectors."""
GELU = """
    root = Constant <value_float = 1.41421356237309504880> ()
    quotient = Div (x, root)
    e = Erf (quotient)
    one = Constant <value_float = 1.0> ()
    sum = Add (e, one)
    product = Mul (x, sum)
    half = Constant <value_float = 0.5> ()
    Y = Mul (product, half)
"""
MICROSOFT = (
    f"Gelu (X) => (Y) {{ x = Identity (X) {GELU} }}",
    f"BiasGelu (A, B) => (Y) {{ x = Add (A, B) {GELU} }}",
    """FastGelu (X, bias) => (Y) {
    x = Add (X, bias)
    a = Constant <value_float = 0.7978845608028654> ()
    b = Constant <value_float = 0.035677408136300125> ()
    xx = Mul (x, x)
    bxx = Mul (xx, b)
    factor = Add (bxx, a)
    argument = Mul (x, factor)
    t = Tanh (argument)
    one = Constant <value_float = 1.0> ()
    sum = Add (t, one)
    product = Mul (x, sum)
    half = Constant <value_float = 0.5> ()
    Y = Mul (product, half)
}""",
    """QuickGelu <alpha: float = 1.702> (X) => (Y) {
    number = Constant <value_float: float = @alpha> ()
    scaled = Mul (X, number)
    s = Sigmoid (scaled)
    Y = Mul (X, s)
}""",
    """SkipLayerNormalization <epsilon: float = 1e-12> (input, skip, gamma, beta, bias) => (Y, Mean, InvStdDev, sum) {
    both = Add (input, skip)
    sum = Add (both, bias)
    Y, Mean, InvStdDev = LayerNormalization <axis = -1, epsilon: float = @epsilon> (sum, gamma, beta)
}""",
)


TEXTS: Mapping[tuple[str, str], str] = {
    ("", "BatchNormalization"): BATCH_NORMALIZATION,
    ("", "LayerNormalization"): LAYER_NORMALIZATION,
    ("", "GroupNormalization"): GROUP_NORMALIZATION,
    ("", "MeanVarianceNormalization"): MEAN_VARIANCE_NORMALIZATION,
    **{("com.microsoft", text.split(maxsplit=1)[0]): text for text in MICROSOFT},
}
"""The functions by domain and operator."""


def _is_training(node: onnx.NodeProto) -> bool:
    return any(entry.name == "training_mode" and entry.i for entry in node.attribute)


def function_of(node: onnx.NodeProto) -> onnx.FunctionProto | None:
    """Return the function of a node; None if this file has none, or a layer reads the node.

    A sum with an input that the node leaves out is its other term.
    """
    operator = domain_of(node), node.op_type
    is_read = operator == ("", "LayerNormalization") and not any(node.output[1:])
    is_read |= operator == ("", "BatchNormalization") and not _is_training(node)
    if operator not in TEXTS or is_read:
        return None
    function = onnx.parser.parse_function(f'<domain: "harness", opset_import: ["" : {OPSET}]> {TEXTS[operator]}')
    left_out = set(function.input[len(node.input) :])
    left_out |= {name for name, tensor in zip(function.input, node.input, strict=False) if not tensor}
    for part in function.node:
        if part.op_type == "Add" and part.input[1] in left_out:
            part.op_type = "Identity"
            del part.input[1]
    return function
