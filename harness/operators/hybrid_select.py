"""HybridSelect (harness): the network's advisory if no check fails, else one of the safety net's, int64.

y[1] = failed + unsafe                                 the checks that fail, a bit each
y[0] = network if y[1] is 0, else the lowest bit of advisories (0 if it has none of the bits 0 to 7)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import onnx_function
from harness.operators.base import Ability, Evaluate, fields
from harness.operators.counters import Counter, LayerCoverage, Met, Quantity, Stimuli
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, computed
from harness.operators.rules import Rules
from harness.operators.tensor import INT64
from harness.operators.text import Fragment, Text

NOT_FINITE, OUTSIDE, UNSAFE, STALE = CHECKS = (1, 2, 4, 8)
"""The bits of the checks: NaN or an infinity; outside the domain; in a box that is not safe; too old."""
BITS = 8
ROLES = ("network", "advisories", "failed", "unsafe")
BODY = """\
    all_bits = Constant <value_ints = [1, 2, 4, 8, 16, 32, 64, 128]> ()
    two = Constant <value_int = 2> ()
    nothing = Constant <value_int = 0> ()
    shifted = Div (advisories, all_bits)
    bits = Mod (shifted, two)
    lowest = ArgMax <axis = 1, keepdims = 1> (bits)
    checks = Add (failed, unsafe)
    passed = Equal (checks, nothing)
    advisory = Where (passed, network, lowest)
    y = Concat <axis = 1> (advisory, checks)
"""
FRAGMENT = Fragment(
    "hybrid_select",
    130,
    """\
# The advisory of the network if no check fails, else the lowest of the safety net's; then the checks that fail.
fragment hybrid_select(
    x: tensor<scalar>,                      # network, advisories, failed, unsafe: int64 (vectors, 4)
    type: string)
-> (y: tensor<scalar>);
""",
    columns=2,
)


@dataclass(frozen=True, eq=False)
class HybridSelect(onnx_function.Hybrid):
    """The selected advisory, and the checks that fail."""

    ONNX = ((onnx_function.DOMAIN, "HybridSelect"),)
    text = Text(
        """\
y[1] = failed + unsafe
y[0] = network if y[1] is 0, else the number of the lowest bit of advisories""",
        ROLES,
        (FRAGMENT,),
        side_by_side=True,
    )
    stimuli = Ability(lambda _: Stimuli(lambda _: _Counter()))
    body = BODY

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State four int64 numbers of each vector, and two that are selected."""
        for each in (*node.given_inputs, node.y):
            node.is_type(each, np.int64).equals(each.rank, 2).equals(each.size(0), node.x.size(0))
        for each in node.given_inputs:
            node.equals(each.size(1), 1)
        node.equals(node.y.size(1), 2)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of four numbers."""
        node.require_inputs(4, 4)
        node.attributes({})
        sources = [node.vector(position, [INT64]) for position in range(4)]
        if any(source.size != 1 for source in sources):
            raise node.refusal("an input has several values", "one number a vector")
        return cls(**fields(node, sources, (2,), INT64))

    def prepare(self) -> Evaluate:
        """Return the function of four columns."""
        return _selected

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield all checks with all sets of advisories."""
        ranges = [np.arange(BITS), np.arange(1 << BITS), np.arange(2 * STALE), np.array([0, UNSAFE])]
        rows = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 4).astype(np.int64)
        rows = rows[(rows[:, 2] & rows[:, 3]) == 0]
        yield computed(
            "the network's advisory is selected exactly if no check fails",
            "all sets of advisories, all advisories 0 to 7 of the network, all combinations of failed checks",
            2 * len(rows),
            Outputs(lambda: [rows], lambda x: _selected(*np.split(x, 4, axis=1))),
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the other branch, and checks that are left out."""
        network, advisories, failed, unsafe = inputs
        none = np.zeros_like(failed)
        yield FaultModel("the failed checks are not read", "they are", _selected(network, advisories, none, unsafe))
        yield FaultModel("unsafe boxes are not read", "they are", _selected(network, advisories, failed, none))
        right = _selected(*inputs)
        always = np.where(np.array([True, False]), network, right)
        yield FaultModel("the network's advisory is always selected", "only if no check fails", always)


class _Counter(Counter):
    """The vectors by branch, and by failed check."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(QUANTITIES, 0)

    def add(self, *values: Array) -> None:
        checks = values[-1][:, 1]
        for quantity, bit in QUANTITIES.items():
            self._counts[quantity] += int(np.count_nonzero(checks & bit if bit else checks == 0))

    def result(self) -> LayerCoverage:
        return {quantity: Met(int(count > 0), 1, count) for quantity, count in self._counts.items()}


QUANTITIES = {
    Quantity.NETWORK_SELECTED: 0,
    Quantity.SAFETY_NET_SELECTED: sum(CHECKS),
    Quantity.NOT_FINITE: NOT_FINITE,
    Quantity.OUTSIDE_DOMAIN: OUTSIDE,
    Quantity.UNSAFE_BOX: UNSAFE,
    Quantity.STALE: STALE,
}
"""The bits of the checks of which one fails; 0 if none may."""


def _selected(network: Array, advisories: Array, failed: Array, unsafe: Array) -> Array:
    bits = advisories >> np.arange(BITS) & 1
    checks = failed + unsafe
    lowest = bits.argmax(axis=1, keepdims=True)
    return np.concatenate([np.where(checks == 0, network, lowest), checks], axis=1)
