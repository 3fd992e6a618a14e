"""GatherElements (domain harness): values at indices that are data.

Data are (outer, k, inner), and indices (outer, m, inner):

y[o, m, i] = data[o, index[o, m, i], i]      a negative index counts from the end

The vectors are in front.  Indices with an outer or inner size of 1 are those of all.  An import writes ONNX's Gather,
GatherElements and GatherND with indices that are data as this operator, behind a Clip to the places of the axis: ONNX
calls an index beyond it an error, and here it is the nearest place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import onnx_function
from harness.operators.base import Constants, Evaluate, fields
from harness.operators.exact.expression import Expression, literal, select
from harness.operators.exact.stages import Axis, Source, Stage, fold
from harness.operators.float_errors import Perturbed
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.selection import TYPES, Selection, fragment, is_place, numbers_of, require_inside
from harness.operators.tensor import INT32, INT64, Tensor
from harness.operators.text import Text

FIRST_FRAGMENT = 251
AXES = 4
"""The axes of data and indices, with the vectors."""
SIZES = """\
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    two = Constant <value_ints = [2]> ()
    three = Constant <value_ints = [3]> ()
    four = Constant <value_ints = [4]> ()
    of_data = Shape (data)
    of_index = Shape (index)
    vectors_of_data = Slice (of_data, zero, one)
    vectors_of_index = Slice (of_index, zero, one)
    vectors_of_others = Slice (of_others, zero, one)
    vectors = Max (vectors_of_data, vectors_of_index, vectors_of_others)
    outer = Slice (of_data, one, two)
    size = Slice (of_data, two, three)
    inner = Slice (of_data, three, four)
    chosen = Slice (of_index, two, three)
    number = Cast <to = 7> (index)
    least = Neg (size)
    most = Sub (size, one)
    from_first = Max (number, least)
    inside = Min (from_first, most)
    whole = Concat <axis = 0> (vectors, outer, size, inner)
    part = Concat <axis = 0> (vectors, outer, chosen, inner)
    places = Expand (inside, part)
    x = Expand (data, whole)
