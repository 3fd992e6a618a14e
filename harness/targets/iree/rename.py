"""Reshape, Flatten and others that keep all values in MLIR."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.rename import Rename
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.lowering import IreeLowering


class RenameLowering(IreeLowering[Rename]):
    """The values keep their order."""

    operator = Rename

    def emit(self, layer: Rename, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        return function.reshape(inputs[0], (function.vectors, *layer.output.shape))
