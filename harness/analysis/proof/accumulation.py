"""Step 4: the sums of products are the right ones, and fit.

A sum of integers that fits does not depend on the order of its terms.  What is left to show is that the code adds
the right terms.  A layer whose other inputs stand at their zero point, where their terms are 0, shows the term of one
input at each of its codes.  That a term depends on no other input is shown by vectors in which any two inputs have
every pair of codes.  The vectors that bring a column to its bounds bring every part of its sum to its extremes at the
same time, so that an intermediate too narrow for any part of it, such as int16 pairs of products, shows there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from harness.analysis.proof.claims import Note, Question, Side, Step
from harness.analysis.proof.rounding import differing_output
from harness.core.arrays import Array
from harness.execution import dumps
from harness.execution.probe import Probe
from harness.operators import QGemm, accumulator_bounds, specification
from harness.reference import generated
from harness.reference.generated import Generated
from harness.targets import Stage

CODES = 256
BYTES_AT_ONCE = 1 << 26
RANDOM_VECTORS = 4096
DRAWN_VECTORS = 1 << 16
"""Random vectors that the program generates, if nobody says how many."""


def questions(
    layer: QGemm, stage: Stage, probe: Probe | None, random_vectors: int = DRAWN_VECTORS
) -> Iterator[Question]:
    """No sum of the layer overflows, its terms are right, add up at the extremes, and depend on one input each."""
    low, high = accumulator_bounds(layer)
    yield Question(
        Step.ACCUMULATION,
        Side.REFERENCE,
        layer.name,
        "no sum leaves int32, in any order of its terms",
        "bounds over all input codes, from the layer's own weights and biases, as `harness models show` lists them; "
        "they hold for every part of a sum too",
        layer.width,
        complete=True,
        answer=lambda _: _overflow(low, high),
    )
    together, exact = extremes(layer), specification.accumulator(layer)

    def wrong(inputs: Array, note: Note) -> str:
        return differing_output(stage, inputs, exact, probe, note)

    yield Question(
        Step.ACCUMULATION,
        Side.BOARD,
        layer.name,
        "every weight is multiplied with its own input, and every bias and zero point is accounted for",
        "each input alone at each of its 256 codes, all others at their zero point",
        CODES * layer.input_width * layer.width,
        complete=True,
        answer=lambda note: next(filter(None, (wrong(part, note) for part in single_codes(layer))), ""),
    )
    yield Question(
        Step.ACCUMULATION,
        Side.BOARD,
        layer.name,
        "the terms add up, at the extremes of every part of a sum too",
        f"for each column the input codes that bring it to its bounds, and their neighbours; {RANDOM_VECTORS:,} random "
        "vectors",
        len(together) * layer.width,
        complete=True,
        answer=lambda note: wrong(together, note),
    )
    yield _independence(layer, stage, probe, random_vectors)


def _independence(layer: QGemm, stage: Stage, probe: Probe | None, random_vectors: int) -> Question:
    """The terms of a sum depend on one input each."""
    pairs = generated.pair_vectors(layer.input_width)
    parts = [*pairs, *_random_parts(layer, random_vectors)]
    exact = specification.accumulator(layer)

    def wrong(note: Note) -> str:
        return next(filter(None, (_differing(stage, part, exact, probe, note) for part in parts)), "")

    return Question(
        Step.ACCUMULATION,
        Side.BOARD,
        layer.name,
        "the term of an input does not depend on another input",
        f"{sum(part.count for part in pairs):,} vectors in which any two inputs have every pair of codes (orthogonal "
        f"array over GF(256)); {random_vectors:,} random vectors",
        sum(part.count for part in parts) * layer.width,
        complete=True,
        answer=wrong,
    )


def _random_parts(layer: QGemm, count: int) -> Iterator[Generated]:
    """Random vectors, each part with a seed of its own and so many that its sums fit into a file."""
    at_once = max(BYTES_AT_ONCE // (4 * layer.width), 1)
    for seed, first in enumerate(range(0, count, at_once)):
        yield generated.random_vectors(min(at_once, count - first), layer.input_width, seed)


def _differing(
    stage: Stage, vectors: Generated, exact: Callable[[Array], Array], probe: Probe | None, note: Note
) -> str:
    """The first wrong sum of generated vectors; they are sent only to find it."""
    rows = vectors.rows(0, vectors.count).view(stage.input_dtype)
    right = dumps.sha256(exact(rows).astype(stage.output_dtype))
    if probe and probe.generated_sha256(stage, vectors) != right:
        counterexample = differing_output(stage, rows, exact, probe, lambda _: None)
        return counterexample or "the sums of generated vectors changed when they were asked for again"
    note(right)
    return ""


def _overflow(low: Array, high: Array) -> str:
    limits = np.iinfo(np.int32)
    columns = np.flatnonzero((low < limits.min) | (high > limits.max))
    return f"column {columns[0]}: {low[columns[0]]:,} to {high[columns[0]]:,}" if len(columns) else ""


def single_codes(layer: QGemm) -> Iterator[Array]:
    """Codes (256 * K, K), some inputs at once: each input alone at each code, the others at the zero point."""
    limits = np.iinfo(layer.input_dtype)
    codes = np.arange(limits.min, limits.max + 1)
    at_once = max(BYTES_AT_ONCE // (CODES * layer.input_width), 1)
    for first in range(0, layer.input_width, at_once):
        inputs = range(first, min(first + at_once, layer.input_width))
        vectors = np.full((len(inputs), CODES, layer.input_width), layer.a_zero_point, layer.input_dtype)
        for row, k in enumerate(inputs):
            vectors[row, :, k] = codes
        yield vectors.reshape(-1, layer.input_width)


def extremes(layer: QGemm) -> Array:
    """Codes (n, K) at which each column, and each part of its sum, is largest and smallest; and random ones.

    Of the terms as the specification has them, and of products of the weights as they are stored, with or without the
    128 that a target may subtract from uint8: zero points can be accounted for afterwards, with the sum of the codes.
    Also with some codes one nearer to the middle: a sum at its bound may have more factors of 2 than those near it,
    so that a float32 could hold it, which above 2^24 holds no odd number.
    """
    limits = np.iinfo(layer.input_dtype)
    stored = layer.weights.astype(np.int32)
    shifts = [layer.weights_zero_point, np.array(0), np.array(128 if layer.weights.dtype == np.uint8 else 0)]
    sum_of_codes = np.ones((1, layer.input_width), np.int8)
    signs: list[Array] = [sum_of_codes, *(np.sign(stored - shift).astype(np.int8).T for shift in shifts)]
    largest = np.unique(np.concatenate([*signs, *(-sign for sign in signs)]), axis=0)
    bounds = np.array([layer.a_zero_point, limits.max, limits.min], np.int16)[largest]
    rng = np.random.default_rng(0)
    inwards = (bounds == limits.min).astype(np.int16) - (bounds == limits.max)
    near = bounds + inwards * rng.integers(0, 2, bounds.shape, np.int16)
    drawn = rng.integers(limits.min, limits.max + 1, (RANDOM_VECTORS, layer.input_width), np.int16)
    return np.concatenate([bounds, near, drawn]).astype(layer.input_dtype)
