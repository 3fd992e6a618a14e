"""Circuits of all contractions: sums, and their rounding by thresholds as layer.hpp has it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from harness.operators.exact import CACHED_LAYERS
from harness.targets.contraction import origin_of_multiplier, stages
from harness.targets.generated import Stage, Table, initialiser
from harness.targets.vitis import resources, rtl
from harness.targets.vitis.circuit import Circuit, bind, table
from harness.targets.vitis.resources import Resources

L = TypeVar("L", bound=Layer)
C = TypeVar("C", bound=Contraction)


def centred(layer: Contraction) -> Array:
    """Return the weights less their zero points, b - zb, int32 (K, N)."""
    difference: Array = layer.weights.astype(np.int32) - layer.weights_zero_point
    return difference


def thresholds(layer: Contraction) -> Array | None:
    """Return thresholds, int32 (N, 255), ascending; (1, 255) if all columns have one multiplier, and so the same.

    None for a float32 output.
    """
    if layer.dtype == np.float32:
        return None
    steps, _ = layer.thresholds_by_multiplier()
    return steps if len(steps) == 1 else layer.thresholds()


def rounding(layer: L, thresholds_of: Callable[[L], Array | None]) -> tuple[Table, ...]:
    """Return the levels of the search of thresholds (N, 255), and the lowest code; nothing without thresholds."""
    steps = thresholds_of(layer)
    if steps is None:
        return ()
    origin = "the least numbers that become each code, as step {} of a binary search meets them"
    levels = [
        table(layer, f"level_{step}", level, origin.format(step))
        for step, level in enumerate(rtl.threshold_levels(steps))
    ]
    return (*levels, table(layer, "lowest", np.array([np.iinfo(layer.dtype).min])))


def definition(layer: Layer, tables: Sequence[Table]) -> str:
    """Return the C++ constant of the rounding; `tables` are those of `rounding`."""
    if not tables:
        return f"static const no_thresholds {layer.name}_rounding = {{}};"
    *levels, lowest = (table.values for table in tables)
    values = ", ".join(initialiser(level) for level in levels)
    return f"static const thresholds<{len(levels[0])}> {layer.name}_rounding = {{{values}, {lowest[0]}}};"


def storage(layer: Layer, tables: Sequence[Table]) -> list[str]:
    """Return the pragmas that place the levels, as `area` counts them."""
    levels = [table.values for table in tables[:-1]]
    return [
        bind(f"{layer.name}_rounding.level_{step}", in_bram=resources.level_in_bram(level.size))
        for step, level in enumerate(levels)
    ]


@lru_cache(maxsize=CACHED_LAYERS)
def area(layer: L, thresholds_of: Callable[[L], Array | None]) -> Resources:
    """Return the memories of the levels of `rounding`, which no folding changes."""
    levels = [table.values.reshape(-1, 1) for table in rounding(layer, thresholds_of)[:-1]]
    return resources.total(resources.memory(level, in_bram=resources.level_in_bram(len(level))) for level in levels)


class ContractionCircuit(Circuit[C]):
    """A stage that adds products, and one that rounds the sums."""

    @property
    @abstractmethod
    def sums(self) -> tuple[Table, ...]:
        """The constants of the sums."""

    @cached_property
    def rounding(self) -> tuple[Table, ...]:
        """Levels and lowest code, or nothing."""
        return rounding(self.layer, thresholds)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All constants."""
        return (*self.sums, *self.rounding)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Sums, and their rounding."""
        return stages(self.layer)

    @property
    def multiplier(self) -> Table | None:
        """The factors of accumulators for a float32 output."""
        layer = self.layer
        if layer.dtype != np.float32:
            return None
        return Table(f"{layer.name}_multiplier", layer.multiplier, origin_of_multiplier(layer))

    def replaced(self) -> Array | None:
        """Return the thresholds of all columns."""
        steps = thresholds(self.layer)
        return None if steps is None else np.broadcast_to(steps, (len(self.layer.multiplier), 255))
