"""The local comparison of a plan with bounded layers: each layer with the specification for the board's own inputs.

A bounded layer may give other bits, so that the layers after it read other inputs than the reference's.  An exact layer
must equal the specification bit for bit; each value of a bounded layer must lie within the layer's tolerance.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.compare import Bounded, difference_map
from harness.core.arrays import Array
from harness.core.document import SpelledNumber
from harness.operators.base import Layer
from harness.operators.exact import BLOCK
from harness.plan import claims
from harness.plan.plan import Plan
from harness.reference import SpecificationReference, ratios_to, require_numbers
from harness.targets import Claim


@dataclass(frozen=True)
class OutputDifference:
    """An output of the network, the layer of this index, compared with the reference: information, not a claim.

    `largest` is the largest |board - reference|, NaN if one of them is no number.
    """

    layer: int
    unequal: int
    largest: SpelledNumber

    def __add__(self, other: OutputDifference) -> OutputDifference:
        """Return the result over the vectors of both."""
        largest = float(np.maximum(self.largest, other.largest))
        return OutputDifference(self.layer, self.unequal + other.unequal, largest)


@dataclass(frozen=True)
class LocalResult:
    """The bounded layers by index, None for exact ones, and the outputs of the network."""

    bounded: tuple[Bounded | None, ...]
    outputs: tuple[OutputDifference, ...]

    def __add__(self, other: LocalResult) -> LocalResult:
        """Return the result over the vectors of both."""
        pairs = zip(self.bounded, other.bounded, strict=True)
        return LocalResult(
            tuple(one and another and one + another for one, another in pairs),
            tuple(one + another for one, another in zip(self.outputs, other.outputs, strict=True)),
        )


class LocalComparison:
    """The comparison for one plan; `bounded` holds for each bounded layer which columns are, bool (size,)."""

    def __init__(self, plan: Plan, bounded: Mapping[int, npt.NDArray[np.bool_]]) -> None:
        self._network, self._bounded = plan.network, bounded
        self._specification = SpecificationReference(plan.network)
        read = {name for layer in plan.network.layers for name in layer.sources}
        self._outputs = [i for i, layer in enumerate(plan.network.layers) if layer.output.name not in read]

    def judge(
        self, vectors: Array, references: Sequence[Array], actual: Mapping[int, Array], start: int = 0
    ) -> tuple[tuple[Array, ...], LocalResult]:
        """Return the right outputs of all layers, (vectors, size) each, and how near to their bounds the board's are.

        A right output is the specification's for the outputs `actual` that the board computed for the layer's sources;
        values within their bound are replaced by the board's, so that only wrong values differ.  `references` are the
        outputs of the reference, `start` is the index of the first vector within the run.
        Raises ReferenceFailed if a specified value is no number although no layer before it is wrong.
        """
        layers = self._network.layers
        board = [actual[index] for index in range(len(layers))]
        right = self._specification.activations(vectors, board)
        written = self._network.values(vectors)
        found: list[Bounded | None] = []
        wrong = False
        for index, (layer, expected, values) in enumerate(zip(layers, right, board, strict=True)):
            inputs = [written[source] for source in layer.sources]
            written[layer.output.name] = values
            if not wrong:
                require_numbers((layer,), (expected,), start)
            elif (specified := layer.errors.specified(inputs, expected)) is not None:
                np.copyto(expected, values, where=~specified)
            columns = self._bounded.get(index)
            found.append(None if columns is None else _accept_within(layer, inputs, expected, values, columns))
            wrong = wrong or bool(difference_map(expected, values).any())
        outputs = (_difference(index, references[index], board[index]) for index in self._outputs)
        return right, LocalResult(tuple(found), tuple(outputs))


@functools.lru_cache(maxsize=4)
def of_plan(plan: Plan) -> LocalComparison | None:
    """Return the comparison for a plan; None if every layer is exact, so that the reference is compared."""
    columns: dict[int, npt.NDArray[np.bool_]] = {}
    for task, claim in zip(plan.tasks, claims.claims(plan), strict=True):
        if claim is Claim.BOUNDED:
            of_layer = columns.setdefault(task.layer, np.zeros(plan.network.layers[task.layer].size, bool))
            of_layer[task.region.indices(of_layer.size)] = True
    return LocalComparison(plan, columns) if columns else None


def _accept_within(
    layer: Layer, inputs: Sequence[Array], expected: Array, values: Array, columns: npt.NDArray[np.bool_]
) -> Bounded:
    """Replace expected values by those of the board within their tolerance, in these columns, a few vectors at once."""
    ratio, unequal = 0.0, 0
    for begin in range(0, len(values), BLOCK):
        part = slice(begin, begin + BLOCK)
        right, board = expected[part], values[part]
        with np.errstate(all="ignore"):
            tolerance = layer.tolerance([given[part] for given in inputs], right)
        allowed = np.zeros(right.shape) if tolerance is None else tolerance
        different = difference_map(right, board) & columns
        shares = np.nan_to_num(ratios_to(board, right, allowed), nan=np.inf, posinf=np.inf)
        np.copyto(right, board, where=different & (shares <= 1))
        ratio = max(ratio, float(shares.max(initial=0, where=different)))
        unequal += int(np.count_nonzero(different))
    return Bounded(ratio, unequal)


def _difference(layer: int, expected: Array, values: Array) -> OutputDifference:
    output_difference = OutputDifference(layer, 0, 0.0)
    for begin in range(0, len(values), BLOCK):
        right, board = expected[begin : begin + BLOCK], values[begin : begin + BLOCK]
        different = difference_map(right, board)
        with np.errstate(all="ignore"):
            distance = np.abs(board.astype(np.float64) - right.astype(np.float64))
        largest = float(distance.max(initial=0, where=different))
        output_difference += OutputDifference(layer, int(np.count_nonzero(different)), largest)
    return output_difference
