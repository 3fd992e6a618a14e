"""Operators of several values at one place."""

from __future__ import annotations

import numpy as np

from harness.analysis.proof.independent.node import GIVE_BOOLS, Constants, Node, Reader, row


def _of_two(first: str, second: str) -> Reader:
    """Read Add, Mul, Sub or Div; a constant has the name of its position, and a single number is repeated."""

    def read(node: Node) -> Constants:
        if node.input_dtype != np.float32:
            return operands(node)
        named = zip((first, second), node.inputs, strict=False)
        return {
            name: row(value, node.width if value.size == 1 else value.size)
            for name, value in named
            if value is not None
        }

    return read


def operands(node: Node) -> Constants:
    """Read Max, Min, Sum, comparisons, And, Or, Xor, Where or Select: the constant operands, one after the other."""
    constants = [value.reshape(-1) for value in node.inputs if value is not None]
    return {"terms": np.concatenate(constants)} if constants else {}


def _normalisation(node: Node) -> Constants:
    """Read BatchNormalization: x, scale, B, mean, var."""
    _, scale, offset, mean, variance, *_ = map(np.asarray, node.inputs)
    deviation = np.sqrt(variance + np.float32(node.attributes.get("epsilon", 1e-5)))
    return {"mean": mean, "deviation": deviation.astype(np.float32), "scale": scale, "offset": offset}


BITS = ("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
READERS: dict[str, Reader] = {
    "Add": _of_two("addend", "addend"),
    "BatchNormalization": _normalisation,
    "Div": _of_two("dividend", "divisor"),
    **dict.fromkeys(("Max", "Mean", "Min", "Select", "Mod", "Sum", "Where", *BITS, *GIVE_BOOLS), operands),
    "Mul": _of_two("factor", "factor"),
    "Sub": _of_two("minuend", "subtrahend"),
}
