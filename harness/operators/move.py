"""Base class of operators that move values of one vector to other places, such as Transpose, Slice and Pad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants, Evaluate, Selection
from harness.operators.fault_models import FaultModel
from harness.operators.text import Fragment


class Span(NamedTuple):
    """A part of an axis: its begin and size, the place of its first value behind that of the axis, and the step."""

    begin: int
    size: int
    place: int
    step: int


@dataclass(frozen=True, eq=False)
class Move(Selection):
    """A layer whose value n is value `places[n]` of its input.

    `places` is int32 of the output's shape, and -1 for a value that no input gives: `filler`.
    """

    elementwise = False
    roles: ClassVar[tuple[str, ...]] = ("x",)

    places: npt.NDArray[np.int32]

    @property
    def table(self) -> bool:
        """True if the places are a table of the program, as they follow no steps."""
        return False

    @property
    def stepped(self) -> npt.NDArray[np.int32]:
        """The places on axes, along parts of which they rise or fall by the same steps."""
        return self.places

    def spans(self) -> list[list[Span]]:
        """Return the parts of each axis of `stepped` that have one step; values without an input belong to none."""
        inside = np.argwhere(self.stepped >= 0)
        first, sizes = inside.min(axis=0), np.ptp(inside, axis=0) + 1
        found = []
        for axis, size in enumerate(sizes.tolist()):
            index = [int(at) if other != axis else slice(int(at), int(at) + size) for other, at in enumerate(first)]
            line = self.stepped[tuple(index)] - self.stepped[tuple(first)]
            spans, start = [], 0
            for at in range(1, size + 1):
                step = int(line[start + 1] - line[start]) if start + 1 < size else 0
                if at == size or (at > start + 1 and line[at] - line[at - 1] != step):
                    spans.append(Span(int(first[axis]) + start, at - start, int(line[start]), step))
                    start = at
            found.append(spans)
        return found

    @property
    def filler(self) -> Any:
        """The value of places without an input."""
        return self.dtype.type(0)

    def constants(self) -> Constants:
        """Return the places."""
        return {"places": self.places.reshape(-1)}

    def facts(self) -> dict[str, Any]:
        """Return no facts; the shapes are those of the tensors."""
        return {}

    def prepare(self) -> Evaluate:
        """Return the function that takes values from their places."""
        places, filler = self.places.reshape(-1), self.filler

        def move(x: Array) -> Array:
            return np.where(places < 0, filler, x[:, places]).astype(x.dtype, copy=False)

        return move if (places < 0).any() else lambda x: x[:, places]

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the changes at their places; a filler has none."""
        places = self.places.reshape(-1)
        return np.where(places < 0, 0, rows[0][:, places])

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield values that keep the order of the input."""
        [x] = inputs
        if self.size == self.input.size:
            yield FaultModel("the values keep their order", f"the order of {self.operator}", x)


def moving(name: str, order: int, comment: str, numbers: str = "") -> tuple[Fragment, Fragment]:
    """Return the fragments of an operator that moves codes or float32, and indices; `numbers` are more parameters."""
    kinds = ((name, "scalar", order), (f"{name}_indices", "integer", order + 1))
    texts = (
        f"""\
# {comment}
fragment {each}(
    x: tensor<{kind}>,
    places: tensor<integer>,                # int32 (1, N): the value of the input at each place, -1 for none
{numbers}    columns: integer[],                     # which N columns of its layer: the first, and the one behind them
    type: string)
-> (y: tensor<{kind}>);
"""
        for each, kind, _ in kinds
    )
    first, second = (Fragment(each, place, text) for (each, _, place), text in zip(kinds, texts, strict=True))
    return first, second
