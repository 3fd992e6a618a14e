"""The text of operators: NNEF fragments with their formulas, and constants as people read them.

A file of a plan contains the fragments that it uses, and a reader refuses a file in which one of them is different.
The Khronos interpreter can run them: it computes in IEEE float32 and rounds every operation, so it gives the exact
activations wherever an accumulator stays below 2^24, up to which float32 holds every integer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Fragment:
    """An operation of NNEF with its formula.

    `order` is its place in a file: those with a smaller number come first, those that it `uses` among them.  `columns`
    is the number of values that it gives, where that is always the same.
    """

    name: str
    order: int
    text: str
    uses: tuple[Fragment, ...] = ()
    columns: int | None = None

    @property
    def states_columns(self) -> bool:
        """True if an operation says which columns of its layer it gives.

        This is so for layers that several items can compute, and for those that give more or fewer values than they
        read.
        """
        return "    columns: integer[]," in self.text


ROUND_HALF_EVEN = Fragment(
    "round_half_even",
    0,
    """\
# The integer nearest to x, and of two that are equally near the even one.
fragment round_half_even(x: tensor<scalar>) -> (y: tensor<scalar>)
{
    below = floor(x);
    even = 2.0 * floor((below + 1.0) / 2.0);    # the even one of below and below + 1
    rest = x - below;                           # exact; but for -0.5 < x < 0, where every way leads to 0
    y = select(rest < 0.5, below, select(rest > 0.5, below + 1.0, even));
}
""",
)


def moving(
    name: str, order: int, comment: str, numbers: str = "", *, copies: bool = False
) -> tuple[Fragment, Fragment]:
    """Return the fragments of an operator that moves codes or float32 `name`, and indices `name`_indices.

    `numbers` are more parameters; with `copies` it has none, and all values stay.
    """
    places = f"""\
    places: tensor<integer>,                # int32 (1, N): the value of the input at each place, -1 for none
{numbers}    columns: integer[],                     # which N columns of its layer: the first, and the one behind them
"""
    parameters, body = ("", "\n{\n    y = copy(x);\n}") if copies else (places, ";")
    kinds = ((name, "scalar", order), (f"{name}_indices", "integer", order + 1))
    first, second = (
        Fragment(
            own_name,
            place,
            f"""\
# {comment}
fragment {own_name}(
    x: tensor<{kind}>,
{parameters}    type: string)
-> (y: tensor<{kind}>){body}
""",
        )
        for own_name, kind, place in kinds
    )
    return first, second


def floats(values: npt.NDArray[np.float32] | np.float32) -> str:
    """Return one number with its bits, or the span of several and how many distinct ones there are."""
    values = np.atleast_1d(values)
    distinct = np.unique(values.view(np.uint32)).view(np.float32)
    if len(distinct) == 1:
        return f"{distinct[0]!s} 0x{int(distinct.view(np.uint32)[0]):08x}"
    return f"{values.min():.4g} to {values.max():.4g} ({len(distinct)})"


def span(values: npt.NDArray[np.int32]) -> str:
    """Return the smallest and the largest of some integers, or the only one."""
    low, high = values.min(), values.max()
    return str(low) if low == high else f"{low}..{high}"
