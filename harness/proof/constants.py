"""Step 1: the bits of every constant on the board are the model's.

A multiplier wrong by one in its last place changes nothing at any reachable accumulator of every second layer, so that
no run could find it (specs/qgemm.md, section 7): it is compared as bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness import compare, dumps
from harness.network import Array, Network, QGemm
from harness.probe import Probe
from harness.proof.claims import Note, Question, Side, Step
from harness.reference import specification
from harness.targets import Table


def questions(network: Network, tables: Sequence[Table], probe: Probe | None) -> Iterator[Question]:
    """That the board holds the tables, and that the multipliers among them are rightly computed."""
    right = [np.atleast_2d(table.values) for table in tables]
    yield Question(
        Step.CONSTANTS,
        Side.BOARD,
        None,
        "the tables of the deployed program hold the constants of the model, or what is derived from them, bit for bit",
        "all are read from the program's memory, after its items' init, and compared as bits",
        sum(table.values.size for table in tables),
        complete=True,
        answer=lambda note: _differing_table(tables, probe.tables(tables) if probe else right, note),
    )
    layers = [layer for layer in network.layers if isinstance(layer, QGemm)]
    yield Question(
        Step.CONSTANTS,
        Side.REFERENCE,
        None,
        "every multiplier is ((alpha * a_scale) * b_scale[n]) / y_scale, rounded to float32 after each operation",
        "computed once more from the model's scales in integer arithmetic, and compared as bits",
        sum(layer.width for layer in layers),
        complete=True,
        answer=lambda _: _wrong_multiplier(layers),
    )


def _differing_table(tables: Sequence[Table], found: Sequence[Array], note: Note) -> str:
    for table, there in zip(tables, found, strict=True):
        wanted, held = (compare.bits(np.atleast_2d(values)) for values in (table.values, there))
        rows, columns = np.nonzero(wanted != held)
        if len(rows):
            at = rows[0], columns[0]
            digits = 2 * there.dtype.itemsize
            return (
                f"table {table.name}[{at[0]}][{at[1]}] holds {held[at]:#0{digits + 2}x}, the model says "
                f"{wanted[at]:#0{digits + 2}x} ({len(rows)} of {there.size} values differ)"
            )
        note(dumps.sha256(there))
    return ""


def _wrong_multiplier(layers: Sequence[QGemm]) -> str:
    for layer in layers:
        columns = np.flatnonzero(specification.multiplier_bits(layer.scales) != layer.multiplier.view(np.uint32))
        if len(columns):
            return f"layer {layer.name}, column {columns[0]}"
    return ""
