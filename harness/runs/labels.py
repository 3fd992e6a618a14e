"""Labels of the vectors of a run: files of classes, targets or boxes, and the output of a network that they judge."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from zipfile import BadZipFile, ZipFile

import numpy as np

from harness.analysis.accuracy import Accuracy, Boxes, Detection, Metric, Regression, corners_of
from harness.core.arrays import MEMORY_BUDGET, Array
from harness.core.errors import RequestError
from harness.core.safe_io import load_array, load_arrays, read_input_text
from harness.core.text import plural
from harness.model.network import Network
from harness.operators.base import Evaluate
from harness.operators.non_max_suppression import NonMaxSuppression
from harness.operators.traits import Trait

MetricName: TypeAlias = Literal["accuracy", "regression", "detection"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
FORMS = {
    "accuracy": "the class of each vector: integers (vectors,)",
    "regression": "targets of each vector: floats (vectors, outputs)",
    "detection": "boxes: columns vector, class, y1, x1, y2, x2",
}
ARRAYS: dict[MetricName, tuple[str, ...]] = {
    "accuracy": ("classes",),
    "regression": ("targets",),
    "detection": ("vectors", "classes", "corners"),
}
"""The arrays of the labels of a metric, as a run folder keeps them."""
COLUMNS = 6
"""Columns of a file of boxes."""


@dataclass(frozen=True)
class Head:
    """The output of a network that labels judge: the layers that it needs, and its classes or values.

    `kind` is `decisions` (ArgMax or ArgMin), `scores` (of classes, or values) or `boxes` (NonMaxSuppression).
    """

    kind: Literal["decisions", "scores", "boxes"]
    layers: tuple[int, ...]
    size: int
    decides: Evaluate | None = None
    suppression: NonMaxSuppression | None = None

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """The metrics that fit the output."""
        if self.kind == "scores":
            return ("accuracy", "regression") if self.size > 1 else ("regression",)
        return ("accuracy",) if self.kind == "decisions" else ("detection",)

    def outputs(self, activations: Sequence[Array], start: int) -> Any:
        """Return what a metric takes: scores, values or decisions (n, size), or boxes of vectors from `start` on."""
        if self.suppression is None:
            return activations[0]
        return _detected(self.suppression, activations, start)


def head_of(network: Network) -> Head:
    """Return the output of a network, that of its last layer."""
    last = len(network.layers) - 1
    layer = network.layers[last]
    if isinstance(layer, NonMaxSuppression) and layer.sizes.batches == 1:
        writers = {other.output.name: index for index, other in enumerate(network.layers)}
        sources = tuple(writers[name] for name in layer.sources if name in writers)
        if len(sources) == len(layer.sources):
            return Head("boxes", (*sources, last), layer.sizes.classes, suppression=layer)
    if Trait.INDEX in layer.traits:
        return Head("decisions", (last,), layer.inputs[0].size, decides=layer.prepare())
    return Head("scores", (last,), layer.size)


def _detected(layer: NonMaxSuppression, activations: Sequence[Array], start: int) -> Boxes:
    """Return the boxes that the rows of NonMaxSuppression select; rows of -1, and of no box, select none."""
    boxes, scores, rows = activations
    count, sizes = len(rows), layer.sizes
    selected = rows.reshape(count, sizes.rows, 3)
    _, category, box = np.moveaxis(selected, 2, 0)
    is_box = (box >= 0) & (box < sizes.boxes) & (category >= 0) & (category < sizes.classes)
    vector, row = np.nonzero(is_box)
    categories, places = category[vector, row], box[vector, row]
    corners = boxes.reshape(count, sizes.boxes, 4)[vector, places]
    own = scores.reshape(count, sizes.classes, sizes.boxes)[vector, categories, places]
    return Boxes(vector + start, categories, corners_of(corners, is_centre=layer.is_centre), own.astype(np.float64))


@dataclass(frozen=True)
class Labels:
    """The labels of all vectors of a run: `classes` int64 (n,), `targets` float64 (n, k), or `boxes`."""

    metric: MetricName
    count: int
    size: int
    classes: Array | None = None
    targets: Array | None = None
    boxes: Boxes | None = None

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        if self.boxes is not None:
            return Detection(self.size)
        return Accuracy(self.size) if self.targets is None else Regression(self.targets)

    def chunk(self, start: int, stop: int) -> Any:
        """Return the labels of some vectors, as the metric takes them."""
        if self.boxes is not None:
            begin, end = np.searchsorted(self.boxes.vectors, (start, stop))
            return Boxes(self.boxes.vectors[begin:end], self.boxes.classes[begin:end], self.boxes.corners[begin:end])
        kept = self.classes if self.targets is None else self.targets
        return None if kept is None else kept[start:stop]

    def save(self, path: Path) -> None:
        """Write the arrays to a .npz file, the same bytes for the same labels."""
        arrays: dict[str, Any] = dict(zip(ARRAYS[self.metric], self._arrays(), strict=True))
        np.savez(path, **arrays)

    def _arrays(self) -> tuple[Array, ...]:
        if self.boxes is not None:
            return self.boxes.vectors, self.boxes.classes, self.boxes.corners
        kept = self.classes if self.targets is None else self.targets
        return () if kept is None else (kept,)


def read(path: Path, network: Network, count: int, metric: MetricName | None = None) -> Labels:
    """Return the labels of `count` vectors in a .npy, .npz or .csv file, for a metric of the network's output.

    Without `metric` it is the one that fits the output; of scores the type of the labels decides.  RequestError if the
    file has another form, length or type, a class or vector that does not exist, or NaN.
    """
    head, arrays = head_of(network), _read(path)
    chosen = metric or _metric_of(head, arrays)
    if chosen not in head.metrics:
        raise RequestError(
            f"--metric {chosen} does not fit {network.name}, whose output is {_described(head)}",
            f"{'--metric ' + ' or '.join(head.metrics)}; a label is then {FORMS[head.metrics[0]]}",
        )
    if chosen == "regression" and network.layers[head.layers[-1]].dtype.kind != "f":
        raise RequestError(
            f"--metric regression: the output of {network.name} is {network.layers[head.layers[-1]].dtype} codes",
            "a network that ends with DequantizeLinear, or --metric accuracy",
        )
    checks: dict[MetricName, Callable[[], Labels]] = {
        "accuracy": partial(_classes, path, arrays, head, count),
        "regression": partial(_targets, path, arrays, head, count),
        "detection": partial(_boxes, path, arrays, head, count),
    }
    return checks[chosen]()


def _described(head: Head) -> str:
    names = {"decisions": "a decision among", "scores": "", "boxes": "boxes of"}
    words = ("class", "classes") if head.kind != "scores" else ("value", "values")
    return f"{names[head.kind]} {plural(head.size, *words)}".strip()


def _metric_of(head: Head, arrays: Sequence[Array]) -> MetricName:
    is_integer = len(arrays) == 1 and arrays[0].dtype.kind in "iu" and arrays[0].size == len(arrays[0])
    return head.metrics[0] if len(head.metrics) == 1 or is_integer else "regression"


def _read(path: Path) -> list[Array]:
    """Return the arrays of a file; a .csv file has one, (rows, columns)."""
    hint = "give a .npy, .npz or .csv file: docs/measure-accuracy.md describes them"
    try:
        _require_room(path, path.stat().st_size)
        if path.suffix == ".csv":
            return [_table(path)]
        arrays = _of_archive(path) if path.suffix == ".npz" else [np.array(load_array(path))]
    except OSError as error:
        raise RequestError(f"labels {path}: {error.strerror or error}", hint) from error
    except (ValueError, BadZipFile, UnicodeDecodeError) as error:
        raise RequestError(f"labels {path}: cannot be read: {error}", hint) from error
    for array in arrays:
        _require_room(path, 8 * array.size)
        if array.ndim == 0 or len(array) == 0 or array.dtype.kind not in "iuf":
            raise RequestError(f"labels {path}: an array of {array.dtype} of shape {array.shape}", _forms())
    return arrays


def _require_room(path: Path, size: int) -> None:
    """Raise RequestError if labels, which are in memory, take more than MEMORY_BUDGET bytes."""
    if size > MEMORY_BUDGET:
        raise RequestError(
            f"labels {path}: they take {size >> 20:,} MiB, and the limit is {MEMORY_BUDGET >> 20} MiB",
            "judge fewer vectors in a run",
        )


def _of_archive(path: Path) -> list[Array]:
    with ZipFile(path) as archive:
        names = tuple(name.removesuffix(".npy") for name in archive.namelist())
        _require_room(path, sum(member.file_size for member in archive.infolist()))
    expected = ARRAYS["detection"]
    if len(names) > 1 and sorted(names) != sorted(expected):
        raise ValueError(f"it has the arrays {', '.join(names)}; give one, or {', '.join(expected)}")
    return load_arrays(path, *(expected if len(names) > 1 else names))


def _table(path: Path) -> Array:
    """Return the numbers of a .csv file, int64 if all are integers, else float64; a first row of names is left out."""
    rows = [row for row in csv.reader(read_input_text(path).splitlines()) if row]
    if rows and not any(map(_number_of, rows[0])):
        rows = rows[1:]
    if not rows or len({len(row) for row in rows}) > 1:
        raise ValueError("its rows do not have the same number of columns" if rows else "it has no row")
    for number, row in enumerate(rows):
        for text in row:
            if not _number_of(text):
                raise ValueError(f"row {number}: {text!r} is not a number")
    is_integer = all(text.strip().lstrip("+-").isdecimal() for row in rows for text in row)
    return np.array([list(map(int if is_integer else float, row)) for row in rows])


def _number_of(text: str) -> bool:
    """Return whether a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _forms() -> str:
    return "; ".join(f"--metric {name}: {form}" for name, form in FORMS.items())


