"""Functions of one value in CUDA: device functions, and definitions as the statements of C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.operators.base import Layer
from harness.operators.clip import Clip
from harness.operators.elu import Elu
from harness.operators.exp import Exp
from harness.operators.hard_sigmoid import HardSigmoid
from harness.operators.hard_swish import HardSwish
from harness.operators.leaky_relu import LeakyRelu
from harness.operators.pointwise import Pointwise
from harness.operators.relu import Relu
from harness.operators.sigmoid import Sigmoid
from harness.operators.tanh import Tanh
from harness.targets.c import expression
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

FUNCTIONS: Mapping[type[Layer], tuple[str, ...]] = {
    Clip: ("clip",),
    Elu: ("elu",),
    Exp: ("exp_of", "EXP_BOUND"),
    HardSigmoid: ("hard_sigmoid",),
    HardSwish: ("hard_swish",),
    LeakyRelu: ("leaky_relu",),
    Relu: ("relu",),
    Sigmoid: ("logistic_of", "EXP_BOUND"),
    Tanh: ("tanh_of", "EXP_BOUND"),
}
"""The device function of an operator, and the bound that it takes (kernels/c/elementary.h)."""


class FunctionLowering(VectorLowering[Layer]):
    """One value at a time: a device function of it, of the layer's constants, and of a bound."""

    operator = tuple(FUNCTIONS)
    in_place = True

    def tables(self, layer: Layer) -> tuple[Table, ...]:
        """Return the numbers; the bounds of Clip have the type of the values."""
        constants: Any = {"low": layer.low, "high": layer.high} if isinstance(layer, Clip) else layer.constants()
        return tables_of(layer, constants)

    def value(self, layer: Layer) -> str:
        """Call the function."""
        function, *bound = FUNCTIONS[type(layer)]
        numbers = (f"{table.name}[0]" for table in self.tables(layer))
        return f"return {function}({', '.join(['x_0[n]', *numbers, *bound])});"


class PointwiseLowering(FunctionLowering):
    """One value at a time: the statements of a definition."""

    operator = (Pointwise,)

    def value(self, layer: Layer) -> str:
        """Return the statements."""
        assert isinstance(layer, Pointwise)  # noqa: S101 - by `operator`
        constants = {role: f"{layer.name}_{role}[0]" for role in layer.constants()}
        lines, result = expression.statements(layer.definition, {"x": "x", **constants})
        return "\n".join(["const float x = x_0[n];", *lines, f"return {result};"])
