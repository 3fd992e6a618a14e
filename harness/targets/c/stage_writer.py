"""Base class of the writers of stages in C: the arrays of their values, and the statements of an expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.operators.exact.expression import Expression, ordered
from harness.operators.exact.stage_values import Program, number_of
from harness.operators.exact.stages import (
    Axis,
    History,
    Indexed,
    Place,
    Recurrence,
    Source,
    Stage,
    computed,
    loads,
    place,
)
from harness.operators.staged import Staged
from harness.operators.tensor import Tensor
from harness.targets.c import code, expression
from harness.targets.generated import C_TYPES

Step = Mapping[Axis, int]
Texts = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Part:
    """Some stages of a layer, as those of another one."""

    name: str
    inputs: tuple[Tensor, ...]
    program: Program
    constants: Mapping[str, Any]

    def numbers(self) -> Mapping[str, Any]:
        """Return the constants of the layer."""
        return self.constants


class Writer:
    """The stages of a layer, and the name of the array that has the values of each."""

    def __init__(self, layer: Staged | Part) -> None:
        self.layer, self.items, last = layer, layer.program.stages, layer.program.result
        self.stages = [stage for item in self.items for stage in computed(item)]
        recurrences = [item for item in self.items if isinstance(item, Recurrence)]
        self.moments = {key: moment for item in recurrences for key, moment in _moments(item).items()}
        stored = [*self.stages, *(history for item in recurrences for history in item.histories)]
        self.arrays = self._named(stored, last)
        self.stored = [array for array in stored if self.arrays.get(id(array), "out") != "out"]
        self.limits = {number: f"limit_{count}" for count, number in enumerate(dict.fromkeys(self._limits()))}
        self.zero_points = {node.name: node for node in self._code_operands() if node.load}

    def _named(self, stored: Sequence[Indexed], last: Indexed) -> dict[int, str]:
        """Return the names of arrays by identity; states are parts of histories and have no name."""
        names = {}
        for array in stored:
            if id(array) not in self.moments:
                is_output = array is last or _fits_output(array, self.stages)
                names[id(array)] = "out" if is_output else f"of_{array.name}"
        return names

    def _limits(self) -> Iterator[str]:
        """Yield the numbers of all stages that compilers must not know."""
        for stage in self.stages:
            yield from expression.limits(stage.start)
            yield from expression.limits(stage.root)
        for stage in self.stages:
            if stage.root.operation == "select" and isinstance(stage.start.value, np.float32):
                yield expression.literal(stage.start.value)

    def _code_operands(self) -> Iterator[Expression]:
        """Yield the zero points of all codes."""
        for stage in self.stages:
            for node in ordered(stage.root):
                if node.operation == "code":
                    yield node.operands[1]

    def declared(self) -> list[str]:
        """Return the definitions of the variables of limits and of zero points, which decide about limits."""
        variables = [(expression.kind_of(number), name, number) for number, name in self.limits.items()]
        variables += [("int32_t", "zero_point", self.constant(node)) for node in self.zero_points.values()]
        return [line.strip() for variable in variables for line in code.not_known(*variable).splitlines()]

    def constant(self, node: Expression) -> str:
        """Return the text of a constant that is one number."""
        assert node.load is not None  # noqa: S101 - by the caller
        return f"{self.layer.name}_{node.load.source.name}[0]"

    def assigned(self, root: Expression, target: str, texts: Texts) -> list[str]:
        """Return statements that assign an expression; of a number that begins an extremum compilers know too much."""
        if root.value is not None:
            number = expression.literal(root.value)
            return [f"{target} = {self.limits.get(number, number)};"]
        return expression.assigned(root, target, texts, self.limits)

    def declared_arrays(self, size: Callable[[Axis], int]) -> list[str]:
        """Return the definitions of the arrays; `size` gives the number of values along an axis that they have."""
        sizes = [math.prod(map(size, array.axes)) for array in self.stored]
        return [f"{C_TYPES[array.dtype.name]} {self.arrays[id(array)]}[{size}];"
                for array, size in zip(self.stored, sizes, strict=True)]  # fmt: skip

    def places(self, source: Indexed, places: Sequence[Place]) -> tuple[Indexed, Sequence[Place]]:
        """Return the array that has the values, and the places there: those of a state are part of its history."""
        if id(source) not in self.moments:
            return source, places
        history, moment = self.moments[id(source)]
        return history, (moment, *places)

    def source(self, source: Source) -> str:
        """Return the array of an input or of constants."""
        if source.is_constant:
            return f"{self.layer.name}_{source.name}"
        return "in" if len(self.layer.inputs) == 1 else f"in_{number_of(source)}"


def _moments(item: Recurrence) -> dict[int, tuple[History, Place]]:
    """Return the history that has the values of each state, start and result, and the place on its first axis."""
    before, moments = place(item.time), dict[int, tuple[History, Place]]()
    for history, state, start, result in zip(item.histories, item.states, item.starts, item.results, strict=True):
        moments |= {id(state): (history, before), id(start): (history, place(0)), id(result): (history, before + 1)}
    return moments


def _fits_output(stage: Indexed, stages: Sequence[Stage]) -> bool:
    """Return whether values can lie in the output: the last stage alone replaces them, each by that at its place."""
    last = stages[-1]
    is_only = all(other.axes != last.axes for other in stages[:-1] if other is not stage)
    if stage.axes != last.axes or stage.dtype != last.dtype or last.over or not is_only:
        return False
    own = tuple(map(place, last.axes))
    return all(places == own for _, source, places in loads(last.root) if source is stage)
