"""Operators that are one expression of one value in CUDA: the statements of C, with the constants of the layer."""

from __future__ import annotations

from typing import Any

from harness.operators.pointwise import Pointwise
from harness.targets.c import expression
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class PointwiseLowering(VectorLowering[Pointwise]):
    """One value at a time."""

    operator = Pointwise
    in_place = True

    def tables(self, layer: Pointwise) -> tuple[Table, ...]:
        """Return the attributes."""
        constants: Any = layer.constants()
        return tables_of(layer, constants)

    def value(self, layer: Pointwise) -> str:
        """Return the statements of the definition."""
        constants = {role: f"{layer.name}_{role}[0]" for role in layer.constants()}
        lines, result = expression.statements(layer.definition, {"x": "x", **constants})
        return "\n".join(["const float x = x_0[n];", *lines, f"return {result};"])
