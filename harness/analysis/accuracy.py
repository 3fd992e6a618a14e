"""Metrics of outputs against labels, added chunk by chunk: the memory that they take does not grow with the outputs.

Only the scores of detections are kept, one float64 and a bool for each threshold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array

BLOCK = 1 << 14
"""Vectors of targets of which there is a copy."""
TOP = 5
MOST_CLASSES = 100
"""Classes of a confusion matrix at most: a larger one has more cells than a person looks at."""
THRESHOLDS = tuple(np.arange(50, 100, 5) / 100)
"""The intersections over unions, 0.5 to 0.95, over which the mean average precision is averaged."""
FIRST_THRESHOLD = "mAP, IoU 0.5"
ALL_THRESHOLDS = "mAP, IoU 0.5 to 0.95"

Numbers = Mapping[str, float | int | None]
"""The results of a metric by their names; None for one that is not defined."""


class Metric(ABC):
    """A metric of the vectors added so far."""

    @abstractmethod
    def add(self, outputs: Any, labels: Any) -> None:
        """Add the outputs and the labels of some vectors."""

    @abstractmethod
    def numbers(self) -> Numbers:
        """Return the results."""

    @property
    def confusion(self) -> npt.NDArray[np.int64] | None:
        """The confusion matrix, a row for each label and a column for each decision; None if there is none."""
        return None


@dataclass
class Accuracy(Metric):
    """Shares of decisions that are the label: outputs are scores (n, classes), or decisions int64 (n, 1).

    The decision is the class with the largest score, the lowest class of equal ones.  A NaN is larger than all numbers,
    as for numpy.argmax.  A decision that is no class is wrong, and in no column of the confusion matrix.
    """

    classes: int
    count: int = 0
    first: int = 0
    among_first: int = 0
    is_ranked: bool = False
    outside: int = 0
    _confusion: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.classes <= MOST_CLASSES:
            self._confusion = np.zeros((self.classes, self.classes), np.int64)

    def add(self, outputs: Array, labels: Array) -> None:
        """Add scores or decisions of n vectors, and their classes, int64 (n,)."""
        is_decided = outputs.shape[1] == 1
        decisions = outputs[:, 0].astype(np.int64) if is_decided else outputs.argmax(axis=1)
        self.count += len(labels)
        self.first += int(np.count_nonzero(decisions == labels))
        self.is_ranked = not is_decided and self.classes > TOP
        if self.is_ranked:
            self.among_first += int(np.count_nonzero(_ranks(outputs, labels) < TOP))
        is_class = (decisions >= 0) & (decisions < self.classes)
        self.outside += int(np.count_nonzero(~is_class))
        if self._confusion is not None:
            pairs = labels[is_class] * self.classes + decisions[is_class]
            self._confusion += np.bincount(pairs, minlength=self.classes**2).reshape(self.classes, -1)

    def numbers(self) -> Numbers:
        """Return the shares of vectors, and the numbers of right ones."""
        return {
            "top-1": self.first / self.count,
            **({f"top-{TOP}": self.among_first / self.count} if self.is_ranked else {}),
            "right": self.first,
            "no class": self.outside,
        }

    @property
    def confusion(self) -> npt.NDArray[np.int64] | None:
        """The confusion matrix; None for more than MOST_CLASSES classes."""
        return self._confusion


def _ranks(scores: Array, labels: Array) -> npt.NDArray[np.int64]:
    """Return how many classes come before the label of each vector: larger scores, and equal ones of lower classes.

    A NaN comes before all numbers, and of several that of the lowest class.
    """
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    is_nan, is_lower = np.isnan(scores), np.arange(scores.shape[1]) < labels[:, None]
    before_number = is_nan | (scores > own) | ((scores == own) & is_lower)
    before = np.where(np.isnan(own), is_nan & is_lower, before_number)
    ranks: npt.NDArray[np.int64] = before.sum(axis=1)
    return ranks


@dataclass
class Regression(Metric):
    """Errors of values (n, k) against targets (n, k), in float64.

    MAE and RMSE are over all values.  R2 is the mean of those of the k outputs; it is not defined if a target is the
    same for all vectors.  `targets` are those of all vectors.
    """

    targets: Array
    count: int = 0
    not_finite: int = 0
    _absolute: Any = 0.0
    _squared: Any = 0.0

    def add(self, outputs: Array, labels: Array) -> None:
        """Add the values and the targets of n vectors."""
        errors = outputs.astype(np.float64) - labels
        self.not_finite += int(np.count_nonzero(~np.isfinite(errors)))
        self.count += len(labels)
        with np.errstate(all="ignore"):
            self._absolute = self._absolute + np.abs(errors).sum(axis=0)
            self._squared = self._squared + (errors**2).sum(axis=0)

    def numbers(self) -> Numbers:
        """Return the errors; None for all of them if a value is NaN or infinite."""
        names = ("MAE", "RMSE", "R2")
        if self.not_finite:
            return dict.fromkeys(names) | {"not finite": self.not_finite}
        squared, width = np.atleast_1d(self._squared), self.targets.shape[1]
        mean = self.targets.mean(axis=0)
        parts = (self.targets[start : start + BLOCK] for start in range(0, self.count, BLOCK))
        spread = np.sum([((part - mean) ** 2).sum(axis=0) for part in parts], axis=0)
        r2 = None if (spread == 0).any() else float(np.mean(1 - squared / spread))
        mean_squared = float(squared.sum() / (self.count * width))
        mean_absolute = float(np.sum(self._absolute) / (self.count * width))
        return {"MAE": mean_absolute, "RMSE": mean_squared**0.5, "R2": r2, "not finite": 0}


@dataclass(frozen=True)
class Boxes:
    """Boxes of some vectors: the vector of each, its class, its corners y1, x1, y2, x2 float64 (m, 4), and its score.

    `vectors` ascend.  Those of labels have no scores.
    """

    vectors: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]
    corners: npt.NDArray[np.float64]
    scores: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def of(self, vector: int, category: int) -> npt.NDArray[np.intp]:
        """Return the places of the boxes of a vector and a class."""
        begin, end = np.searchsorted(self.vectors, (vector, vector + 1))
        places: npt.NDArray[np.intp] = begin + np.flatnonzero(self.classes[begin:end] == category)
        return places


@dataclass
class Detection(Metric):
    """Mean average precision of detected boxes: the mean over all classes with labels.

    Of each vector and class the detections, in the order of their scores, take the free label with the largest
    intersection over union, if that is at least the threshold.  The average precision is the area below the precision,
    the largest for this recall or a greater one, over the recall.  Of equal scores the earlier detection is first.
    """

    classes: int
    labelled: npt.NDArray[np.int64] = field(init=False)
    detections: int = 0
    _scores: list[list[Array]] = field(init=False)
    _hits: list[list[Array]] = field(init=False)

    def __post_init__(self) -> None:
        self.labelled = np.zeros(self.classes, np.int64)
        self._scores = [[] for _ in range(self.classes)]
        self._hits = [[] for _ in range(self.classes)]

    def add(self, outputs: Boxes, labels: Boxes) -> None:
        """Add the detections and the labels of some vectors."""
        self.labelled += np.bincount(labels.classes, minlength=self.classes)
        self.detections += len(outputs.vectors)
        pairs = np.unique(np.stack([outputs.vectors, outputs.classes], axis=1), axis=0)
        for vector, category in pairs.tolist():
            own = outputs.of(vector, category)
            own = own[np.argsort(-outputs.scores[own], kind="stable")]
            overlaps = overlap(outputs.corners[own], labels.corners[labels.of(vector, category)])
            self._scores[category].append(outputs.scores[own])
            self._hits[category].append(np.stack([_hits(overlaps, least) for least in THRESHOLDS], axis=1))

    def numbers(self) -> Numbers:
        """Return both means, and the numbers of labels and detections; None for means without a label."""
        precisions = [self._precisions(category) for category in np.flatnonzero(self.labelled).tolist()]
        means = np.mean(precisions, axis=0) if precisions else None
        return {
            FIRST_THRESHOLD: None if means is None else float(means[0]),
            ALL_THRESHOLDS: None if means is None else float(means.mean()),
            "labels": int(self.labelled.sum()),
            "detections": self.detections,
        }

    def _precisions(self, category: int) -> list[float]:
        """Return the average precision of a class for each threshold."""
        if not self._scores[category]:
            return [0.0] * len(THRESHOLDS)
        order = np.argsort(-np.concatenate(self._scores[category]), kind="stable")
        hits = np.concatenate(self._hits[category])[order]
        return [average_precision(column, int(self.labelled[category])) for column in hits.T]


def average_precision(hits: npt.NDArray[np.bool_], labels: int) -> float:
    """Return the average precision of detections in the order of their scores; `hits` are those that found a label."""
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    largest = np.maximum.accumulate(precision[::-1])[::-1]
    return float(largest[hits].sum() / labels)


def overlap(one: Array, other: Array) -> Array:
    """Return the intersections over unions of boxes (m, 4) and (k, 4), float64 (m, k); 0 for an empty union."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (one, other)]
    union = areas[0][:, None] + areas[1][None] - shared
    shares: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def _hits(overlaps: Array, least: float) -> npt.NDArray[np.bool_]:
    """Return for each detection, a row, whether it takes a label, a column, that none before it took."""
    free, hits = np.ones(overlaps.shape[1], bool), np.zeros(len(overlaps), bool)
    for row, own in enumerate(overlaps):
        candidates = np.where(free, own, -1.0)
        if candidates.size and candidates.max() >= least:
            free[candidates.argmax()] = False
            hits[row] = True
    return hits


def corners_of(boxes: Array, *, is_centre: bool) -> npt.NDArray[np.float64]:
    """Return the corners y1, x1, y2, x2, the lower ones first, of boxes (m, 4) as ONNX's NonMaxSuppression has them.

    They are two opposite corners y, x, y, x, or a centre x, y, and a width and a height.
    """
    values = boxes.astype(np.float64)
    if is_centre:
        x, y, width, height = values.T
        values = np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=1)
    return np.concatenate([np.minimum(values[:, :2], values[:, 2:]), np.maximum(values[:, :2], values[:, 2:])], axis=1)
