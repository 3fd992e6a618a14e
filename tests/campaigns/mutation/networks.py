"""The networks on which the mutants are tried: of every kind of weights, scales and activations, and small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.model.network import Network
from harness.reference.stimuli import stimuli
from tests.support import builders
from tests.support.programs.board_program import parse, references

WIDTHS = (5, 24, 24, 22, 5)
VECTORS = 10_000


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, vectors for a run of it, all layers' right outputs."""

    network: Network
    vectors: Array
    expected: tuple[Array, ...]

    @classmethod
    def of(cls, network: Network, vectors: Array) -> Subject:
        return cls(network, vectors, references(network, vectors))


@dataclass(frozen=True)
class Recipe:
    """How a network is made."""

    widths: Sequence[int]
    options: Mapping[str, Any]

    def subject(self, vectors: int = VECTORS) -> Subject:
        """With the seeded vectors of a run."""
        net = parse(builders.random_network(np.random.default_rng(3), self.widths, **self.options))
        return Subject.of(net, stimuli(net, vectors, seed=1).chunk(0, vectors))


NETWORKS: Mapping[str, Recipe] = {
    "int8": Recipe(WIDTHS, {"argmax": True}),
    "int8 per column": Recipe(WIDTHS, {"per_column": True, "zero_points": True, "float_output": True, "argmax": True}),
    "uint8": Recipe(WIDTHS, {"weights": "uint8", "zero_points": True, "dequantize": True, "argmax": True}),
    "powers of two": Recipe(WIDTHS, {"power_of_two": True, "zero_points": True, "argmax": True}),
    "int8 activations": Recipe(WIDTHS, {"activations": "int8", "zero_points": True, "argmax": True}),
    "residual": Recipe((5, 10, 4), {"residual": 3, "per_column": True, "zero_points": True}),
}


OF_ACCELERATORS: Mapping[str, tuple[str, ...]] = {
    "cuda": ("int8 per column", "uint8", "residual"),
    "tiovx": ("int8 per column", "uint8", "powers of two", "int8 activations"),
    "vitis": ("int8 per column", "uint8", "int8 activations", "residual"),
}


def networks_of(target: str) -> tuple[str, ...]:
    """On which a target's mutants are tried; an accelerator's on fewer: its programs are slow, or compiled twice."""
    return OF_ACCELERATORS.get(target.partition(":")[0], tuple(NETWORKS))
