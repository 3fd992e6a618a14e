"""Steps of LSTM, GRU and RNN (ONNX) as layers of standard operators, for the forms that domain harness does not have.

The equations and their letters are those of ONNX.  The sum of a gate is Gemm of x, plus Gemm of the state, plus the
product with the peephole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.model.importer.replacement import attribute
from harness.model.importer.rewriting import Rewriting

Operand: TypeAlias = str | Array
"""An activation (vectors, hidden), or a constant (hidden,)."""
ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {"Add": operator.add, "Mul": operator.mul, "Sub": operator.sub}
"""The operators whose results of constants are constants."""
DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
NUMBERS: Mapping[str, Mapping[str, float | None]] = {
    "Affine": {"alpha": None, "beta": None},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "Relu": {},
    "ScaledTanh": {"alpha": None, "beta": None},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 1.0},
}
"""The activations with the defaults of their numbers; None if the node must state it."""


class Activation(NamedTuple):
    """The name of an activation, and its numbers."""

    name: str
    numbers: Mapping[str, Any]


def activations(to: Rewriting, node: onnx.NodeProto, directions: int) -> list[Activation]:
    """Return the activations of all directions; each takes its numbers from the attributes in their order.

    Raises RequestError for an unknown activation, and where a number is missing that has no default.
    """
    names = [name.decode() for name in attribute(node, "activations", [])] or [*DEFAULTS[node.op_type]] * directions
    count = len(DEFAULTS[node.op_type])
    if len(names) != count * directions or not {*names} <= NUMBERS.keys():
        raise to.refusal(node, f"the activations are {names}", f"{count} for each direction of {', '.join(NUMBERS)}")
    stated = {role: iter(attribute(node, f"activation_{role}", [])) for role in ("alpha", "beta")}
    results = []
    for name in names:
        numbers = {role: next(stated[role], default) for role, default in NUMBERS[name].items()}
        known = {role: number for role, number in numbers.items() if number is not None}
        if known.keys() != numbers.keys():
            raise to.refusal(node, f"{name} has no alpha or no beta", "activation_alpha and activation_beta")
        results.append(Activation(name, known))
    return results


@dataclass(frozen=True, eq=False)
class Cell:
    """One direction of a node: weights (gates, hidden, inputs) and (gates, hidden, hidden), biases (2, gates, hidden).

    `peepholes` are (3, hidden), 0 without; `clip` is the limit of the arguments of activations, 0 for none.
    """

    to: Rewriting
    node: onnx.NodeProto
    w: Array
    r: Array
    biases: Array
    peepholes: Array
    activations: Sequence[Activation]
    clip: float

    def step(self, x: str, states: Sequence[Operand]) -> list[Operand]:
        """Return the states after a step, h first; x is (vectors, inputs)."""
        return list(STEPS[self.node.op_type](self, x, *states))

    def add(self, name: str, one: Operand, other: Operand) -> Operand:
        """Return the result of Add, Sub or Mul; of constants a constant."""
        if not isinstance(one, str) and not isinstance(other, str):
            result: Array = ARITHMETIC[name](one, other)
            return result.astype(np.float32)
        inputs = [value if isinstance(value, str) else self._constant(value) for value in (one, other)]
        return self.to.add(name, inputs)

    def product(self, value: Operand, weights: Array, bias: Array | None = None) -> Operand:
        """Return the products of a value with (hidden, inputs), and the bias."""
        if not isinstance(value, str):
            return np.asarray(weights @ value + (0 if bias is None else bias), np.float32)
        inputs = [value, self._constant(weights), *([] if bias is None else [self._constant(bias)])]
        return self.to.add("Gemm", inputs, transB=1)

    def sum(self, gate: int, x: str, h: Operand) -> Operand:
        """Return the argument of a gate without peephole."""
        of_input = self.product(x, self.w[gate], self.biases[0, gate] + self.biases[1, gate])
        return self.add("Add", of_input, self.product(h, self.r[gate]))

    def with_peephole(self, total: Operand, place: int, c: Operand) -> Operand:
        """Return the argument of a gate of an LSTM."""
        weights = self.peepholes[place]
        return self.add("Add", total, self.add("Mul", c, weights)) if weights.any() else total

    def activation(self, place: int, value: Operand) -> Operand:
        """Return the activation of a clipped argument."""
        name, numbers = self.activations[place]
        if self.clip and isinstance(value, str):
            limits = [self._constant(np.asarray(limit)) for limit in (-self.clip, self.clip)]
            value = self.to.add("Clip", [value, *limits])
        if name not in ("Affine", "ScaledTanh"):
            assert isinstance(value, str)  # noqa: S101 - each argument has a product of x
            return self.to.add(name, [value], **numbers)
        alpha, beta = (np.asarray(number, np.float32) for number in (numbers["alpha"], numbers["beta"]))
        if name == "Affine":
            return self.add("Add", self.add("Mul", value, alpha), beta)
        scaled = self.add("Mul", value, beta)
        assert isinstance(scaled, str)  # noqa: S101 - see above
        return self.add("Mul", self.to.add("Tanh", [scaled]), alpha)

    def _constant(self, values: Array) -> str:
        return self.to.constant(values, np.float32)


def lstm(cell: Cell, x: str, h: Operand, c: Operand) -> tuple[Operand, Operand]:
    """Return the states of an LSTM, whose gates are i, o, f and c, its peepholes i, o and f."""
    i = cell.activation(0, cell.with_peephole(cell.sum(0, x, h), 0, c))
    f = cell.activation(0, cell.with_peephole(cell.sum(2, x, h), 2, c))
    after = cell.add("Add", cell.add("Mul", f, c), cell.add("Mul", i, cell.activation(1, cell.sum(3, x, h))))
    o = cell.activation(0, cell.with_peephole(cell.sum(1, x, h), 1, after))
    return cell.add("Mul", o, cell.activation(2, after)), after


def gru(cell: Cell, x: str, h: Operand) -> tuple[Operand]:
    """Return the state of a GRU, whose gates are z, r and h."""
    z, r = (cell.activation(0, cell.sum(gate, x, h)) for gate in (0, 1))
    if attribute(cell.node, "linear_before_reset", 0):
        before = cell.add("Mul", r, cell.product(h, cell.r[2], cell.biases[1, 2]))
        total = cell.add("Add", cell.product(x, cell.w[2], cell.biases[0, 2]), before)
    else:
        total = cell.sum(2, x, cell.add("Mul", r, h))
    rest = cell.add("Mul", cell.add("Sub", np.ones((), np.float32), z), cell.activation(1, total))
    return (cell.add("Add", rest, cell.add("Mul", z, h)),)


def rnn(cell: Cell, x: str, h: Operand) -> tuple[Operand]:
    """Return the state of a simple recurrent network."""
    return (cell.activation(0, cell.sum(0, x, h)),)


STEPS: Mapping[str, Callable[..., tuple[Operand, ...]]] = {"LSTM": lstm, "GRU": gru, "RNN": rnn}
