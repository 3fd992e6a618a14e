"""Functions of codes in TFLite: tables of all codes or pairs (GATHER), ADD, and roundings from and to float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.code_pairs import CodePairs
from harness.operators.codes import Affine
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.lookup import Lookup
from harness.operators.obligations import all_codes
from harness.operators.qlinear_add import QLinearAdd
from harness.operators.qlinear_mul import QLinearMul
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.litert.graph import FLOAT, INT8, INT32, Graph, Value, of_affine
from harness.targets.litert.lowering import LiteRtLowering


class LookupLowering(LiteRtLowering[Lookup]):
    """The table is that of the specification."""

    operator = Lookup

    def emit(self, layer: Lookup, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the numbers of the codes and the operator."""
        return look_up(graph, numbers(graph, inputs[0], layer.output.name), layer.table(), layer.y, layer.output.name)


def numbers(graph: Graph, x: Value, name: str) -> Value:
    """Return the number of codes below each, int32."""
    wide = graph.cast(x, INT32, f"{name}/codes")
    return graph.binary("ADD", wide, np.array([-np.iinfo(INT8).min], np.int32), f"{name}/numbers")


def look_up(graph: Graph, places: Value, table: Array, y: Affine, name: str) -> Value:
    """Return the entries of a table of codes at places, as codes of the quantisation y."""
    stored = (table.reshape(-1).astype(np.int16) - places.offset).astype(np.int8)
    entries = graph.constant(f"{name}/table", stored, of_affine(y, places.offset))
    return graph.call("GATHER", [entries, places.tensor], name, places, dtype=INT8, scales=y, options={"axis": 0})


P = TypeVar("P", bound=CodePairs)
CODES = 256


class CodePairsLowering(LiteRtLowering[P]):
    """The table is that of the specification: TFLite's own operator rounds some pairs in another way."""

    operator: ClassVar[type[Layer]] = QLinearMul

    def unsupported(self, layer: P, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse activations that are repeated along an axis."""
        return "it repeats an activation along an axis" if layer.broadcasts else None

    def emit(self, layer: P, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the numbers of the pairs and the operator."""
        name, first = layer.output.name, inputs[0]
        high = graph.binary("MUL", numbers(graph, first, f"{name}/first"), np.array([CODES], np.int32), f"{name}/rows")
        second = self._second(layer, graph, inputs, name)
        places = graph.binary("ADD", high, second, f"{name}/places")
        return look_up(graph, places, layer.by_activation(layer.table()), layer.y, name)

    def _second(self, layer: P, graph: Graph, inputs: Sequence[Value], name: str) -> Value | np.ndarray:
        first = inputs[0]
        if layer.operand is None:
            return numbers(graph, graph.as_stored(inputs[1], first), f"{name}/second")
        below = layer.operand.astype(np.int32) - np.iinfo(layer.dtype).min
        return below[first.places()].reshape(first.shape)


MULTIPLIER_BITS = 20


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """All 65,536 pairs decide which form is taken."""

    operator = QLinearAdd

    def emit(self, layer: QLinearAdd, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator or the table."""
        if layer.operand is not None or not (xnnpack_table(layer) == layer.table()).all():
            return super().emit(layer, graph, inputs)
        first = graph.codes(inputs[0], layer.a)
        second = graph.codes(graph.as_stored(inputs[1], first), layer.b)
        return graph.binary("ADD", first, second, layer.output.name, scales=layer.y)


def xnnpack_table(layer: QLinearAdd) -> Array:
    """Return what XNNPACK adds for all pairs of codes, (256, 256)."""
    codes, limits = all_codes(layer.dtype).astype(np.int64), np.iinfo(layer.dtype)
    ratios = np.array([layer.a.scale / layer.y.scale, layer.b.scale / layer.y.scale], np.float32)
    shift = MULTIPLIER_BITS - int(np.frexp(ratios.max())[1] - 1)
    first, second = np.rint(np.ldexp(ratios.astype(np.float64), shift)).astype(np.int64)
    a, b = ((codes - operand.zero_point) * factor for operand, factor in ((layer.a, first), (layer.b, second)))
    sums = (a[:, None] + b[None] + (1 << (shift - 1))) >> shift
    table: Array = np.clip(sums + layer.y.zero_point, limits.min, limits.max).astype(layer.dtype)
    return table


class QuantizeLinearLowering(LiteRtLowering[QuantizeLinear]):
    """Every operation rounds as IEEE 754 says."""

    operator = QuantizeLinear

    def emit(self, layer: QuantizeLinear, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the division and the rounding."""
        [x] = inputs
        quotient = graph.binary("DIV", x, np.array([layer.scale], np.float32), f"{layer.output.name}/quotient")
        return graph.rounded(quotient, Affine(layer.scale, layer.zero_point), layer.dtype, layer.output.name)


class DequantizeLinearLowering(LiteRtLowering[DequantizeLinear]):
    """The difference is exact, the product one operation."""

    operator = DequantizeLinear

    def emit(self, layer: DequantizeLinear, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        codes = graph.codes(inputs[0], Affine(layer.scale, layer.zero_point))
        like = Value(codes.tensor, codes.shape, codes.dtype, codes.image)
        return graph.call("DEQUANTIZE", [codes.tensor], layer.output.name, like, dtype=FLOAT)
