"""QLinearAdd in TFLite: ADD where it has the right code for all pairs, else a table of all pairs.

XNNPACK adds on all processors by integers (src/microparams-init.c of XNNPACK):

    y = ((bias + a * ka + b * kb) >> shift) + y_zero_point        clamped; shift = 20 - exponent of the larger ratio
    ka, kb = round_half_even(ratio * 2^shift) of a_scale / y_scale and b_scale / y_scale
    bias = 2^(shift - 1) - a_zero_point * ka - b_zero_point * kb
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.obligations import all_codes
from harness.operators.qlinear_add import QLinearAdd
from harness.targets.litert.code_pairs import CodePairsLowering
from harness.targets.litert.graph import Graph, Value

MULTIPLIER_BITS = 20


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """All 65,536 pairs decide which form is taken."""

    operator = QLinearAdd

    def emit(self, layer: QLinearAdd, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator or the table."""
        if layer.operand is not None or not (xnnpack_table(layer) == layer.table()).all():
            return super().emit(layer, graph, inputs)
        first = graph.codes(inputs[0], layer.a)
        second = graph.codes(graph.as_stored(inputs[1], first), layer.b)
        return graph.binary("ADD", first, second, layer.output.name, scales=layer.y)


def xnnpack_table(layer: QLinearAdd) -> Array:
    """Return what XNNPACK adds for all pairs of codes, (256, 256)."""
    codes, limits = all_codes(layer.dtype).astype(np.int64), np.iinfo(layer.dtype)
    ratios = np.array([layer.a.scale / layer.y.scale, layer.b.scale / layer.y.scale], np.float32)
    shift = MULTIPLIER_BITS - int(np.frexp(ratios.max())[1] - 1)
    first, second = np.rint(np.ldexp(ratios.astype(np.float64), shift)).astype(np.int64)
    a, b = ((codes - each.zero_point) * factor for each, factor in ((layer.a, first), (layer.b, second)))
    sums = (a[:, None] + b[None] + (1 << (shift - 1))) >> shift
    table: Array = np.clip(sums + layer.y.zero_point, limits.min, limits.max).astype(layer.dtype)
    return table
