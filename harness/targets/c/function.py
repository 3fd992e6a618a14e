"""Functions of one float32 value in C, without branches, in all variants: the statements of their definitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from harness.operators.pointwise import Pointwise
from harness.targets.c import code, expression
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class PointwiseLowering(CLowering[Pointwise]):
    """One value at a time: out[n] = <layer>_value(in[n], constants, limits)."""

    operator = Pointwise
    headers = ("elementary.h",)

    def plain(self, layer: Pointwise, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - see below
        """Loop over the values; the generic code is the same, as compilers vectorise no calls."""
        constants = layer.constants().items()
        tables = tuple(Table(f"{layer.name}_{role}", np.atleast_1d(number)) for role, number in constants)
        value = _call(layer, [f"{table.name}[0]" for table in tables])
        return _with_function(layer, sources, tables, code.loop(layer, f"out[n] = {value('n')};"))

    def unrolled(self, layer: Pointwise, sources: Sequence[str]) -> LayerCode:
        """Write every call, with the constants as literals."""
        constants = [literal(number) for number in layer.constants().values()]
        values = map(_call(layer, constants), range(layer.size))
        return _with_function(layer, sources, (), code.assigned(values))


def _call(layer: Pointwise, constants: Sequence[str]) -> Callable[[int | str], str]:
    arguments = "".join(f", {name}" for name in [*constants, *expression.limits(layer.definition).values()])
    return lambda place: f"{layer.name}_value(in[{place}]{arguments})"


def _with_function(layer: Pointwise, sources: Sequence[str], tables: tuple[Table, ...], body: str) -> LayerCode:
    arguments = dict.fromkeys(["x", *layer.constants()], "float")
    function = expression.function(f"{layer.name}_value", layer.definition, arguments)
    variables = (code.not_known("float", name, number) for number, name in expression.limits(layer.definition).items())
    layer_code = code.elementwise(layer, sources, tables, "\n    ".join([*variables, body]))
    return dataclasses.replace(layer_code, definitions=f"\n{function}\n{layer_code.definitions}")
