"""Left and right exchanged.

Nothing in the process tells left from right but the sign of angles.  So the tables after WR and SR are the images of
those after WL and SL, and their networks are made as images too: exact ones, also after quantisation, because the
input's codes are symmetric about zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from models.acas.samples import STATE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.float_network import Dense

MIRROR = (0, 2, 1, 4, 3)
"""Index of the advisory that turns the other way: COC, WR, WL, SR, SL."""
SIGNS = np.array([-1 if name in {"theta", "psi"} else 1 for name in STATE_NAMES], np.float32)


def mirrored(layers: Sequence[Dense]) -> tuple[Dense, ...]:
    """The network that scores for a mirrored state what `layers` score, left and right exchanged, for the state."""
    first, *middle, last = layers
    outputs = list(MIRROR)
    first = replace(first, weight=first.weight * SIGNS[:, None])
    return (first, *middle, replace(last, weight=last.weight[:, outputs], bias=last.bias[outputs]))
