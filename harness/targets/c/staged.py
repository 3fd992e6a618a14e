"""Definitions of stages in C: loops over the axes of each stage, with constant bounds, in all variants.

Axes that all stages have in common, from the first one on, are one loop around all stages, so that the values between
stages are few.  A fold whose values lie side by side in memory adds a step to all of them before the next step: that
is vectorised without a change of the order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.operators.exact.expression import Expression
from harness.operators.exact.stages import Axis, Indexed, Place, Stage, loads
from harness.operators.staged import Staged
from harness.targets.c import code, expression
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table

Names = Mapping[int, str]


class StagedLowering(CLowering[Staged]):
    """One loop nest a stage."""

    operator = Staged
    headers = ("elementary.h",)

    def plain(self, layer: Staged, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Return the loops; the generic function is not inlined."""
        tables = tuple(
            Table(f"{layer.name}_{role}", np.asarray(values).reshape(-1)) for role, values in layer.facts().items()
        )
        function = f"{layer.name}_stages"
        parameters = ", ".join(f"const float *{name}" for name in inputs(layer))
        qualifiers = "static __attribute__((noinline))" if prefix else "static inline"
        text = f"\n{qualifiers} void {function}({parameters}, float *restrict out)\n{{\n{_body(layer)}\n}}\n"
        arguments = ["in"] if len(layer.inputs) == 1 else [f"in_{number}" for number in range(len(layer.inputs))]
        call = f"{function}({', '.join([*arguments, 'out'])});"
        layer_code = (
            code.elementwise(layer, sources, (), call) if len(sources) == 1 else code.of_inputs(layer, sources, call)
        )
        definitions = f"{code.definitions(tables)}\n{text}{layer_code.definitions}"
        return dataclasses.replace(layer_code, definitions=definitions, tables=tables)


def inputs(layer: Staged) -> list[str]:
    """Return the names of the inputs in the definition."""
    return ["x", *(f"x{number}" for number in range(1, len(layer.inputs)))]


def _body(layer: Staged) -> str:
    stages = layer.program.stages
    common = _common(stages)
    names: dict[int, str] = {}
    lines: list[str] = []
    for stage in stages:
        is_output = stage is stages[-1] or _fits_output(stage, stages)
        names[id(stage)] = "out" if is_output else stage.name
        own = stage.shape[common:]
        if not is_output:
            lines.append(f"float {stage.name}[{math.prod(own)}];")
    limits = {number: f"limit_{place}" for place, number in enumerate(_limits(stages))}
    declared = "\n    ".join(code.not_known("float", name, number) for number, name in limits.items())
    writer = _Writer(layer, stages, common, names, limits)
    shared = [_head(axis) for axis in stages[-1].axes[:common] if axis.size > 1]
    for stage in stages:
        lines += writer.loops(stage)
    depth = "    " * (len(shared) + 1)
    body = "\n".join(depth + line for line in lines)
    opened = "\n".join("    " * (level + 1) + f"{head} {{" for level, head in enumerate(shared))
    closed = "\n".join("    " * (level + 1) + "}" for level in reversed(range(len(shared))))
    return "\n".join(part for part in (declared and f"    {declared}", opened, body, closed) if part)


def _limits(stages: Sequence[Stage]) -> list[str]:
    """Return the numbers of which stages take the smaller or larger one."""
    numbers = [number for stage in stages for root in (stage.start, stage.root) for number in expression.limits(root)]
    return list(dict.fromkeys(numbers))


def _common(stages: Sequence[Stage]) -> int:
    """Return how many first axes all stages have in common and read each other at."""
    most = min(len(stage.axes) for stage in stages)
    for count in range(most, 0, -1):
        axes = stages[-1].axes[:count]
        alike = all(stage.axes[:count] == axes for stage in stages)
        if alike and all(_is_own(places[:count], axes) for stage in stages for places in _reads(stage)):
            return count
    return 0


def _reads(stage: Stage) -> list[tuple[Place, ...]]:
    """Return the places at which a stage reads other stages."""
    return [
        places for root in (stage.start, stage.root) for _, source, places in loads(root) if isinstance(source, Stage)
    ]


def _is_own(places: Sequence[Place], axes: Sequence[Axis]) -> bool:
    return all(at.constant == 0 and at.steps == ((axis, 1),) for at, axis in zip(places, axes, strict=True))


