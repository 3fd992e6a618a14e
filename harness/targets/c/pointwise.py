"""Functions of values at one place in C, without branches, in all variants: the statements of their definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from harness.operators.base import Layer
from harness.operators.code_pairs import CodePairs
from harness.operators.codes import Conversion
from harness.operators.elements import Elements, tables
from harness.operators.pointwise import Pointwise
from harness.operators.resize_linear import ResizeLinear
from harness.targets.c import broadcast, code, expression
from harness.targets.c.loops import Body, LoopsLowering, Sizes, of_body
from harness.targets.generated import C_TYPES, LayerCode, Table, literal

Defined: TypeAlias = Elements | Pointwise | CodePairs | Conversion


class FunctionLowering(LoopsLowering[Defined]):
    """One value at a time: out[n] = <layer>_value(in[n], constants, limits), in loops over the axes of operands."""

    operator: ClassVar[type[Layer] | tuple[type[Layer], ...]] = (Elements, Pointwise)
    excluded = (ResizeLinear,)
    headers: ClassVar[tuple[str, ...]] = ("elementary.h",)

    def body(self, layer: Defined, sizes: Sizes) -> Body:
        """Loop over the values."""
        constants = tuple(Table(f"{layer.name}_{role}", values) for role, values in tables(layer.operands).items())
        numbers = _numbers(layer)
        arrays = [(array, operand.shape) for array, operand in zip(_arrays(layer, sizes), layer.operands, strict=True)
                  if operand.name not in numbers]  # fmt: skip
        loops = broadcast.loops(layer.output.shape, arrays, _call(layer), sizes)
        known = [(number.kind, name, number.element) for name, number in numbers.items()]
        return _body(layer, constants, loops, known)

    def unrolled(self, layer: Defined, sources: Sequence[str]) -> LayerCode:
        """Write every call, with the constants as literals."""
        operands, numbers = [], _numbers(layer)
        for array, operand in zip(_arrays(layer, Sizes()), layer.operands, strict=True):
            if operand.name in numbers:
                continue
            constants = operand.values
            texts = _places(array, operand.shape) if constants is None else map(literal, constants.reshape(-1))
            operands.append((list(texts), operand.shape))
        values = broadcast.elements(layer.output.shape, operands, _call(layer))
        known = [(number.kind, name, literal(number.value)) for name, number in numbers.items()]
        return of_body(layer, sources, _body(layer, (), code.assigned(values), known))


class _Number(NamedTuple):
    """A constant of one value: its type and its element of a table in C, and the value."""

    kind: str
    element: str
    value: np.generic


def _numbers(layer: Defined) -> dict[str, _Number]:
    """Return the constants of one value of a definition that rounds to codes: variables by their names.

    Of known numbers compilers make branches and products in the place of quotients.
    """
    if layer.definition.operation != "code":
        return {}
    numbers = {}
    for name, _, values, role, _ in layer.operands:
        if values is not None and values.size == 1:
            numbers[name] = _Number(C_TYPES[values.dtype.name], f"{layer.name}_{role}[0]", values[0])
    return numbers


def _arrays(layer: Defined, sizes: Sizes) -> Iterator[str]:
    """Yield the text of the array of each operand; that of a constant begins within a table."""
    activations = iter(["in"] if len(layer.inputs) == 1 else [f"in_{number}" for number in range(len(layer.inputs))])
    for operand in layer.operands:
        table = f"{layer.name}_{operand.role}"
        if operand.values is None:
            yield next(activations)
        else:
            yield f"({table} + {sizes.text('begin', operand.begin)})" if operand.begin else table


def _places(array: str, shape: Sequence[int]) -> Iterator[str]:
    return (f"{array}[{n}]" for n in range(math.prod(shape)))


def _call(layer: Defined) -> Callable[[Sequence[str]], str]:
    """Return the function from the texts of the operands to that of a value.

    The smaller or larger one of two numbers stands in its loop: a compiler that does not vectorise (-O1) then takes a
    conditional move, and a branch for the same expression in a function.
    """
    limits = expression.limits(layer.definition)
    if _is_limit(layer):
        names = [operand.name for operand in layer.operands]
        return lambda values: expression.limit(layer.definition, dict(zip(names, values, strict=True)), limits)
    numbers = _numbers(layer)
    return lambda values: f"{layer.name}_value({', '.join([*values, *numbers, *limits.values()])})"


def _is_limit(layer: Defined) -> bool:
    """Return whether a layer computes nothing but the smaller or larger one of two numbers."""
    return expression.is_limit(layer.definition) and all(not x.operands for x in layer.definition.operands[1:])


def _body(layer: Defined, constants: tuple[Table, ...], loops: str, known: Sequence[tuple[str, str, str]] = ()) -> Body:
    arguments = {operand.name: layer.input.dtype if operand.values is None else operand.values.dtype
                 for operand in layer.operands}  # fmt: skip
    function = expression.function(f"{layer.name}_value", layer.definition, arguments)
    limits = [(expression.kind_of(text), name, text) for text, name in expression.limits(layer.definition).items()]
    text = "\n    ".join([*(code.not_known(*number) for number in [*known, *limits]), loops])
    return Body(text, constants, "" if _is_limit(layer) else f"\n{function}\n")


class ResizeLinearLowering(LoopsLowering[ResizeLinear]):
    """The definition in loops over images, rows and columns."""

    operator = ResizeLinear

    def body(self, layer: ResizeLinear, sizes: Sizes) -> Body:
        """Loop over the values."""
        tables = tuple(Table(f"{layer.name}_{role}", np.asarray(values)) for role, values in layer.constants().items())
        ends = (sizes.text(f"size{n}", size, "u") for n, size in enumerate(layer.output.shape))
        loops = [f"{'    ' * n}for (size_t i{n} = 0; i{n} < {end}; ++i{n})" for n, end in enumerate(ends)]
        rows, columns = (sizes.text(f"size{n}", layer.output.shape[n]) for n in (1, 2))
        place = f"out[(i0 * {rows} + i1) * {columns} + i2]"
        value = f"            {place} = {_call(layer)(reads(layer, 'in', 'size_t', sizes))};"
        return _body(layer, tables, "\n    ".join([*loops, value]))

    def unrolled(self, layer: ResizeLinear, sources: Sequence[str]) -> LayerCode:
        """Write every call, with the factors as literals."""
        value, places = _call(layer), zip(*(places.reshape(-1).tolist() for places in layer.places), strict=True)
        factors = itertools.cycle([*map(literal, (*right, *down))] for down in layer.down.T for right in layer.right.T)
        pairs = zip(places, factors, strict=False)
        calls = (value([*(f"in[{at}]" for at in four), *numbers]) for four, numbers in pairs)
        return of_body(layer, sources, _body(layer, (), code.assigned(calls)))


def reads(layer: ResizeLinear, x: str, kind: str, sizes: Sizes) -> list[str]:
    """Return the operands of value (i0, i1, i2) of the output as C text, of an input `x`; `kind` is that of indices."""
    _, rows, columns = layer.input.shape
    height, width = sizes.text("height", rows), sizes.text("width", columns)

    def entry(role: str, number: int, index: str) -> str:
        row = f"[{number}][{index}]"
        if sizes.are_parameters:
            row = f"[{number} * {sizes.text(f'size{index[1:]}', layer.output.shape[int(index[1:])])} + {index}]"
        return f"{layer.name}_{role}{row}"

    starts = [f"(i0 * {height} + ({kind}){entry('rows', number, 'i1')}) * {width}" for number in range(2)]
    values = [f"{x}[{row} + ({kind}){entry('columns_of_x', number, 'i2')}]" for row in starts for number in range(2)]
    return [*values, *(entry(role, number, index) for role, index in (("right", "i2"), ("down", "i1"))
                       for number in range(2))]  # fmt: skip
