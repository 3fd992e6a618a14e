"""Layers of sums of products with constant weights: their channels, positions and patches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer
from harness.operators.region import Division, Region
from harness.operators.text import Text
from harness.operators.traits import Trait

SINGLE_THREADED_TERMS = 1 << 18
"""numpy's OpenBLAS starts its threads above this number of multiplications."""


def _operations(layer: Linear) -> int:
    """Return two for each product, and one for each value that a bias is added to."""
    bias = layer.constants().get("bias")
    return 2 * layer.weights.size * layer.positions + (0 if bias is None or not np.any(bias) else layer.size)


@dataclass(frozen=True, eq=False)
class Linear(Layer):
    """A layer of sums of products with `weights` (K, N).

    A sum has K terms, from `patches` of the input, and each of the N channels has one for every position of the output.
    A dense layer has one patch, the whole input, and one position, so that a channel is a value of the output.
    """

    text = Text(operations_of=_operations)
    traits = Trait.SUMS
    division = Ability[Division](
        lambda sums: Division(sums, ("channels",), False, sums.groups, sums.size // sums.positions, sums.of_region)
    )

    weights: Array

    @property
    def groups(self) -> int:
        """The number of groups of inputs and of channels; a sum has inputs of one group."""
        return 1

    @property
    def positions(self) -> int:
        """The number of values of one channel."""
        return self.size // int(self.weights.shape[1])

    def patches(self, values: Array, padding: int) -> Iterator[tuple[slice, Array]]:  # noqa: ARG002 - others pad
        """Yield groups of channels and the inputs of their sums, (n * positions, K), for values (n, input size).

        `padding` is the value outside the input.
        """
        yield slice(None), values

    def of_channels(self, taken: slice) -> dict[str, Any]:
        """Return the fields with one value or column for each channel, of these channels alone."""
        return {"weights": self.weights[:, taken]}

    def of_region(self, region: Region) -> dict[str, Any]:
        """Return the constants of the channels."""
        return self.of_channels(slice(region.start // self.positions, region.stop // self.positions))

    def by_channel(self, values: Array) -> Array:
        """Return values (n, size) with the channels as columns, (n * positions, N); those of a vector are adjacent."""
        channels_first = values.reshape(len(values), -1, self.positions)
        return channels_first.swapaxes(1, 2).reshape(-1, channels_first.shape[1])

    def arranged(self, values: Array) -> Array:
        """Return the inverse of `by_channel`."""
        return values.reshape(-1, self.positions, values.shape[1]).swapaxes(1, 2).reshape(-1, self.size)

    def spread(self, values: Array) -> Array:
        """Return one value for each channel, (N,), as one for each value of the output, (size,)."""
        return np.repeat(values, self.positions)

    def contract(self, values: Array, weights: Array) -> Array:
        """Return the sums of products of values (n, input size) and weights (K, N): (n, size), of their type."""
        sums = [product(patch, weights[:, channels]) for channels, patch in self.patches(values, 0)]
        return self.arranged(np.concatenate(sums, axis=1))


def product(a: Array, b: Array) -> Array:
    """Return the matrix product a @ b, in pieces that BLAS computes on the calling thread."""
    rows = max(SINGLE_THREADED_TERMS // b.size, 1)
    whole = len(a) - len(a) % rows
    found = np.empty((len(a), b.shape[1]), a.dtype)
    np.matmul(a[:whole].reshape(-1, rows, a.shape[1]), b, out=found[:whole].reshape(-1, rows, b.shape[1]))
    np.matmul(a[whole:], b, out=found[whole:])
    return found
