"""Base class of operators that compare and choose values: by an index that is data, or by their order.

All places are tried in turn, so that no address, no branch and no number of steps depends on the data, and an index
that is no place reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability
from harness.operators.exact.expression import Expression, equal
from harness.operators.exact.stages import Axis, Source, Stage, formula, program
from harness.operators.float_errors import Errors, Perturbed
from harness.operators.float_samples import of_samples
from harness.operators.integer_samples import of_values, special_integers
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.staged import OfIntegers
from harness.operators.tensor import FLOAT32, INT32, INT64, Tensor
from harness.operators.text import Fragment

TYPES = (FLOAT32, INT32, INT64)
"""The types of values that are chosen; an import casts others to one of them, and back."""
MOST_PLACES = 1 << 24
"""Places of an axis, which float32 can number."""
BESIDE = 2
"""Numbers on either side of the places that samples have, too."""


def exact_errors(layer: Selection) -> Errors:
    """Return the errors of a layer whose values are only chosen."""
    return Errors(layer, exact=True, specified=layer.specified, distance=layer.distance)


@dataclass(frozen=True, eq=False)
class Selection(OfIntegers):
    """Stages that compare and choose: nothing is rounded, and ONNX Runtime has the same bits."""

    errors = Ability[Errors](exact_errors)

    def distance(self, at: Perturbed) -> Array:
        """Return infinity: another value may be chosen where the inputs differ."""
        return np.full(at.output.shape, np.inf)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where the output is a number, of vectors whose values are finite."""
        is_finite = np.logical_and.reduce([np.isfinite(x).all(axis=1, keepdims=True) for x in inputs])
        result: Array = is_finite & ~np.isnan(expected)
        return result

    @property
    def places(self) -> int:
        """The number of places among which the layer chooses."""
        raise NotImplementedError

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - of samples
        """Yield numbers of all magnitudes, then the numbers of all places and some beside them."""
        statement, dtype = "values are compared and chosen as specified", self.input.dtype
        if dtype == FLOAT32:
            yield from of_samples(self, statement)
        numbers = np.arange(-self.places - BESIDE, self.places + BESIDE)
        special = numbers if dtype == FLOAT32 else np.union1d(numbers, special_integers(dtype))
        yield of_values(self, f"{statement}, where some are equal or number a place", special.astype(dtype))

    def assumptions(self) -> Iterator[str]:
        """Yield that the values are samples."""
        yield f"{self.operator} only compares and chooses: random and special values were tried."


def is_place(index: Expression, k: Axis) -> Expression:
    """Return whether an index is the number of a place on an axis, from the first one on or, below 0, from the end."""
    front, end = (Source(name, (k,), index.dtype, is_constant=True)[k] for name in ("places", "places_from_end"))
    return equal(index, front) | equal(index, end)


def numbers_of(size: int, dtype: np.dtype[Any]) -> dict[str, Array]:
    """Return the constants that `is_place` reads."""
    return {"places": np.arange(size, dtype=dtype), "places_from_end": np.arange(-size, 0).astype(dtype)}


def require_inside(node: Node, index: Tensor | Array, size: int) -> None:
    """Refuse indices that can be below -size or above size - 1, and axes of too many places."""
    if isinstance(index, Tensor):
        low, high = node.range(index)
    else:
        low, high = float(index.min(initial=0)), float(index.max(initial=0))
    if low < -size or high >= size:
        raise node.refusal(
            f"an index can be from {low:g} to {high:g}, and the axis has {size} places",
            f"indices from {-size} to {size - 1}: harness models import adds the Clip that an index as data needs",
        )
    if size > MOST_PLACES:
        raise node.refusal(f"the axis has {size:,} places", f"at most {MOST_PLACES:,}")


def fragment(operator: str, order: int, example: Stage, parameters: Mapping[str, str]) -> Fragment:
    """Return the fragment of an operator by a definition of any sizes.

    The comments of `parameters` begin with int32 for tensors of integers, integer for an integer.
    """
    kinds = {"int32": "tensor<integer>", "integer": "integer"}
    lines = "".join(
        f"    {name}: {kinds.get(text.split()[0], 'tensor<scalar>')},".ljust(44) + f"# {text}\n"
        for name, text in parameters.items()
    )
    comment = "".join(f"#     {line}\n" for line in formula(program(example)))
    return Fragment(
        operator.lower(),
        order,
        f"""\
# {operator}: values are compared and chosen, and nothing is rounded.
{comment}fragment {operator.lower()}(
{lines}    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )
