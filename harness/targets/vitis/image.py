"""Layers on streams of codes in the fabric: what circuits on images have in common (kernels/vitis/image_layer.hpp)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from harness.operators.window import Window
from harness.targets.generated import C_TYPES, Stage, Table, compute_stage
from harness.targets.vitis import contraction, resources, rtl
from harness.targets.vitis.circuit import Circuit, channels_of, rows_type
from harness.targets.vitis.resources import NOTHING, Resources
from harness.targets.vitis.rtl import ACCUMULATE_CYCLES, REQUANTIZE_CYCLES

CODE_BITS = 8
L = TypeVar("L", bound=Layer)
C = TypeVar("C", bound=Contraction)


@dataclass(frozen=True)
class ImageGeometry:
    """The cycles of a layer on images, at most: `compute` of its operator, `outputs` that leave one a cycle.

    `record` elements enter for a vector, `kept` of them pass in front of the outputs; `pipeline` is the way of the last
    one.  HLS adds cycles of its own, at the ends of its loops.
    """

    source: ClassVar[str] = "the loops of the kernels, at most"

    record: int
    kept: int
    compute: int
    outputs: int
    pipeline: int

    @property
    def after_cycles(self) -> int:
        """Cycles from the last element of a vector to its last value."""
        return max(self.compute, self.outputs) + self.pipeline

    @property
    def interval_cycles(self) -> int:
        """Cycles from a vector to the next; elements that pass wait for the outputs of the vector before."""
        busy = max(self.compute, self.outputs + 1)
        return self.record + busy if self.kept else max(self.record, busy)


class ImageCircuit(Circuit[L]):
    """Processes `split`, those of the operator, and `merge`."""

    @property
    def code_type(self) -> str:
        """The C type of the inputs' codes."""
        return C_TYPES[self.layer.input.dtype.name]

    @property
    def tables(self) -> tuple[Table, ...]:
        """No constants."""
        return ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The layer as a whole."""
        return (compute_stage(self.layer),)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The elements of all inputs, and the constants that the operator's process tells."""
        alone = sum(tensor.size for tensor in self.layer.inputs)
        return {"ALONE": alone, "TOLD": sum(table.values.size for table in self.tables)}

    @property
    def definitions(self) -> str:
        """No constants."""
        return f"/* {self.name} has no constants. */"

    def streams(self, number: int) -> Sequence[str]:
        """Return the streams of inputs, with room for a vector, and that of values."""
        return [*self.input_streams(number), f"    elements values_{number};"]

    def input_streams(self, number: int) -> list[str]:
        """Return the streams of inputs."""
        sizes = [tensor.size for tensor in self.layer.inputs]
        named = list(zip(sizes, self.codes(number).split(", "), strict=True))
        return [
            *(f"    hls::stream<{self.code_type}, {size}> {name};" for size, name in named),
            *(f"#pragma HLS BIND_STORAGE variable={name} type=fifo impl={resources.fifo_memory(size)}"
              for size, name in named),
        ]  # fmt: skip

    def calls(self, number: int) -> Sequence[str]:
        """Return all processes."""
        kind, codes = f"{self.name}_layer", self.codes(number)
        return [
            f"    split<{kind}>(stream_{number}, passed_{number}, asked, {codes});",
            f"    {self.process(number)};",
            f"    merge<{kind}>(passed_{number}, values_{number}, stream_{number + 1}, asked);",
        ]

    def codes(self, number: int) -> str:
        """Return the streams of inputs as arguments."""
        return ", ".join(f"codes_{number}_{at}" for at, _ in enumerate(self.layer.inputs))

    @abstractmethod
    def process(self, number: int) -> str:
        """Return the call of the operator's process."""

    @property
    @abstractmethod
    def compute_cycles(self) -> int:
        """The cycles of the operator for a vector."""

    @property
    def resources(self) -> Resources:
        """The streams of inputs, and `memories`."""
        fifos = [resources.fifo(tensor.size, CODE_BITS) for tensor in self.layer.inputs]
        return resources.total([*fifos, self.memories])

    @property
    def memories(self) -> Resources:
        """The memories of the operator."""
        return NOTHING

    @property
    def pipeline(self) -> int:
        """The cycles of a value on its way through the operator."""
        return ACCUMULATE_CYCLES

    def geometry(self, record: int, kept: int) -> ImageGeometry:
        """Return the cycles of the operator beside those of the streams."""
        return ImageGeometry(record, kept, self.compute_cycles, self.layer.size, self.pipeline)


class SumsCircuit(contraction.ContractionCircuit[C], ImageCircuit[C]):
    """Processes `split`, one that writes rows of `lanes` sums, and `round_rows`.

    Rows are of `part` channels, then of the next; of the last row of a part not all sums may be channels.
    """

    part: int

    @property
    @abstractmethod
    def lanes(self) -> int:
        """The sums of a row."""

    @property
    def rows(self) -> int:
        """The rows of a vector."""
        return self.layer.size // self.lanes

    @property
    def sizes(self) -> Mapping[str, int]:
        """The rows of a vector, those that belong together, and the constants of the sums."""
        return {
            **super().sizes,
            "TOLD": sum(table.values.size for table in self.sums),
            "ROWS": self.rows,
            "LANES": self.lanes,
            "PART": self.part,
            "CHANNELS_OUT": channels_of(self.layer.output),
        }

    @property
    def definitions(self) -> str:
        """The struct `thresholds`."""
        return contraction.definition(self.layer, self.rounding)

    @property
    def storage(self) -> Sequence[str]:
        """The pragmas of the levels."""
        return contraction.storage(self.layer, self.rounding)

    def streams(self, number: int) -> Sequence[str]:
        """Return the streams of inputs, of constants and of rows."""
        return [
            *self.input_streams(number),
            f"    elements told_{number};",
            f"    {rows_type(self.lanes)} rows_{number};",
        ]

    def calls(self, number: int) -> Sequence[str]:
        """Return all processes."""
        kind, streams = f"{self.name}_layer", f"passed_{number}, told_{number}, rows_{number}"
        return [
            f"    split<{kind}>(stream_{number}, passed_{number}, asked, {self.codes(number)});",
            f"    {self.process(number)};",
            f"    round_rows<{kind}>({streams}, stream_{number + 1}, asked, {self.name}_rounding);",
        ]

    @property
    def memories(self) -> Resources:
        """The levels."""
        return contraction.area(self.layer, contraction.thresholds)

    @property
    def pipeline(self) -> int:
        """The cycles of a row of sums."""
        return ACCUMULATE_CYCLES + REQUANTIZE_CYCLES * bool(self.rounding) + self.lanes

    def geometry(self, record: int, kept: int) -> ImageGeometry:
        """Return the cycles; sums that fill up a row leave, too."""
        return ImageGeometry(record, kept, self.compute_cycles, self.rows * self.lanes, self.pipeline)


def line_buffer(window: Window, channels: int, at_once: int) -> Resources:
    """Return the memory of the line buffer, which reads `at_once` codes in a cycle."""
    codes = rtl.lines(window) * window.shape[1] * channels
    return Resources(0, 0, resources.block_rams(-(-codes // at_once), CODE_BITS * at_once))
