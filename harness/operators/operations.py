"""The operations and the bytes of a layer for one vector, derived from its definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from harness.operators.conv_transpose import ConvTranspose
from harness.operators.exact.expression import Expression, expanded, ordered
from harness.operators.exact.stages import Item, Recurrence, Stage, computed, program
from harness.operators.move import Move
from harness.operators.recurrent_steps import RecurrentSteps
from harness.operators.staged import Staged

NAMES_OF_BITS = frozenset({"bits", "from_bits"})
"""Operations that give bits another type, and change none."""


@dataclass(frozen=True)
class Operations:
    """Multiply-adds, and all other operations of the definition, of one vector.

    A multiply-add is a product that is added to a sum, with the conversion of its factors and the subtraction of their
    zero points.  Products with the padding of an image count.
    """

    multiply_adds: int
    others: int

    def __add__(self, other: Operations) -> Operations:
        """Return the operations of both."""
        return Operations(self.multiply_adds + other.multiply_adds, self.others + other.others)

    def __mul__(self, times: int) -> Operations:
        """Return the operations of several executions."""
        return Operations(times * self.multiply_adds, times * self.others)


NONE = Operations(0, 0)


def operations_of(layer: Layer) -> Operations | None:
    """Return the operations of a layer; None if its class states no definition in the exact language."""
    own = layer.cell if isinstance(layer, RecurrentSteps) else layer
    if isinstance(own, Contraction):
        return of_items(program(own.requantized(own.summed())))
    if isinstance(own, Staged):
        return of_items(program(own.definition()))
    if isinstance(own, ConvTranspose):
        # Each value of the input meets each weight of its channel; its sums begin with the bias.
        return Operations(own.weights.size * (own.input.size // own.input.shape[0]), 0)
    if isinstance(own, Move):
        return NONE
    definition = getattr(own, "definition", None)
    return Operations(0, own.size * operation_count(definition)) if isinstance(definition, Expression) else None


def of_items(items: Iterable[Item]) -> Operations:
    """Return the operations of a program of stages."""
    total = NONE
    for item in items:
        steps = item.time.size if isinstance(item, Recurrence) else 1
        starts = item.starts if isinstance(item, Recurrence) else ()
        for stage in computed(item):
            times = 1 if stage in starts else steps
            total += _of_stage(stage) * times
    return total


def _of_stage(stage: Stage) -> Operations:
    before = operation_count(stage.start) * stage.size
    if stage.is_sum and stage.root.operands[1].operation == "multiply":
        return Operations(stage.size * stage.steps, before)
    return Operations(0, before + operation_count(stage.root) * stage.size * stage.steps)


def operation_count(root: Expression) -> int:
    """Return the operations of an expression, those of the functions that it calls included."""
    return sum(bool(node.operands) and node.operation not in NAMES_OF_BITS for node in ordered(expanded(root)))


def moved_bytes(layer: Layer) -> int:
    """Return the bytes of the constants, the inputs and the output of a layer for one vector, each once."""
    constants = sum(np.asarray(value).nbytes for value in layer.constants().values())
    return constants + sum(tensor.size * tensor.dtype.itemsize for tensor in (*layer.inputs, layer.output))
