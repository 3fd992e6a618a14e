"""The advisories of the score table at its points, and the property that `harness decide` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from models.acas import mdp

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from models.acas.table import Axes

AXES = ("rho", "theta", "psi", "v_own", "v_int")
UNITS = ("ft", "rad", "rad", "ft/s", "ft/s")
WRAPS = (False, True, True, False, False)
PROPERTY = """\
# The advisory of acas_{name} is one of the advisories of the table at the corners of the box.
property: similar-to-table
table: acas_{name}.table.npz
table_ties: all
"""


def best(scores: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the set of advisories with the greatest score, a bit each, uint8 (rho, theta, psi, own, intruder).

    `scores` is float32 (own, intruder, advisory, psi, rho, theta), after one previous advisory.
    """
    sets = np.zeros((scores.shape[4], scores.shape[5], scores.shape[3], *scores.shape[:2]), np.uint8)
    for own, intruder in np.ndindex(scores.shape[:2]):
        here = scores[own, intruder]
        greatest = here == here.max(axis=0)
        bits = (greatest << np.arange(len(mdp.ADVISORIES), dtype=np.uint8)[:, None, None, None]).sum(0, dtype=np.uint8)
        sets[..., own, intruder] = bits.transpose(1, 2, 0)
    return sets


def write(folder: Path, previous: str, axes: Axes, scores: NDArray[np.float32]) -> None:
    """Write the table and the property of the network after one previous advisory, beside its model."""
    name = previous.lower()
    arrays = {f"cuts_{index}": cuts for index, cuts in enumerate(axes.cuts)}
    named = {"axes": np.array(AXES), "units": np.array(UNITS), "wraps": np.array(WRAPS)}
    named["names"] = np.array(mdp.ADVISORIES)
    table = folder / f"acas_{name}.table.npz"
    np.savez_compressed(table, allow_pickle=False, advisories=best(scores), **named, **arrays)
    (folder / f"acas_{name}.property.yaml").write_text(PROPERTY.format(name=name))
