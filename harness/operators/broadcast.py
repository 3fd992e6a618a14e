"""Broadcasting (ONNX, NumPy) of the operands of an operator: activations, and constants for all vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, Tensor


def activations(
    node: Node, verb: str, positions: Sequence[int] = (), dtypes: Sequence[np.dtype[Any]] = (FLOAT32,)
) -> list[Tensor]:
    """Return the activations that the node reads, in order; refuse constants alone, and axes that differ.

    `positions` are those of the operands among the inputs, by default all.
    """
    places = positions or range(len(node.inputs))
    sources = [node.activation(i, dtypes) for i in places if node.inputs[i] not in node.constants]
    if not sources:
        raise node.refusal(f"{verb} two constants", "the results of two nodes, or of one and a constant")
    shapes = [source.shape for source in sources]
    if len({len(shape) for shape in shapes}) > 1 or not _fit(shapes):
        widths = " and ".join(", ".join(map(str, shape)) for shape in shapes)
        raise node.refusal(f"its inputs have widths {widths}", "the same width twice, or axes of size 1")
    return sources


def constant(
    node: Node, position: int, sources: Sequence[Tensor], what: str, *, takes_infinities: bool = False
) -> Array:
    """Return a constant operand, of the type of the activations, without the axis of the vectors.

    Raises RequestError for a NaN, and for an infinity unless `takes_infinities`.
    """
    value, shape = node.constant(position, what, [sources[0].dtype]), output_shape([source.shape for source in sources])
    axes = value.shape[1:] if value.ndim == len(shape) + 1 and value.shape[0] == 1 else value.shape
    if len(axes) > len(shape) or not _fit([shape, axes]):
        one = f"{shape}" if len(shape) > 1 else f"({shape[0]},)"
        raise node.refusal(
            f"the {what} has shape {value.shape}", f"shape (), (1,), {one} or {(1, *shape)}, or axes of size 1"
        )
    accepted = ~np.isnan(value) if takes_infinities else np.isfinite(value)
    if not accepted.all():
        raise node.refusal(f"the {what} holds {value[~accepted].flat[0]}", "finite numbers")
    return value.reshape(axes)


def _fit(shapes: Sequence[tuple[int, ...]]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def output_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of one vector of the output."""
    return np.broadcast_shapes(*shapes)


def operands(inputs: Sequence[Tensor], terms: Sequence[Array | None], values: Sequence[Array]) -> list[Array]:
    """Return the operands with the axes of the output, (n or 1, ...).

    `terms` are the constants, None for each of the activations `inputs`, whose `values` are (n, size).
    """
    rank = max(len(tensor.shape) for tensor in inputs)
    pairs = iter(zip(inputs, values, strict=True))
    found = []
    for term in terms:
        if term is None:
            tensor, value = next(pairs)
            found.append(value.reshape(len(value), *tensor.shape))
        else:
            found.append(term.reshape(1, *(1,) * (rank - term.ndim), *term.shape))
    return found


def shapes(inputs: Sequence[Tensor], terms: Sequence[Array | None]) -> list[tuple[int, ...]]:
    """Return the shapes of the operands, each with the number of axes of the output."""
    rank, tensors = max(len(tensor.shape) for tensor in inputs), iter(inputs)
    of_terms = (next(tensors).shape if term is None else term.shape for term in terms)
    return [(*(1,) * (rank - len(shape)), *shape) for shape in of_terms]


def axes(shape: tuple[int, ...], of_operands: Sequence[tuple[int, ...]]) -> list[tuple[int, list[int]]]:
    """Return the loops over the output: the length and the step of each operand, 0 where it is repeated.

    Adjacent axes along which all operands continue are one loop.
    """
    steps = [
        [0 if sizes[axis] == 1 else int(np.prod(sizes[axis + 1 :])) for sizes in of_operands]
        for axis in range(len(shape))
    ]
    found: list[tuple[int, list[int]]] = []
    for size, step in zip(shape, steps, strict=True):
        if size == 1:
            continue
        if found and all(outer == inner * size for outer, inner in zip(found[-1][1], step, strict=True)):
            found[-1] = found[-1][0] * size, step
        else:
            found.append((size, step))
    return found or [(1, [0] * len(of_operands))]


def places(shape: tuple[int, ...], of_operands: Sequence[tuple[int, ...]]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield for each operand which of its values each value of the output reads, (size,)."""
    for sizes in of_operands:
        yield np.broadcast_to(np.arange(int(np.prod(sizes))).reshape(sizes), shape).reshape(-1)
