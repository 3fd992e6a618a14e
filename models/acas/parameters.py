"""What the recipe may be asked for, and the name of what it then makes."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

SOURCES = ("mdp.py", "table.py", "samples.py", "dense.py", "train.py", "quantize.py", "recipe.py", "parameters.py")
"""The modules that shape a model; the others only show it."""


@dataclass(frozen=True)
class Parameters:
    """One network: its table, its shape and its training."""

    previous: int = 0
    """Index of the previous advisory whose table is learned."""
    tau_s: int = 0
    """Seconds until the aircraft share their altitude."""
    hidden: int = 50
    """Neurons of a hidden layer."""
    depth: int = 8
    """Hidden layers."""
    seed: int = 1
    uniform_points: int = 150_000
    """Training points drawn uniformly from the box, beside the grid points."""
    grid_share: float = 0.6
    """Share of grid points in a batch."""
    batch: int = 1024
    float_steps: int = 24_000
    """Batches of the float training."""
    tuning_steps: int = 24_000
    """Batches of the training with the rounding in the loop."""
    learning_rate: float = 2e-3
    """At the start of either training; it falls to zero along a cosine."""
    advisory_weight: float = 0.1
    """Weight of the advisory's cross-entropy beside the scores' squared error."""
    advisory_sharpness: float = 1000.0
    """Scores times this are the cross-entropy's logits: a gap of 0.001 then counts as one."""


@functools.cache
def recipe_sha256(parameters: Parameters) -> str:
    """SHA-256 (hex) of the `SOURCES`, in their order, and of the parameters."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    digest.update(json.dumps(asdict(parameters), sort_keys=True).encode())
    return digest.hexdigest()
