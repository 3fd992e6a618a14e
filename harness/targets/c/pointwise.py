"""Operators that are one expression of one value in C: a function of the value for each layer, in all variants."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from harness.operators.pointwise import Pointwise
from harness.targets.c import code, expression
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


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


def _tables(layer: Pointwise) -> tuple[Table, ...]:
    return tuple(Table(f"{layer.name}_{role}", np.atleast_1d(number)) for role, number in layer.constants().items())
