"""The differences of a layer in numbers: where they lie, how large they are, how close to a tie.

All are counts of bounded size that add up over chunks; the report draws them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.analysis.compare import difference_map
from harness.analysis.diagnosis.hypothesis_scoring import steps
from harness.analysis.diagnosis.layer_sample import Case
from harness.core.arrays import Array

MAP_COLUMNS, MAP_ROWS = 120, 64  # at most
FAR = 4  # steps from here on are counted together
TIE_DISTANCES = (0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # upper ends; beyond the last lies the rest, up to 1/2


@dataclass(frozen=True)
class DifferenceSummary:
    """The layer of index `layer`.

    `cells` holds by column of the map (vectors of the run, evenly divided) the differing activations of each row
    (units, likewise); columns without are left out.  `steps` counts differences of -4 and less, -3, ... 3, 4 and
    more, see `judgement.steps`.  `tie_distances` counts what the layer itself got wrong by the distance of the number
    that it rounds from the next half-way point, see TIE_DISTANCES; it is empty for a layer that rounds to no code.
    """

    layer: int
    cells: Mapping[int, tuple[int, ...]]
    steps: tuple[int, ...]
    tie_distances: tuple[int, ...]

    def __add__(self, later: DifferenceSummary) -> DifferenceSummary:
        """Return the sum of both; ValueError for two different layers."""
        if self.layer != later.layer:
            raise ValueError(f"layers {self.layer} and {later.layer}")
        cells = dict(self.cells)
        for column, counts in later.cells.items():
            cells[column] = _sum(cells[column], counts) if column in cells else counts
        distances = _sum(self.tie_distances, later.tie_distances)
        return DifferenceSummary(self.layer, cells, _sum(self.steps, later.steps), distances)


def portray(case: Case, reference: Array, vectors: int) -> DifferenceSummary:
    """Summarise the differences of a layer that differs from the reference, in a run of `vectors` vectors."""
    differing = difference_map(reference, case.actual)
    found = steps(reference[differing], case.actual[differing])
    bins = np.bincount(np.clip(found, -FAR, FAR) + FAR, minlength=2 * FAR + 1)
    return DifferenceSummary(case.index, _cells(differing, case.start, vectors), _counts(bins), _tie_distances(case))


def map_shape(vectors: int, units: int) -> tuple[int, int]:
    """Return columns and rows of the map."""
    return min(vectors, MAP_COLUMNS), min(units, MAP_ROWS)


def _cells(differing: Array, start: int, vectors: int) -> dict[int, tuple[int, ...]]:
    units = differing.shape[1]
    columns, rows = map_shape(vectors, units)
    vector, unit = np.nonzero(differing)
    column = (start + vector) * columns // vectors
    row = unit * rows // units
    first = start * columns // vectors
    counts = np.bincount((column - first) * rows + row, minlength=rows)
    counts = np.pad(counts, (0, -len(counts) % rows)).reshape(-1, rows)
    return {first + index: _counts(line) for index, line in enumerate(counts) if line.any()}


def _tie_distances(case: Case) -> tuple[int, ...]:
    with np.errstate(all="ignore"):
        v = case.layer.rounded.before(*case.inputs)
    if v is None:
        return ()
    wrong = v[case.differing].astype(np.float64)
    distance = np.abs(wrong - np.floor(wrong) - 0.5)
    bins = np.searchsorted(TIE_DISTANCES, distance, side="left")
    return _counts(np.bincount(bins, minlength=len(TIE_DISTANCES) + 1))


def _counts(values: Array) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _sum(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))
