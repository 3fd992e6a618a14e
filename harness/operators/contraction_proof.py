"""Proof obligations of a contraction.

A sum of integers that fits does not depend on the order of its terms.  It remains to show that the code adds the right
terms.  A layer whose other inputs are at their zero point, where their terms are 0, shows the term of one input at each
of its values.  Vectors in which any two inputs have every pair of values show that a term depends on no other input.
The vectors that bring a column to its bounds bring every part of its sum to its extremes at the same time, so an
intermediate that is too narrow for any part, such as int16 pairs of products, shows there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import orthogonal_array
from harness.operators.obligations import (
    VECTORS,
    Extent,
    Fact,
    Numbers,
    Obligation,
    Outputs,
    Pairs,
    ProofStep,
    Scaled,
    StageKind,
    Steps,
    method_of_mixed,
    mixed_parts,
)
from harness.operators.scaled_sum import ScaledSum
from harness.operators.window_vectors import WindowVectors

CODES = 256
BYTES_AT_ONCE = 1 << 26
RANDOM_VECTORS = 4096
NEIGHBOURS = 2
EVENLY = 1024


def obligations(layer: ScaledSum, extent: Extent) -> Iterator[Obligation]:
    """Yield those of the sums, then those of the steps after them."""
    yield from _of_sums(layer, extent)
    yield from _of_finish(layer, min(extent.random_vectors, VECTORS))


def _of_sums(layer: ScaledSum, extent: Extent) -> Iterator[Obligation]:
    low, high = layer.accumulator_bounds()
    yield Obligation(
        ProofStep.ACCUMULATION,
        StageKind.ACCUMULATE,
        "no sum leaves int32, in any order of its terms",
        "bounds over all input codes, from the layer's own weights and biases, as `harness models show` lists them; "
        "they hold for every part of a sum too",
        layer.size,
        Fact(lambda: _overflow(low, high)),
    )
    signs, exact = _signs(layer), layer.accumulate()
    drawn = min(extent.random_vectors, RANDOM_VECTORS)
    together = 2 * len(signs) * len(layer.terms()) + drawn
    yield _of_single_codes(layer, extent)
    yield Obligation(
        ProofStep.ACCUMULATION,
        StageKind.ACCUMULATE,
        "the terms add up, at the extremes of every part of a sum too",
        f"for each column the input codes that bring it to its bounds, and their neighbours; {drawn:,} random vectors",
        together * layer.size,
        Outputs(lambda: _extreme_parts(layer, signs, drawn), exact),
    )
    yield _of_pairs(layer, extent.random_vectors)


def _of_single_codes(layer: ScaledSum, extent: Extent) -> Obligation:
    """Return the obligation of each term alone: for every sum, or for one sum of a convolution each."""
    statement = "every weight is multiplied with its own input, and every bias and zero point is accounted for"
    alone = "each input of a sum alone at each of its 256 codes, all others at their zero point"
    windows = None if extent.every_position else layer.window_vectors()
    step, part = ProofStep.ACCUMULATION, StageKind.ACCUMULATE
    if not windows:
        return Obligation(step, part, statement, alone, CODES * len(layer.weights) * layer.size, single_codes(layer))
    method = f"{alone}; each at one position, in {windows.lone_vectors:,} vectors"
    shown = Outputs(
        lambda: windows.lone_codes(layer.a_zero_point, layer.input.dtype, _at_once(layer)), layer.accumulate()
    )
    return Obligation(step, part, statement, method, windows.lone_vectors * layer.size, shown)


def _of_pairs(layer: ScaledSum, random_vectors: int) -> Obligation:
    exact, statement = layer.accumulate(), "the term of an input does not depend on another input"
    step, part = ProofStep.ACCUMULATION, StageKind.ACCUMULATE
    windows = layer.window_vectors()
    if not windows or not windows.pair_vectors:
        pairs = len(orthogonal_array.arrangements(layer.input.size)) * orthogonal_array.PAIR_VECTORS
        method = (
            f"{pairs:,} vectors in which any two inputs have every pair of codes (orthogonal array over GF(256)); "
            f"{random_vectors:,} random vectors"
        )
        shown = Pairs(layer.input.size, random_vectors, exact)
        return Obligation(step, part, statement, method, (pairs + random_vectors) * layer.size, shown)
    drawn = max(random_vectors // layer.positions, min(random_vectors, RANDOM_VECTORS))
    method = (
        "any two inputs of a sum have every pair of codes (m-sequence over GF(256)), each at one position, in "
        f"{windows.pair_vectors:,} vectors; {drawn:,} random vectors"
    )
    inputs = Outputs(lambda: _pairs_in_windows(layer, windows, drawn), exact)
    return Obligation(step, part, statement, method, (windows.pair_vectors + drawn) * layer.size, inputs)


def _pairs_in_windows(layer: ScaledSum, windows: WindowVectors, random_vectors: int) -> Iterator[Array]:
    """Yield vectors with every pair of codes of any two inputs of a sum; then random vectors."""
    size, at_once, rng = layer.input.size, _at_once(layer), np.random.default_rng(0)
    yield from windows.pairs(layer.input.dtype, at_once)
    for first in range(0, random_vectors, at_once):
        drawn = rng.integers(0, CODES, (min(at_once, random_vectors - first), size), np.uint8)
        yield drawn.view(layer.input.dtype)


def _at_once(layer: ScaledSum) -> int:
    return max(BYTES_AT_ONCE // (8 * layer.input.size), 1)


def _of_finish(layer: ScaledSum, mixed_vectors: int) -> Iterator[Obligation]:
    sweep, to_float, finish = layer.sweep(), layer.dtype == np.float32, layer.finish()
    through = "its column" if layer.positions == 1 else "one position of its channel"
    yield Obligation(
        ProofStep.REQUANTIZATION,
        StageKind.FINISH,
        f"every reachable accumulator becomes the {'number' if to_float else 'code'} of the specification",
        f"all integers between the bounds of each column pass through the deployed code, each through {through}; "
        + ("all outputs are compared" if to_float else "every place where the code changes is compared"),
        sweep.cases,
        Numbers(sweep, finish) if to_float else Steps(lambda: layer.step_functions() or [], sweep, str),
        notable=lambda: notable_accumulators(layer),
    )
    yield Obligation(
        ProofStep.REQUANTIZATION,
        StageKind.FINISH,
        "what becomes of a sum does not depend on what other columns hold",
        method_of_mixed(mixed_vectors),
        mixed_vectors * layer.size,
        Outputs(lambda: _mixed_accumulators(layer, mixed_vectors), lambda acc: finish(acc.astype(np.int64))),
    )


def _mixed_accumulators(layer: ScaledSum, vectors: int) -> Iterator[Array]:
    """Yield equal and different accumulators, within the bounds of each column."""
    rng = np.random.default_rng(0)
    low, high = layer.accumulator_bounds()
    around = np.concatenate([rng.integers(low.min(), high.max() + 1, 2048), np.array([low.min(), 0, high.max()])])
    steps = np.empty(0) if layer.dtype == np.float32 else layer.thresholds().reshape(-1)
    values = np.concatenate([around, steps, steps - 1]).astype(np.int32)
    low, high = layer.spread(low), layer.spread(high)
    for drawn in mixed_parts(values, layer.size, vectors):
        yield np.clip(drawn, low, high).astype(np.int32)


def notable_accumulators(layer: ScaledSum) -> Array:
    """Return accumulators within their bounds, int64 (n, size): neighbours of thresholds, and evenly spread ones."""
    low, high = layer.accumulator_bounds()
    evenly: Array = np.linspace(low, high, EVENLY).astype(np.int64)
    if layer.dtype == np.float32:
        return np.repeat(evenly, layer.positions, axis=1)
    steps = layer.thresholds().T.astype(np.int64)
    near = [steps + distance for distance in range(-NEIGHBOURS, NEIGHBOURS)]
    return np.repeat(np.clip(np.concatenate([*near, evenly]), low, high), layer.positions, axis=1)


def _overflow(low: Array, high: Array) -> str:
    limits = np.iinfo(np.int32)
    columns = np.flatnonzero((low < limits.min) | (high > limits.max))
    return f"column {columns[0]}: {low[columns[0]]:,} to {high[columns[0]]:,}" if len(columns) else ""


def single_codes(layer: ScaledSum) -> Scaled:
    """Return the vectors in which one input of each sum has each code, and all others are at the zero point."""
    depth, bytes_of_vector = len(layer.weights), layer.input.size + 8 * layer.size
    term, at_once = layer.terms()[0], max(BYTES_AT_ONCE // (CODES * bytes_of_vector), 1)

    def directions() -> Iterator[npt.NDArray[np.bool_]]:
        for first in range(0, depth, at_once):
            yield term == np.arange(first, min(first + at_once, depth))[:, None]

    return Scaled(directions, layer.input.dtype, layer.a_zero_point, layer.accumulate())


def extremes(layer: ScaledSum) -> Array:
    """Return codes (n, input size) at which each sum and each part of it is largest and smallest; and random ones.

    The sums are those of the specified terms, and those of products of the stored weights, with or without the 128 that
    a target may subtract from uint8: a target can correct for zero points afterwards, with the sum of the codes.  Some
    inputs have some codes one nearer to the middle: a sum at its bound may have more factors of 2 than those near it,
    so that a float32 could represent it, which above 2^24 represents no odd number.
    """
    return np.concatenate(list(_extreme_parts(layer, _signs(layer), RANDOM_VECTORS)))


def _signs(layer: ScaledSum) -> npt.NDArray[np.int8]:
    """Return the signs of the terms of all groups, (n, K, groups), that bring some channels to their bounds."""
    stored = layer.weights.astype(np.int32)
    shifts = [layer.weights_zero_point, np.array(0), np.array(128 if layer.weights.dtype == np.uint8 else 0)]
    of_channels = np.stack([np.ones(stored.shape, np.int8), *(np.sign(stored - s).astype(np.int8) for s in shifts)])
    of_groups = of_channels.reshape(*of_channels.shape[:2], layer.groups, -1)  # (kinds, K, groups, N / groups)
    signs = np.moveaxis(of_groups, -1, 1).reshape(-1, len(stored), layer.groups)  # all groups have theirs at once
    found: npt.NDArray[np.int8] = np.unique(np.concatenate([signs, -signs]), axis=0)
    return found


def _extreme_parts(layer: ScaledSum, signs: npt.NDArray[np.int8], random_vectors: int) -> Iterator[Array]:
    """Yield the vectors of `extremes` in parts that fit into memory."""
    limits, size, rng = np.iinfo(layer.input.dtype), layer.input.size, np.random.default_rng(0)
    bounds = np.array([layer.a_zero_point, limits.max, limits.min], layer.input.dtype)
    group, at_once = np.arange(size) // (size // layer.groups), max(BYTES_AT_ONCE // (8 * size), 1)
    for term in layer.terms():
        for first in range(0, len(signs), at_once):
            codes = bounds[signs[first : first + at_once, term, group]]
            yield codes
            inwards = rng.integers(0, 2, codes.shape, np.int8).astype(codes.dtype)
            yield np.where(codes == limits.min, codes + inwards, np.where(codes == limits.max, codes - inwards, codes))
    for first in range(0, random_vectors, at_once):
        count = min(at_once, random_vectors - first)
        yield rng.integers(limits.min, limits.max + 1, (count, size), layer.input.dtype)
