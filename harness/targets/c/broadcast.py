"""Operands with broadcasting in C: nested loops over the axes of the output along which an operand is repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.operators import broadcast
from harness.targets.c.loops import Sizes

Operation = Callable[[Sequence[str]], str]
"""Function from the C text of the operands to that of the result, an expression."""


def loops(
    shape: tuple[int, ...], operands: Sequence[tuple[str, tuple[int, ...]]], operation: Operation, sizes: Sizes
) -> str:
    """Return loops that compute `out` from arrays with their shapes, as many axes as the output has."""
    arrays, shapes = zip(*operands, strict=True)
    axes = broadcast.axes(shape, shapes)
    names = ["n"] if len(axes) == 1 else [f"i{depth}" for depth in range(len(axes))]
    lines = [
        f"{'    ' * depth}for (size_t {name} = 0; {name} < {sizes.text(f'{name}_size', size, 'u')}; ++{name})"
        for depth, (name, (size, _)) in enumerate(zip(names, axes, strict=True))
    ]
    values = [_element(array, names, [steps[number] for _, steps in axes], sizes, f"operand{number}")
              for number, array in enumerate(arrays)]  # fmt: skip
    strides = [math.prod(size for size, _ in axes[depth + 1 :]) for depth in range(len(axes))]
    out = _element("out", names, strides, sizes, "out")
    return "\n    ".join([*lines, f"{'    ' * len(axes)}{out} = {operation(values)};"])


def elements(
    shape: tuple[int, ...], operands: Sequence[tuple[Sequence[str], tuple[int, ...]]], operation: Operation
) -> list[str]:
    """Return the expression of each value of the output; the operands are given by the text of each value."""
    texts, shapes = zip(*operands, strict=True)
    places = [place.tolist() for place in broadcast.places(shape, shapes)]
    return [operation([text[at] for text, at in zip(texts, row, strict=True)]) for row in zip(*places, strict=True)]


def _element(array: str, names: Sequence[str], steps: Sequence[int], sizes: Sizes, role: str) -> str:
    terms = [name if step == 1 else f"{name} * {sizes.text(f'{role}_{name}_step', step)}"
             for name, step in zip(names, steps, strict=True) if step]  # fmt: skip
    return f"{array}[{' + '.join(terms) or '0'}]"