"""
"""The steps of functions to `x`, the data, and `places`, the indices, for each vector and each value of the output."""
ARGUMENTS = {
    "x": "float32 or integers (vectors, outer * k * inner), the data if they are no constant",
    "x1": "the same type (vectors, outer * m * inner): the indices",
    "data": "float32 or integers (1, outer * k * inner)",
    "places": "the type of the indices (1, k): 0 to k - 1",
    "places_from_end": "the same (1, k): -k to -1",
    "axes": "int32 (1, 6): outer, k, m, inner; outer and inner of the indices",
}


class Sizes(NamedTuple):
    """The sizes of data (outer, k, inner) and indices (outer or 1, m, inner or 1)."""

    outer: int
    k: int
    m: int
    inner: int
    outer_of_index: int
    inner_of_index: int

    @classmethod
    def read(cls, node: Node, data: Sequence[int], index: Sequence[int]) -> Sizes:
        """Return those of shapes without the vectors; refuse others."""
        is_stated = len(data) == len(index) == AXES - 1
        if not is_stated or index[0] not in (1, data[0]) or index[2] not in (1, data[2]):
            raise node.refusal(
                f"data and indices have shapes {tuple(data)} and {tuple(index)}",
                "(outer, k, inner) and (outer or 1, m, inner or 1), behind the vectors",
            )
        return cls(data[0], data[1], index[1], data[2], index[0], index[2])


class Loops:
    """The axes of a selection, and what it reads at them; `index` is at the place (o, m, i)."""

    def __init__(self, sizes: Sizes, index: tuple[str, np.dtype[Any], bool]) -> None:
        names = zip("okmi", sizes, strict=False)
        self.o, self.k, self.m, self.i = (Axis(name, size) for name, size in names)
        of_index = Axis("p", sizes.outer_of_index), self.m, Axis("q", sizes.inner_of_index)
        name, dtype, is_constant = index
        source = Source(name, of_index, dtype, is_constant=is_constant)
        outer = self.o if sizes.outer_of_index > 1 else 0
        self.index = source[outer, self.m, self.i if sizes.inner_of_index > 1 else 0]


def definition(sizes: Sizes, data: tuple[str, np.dtype[Any], bool], index: tuple[str, np.dtype[Any], bool]) -> Stage:
    """Return the definition; `data` and `index` are the name, the type, and whether they are constants."""
    at = Loops(sizes, index)
    name, dtype, is_constant = data
    x = Source(name, (at.o, at.k, at.i), dtype, is_constant=is_constant)

    def step(y: Expression) -> Expression:
        return select(is_place(at.index, at.k), x[at.o, at.k, at.i], y)

    return fold("y", (at.o, at.m, at.i), (at.k,), literal(0, dtype), step)


def _fragment(*, is_constant: bool) -> Any:
    sources = (
        (("data", INT64, True), ("x", INT64, False)) if is_constant else (("x", INT64, False), ("x1", INT64, False))
    )
    left_out = "x1" if is_constant else "data"
    name = "gather_elements_of_constants" if is_constant else "gather_elements"
    parameters = {key: text for key, text in ARGUMENTS.items() if key != left_out}
    return fragment(name, FIRST_FRAGMENT + is_constant, definition(Sizes(2, 2, 2, 2, 2, 2), *sources), parameters)


def tensor_or_constant(node: Node, position: int, types: Sequence[np.dtype[Any]], name: str) -> Tensor | Array:
    """Return an input of a selection: an activation, or a constant (outer, k, inner)."""
    if node.inputs[position] not in node.constants:
        return node.activation(position, types)
    values = node.constant(position, name, types)
    if values.ndim != AXES or len(values) != 1:
        raise node.refusal(f"the {name} has shape {values.shape}", "1 before three axes")
    constant: Array = values[0]
    return constant


@dataclass(frozen=True, eq=False)
class GatherElements(Selection):
    """The values at indices that are data."""

    ONNX = ((onnx_function.DOMAIN, "GatherElements"),)
    text = Text(
        "y[o, m, i] = data[o, index[o, m, i], i]",
        ("data", "index"),
        (_fragment(is_constant=False), _fragment(is_constant=True)),
        chosen=lambda layer: int(layer.data is not None),
        facts_of=lambda _: {},
        summary_of=lambda layer: (f"of {layer.places} places",),
    )
    inputs_of_onnx: ClassVar[int] = 2

    sizes: Sizes
    data: Array | None

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the type of the values, and that y has the size of the indices along the axis."""
        node.same_type(node.x, node.y)
        for tensor in (node.x, node.input(1), node.y):
            node.equals(tensor.rank, AXES)
        node.equals(node.y.size(1), node.x.size(1)).equals(node.y.size(3), node.x.size(3))
        node.equals(node.y.size(2), node.input(1).size(2))
        node.broadcast_sizes(node.y.size(0), [tensor.size(0) for tensor in node.given_inputs])

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of data that can be constant and indices that are data, within the places of the axis."""
        node.require_inputs(2, 2)
        node.attributes({})
        data = tensor_or_constant(node, 0, TYPES, "data")
        index = node.activation(1, TYPES if isinstance(data, Tensor) else [INT32, INT64])
        if isinstance(data, Tensor) and data.dtype != index.dtype:
            raise node.refusal(
                f"reads {data.dtype} and {index.dtype}", "data and indices of one type; import the network"
            )
        sizes = Sizes.read(node, data.shape, index.shape)
        require_inside(node, index, sizes.k)
        sources = [data, index] if isinstance(data, Tensor) else [index]
        bound = data.bound if isinstance(data, Tensor) else float(np.abs(data).max())
        shape = sizes.outer, sizes.m, sizes.inner
        written = fields(node, sources, shape, data.dtype, bound, negative_zero=True)
        return cls(**written, sizes=sizes, data=None if isinstance(data, Tensor) else data)

    @property
    def places(self) -> int:
        """The number of places among which the layer chooses."""
        return self.sizes.k

    def definition(self) -> Stage:
        """Return the definition for the shapes of the layer."""
        is_constant = self.data is not None
        data = ("data" if is_constant else "x", self.dtype, is_constant)
        return definition(self.sizes, data, ("x" if is_constant else "x1", self.inputs[-1].dtype, False))

    def prepare(self) -> Evaluate:
        """Return the function that reads the values at their places, which takes less time than all places in turn."""
        outer, k, m, inner, *of_index = self.sizes

        def gather(*inputs: Array) -> Array:
            data = inputs[0].reshape(-1, outer, k, inner) if self.data is None else self.data[None]
            index = inputs[-1].reshape(-1, of_index[0], m, of_index[1])
            inside = (index >= -k) & (index < k)
            places = np.where(inside, index, 0).astype(np.int64)
            is_place = inside & (places == index)
            shape = (len(index), outer)
            x, at = np.broadcast_to(data, (*shape, k, inner)), np.broadcast_to(places % k, (*shape, m, inner))
            y = np.take_along_axis(x, at, axis=2)
            return np.where(is_place, y, self.dtype.type(0)).reshape(len(index), -1)

        return gather

    def numbers(self) -> dict[str, Array]:
        """Return the data, if they are constant, and the numbers of the places."""
        data = {} if self.data is None else {"data": self.data.reshape(-1)}
        return data | numbers_of(self.places, self.inputs[-1].dtype)

    def constants(self) -> Constants:
        """Return the same, and the sizes."""
        return {**self.numbers(), "axes": np.array(self.sizes, np.int32)}

    def distance(self, at: Perturbed) -> Array:
        """Return the largest error of the values among which is chosen, infinity where an index can differ."""
        index = at.errors[-1].any(axis=1, keepdims=True)
        if self.data is not None:
            return np.where(index, np.inf, np.zeros(at.output.shape))
        outer, k, m, inner = self.sizes[:AXES]
        largest = at.errors[0].reshape(-1, outer, k, inner).max(axis=2, keepdims=True)
        return np.where(index, np.inf, largest.repeat(m, axis=2).reshape(at.output.shape))

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto:  # noqa: ARG003 - of the base
        """Return the ONNX function."""
        body = f"    of_others = Shape (index)\n{SIZES}    y = GatherElements <axis = 2> (x, places)\n"
        return onnx_function.function("GatherElements", ["data", "index"], body, opset)
