"""Distance of a quantised network from its float network, and use of its codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.model.float_network import Floats32
from harness.model.quantizer.codes import CODE_MAX, Codes
from harness.model.quantizer.layers import QuantizedDense, QuantizedNetwork


@dataclass(frozen=True)
class Agreement:
    """The float scores and the quantised ones of `vectors` vectors.

    `r2` is the coefficient of determination, the mean over the outputs that vary, None where none does;
    `difference_max` the greatest absolute difference of two scores; `selected` the share of vectors with one selection,
    None for a network that selects nothing.
    """

    vectors: int
    r2: float | None
    difference_max: float
    selected: float | None


def agreement(
    expected: Floats32, scores: Floats32, selections: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None
) -> Agreement:
    """Compare float scores with quantised ones, (n, N) each, and after choice the columns that each selects, (n,)."""
    difference = scores.astype(np.float64) - expected
    total = np.square(expected - expected.mean(axis=0, dtype=np.float64)).sum(axis=0)
    varying = total > 0
    unexplained = np.square(difference).sum(axis=0)
    return Agreement(
        vectors=len(expected),
        r2=float((1 - unexplained[varying] / total[varying]).mean()) if varying.any() else None,
        difference_max=float(np.abs(difference).max()),
        selected=float((selections[0] == selections[1]).mean()) if selections else None,
    )


@dataclass(frozen=True)
class LayerUse:
    """The quantised form of the input, or of a layer of the float network.

    `weight_scales` are the least and the greatest of its first term, None for the input; `range` are the values of its
    first and last code.  `codes_used` is the share of the 256 codes that were met, `saturated` the share of activations
    at an end of the codes, where a greater value would have been cut.  All three are None where the output stays
    float32.
    """

    name: str
    inputs: int
    outputs: int
    weight_scales: tuple[float, float] | None
    range: tuple[float, float] | None
    codes_used: float | None
    saturated: float | None


def layer_uses(network: QuantizedNetwork, batches: Iterable[Sequence[npt.NDArray[np.uint8]]]) -> tuple[LayerUse, ...]:
    """Return the input and every layer, with the codes that all `batches`, uint8 activations (n, N), meet."""
    counts = np.zeros((len(network.layers) + 1, CODE_MAX + 1), np.int64)
    for activations in batches:
        for index, activation in enumerate(activations):  # scores that stay float32 are not among them
            counts[index] += np.bincount(activation.reshape(-1), minlength=CODE_MAX + 1)
    width = len(network.layers[0].terms[0].weight)
    source = LayerUse("quantize_input", width, width, None, **_code_use(network.input, counts[0]))
    layers = zip(network.layers, counts[1:], strict=True)
    return (source, *(_dense_use(f"dense_{number}", *layer) for number, layer in enumerate(layers, start=1)))


def _dense_use(name: str, layer: QuantizedDense, count: npt.NDArray[np.int64]) -> LayerUse:
    scale = layer.terms[0].scale
    inputs, outputs = layer.terms[0].weight.shape
    return LayerUse(name, inputs, outputs, (float(scale.min()), float(scale.max())), **_code_use(layer.output, count))


def _code_use(codes: Codes | None, count: npt.NDArray[np.int64]) -> dict[str, Any]:
    if codes is None:
        return {"range": None, "codes_used": None, "saturated": None}
    # With a zero point of 0 the lowest code is 0 itself, by the ReLU and not by saturation.
    at_ends = int(count[CODE_MAX]) + (int(count[0]) if codes.zero_point else 0)
    used = int(np.count_nonzero(count))
    return {"range": codes.range, "codes_used": used / len(count), "saturated": at_ends / int(count.sum())}
