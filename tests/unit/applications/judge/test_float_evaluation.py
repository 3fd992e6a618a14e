"""The specification in float32 has the codes of the specification in integers, or is not used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.applications.judge import float_evaluation
from harness.boards import workspace
from harness.model.network import Network
from harness.operators.contraction import Contraction
from tests.support import judged

NETWORKS = {
    "chain": lambda: judged.network(3, 7, 20, 9, zero_points=True),
    "int8": lambda: judged.network(3, 7, 20, 9, activations="int8"),
    "columns": lambda: judged.network(4, 7, 20, 9, per_column=True),
    "ties": lambda: judged.network(5, 7, 20, 9, power_of_two=True),
    "images": lambda: workspace.find().model("lenet5_int8"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_float32_gives_the_codes_of_the_specification(name: str) -> None:
    network: Network = NETWORKS[name]()
    values = judged.vectors(network, 20 if name == "images" else 2000)
    if network.takes_every_input:
        values[:4, 0] = (np.nan, np.inf, -np.inf, -0.0)
    known = network.values(values)
    for layer in network.layers:
        inputs = [known[source] for source in layer.sources]
        known[layer.output.name] = layer.prepare()(*inputs)
        codes = float_evaluation.prepared(layer)(*inputs)
        assert codes.dtype == layer.dtype
        np.testing.assert_array_equal(codes, known[layer.output.name])


def test_thresholds_of_another_formula_are_noticed() -> None:
    layer = judged.network(5, 7, 20, 9, power_of_two=True).layers[1]
    assert isinstance(layer, Contraction)
    assert float_evaluation.agrees(layer)
    other = np.nextafter(layer.multiplier, np.float32(1))
    thresholds = layer.thresholds()
    changed = replace(layer, multiplier=other)
    changed.__dict__["thresholds"] = lambda: thresholds
    assert not float_evaluation.agrees(changed)


def test_negative_multipliers_and_large_sums_are_left_to_integers() -> None:
    layer = judged.network(5, 7, 20, 9).layers[1]
    assert isinstance(layer, Contraction)
    assert not float_evaluation.agrees(replace(layer, multiplier=-layer.multiplier))
    assert not float_evaluation.agrees(replace(layer, bias=layer.bias + (1 << 24)))
