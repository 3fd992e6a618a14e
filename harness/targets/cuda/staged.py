"""Definitions of stages in CUDA: each thread computes what its output needs, folds in loops.

A recurrence whose steps read whole states has arrays of its own in each thread.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.operators.exact.expression import Expression
from harness.operators.exact.stages import (
    Axis,
    Guard,
    History,
    Indexed,
    Load,
    Outside,
    Place,
    Recurrence,
    Source,
    Stage,
    guards,
    loads,
)
from harness.operators.staged import Staged
from harness.targets.c import expression
from harness.targets.c.stage_loops import flat
from harness.targets.cuda.code import VectorLowering, c_type, tables_of
from harness.targets.cuda.codes import OPERATIONS
from harness.targets.generated import Table

Point = Mapping[Axis, str]
"""The texts of the places on axes."""
NO_ARRAYS: Mapping[int, str] = {}


class StagedLowering(VectorLowering[Staged]):
    """The last stage at the place of the output, with all that it reads."""

    operator = Staged

    def tables(self, layer: Staged) -> tuple[Table, ...]:
        """Return the constants."""
        return tables_of(layer, {role: np.asarray(values).reshape(-1) for role, values in layer.numbers().items()})

    def value(self, layer: Staged) -> str:
        """Return the statements."""
        return statements(layer.name, layer.program.result)


def statements(layer: str, result: Stage) -> str:
    """Return the statements that return value n of a stage."""
    lines, point = [], dict[Axis, str]()
    for axis, text in zip(result.axes, _places(result), strict=True):
        if axis.size > 1:
            lines.append(f"const unsigned {axis.name} = {text};")
        point[axis] = axis.name if axis.size > 1 else "0"
    scope = _Scope(layer, lines, {}, itertools.count())
    value = scope.stage(result, point)
    unused = [] if any(axis.size > 1 for axis in result.axes) else ["(void)n;"]
    return "\n".join([*unused, *lines, f"return {value};"])


def _places(stage: Stage) -> Iterator[str]:
    """Yield the place on each axis of output n."""
    sizes = stage.shape
    for number, size in enumerate(sizes):
        inner, outer = math.prod(sizes[number + 1 :]), math.prod(sizes[:number])
        yield "n" + (f" / {inner}" if inner > 1 else "") + (f" % {size}" if outer > 1 else "")


class _Scope:
    """Statements of a block: values of stages that are computed there, or in a block around it, are not repeated."""

    def __init__(
        self,
        layer: str,
        lines: list[str],
        known: Mapping[tuple[int, str], str],
        numbers: Iterator[int],
        arrays: Mapping[int, str] = NO_ARRAYS,
    ) -> None:
        self._layer, self._lines, self._numbers, self._arrays = layer, lines, numbers, arrays
        self._known = dict(known)

    def stage(self, stage: Stage, point: Point) -> str:
        """Add what computes a stage at a point, and return its name."""
        key = (id(stage), str([point[axis] for axis in stage.axes]))
        if key not in self._known:
            self._known[key] = self._fold(stage, point) if stage.over else self.expression(stage.root, point)
        return self._known[key]

    def expression(self, root: Expression, point: Point, so_far: Mapping[str, str] | None = None) -> str:
        """Add the statements of an expression at a point, and return the name of its value."""
        texts = dict(so_far or {})
        for node, _, _ in loads(root):
            assert node.load is not None  # noqa: S101 - it is one
            texts[node.name] = self._guarded(node.load, point)
        lines, result = expression.statements(root, texts, operations=OPERATIONS)
        number = next(self._numbers)
        name = f"value_{number}"
        self._lines += [
            f"{c_type(root.dtype)} {name};",
            "{",
            *(f"    {line}" for line in lines),
            f"    {name} = {result};",
            "}",
        ]
        return name

    def _guarded(self, load: Load, point: Point) -> str:
        """Return the text of a load; a stage is computed only for places inside."""
        if isinstance(load.outside, Outside):
            return self.value_at(load.source, load.places, point)
        name, lines = f"value_{next(self._numbers)}", list[str]()
        scope = self._inside(lines)
        value = scope.value_at(load.source, load.places, point)
        self._lines.append(f"{c_type(load.source.dtype)} {name} = {expression.literal(load.outside)};")
        self._lines += [f"if ({_are_inside(load.guards, point)}) {{", *(f"    {line}" for line in lines)]
        self._lines += [f"    {name} = {value};", "}"]
        return name

    def _inside(self, lines: list[str], arrays: Mapping[int, str] = NO_ARRAYS) -> _Scope:
        """Return the scope of a block inside, with further arrays."""
        return _Scope(self._layer, lines, self._known, self._numbers, {**self._arrays, **arrays})

    def value_at(self, source: Indexed, places: Sequence[Place], point: Point) -> str:
        """Add what computes a value of an array; return its text."""
        texts = [at.text(lambda axis: point[axis]) for at in places]
        if id(source) in self._arrays:
            return f"{self._arrays[id(source)]}[{flat(source.shape, places, lambda axis: point[axis])}]"
        if isinstance(source, Stage):
            return self.stage(source, dict(zip(source.axes, map(_grouped, texts), strict=True)))
        if isinstance(source, History):
            fold = source.recurrence.as_fold
            if fold is None:
                array = self._states(source.recurrence, texts[0])[source.recurrence.histories.index(source)]
                return f"{array}[{flat(source.shape[1:], places[1:], lambda axis: point[axis])}]"
            return self._fold(fold, dict(zip(fold.axes, map(_grouped, texts[1:]), strict=True)), texts[0])
        place = flat(source.shape, places, lambda axis: point[axis])
        assert isinstance(source, Source)  # noqa: S101 - there are no others
        name = f"{self._layer}_{source.name}" if source.is_constant else f"x_{source.name[1:] or 0}"
        return f"{name}[{place}]"

    def _fold(self, stage: Stage, point: Point, steps: str = "") -> str:
        """Add a loop, of only so many `steps` if stated; stages that do not depend on it are computed before it."""
        assert stage.accumulator is not None  # noqa: S101 - by the caller
        start = self.expression(stage.start, point)
        for node, source, places in loads(stage.root):
            axes = {axis for at in places for axis in at.axes}
            is_inside = node.load is not None and not node.load.guards
            if isinstance(source, Stage) and is_inside and not axes & set(stage.over):
                self.value_at(source, places, point)
        number = next(self._numbers)
        total, names = f"total_{number}", {axis: f"{axis.name}_{number}" for axis in stage.over}
        inner: list[str] = []
        scope = self._inside(inner)
        here = {**point, **names}
        if limits := guards(stage.root):
            inner.append(f"if (!({_are_inside(limits, here)})) continue;")
        step = scope.expression(stage.root, here, {stage.accumulator.name: total})
        heads = [f"for (unsigned {names[axis]} = 0; {names[axis]} < {steps or axis.size}; ++{names[axis]})"
                 for axis in stage.over]  # fmt: skip
        self._lines += [f"{c_type(stage.dtype)} {total} = {start};", *heads, "{", *(f"    {line}" for line in inner)]
        self._lines += [f"    {total} = {step};", "}"]
        return total

    def _states(self, item: Recurrence, steps: str) -> list[str]:
        """Add a loop over so many steps of a recurrence of arrays; return the names of its states."""
        number = next(self._numbers)
        arrays = {id(part): f"array_{part.name}_{number}" for part in (*item.states, *item.stages)}
        names = [arrays[id(state)] for state in item.states]
        results = [f"after_{arrays[id(stage)]}" for stage in item.results]
        arrays |= {id(stage): name for stage, name in zip(item.results, results, strict=True)}
        for part in (*item.states, *item.stages):
            self._lines.append(f"{c_type(part.dtype)} {arrays[id(part)]}[{part.size}];")
        for start, name in zip(item.starts, names, strict=True):
            self._lines += self._inside([]).filled(start, name, {})
        time, inner = f"{item.time.name}_{number}", list[str]()
        for stage in item.stages:
            inner += self._inside([], arrays).filled(stage, arrays[id(stage)], {item.time: time})
        for state, name, result in zip(item.states, names, results, strict=True):
            inner.append(f"for (unsigned i = 0; i < {state.size}; ++i) {name}[i] = {result}[i];")
        self._lines += [f"for (unsigned {time} = 0; {time} < {steps}; ++{time})", "{"]
        self._lines += [*(f"    {line}" for line in inner), "}"]
        return names

    def filled(self, stage: Stage, name: str, point: Point) -> list[str]:
        """Return the loops that write the values of a stage into an array; the scope has their statements only."""
        number = next(self._numbers)
        here = {**point, **{axis: f"{axis.name}_{number}" for axis in stage.axes}}
        value = self._fold(stage, here) if stage.over else self.expression(stage.root, here)
        place = flat(stage.shape, [axis + 0 for axis in stage.axes], lambda axis: here[axis])
        heads = [f"for (unsigned {here[axis]} = 0; {here[axis]} < {axis.size}; ++{here[axis]})" for axis in stage.axes]
        return [*heads, "{", *(f"    {line}" for line in self._lines), f"    {name}[{place}] = {value};", "}"]


def _are_inside(limits: Sequence[Guard], point: Point) -> str:
    """Return the condition that places are inside; one below 0 is a large unsigned number."""
    return " && ".join(f"{at.text(lambda axis: point[axis])} < {size}u" for _, at, size in limits)


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text
