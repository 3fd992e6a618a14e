"""Expected activations, stimuli, and their coverage.

The exact specification and ONNX Runtime both compute the expected values, and each confirms the other; further engines
(`harness.reference.engines`) confirm both on request.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import __version__
from harness.core import strict_json
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
from harness.reference import engines as further
from harness.reference.integers import require_integers
from harness.reference.runtime import OnnxRuntimeReference, SeparateLayers
from harness.reference.specification import SpecificationReference
from harness.reference.whole_network import NOTHING, Whole, WholeNetwork, WholeOutput, max_ratio

__all__ = [
    "Defect",
    "EnginesDisagree",
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


class EnginesDisagree(ReferenceFailed):
    """Engines with other values than the specification, and the values of all of them at the first difference.

    `disagreement` has `layer`, `operator`, `vector`, `index` and, by the name of each engine, its value; NaN and the
    infinities are texts.
    """

    def __init__(self, message: str, hint: str, disagreement: dict[str, Any]) -> None:
        super().__init__(message, hint)
        self.disagreement = disagreement

    @property
    def details(self) -> dict[str, Any]:
        """Return the difference."""
        return {"disagreement": self.disagreement}


class Reference:
    """A network's activations by the exact specification, confirmed by ONNX Runtime.

    Both must agree on every byte.  If the network has layers with a tolerance (float sums, transcendental functions),
    ONNX Runtime computes each layer on the specified inputs of that layer, and each value must lie within the
    tolerance; layers without one must agree on every byte there, too.  The outputs of the whole model, with all
    optimisations, must lie within the bounds of the errors of all layers together, for the first vectors.

    `engines` names those that confirm it, ONNX Runtime (`ort`) and the specification among them.  Each further one
    computes all activations from the standard form of the network, under the same conditions as ONNX Runtime.

    `x64_quant_precision` asks ONNX Runtime for session.x64quantprecision=1.  `host` is the check of this machine, and
    `versions` are those of all engines.  Raises ReferenceFailed where this machine's products for the network's layers
    are wrong, and RequestError where an engine refuses the model, is unknown or is not installed.
    """

    def __init__(
        self,
        network: Network,
        threads: int = 2,
        *,
        x64_quant_precision: bool = True,
        engines: Sequence[str] = further.ALWAYS,
    ) -> None:
        versions = further.versions(engines)
        self._check = functools.partial(
            check_network, network, threads=threads, x64_quant_precision=x64_quant_precision
        )
        self.host = self._check(rows=ROWS)
        require_trusted(self.host)
        self._network, self._layers = network, network.layers
        kind = SeparateLayers if any(layer.errors.has_tolerance for layer in network.layers) else OnnxRuntimeReference
        self._runtime = kind(network, threads, x64_quant_precision=x64_quant_precision)
        separate = isinstance(self._runtime, SeparateLayers)
        self._whole = WholeNetwork(network, threads, x64_quant_precision=x64_quant_precision) if separate else None
        self._specification = SpecificationReference(network, threads)
        self._is_checked = False
        self._further = {name: further.StandardReference(network, name, separate=separate) for name in versions}
        self.versions = {"ort": self.host.onnxruntime, "specification": __version__, **versions}

    def activations(self, vectors: Array) -> tuple[Array, ...]:
        """Return the activations of `expected`."""
        return self.expected(vectors).activations

    def expected(self, vectors: Array, first: int = 0) -> Expected:
        """Return the layers' outputs for vectors (n, K): (n, width) each, of the model's types, in layer order.

        `first` is the number of the first vector.  Raises ReferenceFailed if products of n rows are wrong on this
        machine, if the implementations differ (it names the first differing activation), if ONNX Runtime returns other
        outputs when the inner activations are not requested, and if a value is no number.
        """
        if isinstance(self._runtime, SeparateLayers):
            return self._within_tolerance(self._runtime, vectors, first)
        given = vectors[:GIVEN_VECTORS]
        require_trusted(self._check(rows=sorted({len(vectors), len(given)} - {0})))
        runtime = self._runtime.activations(vectors)
        right = self._specified(vectors)
        require_numbers(self._layers, right, first)
        given_vectors = self._network.values(vectors)
        others = {name: engine.activations(vectors) for name, engine in self._further.items()}
        self._require_engines(runtime, others, right, given_vectors, first)
        require_agreement(self._layers, runtime, right, self.host, given_vectors, first)
        require_given_outputs(self._layers, runtime, self._runtime.given_outputs(given), self.host)
        return Expected(runtime, (None,) * len(runtime))

    def _specified(self, vectors: Array) -> tuple[Array, ...]:
        """Return the specified activations; the first of the first call are checked in integers."""
        right = self._specification.activations(vectors)
        if self._is_checked or not len(vectors):
            return right
        self._is_checked = True
        of_layers = {layer.output.name: values for layer, values in zip(self._layers, right, strict=True)}
        require_integers(self._layers, self._network.values(vectors) | of_layers)
        return right

    def _require_engines(
        self,
        runtime: tuple[Array, ...],
        others: Mapping[str, tuple[Array, ...]],
        right: tuple[Array, ...],
        given: Mapping[str, Array],
        first: int,
    ) -> None:
        """Raise EnginesDisagree if further engines were asked and not all agree."""
        if others:
            require_engines(self._layers, {"ort": runtime, **others}, right, self.versions, given, first)

    def _within_tolerance(self, separate: SeparateLayers, vectors: Array, first: int) -> Expected:
        """Return the specified activations after a comparison of a few vectors at once, which bounds the memory."""
        require_trusted(self._check(rows=sorted({min(BLOCK, len(vectors)), len(vectors) % BLOCK} - {0})))
        right = self._specified(vectors)
        ratios: list[tuple[float | None, ...]] = []
        for start in range(0, len(vectors), BLOCK):
            part = vectors[start : start + BLOCK]
            expected = tuple(values[start : start + BLOCK] for values in right)
            runtime = separate.activations(part, expected)
            given, number = self._network.values(part), first + start
            others = {name: engine.activations(part, expected) for name, engine in self._further.items()}
            self._require_engines(runtime, others, expected, given, number)
            ratios.append(require_within_tolerance(self._layers, runtime, expected, self.host, given, number))
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
                "give vectors with which nothing overflows, by an input box in the metadata or --vectors FILE",
            )


def require_agreement(
    layers: tuple[Layer, ...],
    runtime: tuple[Array, ...],
    specification: tuple[Array, ...],
    host: HostCheck,
    given: Mapping[str, Array],
    first: int = 0,
) -> None:
    """Raise ReferenceFailed at the first layer's first activation whose bytes differ, with the known defect's name.

    `given` are the network's inputs by their name, `first` is the number of the first vector.
    """
    written = dict(given)
    for layer, one, other in zip(layers, runtime, specification, strict=True):
        word = np.dtype(f"uint{8 * layer.dtype.itemsize}")
        different = np.flatnonzero(one.view(word) != other.view(word))
        if different.size:
            vector, column = divmod(int(different[0]), layer.size)
            defect = classify_layer(layer, written[layer.sources[0]], other, one)
            raise ReferenceFailed(
                f"layer {layer.name!r} ({layer.operator}), vector {first + vector}, column {column}: ONNX Runtime says "
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
            require_agreement((layer,), (one,), (right,), host, written, first)
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


def require_engines(
    layers: tuple[Layer, ...],
    found: Mapping[str, tuple[Array, ...]],
    specification: tuple[Array, ...],
    versions: Mapping[str, str],
    given: Mapping[str, Array],
    first: int = 0,
) -> None:
    """Raise EnginesDisagree at the first activation for which an engine has another value than the specification.

    `found` are the activations by engine, (n, size) by layer, for the specified inputs of a layer with a tolerance;
    its values must lie within that, all others must agree on every byte.  `given` are the network's inputs by their
    name, `first` is the number of the first vector.
    """
    written = {**given, **{layer.output.name: right for layer, right in zip(layers, specification, strict=True)}}
    for index, (layer, right) in enumerate(zip(layers, specification, strict=True)):
        tolerance = layer.tolerance([written[source] for source in layer.sources], right)
        wrong = {name: _beyond(values[index], right, tolerance) for name, values in found.items()}
        everywhere = np.logical_or.reduce(list(wrong.values()))
        if not everywhere.any():
            continue
        vector, column = (int(place) for place in np.argwhere(everywhere)[0])
        values = {"specification": right, **{name: activations[index] for name, activations in found.items()}}
        shown = {name: values[name][vector, column] for name in versions}
        texts = ", ".join(f"{name} {versions[name]}: {value}" for name, value in shown.items())
        differing = ", ".join(f"{name} in {mask.sum():,}" for name, mask in wrong.items() if mask.any())
        bound = "" if tolerance is None else f", further apart than the bound {tolerance[vector, column]:.3g}"
        known, hint = "", "one of these implementations is wrong: report the model and this message"
        if tolerance is None and wrong["ort"].any():
            defect = classify_layer(layer, written[layer.sources[0]], right, found["ort"][index])
            known, hint = f"; ONNX Runtime: {defect.value}", defect.remedy
        place = {"layer": layer.name, "operator": layer.operator, "vector": first + vector, "index": column}
        raise EnginesDisagree(
            f"engines disagree in layer {layer.name!r} ({layer.operator}), vector {first + vector}, column {column}: "
            f"{texts}{bound}; others than the specification: {differing} of {right.size:,} activations{known}",
            hint,
            {**place, "values": {name: strict_json.spelled(value.item()) for name, value in shown.items()}},
        )


def _beyond(one: Array, right: Array, tolerance: Array | None) -> npt.NDArray[np.bool_]:
    """Return where an engine has another value: other bits, or beyond the tolerance."""
    if tolerance is not None:
        return ~(ratios_to(one, right, tolerance) <= 1)
    word = np.dtype(f"uint{8 * right.itemsize}")
    differing: npt.NDArray[np.bool_] = one.view(word) != right.view(word)
    return differing


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
