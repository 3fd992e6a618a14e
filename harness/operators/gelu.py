"""Gelu (ONNX), float32: 0.5 x[n] (1 + erf(x[n] / sqrt(2))), or its approximation by tanh."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx

from harness.operators.base import Layer
from harness.operators.exact.expression import Expression, named
from harness.operators.exact.functions import error_function, hyperbolic_tangent, within
from harness.operators.node import Node
from harness.operators.pointwise import Approximated

ROOT_OF_HALF, ROOT_OF_2_BY_PI, CUBIC = 0.70710677, 0.7978846, 0.044715  # float32


@dataclass(frozen=True, eq=False)
class Gelu(Approximated):
    """y[n] = 0.5 x[n] (1 + erf(x[n] / sqrt(2)))."""

    ONNX = (("", "Gelu"),)
    largest_ulp = 4
    largest_difference = 2.0**-20  # 4.8e-7 was measured: 1 + erf(x) cancels

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return (0.5 * x) * (1 + error_function(x * ROOT_OF_HALF))

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node; `approximate` selects the definition."""
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.proto.attribute}
        approximate = attributes.get("approximate", b"none")
        if approximate not in {b"none", b"tanh"}:
            raise node.refusal(f"approximate is {approximate.decode()}", "none or tanh")
        proto = onnx.NodeProto()
        proto.CopyFrom(node.proto)
        others = [entry for entry in node.proto.attribute if entry.name != "approximate"]
        del proto.attribute[:]
        proto.attribute.extend(others)
        stripped = replace(node, proto=proto)
        return TanhGelu.read(stripped) if approximate == b"tanh" else super().read(stripped)


@dataclass(frozen=True, eq=False)
class TanhGelu(Approximated):
    """y[n] = 0.5 x[n] (1 + tanh(sqrt(2 / pi) (x[n] + 0.044715 x[n]^3)))."""

    ONNX = ()
    largest_ulp = 4
    largest_difference = 2.0**-20  # 4.8e-7 was measured: 1 + tanh(x) cancels

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition; beyond 10 tanh is 1, before the cube overflows."""
        v = named("limited", within(x, 10.0))
        return (0.5 * x) * (1 + hyperbolic_tangent((v + CUBIC * (v * v * v)) * ROOT_OF_2_BY_PI))


Gelu.text = Gelu.text.but(fragments=(*Gelu.text.fragments, *TanhGelu.text.fragments))
