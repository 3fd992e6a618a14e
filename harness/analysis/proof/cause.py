"""Why a claim about the end of a QGemm does not hold: what the program gives, held against the known mistakes.

A run's vectors may meet none of the few accumulators at which a mistake shows; here they are chosen where it can.
"""

from __future__ import annotations

import numpy as np

from harness.analysis.diagnosis import Diagnosis, diagnose_finish
from harness.core.arrays import Array
from harness.execution.probe import Probe
from harness.operators import QGemm, accumulator_bounds, specification
from harness.targets import Stage

NEIGHBOURS = 2
EVENLY = 1024


def of_finish(layer: QGemm, stage: Stage, probe: Probe) -> str:
    """The mistakes that explain all that the stage gives, in words; empty if no known one does."""
    diagnosis = diagnose(layer, stage, probe)
    return diagnosis.text if diagnosis.complete else ""


def diagnose(layer: QGemm, stage: Stage, probe: Probe) -> Diagnosis:
    """What the stage gives at the accumulators where a mistake shows."""
    accumulators = _notable_accumulators(layer)
    actual = probe.outputs(stage, accumulators.astype(np.int32))
    return diagnose_finish(0, layer, accumulators, specification.finish(layer)(accumulators), actual)


def _notable_accumulators(layer: QGemm) -> Array:
    """Within the bounds of each column, int64 (n, N): neighbours of the thresholds, and evenly spread ones."""
    low, high = accumulator_bounds(layer)
    evenly: Array = np.linspace(low, high, EVENLY).astype(np.int64)
    if layer.dtype == np.float32:
        return evenly
    steps = specification.thresholds(layer).T.astype(np.int64)
    near = [steps + distance for distance in range(-NEIGHBOURS, NEIGHBOURS)]
    both: Array = np.clip(np.concatenate([*near, evenly]), low, high)
    return both