def _require_count(path: Path, labels: int, count: int) -> None:
    if labels != count:
        raise RequestError(
            f"labels {path}: {plural(labels, 'label')} for {plural(count, 'vector')}", "give a label for each vector"
        )


def _integers(path: Path, what: str, values: Array, limit: int) -> Array:
    """Return values as int64; RequestError for fractions, NaN, and values below 0 or not below `limit`."""
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.round(values)).all()):
        raise RequestError(f"labels {path}: a {what} is NaN or no integer", f"integers from 0 to {limit - 1}")
    wrong = np.flatnonzero((values < 0) | (values >= limit))
    if len(wrong):
        raise RequestError(
            f"labels {path}: {what} {values[wrong[0]]:g} in row {wrong[0]:,}", f"a {what} is from 0 to {limit - 1:,}"
        )
    integers: Array = values.astype(np.int64)
    return integers


def _classes(path: Path, arrays: Sequence[Array], head: Head, count: int) -> Labels:
    values = arrays[0]
    if len(arrays) > 1 or values.size != len(values) or values.dtype.kind not in "iu":
        raise RequestError(
            f"labels {path}: {values.dtype} of shape {values.shape}, --metric accuracy", FORMS["accuracy"]
        )
    _require_count(path, len(values), count)
    return Labels("accuracy", count, head.size, classes=_integers(path, "class", values.reshape(-1), head.size))


