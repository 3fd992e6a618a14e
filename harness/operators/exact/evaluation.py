"""Evaluation of expressions in numpy: one operation of numpy for each node, over arrays of any shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.exact.expression import UINT32, Expression, expanded, ordered

BLOCK = 1 << 14
"""Values that are computed together: few enough for the second-level cache."""
NUMPY: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "negate": np.negative,
    "absolute": np.abs,
    "square_root": np.sqrt,
    "floor": np.floor,
    "ceiling": np.ceil,
    "truncate": np.trunc,
    "round_half_even": np.rint,
    "select": np.where,
    "bits": lambda x: x.view(np.uint32),
    "from_bits": lambda x: x.view(np.float32),
}
"""The function of numpy for each operation; numpy's float32 operations are those of IEEE 754."""


class Evaluation:
    """A graph that is prepared for arrays: calls are expanded, and values are forgotten behind their last use."""

    def __init__(self, root: Expression) -> None:
        self._root = expanded(root)
        self._nodes = ordered(self._root)
        last = {id(operand): place for place, node in enumerate(self._nodes) for operand in node.operands}
        self._dropped: list[list[int]] = [[] for _ in self._nodes]
        for identity, place in last.items():
            self._dropped[place].append(identity)

    def __call__(self, arguments: Mapping[str, Array | np.generic]) -> Array:
        """Return the values for arguments by name; arrays have one shape, which the result has, too."""
        arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
        shape = next(iter(arrays.values())).shape
        flat = {name: value.reshape(-1) for name, value in arrays.items()}
        size = next(iter(flat.values())).size
        result = np.empty(size, self._root.dtype)
        with np.errstate(all="ignore"):
            for start in range(0, size, BLOCK):
                part = {name: value[start : start + BLOCK] for name, value in flat.items()}
                result[start : start + BLOCK] = self._values({**arguments, **part})
        return result.reshape(shape)

    def _values(self, arguments: Mapping[str, Array | np.generic]) -> Any:
        values: dict[int, Any] = {}
        for node, dropped in zip(self._nodes, self._dropped, strict=True):
            if node.operation in {"argument", "load"}:
                values[id(node)] = arguments[node.name]
            elif node.value is not None:
                values[id(node)] = node.value
            elif node.operation == "nearest" and node.function is not None:
                real = node.function.real(values[id(node.operands[0])].astype(np.float64))
                values[id(node)] = np.asarray(real, np.float32)
            else:
                operands = [values[id(operand)] for operand in node.operands]
                values[id(node)] = NUMPY[node.operation](*operands)
            for identity in dropped:
                values.pop(identity, None)
        return values[id(self._root)]


def is_integral(root: Expression) -> bool:
    """Return whether a graph reads or makes bits, which a text without integers cannot show."""
    return any(node.dtype == UINT32 for node in ordered(root))
