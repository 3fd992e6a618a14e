"""Right values in the wrong place, for any operator: other vectors, other columns, other bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.analysis.compare import difference_map
from harness.analysis.diagnosis.layer_sample import Case, operator
from harness.core.arrays import Array
from harness.operators.fault_models import FaultModel, tails

EVIDENCE = 16  # values that must fit before a mistake is believed that would fit some by chance
TORN_SHARE = 1 / 16  # of the vectors that differ
MOST_TORN = 2000  # inputs of torn vectors, each of which is a mixture to try
OWN_BLOCK = "every item waits at the barriers of the plan"
ALL_COLUMNS = "all {} columns are computed"
OWN_COLUMN = "every column in its place"


def mistakes(case: Case) -> Iterator[FaultModel]:
    """Yield the mistakes for all vectors of a case; the causes depend on its layer alone."""
    if case.expected.dtype.itemsize > 1:
        yield FaultModel("the bytes of the output are in the other order", "little endian", case.expected.byteswap())
    yield from _stale_buffers(case)
    yield from _forgotten_columns(case)
    yield from _moved_columns(case)


def _stale_buffers(case: Case) -> Iterator[FaultModel]:
    """Yield the fault of buffers that are read too early or too late: some vectors have the values of another."""
    earlier = tuple(_one_block_earlier(source, case.block) for source in case.inputs)
    later = tuple(_one_block_later(source, case.block) for source in case.inputs)
    for name, other in (("one block earlier", earlier), ("one block later", later)):
        cause = f"it reads what belongs to the vector {name}: a missing barrier, a stale buffer"
        yield FaultModel(cause, OWN_BLOCK, _where_vectors_fit(other, case), EVIDENCE)
        for position in range(len(case.inputs)) if len(case.inputs) > 1 else ():
            mixed = (*case.inputs[:position], other[position], *case.inputs[position + 1 :])
            source = case.layer.sources[position]
            yield FaultModel(f"{cause}, of {source}", OWN_BLOCK, _where_vectors_fit(mixed, case), EVIDENCE)


def _one_block_earlier(values: Array, block: int) -> Array:
    """Return the values of the block before; zeros before the first block."""
    return np.concatenate([np.zeros_like(values[:block]), values[:-block]])


def _one_block_later(values: Array, block: int) -> Array:
    """Return the values of the next block; the last block has no successor."""
    return np.concatenate([values[block:], values[-block:]])[: len(values)]


def _where_vectors_fit(inputs: tuple[Array, ...], case: Case) -> Array:
    """Return the output of other inputs for every vector that has it whole: a race is not lost every time.

    A few vectors may have been overwritten while they were read.
    """
    other = operator(case.layer)(*inputs)
    fits: Array = np.equal(difference_map(other, case.actual).sum(axis=1), 0)
    output: Array = np.where(fits[:, None], other, case.expected)
    wrong = case.differing.any(axis=1)
    torn = np.flatnonzero(wrong & ~fits)
    if 0 < len(torn) <= min(TORN_SHARE * np.count_nonzero(wrong & fits), MOST_TORN // case.layer.input.size):
        output[torn] = _torn(inputs, case, torn)
    return output


def _torn(inputs: tuple[Array, ...], case: Case, vectors: Array) -> Array:
    """Return values that some mixture of the first of either inputs with the last of the other gives, else right ones.

    Each column may have seen another mixture, because a kernel reads its inputs more than once.
    """
    width = case.layer.input.size
    first = np.arange(width) < np.arange(width + 1)[:, None, None]  # (mixtures, 1, K)
    pairs = [(own[vectors], other[vectors]) for own, other in zip(case.inputs, inputs, strict=True)]
    mixed = [np.concatenate([np.where(first, a, b), np.where(first, b, a)]).reshape(-1, width) for a, b in pairs]
    outputs = operator(case.layer)(*mixed).reshape(-1, len(vectors), case.layer.size)
    found = case.actual[vectors]
    return np.where((outputs == found).any(axis=0), found, case.expected[vectors])


def _forgotten_columns(case: Case) -> Iterator[FaultModel]:
    width = case.layer.size
    for tail in [*(tail for tail in tails(width) if tail < width), width]:
        last, right = slice(width - tail, None), ALL_COLUMNS.format(width)
        cause = "nothing is computed" if tail == width else f"the last {tail} of {width} columns are not computed"
        yield FaultModel(f"{cause}: zeros", right, _replaced(case.expected, last, np.zeros_like(case.expected)))
        yield FaultModel(f"{cause}: always the same values", right, _replaced_by_constants(case, last), EVIDENCE)
        earlier = _one_block_earlier(case.expected, case.block)
        yield FaultModel(f"{cause}: what was there one block earlier", right, _replaced(case.expected, last, earlier))


def _replaced(values: Array, columns: slice, by: Array) -> Array:
    output = values.copy()
    output[:, columns] = by[:, columns]
    return output


def _replaced_by_constants(case: Case, columns: slice) -> Array:
    """Return the found values in those of the columns that are the same for every vector."""
    constant = ~difference_map(case.actual, np.broadcast_to(case.actual[:1], case.actual.shape)).any(axis=0)
    return _replaced(case.expected, columns, np.where(constant, case.actual, case.expected))


def _moved_columns(case: Case) -> Iterator[FaultModel]:
    expected, actual = case.expected, case.actual
    if case.layer.size < 3:
        return  # with one end open they would explain anything
    for shift, name in ((1, "right"), (-1, "left")):
        moved = np.roll(expected, shift, axis=1)
        open_end = 0 if shift > 0 else -1  # whatever lies beyond the row
        moved[:, open_end] = actual[:, open_end]
        yield FaultModel(f"the columns are moved by one to the {name}", OWN_COLUMN, moved, EVIDENCE)
    permuted = sorted(_columns(expected)) == sorted(_columns(actual))
    cause = "the columns are in another order"
    yield FaultModel(cause, OWN_COLUMN, actual if permuted else expected, EVIDENCE)


def _columns(values: Array) -> list[bytes]:
    return [column.tobytes() for column in np.ascontiguousarray(values.T)]
