"""Functions of one float32 value in C, without branches, in all variants: calls of kernels, and definitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeVar

import numpy as np

from harness.operators.elu import Elu
from harness.operators.exp import Exp
from harness.operators.function import Function
from harness.operators.hard_sigmoid import HardSigmoid
from harness.operators.hard_swish import HardSwish
from harness.operators.pointwise import Pointwise
from harness.operators.sigmoid import Sigmoid
from harness.operators.tanh import Tanh
from harness.targets.c import code, expression
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal

T = TypeVar("T", bound=Function)


class FunctionLowering(CLowering[T]):
    """One value at a time: out[n] = `function`_of(in[n], constants, variables).

    The kernel is `function`_float32(width, x, constants, y).
    """

    function: ClassVar[str]
    variables: ClassVar[Mapping[str, str]]
    """Variables of the function with their values, which compilers must not know (saturate.h)."""

    def plain(self, layer: T, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call the kernel."""
        tables = _tables(layer)
        arguments = [str(layer.size), "in", *(f"{table.name}[0]" for table in tables), "out"]
        call = f"{prefix}{self.function}_float32({', '.join(arguments)});"
        return code.elementwise(layer, sources, tables, call)

    def inlined(self, layer: T, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        tables = _tables(layer)
        value = self._value([f"{table.name}[0]" for table in tables])
        return code.elementwise(layer, sources, tables, self._body(code.loop(layer, f"out[n] = {value('n')};")))

    def unrolled(self, layer: T, sources: Sequence[str]) -> LayerCode:
        """Write every expression, with the constants as literals."""
        value = self._value([literal(table.values[0]) for table in _tables(layer)])
        return code.elementwise(layer, sources, (), self._body(code.assigned(map(value, range(layer.size)))))

    def _body(self, statements: str) -> str:
        variables = (code.not_known("float", name, value) for name, value in self.variables.items())
        return "\n    ".join([*variables, statements])

    def _value(self, constants: Sequence[str]) -> Callable[[int | str], str]:
        arguments = ", ".join([*constants, *self.variables])
        return lambda place: f"{self.function}_of(in[{place}], {arguments})"


def _tables(layer: Function) -> tuple[Table, ...]:
    return tuple(Table(f"{layer.name}_{role}", np.atleast_1d(number)) for role, number in layer.constants().items())


class ExpLowering(FunctionLowering[Exp]):
    """See `FunctionLowering`."""

    operator = Exp
    headers = ("exp.h",)
    function = "exp"
    variables = {"bound": "EXP_BOUND"}  # noqa: RUF012


class TanhLowering(FunctionLowering[Tanh]):
    """See `FunctionLowering`."""

    operator = Tanh
    headers = ("tanh.h",)
    function = "tanh"
    variables = {"bound": "EXP_BOUND"}  # noqa: RUF012


class SigmoidLowering(FunctionLowering[Sigmoid]):
    """See `FunctionLowering`."""

    operator = Sigmoid
    headers = ("sigmoid.h",)
    function = "logistic"
    variables = {"bound": "EXP_BOUND"}  # noqa: RUF012


class EluLowering(FunctionLowering[Elu]):
    """See `FunctionLowering`."""

    operator = Elu
    headers = ("elu.h",)
    function = "elu"
    variables = {"bound": "EXP_MINUS_ONE_BOUND"}  # noqa: RUF012


class HardSigmoidLowering(FunctionLowering[HardSigmoid]):
    """See `FunctionLowering`."""

    operator = HardSigmoid
    headers = ("hard_sigmoid.h",)
    function = "hard_sigmoid"
    variables = {"zero": "0.0f", "one": "1.0f"}  # noqa: RUF012


class HardSwishLowering(FunctionLowering[HardSwish]):
    """See `FunctionLowering`."""

    operator = HardSwish
    headers = ("hard_swish.h",)
    function = "hard_swish"
    variables = {"zero": "0.0f", "one": "1.0f"}  # noqa: RUF012


class PointwiseLowering(CLowering[Pointwise]):
    """One value at a time: out[n] = <layer>_of(in[n], constants)."""

    operator = Pointwise
    headers = ("elementary.h",)

    def plain(self, layer: Pointwise, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Loop over the values; the generic function is not inlined."""
        qualifiers = "static __attribute__((noinline))" if prefix else "static inline"
        tables = _tables(layer)
        value = _call(layer, "n", [f"{table.name}[0]" for table in tables])
        return _with_function(layer, sources, tables, code.loop(layer, f"out[n] = {value};"), qualifiers)

    def unrolled(self, layer: Pointwise, sources: Sequence[str]) -> LayerCode:
        """Write every call, with the constants as literals."""
        constants = [literal(table.values[0]) for table in _tables(layer)]
        values = (_call(layer, place, constants) for place in range(layer.size))
        return _with_function(layer, sources, (), code.assigned(values), "static inline")


def _call(layer: Pointwise, place: int | str, constants: Sequence[str]) -> str:
    return f"{layer.name}_of({', '.join([f'in[{place}]', *constants])})"


def _with_function(
    layer: Pointwise, sources: Sequence[str], tables: tuple[Table, ...], body: str, qualifiers: str
) -> LayerCode:
    arguments = dict.fromkeys(["x", *layer.constants()], "float")
    function = expression.function(f"{layer.name}_of", layer.definition, arguments, qualifiers)
    layer_code = code.elementwise(layer, sources, tables, body)
    return dataclasses.replace(layer_code, definitions=f"\n{function}\n{layer_code.definitions}")
