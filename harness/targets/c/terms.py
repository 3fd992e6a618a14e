"""Operators of two terms in C: Add, Sub, Mul and Div; a term is an activation or a constant table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from harness.operators.add import Add
from harness.operators.div import Div
from harness.operators.mul import Mul
from harness.operators.sub import Sub
from harness.operators.terms import BinaryLayer
from harness.targets.c import broadcast, code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal

B = TypeVar("B", bound=BinaryLayer)


class BinaryLowering(CLowering[B]):
    """One float32 operation per value: out[n] = a[n] `symbol` b[n]."""

    kernel: ClassVar[str]
    """Name of the function in the operator's header, without prefix."""
    symbol: ClassVar[str]
    first: ClassVar[str] = ""
    """Name of the constant that takes the place of a; any other constant takes that of b."""

    def plain(self, layer: B, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call the function of the operator's header; with broadcasting, loop over the axes."""
        if layer.broadcasts:
            return self._with_axes(layer, sources)
        a, b = self._arrays(layer)
        return code.elementwise(layer, sources, _tables(layer), f"{prefix}{self.kernel}({layer.size}, {a}, {b}, out);")

    def inlined(self, layer: B, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        if layer.broadcasts:
            return self._with_axes(layer, sources)
        a, b = self._arrays(layer)
        statement = code.loop(layer, f"out[n] = {a}[n] {self.symbol} {b}[n];")
        return code.elementwise(layer, sources, _tables(layer), statement)

    def unrolled(self, layer: B, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the constants as literals."""
        constants = {table.name: [literal(value) for value in table.values] for table in _tables(layer)}
        operands = [
            (constants.get(array) or [f"{array}[{n}]" for n in range(int(np.prod(shape)))], shape)
            for array, shape in zip(self._arrays(layer), layer.shapes, strict=True)
        ]
        values = code.assigned(broadcast.elements(layer.output.shape, operands, f" {self.symbol} ".join))
        return _stage(layer, sources, values, ())

    def _with_axes(self, layer: B, sources: Sequence[str]) -> LayerCode:
        operands = list(zip(self._arrays(layer), layer.shapes, strict=True))
        body = broadcast.loops(layer.output.shape, operands, f" {self.symbol} ".join)
        return _stage(layer, sources, body, _tables(layer))

    def _arrays(self, layer: B) -> tuple[str, str]:
        """Return the names of the arrays that hold a and b."""
        tables = _tables(layer)
        if not tables:
            return ("in_0", "in_1") if layer.broadcasts else ("in", "other")
        return (tables[0].name, "in") if self.first in layer.constants() else ("in", tables[0].name)


def _stage(layer: BinaryLayer, sources: Sequence[str], body: str, tables: tuple[Table, ...]) -> LayerCode:
    """Return a layer of one stage, whose inputs may differ in size."""
    if layer.broadcasts and len(sources) > 1:
        return code.of_inputs(layer, sources, body, tables)
    return code.elementwise(layer, sources, tables, body)


def _tables(layer: BinaryLayer) -> tuple[Table, ...]:
    """Return the table of the constant term, if there is one."""
    terms = layer.facts().items()
    return tuple(Table(f"{layer.name}_{role}", values) for role, values in terms if values is not None)


class AddLowering(BinaryLowering[Add]):
    """One addition per value (kernels/c/add.h)."""

    operator = Add
    kernel = "add_float32"
    symbol = "+"


class SubLowering(BinaryLowering[Sub]):
    """One subtraction per value (kernels/c/sub.h)."""

    operator = Sub
    headers = ("sub.h",)
    kernel = "sub_float32"
    symbol = "-"
    first = "minuend"


class MulLowering(BinaryLowering[Mul]):
    """One multiplication per value (kernels/c/mul.h)."""

    operator = Mul
    headers = ("mul.h",)
    kernel = "mul_float32"
    symbol = "*"


class DivLowering(BinaryLowering[Div]):
    """One division per value (kernels/c/div.h)."""

    operator = Div
    headers = ("div.h",)
    kernel = "div_float32"
    symbol = "/"
    first = "dividend"
