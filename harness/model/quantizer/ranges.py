"""The range of every layer's activations, without data: by interval arithmetic, or met by vectors drawn from the box.

A range is (lowest, highest) over all columns of a layer's output, after its ReLU.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.model.float_network import Dense, Floats32

Range: TypeAlias = tuple[float, float]
Floats64: TypeAlias = npt.NDArray[np.float64]

BATCH = 100
"""Vectors that pass through the layers together: few enough to bound the memory, and for BLAS to stay on one thread."""

CORNER_INPUTS_MAX = 12
CALIBRATION, FRESH = range(2)
"""Streams of one seed: vectors of one are not met in the other."""


def bounds(layers: Sequence[Dense], box: Floats32) -> tuple[Range, ...]:
    """Return ranges for every vector of `box` (2, K), in real numbers and in float32 with any order of the sums."""
    low, high = box.astype(np.float64)
    ranges = []
    for layer in layers:
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow results in an infinite range
            low, high = _image(layer, low, high)
        ranges.append((float(low.min()), float(high.max())))
    return tuple(ranges)


def _image(layer: Dense, low: Floats64, high: Floats64) -> tuple[Floats64, Floats64]:
    """Return the interval (N,) of every output, widened by the error of K + 1 float32 roundings."""
    weight, bias = layer.weight.astype(np.float64), layer.bias.astype(np.float64)
    rising, falling = np.maximum(weight, 0), np.minimum(weight, 0)
    magnitude = np.maximum(np.abs(low), np.abs(high)) @ np.abs(weight) + np.abs(bias)
    slack = (len(weight) + 1) * np.finfo(np.float32).eps * magnitude
    lowest = low @ rising + high @ falling + bias - slack
    highest = high @ rising + low @ falling + bias + slack
    return (np.maximum(lowest, 0), np.maximum(highest, 0)) if layer.relu else (lowest, highest)


def calibrate(layers: Sequence[Dense], batches: Iterable[Floats32]) -> tuple[Range, ...]:
    """Return the ranges that the vectors of all `batches`, (n, K) each, meet.

    Computed in float64: float32 sums depend on the machine's kernels, and the model made here should not.
    """
    wide = [(layer.weight.astype(np.float64), layer.bias.astype(np.float64), layer.relu) for layer in layers]
    met = np.array([(np.inf, -np.inf)] * len(layers))
    for vectors in batches:
        values = vectors.astype(np.float64)
        for seen, (weight, bias, relu) in zip(met, wide, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):  # as above
                values = values @ weight + bias
            values = np.maximum(values, 0) if relu else values
            seen[:] = np.minimum(seen[0], values.min()), np.maximum(seen[1], values.max())
    return tuple((float(low), float(high)) for low, high in met)


def drawn(box: Floats32, count: int, seed: int, stream: int) -> Iterator[Floats32]:
    """Yield `count` vectors uniform over `box` (2, K), in batches float32 (up to BATCH, K); streams do not overlap."""
    low, high = box.astype(np.float64)
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stream])))
    for start in range(0, count, BATCH):
        u = rng.random((min(BATCH, count - start), len(low)))
        yield np.clip((low + (high - low) * u).astype(np.float32), box[0], box[1])


def calibration_vectors(box: Floats32, count: int, seed: int) -> Iterator[Floats32]:
    """Yield the 2**K corners of `box` (2, K) for up to CORNER_INPUTS_MAX inputs, then `count` vectors drawn from it."""
    if box.shape[1] <= CORNER_INPUTS_MAX:
        corners = itertools.product(*box.T)
        while batch := list(itertools.islice(corners, BATCH)):
            yield np.array(batch, dtype=np.float32)
    yield from drawn(box, count, seed, CALIBRATION)
