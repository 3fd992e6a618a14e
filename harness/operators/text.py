"""The text of operators: NNEF fragments with their formulas, and constants as people read them.

A file of a plan contains the fragments that it uses, and a reader refuses a file in which one of them is different.
The Khronos interpreter can run them: it computes in IEEE float32 and rounds every operation, so it gives the exact
activations wherever an accumulator stays below 2^24, up to which float32 holds every integer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from harness.operators.base import Layer


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


@dataclass(frozen=True)
class Text:
    """The texts about the nodes that a class reads: in the text form of a model, in NNEF and in reports.

    `formula` is the arithmetic for one vector, or the function from an ONNX operator to that.  `roles` are the names of
    the ONNX inputs in it, by position, unless `role_of` returns them; those of `parameters` are weights or bias if they
    are constant.  `fragments` are the same arithmetic in NNEF; the one of a layer, at the place that `chosen` returns,
    computes it from its activations, which it reads as one tensor if they are `side_by_side`, then from the tables and
    the numbers of `constants`.  `facts_of`, `summary_of` and `operations_of` are functions of a layer, see below.
    """

    formula: str | Callable[[str], str] = ""
    roles: tuple[str, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    parameters: tuple[int, ...] = ()
    side_by_side: bool = False
    role_of: Callable[[int], str] | None = None
    chosen: Callable[[Any], int] = lambda _: 0
    facts_of: Callable[[Any], dict[str, Any]] = lambda layer: dict(layer.constants())
    summary_of: Callable[[Any], tuple[str, ...]] = lambda _: ()
    operations_of: Callable[[Any], int] = lambda _: 0
    layer: Any = None

    def __get__(self, layer: Layer | None, owner: type[Layer]) -> Text:
        """Return the texts of a class, or the same of one layer."""
        return self if layer is None else replace(self, layer=layer)

    def but(self, *ordered: Any, **others: Any) -> Text:
        """Return the texts with other fields: formula, roles and fragments, in this order or by name."""
        names = ("formula", "roles", "fragments")[: len(ordered)]
        return replace(self, **dict(zip(names, ordered, strict=True)), **others)

    def explain(self, operator: str) -> str:
        """Return the formula of one of the ONNX operators that the class reads."""
        return self.formula if isinstance(self.formula, str) else self.formula(operator)

    def role(self, position: int) -> str:
        """Return the name of an ONNX input."""
        if self.role_of is not None:
            return self.role_of(position)
        return self.roles[position] if position < len(self.roles) else f"input {position}"

    @property
    def fragment(self) -> Fragment:
        """The NNEF operation of the layer."""
        return self.fragments[self.chosen(self.layer)]

    def facts(self) -> dict[str, Any]:
        """Return the facts of the layer for programs: JSON types, and numpy arrays and numbers."""
        return self.facts_of(self.layer)

    def summary(self) -> tuple[str, ...]:
        """Return the facts of the layer for people, for one line: scales or other numbers, then zero points."""
        return self.summary_of(self.layer)

    @property
    def operations(self) -> int:
        """The arithmetic operations of one vector, as TensorFlow's profiler counts them and the ACETONE paper does.

        Two for each product of a sum, one for each addition of a bias and for each value of a pooling window; nothing
        for operators that the profiler does not know, such as Relu and Tanh.  It says how large a network is.
        """
        return self.operations_of(self.layer)


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


def moving(name: str, order: int, comment: str, numbers: str = "", *, copies: bool = False) -> tuple[Fragment]:
    """Return the fragment of an operator that moves values of any type.

    `numbers` are more parameters; with `copies` it has none, and all values stay.
    """
    places = f"""\
    places: tensor<integer>,                # int32 (1, N): the value of the input at each place, -1 for none
{numbers}    columns: integer[],                     # which N columns of its layer: the first, and the one behind them
"""
    parameters, body = ("", "\n{\n    y = copy(x);\n}") if copies else (places, ";")
    return (
        Fragment(
            name,
            order,
            f"""\
# {comment}
fragment {name}(
    x: tensor<scalar>,
{parameters}    type: string)
-> (y: tensor<scalar>){body}
""",
        ),
    )


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
