"""Expected activations, stimuli, and their coverage.

ONNX Runtime computes the expected values; an independent integer implementation confirms them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

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
from harness.reference.runtime import OnnxRuntimeReference
from harness.reference.specification import SpecificationReference

__all__ = ["Defect", "HostCheck", "OnnxRuntimeReference", "Reference", "SpecificationReference", "check_host"]

GIVEN_VECTORS = 1024
"""The first vectors of every call also go through the model as its file has it."""


class Reference:
    """A network's activations by ONNX Runtime and by the integer specification, which must agree on every byte.

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
        self._runtime = OnnxRuntimeReference(network, threads, x64_quant_precision=x64_quant_precision)
        self._specification = SpecificationReference(network, threads)

    def activations(self, vectors: npt.NDArray[np.float32]) -> tuple[Array, ...]:
        """Return the layers' outputs for float32 (n, K) vectors: (n, width) each, of the model's types, in layer order.

        Raises ReferenceFailed if products of n rows are wrong on this machine, if the two implementations differ (it
        names the first differing activation), and if ONNX Runtime returns other outputs when the inner activations are
        not requested.
        """
        given = vectors[:GIVEN_VECTORS]
        require_trusted(self._check(rows=sorted({len(vectors), len(given)} - {0})))
        runtime = self._runtime.activations(vectors)
        right = self._specification.activations(vectors)
        require_agreement(self._layers, runtime, right, self.host, {self._input_name: vectors})
        require_given_outputs(self._layers, runtime, self._runtime.given_outputs(given), self.host)
        return runtime


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
