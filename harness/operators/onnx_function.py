"""Operators of this project's own domain, defined as ONNX functions of standard operators, which ONNX Runtime executes.

A model that uses such an operator contains its function.  It must be the function that the operator states, or the file
would mean something else to other programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx
import onnx.parser

from harness.operators.base import Layer
from harness.operators.traits import Trait

DOMAIN = "harness"
OLDEST_OPSET = 13
"""The first in which all operators of the functions have the form that the functions use."""

UNION = """\
    all_bits = Constant <value_ints = [1, 2, 4, 8, 16, 32, 64, 128]> ()
    two = Constant <value_int = 2> ()
    none = Constant <value_int = 0> ()
    second_axis = Constant <value_ints = [1]> ()
    new_axis = Constant <value_ints = [-1]> ()
    each_set = Unsqueeze (sets, new_axis)
    shifted = Div (each_set, all_bits)
    bits = Mod (shifted, two)
    times = ReduceSum <keepdims = 0> (bits, second_axis)
    occurs = Greater (times, none)
    one_or_none = Cast <to = 7> (occurs)
    values = Mul (one_or_none, all_bits)
    y = ReduceSum <keepdims = 1> (values, second_axis)
"""
"""The steps from `sets`, int64 (vectors, n), to their union `y`, int64 (vectors, 1): a bit is set if it is in any."""


def function(name: str, inputs: list[str], body: str, opset: int) -> onnx.FunctionProto:
    """Return an ONNX function of this domain with the output `y`; `body` is in the text form of ONNX."""
    head = f'<domain: "{DOMAIN}", opset_import: ["" : {opset}]>\n{name} ({", ".join(inputs)}) => (y)'
    return onnx.parser.parse_function(f"{head}\n{{\n{body}}}")


@dataclass(frozen=True, eq=False)
class Hybrid(Layer):
    """An operator of the hybrid networks, on target c alone: `body` computes its function of the inputs `roles`."""

    traits = Trait.NONE
    body: ClassVar[str]

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto | None:  # noqa: ARG003 - of the base
        """Return the ONNX function."""
        [(_, name)] = cls.ONNX
        return function(name, [*cls.text.roles], cls.body, opset)
