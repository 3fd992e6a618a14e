"""The .nnet text format (Stanford, Reluplex) -> steps, normalisation and input box.

    // comments
    layers, inputs, outputs, widest layer
    inputs, width of layer 1, ..., outputs
    (unused)
    minimum of every input
    maximum of every input
    mean of every input, and of the outputs
    range of every input, and of the outputs
    layer by layer: a line of K weights for each of its N neurons, then a line with the bias of each

The network reads (x - mean) / range and every layer but the last has a ReLU.  Numbers are read as float64.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.core.errors import RequestError
from harness.model.importer.steps import Floats64, Product, Relu, Step

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
SIZE = re.compile(r"0*[1-9][0-9]{0,8}")


@dataclass(frozen=True, eq=False)
class NnetFile:
    """The content of such a file; `low`, `high`, `mean` and `range` of the inputs are (K,), in physical units."""

    comments: tuple[str, ...]
    steps: tuple[Step, ...]
    low: Floats64
    high: Floats64
    mean: Floats64
    range: Floats64
    output_mean: float
    output_range: float


class _Lines:
    """The lines that are no comment, with their numbers."""

    def __init__(self, text: str, name: str) -> None:
        lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
        self.comments = tuple(line.removeprefix("//").strip() for _, line in lines if line.startswith("//"))
        self._lines = iter([(number, line) for number, line in lines if line and not line.startswith("//")])
        self._name = name
        self._last = len(lines)

    def refusal(self, number: int, found: str, expected: str) -> RequestError:
        return RequestError(f"{self._name}: line {number}: {found}", f"expected: {expected}")

    def numbers(self, count: int, expected: str) -> Floats64:
        """Return the next line's numbers, `count` of them."""
        number, line = self.take(expected)
        fields = [field.strip() for field in line.removesuffix(",").split(",")]
        if len(fields) != count:
            raise self.refusal(number, f"{len(fields)} numbers", f"{count}: {expected}")
        return np.array([self._number(field, number, expected) for field in fields])

    def sizes(self, count: int, expected: str) -> list[int]:
        """Return the next line's whole numbers of 1 or more, `count` of them."""
        number, line = self.take(expected)
        fields = line.removesuffix(",").split(",")
        if len(fields) != count or not all(SIZE.fullmatch(field.strip()) for field in fields):
            raise self.refusal(number, repr(line[:80]), f"{count} whole numbers of 1 or more: {expected}")
        return [int(field) for field in fields]

    def take(self, expected: str) -> tuple[int, str]:
        """Return the next line and its number."""
        number, line = next(self._lines, (self._last, None))
        if line is None:
            raise self.refusal(number, "the file ends", expected)
        return number, line

    def _number(self, field: str, number: int, expected: str) -> float:
        if not NUMBER.fullmatch(field) or not math.isfinite(float(field)):
            raise self.refusal(number, f"{field[:40]!r} is no finite number", expected)
        return float(field)

    def require_end(self) -> None:
        for number, line in self._lines:
            raise self.refusal(number, f"{line[:40]!r} after the last bias", "the end of the file")


def read(text: str, name: str) -> NnetFile:
    """Read the text of a file; RequestError with the line and the expected content if it is malformed."""
    lines = _Lines(text, name)
    layers, inputs, outputs, _ = lines.sizes(4, "the numbers of layers, inputs, outputs, and the widest layer")
    sizes = lines.sizes(layers + 1, "the inputs and the width of every layer")
    if (sizes[0], sizes[-1]) != (inputs, outputs):
        raise RequestError(
            f"{name}: the layer widths {sizes} contradict {inputs} inputs and {outputs} outputs", "the same in both"
        )
    lines.take("an unused flag")
    low, high = (lines.numbers(inputs, f"the {what} of every input") for what in ("minimum", "maximum"))
    mean, span = (
        lines.numbers(inputs + 1, f"the {what} of every input, and of the outputs") for what in ("mean", "range")
    )
    if not span.all() or (low > high).any():
        raise RequestError(f"{name}: the header has a range of 0, or a minimum above its maximum", "ranges above 0")
    steps = tuple(_steps(lines, sizes))
    lines.require_end()
    return NnetFile(
        lines.comments,
        steps,
        low,
        high,
        mean[:-1],
        span[:-1],
        output_mean=float(mean[-1]),
        output_range=float(span[-1]),
    )


def _steps(lines: _Lines, sizes: list[int]) -> Iterator[Step]:
    for number, (inputs, width) in enumerate(itertools.pairwise(sizes), start=1):
        rows = [lines.numbers(inputs, f"weights of neuron {row + 1} of layer {number}") for row in range(width)]
        bias = [lines.numbers(1, f"the bias of neuron {row + 1} of layer {number}") for row in range(width)]
        yield Product(f"layer_{number}", np.array(rows).T, np.concatenate(bias))
        if number < len(sizes) - 1:
            yield Relu(f"relu_{number}")
