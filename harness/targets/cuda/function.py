"""Functions of one value in CUDA: the statements of definitions, and device functions of those that take codes, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.operators.base import Layer
from harness.operators.clip import Clip
from harness.operators.pointwise import Pointwise
from harness.operators.relu import Relu
from harness.targets.c import expression
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

FUNCTIONS: Mapping[type[Layer], str] = {Clip: "clip", Relu: "relu"}
"""The device function of an operator."""


class FunctionLowering(VectorLowering[Layer]):
    """One value at a time: a device function of it and of the layer's constants."""

    operator = tuple(FUNCTIONS)
    in_place = True

    def tables(self, layer: Layer) -> tuple[Table, ...]:
        """Return the numbers; the bounds of Clip have the type of the values."""
        constants: Any = {"low": layer.low, "high": layer.high} if isinstance(layer, Clip) else layer.constants()
        return tables_of(layer, constants)

    def value(self, layer: Layer) -> str:
        """Call the function."""
        numbers = (f"{table.name}[0]" for table in self.tables(layer))
        return f"return {FUNCTIONS[type(layer)]}({', '.join(['x_0[n]', *numbers])});"


class PointwiseLowering(FunctionLowering):
    """One value at a time: the statements of a definition."""

    operator = (Pointwise,)

    def value(self, layer: Layer) -> str:
        """Return the statements."""
        assert isinstance(layer, Pointwise)  # noqa: S101 - by `operator`
        constants = {role: f"{layer.name}_{role}[0]" for role in layer.constants()}
        lines, result = expression.statements(layer.definition, {"x": "x", **constants})
        return "\n".join(["const float x = x_0[n];", *lines, f"return {result};"])
