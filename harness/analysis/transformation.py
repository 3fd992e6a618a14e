"""A network before and after transforms: how many values of its outputs differ, and by how much.

All values are those of the specification.  ONNX Runtime without optimisation gives a second opinion where all bits must
stay: the specification reads both models with their constants computed, ONNX Runtime reads the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from harness.analysis.compare import bits
from harness.core.arrays import MEMORY_BUDGET, Array
from harness.model import transforms
from harness.model.float_network import Floats32
from harness.model.importer import steps
from harness.model.network import Network
from harness.model.onnx_runtime.sessions import refused, session
from harness.model.transforms.edit import Fold
from harness.operators.float_errors import within_range
from harness.operators.pointwise import ulp_of
from harness.operators.tensor import FLOAT32
from harness.reference.runtime import shaped, with_free_batch
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import stimuli

BOUND_VECTORS = 16  # of which every activation is kept
Outputs = Mapping[str, Array]
"""Values of the outputs of a network by name, (vectors, size) each."""


@dataclass(frozen=True)
class Measured:
    """The number of `values` that differ in a bit, and the largest difference, absolute and in ulp of the value before.

    Two values that are no numbers count as equal, as their bits are not specified.
    """

    values: int
    differing: int
    largest_difference: float
    largest_difference_ulp: float
    largest_value: float


@dataclass(frozen=True)
class Report:
    """A transform, the names of the nodes that it removed, and why it kept others; measurements if it removed any.

    `share_of_bound` is the largest difference of a folded layer on its own inputs as a share of the a-priori bound.
    """

    name: str
    keeps_bits: bool
    nodes: tuple[str, ...]
    kept: tuple[str, ...]
    measured: Measured | None = None
    share_of_bound: float | None = None


@dataclass(frozen=True, eq=False)
class Transformed:
    """The new model, the reports of its transforms, and the difference of its outputs from those of the file."""

    onnx_bytes: bytes
    reports: tuple[Report, ...]
    measured: Measured


def transform(onnx_bytes: bytes, name: str, asked: Collection[str], count: int, seed: int) -> Transformed:
    """Apply the transforms that are asked for, as `transforms.apply` does, and compare on `count` seeded vectors.

    Raises RuntimeError, which is a bug, for a transform that breaks its claim.
    """
    network = transforms.original(onnx_bytes, name)
    vectors = stimuli(network, count, seed).chunk(0, count)
    first = before = specified(network, vectors)
    reports = []
    for step in transforms.apply(onnx_bytes, name, asked):
        keeps_bits = transforms.TRANSFORMS[step.transform].keeps_bits
        report = Report(step.transform, keeps_bits, step.applied.nodes, step.applied.kept)
        if step.applied.nodes:
            after = specified(step.network, vectors)
            share = share_of_bound(network, step.network, step.applied.folds, vectors[:BOUND_VECTORS])
            report = replace(report, measured=measure(before, after), share_of_bound=share)
            _require(report, report.measured, "the specification")
            if keeps_bits:
                runs = (computed(network, model, vectors) for model in (onnx_bytes, step.onnx_bytes))
                _require(report, measure(*runs), "ONNX Runtime")
            network, before = step.network, after
        reports.append(report)
        onnx_bytes = step.onnx_bytes
    return Transformed(onnx_bytes, tuple(reports), measure(first, before))


def _require(report: Report, measured: Measured | None, engine: str) -> None:
    """Raise RuntimeError if the transform breaks its claim."""
    if report.keeps_bits and measured and measured.differing:
        raise RuntimeError(
            f"transform {report.name!r} claims to leave all bits unchanged, but {engine} gives {measured.differing} "
            f"other values of {measured.values}, by up to {measured.largest_difference:.3g}"
        )
    if report.share_of_bound is not None and not report.share_of_bound <= 1:
        raise RuntimeError(
            f"transform {report.name!r} changes the function of real numbers: a value differs by "
            f"{report.share_of_bound:.3g} times the largest difference that roundings can make"
        )


def specified(network: Network, vectors: Floats32) -> Outputs:
    """Return the outputs of the network for float32 (n, K) vectors according to the specification."""
    reference = SpecificationReference(network)
    places = {layer.output.name: place for place, layer in enumerate(network.layers)}
    names = [value.name for value in onnx.load_model_from_string(network.onnx_bytes).graph.output]
    found = []
    for part in _parts(network, vectors):
        activations = reference.activations(part)
        found.append([activations[places[name]] for name in names])
    return {name: np.concatenate(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}


def computed(network: Network, onnx_bytes: bytes, vectors: Floats32) -> Outputs:
    """Return the outputs of a model with the input of `network` according to ONNX Runtime without optimisation.

    Raises RequestError where ONNX Runtime refuses the model.
    """
    model = with_free_batch(replace(network, onnx_bytes=onnx_bytes))
    names, found = [output.name for output in model.graph.output], []
    try:
        prepared = session(model.SerializeToString(), 1, optimised=False)
        for part in _parts(network, vectors):
            outputs = prepared.run(names, shaped(network, part))
            found.append([output.reshape(len(part), -1) for output in outputs])
    except Exception as error:  # its exceptions have no common base of their own
        raise refused(network.name, error) from error
    return {name: np.concatenate(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}


def _parts(network: Network, vectors: Floats32) -> Iterator[Floats32]:
    """Yield as many vectors at once as have their activations within the memory budget."""
    at_once = max(MEMORY_BUDGET // sum(layer.size * layer.dtype.itemsize for layer in network.layers), 1)
    yield from (vectors[start : start + at_once] for start in range(0, len(vectors), at_once))


def measure(before: Outputs, after: Outputs) -> Measured:
    """Compare all outputs; raises KeyError or ValueError if their names, shapes or types differ."""
    difference = ulp = largest = 0.0
    values = differing = 0
    for name, one in before.items():
        other = after[name]
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise ValueError(f"output {name!r}: {one.dtype}{one.shape} against {other.dtype}{other.shape}")
        numbers = ~(np.isnan(one) & np.isnan(other))
        different = (bits(one) != bits(other)) & numbers
        with np.errstate(all="ignore"):
            distance = np.abs(one[different].astype(np.float64) - other[different])
            distance = np.where(np.isnan(distance), np.inf, distance)  # one of the two is no number
            in_ulp = np.where(np.isfinite(distance), distance / ulp_of(one[different]), np.inf)
        values, differing = values + one.size, differing + int(np.count_nonzero(different))
        difference = max(difference, float(distance.max(initial=0)))
        ulp = max(ulp, float(in_ulp.max(initial=0)) if one.dtype == FLOAT32 else 0)
        largest = max(largest, float(np.abs(one[np.isfinite(one)].astype(np.float64)).max(initial=0)))
    return Measured(values, differing, difference, ulp, largest)


def share_of_bound(before: Network, after: Network, folds: Sequence[Fold], vectors: Floats32) -> float | None:
    """Return the largest difference of a folded layer on its own inputs, as a share of its a-priori bound.

    Both layers compute one function of real numbers from the same inputs, (n, size) in `before` for float32 (n, K)
    vectors; the bound is the sum of their bounds.  None without a fold.
    """
    if not folds:
        return None
    activations = SpecificationReference(before).activations(vectors)
    written = {layer.output.name: values for layer, values in zip(before.layers, activations, strict=True)}
    written |= before.values(vectors)
    shares = []
    for fold in folds:
        first, folded = (next(each for each in network.layers if each.node == fold.node) for network in (before, after))
        values = written[fold.source]
        bound, right = _bound(fold, first, folded, values.astype(np.float64)), written[fold.output]
        with np.errstate(invalid="ignore"):
            share = np.abs(folded.prepare()(values).astype(np.float64) - right) / bound
        counted = np.isfinite(bound) & np.isfinite(right)
        shares.append(float(np.where(np.isnan(share), np.inf, share)[counted].max(initial=0)))
    return max(shares)


def _bound(fold: Fold, first: Any, folded: Any, values: Array) -> Array:
    """Return the bound of the difference of two right results, infinite where the sum of `first` can overflow.

    `first` and `folded` are sums of float32 products.
    """
    read, error = steps.evaluate(fold.leading, values), steps.error_bound(fold.leading, values, FLOAT32)
    exact, magnitude = first.exact(read)
    carried = first.contract(error, np.abs(first.weights.astype(np.float64)))
    trailing = [steps.spread(step, first.spread) for step in fold.trailing]
    error = steps.error_bound(trailing, exact, FLOAT32, carried + first.radius(magnitude + carried))
    return within_range(error + folded.radius(folded.exact(values)[1]), magnitude)
