"""A quantised dense network as steps from codes to codes, as the engine of `decide` computes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.traits import Trait

Codes: TypeAlias = npt.NDArray[np.uint8]
CODES = 256
LARGEST_WEIGHT = 255


@dataclass(frozen=True, eq=False)
class CodeStep:
    """One dense layer on codes 0 to 255 (int8 codes are moved by 128).

    acc[n] = offset[n] + sum_k a[k] * weights[k, n]; y[n] = clamp(round_half_even(float32(acc[n]) * multiplier[n]) +
    zero_point, low, high).  `weights` is int64 (K, N), `offset` int64 (N,), `multiplier` float32 (N,).  If `is_float`,
    the outputs are float32 scores, float32(acc[n]) * multiplier[n].
    """

    weights: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    multiplier: npt.NDArray[np.float32]
    zero_point: int
    low: int
    high: int
    is_float: bool = False


@dataclass(frozen=True, eq=False)
class CodeNetwork:
    """The network from the codes of its inputs to its scores and their choice.

    `scores` is the float32 score of each output code, (256,) or None if the last layer has float32 scores; `choice`
    is None if the network ends with its scores.
    """

    name: str
    sha256: str
    quantiser: Layer
    steps: tuple[CodeStep, ...]
    scores: npt.NDArray[np.float32] | None
    choice: ArgExtremum | None
    names: tuple[str, ...]

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return self.quantiser.input.size

    @property
    def outputs(self) -> int:
        """The number of scores."""
        return int(self.steps[-1].weights.shape[1])

    def codes(self, values: npt.NDArray[np.float32]) -> Codes:
        """Return the codes of float32 inputs (n, inputs), from 0 to 255."""
        return _moved(self.quantiser.prepare()(values))


def named(network: CodeNetwork, name: str) -> CodeNetwork:
    """Return the network under another name, such as that of the file from which a copy was made."""
    return replace(network, name=name)


def of(network: Network) -> CodeNetwork:
    """Return the steps of a network; RequestError names the first layer that is none."""
    quantiser, *others = network.layers
    if quantiser.dtype.kind not in "iu" or quantiser.dtype.itemsize > 1 or Trait.ELEMENTWISE not in quantiser.traits:
        raise _refusal(network, quantiser, "the first layer does not quantise the input")
    steps: list[CodeStep] = []
    scores: npt.NDArray[np.float32] | None = None
    choice: ArgExtremum | None = None
    source = quantiser
    for layer in others:
        if layer.sources != (source.output.name,) or choice is not None:
            raise _refusal(network, layer, "the network is no chain of layers that ends with ArgMax or ArgMin")
        if layer.sums and (sums := layer.sums.code_sums()):
            moved = 128 if layer.input.dtype == np.int8 else 0
            zero_point = sums.zero_point + (128 if layer.dtype == np.int8 else 0)
            offset = sums.offset - moved * sums.weights.sum(axis=0)
            if np.abs(sums.weights).max(initial=0) > LARGEST_WEIGHT or not (sums.multiplier > 0).all():
                raise _refusal(network, layer, "a weight is beyond 255, or a multiplier is not above 0")
            is_float = layer.dtype == np.float32
            steps.append(CodeStep(sums.weights, offset, sums.multiplier, zero_point, 0, CODES - 1, is_float))
        elif isinstance(layer, ArgExtremum):
            choice = layer
        else:
            scores, steps = _function_of_codes(network, layer, steps, scores)
        source = layer
    if not steps:
        raise _refusal(network, source, "the network has no dense layer of codes")
    if scores is None and not steps[-1].is_float:  # the scores are codes, which decide moves
        dtype = source.dtype if choice is None else source.input.dtype
        scores = (np.arange(CODES) + np.iinfo(dtype).min).astype(np.float32)
    names = _output_names(network, int(steps[-1].weights.shape[1]))
    return CodeNetwork(network.name, network.sha256, quantiser, tuple(steps), scores, choice, names)


def _function_of_codes(
    network: Network, layer: Layer, steps: Sequence[CodeStep], scores: npt.NDArray[np.float32] | None
) -> tuple[npt.NDArray[np.float32] | None, list[CodeStep]]:
    """Return what follows from a layer that clamps codes, leaves them, or gives their increasing float32 scores."""
    dtype = layer.input.dtype
    one_source = len(layer.inputs) == 1 and layer.size == layer.input.size
    if (
        not steps
        or scores is not None
        or not one_source
        or dtype.itemsize != 1
        or Trait.ELEMENTWISE not in layer.traits
    ):
        raise _refusal(network, layer, f"{layer.operator} is no step that decide knows")
    codes = np.arange(CODES, dtype=np.uint8)
    given = (codes ^ 0x80).view(np.int8) if dtype == np.int8 else codes
    table = layer.prepare()(np.repeat(given[:, None], layer.size, axis=1))
    if not (table == table[:, :1]).all():
        raise _refusal(network, layer, f"{layer.operator} has another function for each value")
    if layer.dtype == np.float32:
        if not (np.diff(table[:, 0].astype(np.float64)) > 0).all():
            raise _refusal(network, layer, "the scores do not increase with their codes")
        return table[:, 0], list(steps)
    values = _moved(table[:, 0]).astype(np.int64)
    low, high = int(values.min()), int(values.max())
    if layer.dtype != dtype or not np.array_equal(values, np.clip(np.arange(CODES), low, high)):
        raise _refusal(network, layer, f"{layer.operator} does more than clamp codes")
    *before, last = steps
    return None, [*before, replace(last, low=max(last.low, low), high=min(last.high, high))]


def _moved(codes: Array) -> Codes:
    """Return int8 codes plus 128, and uint8 codes as they are."""
    return codes.view(np.uint8) ^ np.uint8(0x80) if codes.dtype == np.int8 else codes.astype(np.uint8)


def _output_names(network: Network, outputs: int) -> tuple[str, ...]:
    try:
        stated = json.loads(network.metadata.get("output_names", "null"))
    except ValueError:
        stated = None
    usable = isinstance(stated, list) and len(stated) == outputs
    return tuple(map(str, stated)) if usable else tuple(f"output {index}" for index in range(outputs))


def _refusal(network: Network, layer: Layer, reason: str) -> RequestError:
    return RequestError(
        f"model {network.name!r}, layer {layer.name!r} ({layer.operator}): {reason}",
        "decide needs QuantizeLinear, then QGemm layers (also with Relu or Clip on codes), then DequantizeLinear, "
        "ArgMax or ArgMin, or nothing",
    )
