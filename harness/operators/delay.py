"""Delay (harness): the new frames of a stream behind some that were read in earlier steps.

The vectors are the consecutive steps of a stream: step i reads the frames i * new to (i + 1) * new - 1 of an axis.

y[i] = x[i * new - history], ..., x[(i + 1) * new - 1]                  along the axis, all else unchanged

A frame before step `start` has the constant `value`, the padding of the layer that reads y: steps up to `start` have no
history.  After `steps` vectors a new stream begins.  `harness/model/stream.py` inserts this operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, Evaluate, Layer, fields
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors
from harness.operators.frames import Streaming
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, ProofStep, StageKind, computed, every_byte
from harness.operators.onnx_function import DOMAIN
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import FLOAT32, INT8, UINT8
from harness.operators.text import Fragment, Text
from harness.operators.traits import Trait

COPIES = (
    "The layers of a stream that keep frames or states read the copy of their buffer that they wrote in the execution "
    "before: the code says so, whole runs show it, and which copy an instruction uses was not read."
)
"""The assumption of layers that read their output for the vector before."""
FRAGMENT = Fragment(
    "delay_frames",
    113,
    """\
# The new frames of a stream, behind frames of earlier vectors, which are the earlier steps of the stream.
# The frames before step `start` of every `steps` vectors are `value`.
fragment delay_frames(
    x: tensor<scalar>,                      # (vectors, outer * new * inner)
    outer: integer, new: integer, inner: integer,
    history: integer,                       # frames of earlier vectors, in front of the new ones
    start: integer, steps: integer,
    value: scalar,
    columns: integer[],                     # all (outer * (history + new) * inner) columns of its layer
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class Delay(Layer):
    """A layer whose output depends on the vectors before: those of its stream."""

    ONNX = ((DOMAIN, "Delay"),)
    text = Text(
        "y = the last `history` frames of the vectors before, then the frames of x; `value` before the stream",
        ("x",),
        (FRAGMENT,),
        facts_of=lambda layer: {
            "axis": layer.axis,
            "history": layer.history,
            "start": layer.start,
            "steps": layer.steps,
        },
        summary_of=lambda layer: (f"history {layer.history}", f"padding {layer.value}"),
    )
    traits = Trait.NONE
    errors = Ability(lambda layer: Errors(layer, bounds=layer.output_bounds, linear=layer.linear))
    streaming = Ability(lambda delay: Streaming(delay, delay.steps, copies=2, kept=delay.size - delay.input.size))

    axis: int
    history: int
    start: int
    steps: int
    value: Any

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the axis grows by the history, and that type and other sizes stay."""
        node.same_type(node.x, node.y).equals(node.x.rank, node.y.rank)

        def grow(rank: int) -> None:
            delayed = node.axis(node.attribute("axis", 1), rank)
            for axis in range(rank):
                added = node.attribute("history", 1) if axis == delayed else 0
                node.sum_is_zero((1, node.x.size(axis)), (1, Size.of(added)), (-1, node.y.size(axis)))

        node.given(node.x.rank).then(grow)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with a history of one frame or more."""
        node.require_inputs(1, 1)
        source = node.activation(0, [UINT8, INT8, FLOAT32])
        given = node.attributes({"axis": 1, "history": 1, "start": 0, "steps": 1, "value": 0.0})
        axis, history, start, steps = (given[name] for name in ("axis", "history", "start", "steps"))
        if not 1 <= axis <= len(source.shape) or history < 1 or not 0 <= start < steps:
            raise node.refusal(
                f"axis {axis}, history {history}, start {start}, steps {steps}",
                f"an axis of 1 to {len(source.shape)}, a history of 1 or more, a start from 0 and below the steps",
            )
        value = source.dtype.type(given["value"])
        if float(value) != given["value"]:
            raise node.refusal(f"value is {given['value']}", f"a number that {source.dtype} has")
        shape = list(source.shape)
        shape[axis - 1] += history
        bound = max(source.bound, abs(float(value))) if source.dtype == FLOAT32 else math.inf
        written = fields(node, [source], tuple(shape), source.dtype, bound, negative_zero=source.negative_zero)
        return cls(**written, axis=axis - 1, history=history, start=start, steps=steps, value=value)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of runs of frames, the new frames of each, and the values of a frame of each."""
        shape = self.input.shape
        return math.prod(shape[: self.axis]), shape[self.axis], math.prod(shape[self.axis + 1 :])

    def constants(self) -> Constants:
        """Return the sizes, the steps, and the constant."""
        outer, new, inner = self.sizes
        sizes = {"outer": outer, "new": new, "inner": inner, "history": self.history}
        return {**sizes, "start": self.start, "steps": self.steps, "value": np.float32(self.value)}

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return those of the new frames, behind those of any frame or the constant."""
        sides = []
        for [given], extreme in ((low, np.minimum), (high, np.maximum)):
            new = given.reshape(self.sizes)
            earlier = extreme(extreme.reduce(new, axis=1, keepdims=True), self.value)
            sides.append(np.concatenate([np.repeat(earlier, self.history, axis=1), new], axis=1).reshape(1, -1))
        return sides[0], sides[1]

    def prepare(self) -> Evaluate:
        """Return the function of the steps of whole streams; the last one may be cut short."""
        return lambda x: self._delayed(x, reset=True)

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the changes at the places of their values."""
        return self.prepare()(*rows)

    def _delayed(self, x: Array, *, reset: bool) -> Array:
        """Return the outputs of the steps of streams, or, without `reset`, of one that does not end."""
        outer, new, inner = self.sizes
        steps = self.steps if reset else len(x)
        whole = np.full((-(-len(x) // steps) * steps, outer, new, inner), self.value, self.dtype)
        whole[: len(x)] = x.reshape(len(x), outer, new, inner)
        given = whole.reshape(-1, steps, outer, new, inner)
        stream = np.moveaxis(given, 1, 2).reshape(len(given), outer, steps * new, inner)
        stream[:, :, : self.start * new] = self.value
        padded = np.pad(stream, [(0, 0), (0, 0), (self.history, 0), (0, 0)], constant_values=self.value)
        size = self.history + new
        y = np.stack([padded[:, :, step * new : step * new + size] for step in range(steps)], axis=1)
        y[:, : self.start + 1, :, : self.history] = self.value
        y[:, : self.start + 1, :, self.history :] = given[:, : self.start + 1]
        return y.reshape(-1, self.size)[: len(x)]

    def shifted(self, both: Array) -> Array:
        """Return the output for the output before and the input, side by side: (n, size + input size)."""
        outer, new, inner = self.sizes
        before = both[:, : self.size].reshape(len(both), outer, self.history + new, inner)
        given = both[:, self.size :].reshape(len(both), outer, new, inner)
        return np.concatenate([before[:, :, new:], given], axis=2).reshape(len(both), -1)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield that a step moves the frames, and that a stream begins with the constant."""
        both, size = self.size + self.input.size, self.size
        bytes_of_both = "every byte of every value takes all 256 values, each in an order of its own"
        yield computed(
            "the frames of the step before move by the new ones, which follow them",
            bytes_of_both,
            256 * size,
            Outputs(lambda: [every_byte(both, self.dtype)], self.shifted),
        )
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.RESET,
            "a stream begins with the padding of the layer that reads it",
            bytes_of_both,
            256 * size,
            Outputs(
                lambda: [every_byte(self.input.size, self.dtype)],
                lambda x: np.full((len(x), size), self.value, self.dtype),
            ),
        )

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption about the copies of the history."""
        yield COPIES

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield histories that are not updated, that move too little, and that begin with another stream."""
        [x] = inputs
        outer, new, inner = self.sizes
        right = self.prepare()(x)
        kept = right.reshape(len(x), outer, self.history + new, inner).copy()
        kept[:, :, : self.history] = self.value
        yield FaultModel("the history is not updated", "the frames of the steps before", kept.reshape(len(x), -1))
        if new > 1:
            moved = right.reshape(kept.shape).copy()
            for step in np.flatnonzero(np.arange(len(x)) % self.steps > self.start):
                moved[step, :, : self.history] = moved[step - 1, :, new - 1 : new - 1 + self.history]
            yield FaultModel("the history moves by one frame too few", f"{new} frames", moved.reshape(len(x), -1))
        if self.start == 0:
            endless = self._delayed(x, reset=False)
            yield FaultModel("a stream begins with frames of the one before", f"{self.steps} steps", endless)
