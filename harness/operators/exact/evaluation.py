"""Evaluation of expressions in numpy: one operation of numpy for each node, over arrays of any shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.exact import floats
from harness.operators.exact.expression import (
    CODES,
    INTEGERS,
    LEAVES,
    UINT32,
    Expression,
    Function,
    expanded,
    limit_of,
    ordered,
)

BLOCK = 1 << 14
"""Values that are computed together: few enough for the second-level cache."""
BLOCKS = 4
"""Blocks of values with broadcasting, of which definitions are shorter."""


def _selected(condition: Array, one: Any, other: Any) -> Any:
    """Return np.where(condition, one, other), by operations on bits, which numpy vectorises."""
    if one.dtype != other.dtype:  # of double precision
        return np.where(condition, one, other)
    bits = np.dtype(f"u{one.dtype.itemsize}")
    a, b = one.view(bits), other.view(bits)
    return (((a ^ b) & np.negative(condition.astype(bits))) ^ b).view(one.dtype)


def _limited(limit: str, _: Array, one: Any, other: Any) -> Any:
    """Return the smaller or larger one of codes by np.clip, which is the fastest for one array and one number."""
    value, end = (one, other) if np.size(one) > np.size(other) else (other, one)
    least, most = (value.dtype.type(code) for code in (np.iinfo(value.dtype).min, np.iinfo(value.dtype).max))
    return np.clip(value, least, end) if limit == "smaller" else np.clip(value, end, most)


def _quotient(a: Any, b: Any) -> Any:
    """Return the quotient of integers toward zero; 0 for a divisor 0."""
    quotient = np.floor_divide(a, b)
    rest = (a - quotient * b).astype(a.dtype)
    return (quotient + ((rest != 0) & (quotient < 0))).astype(a.dtype)


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
    "select": _selected,
    "integer": lambda x: x.astype(np.int32),
    "number": lambda x: x.astype(np.float32),
    "fused": floats.fused,
    "bits": lambda x: x.view(f"u{x.itemsize}"),
}
"""The function of numpy for each operation; numpy's float32 operations are those of IEEE 754."""

TYPED: Mapping[str, Callable[..., Any]] = {
    "convert": lambda dtype, x: x.astype(dtype),
    "from_bits": lambda dtype, x: x.view(dtype),
}
"""The function for operations whose result has a type of its own, which is the first argument."""

EXACT: Mapping[str, Callable[..., Any]] = {
    "integer": np.float64,
    "number": np.float64,
    "fused": lambda a, b, c: a * b + c,
}
"""The function for operations that have another one in double precision."""


class Evaluation:
    """A graph that is prepared for arrays: calls are expanded, and values are forgotten behind their last use.

    One that `is_real` takes and returns float64: its operations are in double precision, and its calls those of the
    real functions.  That is another result, for faults.
    """

    def __init__(self, root: Expression, *, is_real: bool = False) -> None:
        self._root = root if is_real else expanded(root)
        self._is_real = is_real
        self._dtype = np.dtype(np.float64) if is_real else self._root.dtype
        nodes = ordered(self._root)
        places = {id(node): place for place, node in enumerate(nodes)}
        last = {places[id(operand)]: place for place, node in enumerate(nodes) for operand in node.operands}
        self._constants: list[Any] = [node.value for node in nodes]
        self._arguments = [(place, node.name) for place, node in enumerate(nodes) if node.operation in LEAVES]
        self._steps: list[tuple[int, Callable[..., Any], list[int], list[int]]] = []
        for place, node in enumerate(nodes):
            operands = [places[id(operand)] for operand in node.operands]
            forgotten = [operand for operand in dict.fromkeys(operands) if last[operand] == place]
            if operands:
                self._steps.append((place, self._operation(node), operands, forgotten))

    def _operation(self, node: Expression) -> Callable[..., Any]:
        if node.dtype in CODES and (limit := limit_of(node)):
            return partial(_limited, limit)
        if self._is_real and node.operation in EXACT:
            return EXACT[node.operation]
        if node.operation in TYPED:
            is_double = self._is_real and node.operation == "convert"
            return partial(TYPED[node.operation], np.float64 if is_double else node.dtype)
        if node.operation == "code":
            return lambda v, zero_point: floats.saturate(v, node.dtype, zero_point)
        if node.function is None:
            return _quotient if node.operation == "divide" and node.dtype in INTEGERS else NUMPY[node.operation]
        real = node.function.real  # nearest, or a call of a real function
        dtype = np.float64 if self._is_real else node.dtype
        return lambda x: np.asarray(real(x.astype(np.float64)), dtype)

    def __call__(self, arguments: Mapping[str, Array | np.generic]) -> Array:
        """Return the values for arguments by name; arrays have one shape, which the result has, too."""
        arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
        shape = next(iter(arrays.values())).shape
        flat = {name: value.reshape(-1) for name, value in arrays.items()}
        size = next(iter(flat.values())).size
        result = np.empty(size, self._dtype)
        with np.errstate(all="ignore"):
            for start in range(0, size, BLOCK):
                part = {name: value[start : start + BLOCK] for name, value in flat.items()}
                self._values({**arguments, **part}, result[start : start + BLOCK])
        return result.reshape(shape)

    def broadcast(self, arguments: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Return the values of this shape for arrays with as many axes; one of size 1 along an axis is repeated."""
        result = np.empty(shape, self._dtype)
        rows = max(1, BLOCKS * BLOCK * shape[0] // max(1, result.size))
        with np.errstate(all="ignore"):
            for start in range(0, shape[0], rows):
                part = {name: value if len(value) == 1 else value[start : start + rows]
                        for name, value in arguments.items()}  # fmt: skip
                self._values(part, result[start : start + rows])
        return result

    def at_once(self, arguments: Mapping[str, Array | np.generic]) -> Any:
        """Return the values for arguments of shapes that go together, without blocks and copies."""
        with np.errstate(all="ignore"):
            return self._values(arguments)

    def _values(self, arguments: Mapping[str, Array | np.generic], out: Array | None = None) -> Any:
        """Return the values, also in `out`, where the last operation writes them itself if it can."""
        values: list[Any] = list(self._constants)
        for place, name in self._arguments:
            values[place] = arguments[name]
        for place, operation, operands, forgotten in self._steps:
            is_last = out is not None and place == len(values) - 1 and isinstance(operation, np.ufunc)
            own = {"out": out} if is_last else {}
            values[place] = operation(*[values[operand] for operand in operands], **own)
            for operand in forgotten:
                values[operand] = None
        if out is not None and values[-1] is not out:
            out[...] = values[-1]
        return values[-1]


@cache
def numpy_function(function: Function) -> Callable[[Array], Array]:
    """Return a function of definitions as one of float32 arrays of any shape."""
    evaluation = Evaluation(function.root)
    return lambda x: evaluation({function.argument.name: x})


def is_integral(root: Expression) -> bool:
    """Return whether a graph reads or makes bits, which a text without integers cannot show."""
    return any(node.dtype == UINT32 for node in ordered(root))
