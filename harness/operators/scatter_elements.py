"""ScatterElements (domain harness): data (outer, k, inner) with updates (outer, m, inner) at indices, constant or data.

y[o, k, i] = data[o, k, i], then for m from 0 on, where index[o, m, i] is k:      a negative index counts from the end
    update[o, m, i], or by `reduction` its sum or product with the value so far, or the larger or smaller of both

The vectors are in front.  Indices with an outer or inner size of 1 are those of all.  An import writes ONNX's
ScatterElements, ScatterND, TensorScatter and MaxUnpool as this operator, behind a Clip of indices that are data.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import onnx_function
from harness.operators.base import Constants, fields
from harness.operators.exact.expression import Expression, larger, select, smaller
from harness.operators.exact.stages import Source, Stage, fold
from harness.operators.float_errors import Perturbed
from harness.operators.gather_elements import ARGUMENTS, AXES, SIZES, Loops, Sizes, tensor_or_constant
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.selection import TYPES, Selection, fragment, is_place, numbers_of, require_inside
from harness.operators.tensor import FLOAT32, INT64, Tensor
from harness.operators.text import Fragment, Text

FIRST_FRAGMENT = 260
NAMES = ("data", "index", "updates")
REDUCTIONS: Mapping[str, Any] = {
    "none": lambda _, u: u,
    "add": lambda y, u: y + u,
    "mul": lambda y, u: y * u,
    "max": lambda y, u: larger(u, y),
    "min": lambda y, u: smaller(u, y),
}
OF_FLOATS = ("add", "mul")
"""The reductions that are of float32 only."""
REDUCES_SINCE = 16
"""The first opset in which ONNX's operator has the attribute `reduction`."""
Inputs = tuple[tuple[str, np.dtype[Any], bool], ...]
"""The name of data, indices and updates each, its type, and whether it is constant."""


def definition(sizes: Sizes, inputs: Inputs, reduction: str) -> Stage:
    """Return the definition; `sizes` are those of the data and the indices."""
    data, index, updates = inputs
    at = Loops(sizes, index)
    x = Source(data[0], (at.o, at.k, at.i), data[1], is_constant=data[2])
    u = Source(updates[0], (at.o, at.m, at.i), updates[1], is_constant=updates[2])
    combine = REDUCTIONS[reduction]

    def step(y: Expression) -> Expression:
        return select(is_place(at.index, at.k), combine(y, u[at.o, at.m, at.i]), y)

    return fold("y", (at.o, at.k, at.i), (at.m,), x[at.o, at.k, at.i], step)


def inputs_of(constant: tuple[bool, ...], dtype: np.dtype[Any]) -> Inputs:
    """Return the names of the inputs: of constants their own, of activations x, x1, x2 in their order."""
    names = (f"x{number or ''}" for number in itertools.count())
    return tuple(
        (own if is_constant else next(names), dtype, is_constant)
        for own, is_constant in zip(NAMES, constant, strict=True)
    )


FORMS = tuple(form for form in itertools.product((False, True), repeat=3) if not all(form))
"""Forms of a layer: for data, indices and updates, true if they are constant."""


def _fragment(number: int, form: tuple[bool, ...]) -> Fragment:
    inputs = inputs_of(form, INT64)
    parameters = {name: f"the type of the layer: {own}" for (name, *_), own in zip(inputs, NAMES, strict=True)}
    ordered = sorted(parameters, key=lambda name: (not name.startswith("x"), name != "data", name))
    stated = {name: parameters[name] for name in ordered}
    stated |= {name: ARGUMENTS[name] for name in ("places", "places_from_end", "axes")}
    stated["reduction"] = f"integer: {', '.join(f'{place} {name}' for place, name in enumerate(REDUCTIONS))}"
    kept = "".join(f"_{own}" for own, is_constant in zip(NAMES, form, strict=True) if is_constant)
    example = definition(Sizes(2, 2, 2, 2, 2, 2), inputs, "none")
    return fragment(f"scatter_elements{kept}", FIRST_FRAGMENT + number, example, stated)


