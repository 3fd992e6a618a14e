"""Files of another form and a network, made of one another: what an engine computes, beside the specification.

LiteRT runs TFLite files, ONNX Runtime the standard form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from harness.analysis.compare import difference_map
from harness.analysis.imported import parts
from harness.core.arrays import Array
from harness.model import standard
from harness.model.network import Network
from harness.model.tflite.file import encode
from harness.model.tflite.interpreter import Interpreter
from harness.operators.base import Layer
from harness.reference import ratios_to
from harness.reference.runtime import GivenModel
from harness.targets import Claim
from harness.targets.litert.convert import Converted, convert_network
from harness.targets.litert.graph import Value


@dataclass
class LayerCheck:
    """A layer computed by an engine, compared with the specification for the inputs that the engine computed.

    `operators` are those of the file.  `ratio` is the largest |engine - specification| / tolerance of a bounded layer.
    """

    layer: Layer
    claim: Claim
    operators: tuple[str, ...]
    compared: int = 0
    differing: int = 0
    largest_difference: float = 0.0
    ratio: float = 0.0

    @property
    def holds(self) -> bool:
        """Return whether all values are those of the specification, or within the bound."""
        return self.differing == 0 if self.claim is Claim.EXACT else self.ratio <= 1


@dataclass
class ConversionCheck:
    """All layers, and whether the file without their outputs gives the same outputs of the network."""

    layers: list[LayerCheck]
    vectors: int
    operators: int
    """Operators of the file."""
    own: tuple[str, ...] = ()
    """Those of a TFLite file that XNNPACK does not run."""
    outputs_alike: bool = True

    @property
    def holds(self) -> bool:
        """Return whether every layer holds, in both files."""
        return self.outputs_alike and all(layer.holds for layer in self.layers)


def outputs_of(network: Network) -> list[str]:
    """Return the activations that no layer reads."""
    read = {name for layer in network.layers for name in layer.sources}
    return [layer.output.name for layer in network.layers if layer.output.name not in read]


def check(network: Network, file: Converted, count: int, seed: int, advance: Callable[[int], None]) -> ConversionCheck:
    """Run LiteRT on `count` seeded vectors; `advance` is called with the number of finished ones.

    `file` has the outputs of the network, a second file all activations.
    """
    layers = network.layers
    every = convert_network(network, [layer.output.name for layer in layers])
    full, plain = Interpreter(encode(every.file)), Interpreter(encode(file.file))
    conversion_check = ConversionCheck(
        [LayerCheck(layer, every.claims[layer.name], every.operators[layer.name]) for layer in layers],
        count,
        len(file.file.operators),
        plain.not_delegated(),
    )
    evaluate = [layer.prepare() for layer in layers]
    for part in parts(network, count, seed):
        values = network.values(part)
        outputs, last = full.run_all(_stored(every, values)), plain.run_all(_stored(file, values))
        for each, function in zip(conversion_check.layers, evaluate, strict=True):
            layer = each.layer
            values[layer.output.name] = actual = decoded(outputs, every.layers[layer.name], layer.dtype)
            _compare(each, function, [values[name] for name in layer.sources], actual)
        for layer in layers:
            if file.layers[layer.name].tensor in last:
                other = decoded(last, file.layers[layer.name], layer.dtype)
                conversion_check.outputs_alike &= not difference_map(values[layer.output.name], other).any()
        advance(len(part))
    return conversion_check


def _stored(file: Converted, values: Mapping[str, Array]) -> Iterator[dict[int, Array]]:
    """Yield the inputs of each vector, in the file's layout, by the numbers of their tensors."""
    for rows in zip(*values.values(), strict=True):
        named = zip(values, rows, strict=True)
        yield {file.inputs[name].tensor: encoded(row, file.inputs[name]) for name, row in named}


def check_standard(
    network: Network, model: onnx.ModelProto, count: int, seed: int, advance: Callable[[int], None]
) -> ConversionCheck:
    """Run ONNX Runtime on the standard form of a network for `count` seeded vectors, as `check` does with LiteRT."""
    written, layers = replace(network, onnx_bytes=model.SerializeToString()), network.layers
    every, plain = (GivenModel(written, all_activations=each) for each in (True, False))
    operators = standard.operators_of(model, network)
    claims = (Claim.BOUNDED if layer.errors.has_tolerance else Claim.EXACT for layer in layers)
    checks = [LayerCheck(layer, claim, operators[layer.name]) for layer, claim in zip(layers, claims, strict=True)]
    conversion_check = ConversionCheck(checks, count, len(model.graph.node))
    evaluate = [layer.prepare() for layer in layers]
    for part in parts(network, count, seed):
        values = network.values(part) | every.outputs(part)
        for each, function in zip(conversion_check.layers, evaluate, strict=True):
            _compare(each, function, [values[name] for name in each.layer.sources], values[each.layer.output.name])
        for name, output in plain.outputs(part).items():
            conversion_check.outputs_alike &= not difference_map(values[name], output).any()
        advance(len(part))
    return conversion_check


def encoded(vector: Array, value: Value) -> Array:
    """Return a vector in the order and type of the file's tensor."""
    stored = vector[value.places()]
    return (stored.astype(np.int16) - value.offset).astype(np.int8) if value.offset else stored


def decoded(outputs: Mapping[int, Array], value: Value, dtype: np.dtype[np.generic]) -> Array:
    """Return an activation of the network, (vectors, size), from outputs of the file, (vectors, ...)."""
    stored = outputs[value.tensor]
    stored = stored.reshape(len(stored), -1)
    numbers = (stored.astype(np.int16) + value.offset).astype(dtype) if value.offset else stored.astype(dtype)
    activation = np.empty_like(numbers)
    activation[:, value.places()] = numbers
    return activation


def _compare(each: LayerCheck, function: Callable[..., Array], inputs: Sequence[Array], actual: Array) -> None:
    layer = each.layer
    with np.errstate(all="ignore"):
        right = function(*inputs)
        differs = difference_map(right, actual)
        each.compared += right.size
        each.differing += int(np.count_nonzero(differs))
        distance = np.abs(actual.astype(np.float64) - right.astype(np.float64))
        each.largest_difference = max(each.largest_difference, float(distance.max(initial=0, where=differs)))
        if each.claim is Claim.BOUNDED and differs.any():
            tolerance = layer.tolerance(inputs, right)
            allowed = np.zeros(right.shape) if tolerance is None else tolerance
            shares = np.nan_to_num(ratios_to(actual, right, allowed), nan=np.inf, posinf=np.inf)
            each.ratio = max(each.ratio, float(shares.max(initial=0, where=differs)))
