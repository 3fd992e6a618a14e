"""The constants of a layer for a core: integers only, in the order of kernels/tiovx/protocol.h."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.operators.base import Layer
from harness.targets.generated import Table

KERNELS_VERSION = 2  # in protocol.h, too
PARTS = ("OFFSET", "ZERO_POINTS", "TABLE", "MULTIPLIER", "WEIGHTS", "WINDOW", "CODES", "OPERAND", "TERMS", "ROWS")
"""The parts in the order of `enum part`."""
HEAD = "version, depth, width, flip, low, bytes of the parts"
FLIP = 128
"""The bit that turns an int8 code into a uint8 code, 128 more, and back."""
SIZE_LIMIT = (1 << 32) - 1
"""Bytes of an object of TIOVX, which counts them with 32 bits.  Tensors here have two axes, of the four allowed."""


@dataclass(frozen=True, eq=False)
class Constants:
    """The head and the parts of a layer, by their names in `enum part`."""

    head: Table
    parts: Mapping[str, Table]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The head and all parts."""
        return (self.head, *self.parts.values())


def with_head(layer: Layer, parts: Mapping[str, Table]) -> Constants:
    """Return the constants with a head that describes them."""
    flip = FLIP if layer.input.dtype == np.int8 else 0
    depth = sum(tensor.size for tensor in layer.inputs)
    low = 0 if layer.dtype == np.float32 else int(np.iinfo(layer.dtype).min) % 256
    sizes = [parts[part].values.nbytes if part in parts else 0 for part in PARTS]
    fields = [KERNELS_VERSION, depth, layer.size, flip, low, *sizes]
    return Constants(Table(f"{layer.name}_head", np.array(fields, np.uint32), HEAD), parts)


def too_large(layer: Layer) -> str | None:
    """Return why an activation of one vector, or a table of constants, has more bytes than TIOVX counts; or None."""
    activations = {tensor.name: tensor.size * tensor.dtype.itemsize for tensor in (*layer.inputs, layer.output)}
    tables = {name: value.nbytes for name, value in layer.constants().items() if isinstance(value, np.ndarray)}
    for name, size in (activations | tables).items():
        if size > SIZE_LIMIT:
            return f"{name} has {size:,} bytes, but an object of TIOVX has {SIZE_LIMIT:,} at most"
    return None


def parts_in_order(constants: Constants) -> Sequence[tuple[str, Table]]:
    """Return the parts of a layer in their order in memory."""
    return [(part, constants.parts[part]) for part in PARTS if part in constants.parts]
