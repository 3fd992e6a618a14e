"""The search: one vector, the layers up to the first wrong one, as few before it as possible, inputs and channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from harness.analysis.minimise import minimise
from harness.applications.judge.reduction.cut import OPERATORS, part, with_channels
from harness.applications.judge.reduction.engine import CommandEngine, wrong
from harness.core.arrays import Array
from harness.core.errors import RequestError, ToolError
from harness.core.text import plural
from harness.model.network import Network
from harness.operators.base import Layer
from harness.reference.specification import SpecificationReference

QUESTIONS = 24
"""Runs of the engine that make a vector plainer, at most."""


def expected_runs(network: Network) -> int:
    """Return about how often the engine is run."""
    return QUESTIONS + 2 * len(network.layers).bit_length() + 6


@dataclass(frozen=True, eq=False)
class Failing:
    """A network and vectors (n, K) for which the engine is wrong, and what was left out so far."""

    network: Network
    vectors: Array
    steps: tuple[str, ...] = field(default=())

    def then(self, step: str, network: Network | None = None, vectors: Array | None = None) -> Failing:
        """Return a smaller one."""
        smaller = self.vectors if vectors is None else vectors
        return replace(self, network=network or self.network, vectors=smaller, steps=(*self.steps, step))


class Reduction:
    """The search with one engine; `note` tells what was left out."""

    def __init__(self, engine: CommandEngine, note: Callable[[str], object]) -> None:
        self._engine, self._note = engine, note

    def reduce(self, network: Network, vectors: Array) -> Failing | None:
        """Return the smallest failing part that is found; None if the engine is right for all vectors.

        Raises ToolError if the engine does not compute the whole model.
        """
        failing = self._failing(network, vectors)
        if not failing.any():
            return None
        case = Failing(network, vectors)
        for step in (self._one_vector, self._cut_behind, self._cut_before, self._fewer_channels, self._plainer_vector):
            smaller = step(case)
            if smaller.steps != case.steps:
                self._note(f"{smaller.steps[-1]} ({plural(self._engine.runs, 'run')} of the engine)")
            case = smaller
        return case

    def _failing(self, network: Network, vectors: Array) -> npt.NDArray[np.bool_]:
        masks = wrong(network, vectors, self._engine.outputs(network, vectors)).values()
        failing: npt.NDArray[np.bool_] = np.any([mask.any(axis=1) for mask in masks], axis=0)
        return failing

    def _fails(self, network: Network, vectors: Array) -> bool:
        """Return whether the engine is wrong; a part that it does not run is no smaller failing one."""
        try:
            return bool(self._failing(network, vectors).any())
        except ToolError:
            return False

    def _one_vector(self, case: Failing) -> Failing:
        first = int(self._failing(case.network, case.vectors).argmax())
        alone = case.vectors[first : first + 1]
        if len(case.vectors) > 1 and self._fails(case.network, alone):
            return case.then(f"vector {first} alone", vectors=alone)
        return case

    def _cut_behind(self, case: Failing) -> Failing:
        """Find the first layer that differs, by bisection, and make it the output."""
        layers = case.network.layers
        low, high = 0, len(layers) - 1
        best = self._up_to(case, high)
        while low < high:
            middle = (low + high) // 2
            smaller = self._up_to(case, middle)
            if smaller is None:
                low = middle + 1
            else:
                best, high = smaller, middle
        if best is None:
            return case
        left_out = len(layers) - len(best.layers)
        if not left_out:
            return replace(case, network=best)
        return case.then(f"without {plural(left_out, 'layer')} that {best.layers[-1].name} does not need", best)

    def _up_to(self, case: Failing, index: int) -> Network | None:
        """Return the part that ends with a layer, if it fails."""
        try:
            smaller = part(case.network, case.network.layers[index].output.name)
        except RequestError:
            return None
        return smaller if self._fails(smaller, case.vectors) else None

    def _cut_before(self, case: Failing) -> Failing:
        """Keep the last layer alone, or the last two, four, ...; their inputs are the specified ones."""
        layers, kept = case.network.layers, 1
        activations = SpecificationReference(case.network).activations(case.vectors)
        known = case.network.values(case.vectors)
        known |= {layer.output.name: values for layer, values in zip(layers, activations, strict=True)}
        while kept < len(layers):
            begin = _read_before(layers[-kept:])
            try:
                smaller = part(case.network, layers[-1].output.name, begin)
                vectors = smaller.vectors({tensor.name: known[tensor.name] for tensor in smaller.inputs})
            except RequestError:
                kept *= 2
                continue
            if self._fails(smaller, vectors):
                step = f"{plural(len(smaller.layers), 'layer')} of {len(layers)}, from {', '.join(sorted(begin))} on"
                return case.then(step, smaller, vectors)
            kept *= 2
        return case

    def _fewer_channels(self, case: Failing) -> Failing:
        """Keep one channel of the last layer that differs."""
        layer = case.network.layers[-1]
        if layer.operator not in OPERATORS or len(layer.output.shape) == 0 or layer.output.shape[0] < 2:
            return case
        masks = wrong(case.network, case.vectors, self._engine.outputs(case.network, case.vectors))
        if len(masks) > 1:
            return case
        [mask] = masks.values()
        channels = mask.reshape(len(mask), layer.output.shape[0], -1).any(axis=(0, 2))
        for channel in np.flatnonzero(channels)[:3].tolist():
            try:
                smaller = with_channels(case.network, [channel])
            except RequestError:
                continue
            if smaller is not None and self._fails(smaller, case.vectors):
                return case.then(f"channel {channel} of {layer.name} alone", smaller)
        return case

    def _plainer_vector(self, case: Failing) -> Failing:
        """Make as many inputs 0 as possible, and round the others."""
        if len(case.network.inputs) > 1 or len(case.vectors) > 1:
            return case

        def fails(candidates: Array) -> npt.NDArray[np.bool_]:
            try:
                return self._failing(case.network, candidates)
            except ToolError:
                return np.zeros(len(candidates), np.bool_)

        minimal = minimise(case.vectors[0], fails, QUESTIONS)
        if minimal is None or np.array_equal(minimal.vector, case.vectors[0]):
            return case
        step = f"{plural(minimal.inputs, 'input')} of {case.vectors.shape[1]} other than 0"
        return case.then(step, vectors=minimal.vector[None])


def _read_before(layers: Sequence[Layer]) -> set[str]:
    """Return the activations that these layers read and none of them writes."""
    return set(_sources(layers)) - {layer.output.name for layer in layers}


def _sources(layers: Sequence[Layer]) -> Iterator[str]:
    for layer in layers:
        yield from layer.sources
