"""The constants of a layer for a core: integers only, in the order of kernels/tiovx/protocol.h."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.operators.base import Layer
from harness.targets.generated import Table

KERNELS_VERSION = 1  # in protocol.h, too
PARTS = ("OFFSET", "ZERO_POINTS", "TABLE", "MULTIPLIER", "WEIGHTS")
"""The parts in the order of `enum part`."""
HEAD = "version, depth, width, flip, low, bytes of the parts"


@dataclass(frozen=True, eq=False)
class Constants:
    """The head and the parts of a layer, by their names in `enum part`."""

    head: Table
    parts: Mapping[str, Table]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The head and all parts."""
        return (self.head, *self.parts.values())


def with_head(layer: Layer, parts: Mapping[str, Table], *, flip: int) -> Constants:
    """Return the constants with a head that describes them; `flip` is added to quantised inputs."""
    low = 0 if layer.dtype == np.float32 else int(np.iinfo(layer.dtype).min) % 256
    sizes = [parts[part].values.nbytes if part in parts else 0 for part in PARTS]
    fields = [KERNELS_VERSION, layer.input.size, layer.size, flip, low, *sizes]
    return Constants(Table(f"{layer.name}_head", np.array(fields, np.uint32), HEAD), parts)


def parts_in_order(constants: Constants) -> Sequence[tuple[str, Table]]:
    """Return the parts of a layer in their order in memory."""
    return [(part, constants.parts[part]) for part in PARTS if part in constants.parts]
