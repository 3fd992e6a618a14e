"""How the networks of this recipe are quantised: `harness.model.quantizer` between codes that the training knows.

    state  --QuantizeLinear-->  uint8  --QGemm-->  uint8  ...  --QGemm-->  scores (float32)  --ArgMax-->  advisory

Weights are int8, symmetric, one scale a column; the other kinds are for comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.model import float_network, quantizer
from harness.model.quantizer import Codes, QuantizedNetwork, Select, WeightKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.float_network import Dense, Floats32
    from models.acas.mdp import Floats

INPUT = Codes(np.float32(1 / 240), zero_point=120)
"""Codes 0..240 span [-0.5, 0.5]: an interval of a grid of 41 angles is six codes, 100 ft/s are 20, 250 ft are one."""

SELECT = Select("ArgMax", node="select_advisory", output="advisory")


def hidden_scales(layers: Sequence[Dense], states: Floats) -> Floats32:
    """The scale of each hidden layer's output: its greatest activation over `states` (n, inputs), normalised, is 255.

    Returns (len(layers) - 1,).
    """
    *hidden, _ = float_network.activations(layers, INPUT.rounded(states))
    return np.array([values.max() / quantizer.CODE_MAX for values in hidden], dtype=np.float32)


def quantize(
    layers: Sequence[Dense], scales: Floats32, kind: WeightKind = "int8-per-column", order: int = 1
) -> QuantizedNetwork:
    """The integer layers for the scales given, (len(layers) - 1,); the scores stay float32."""
    codes = INPUT, *map(Codes, scales)
    return QuantizedNetwork(INPUT, quantizer.quantize_layers(layers, codes, kind=kind, order=order))
