"""TFLite operators on int16 codes (16x8: int8 weights, int64 bias) as float32 operators between quantisers.

LiteRT adds the products of codes in int64 and multiplies by a fixed-point number.  The float32 operator has other
roundings: a code can differ where a sum lies between two codes.  `harness models import` counts these values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.model.tflite.file import OperatorCall, Scales, TensorValue, TfliteFile

FLOAT, INT16 = np.dtype(np.float32), np.dtype(np.int16)
NOTE = "operators on int16 codes are float32 operators between DequantizeLinear and QuantizeLinear"


def reals(tensor: TensorValue) -> Array:
    """Return the float32 values of the codes of a constant: the scale of each channel times the distance from zero."""
    assert tensor.values is not None  # noqa: S101 - of a constant
    if tensor.scales is None:
        return tensor.values.astype(np.float32)
    along: list[Any] = [1] * tensor.values.ndim
    steps = tensor.scales.scale.astype(np.float64)
    if len(steps) > 1:
        along[tensor.scales.axis] = -1
    distances = tensor.values.astype(np.float64) - tensor.scales.zero_point
    result: Array = (distances * steps.reshape(along)).astype(np.float32)
    return result


@dataclass
class _Wide:
    """The tensors and operators so far; `known` are the float32 tensors of activations of int16 codes."""

    tensors: list[TensorValue]
    calls: list[OperatorCall] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)

    def add(self, tensor: TensorValue) -> int:
        """Add a tensor; return its number."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def operand(self, number: int, call: OperatorCall) -> int:
        """Return the float32 tensor in place of an input of an operator; integers without a scale stay."""
        tensor = self.tensors[number]
        scales = tensor.scales
        if number < 0 or (scales is None and tensor.dtype != np.int64):
            return number
        if tensor.values is not None:
            if scales is None:  # a bias: its scale is that of the products
                scales = self._of_products(call)
            stored = replace(tensor, scales=scales)
            return self.add(replace(stored, dtype=FLOAT, scales=None, values=reals(stored)))
        if number not in self.known:
            self.known[number] = self.add(replace(tensor, name=f"{tensor.name}_real", dtype=FLOAT, scales=None))
            self.calls.append(OperatorCall("DEQUANTIZE", (number,), (self.known[number],)))
        return self.known[number]

    def _of_products(self, call: OperatorCall) -> Scales | None:
        first, second = (self.tensors[number].scales for number in call.inputs[:2])
        return None if first is None or second is None else Scales(first.scale[0] * second.scale, 0)


def with_float_operators(file: TfliteFile) -> TfliteFile:
    """Return the file with float32 operators in place of those on int16 codes; the codes keep their tensors."""
    wide = _Wide(list(file.tensors))
    for call in file.operators:
        numbers = [number for number in (*call.inputs, *call.outputs) if number >= 0]
        has_codes = any(wide.tensors[number].dtype == INT16 for number in numbers)
        if not has_codes or call.name in ("DEQUANTIZE", "QUANTIZE"):
            wide.calls.append(call)
            continue
        inputs = tuple(wide.operand(number, call) for number in call.inputs)
        outputs = [(number, wide.tensors[number]) for number in call.outputs]
        real = tuple(
            wide.add(replace(tensor, name=f"{tensor.name}_value", dtype=FLOAT, scales=None)) for _, tensor in outputs
        )
        wide.calls.append(replace(call, inputs=inputs, outputs=real))
        wide.calls += [
            OperatorCall("QUANTIZE", (value,), (number,)) for value, number in zip(real, call.outputs, strict=True)
        ]
    return replace(file, tensors=tuple(wide.tensors), operators=tuple(wide.calls))
