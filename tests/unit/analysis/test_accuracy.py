"""Metrics against scikit-learn where it is installed, and against counts by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.analysis.accuracy import (
    ALL_THRESHOLDS,
    FIRST_THRESHOLD,
    MOST_CLASSES,
    Accuracy,
    Boxes,
    Detection,
    Metric,
    Regression,
    average_precision,
    corners_of,
    overlap,
)

SEED = 58
SPLITS = [[600], [1, 599], [200, 150, 250]]


def added(metric: Metric, outputs: np.ndarray, labels: np.ndarray, sizes: list[int]) -> Metric:
    for start, size in zip(itertools.accumulate([0, *sizes]), sizes, strict=False):
        metric.add(outputs[start : start + size], labels[start : start + size])
    return metric


@pytest.mark.parametrize("sizes", SPLITS)
def test_accuracy_is_that_of_scikit_learn(sizes: list[int]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(SEED)
    scores, labels = rng.normal(size=(600, 8)).astype(np.float32), rng.integers(0, 8, 600)
    found = added(Accuracy(8), scores, labels, sizes)
    assert found.numbers()["top-1"] == metrics.accuracy_score(labels, scores.argmax(axis=1))
    assert found.numbers()["top-5"] == pytest.approx(metrics.top_k_accuracy_score(labels, scores, k=5))
    assert found.confusion is not None
    assert np.array_equal(found.confusion, metrics.confusion_matrix(labels, scores.argmax(axis=1), labels=range(8)))


@pytest.mark.parametrize("sizes", SPLITS)
def test_errors_are_those_of_scikit_learn(sizes: list[int]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(SEED)
    targets = rng.normal(1e6, 3, size=(600, 4))
    values = (targets + rng.normal(size=(600, 4))).astype(np.float32)
    numbers = added(Regression(targets), values, targets, sizes).numbers()
    assert numbers["MAE"] == pytest.approx(metrics.mean_absolute_error(targets, values), rel=1e-12)
    assert numbers["RMSE"] == pytest.approx(metrics.mean_squared_error(targets, values) ** 0.5, rel=1e-12)
    assert numbers["R2"] == pytest.approx(metrics.r2_score(targets, values), rel=1e-9)


def test_counts_of_a_few_vectors() -> None:
    scores = np.array([[0, 3, 1, 0, 0, 0, 0], [2, 2, 0, 0, 0, 0, 0], [9, 8, 7, 6, 5, 4, 3], [9, 8, 7, 6, 5, 4, 3]])
    labels = np.array([1, 1, 4, 5])
    found = added(Accuracy(7), scores, labels, [4])
    assert found.numbers() == {"top-1": 0.25, "top-5": 0.75, "right": 1, "no class": 0}
    assert found.confusion is not None
    assert np.argwhere(found.confusion).tolist() == [[1, 0], [1, 1], [4, 0], [5, 0]], "of equal scores the lowest class"


def test_equal_scores_of_lower_classes_come_before_the_label() -> None:
    scores, labels = np.ones((8, 8)), np.arange(8)
    assert added(Accuracy(8), scores, labels, [8]).numbers()["top-5"] == 5 / 8


def test_decisions_that_are_no_class_are_wrong() -> None:
    found = added(Accuracy(3), np.array([[0], [7], [-1], [2]]), np.array([0, 1, 1, 1]), [4])
    assert found.numbers() == {"top-1": 0.25, "right": 1, "no class": 2}
    assert found.confusion is not None
    assert found.confusion.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_nan_is_the_decision_as_for_numpy_and_nothing_is_hidden() -> None:
    scores = np.array([[0, np.nan, 5, 0, 0, 0, 0.0]])
    right = {"top-1": 1.0, "top-5": 1.0, "right": 1, "no class": 0}
    assert added(Accuracy(7), scores, np.array([1]), [1]).numbers() == right
    assert added(Accuracy(7), scores, np.array([2]), [1]).numbers() == {
        "top-1": 0.0, "top-5": 1.0, "right": 0, "no class": 0,
    }  # fmt: skip
    numbers = added(Regression(np.array([[1.0], [2.0]])), np.array([[np.nan], [2.0]]), np.array([[1.0], [2]]), [2])
    assert numbers.numbers() == {"MAE": None, "RMSE": None, "R2": None, "not finite": 1}


def test_of_several_nan_the_lowest_class_is_first() -> None:
    scores = np.array([[0, np.nan, np.nan, 1, 2, 3, 4.0]])
    for label, top in ((1, 1.0), (2, 0.0)):
        numbers = added(Accuracy(7), scores, np.array([label]), [1]).numbers()
        assert (numbers["top-1"], numbers["top-5"]) == (top, 1.0)


def test_r2_of_targets_that_are_all_the_same_is_not_defined() -> None:
    targets = np.full((3, 1), 2.0)
    numbers = added(Regression(targets), np.array([[2.0], [3], [1]]), targets, [3]).numbers()
    assert (numbers["R2"], numbers["MAE"]) == (None, pytest.approx(2 / 3))


def test_many_classes_have_no_matrix() -> None:
    assert Accuracy(MOST_CLASSES).confusion is not None
    assert Accuracy(MOST_CLASSES + 1).confusion is None


def boxes(rows: list[tuple[float, ...]]) -> Boxes:
    table = np.array(rows, np.float64).reshape(len(rows), -1)
    scores = table[:, 6] if table.shape[1] > 6 else np.empty(0)
    return Boxes(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2:6], scores)


LABELS = boxes([(0, 0, 0, 0, 10, 10), (0, 1, 0, 0, 10, 10), (1, 0, 20, 20, 30, 40)])


def test_right_boxes_have_a_mean_average_precision_of_one() -> None:
    found = Detection(3)
    found.add(boxes([(0, 0, 0, 0, 10, 10, 0.9), (0, 1, 0, 0, 10, 10, 0.8), (1, 0, 20, 20, 30, 40, 0.3)]), LABELS)
    assert found.numbers() == {FIRST_THRESHOLD: 1.0, ALL_THRESHOLDS: 1.0, "labels": 3, "detections": 3}


def test_a_worse_box_counts_up_to_its_overlap() -> None:
    found = Detection(3)
    found.add(boxes([(0, 0, 0, 0, 10, 7, 0.9), (0, 1, 0, 0, 10, 10, 0.8), (1, 0, 20, 20, 30, 40, 0.3)]), LABELS)
    # Class 0: of thresholds 0.5 to 0.7 both are right; above, only the second of two detections: 0.5 / 2.
    assert found.numbers()[FIRST_THRESHOLD] == 1.0
    assert found.numbers()[ALL_THRESHOLDS] == pytest.approx((1 + (5 * 1 + 5 * 0.25) / 10) / 2)


def test_a_label_is_taken_once_and_missing_boxes_count() -> None:
    found = Detection(3)
    found.add(boxes([(0, 0, 0, 0, 10, 10, 0.9), (0, 0, 0, 0, 10, 10, 0.8), (0, 2, 0, 0, 1, 1, 0.99)]), LABELS)
    # Class 0: one of two labels is found at rank 1; class 1: none; class 2 has no label.
    assert found.numbers()[FIRST_THRESHOLD] == pytest.approx((0.5 + 0) / 2)


def test_the_mean_average_precision_is_that_of_the_definition() -> None:
    """Compute it again for random boxes: the integral over recall of the best precision at that recall or above."""
    rng = np.random.default_rng(SEED)
    labels, detected = random_boxes(rng, 60), random_boxes(rng, 150, scored=True)
    found = Detection(3)
    for start in (0, 7):  # in two chunks of vectors
        stop = 7 if start == 0 else 20
        found.add(chunk(detected, start, stop), chunk(labels, start, stop))
    means = [np.mean([by_definition(detected, labels, category, least) for category in range(3)])
             for least in np.arange(50, 100, 5) / 100]  # fmt: skip
    assert found.numbers()[FIRST_THRESHOLD] == pytest.approx(means[0])
    assert found.numbers()[ALL_THRESHOLDS] == pytest.approx(np.mean(means))
    assert 0 < np.mean(means) < means[0] < 1, "the case tells right from wrong"


def random_boxes(rng: np.random.Generator, count: int, *, scored: bool = False) -> Boxes:
    corners = rng.integers(0, 3, (count, 2)) * 10 + rng.random((count, 2))
    ends = corners + 9 + rng.random((count, 2))
    vectors, classes = np.sort(rng.integers(0, 20, count)), rng.integers(0, 3, count)
    scores = rng.random(count) if scored else np.empty(0)
    return Boxes(vectors, classes, np.concatenate([corners, ends], axis=1), scores)


def chunk(of: Boxes, start: int, stop: int) -> Boxes:
    kept = (of.vectors >= start) & (of.vectors < stop)
    return Boxes(of.vectors[kept], of.classes[kept], of.corners[kept], of.scores[kept] if len(of.scores) else of.scores)


def by_definition(detected: Boxes, labels: Boxes, category: int, least: float) -> float:
    truths = [i for i in range(len(labels.vectors)) if labels.classes[i] == category]
    ranked = sorted((i for i in range(len(detected.vectors)) if detected.classes[i] == category),
                    key=lambda i: -detected.scores[i])  # fmt: skip
    free, points, hits = set(truths), [], 0
    for rank, one in enumerate(ranked, start=1):
        same = [i for i in free if labels.vectors[i] == detected.vectors[one]]
        unions = {i: iou(detected.corners[one], labels.corners[i]) for i in same}
        best = max(unions, key=lambda i: unions[i], default=None)
        if best is not None and unions[best] >= least:
            free.remove(best)
            hits += 1
        points.append((hits / len(truths), hits / rank))
    steps = [0.0, *sorted({recall for recall, _ in points})]
    return sum(
        (high - low) * max(precision for recall, precision in points if recall >= high)
        for low, high in itertools.pairwise(steps)
    )


def iou(one: np.ndarray, other: np.ndarray) -> float:
    height = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    width = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return float(height * width / (sum(areas) - height * width))


def test_the_area_below_the_best_precision() -> None:
    assert average_precision(np.array([True, False, True, False]), 4) == pytest.approx((1 + 2 / 3) / 4)


def test_overlaps_and_corners() -> None:
    one = np.array([[0.0, 0, 10, 10], [5, 5, 5, 5]])
    assert overlap(one, np.array([[0.0, 0, 10, 5], [20, 20, 30, 30]])).tolist() == [[0.5, 0], [0, 0]]
    assert overlap(one[1:], one[1:]).tolist() == [[0]], "an empty box overlaps nothing"
    assert corners_of(np.array([[4.0, 6, 2, 8]]), is_centre=True).tolist() == [[2, 3, 10, 5]]
    assert corners_of(np.array([[9.0, 8, 1, 2]]), is_centre=False).tolist() == [[1, 2, 9, 8]]
