"""Expected activations, stimuli, and their coverage.

The exact specification and ONNX Runtime both compute the expected values, and each confirms the other.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.model.network import Network
from harness.model.onnx_runtime.hostcheck import (
    ROWS,
    Defect,
    HostCheck,
    check_host,
    check_network,
    classify_layer,
    require_trusted,
)
from harness.operators.base import Layer
from harness.operators.exact import BLOCK
from harness.reference.runtime import OnnxRuntimeReference, SeparateLayers
from harness.reference.specification import SpecificationReference
from harness.reference.whole_network import NOTHING, Whole, WholeNetwork, WholeOutput, max_ratio

__all__ = [
    "Defect",
    "HostCheck",
    "OnnxRuntimeReference",
    "Reference",
    "SpecificationReference",
    "Whole",
    "WholeOutput",
    "check_host",
    "max_ratio",
    "ratios_to",
    "require_numbers",
]

GIVEN_VECTORS = 1024
"""The first vectors of every call also go through the model as its file has it."""


@dataclass(frozen=True, eq=False)
class Expected:
    """The right activations of some vectors, (n, size) by layer, and how near to a bound ONNX Runtime came.

    `ratios` has for each layer the largest |ONNX Runtime - specification| / tolerance of a value, at most 1; None if
    the layer has no tolerance, and every bit agreed.  `whole` compares ONNX Runtime with the whole
    model with them; it is empty if the network has no tolerances.
    """

    activations: tuple[Array, ...]
    ratios: tuple[float | None, ...]
    whole: Whole = NOTHING


class Reference:
    """A network's activations by the exact specification, confirmed by ONNX Runtime.

    Both must agree on every byte.  If the network has layers with a tolerance (float sums, transcendental functions),
    ONNX Runtime computes each layer on the specified inputs of that layer, and each value must lie within the
    tolerance; layers without one must agree on every byte there, too.  The outputs of the whole model, with all
    optimisations, must lie within the bounds of the errors of all layers together, for the first vectors.

    `x64_quant_precision` asks ONNX Runtime for session.x64quantprecision=1.  `host` is the check of this machine.
    Raises ReferenceFailed where this machine's products for the network's layers are wrong, and
    RequestError where ONNX Runtime refuses the model.
    """

    def __init__(self, network: Network, threads: int = 2, *, x64_quant_precision: bool = True) -> None:
        self._check = functools.partial(
            check_network, network, threads=threads, x64_quant_precision=x64_quant_precision
        )
        self.host = self._check(rows=ROWS)
        require_trusted(self.host)
        self._input_name, self._layers = network.input.name, network.layers
        kind = SeparateLayers if any(layer.has_tolerance for layer in network.layers) else OnnxRuntimeReference
        self._runtime = kind(network, threads, x64_quant_precision=x64_quant_precision)
        separate = isinstance(self._runtime, SeparateLayers)
        self._whole = WholeNetwork(network, threads, x64_quant_precision=x64_quant_precision) if separate else None
        self._specification = SpecificationReference(network, threads)

    def activations(self, vectors: npt.NDArray[np.float32]) -> tuple[Array, ...]:
        """Return the activations of `expected`."""
        return self.expected(vectors).activations

    def expected(self, vectors: npt.NDArray[np.float32]) -> Expected:
        """Return the layers' outputs for float32 (n, K) vectors: (n, width) each, of the model's types, in layer order.

        Raises ReferenceFailed if products of n rows are wrong on this machine, if the two implementations differ (it
        names the first differing activation), if ONNX Runtime returns other outputs when the inner activations are
        not requested, and if a value is no number.
        """
        if isinstance(self._runtime, SeparateLayers):
            return self._within_tolerance(self._runtime, vectors)
        given = vectors[:GIVEN_VECTORS]
        require_trusted(self._check(rows=sorted({len(vectors), len(given)} - {0})))
        runtime = self._runtime.activations(vectors)
        right = self._specification.activations(vectors)
        require_numbers(self._layers, right)
        require_agreement(self._layers, runtime, right, self.host, {self._input_name: vectors})
        require_given_outputs(self._layers, runtime, self._runtime.given_outputs(given), self.host)
        return Expected(runtime, (None,) * len(runtime))

    def _within_tolerance(self, separate: SeparateLayers, vectors: npt.NDArray[np.float32]) -> Expected:
        """Return the specified activations after a comparison of a few vectors at once, which bounds the memory."""
        require_trusted(self._check(rows=sorted({min(BLOCK, len(vectors)), len(vectors) % BLOCK} - {0})))
        right = self._specification.activations(vectors)
        ratios: list[tuple[float | None, ...]] = []
        for start in range(0, len(vectors), BLOCK):
            part = vectors[start : start + BLOCK]
            expected = tuple(values[start : start + BLOCK] for values in right)
            runtime = separate.activations(part, expected)
            given = {self._input_name: part}
            ratios.append(require_within_tolerance(self._layers, runtime, expected, self.host, given, start))
        largest = tuple(
            None if None in of_layer else max(map(float, of_layer)) for of_layer in zip(*ratios, strict=True)
        )
        return Expected(right, largest, self._whole.compare(vectors, right, self.host) if self._whole else NOTHING)


def require_numbers(layers: tuple[Layer, ...], specification: tuple[Array, ...], first: int = 0) -> None:
    """Raise ReferenceFailed at the first specified value that is NaN; `first` is the number of the first vector."""
    for layer, right in zip(layers, specification, strict=True):
        if layer.dtype.kind == "f" and np.isnan(right).any():
            vector, column = np.argwhere(np.isnan(right))[0]
            raise ReferenceFailed(
                f"layer {layer.name!r} ({layer.operator}), vector {first + vector}, column {column}: the specified "
                "value is no number (NaN), and IEEE 754 leaves its bits open",
                "give vectors whose sums do not overflow, by an input box in the metadata or --vectors FILE",
            )


def require_agreement(
    layers: tuple[Layer, ...],
    runtime: tuple[Array, ...],
    specification: tuple[Array, ...],
    host: HostCheck,
    given: Mapping[str, Array],
) -> None:
    """Raise ReferenceFailed at the first layer's first activation whose bytes differ, with the known defect's name.

    `given` are the network's inputs by their name.
    """
    written = dict(given)
    for layer, one, other in zip(layers, runtime, specification, strict=True):
        word = np.dtype(f"uint{8 * layer.dtype.itemsize}")
        different = np.flatnonzero(one.view(word) != other.view(word))
        if different.size:
            vector, column = divmod(int(different[0]), layer.size)
            defect = classify_layer(layer, written[layer.sources[0]], other, one)
            raise ReferenceFailed(
                f"layer {layer.name!r} ({layer.operator}), vector {vector}, column {column}: ONNX Runtime says "
                f"{one[vector, column]}, the specification {other[vector, column]} ({different.size} activations "
                f"differ; {host.place}): {defect.value}",
                defect.remedy,
            )
        written[layer.output.name] = other


def require_within_tolerance(
    layers: tuple[Layer, ...],
    runtime: tuple[Array, ...],
    specification: tuple[Array, ...],
    host: HostCheck,
    given: Mapping[str, Array],
    first: int = 0,
) -> tuple[float | None, ...]:
    """Return the largest ratio of difference and tolerance by layer; `first` is the number of the first vector.

    Raises ReferenceFailed at the first layer with a value beyond its tolerance, or another byte if it has none, or a
    value that is no number.
    """
    require_numbers(layers, specification, first)
    written = {**given, **{layer.output.name: right for layer, right in zip(layers, specification, strict=True)}}
    ratios: list[float | None] = []
    for layer, one, right in zip(layers, runtime, specification, strict=True):
        inputs = [written[source] for source in layer.sources]
        tolerance = layer.tolerance(inputs, right)
        if tolerance is None:
            require_agreement((layer,), (one,), (right,), host, written)
            ratios.append(None)
            continue
        ratio = ratios_to(one, right, tolerance)
        if not (ratio <= 1).all():
            vector, column = np.argwhere(~(ratio <= 1))[0]
            raise ReferenceFailed(
                f"layer {layer.name!r} ({layer.operator}), vector {first + vector}, column {column}: ONNX Runtime says "
                f"{one[vector, column]:.9g}, the specification {right[vector, column]:.9g}, further apart than the "
                f"bound {tolerance[vector, column]:.3g} ({np.count_nonzero(~(ratio <= 1))} activations; {host.place})",
                Defect.UNKNOWN.remedy,
            )
        ratios.append(float(ratio.max(initial=0)))
    return tuple(ratios)


def ratios_to(one: Array, right: Array, tolerance: Array) -> Array:
    """Return |one - right| / tolerance, 0 where both are equal, infinite where they differ without a finite bound."""
    with np.errstate(all="ignore"):
        ratio = np.abs(one.astype(np.float64) - right) / tolerance
    found: Array = np.where(one == right, 0, np.where(np.isfinite(tolerance), ratio, np.inf))
    return found


def require_given_outputs(
    layers: tuple[Layer, ...], runtime: tuple[Array, ...], given: dict[str, Array], host: HostCheck
) -> None:
    """Raise ReferenceFailed if an output of the unmodified model, (n, width), differs from the layer of that name.

    ONNX Runtime fuses operators whose results are not requested, and a fused operator may round differently.
    """
    for layer, activation in zip(layers, runtime, strict=True):
        output = given.get(layer.output.name)
        if output is None:
            continue
        word = np.dtype(f"uint{8 * layer.dtype.itemsize}")
        different = np.count_nonzero(output.view(word) != activation[: len(output)].view(word))
        if different:
            raise ReferenceFailed(
                f"output {layer.output.name!r}: ONNX Runtime gives {different} other values of {output.size} when no "
                f"activation within is an output ({host.place})",
                "its optimisation changes the values of this model: rewrite the layers so that they are not optimised",
            )
