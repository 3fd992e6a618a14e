"""LSTM, GRU and RNN of a stream (harness): some steps, whose states carry over from the vector before.

The vectors are the consecutive parts of sequences.  All states after each step are written, (states, steps, hidden);
the next vector begins with the last ones.  Vectors up to number `start` begin with the constant states instead, and
after `steps` vectors a new sequence begins.  `harness/model/stream.py` writes these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, Evaluate, Layer, fields
from harness.operators.delay import COPIES
from harness.operators.exact.stages import Stage, formula, program
from harness.operators.fault_models import FaultModel
from harness.operators.frames import Streaming
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, ProofStep, StageKind, every_byte
from harness.operators.onnx_function import DOMAIN
from harness.operators.recurrent import EXCHANGED, GROWTH, WEIGHTS, Gru, Lstm, Recurrent, Rnn, gru, lstm, rnn
from harness.operators.recurrent_cell import CarriedCell, Sizes
from harness.operators.rules import Rules
from harness.operators.staged import ROUNDED
from harness.operators.tensor import FLOAT32, Tensor
from harness.operators.text import Fragment, Text
from harness.operators.traits import Trait

FIRST_FRAGMENT = 280


def _text(name: str, order: int, states: str, gates: int, definition: Callable[..., Stage]) -> Text:
    """Return the texts of an operator."""
    cell = CarriedCell(Sizes(2, 2, 2, gates), max(gates, 4) if gates > 1 else 1, len(states))
    lines = formula(program(definition(cell, dict.fromkeys(states, ""))))
    comment = "".join(f"#     {line}\n" for line in lines)
    number = "    number: tensor<scalar>,                 # float32 (1, states): 0, 1\n" if len(states) > 1 else ""
    text = f"""\
