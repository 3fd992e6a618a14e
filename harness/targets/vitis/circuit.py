"""A layer in the fabric: the processes of its kernel, their constants, resources and cycles.

An operator's lowering has a subclass of `Circuit`.  kernel.py joins the circuits of a launch by streams, code.py adds
the processor's part, fabric.py adds up resources and cycles.

An image (channels, height, width) is a stream position by position, and all channels of a position in sequence:

    element p * channels + c   is   element c * positions + p of the program's buffer

A layer without positions has one, so that both are the same.  The processor exchanges the axes (kernels/vitis/vitis.c).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.tensor import Tensor
from harness.targets.base import Lowering
from harness.targets.generated import Stage, Table
from harness.targets.vitis.resources import Resources
from harness.targets.vitis.rtl import Geometry

WIDEST_PIECE = 128  # as in kernels/vitis/layer.hpp
L = TypeVar("L", bound=Layer)


class Circuit(ABC, Generic[L]):
    """A layer in the fabric.

    The text of its kernel has a struct `<name>_layer` with the places of its inputs in a record, and streams
    `stream_<number>`, `passed_<number>` and `stream_<number + 1>` of elements; `number` is that of the layer in its
    launch.  `fold` is the number of products that share a multiplier in time.
    """

    headers: ClassVar[tuple[str, ...]] = ()
    """Headers of kernels/vitis beside layer.hpp."""
    passes_ahead: ClassVar[bool] = False
    """True if what passes the layer has room to wait for the outputs of the vector before, False if it stops there."""

    def __init__(self, layer: L, fold: int) -> None:
        self.layer = layer
        self.fold = fold

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self.layer.name

    @property
    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """All constants, int32 on the board, in the order in which the kernel returns them."""

    @property
    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """The parts that a proof can ask for."""

    @property
    def multiplier(self) -> Table | None:
        """The factors of accumulators for a float32 output, (N,), by which the processor multiplies; or None."""
        return None

    def replaced(self) -> Array | None:
        """Return the table in the place of a formula, for `Rounded.check` before it is used; None without any."""
        return None

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes of its struct beyond those that every layer has (kernel.py)."""
        return {}

    @property
    @abstractmethod
    def definitions(self) -> str:
        """The C++ definitions of its constants."""

    @property
    def storage(self) -> Sequence[str]:
        """The pragmas of its constants, without `#pragma HLS `."""
        return ()

    def streams(self, number: int) -> Sequence[str]:  # noqa: ARG002 - circuits override it
        """Return the declarations of streams between its processes, with their pragmas."""
        return ()

    @abstractmethod
    def calls(self, number: int) -> Sequence[str]:
        """Return the calls of its processes, in the order of the data."""

    @property
    @abstractmethod
    def resources(self) -> Resources:
        """A lower bound of what it takes."""

    @abstractmethod
    def geometry(self, record: int, kept: int) -> Geometry:
        """Return what determines its cycles: `record` elements enter for a vector, `kept` of them pass."""


class VitisLowering(Lowering[L]):
    """The code of one operator: its circuit, and what it refuses."""

    @abstractmethod
    def circuit(self, layer: L, fold: int) -> Circuit[L]:
        """Return the layer in the fabric."""


def of(layer: Layer, fold: int = 1) -> Circuit[Any]:
    """Return the circuit of a layer that the target supports."""
    from harness.targets.vitis import Vitis

    found: Circuit[Any] = Vitis().lowering_of(layer).circuit(layer, fold)
    return found


def channels_of(tensor: Tensor) -> int:
    """Return the elements of a position in a stream."""
    return tensor.shape[0] if tensor.shape else 1


def rows_type(width: int) -> str:
    """Return the type of the stream through which rows of so many sums pass."""
    return f"hls::stream<row<{width}> >" if width <= WIDEST_PIECE else f"wide_rows<{width}>"


def integer_type(values: Array) -> str:
    """Return the smallest C type that holds weights less their zero points."""
    return "int8_t" if values.min() >= -128 and values.max() <= 127 else "int16_t"


def bind(memory: str, *, in_bram: bool) -> str:
    """Return the pragma that places a memory of constants."""
    return f"BIND_STORAGE variable={memory} type=rom_1p impl={'bram' if in_bram else 'lutram'}"


def table(layer: Layer, part: str, values: Array, comment: str = "") -> Table:
    """Return a constant that the kernel returns."""
    return Table(f"{layer.name}_{part}", values.astype(np.int32), comment, computed=True)
