"""Operators that move values to other places, such as Transpose, Pad and Concat; nothing is computed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from harness.core.arrays import Array, file_type
from harness.operators.base import Ability, Constants, Evaluate, Layer, fields
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors
from harness.operators.frames import Frames, Streaming
from harness.operators.index_range import IndexRange, passed
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, computed, every_byte
from harness.operators.order import Copy, Order, Places, numbered
from harness.operators.product import Runtime
from harness.operators.tensor import EVERY_TYPE, FLOAT32, STORED, WIDE_INTEGERS, Tensor, integer_limits
from harness.operators.text import Text
from harness.operators.traits import Trait

QUANTISERS_STAY = ("Concat", "Pad", "Resize")
"""Operators across which ONNX Runtime does not move quantisers before it fuses layers."""


@dataclass(frozen=True, eq=False)
class Move(Layer):
    """A layer that moves values in an `order`, which `ordered` reads from a node."""

    traits = Trait.MOVES
    errors = Ability[Errors](lambda layer: Errors(layer, rising=True, linear=layer.linear))
    runtime = Ability(lambda layer: Runtime(layer, transparent=layer.operator not in QUANTISERS_STAY))
    streaming = Ability[Streaming](lambda layer: Streaming(layer, form=layer.frames))
    text = Text(roles=("x",), facts_of=lambda _: {})
    counts: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """The least and the largest number of inputs of an operator that has more than one."""
    types: ClassVar[tuple[np.dtype[Any], ...]] = (*EVERY_TYPE, *STORED)
    any_outputs: ClassVar[bool] = False
    """True if each output of a node is a layer of its own; other nodes have one output."""

    order: Order

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node that keeps vectors apart."""
        node.require_inputs(*cls.counts.get(node.operator, (1, 1)), any_outputs=cls.any_outputs)
        source = node.activation(0, cls.types)
        return cls.in_order(node, [source], cls.ordered(node, numbered(source.shape)))

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the order of the values by those of the input, whose places are `x`; refuse other nodes."""
        raise NotImplementedError

    @classmethod
    def in_order(cls, node: Node, sources: Sequence[Tensor], order: Order) -> Self:
        """Return the layer of a node with the values of these activations."""
        bound, negative_zero = max(source.bound for source in sources), any(source.negative_zero for source in sources)
        [dtype, *_] = (source.dtype for source in sources)
        if order.filler is not None:
            bound = max(bound, abs(float(order.filler))) if dtype == FLOAT32 else math.inf
            negative_zero |= bool((order.places < 0).any() and dtype == FLOAT32 and np.signbit(order.filler))
        return cls(**fields(node, sources, order.places.shape, dtype, bound, negative_zero=negative_zero), order=order)

    @cached_property
    def places(self) -> Places:
        """The place of each value, flat."""
        return self.order.places.reshape(-1)

    @cached_property
    def is_unchanged(self) -> bool:
        """True if all values of the only input stay in their order."""
        return len(self.inputs) == 1 and np.array_equal(self.places, numbered([self.input.size]))

    def frames(self, axis: int) -> Frames | None:
        """Return the axis along which the frames of the only input lie in their order, or the place of the only one."""
        [shape, *others] = (tensor.shape for tensor in self.inputs)
        size, inner, places = shape[axis], math.prod(shape[axis + 1 :]), self.order.places
        if others:
            return None
        number = places // inner % size
        first = int(self.places[0]) // inner % size
        if self.size * size == self.input.size and (number == first).all():
            is_frame = np.array_equal(numbered(shape).take(first, axis).reshape(-1), self.places)
            return Frames(None, place=first) if is_frame else None
        for other in (at for at, length in enumerate(places.shape) if length == size):
            along = np.moveaxis(places, other, 0) - np.arange(size).reshape(-1, *[1] * (places.ndim - 1)) * inner
            if (along == along[0]).all() and (np.moveaxis(number, other, -1) == np.arange(size)).all():
                return Frames(other)
        return None

    @cached_property
    def boxes(self) -> list[Copy]:
        """The boxes of the output that inputs give, of an order that is no table."""
        return self.order.boxes([tensor.size for tensor in self.inputs])

    def constants(self) -> Constants:
        """Return the places, and the constant."""
        filler = self.order.filler
        number = int if self.dtype in WIDE_INTEGERS else np.float32
        constant = {} if filler is None else {"value": number(filler)}
        return {"places": self.places, **constant}

    def prepare(self) -> Evaluate:
        """Return the function that takes values from their places."""
        return lambda *inputs: self._moved(inputs, self.order.filler)

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the changes at their places; a filler has none."""
        return self._moved(rows, 0)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield the obligation that every value is copied to its place."""
        sizes = [tensor.size for tensor in self.inputs]
        evaluate, ends = self.prepare(), np.cumsum(sizes)[:-1]
        yield computed(
            "every value is copied to its place",
            "every byte of every value takes all 256 values, each in an order of its own",
            256 * self.size,
            Outputs(
                lambda: [every_byte(sum(sizes), self.dtype)],
                lambda values: evaluate(*np.split(values, ends, axis=1)),
            ),
        )

    def _moved(self, inputs: Sequence[Array], filler: Any) -> Array:
        if self.is_unchanged:
            return inputs[0]
        if self.order.steps is None:
            return inputs[0][:, self.places]
        count, shape, kind = len(inputs[0]), self.order.steps.shape, file_type(inputs[0].dtype)
        y = np.empty((count, *shape), inputs[0].dtype)
        if (self.places < 0).any():
            y[...] = 0 if filler is None else filler  # not `or`: -0.0 is a filler
        for copy in self.boxes:
            x = inputs[copy.number].view(kind)  # as_strided knows NumPy's own types alone
            strides = (x.strides[0], *(x.strides[1] * step for step in copy.steps))
            y.view(kind)[:, *copy.box] = as_strided(x[:, copy.place :], (count, *copy.sizes), strides)
        return y.reshape(count, -1)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield values in other orders, and other constants of codes."""
        x, filler, right = np.concatenate(inputs, axis=1), self.order.filler, f"the order of {self.operator}"
        for cause, places in self._wrong_orders():
            if not np.array_equal(places, self.places):
                yield FaultModel(cause, right, _taken(x, places, filler))
        if filler is not None and self.dtype != FLOAT32:
            low, high = integer_limits(self.dtype)
            for name, code in (("0", 0), ("128", 128), ("-128", -128), ("the lowest code", low)):
                if low <= code <= high and code != filler:
                    yield FaultModel(f"the constant is {name}", str(filler), _taken(x, self.places, code))

    def _wrong_orders(self) -> Iterator[tuple[str, Places]]:
        """Yield causes with the places that they lead to: those of the operator, none, other loops, and off by one."""
        yield from ((cause, places.reshape(-1)) for cause, places in self.order.wrong.items())
        if self.is_unchanged:
            return
        at, whole = numbered([self.size]), sum(tensor.size for tensor in self.inputs)
        if self.size == whole:
            yield "the values keep their order", at
        elif self.size % whole == 0 and self.order.filler is None:
            yield "values are repeated one by one", at // (self.size // whole)
            yield "the whole vector is repeated", at % whole
        steps = self.places if self.order.steps is None else self.order.steps
        for first, second in itertools.combinations(range(steps.ndim), 2):
            names = f"{first + 1} and {second + 1}, over {steps.shape[first]} and {steps.shape[second]} places,"
            yield f"loops {names} are exchanged", steps.swapaxes(first, second).reshape(-1)
        is_part = self.size < whole
        moved = numbered(self.input.shape) if is_part else self.order.places
        for axis, (cause, step) in itertools.product(range(moved.ndim), (("early", -1), ("late", 1))):
            places = np.roll(moved, step, axis).reshape(-1)
            yield f"axis {axis + 1} is one value too {cause}", places[self.places] if is_part else places


def _taken(x: Array, places: Places, filler: Any) -> Array:
    return np.where(places < 0, 0 if filler is None else filler, x[:, places]).astype(x.dtype, copy=False)


@passed.register
def _moved_range(layer: Move, before: IndexRange) -> IndexRange | None:
    if (layer.places < 0).any():
        return None
    moved = (part[layer.places] for part in (before.places, before.low, before.high))
    return IndexRange(before.input, before.node, *moved)