def _fits_output(stage: Stage, stages: Sequence[Stage]) -> bool:
    """Return whether values can lie in the output: the last stage alone replaces them, each by that at its place."""
    last = stages[-1]
    if stage.axes != last.axes or last.over or any(other is not stage and other.axes == last.axes and other is not last
                                                   for other in stages):  # fmt: skip
        return False
    return all(_is_own(places, last.axes) for _, source, places in loads(last.root) if source is stage)


def _head(axis: Axis) -> str:
    return f"for (size_t {axis.name} = 0; {axis.name} < {axis.size}u; ++{axis.name})"


@dataclasses.dataclass(frozen=True)
class _Writer:
    """The loops of stages; `common` axes have loops around them."""

    layer: Staged
    stages: Sequence[Stage]
    common: int
    names: Names
    limits: Mapping[str, str]

    def loops(self, stage: Stage) -> list[str]:
        """Return the loop nest of a stage."""
        axes, target = stage.axes[self.common :], self._at(stage, tuple(Place(((axis, 1),)) for axis in stage.axes))
        if stage.accumulator is None:
            return _around(axes, self._assigned(stage.root, target))
        if axes and self._is_side_by_side(stage, axes[-1]):
            rows, inner = axes[:-1], axes[-1:]
            start = _around(inner, self._assigned(stage.start, target))
            step = _around((*stage.over, *inner), self._assigned(stage.root, target, {stage.accumulator.name: target}))
            return _around(rows, [*start, *step])
        value = stage.accumulator.name
        lines, result = self._statements(stage.start)
        steps = _around(stage.over, self._assigned(stage.root, f"{value}_so_far", {value: f"{value}_so_far"}))
        return _around(axes, [*lines, f"float {value}_so_far = {result};", *steps, f"{target} = {value}_so_far;"])

    def _is_side_by_side(self, stage: Stage, axis: Axis) -> bool:
        """Return whether adjacent values of a fold are computed from adjacent ones."""
        return axis.size > 1 and all(
            dict(at.steps).get(axis, 0) == (at is places[-1])
            for _, source, places in loads(stage.root)
            if axis in source.axes
            for at in places
        )

    def _assigned(self, root: Expression, target: str, so_far: Mapping[str, str] | None = None) -> list[str]:
        """Return statements that assign an expression; `so_far` has the text of the accumulator by its name."""
        lines, result = self._statements(root, so_far)
        return [*lines, f"{target} = {result};"]

    def _statements(self, root: Expression, so_far: Mapping[str, str] | None = None) -> tuple[list[str], str]:
        texts = {node.name: self._at(source, places) for node, source, places in loads(root)}
        return expression.statements(root, {**texts, **(so_far or {})}, self.limits)

    def _at(self, source: Indexed, places: Sequence[Place]) -> str:
        """Return the C expression of a value."""
        if isinstance(source, Stage):
            name = self.names[id(source)]
            skipped = self.common if name != "out" else 0
            return f"{name}[{flat(source.axes[skipped:], places[skipped:])}]"
        name = f"{self.layer.name}_{source.name}" if getattr(source, "is_constant", False) else source.name
        return f"{name}[{flat(source.axes, places)}]"


def flat(axes: Sequence[Axis], places: Sequence[Place], names: Callable[[Axis], str] = lambda axis: axis.name) -> str:
    """Return the place in the flat array of values along axes."""
    terms = []
    for number, at in enumerate(places):
        step, text = math.prod(axis.size for axis in axes[number + 1 :]), at.text(names)
        if text != "0":
            terms.append(text if step == 1 else f"({text}) * {step}" if "+" in text else f"{text} * {step}")
    return " + ".join(terms) or "0"


def _around(axes: Sequence[Axis], statements: Sequence[str]) -> list[str]:
    """Return statements with a loop over each axis around them."""
    axes = [axis for axis in axes if axis.size > 1]
    if not axes:
        return ["{", *(f"    {line}" for line in statements), "}"] if len(statements) > 1 else list(statements)
    heads = ["    " * level + _head(axis) for level, axis in enumerate(axes)]
    depth = "    " * len(axes)
    heads[-1] += " {"
    return [*heads, *(f"{depth}{line}" for line in statements), "    " * (len(axes) - 1) + "}"]
