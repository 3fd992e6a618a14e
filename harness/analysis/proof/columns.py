"""Vectors that show whether columns depend on each other: in each vector a few values, drawn anew for every column.

Any two columns, whether neighbours or far apart, are equal in a third of the vectors, and ordered either way in others.
Where NaN is among the values it stands beside numbers.
"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array

VECTORS = 4096
VALUES_OF_A_VECTOR = 3
METHOD = (
    f"{VECTORS:,} vectors of at most {VALUES_OF_A_VECTOR} different values each, so that any two columns are equal in "
    "some vectors and ordered either way in others"
)


def mixed(values: Array, width: int) -> Array:
    """Vectors (VECTORS, width) of these values, the same ones whenever they are asked for."""
    rng = np.random.default_rng(0)
    pools = rng.choice(values, (VECTORS, VALUES_OF_A_VECTOR))
    if values.dtype == np.float32 and np.isnan(values).any():
        pools[: VECTORS // 4, 0] = np.nan
    drawn: Array = np.take_along_axis(pools, rng.integers(0, VALUES_OF_A_VECTOR, (VECTORS, width)), axis=1)
    return drawn
