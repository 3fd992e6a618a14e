"""QGemm in the fabric: constants are integers, in the order in which a kernel returns them (layer.hpp)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from harness.operators.qgemm import QGemm
from harness.operators.window import Window
from harness.targets.contraction import reaches_sentinel, too_deep
from harness.targets.generated import Table, initialiser
from harness.targets.vitis import contraction, resources, rtl
from harness.targets.vitis.circuit import Circuit, VitisLowering, bind, integer_type, rows_type, table
from harness.targets.vitis.contraction import centred
from harness.targets.vitis.resources import Resources
from harness.targets.vitis.rtl import Geometry
from harness.targets.vitis.windowed import WindowedCircuit

POSITION = Window((1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1))
"""The window of an image with one position."""


class QGemmCircuit(contraction.ContractionCircuit[QGemm]):
    """Processes `sum_up`, which multiplies an element by all weights of its row at once, and `finish` (layer.hpp)."""

    passes_ahead = True

    @cached_property
    def sums(self) -> tuple[Table, Table, Table]:
        """Weights (K, N), bias (N,) and input zero point."""
        layer, weights = self.layer, centred(self.layer)
        origin = f"{layer.weights.dtype} weights of node {layer.name}, less zb"
        return (
            table(layer, "weights", weights, origin),
            table(layer, "bias", layer.bias),
            table(layer, "input_zero_point", np.array([layer.a_zero_point])),
        )

    @property
    def definitions(self) -> str:
        """The structs `sums` and `thresholds`."""
        weights, bias, zero_point = (each.values for each in self.sums)
        kind = f"sums<{integer_type(weights)}, {self.layer.input.size}, {self.layer.size}>"
        values = f"{{{initialiser(weights)}, {initialiser(bias)}, {zero_point[0]}}}"
        return f"static const {kind} {self.name}_sums = {values};\n{contraction.definition(self.layer, self.rounding)}"

    @property
    def storage(self) -> Sequence[str]:
        """The pragmas of weights and bias, all columns at once, and of the levels."""
        sums = f"{self.name}_sums"
        return [
            f"ARRAY_RESHAPE variable={sums}.weights dim=2 type=complete",
            f"ARRAY_PARTITION variable={sums}.bias type=complete",
            bind(f"{sums}.weights", in_bram=resources.weights_in_bram(self.layer.input.size)),
            *contraction.storage(self.layer, self.rounding),
        ]

    def streams(self, number: int) -> Sequence[str]:
        """Return the stream of sums."""
        return [f"    {rows_type(self.layer.size)} rows_{number};"]

    def calls(self, number: int) -> Sequence[str]:
        """Return both processes."""
        kind, streams = f"{self.name}_layer", f"passed_{number}, rows_{number}"
        return [
            f"    sum_up<{kind}>(stream_{number}, {streams}, asked, {self.name}_sums);",
            f"    finish<{kind}>({streams}, stream_{number + 1}, asked, {self.name}_rounding);",
        ]

    @property
    def resources(self) -> Resources:
        """A DSP for each column, and the memories."""
        products = Resources(0, dsp=self.layer.size, bram36=0)
        in_bram = resources.weights_in_bram(self.layer.input.size)
        weights = resources.memory(centred(self.layer), in_bram=in_bram)
        return products + weights + contraction.area(self.layer, contraction.thresholds)

    def geometry(self, record: int, kept: int) -> Geometry:
        """Return the geometry of the RTL core, generalised to records."""
        return rtl.shape(self.layer, others=record - self.layer.input.size, kept=kept)


class QGemmLowering(VitisLowering[QGemm]):
    """Accumulators are sums of products less their zero points."""

    operator = QGemm

    def circuit(self, layer: QGemm, fold: int) -> Circuit[QGemm]:
        """Return the layer; if it is folded, as the convolution of one position."""
        if fold == 1:
            return QGemmCircuit(layer, fold)
        return WindowedCircuit(layer, fold, POSITION, groups=1, channels=layer.input.size)

    def unsupported(self, layer: QGemm, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse accumulators that reach the largest int32, and sums that could leave int32."""
        return reaches_sentinel(layer) or too_deep(layer)
