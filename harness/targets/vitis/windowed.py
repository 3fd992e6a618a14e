"""Contractions over windows in the fabric: process `convolve` behind a line buffer (kernels/vitis/window.hpp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.contraction import Contraction
from harness.operators.qlinear_conv import QLinearConv
from harness.operators.window import Window
from harness.targets.contraction import reaches_sentinel
from harness.targets.generated import Table, initialiser
from harness.targets.vitis import image, resources, rtl
from harness.targets.vitis.circuit import Circuit, VitisLowering, bind, integer_type, table
from harness.targets.vitis.contraction import centred
from harness.targets.vitis.image import SumsCircuit
from harness.targets.vitis.resources import Resources

C = TypeVar("C", bound=Contraction)


class WindowedCircuit(SumsCircuit[C]):
    """One product for each of `lanes` channels in a cycle, a block.

    `fold` divides the channels of a group or, where groups have one input each, the groups that stand side by side.
    Blocks compute `part` channels, those of a group or all, then the next; weights of 0 fill up the last block.
    """

    headers = ("image_layer.hpp", "window.hpp")

    def __init__(self, layer: C, fold: int, window: Window, groups: int, channels: int) -> None:
        super().__init__(layer, fold)
        self.window = window
        self.group = channels // groups
        self.channels = channels
        self.share = len(layer.multiplier) // groups
        self.at_once = -(-groups // fold) if self.group == 1 and groups > 1 else 1
        self.part = len(layer.multiplier) if self.at_once > 1 else self.share

    @property
    def lanes(self) -> int:
        """The channels of the output that are added to in a cycle."""
        return self.share * self.at_once if self.at_once > 1 else -(-self.share // self.fold)

    @property
    def blocks(self) -> int:
        """The blocks of a position."""
        return len(self.layer.multiplier) // self.part * -(-self.part // self.lanes)

    @property
    def rows(self) -> int:
        """The blocks of all positions."""
        return self.window.positions * self.blocks

    @cached_property
    def sums(self) -> tuple[Table, ...]:
        """Weights (blocks * K, lanes), bias (blocks, lanes) and input zero point."""
        layer = self.layer
        terms = rtl.by_positions(centred(layer), self.window)
        weights = in_blocks(terms, self.part, self.lanes).reshape(-1, self.lanes)
        origin = f"{layer.weights.dtype} weights of node {layer.name}, less zb: rows, columns, channels of each block"
        return (
            table(layer, "weights", weights, origin),
            table(layer, "bias", in_blocks(layer.bias[None], self.part, self.lanes)[:, 0]),
            table(layer, "input_zero_point", np.array([layer.a_zero_point])),
        )

    @property
    def sizes(self) -> Mapping[str, int]:
        """The window and the blocks."""
        per_group = 1 if self.at_once > 1 else self.blocks * self.part // len(self.layer.multiplier)
        own = {"BLOCKS": self.blocks, "AT_ONCE": self.at_once, "PER_GROUP": per_group, "GROUP": self.group}
        return {**super().sizes, **own, **rtl.window_sizes(self.window, self.channels)}

    @property
    def definitions(self) -> str:
        """The structs `kernels` and `thresholds`."""
        weights, bias, zero_point = (each.values for each in self.sums)
        terms = len(weights) // self.blocks
        kind = f"kernels<{integer_type(weights)}, {self.blocks}, {terms}, {self.lanes}>"
        values = f"{{{initialiser(weights)}, {initialiser(bias)}, {zero_point[0]}}}"
        return f"static const {kind} {self.name}_sums = {values};\n{super().definitions}"

    @property
    def storage(self) -> Sequence[str]:
        """The pragmas of weights and bias, all lanes at once, and of the levels."""
        sums = f"{self.name}_sums"
        in_bram = resources.weights_in_bram(len(self.sums[0].values))
        return [
            f"ARRAY_RESHAPE variable={sums}.weights dim=2 type=complete",
            f"ARRAY_RESHAPE variable={sums}.bias dim=2 type=complete",
            bind(f"{sums}.weights", in_bram=in_bram),
            *super().storage,
        ]

    def process(self, number: int) -> str:
        """Return the call of `convolve`."""
        streams = f"{self.codes(number)}, told_{number}, rows_{number}"
        return f"convolve<{self.name}_layer>({streams}, asked, {self.name}_sums)"

    @property
    def compute_cycles(self) -> int:
        """A cycle for each code that enters the line buffer, and for each term of each row of sums."""
        return self.layer.input.size + self.window.positions * len(self.sums[0].values)

    @property
    def memories(self) -> Resources:
        """A DSP for each lane, weights, line buffer and levels."""
        weights = self.sums[0].values
        parts = (
            Resources(0, self.lanes, 0),
            resources.memory(weights, in_bram=resources.weights_in_bram(len(weights))),
            image.line_buffer(self.window, self.channels, self.at_once),
        )
        return resources.total([*parts, super().memories])


def in_blocks(values: Array, part: int, lanes: int) -> Array:
    """Return values (K, N) as blocks (B, K, lanes); each `part` columns begin a block, zeros fill up the last of it."""
    parts = values.reshape(len(values), -1, part)
    filled = np.pad(parts, [(0, 0), (0, 0), (0, -part % lanes)])
    blocks: Array = filled.reshape(len(values), -1, lanes).transpose(1, 0, 2)
    return blocks


class QLinearConvLowering(VitisLowering[QLinearConv]):
    """Products are of codes and weights less their zero points: no partial sum leaves int32."""

    operator = QLinearConv

    def circuit(self, layer: QLinearConv, fold: int) -> Circuit[QLinearConv]:
        """Return the layer behind a line buffer."""
        return WindowedCircuit(layer, fold, layer.window, layer.groups, layer.input.shape[0])

    def unsupported(self, layer: QLinearConv, variant: str) -> str | None:  # noqa: ARG002 - all refuse the same
        """Refuse accumulators that reach the largest int32."""
        return reaches_sentinel(layer)
