"""Contractions of quantised values: sums of products, their fault models and what a proof must ask of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import contraction_faults, contraction_proof
from harness.operators.base import Ability
from harness.operators.code_sums import CodeSums, Rounded
from harness.operators.exact.expression import INT32, code, number
from harness.operators.exact.stages import Indexed, Source, Stage, array, constant
from harness.operators.fault_models import FaultModel, PlacedFault, Single
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, ProofStep
from harness.operators.scaled_sum import ScaledSum
from harness.operators.softfloat import Integers
from harness.operators.sweeps import Swept
from harness.operators.tensor import FLOAT32


def _rounded(layer: Contraction) -> Rounded:
    """Return the rounding of the layer; it is swept with one value for each channel, which is that of every position.

    Constants of a float32 output are shown by the same step.
    """
    zero = None if layer.dtype == np.float32 else layer.y_zero_point
    alone = replace(layer, output=replace(layer.output, shape=(len(layer.multiplier),)))
    swept = Swept(alone, alone.sweep, alone.step_functions, alone.isolate)
    step = ProofStep.REQUANTIZATION
    return Rounded(zero, "accumulators", step, layer.before_rounding, layer.check_table, swept)


class Contraction(ScaledSum):
    """A sum whose faults are known and which a proof can show."""

    rounded = Ability(_rounded)

    @property
    def sums(self) -> Self:
        """The layer itself."""
        return self

    @abstractmethod
    def summed(self) -> Stage:
        """Return the definition of the sums in int32, of codes less their zero points; its first axes are channels."""

    def requantized(self, sums: Indexed) -> Stage:
        """Return the definition of the output from the sums."""
        of_channels, size = 0, np.size(self.numbers()["multiplier"])
        while math.prod(sums.shape[:of_channels]) < size:
            of_channels += 1
        channels = sums.axes[:of_channels]
        v = number(sums[sums.axes]) * Source("multiplier", channels, is_constant=True)[channels]
        y = v if self.dtype == FLOAT32 else code(v, constant("output_zero_point", INT32), self.dtype)
        return array("y", sums.axes, y)

    def numbers(self) -> Mapping[str, Any]:
        """Return the constants of the definition."""
        return {
            "weights": self.weights.T,
            "weights_zero_point": self.weights_zero_point,
            "bias": self.bias,
            "input_zero_point": np.int32(self.a_zero_point),
            "multiplier": self.multiplier,
            "output_zero_point": np.int32(self.y_zero_point),
        }

    def code_sums(self) -> CodeSums | None:
        """Return the layer with its zero points folded into weights and offset; None if it is not dense."""
        return None

    @abstractmethod
    def isolate(self, node: onnx.NodeProto) -> tuple[list[onnx.ValueInfoProto], Callable[[Array], dict[str, Array]]]:
        """Change its node so that it computes the rounding alone; see `Swept`."""

    def before_rounding(self, *inputs: Array) -> Single | None:
        """Return float32(acc) * m, clamped to the range of the values; None for a float32 output."""
        return self.sums_before_rounding(self.accumulate()(*inputs))

    def sums_before_rounding(self, sums: Integers) -> Single | None:
        """Return the same for accumulators."""
        return None if self.dtype == np.float32 else contraction_faults.clamped_product(self, sums)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong multipliers, products, roundings and sums."""
        return contraction_faults.fault_models(self, inputs[0])

    def placed_faults(self, *inputs: Array) -> Iterator[PlacedFault]:
        """Yield two inputs of a sum that are exchanged."""
        yield contraction_faults.exchanged_terms(self, inputs[0])

    def fault_models_of_sums(self, sums: Integers) -> Iterator[FaultModel]:
        """Yield those of the steps after the sum."""
        return contraction_faults.finishing_fault_models(self, sums)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:
        """Yield those of the sums and of the steps after them."""
        return contraction_proof.obligations(self, extent)

    def assumptions(self) -> Iterator[str]:
        """Yield the facts that samples of the sums do not show."""
        yield (
            "In a sum of products no term depends on three or more inputs at once in a way that one input alone, any "
            "pair of codes of two inputs, the extremes and random vectors do not show. All of these were tried."
        )
        if self.positions > 1:
            yield (
                f"Layer {self.name} computes all positions of a channel alike: each accumulator and each pair of codes "
                "of two inputs was tried at one position."
            )

    def extremes(self) -> Array:
        """Return inputs (n, K) that drive the sums to their bounds, and random ones."""
        return contraction_proof.extremes(self)


def weight_quantisation(node: Node, first: int, dtype: np.dtype[Any], channels: int) -> tuple[Array, Array]:
    """Return b_scale and b_zero_point, inputs `first` and the next, both of shape (), (1,) or (channels,)."""
    scale = node.normal(node.constant(first, "scale of b", [FLOAT32]), "scale of b")
    zero_point = node.constant(first + 1, "zero point of b", [dtype])
    if scale.shape != zero_point.shape or scale.shape not in ((), (1,), (channels,)):
        raise node.refusal(
            f"scale and zero point of b have shapes {scale.shape} and {zero_point.shape}",
            f"the same shape for both: (), (1,) or ({channels},)",
        )
    return scale, zero_point


def output_quantisation(node: Node, first: int, dtype: np.dtype[Any]) -> tuple[np.float32 | None, int]:
    """Return y_scale and y_zero_point, inputs `first` and the next; (None, 0) for a float32 output."""
    if node.has(first) != node.has(first + 1):
        raise node.refusal(
            "has only one of y_scale and y_zero_point", f"both, for a {dtype} output, or none, for float32"
        )
    if not node.has(first):
        return None, 0
    return node.scale(first, "scale of y"), int(node.single(first + 1, "zero point of y", [dtype]))
