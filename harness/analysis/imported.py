"""A network imported from a TFLite file: what LiteRT computes for the file, beside the specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import MEMORY_BUDGET, Array
from harness.model.importer.tflite import Imported
from harness.model.network import Network
from harness.model.tflite.file import Scales, TfliteFile, encode
from harness.model.tflite.interpreter import Interpreter
from harness.operators.base import Layer
from harness.operators.tensor import FLOAT32
from harness.reference.stimuli import random_stream, uniform

BYTES_A_VALUE = 16
"""Memory for a value of an activation: LiteRT's value, the right value, and those of the comparison."""


def uniform_vectors(network: Network, count: int, seed: int) -> Array:
    """Return `count` seeded uniform vectors of the input box, (count, size of a vector)."""
    if any(tensor.dtype != FLOAT32 for tensor in network.inputs):
        return uniform(network, seed, count)
    low, high = network.box.view(np.float32)
    values = random_stream(seed, 0).random((count, len(low)), dtype=np.float32)
    vectors: Array = low + values * (high - low)
    return vectors.view(network.vector.dtype)


def parts(network: Network, count: int, seed: int) -> Iterator[Array]:
    """Yield the vectors, as many at once as have room with all activations."""
    vectors = uniform_vectors(network, count, seed)
    at_once = max(MEMORY_BUDGET // (BYTES_A_VALUE * sum(layer.size for layer in network.layers)), 1)
    yield from (vectors[start : start + at_once] for start in range(0, count, at_once))


@dataclass
class OperatorCheck:
    """An operator of a TFLite file: what LiteRT computes, compared with the network for LiteRT's own inputs."""

    name: str
    operator: str
    compared: int = 0
    differing: int = 0
    largest_difference: float = 0.0


def check_import(
    network: Network, file: TfliteFile, imported: Imported, count: int, seed: int, advance: Callable[[int], None]
) -> list[OperatorCheck]:
    """Run LiteRT on `count` seeded vectors, and compare every activation of the file with the network's layers."""
    written = [call for call in file.operators if call.outputs[0] in imported.activations]
    engine = Interpreter(encode(replace(file, outputs=tuple(call.outputs[0] for call in written))))
    layers = {layer.output.name: layer for layer in network.layers}
    evaluate = {name: layer.prepare() for name, layer in layers.items()}
    checks = {call.outputs[0]: OperatorCheck(imported.activations[call.outputs[0]], call.name) for call in written}
    [source] = file.inputs
    for part in parts(network, count, seed):
        known = network.values(part)
        start = _computed(imported.activations[source], known, layers, evaluate)
        stored = [_as_stored(vector, file.tensors[source].shape, image=source in imported.images) for vector in start]
        outputs = engine.run_all({source: vector} for vector in stored)
        values = {source: start} | {
            number: _as_onnx(outputs[number], image=number in imported.images) for number in checks
        }
        for call in written:
            inputs = {imported.activations[each]: values[each] for each in call.inputs if each in values}
            right = _computed(imported.activations[call.outputs[0]], known | inputs, layers, evaluate)
            _count(checks[call.outputs[0]], right, values[call.outputs[0]], file.tensors[call.outputs[0]].scales)
        advance(len(part))
    return list(checks.values())


def _computed(
    name: str, known: Mapping[str, Array], layers: Mapping[str, Layer], evaluate: Mapping[str, Callable[..., Array]]
) -> Array:
    """Return an activation of the network from those that are known."""
    if name in known:
        return known[name]
    return evaluate[name](*(_computed(source, known, layers, evaluate) for source in layers[name].sources))


def _as_stored(values: Array, shape: Sequence[int], *, image: bool) -> Array:
    if not image:
        return values
    _, height, width, channels = shape
    return np.ascontiguousarray(values.reshape(channels, height, width).transpose(1, 2, 0))


def _as_onnx(values: Array, *, image: bool) -> Array:
    moved = values.transpose(0, 3, 1, 2) if image else values
    return np.ascontiguousarray(moved).reshape(len(values), -1)


def _count(found: OperatorCheck, right: Array, actual: Array, scales: Scales | None) -> None:
    """Compare values; codes that are float32 in the network are the numbers that they stand for."""
    if right.dtype == np.float32 and actual.dtype != np.float32 and scales is not None:
        actual = (actual.astype(np.float32) - scales.zero_point) * scales.scale[0]
    differs = right != actual
    distance = np.abs(right.astype(np.float64) - actual.astype(np.float64))
    found.compared += right.size
    found.differing += int(np.count_nonzero(differs))
    found.largest_difference = max(found.largest_difference, float(distance.max(initial=0)))
