"""Hidden neurons of equal reach, so that every one of them uses the codes that its tensor has.

A ReLU lets positive factors pass, relu(f x) = f relu(x): a neuron may grow by f if the next layer's weights from it
shrink by f.  (Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from harness.model.float_network import Dense, Floats32, activations

EXPONENT = 0.5
"""1 gives all neurons of a layer the same reach, at the cost of the weights of the next layer; 0 changes nothing."""

_FACTOR_MAX = 2.0**10


def equalize(layers: Sequence[Dense], batches: Iterable[Floats32]) -> tuple[Dense, ...]:
    """Return the layers with hidden neurons of more equal reach over the vectors (n, K) of all batches.

    Neuron n with a ReLU grows by (greatest reach of its layer / its own) ** EXPONENT, rounded to a power of two: so
    the float network computes the same bits as before, where nothing over- or underflows.
    """
    reaches = _reaches(layers, batches)
    result = list(layers)
    for index, (layer, reach) in enumerate(zip(layers[:-1], reaches, strict=True)):
        if layer.relu:
            factor = _factors(reach)
            result[index] = replace(result[index], weight=result[index].weight * factor, bias=layer.bias * factor)
            following = result[index + 1]
            result[index + 1] = replace(following, weight=following.weight / factor[:, None])
    return tuple(result)


def _reaches(layers: Sequence[Dense], batches: Iterable[Floats32]) -> list[Floats32]:
    """Return the greatest activation of every hidden neuron, (N,) for each hidden layer."""
    reaches = [np.zeros(len(layer.bias), np.float32) for layer in layers[:-1]]
    for batch in batches:
        *hidden, _ = activations(layers, batch)
        reaches = [np.maximum(reach, values.max(axis=0)) for reach, values in zip(reaches, hidden, strict=True)]
    return reaches


def _factors(reach: Floats32) -> Floats32:
    """Return powers of two (N,); 1 for a neuron that is never active."""
    active = reach > 0
    ratio = np.where(active, reach.max(initial=0), 1) / np.where(active, reach, 1)
    factor = 2.0 ** np.rint(EXPONENT * np.log2(ratio))
    return np.asarray(np.minimum(factor, _FACTOR_MAX), dtype=np.float32)