def _targets(path: Path, arrays: Sequence[Array], head: Head, count: int) -> Labels:
    values = arrays[0].astype(np.float64)
    _require_count(path, len(values), count)
    if len(arrays) > 1 or values.size != count * head.size:
        others = f"; or {FORMS['accuracy']}" if "accuracy" in head.metrics else ""
        raise RequestError(
            f"labels {path}: {arrays[0].dtype} of shape {values.shape}, --metric regression",
            f"targets of shape ({count}, {head.size}){others}",
        )
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise RequestError(f"labels {path}: NaN or infinite in row {row:,}", "finite targets")
    return Labels("regression", count, head.size, targets=values.reshape(count, head.size))


def _boxes(path: Path, arrays: Sequence[Array], head: Head, count: int) -> Labels:
    if len(arrays) == 1:
        if arrays[0].ndim != 2 or arrays[0].shape[1] != COLUMNS:
            raise RequestError(f"labels {path}: shape {arrays[0].shape}, --metric detection", FORMS["detection"])
        arrays = arrays[0][:, 0], arrays[0][:, 1], arrays[0][:, 2:]
    vectors, classes, corners = arrays
    if not vectors.shape == classes.shape == corners.shape[:1] or corners.shape[1:] != (4,):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise RequestError(f"labels {path}: arrays of shapes {shapes}", "vectors (m,), classes (m,), corners (m, 4)")
    corners = corners.astype(np.float64)
    if not (np.isfinite(corners).all() and (corners[:, 2:] >= corners[:, :2]).all()):
        raise RequestError(f"labels {path}: a box is not finite, or ends before it begins", "y1 <= y2 and x1 <= x2")
    places = _integers(path, "vector", vectors, count), _integers(path, "class", classes, head.size)
    order = np.argsort(places[0], kind="stable")
    return Labels("detection", count, head.size, boxes=Boxes(*(array[order] for array in (*places, corners))))


def load(path: Path, network: Network, count: int) -> Labels:
    """Return the labels that `Labels.save` wrote into a run folder; RequestError as of `read`."""
    with ZipFile(path) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
    metric = next((name for name in METRICS if {*ARRAYS[name]} == names), None)
    return read(path, network, count, metric)
