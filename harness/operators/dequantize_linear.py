"""DequantizeLinear (ONNX), uint8 or int8 -> float32, one scale for the tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import orthogonal_array
from harness.operators.base import Ability, Evaluate, fields
from harness.operators.codes import Conversion
from harness.operators.counters import VALUES, Counter, LayerCoverage, Met, Quantity, Stimuli, count, mark
from harness.operators.exact.expression import INT32, Expression, argument, integer, number
from harness.operators.fault_models import (
    LITTLE_ENDIAN,
    FaultModel,
    Single,
    as_other_type,
    other_zero_points,
    through_float16,
    toward_zero,
)
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    all_codes,
    mixed,
)
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32, INT8, UINT8, Tensor
from harness.operators.text import Fragment

DEQUANTISED = "float32(q - zero_point) * scale"
LARGEST_DIFFERENCE = 255
FRAGMENT = Fragment(
    "dequantize_linear",
    20,
    """\
# ONNX DequantizeLinear, uint8 or int8 -> float32: the difference is exact, the product one IEEE float32 operation.
fragment dequantize_linear(
    q: tensor<scalar>,                      # codes (vectors, N)
    scale: scalar,                          # float32
    zero_point: integer,
    type: string)
-> (y: tensor<scalar>)
{
    y = (q - scalar(zero_point)) * scale;
}
""",
)


class _Counter(Counter):
    """The values that it reads, of all of their type."""

    def __init__(self, source: Tensor) -> None:
        self._lowest = np.iinfo(source.dtype).min
        self._values, self._activations = np.zeros((source.size, VALUES), np.bool_), 0

    def add(self, *values: Array) -> None:
        read, _ = values
        self._activations += read.size
        mark(self._values, read.astype(np.intp) - self._lowest)

    def result(self) -> LayerCoverage:
        return {Quantity.CODES_READ: Met(count(self._values), self._values.size, self._activations)}


@dataclass(frozen=True, eq=False)
class DequantizeLinear(Conversion):
    """y = float32(q - zero_point) * scale."""

    ONNX = (("", "DequantizeLinear"),)
    text = Conversion.text.but(
        "y = float32(x - zero_point) * scale                            in float32", fragments=(FRAGMENT,)
    )
    stimuli = Ability(lambda layer: Stimuli(lambda _: _Counter(layer.input)))

    @cached_property
    def definition(self) -> Expression:
        """The definition."""
        return number(integer(argument("x", self.input.dtype)) - argument("zero_point", INT32)) * argument("scale")

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the shape stays, and the type of the scale."""
        node.same_shape(node.x, node.y).same_type(node.x, node.has(2))
        node.scaled_by_axis()
        output_type = node.attribute("output_dtype", 0)
        node.is_type(node.y, output_type) if output_type else node.same_type(node.input(1), node.y)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of an activation, with one scale and one zero point."""
        node.require_inputs(2, 3)
        source = node.activation(0, [UINT8, INT8])
        attributes = node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
        node.require_per_tensor(attributes, [onnx.TensorProto.FLOAT])
        zero_point = int(node.single(2, "zero point", [source.dtype])) if node.has(2) else 0
        scale = node.scale(1, "scale")
        with np.errstate(over="ignore"):
            bound = float(np.float32(LARGEST_DIFFERENCE) * scale)
        if not math.isfinite(bound):
            raise node.refusal(f"255 codes of scale {scale:.8g} overflow", "a scale of 1.3e36 at most")
        return cls(**fields(node, [source], source.shape, FLOAT32, bound), scale=scale, zero_point=zero_point)

    def prepare(self) -> Evaluate:
        """Return the function that looks values up in a table of all codes."""
        codes = all_codes(self.input.dtype)
        table = self.in_integers([codes])
        return lambda q: table.take(q.astype(np.intp) - int(codes[0]))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong zero points, scales, types and orders of operations."""
        [read] = inputs
        q, scale = read.astype(np.int64), self.scale

        def scaled(centered: Array, factor: Any = scale) -> Single:
            y: Single = centered.astype(np.float32) * factor
            return y

        right = q - self.zero_point
        for other in other_zero_points(self.zero_point):
            cause = f"the zero point is {other}" if other else "the zero point is left out"
            yield FaultModel(cause, str(self.zero_point), scaled(q - other))
        late = scaled(q) - np.float32(self.zero_point) * scale
        yield FaultModel("the zero point is subtracted after the scaling", DEQUANTISED, late)
        divided = right.astype(np.float32) / (np.float32(1) / scale)
        yield FaultModel("division by 1 / scale instead of multiplication", DEQUANTISED, divided)
        truncated = toward_zero(right * np.float64(scale))
        yield FaultModel("the product is truncated toward zero", "rounded half to even", truncated)
        yield FaultModel("the scale is a float16", "float32", scaled(right, through_float16(np.atleast_1d(scale))))
        yield FaultModel("the output is rounded to float16", "float32", through_float16(scaled(right)))
        misread = as_other_type(read)
        yield FaultModel(
            f"the codes are read as {misread.dtype}",
            str(read.dtype),
            scaled(misread.astype(np.int64) - self.zero_point),
        )
        swapped = scaled(right, scale.byteswap())
        yield FaultModel("the bytes of the scale are in the other order", LITTLE_ENDIAN, swapped)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield all values, all pairs of values in any two columns, and columns of few different values."""
        pairs = len(orthogonal_array.arrangements(self.size)) * orthogonal_array.PAIR_VECTORS
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "every code becomes the right number",
            "all 256 codes pass through every column, and any two columns have every pair of codes (orthogonal array "
            f"over GF(256)); {MIXED}",
            (256 + pairs + VECTORS) * self.size,
            Outputs(lambda: [self._codes()], self.prepare()),
        )

    def _codes(self) -> Array:
        size = self.size
        every = np.repeat(all_codes(self.input.dtype)[:, None], size, axis=1)
        numbers = orthogonal_array.arrangements(size)
        pairs = [orthogonal_array.pairs(size, number).view(self.input.dtype) for number in numbers]
        return np.concatenate([every, *pairs, mixed(every[:, 0], size)])
