"""Operators that move values, in CUDA: by steps along the axes of the output, or by a table of places."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.move import Move
from harness.targets.cuda.broadcast import place
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

M = TypeVar("M", bound=Move)


class MoveLowering(VectorLowering[M]):
    """One copy per value; places without an input have the value of a table."""

    fuses = False

    def tables(self, layer: M) -> tuple[Table, ...]:
        """Return the places if they follow no steps, and the value of places without an input."""
        if _steps(layer.places):
            return ()
        filler = {"value": layer.filler} if (layer.places < 0).any() else {}
        return tables_of(layer, {"places": layer.places.reshape(-1), **filler})

    def value(self, layer: M) -> str:
        """Copy the value from its place."""
        steps, name = _steps(layer.places), layer.name
        if steps:
            return f"return x_0[{place(steps, int(layer.places.flat[0]))}];"
        if (layer.places < 0).any():
            return f"return {name}_places[n] < 0 ? {name}_value[0] : x_0[{name}_places[n]];"
        return f"return x_0[{name}_places[n]];"


def _steps(places: Array) -> list[tuple[int, int]]:
    """Return the size and the step of each axis, from the first place on; nothing if the places follow none."""
    steps = [
        int(np.take(places, 1, axis).flat[0] - places.flat[0]) if size > 1 else 0
        for axis, size in enumerate(places.shape)
    ]
    followed = places.flat[0] + np.tensordot(steps, np.indices(places.shape), 1)
    return list(zip(places.shape, steps, strict=True)) if (followed == places).all() and places.min() >= 0 else []
