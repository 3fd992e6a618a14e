"""The self-test of a library: vectors, the expected bytes of the outputs, and a checksum of every layer."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.plan.plan import Plan
from harness.reference.stimuli import uniform
from harness.reference.stream import reference_of

SEED = 1
LARGEST = 256 << 10
"""Bytes of the inputs of all vectors: a microcontroller has to hold them."""


@dataclass(frozen=True)
class SelfTest:
    """`inputs` has the values of each input, (vectors, size); `outputs` those of each output layer, by its index.

    `checksums` are the CRC-32 of the little-endian bytes of every layer, (vectors, layers); 0 for a layer whose
    activations later ones overwrite.
    """

    inputs: Sequence[Array]
    outputs: dict[int, Array]
    checksums: Array

    @property
    def count(self) -> int:
        """The number of vectors."""
        return len(self.checksums)


def count_of(network: Network, most: int) -> int:
    """Return the number of vectors: whole streams, at least one, and as many of those asked for as have room."""
    fitting = max(LARGEST // network.record.itemsize, 1)
    streams = max(min(most, fitting) // network.steps, 1)
    return streams * network.steps


def self_test(plan: Plan, most: int) -> SelfTest:
    """Return the self-test of at most `most` vectors.

    RequestError if later layers overwrite an output; ReferenceFailed if the engines of the reference disagree.
    """
    network = plan.network
    for index in outputs_of(network):
        if not plan.kept[index]:
            raise RequestError(
                f"output {network.layers[index].output.name}: later layers overwrite it in the plan",
                "omit --buffers reuse: an export returns all outputs of the model",
            )
    vectors = uniform(network, SEED, count_of(network, most))  # a run also searches for ties, which takes long
    activations = reference_of(network).activations(vectors)
    checksums = np.zeros((len(vectors), len(network.layers)), np.uint32)
    for index, values in enumerate(activations):
        if plan.kept[index]:
            checksums[:, index] = [zlib.crc32(_little(row)) for row in values]
    inputs = list(network.values(vectors).values())
    return SelfTest(inputs, {index: activations[index] for index in outputs_of(network)}, checksums)


def _little(values: Array) -> bytes:
    return values.astype(values.dtype.newbyteorder("<")).tobytes()


def outputs_of(network: Network) -> list[int]:
    """Return the layers that are outputs of the ONNX file; without any those that no other reads."""
    named = {output.name for output in onnx.load_from_string(network.onnx_bytes).graph.output}
    read = {name for layer in network.layers for name in layer.sources}
    outputs = [layer.output.name for layer in network.layers]
    stated = [index for index, name in enumerate(outputs) if name in named]
    return stated or [index for index, name in enumerate(outputs) if name not in read]
