"""Hybrid networks of small domains, and their outputs by loops over all boxes and points."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import yaml

from harness.applications.decide.hybrid.network import Architecture, Freshness, with_architecture
from harness.applications.decide.partition import nearest_float32
from harness.model.network import Network
from harness.operators.tensor import LARGEST
from tests.support.decide.domains import Domain, random_domain, write_table
from tests.support.programs.board_program import parse

LIMIT = np.float32(0.75)
DESCRIPTION = {
    "architecture": "hybrid",
    "model": "net.onnx",
    "property": "net.property.yaml",
    "safety_net": {"table": "table.npz", "interpolation": "nearest"},
    "freshness": {"name": "age", "unit": "s", "limit": 0.75},
}


@dataclass(frozen=True, eq=False)
class Small:
    """A network of three inputs with planted unsafe boxes and a table; the second axis wraps."""

    domain: Domain
    architecture: Architecture
    points: tuple[npt.NDArray[np.float64], ...]
    network: Network

    def expected(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """The advisory and the failed checks of each vector, from the definitions."""
        scores = self.domain.session.run([self.domain.model.graph.output[0].name], {"x": vectors[:, :3]})[0]
        return np.array(
            [self._select(each, int(own)) for each, own in zip(vectors, scores.argmax(axis=1), strict=True)]
        )

    def _select(self, vector: npt.NDArray[np.float32], own: int) -> tuple[int, int]:
        values, checks = [float(each) for each in vector], 0
        for value, (low, high), flag in zip(values, self.bounds, (2, 2, 2, 8), strict=True):
            if not np.isfinite(value):
                checks |= 1
            elif not low <= value <= high:
                checks |= flag
        boxes = itertools.product(*(self._intervals(axis, values[axis]) for axis in range(3)))
        if any(self.architecture.unsafe[box] for box in boxes):
            checks |= 4
        if not checks:
            return own, 0
        near = itertools.product(*(self._nearest(axis, values[axis]) for axis in range(3)))
        union = int(np.bitwise_or.reduce([self.architecture.advisories[point] for point in near]))
        return (union & -union).bit_length() - 1, checks

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """The ends of the axes, and those of the age."""
        return [*((float(row[0]), float(row[-1])) for row in self.architecture.cuts), (0.0, float(LIMIT))]

    def _intervals(self, axis: int, value: float) -> list[int]:
        """The intervals of an axis with a value: of one beyond them the outermost, of NaN and infinities the last."""
        row = [float(cut) for cut in self.architecture.cuts[axis]]
        last = len(row) - 2
        if not np.isfinite(value) or value > row[-1]:
            return [last]
        if value < row[0]:
            return [0]
        found = [index for index in range(last + 1) if row[index] <= value <= row[index + 1]]
        if self.architecture.wraps[axis] and value in (row[0], row[-1]):
            found = [0, last]
        return found

    def _nearest(self, axis: int, value: float) -> list[int]:
        points = self.points[axis]
        if not np.isfinite(value):
            return [len(points) - 1]
        ends = [-LARGEST, *(float(middle(low, high)) for low, high in itertools.pairwise(points)), LARGEST]
        return [index for index, (low, high) in enumerate(itertools.pairwise(ends)) if low <= value <= high]


def middle(low: float, high: float) -> np.float32:
    """The float32 half way between two points."""
    return nearest_float32((Fraction(low) + Fraction(high)) / 2)


@functools.cache
def small(seed: int = 2) -> Small:
    """A domain of random cuts, random unsafe boxes, and a table of random sets whose axes have other points."""
    domain = random_domain(seed, argmax=True)
    random = np.random.default_rng(seed)
    cuts = [np.array([nearest_float32(Fraction(float(cut))) for cut in row]) for row in domain.cuts]
    points = tuple(np.linspace(row[0], row[-1], count) for row, count in zip(domain.cuts, (2, 5, 4), strict=True))
    architecture = Architecture(
        cuts=cuts,
        wraps=[False, True, False],
        unsafe=random.random(domain.shape) < 0.4,
        thresholds=[np.array([middle(*each) for each in itertools.pairwise(row)], np.float32) for row in points],
        advisories=random.integers(1, 8, [len(row) for row in points]).astype(np.uint8),
        freshness=Freshness("age", "s", LIMIT),
    )
    model = with_architecture(parse(domain.model), architecture, {})
    return Small(domain, architecture, points, parse(model))


def notable_vectors(of: Small, count: int, seed: int = 1) -> npt.NDArray[np.float32]:
    """Vectors on cuts, half way between points, next to both, beyond them, and with numbers that are none."""
    random = np.random.default_rng(seed)
    columns = []
    for axis, (low, high) in enumerate(of.bounds):
        rows = [*of.architecture.cuts, np.array([0, LIMIT], np.float32)], [*of.architecture.thresholds, []]
        places = np.concatenate([rows[0][axis], rows[1][axis]]).astype(np.float32)
        near = np.concatenate(
            [places, np.nextafter(places, np.float32(-np.inf)), np.nextafter(places, np.float32(np.inf))]
        )
        inside = random.uniform(low, high, 40).astype(np.float32)
        odd = np.array([np.nan, np.inf, -np.inf, LARGEST, -LARGEST, -0.0, 1e-45], np.float32)
        weights = np.concatenate([np.full(len(near), 3.0), np.full(len(inside), 2.0), np.full(len(odd), 0.4)])
        columns.append(random.choice(np.concatenate([near, inside, odd]), count, p=weights / weights.sum()))
    return np.stack(columns, axis=1)


def write(folder: Path, seed: int = 2) -> Path:
    """Write model, property, table and description of a domain; return the description."""
    domain = random_domain(seed, argmax=True)
    onnx.save(domain.model, folder / "net.onnx")
    shape = [len(row) for row in domain.cuts]
    sets = np.random.default_rng(seed).choice(np.array([1, 2, 4], np.uint8), shape, p=[0.6, 0.2, 0.2])
    write_table(folder, domain, sets)
    (folder / "net.property.yaml").write_text("property: similar-to-table\ntable: table.npz\n")
    path = folder / "net.architecture.yaml"
    path.write_text(yaml.safe_dump(DESCRIPTION))
    return path
