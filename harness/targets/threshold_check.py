"""Tables of integers against the formulas that they replace, in this machine's float32.

    y = saturate(round_half_even(float32(acc) * m[n]) + zy)         contractions: tried on every accumulator
    q = saturate(round_half_even(x / scale) + zero_point)           QuantizeLinear: on either side of every threshold

Thresholds of means are tried as those of QuantizeLinear, codes of functions of one or two codes for all of these.  That
is neither how the tables were found, in integers, nor how a core applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.core.arrays import Array
from harness.core.errors import ToolError
from harness.operators.base import Layer

AT_ONCE = 1 << 18
THREADS = 2


@dataclass(frozen=True)
class ThresholdCheck:
    """The number of inputs for which the table of a layer was compared with the formula."""

    layer: str
    cases: int


def all_layers(layers: Sequence[Layer], tables: Mapping[str, Array]) -> list[ThresholdCheck]:
    """Try the tables, by the layers' names: thresholds (N, 255) of a contraction, (1, 255) of a QuantizeLinear.

    ToolError at the first that is wrong.
    """
    todo = [layer for layer in layers if layer.name in tables]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda layer: _try(layer, tables[layer.name]), todo))


def _try(layer: Layer, table: Array) -> ThresholdCheck:
    cases, wrong = layer.rounded.check(table)
    if wrong:
        raise ToolError(
            f"layer {layer.name}: {wrong}",
            "this machine's float32 or the harness is wrong; run harness doctor, and report it with this line",
        )
    return ThresholdCheck(layer.name, cases)
