"""The nodes that compute one layer, and the steps that several operators have in common."""

from __future__ import annotations

from itertools import chain, count
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.codes import Affine
from harness.operators.contraction import Contraction

FLOAT, DOUBLE, INT32 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32
LARGEST_CODE = 2.0**30
"""Engines convert a rounded number to int32 before they add the zero point and clamp."""


class Form:
    """The nodes and constants in the place of a layer's `node`; the last one writes the activation.

    `taken` are the names of tensors in the graph, to which the new ones are added.
    """

    def __init__(self, layer: Layer, node: onnx.NodeProto, opset: int, taken: set[str]) -> None:
        self.node, self.opset, self._layer, self._taken = node, opset, layer, taken
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: Array | np.generic, role: str) -> str:
        """Add a constant and return its name."""
        name = self._name(role)
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, last: bool = False, **attributes: Any) -> str:
        """Add a node and return the name of its output: the activation if it is the `last`."""
        output = self.node.output[0] if last else self._name(operator)
        name = self._layer.node if last else output
        self.nodes.append(helper.make_node(operator, inputs, [output], name, **attributes))
        return output

    def keep(self) -> None:
        """Add the node as it is."""
        self.nodes.append(self.node)

    def cast(self, x: str, to: int, *, last: bool = False) -> str:
        """Add a conversion to a type of TensorProto."""
        return self.add("Cast", x, last=last, to=to)

    def codes(self, whole: str) -> str:
        """Add the codes that whole float32 numbers are, as the activation; one engine converts to uint8 as to int8."""
        return self.quantised(whole, 0, self._layer.dtype, np.iinfo(self._layer.dtype).max)

    def product(self, x: str, factor: Array | np.generic) -> str:
        """Add float32(x * factor) of float32 numbers; the product of float64 is exact, so that nothing is fused."""
        product = self.add("Mul", self.cast(x, DOUBLE), self.constant(factor.astype(np.float64), "factor"))
        return self.cast(product, FLOAT)

    def quotient(self, x: str, divisor: Array | np.generic) -> str:
        """Add float32(x / divisor) of float32 numbers, in float64, as some engines multiply by 1 / divisor.

        A quotient of two float32 differs from each midpoint of two float32 by 2^-49 of its value or more, unless it is
        subnormal; in float64 quotient and product are wrong by less than 2^-51, so that both round to the same float32.
        """
        numbers = self.cast(x, DOUBLE)
        return self.cast(self.add("Div", numbers, self.constant(divisor.astype(np.float64), "divisor")), FLOAT)

    def dequantised(self, x: str, quantisation: Affine) -> str:
        """Add float32(scale * (code - zero_point)); float32 holds the difference exactly."""
        difference = self.add(
            "Sub", self.cast(x, INT32), self.constant(np.int32(quantisation.zero_point), "zero_point")
        )
        return self.product(self.cast(difference, FLOAT), np.float32(quantisation.scale))

    def quantised(self, v: str, zero_point: int, dtype: np.dtype[Any], largest: float = np.inf) -> str:
        """Add saturate(round_half_even(v) + zero_point) of float32 numbers, `largest` at most, as the activation."""
        limits = np.iinfo(dtype)
        if not largest < LARGEST_CODE:
            low, high = (np.float32(limit - zero_point) for limit in (limits.min, limits.max))
            v = self.add("Clip", v, self.constant(low, "low"), self.constant(high, "high"))
        one, added = self.constant(np.float32(1), "one"), self.constant(np.array(zero_point, dtype), "y_zero_point")
        return self.add("QuantizeLinear", v, one, added, last=True)

    def entries(self, table: Array, places: str) -> str:
        """Add the entries of a table at int32 places, as the activation."""
        return self.add("Gather", self.constant(table.reshape(-1), "table"), places, last=True)

    def numbers(self, x: str) -> str:
        """Add the number of codes below each, int32."""
        below = np.int32(-np.iinfo(self._layer.dtype).min)
        wide = self.cast(x, INT32)
        return self.add("Add", wide, self.constant(below, "below")) if below else wide

    def finish(self, layer: Contraction, accumulators: str, channels: tuple[int, ...]) -> str:
        """Add bias, conversion, product with the multiplier and rounding; constants have the shape `channels`."""
        if layer.bias.any():
            accumulators = self.add("Add", accumulators, self.constant(layer.bias.reshape(channels), "bias"))
        numbers = self.cast(accumulators, FLOAT)
        m = layer.multiplier if (layer.multiplier != layer.multiplier[0]).any() else layer.multiplier[:1]
        multiplier = self.constant(m.reshape((-1, *channels[1:])) if m.size > 1 else m.reshape(()), "multiplier")
        if layer.scales.y is None:
            return self.add("Mul", numbers, multiplier, last=True)
        v, bounds = self.add("Mul", numbers, multiplier), layer.accumulator()
        largest = float(layer.multiplier.max()) * max(-bounds.low, bounds.high)
        return self.quantised(v, layer.y_zero_point, layer.dtype, largest)

    def _name(self, role: str) -> str:
        stem = f"{self.node.output[0]}/{role.lower()}"
        name = next(name for name in chain([stem], (f"{stem}_{n}" for n in count(2))) if name not in self._taken)
        self._taken.add(name)
        return name
