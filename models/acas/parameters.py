"""What the recipe may be asked for, and the name of what it then makes."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

TABLE_SOURCES = ("mdp.py", "table.py")
SOURCES = (
    *TABLE_SOURCES,
    "samples.py",
    "mirror.py",
    "train.py",
    "weights.py",
    "quantize.py",
    "recipe.py",
    "parameters.py",
)
"""The modules that shape the table, and those that shape a model; the others only show it."""


@dataclass(frozen=True)
class Cycle:
    """One fall of the learning rate, from its highest value to zero, over `steps` batches drawn with `seed`."""

    steps: int
    learning_rate: float
    seed: int


@dataclass(frozen=True)
class Parameters:
    """One network: its table, its shape and its training."""

    previous: int = 0
    """Index of the previous advisory whose table is learned."""
    hidden: int = 50
    """Neurons of a hidden layer."""
    depth: int = 8
    """Hidden layers."""
    seed: int = 1
    grid_points: int = 2_000_000
    """Training points drawn from the cut points of the table."""
    uniform_points: int = 2_000_000
    """Training points drawn uniformly from the box."""
    grid_share: float = 0.6
    """Share of grid points in a batch."""
    batch: int = 1024
    float_steps: int = 100_000
    """Batches of the float training."""
    tuning_steps: int = 150_000
    """Batches of the training with the rounding in the loop."""
    learning_rate: float = 5e-3
    tuning_rate: float = 1e-3
    """The highest of either training; it falls to zero along a cosine."""
    advisory_weight: float = 0.1
    """Weight of the advisory's cross-entropy beside the scores' squared error."""
    advisory_sharpness: float = 1000.0
    """Scores times this are the cross-entropy's logits: a gap of 0.001 then counts as one."""

    @property
    def float_cycle(self) -> Cycle:
        """Of the training from random weights."""
        return Cycle(self.float_steps, self.learning_rate, self.seed)

    @property
    def tuning_cycle(self) -> Cycle:
        """Of the training with the rounding in the loop."""
        return Cycle(self.tuning_steps, self.tuning_rate, self.seed)


@functools.cache
def table_sha256() -> str:
    """SHA-256 (hex) of the `TABLE_SOURCES`, in their order."""
    return _digest(TABLE_SOURCES).hexdigest()


@functools.cache
def recipe_sha256(parameters: Parameters) -> str:
    """SHA-256 (hex) of the `SOURCES`, in their order, and of the parameters."""
    digest = _digest(SOURCES)
    digest.update(json.dumps(asdict(parameters), sort_keys=True).encode())
    return digest.hexdigest()


def _digest(sources: Sequence[str]) -> hashlib._Hash:
    digest = hashlib.sha256()
    for name in sources:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest
