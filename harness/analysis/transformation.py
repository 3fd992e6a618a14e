"""The outputs of a network before and after a transform: how many values differ, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from harness.analysis.compare import bits
from harness.core.arrays import MEMORY_BUDGET, Array
from harness.model.float_network import Floats32
from harness.model.importer import steps
from harness.model.network import Network
from harness.model.onnx_runtime.sessions import refused, session
from harness.model.transforms.edit import Fold
from harness.operators.function import ulp_of
from harness.operators.tensor import FLOAT32
from harness.reference.runtime import with_free_batch
from harness.reference.specification import SpecificationReference

Outputs = Mapping[str, Array]
"""Values of the outputs of a network by name, (vectors, size) each."""


@dataclass(frozen=True)
class Measured:
    """How many of `values` differ in a bit, and the largest difference, absolute and in ulp of the value before.

    Two values that are no numbers count as equal, as their bits are not specified.
    """

    values: int
    differing: int
    largest_difference: float
    largest_difference_ulp: float
    largest_value: float


def specified(network: Network, vectors: Floats32) -> Outputs:
    """Return the outputs of the network for float32 (n, K) vectors according to the specification."""
    reference = SpecificationReference(network)
    names = [value.name for value in onnx.load_model_from_string(network.onnx_bytes).graph.output]
    places = {layer.output.name: place for place, layer in enumerate(network.layers)}
    bytes_a_vector = sum(layer.size * layer.dtype.itemsize for layer in network.layers)
    at_once = max(MEMORY_BUDGET // bytes_a_vector, 1)
    parts = (reference.activations(vectors[start : start + at_once]) for start in range(0, len(vectors), at_once))
    kept = [[part[places[name]] for name in names] for part in parts]
    return {name: np.concatenate(found) for name, found in zip(names, zip(*kept, strict=True), strict=True)}


def computed(network: Network, onnx_bytes: bytes, vectors: Floats32) -> Outputs:
    """Return the outputs of the model of the file itself according to ONNX Runtime without optimisation.

    `network` states the input.  Raises RequestError where ONNX Runtime refuses the model.
    """
    model = with_free_batch(replace(network, onnx_bytes=onnx_bytes)).SerializeToString()
    try:
        prepared = session(model, 1, optimised=False)
        given = {network.input.name: vectors.reshape(len(vectors), *network.input.shape)}
        names = [output.name for output in prepared.get_outputs()]
        outputs = prepared.run(names, given)
    except Exception as error:  # its exceptions have no common base of their own
        raise refused(network.name, error) from error
    return {name: output.reshape(len(vectors), -1) for name, output in zip(names, outputs, strict=True)}


def measure(before: Outputs, after: Outputs) -> Measured:
    """Compare all outputs; raises ValueError if their names, shapes or types differ."""
    if before.keys() != after.keys() or any(
        (before[name].shape, before[name].dtype) != (after[name].shape, after[name].dtype) for name in before
    ):
        raise ValueError(f"outputs {', '.join(before)} became {', '.join(after)}, or have another shape or type")
    values = differing = 0
    difference = ulp = largest = 0.0
    for name, one in before.items():
        other = after[name]
        different = bits(one) != bits(other)
        if one.dtype.kind == "f":
            different &= ~(np.isnan(one) & np.isnan(other))
        values, differing = values + one.size, differing + int(np.count_nonzero(different))
        with np.errstate(all="ignore"):
            exact = one[different].astype(np.float64)
            distance = np.abs(exact - other[different].astype(np.float64))
            distance = np.where(np.isnan(distance), np.inf, distance)  # one of the two is no number
            if one.dtype == np.float32:
                in_ulp = np.where(np.isfinite(distance), distance / ulp_of(one[different]), np.inf)
                ulp = max(ulp, float(in_ulp.max(initial=0)))
        difference = max(difference, float(distance.max(initial=0)))
        finite = np.abs(one[np.isfinite(one)].astype(np.float64))
        largest = max(largest, float(finite.max(initial=0)))
    return Measured(values, differing, difference, ulp, largest)


def share_of_bound(before: Network, after: Network, folds: Sequence[Fold], vectors: Floats32) -> float | None:
    """Return the largest difference of a folded layer on its own inputs, as a share of its a-priori bound.

    Both layers compute one function of real numbers from the same inputs, (n, size) in `before` for float32 (n, K)
    vectors; the bound is the sum of their bounds.  None without a fold.
    """
    written = {layer.output.name: values for layer, values in zip(
        before.layers, SpecificationReference(before).activations(vectors), strict=True)}  # fmt: skip
    written[before.input.name] = vectors
    shares = []
    for fold in folds:
        first, folded = (next(each for each in network.layers if each.node == fold.node) for network in (before, after))
        values, output = written[fold.source], written[fold.output]
        difference = np.abs(folded.prepare()(values).astype(np.float64) - output)
        share = difference / _bound(fold, first, folded, values)
        shares.append(float(share[np.isfinite(difference)].max(initial=0)))
    return max(shares, default=None)


def _bound(fold: Fold, first: Any, folded: Any, values: Array) -> Array:
    """Return the bound of the difference of two right results; `first` and `folded` are sums of float32 products."""
    values = values.astype(np.float64)
    read, error = steps.evaluate(fold.leading, values), steps.error_bound(fold.leading, values, FLOAT32)
    exact, magnitude = first.exact(read)
    carried = first.contract(error, np.abs(first.weights.astype(np.float64)))
    error = carried + first.radius(magnitude + carried)
    trailing = [steps.spread(step, first.spread) for step in fold.trailing]
    found: Array = steps.error_bound(trailing, exact, FLOAT32, error) + folded.radius(folded.exact(values)[1])
    return found


def require_same_function(transform: str, share: float | None) -> None:
    """Raise RuntimeError, which is a bug of the transform, if a folded layer is beyond the bound."""
    if share is not None and not share <= 1:
        raise RuntimeError(
            f"transform {transform!r} changes the function of real numbers: a value differs by {share:.3g} times the "
            "largest difference that roundings can make"
        )


def require_kept_bits(transform: str, engine: str, measured: Measured) -> None:
    """Raise RuntimeError, which is a bug of the transform, if a value differs."""
    if measured.differing:
        raise RuntimeError(
            f"transform {transform!r} claims to leave all bits unchanged, but {engine} gives {measured.differing} "
            f"other values of {measured.values}, the largest difference {measured.largest_difference:.3g}"
        )
