"""The check of specified values by the evaluation of their definitions in integers.

numpy adds and multiplies as IEEE 754 says only while the processor does: a library that is loaded into this process may
switch subnormal numbers off, for ONNX Runtime as well.  A few values of each layer are therefore computed without any
floating point, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.operators.base import Layer
from harness.operators.exact.integers import canonical

VALUES = 1 << 14
"""The most values of a layer that are computed in integers, but at least one vector."""


def require_integers(layers: Sequence[Layer], values: Mapping[str, Array]) -> None:
    """Raise ReferenceFailed at the first of a few specified values that integers do not give; `values` by tensor."""
    for layer in layers:
        rows = max(VALUES // max(layer.size, *(tensor.size for tensor in layer.inputs)), 1)
        own = layer.in_integers([values[name][:rows] for name in layer.sources])
        if own is None:
            continue
        right = values[layer.output.name][: len(own)]
        if np.array_equal(canonical(own), canonical(right)):
            continue
        vector, column = np.argwhere(canonical(own) != canonical(right))[0]
        raise ReferenceFailed(
            f"layer {layer.name!r} ({layer.operator}), vector {vector}, column {column}: float arithmetic of this "
            f"process gives {float(right[vector, column]):.9g}, integers {float(own[vector, column]):.9g}",
            "look for a library in this process that changes the floating-point environment, such as one that was "
            "linked with -ffast-math; then report this with the versions of numpy and of the processor",
        )