# {ROUNDED}; x is the output for the vector before, x1 is x.
{comment}# Vectors 0 to `start` of every `steps` begin with the states `first`.
fragment {name}_steps(
    x: tensor<scalar>,                      # float32 (vectors, steps * inputs)
    w: tensor<scalar>,                      # float32 (1, gates * hidden * inputs)
    r: tensor<scalar>,                      # float32 (1, gates * hidden * hidden)
    b: tensor<scalar>,                      # float32 (1, biases * hidden)
{number}    first: tensor<scalar>,                  # float32 (1, states * hidden)
    start: integer, steps: integer,
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
"""
    return Text(
        "\n".join(lines),
        ("X", "W", "R", "B", "initial_h", "initial_c"),
        (Fragment(f"{name}_steps", order, text),),
        parameters=WEIGHTS,
        facts_of=lambda layer: {"start": layer.start, "steps": layer.steps},
        operations_of=lambda layer: layer.cell.operations,
    )


@dataclass(frozen=True, eq=False)
class RecurrentSteps(Layer):
    """Steps of a recurrence; `cell` computes the output from that for the vector before, and x.

    `first` are the states with which sequences begin, float32 (states, hidden).
    """

    traits = Trait.NONE
    streaming = Ability(lambda layer: Streaming(layer, layer.steps, copies=2, kept=layer.first.size))
    recurrence: ClassVar[type[Recurrent]]

    cell: Recurrent
    first: Array
    start: int
    steps: int

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State those of the recurrence, with an axis of states."""
        cls.recurrence.sized(node, len(cls.recurrence.states))
        for state in node.given_inputs[4:]:
            node.equals(state.size(0), 1)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of the recurrence with constant states, and `start` and `steps`."""
        stated = {entry.name: entry.i for entry in node.proto.attribute if entry.name in ("start", "steps")}
        start, steps = stated.get("start", 0), stated.get("steps", 1)
        if not 0 <= start < steps:
            raise node.refusal(f"start {start}, steps {steps}", "a start from 0 and below the steps")
        proto = onnx.NodeProto()
        proto.CopyFrom(node.proto)
        del proto.attribute[:]
        proto.attribute.extend(entry for entry in node.proto.attribute if entry.name not in stated)
        whole = cls.recurrence.read(replace(node, proto=proto))
        begins = [values for values in whole.initial.values() if values is not None]
        if len(begins) < len(whole.initial) or whole.reverse:
            raise node.refusal("an initial state is an activation, or it goes backwards", "constant states, forwards")
        shape = len(begins), *whole.output.shape
        bound = whole.bound(whole.initial, ()) * (1 + steps * whole.output.shape[0] * GROWTH)
        if cls.recurrence is Lstm:  # each step adds at most 1 to its cell
            bound = float(np.abs(begins[1]).max()) + steps * whole.output.shape[0] * 1.5
        written = fields(node, whole.inputs, shape, FLOAT32, bound, negative_zero=True)
        output = written["output"]
        cell = replace(
            whole,
            inputs=(Tensor(f"{output.name}/before", shape, FLOAT32, bound, negative_zero=True), whole.input),
            output=output,
            initial={state: np.zeros_like(values) for state, values in whole.initial.items() if values is not None},
            is_carried=True,
        )
        return cls(**written, cell=cell, first=np.stack(begins), start=start, steps=steps)

    def constants(self) -> Constants:
        """Return the constants of the cell, the first states, and the steps."""
        of_cell = {role: values.reshape(-1) for role, values in self.cell.numbers().items()}
        return {**of_cell, "first": self.first.reshape(-1), "start": self.start, "steps": self.steps}

    def prepare(self) -> Evaluate:
        """Return the function of the vectors of whole sequences; the last one may be cut short."""
        return partial(self._computed, self.cell.prepare())

    def _computed(self, cell: Evaluate, x: Array, *, first: int | None = None, steps: int | None = None) -> Array:
        """Return the outputs; vectors up to number `first` of sequences of `steps` begin with the constant states."""
        first, steps = self.start if first is None else first, steps or self.steps
        y = np.empty((len(x), self.size), self.dtype)
        for step in range(min(steps, len(x))):
            new = x[step::steps]
            before = self.begun(len(new)) if step <= first else y[step - 1 :: steps][: len(new)]
            y[step::steps] = cell(before, new)
        return y

    def begun(self, vectors: int) -> Array:
        """Return outputs whose states are the first ones, (vectors, size)."""
        states, steps, hidden = self.output.shape
        rows = np.broadcast_to(self.first[:, None], (vectors, states, steps, hidden))
        return rows.reshape(vectors, -1)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:
        """Yield those of the cell for any states before, and that a sequence begins with the first ones."""
        yield from self.cell.obligations(extent)
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.RESET,
            "a stream begins with the first states of its recurrence",
            "every byte of every value takes all 256 values, each in an order of its own",
            256 * self.size,
            Outputs(lambda: [every_byte(self.input.size, self.dtype)], lambda x: self.begun(len(x))),
        )

    def assumptions(self) -> Iterator[str]:
        """Yield those of the cell, and that about the copies of the states."""
        yield from self.cell.assumptions()
        yield COPIES

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield states that are not kept, or kept from another stream, and the faults of the cell in all steps."""
        [x] = inputs
        right = self.cell.prepare()
        yield FaultModel("the states are not updated", "those after the step before",
                         self._computed(right, x, first=self.steps))  # fmt: skip
        if self.start == 0:
            endless = self._computed(right, x, steps=len(x))
            yield FaultModel("a stream begins with states of the one before", f"{self.steps} steps", endless)
        if self.cell.gates > 1:
            yield FaultModel(*EXCHANGED, self._computed(self.cell.with_exchanged_gates.prepare(), x))
        for cause, of_right, wrong in self.cell.mutants:
            yield FaultModel(cause, of_right, self._computed(wrong, x))


@dataclass(frozen=True, eq=False)
class LstmSteps(RecurrentSteps):
    """Steps of an LSTM."""

    ONNX = ((DOMAIN, "LSTMSteps"),)
    recurrence = Lstm
    text = _text("lstm", FIRST_FRAGMENT, "hc", 4, lstm)


@dataclass(frozen=True, eq=False)
class GruSteps(RecurrentSteps):
    """Steps of a GRU."""

    ONNX = ((DOMAIN, "GRUSteps"),)
    recurrence = Gru
    text = _text("gru", FIRST_FRAGMENT + 1, "h", 3, partial(gru, linear=True))


@dataclass(frozen=True, eq=False)
class RnnSteps(RecurrentSteps):
    """Steps of a simple recurrent network."""

    ONNX = ((DOMAIN, "RNNSteps"),)
    recurrence = Rnn
    text = _text("rnn", FIRST_FRAGMENT + 2, "h", 1, rnn)
