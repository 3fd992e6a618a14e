"""Definitions of stages in C: loops over the axes of each stage, with constant bounds.

Axes that all stages have in common are loops around all stages, wherever they are, so that the values between stages
are few.  A fold whose values lie side by side in memory adds a step to all of them before the next step: that is
vectorised without a change of the order.  Their axis is then the innermost loop, in blocks if values between stages
would be many.  A place that may be outside is a limit of a loop, never a branch.

Where sizes are parameters (c:generic), each fold is one loop nest with a value at a time, and arrays between stages are
those of the caller: nothing but the order of the loops depends on the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from harness.operators.exact.expression import Expression, argument, substituted
from harness.operators.exact.stage_values import after
from harness.operators.exact.stages import (
    Axis,
    Guard,
    Indexed,
    Item,
    Place,
    Source,
    Stage,
    guards,
    is_free_of_order,
    loads,
    place,
    with_places,
)
from harness.operators.staged import Staged
from harness.targets.c import expression
from harness.targets.c.loops import Sizes
from harness.targets.c.stage_writer import Part, Step, Writer
from harness.targets.generated import C_TYPES

BLOCK = 64
"""Values along the innermost axis, if values between stages are stored."""
CHAINS = 8
"""The most sums, of values that do not lie side by side, that are computed together: none waits for another."""
LANES = 16
"""The parts of a row whose extrema are computed side by side."""
UNROLLED = 8
"""The most steps of a fold that are written one after the other."""


def _name(axis: Axis) -> str:
    return axis.name


def _is_separable(own: Sequence[Guard], others: Sequence[Guard], inner: Axis, along: Axis) -> bool:
    """Return whether the guards of the two axes limit no other axis, and the other guards none of the two."""
    is_fixed = all({inner, along}.issuperset(limit.place.axes) for limit in own)
    return is_fixed and not any(along in limit.place.axes for limit in others)


class Loops(Writer):
    """The loops of a layer: those of `outer` axes around all stages, that of the `inner` axis innermost in each."""

    def __init__(self, layer: Staged | Part, sizes: Sizes) -> None:
        super().__init__(layer)
        self.sizes = sizes
        folds = [stage for stage in self.stages if stage.over]
        shared = _shared(self.stages)
        inner = self._inner(shared, folds)
        self.outer = [axis for axis in shared if axis is not inner]
        self.block = inner if inner is not None and self._is_divided(inner) else None
        self.size = BLOCK
        self.first: Axis | None = None
        self.has_rest = self.block is not None and (sizes.are_parameters or self.block.size % BLOCK > 0)
        if inner is None and not sizes.are_parameters and (chained := self._chained(folds)):
            self.block, self.size = chained, _divisor(chained.size)
            self.first = Axis(f"{chained.name}_first", chained.size)
            self.outer.remove(chained)

    def _inner(self, shared: Sequence[Axis], folds: Sequence[Stage]) -> Axis | None:
        """Return the last axis of the output if all stages have it and every fold can run along it."""
        axes = self.stages[-1].axes
        if not axes or axes[-1] not in shared or not all(_is_side_by_side(fold, axes[-1]) for fold in folds):
            return None
        return axes[-1]

    def _is_divided(self, inner: Axis) -> bool:
        """Return whether arrays between stages have a block of the innermost axis, which no guard limits."""
        is_free = not any(inner in limit.place.axes for stage in self.stages for limit in guards(stage.root))
        return bool(self.stored) and is_free and inner.size > BLOCK

    def _chained(self, folds: Sequence[Stage]) -> Axis | None:
        """Return the last axis around all stages, if sums along others wait for each addition."""
        axes = [axis for axis in self.outer if axis.size > 1 and _divisor(axis.size) > 1]
        is_free = not any(axes[-1:] and axes[-1] in limit.place.axes for f in folds for limit in guards(f.root))
        return axes[-1] if axes and is_free and any(self._is_sequence(stage) for stage in folds) else None

    def _is_sequence(self, stage: Stage) -> bool:
        return stage.dtype.kind == "f" and not is_free_of_order(stage, self.stages) and stage.steps > UNROLLED

    def statements(self) -> list[str]:
        """Return the statements of the function."""
        lines = [] if self.sizes.are_parameters else self.between()
        for item in self.items:
            lines += self._item(item)
        if self.block is not None:
            name, size = self.block.name, self._size(self.block)
            if self.has_rest:
                of_last = f"{size} - {name}_first < {self.size}u ? {size} : {name}_first + {self.size}u"
                lines.insert(0, f"const size_t {name}_end = {of_last};")
            head = f"for (size_t {name}_first = 0; {name}_first < {size}; {name}_first += {self.size}u) {{"
            lines = [head, *indented(lines), "}"]
        return [*self.declared(), *self._around(self.outer, lines)]

    def between(self) -> list[str]:
        """Return the definitions of the arrays between stages."""
        return self.declared_arrays(lambda axis: 1 if axis in self.outer else self._length(axis))

    def _length(self, axis: Axis) -> int:
        return self.size if axis is self.block else axis.size

    def _size(self, axis: Axis) -> str:
        return self.sizes.text(f"{axis.name}_size", axis.size, "u")

    def _item(self, item: Item) -> list[str]:
        """Return the loops of a stage, or of starts and then of steps."""
        if isinstance(item, Stage):
            return self._stage(item)
        starts, steps = ([line for stage in stages for line in self._stage(stage)]
                         for stages in (item.starts, item.stages))  # fmt: skip
        return [*starts, *_loop(item.time.name, 0, self._size(item.time), steps)]

    def _stage(self, stage: Stage) -> list[str]:
        """Return the loop nest of a stage along axes of its own."""
        axes = [axis for axis in stage.axes if axis not in self.outer]
        target = self._at(stage, tuple(map(place, stage.axes)))
        if stage.accumulator is None:
            return self._around(axes, self._assigned(stage.root, target))
        if axes and _is_side_by_side(stage, axes[-1]):
            return self._around(axes[:-1], self._side_by_side(stage, axes[-1], target))
        is_wide = stage.over[-1].size >= 2 * LANES and not self.sizes.are_parameters
        if is_wide and not guards(stage.root) and is_free_of_order(stage, self.stages):
            return self._around(axes, self._in_lanes(stage, target))
        if self.block is not None and self.first is not None and self._is_sequence(stage):
            others = [axis for axis in axes if axis is not self.block]
            return self._around(others, self._in_chains(stage, self.block, self.first))
        so_far = f"{stage.accumulator.name}_so_far"
        steps = self._around(stage.over, self._assigned(stage.root, so_far, so_far), guards(stage.root))
        lines = [f"{C_TYPES[stage.dtype.name]} {so_far};", *self._assigned(stage.start, so_far), *steps]
        return self._around(axes, [*lines, f"{target} = {so_far};"])

    def _in_chains(self, stage: Stage, block: Axis, first: Axis) -> list[str]:
        """Return several folds, of the values along the block, a step of each before the next step."""
        starts, steps, ends = [], [], []
        for number in range(self.size):
            so_far = f"{stage.name}_so_far_{number}"
            at = {block: place(first) + number}
            root, start = (with_places(expression, at) for expression in (stage.root, stage.start))
            starts += [f"{C_TYPES[stage.dtype.name]} {so_far};", *self._assigned(start, so_far)]
            steps += as_one(self._assigned(root, so_far, so_far))
            ends.append(f"{self._at(stage, [at.get(axis, place(axis)) for axis in stage.axes])} = {so_far};")
        return [*starts, *self._around(stage.over, steps, guards(stage.root)), *ends]

    def _in_lanes(self, stage: Stage, target: str) -> list[str]:
        """Return the extremum of a row as that of several of its parts, whose order does not matter."""
        along, name, c_type = stage.over[-1], f"{stage.name}_so_far", C_TYPES[stage.dtype.name]
        rest, lane = along.size % LANES, Axis("lane", LANES)
        whole = Axis(along.name, along.size // LANES)
        parts = with_places(stage.root, {along: Place(((whole, LANES), (lane, 1)))})
        lanes = self._around([lane], self._assigned(parts, f"{name}[lane]", f"{name}[lane]"))
        lines = self._around([whole], lanes)
        if rest:
            last = self._assigned(stage.root, f"{name}[0]", f"{name}[0]")
            lines = [*lines, *_loop(along.name, along.size - rest, f"{along.size}u", last)]
        value = argument(f"{name}[lane]", stage.dtype)
        joined = substituted(stage.root, {id(stage.root.operands[1]): value})
        texts = {value.name: value.name, stage.name: f"{name}[0]"}
        join = self.assigned(joined, f"{name}[0]", texts)
        return [
            f"{c_type} {name}[{LANES}];",
            *self._around([lane], self._assigned(stage.start, f"{name}[lane]")),
            *self._around(stage.over[:-1], lines),
            *_loop("lane", 1, f"{LANES}u", join),
            f"{target} = {name}[0];",
        ]

    def _side_by_side(self, stage: Stage, inner: Axis, target: str) -> list[str]:
        """Return a fold whose innermost loop is that over adjacent values.

        Few steps along the last axis are written one after the other for the values that have all of them.
        """
        limits, along = guards(stage.root), stage.over[-1]
        start = self._around([inner], self._assigned(stage.start, target))
        step = self._assigned(stage.root, target, target)
        own = [limit for limit in limits if inner in limit.place.axes]
        others = [limit for limit in limits if limit not in own]
        is_few = along.size <= UNROLLED and inner is not self.block and not self.sizes.are_parameters
        if not is_few or not _is_separable(own, others, inner, along):
            return [*start, *self._around([*stage.over, inner], step, limits)]
        so_far = f"{stage.name}_so_far"
        whole = [f"{C_TYPES[stage.dtype.name]} {so_far} = {target};"]
        for number in range(along.size):
            whole += as_one(self._assigned(stage.root, so_far, so_far, {along: number}))
        whole.append(f"{target} = {so_far};")
        first, end = _whole(own, inner, along)
        cut = self._around([along], step, own)
        parts = [(0, first, cut), (first, end, whole), (max(first, end), inner.size, cut)]
        lines = [line for low, high, part in parts if low < high for line in _loop(inner.name, low, f"{high}u", part)]
        return [*start, *self._around(stage.over[:-1], lines, others)]

    def _around(self, axes: Sequence[Axis], lines: list[str], limits: Sequence[Guard] = ()) -> list[str]:
        """Return statements with a loop over each axis around them; each place limits the last of its axes."""
        for number in reversed(range(len(axes))):
            axis, inner = axes[number], set(axes[number + 1 :])
            own = [limit for limit in limits if axis in limit.place.axes and not inner.intersection(limit.place.axes)]
            if own:
                lines = self._limited(axis, own, lines)
            elif axis is self.block:
                end = f"{axis.name}_end" if self.has_rest else f"{axis.name}_first + {self.size}u"
                lines = _loop(axis.name, f"{axis.name}_first", end, lines)
            elif axis.size > 1 or self.sizes.are_parameters:
                lines = _loop(axis.name, 0, self._size(axis), lines)
            else:
                lines = as_one(lines)
        return as_one(lines)

    def _assigned(self, root: Expression, target: str, so_far: str = "", step: Step | None = None) -> list[str]:
        """Return statements that assign an expression; `so_far` is the text of the accumulator."""
        texts = {stage.name: so_far for stage in self.stages if stage.accumulator is not None}
        for node, source, places in loads(root):
            assert node.load is not None  # noqa: S101 - it is one
            text = "zero_point" if node.name in self.zero_points else self._at(
                source, [after(at, step or {}) for at in places])  # fmt: skip
            if isinstance(node.load.outside, np.generic):
                inside = [(after(at, step or {}), size) for _, at, size in node.load.guards]
                conditions = (f"({self._place(at)} < {self._limit(at, size, 'u')})" for at, size in inside)
                text = f"({' & '.join(conditions)} ? {text} : {expression.literal(node.load.outside)})"
            texts[node.name] = text
        return self.assigned(root, target, texts)

    def _at(self, source: Indexed, places: Sequence[Place]) -> str:
        """Return the C expression of a value."""
        source, places = self.places(source, places)
        if isinstance(source, Source):
            return f"{self.source(source)}[{self._flat(source.name, source.shape, places)}]"
        array = self.arrays[id(source)]
        if array == "out":
            return f"out[{self._flat(array, source.shape, places)}]"
        own = [(axis, at) for axis, at in zip(source.axes, places, strict=True) if axis not in self.outer]
        sizes = [self._length(axis) for axis, _ in own]
        inside = {} if self.first is None else {self.first: 0}
        at_own = [after(at, inside) for _, at in own]
        text = self._flat(array, sizes, at_own, lambda axis: _ofblock(axis, self.block))
        return f"{array}[{text}]"

    def _flat(
        self, array: str, sizes: Sequence[int], places: Sequence[Place], names: Callable[[Axis], str] = _name
    ) -> str:
        """Return the place in the flat array of values along axes of these sizes."""
        if not self.sizes.are_parameters:
            return flat(sizes, places, names)
        terms = []
        for number, at in enumerate(places):
            text = self._place(at, names)
            if number < len(places) - 1 and text != "0":
                step = self.sizes.text(f"{array}_{number}_step", math.prod(sizes[number + 1 :]))
                text = f"({text}) * {step}" if " " in text else f"{text} * {step}"
            terms.append(text)
        return " + ".join(text for text in terms if text != "0") or "0"

    def _place(self, at: Place, names: Callable[[Axis], str] = _name) -> str:
        """Return a place; its numbers are parameters if sizes are, but of an axis alone there are none."""
        if not self.sizes.are_parameters:
            return at.text(names)
        if not at.axes:
            return self.sizes.text("place", at.constant) if at.constant else "0"
        if len(at.axes) == 1 and at == place(at.axes[0]):
            return names(at.axes[0])
        return self.sizes.sum(_terms(at.steps, names), at.constant, _offset(at))

    def _limit(self, at: Place, size: int, suffix: str = "") -> str:
        return self.sizes.text(f"{at.axes[-1].name}_limit", size, suffix)

    def _limited(self, axis: Axis, limits: Sequence[Guard], lines: list[str]) -> list[str]:
        """Return a loop over the places of an axis for which others are inside."""
        spans, names = [], []
        for number, (_, at, size) in enumerate(limits):
            names.append(f"inside_{axis.name}{number or ''}")
            others = tuple((other, step) for other, step in at.steps if other is not axis)
            step, begin = str(dict(at.steps)[axis]), max(at.constant, 0)
            before, offset, count = str(begin - at.constant), Place(others, begin).text(_name), str(axis.size)
            if self.sizes.are_parameters:
                before = "0" if begin else self.sizes.text(_offset(at), -at.constant)
                offset = self.sizes.sum(_terms(others), begin, _offset(at) if begin else "")
                step, count = self.sizes.text(f"{axis.name}_factor", int(step)), self._size(axis)
            call = f"window_span({self._limit(at, size)}, {before}, {offset}, {step}, {count})"
            spans.append(f"const struct span {names[-1]} = {call};")
        first = reduce("({0} > {1} ? {0} : {1})".format, (f"{name}.first" for name in names))
        end = reduce("({0} < {1} ? {0} : {1})".format, (f"{name}.end" for name in names))
        return ["{", *indented([*spans, *_loop(axis.name, first, end, lines)]), "}"]


def _shared(stages: Sequence[Stage]) -> list[Axis]:
    """Return the axes that all stages have and read each other at."""
    reads = [(source, places) for stage in stages for root in (stage.start, stage.root)
             for _, source, places in loads(root) if not isinstance(source, Source)]  # fmt: skip
    common = (axis for axis in stages[-1].axes if all(axis in stage.axes for stage in stages))
    return [axis for axis in common if all(places[source.axes.index(axis)] == place(axis) for source, places in reads)]


def _is_side_by_side(stage: Stage, axis: Axis) -> bool:
    """Return whether adjacent values of a fold along an axis read values in this order, at the last place of arrays."""
    read = [places for _, _, places in loads(stage.root) if any(axis in at.axes for at in places)]
    return axis.size > 1 and all((axis in at.axes) == (at is places[-1]) for places in read for at in places)


def _whole(limits: Sequence[Guard], inner: Axis, along: Axis) -> tuple[int, int]:
    """Return the first value along the inner axis all of whose steps are inside, and the one behind the last."""
    first, end = 0, inner.size
    for _, at, size in limits:
        factor, last = dict(at.steps)[inner], dict(at.steps).get(along, 0) * (along.size - 1)
        first = max(first, -(at.constant // factor))
        end = min(end, (size - 1 - last - at.constant) // factor + 1)
    return first, max(first, end)


def _loop(name: str, first: int | str, end: str, lines: Sequence[str]) -> list[str]:
    return [f"for (size_t {name} = {first}; {name} < {end}; ++{name}) {{", *indented(lines), "}"]


def as_one(lines: list[str]) -> list[str]:
    """Return statements as one."""
    is_one = len(lines) == 1 or (lines[0].endswith("{") and all(line[0] == " " for line in lines[1:-1]))
    return lines if is_one else ["{", *indented(lines), "}"]


def indented(lines: Sequence[str]) -> list[str]:
    """Return the statements of a block."""
    return [f"    {line}" for line in lines]


def _terms(steps: Sequence[tuple[Axis, int]], names: Callable[[Axis], str] = _name) -> list[tuple[str, int, str]]:
    return [(names(axis), step, f"{axis.name}_factor") for axis, step in steps]


def _offset(at: Place) -> str:
    return "_".join((*(axis.name for axis in at.axes), "offset"))


def _divisor(size: int) -> int:
    """Return the number of values along an axis that are computed together."""
    return max(number for number in range(1, CHAINS + 1) if size % number == 0)


def _ofblock(axis: Axis, block: Axis | None) -> str:
    return f"({axis.name} - {axis.name}_first)" if axis is block else axis.name


def flat(sizes: Sequence[int], places: Sequence[Place], names: Callable[[Axis], str] = _name) -> str:
    """Return the place in the flat array of values along axes of these sizes."""
    terms = []
    for number, at in enumerate(places):
        step, text = math.prod(sizes[number + 1 :]), at.text(names)
        if text != "0":
            is_sum = " + " in text or " - " in text
            terms.append(text if step == 1 else f"({text}) * {step}" if is_sum else f"{text} * {step}")
    return " + ".join(terms) or "0"