@dataclass(frozen=True, eq=False)
class ScatterElements(Selection):
    """Data with updates at indices."""

    ONNX = ((onnx_function.DOMAIN, "ScatterElements"),)
    text = Text(
        "y[o, k, i] = data[o, k, i], then for m from 0 on where index[o, m, i] is k: update[o, m, i], or the sum, the "
        "product, the larger or the smaller one of it and the value so far",
        NAMES,
        tuple(itertools.starmap(_fragment, enumerate(FORMS))),
        chosen=lambda layer: FORMS.index(layer.form),
        facts_of=lambda layer: {"reduction": layer.reduction},
        summary_of=lambda layer: (f"of {layer.places} places, reduction {layer.reduction}",),
    )

    sizes: Sizes
    reduction: str
    kept: Mapping[str, Array]

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State type and shape of the data."""
        node.same_type(node.x, node.y)
        for tensor in (*node.given_inputs, node.y):
            node.equals(tensor.rank, AXES)
        for axis in range(1, AXES):
            node.equals(node.y.size(axis), node.x.size(axis))
        node.equals(node.input(1).size(2), node.input(2).size(2))
        node.broadcast_sizes(node.y.size(0), [tensor.size(0) for tensor in node.given_inputs])

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of one type, whose indices are within the places of the axis."""
        node.require_inputs(3, 3)
        reduction = node.attributes({"reduction": b"none"})["reduction"].decode(errors="replace")
        inputs = [tensor_or_constant(node, place, TYPES, name) for place, name in enumerate(NAMES)]
        data, index, updates = inputs
        sources = [tensor for tensor in inputs if isinstance(tensor, Tensor)]
        types = {tensor.dtype for tensor in inputs}
        accepted = [name for name in REDUCTIONS if name not in OF_FLOATS or types == {FLOAT32}]
        if len(types) > 1 or not sources or reduction not in accepted:
            raise node.refusal(
                f"reads {', '.join(str(tensor.dtype) for tensor in inputs)} with reduction {reduction!r}",
                f"one type, an activation, and {', '.join(accepted)}; import the network",
            )
        sizes = Sizes.read(node, data.shape, index.shape)
        require_inside(node, index, sizes.k)
        if updates.shape != (sizes.outer, sizes.m, sizes.inner):
            raise node.refusal(f"the updates have shape {updates.shape}", f"{(sizes.outer, sizes.m, sizes.inner)}")
        bound = max(_bound(data), _bound(updates)) if reduction not in OF_FLOATS else np.inf
        kept = {name: values for name, values in zip(NAMES, inputs, strict=True) if not isinstance(values, Tensor)}
        written = fields(node, sources, tuple(data.shape), data.dtype, bound, negative_zero=True)
        return cls(**written, sizes=sizes, reduction=reduction, kept=kept)

    @property
    def form(self) -> tuple[bool, ...]:
        """The form: for data, indices and updates, true if they are constant."""
        return tuple(name in self.kept for name in NAMES)

    @property
    def places(self) -> int:
        """The number of places among which the layer chooses."""
        return self.sizes.k

    def definition(self) -> Stage:
        """Return the definition for the shapes of the layer."""
        return definition(self.sizes, inputs_of(self.form, self.dtype), self.reduction)

    def numbers(self) -> dict[str, Array]:
        """Return the inputs that are constant, and the numbers of the places."""
        return {name: values.reshape(-1) for name, values in self.kept.items()} | numbers_of(self.places, self.dtype)

    def constants(self) -> Constants:
        """Return the same, the sizes and the reduction."""
        number = [*REDUCTIONS].index(self.reduction)
        return {**self.numbers(), "axes": np.array(self.sizes, np.int32), "reduction": number}

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:  # noqa: ARG002 - as of the base
        """Return 0 for the larger or smaller of floats: zeros of either sign are right; None for others."""
        is_choice = self.reduction in ("max", "min") and self.dtype == FLOAT32
        return np.zeros(output.shape) if is_choice else None

    def distance(self, at: Perturbed) -> Array:
        """Return the largest error of a vector where it only moves values, infinity where an index can differ."""
        errors = dict(zip((name for name in NAMES if name not in self.kept), at.errors, strict=True))
        index = errors.pop("index", np.zeros(1)).any(axis=-1, keepdims=True)
        largest = np.zeros((len(at.output), 1))
        for error in errors.values():
            largest = np.maximum(largest, error.max(axis=1, keepdims=True))
        is_unknown = index | (self.reduction in OF_FLOATS)
        return np.where(is_unknown, np.inf, np.broadcast_to(largest, at.output.shape))

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto:  # noqa: ARG003 - of the base
        """Return the ONNX function; before opset 16 it has no reduction."""
        head = f'<domain: "{onnx_function.DOMAIN}", opset_import: ["" : {opset}]>\nScatterElements'
        reduces = ", reduction: string = @reduction" * (opset >= REDUCES_SINCE)
        return onnx.parser.parse_function(
            f"{head} {'<reduction> ' * bool(reduces)}(data, index, updates) => (y)\n{{\n"
            f"    of_others = Shape (updates)\n{SIZES}"
            "    all_updates = Expand (updates, part)\n"
            f"    y = ScatterElements <axis = 2{reduces}> (x, places, all_updates)\n}}"
        )


def _bound(values: Tensor | Array) -> float:
    return values.bound if isinstance(values, Tensor) else float(np.abs(values).max(initial=0))
