"""Definitions of stages in C: loops over the axes of each stage, with constant bounds; unrolled, every operation.

Axes that all stages have in common are loops around all stages, wherever they are, so that the values between stages
are few.  A fold whose values lie side by side in memory adds a step to all of them before the next step: that is
vectorised without a change of the order.  Their axis is then the innermost loop, in blocks if values between stages
would be many.  A place that may be outside is a limit of a loop, never a branch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from harness.operators.exact.expression import Expression, argument, substituted
from harness.operators.exact.stage_values import after
from harness.operators.exact.stages import (
    Axis,
    Guard,
    History,
    Indexed,
    Item,
    Place,
    Recurrence,
    Source,
    Stage,
    computed,
    guards,
    is_free_of_order,
    loads,
    place,
    with_places,
)
from harness.operators.staged import Staged
from harness.operators.windowed import Windowed
from harness.targets.c import code, expression
from harness.targets.c.code import CLowering
from harness.targets.generated import C_TYPES, LayerCode, Table

BLOCK = 64
"""Values along the innermost axis, if values between stages are stored."""
CHAINS = 8
"""The most sums, of values that do not lie side by side, that are computed together: none waits for another."""
LANES = 16
"""The parts of a row whose extrema are computed side by side."""
UNROLLED = 8
"""The most steps of a fold that are written one after the other."""
Step = Mapping[Axis, int]
Texts = Mapping[str, str]


class StagedLowering(CLowering[Staged]):
    """One loop nest a stage."""

    operator = Staged
    headers = ("elementary.h", "max_pool_vector.h", "window.h")

    def unsupported(self, layer: Staged, variant: str) -> str | None:
        """Refuse code without loops for so many steps."""
        return code.too_long(sum(map(_steps, layer.program.stages)), variant, "steps")

    def plain(self, layer: Staged, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Return the loops; the generic function is not inlined."""
        constants = layer.numbers().items()
        tables = tuple(Table(f"{layer.name}_{role}", np.asarray(values).reshape(-1)) for role, values in constants)
        qualifiers = "static __attribute__((noinline))" if prefix else "static inline"
        return _with_function(layer, sources, tables, qualifiers, _Loops(layer).statements())

    def vector(self, layer: Staged, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/max_pool_vector.h for the largest codes of windows, which have no order.

        It takes a quarter to three quarters of the time of the loops (gcc 12, -O3; windows of 2x2, 3x3 and 5x5).
        """
        last = layer.program.result
        is_largest = last.root.operation == "select" and last.root.operands[0].operation == "greater"
        if not isinstance(layer, Windowed) or layer.dtype.kind == "f" or not is_largest:
            return self.plain(layer, sources)
        length = layer.window.reach[1]
        call = f"max_pool_vector_{layer.dtype}(&window, {layer.input.shape[0]}, in, line, {length}, out);"
        line = f"{C_TYPES[layer.dtype.name]} line[{length}] {code.ALIGNED};"
        return code.elementwise(layer, sources, (), f"{code.window(layer.window)}\n    {line}\n    {call}")

    def unrolled(self, layer: Staged, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the constants as literals."""
        operations = _Operations(layer)
        layer_code = _with_function(layer, sources, (), "static inline", operations.statements())
        return dataclasses.replace(layer_code, definitions=operations.functions() + layer_code.definitions)


def _with_function(
    layer: Staged, sources: Sequence[str], tables: tuple[Table, ...], qualifiers: str, statements: Sequence[str]
) -> LayerCode:
    """Return the code of a layer by the statements of a function of its inputs."""
    function, numbers = f"{layer.name}_stages", range(len(layer.inputs))
    parameters = [f"const {C_TYPES[tensor.dtype.name]} *x{number or ''}" for number, tensor in enumerate(layer.inputs)]
    head = ", ".join([*parameters, f"{C_TYPES[layer.dtype.name]} *restrict out"])
    body = "\n".join(_indented(statements))
    text = f"\n{qualifiers} void {function}({head})\n{{\n{body}\n}}\n"
    arguments = ["in"] if len(numbers) == 1 else [f"in_{number}" for number in numbers]
    call = f"{function}({', '.join([*arguments, 'out'])});"
    layer_code = (
        code.elementwise(layer, sources, (), call) if len(sources) == 1 else code.of_inputs(layer, sources, call)
    )
    definitions = f"{code.definitions(tables)}\n{text}{layer_code.definitions}"
    return dataclasses.replace(layer_code, definitions=definitions, tables=tables)


class _Writer:
    """The stages of a layer, and the name of the array that has the values of each."""

    def __init__(self, layer: Staged) -> None:
        self.layer, self.items, last = layer, layer.program.stages, layer.program.result
        self.stages = [stage for item in self.items for stage in computed(item)]
        recurrences = [item for item in self.items if isinstance(item, Recurrence)]
        self.moments = {key: moment for item in recurrences for key, moment in _moments(item).items()}
        stored = [*self.stages, *(history for item in recurrences for history in item.histories)]
        self.arrays = {
            id(array): "out" if array is last or _fits_output(array, self.stages) else f"of_{array.name}"
            for array in stored if id(array) not in self.moments
        }  # fmt: skip
        self.stored = [array for array in stored if self.arrays.get(id(array), "out") != "out"]
        roots = (root for stage in self.stages for root in (stage.start, stage.root))
        numbers = [number for root in roots for number in expression.limits(root)]
        numbers += [expression.literal(stage.start.value) for stage in self.stages
                    if stage.root.operation == "select" and isinstance(stage.start.value, np.float32)]  # fmt: skip
        self.limits = {number: f"limit_{count}" for count, number in enumerate(dict.fromkeys(numbers))}

    def declared(self) -> list[str]:
        """Return the definitions of the variables of limits."""
        texts = (code.not_known("float", name, number) for number, name in self.limits.items())
        return [line.strip() for text in texts for line in text.splitlines()]

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


class _Loops(_Writer):
    """The loops of a layer: those of `outer` axes around all stages, that of the `inner` axis innermost in each."""

    def __init__(self, layer: Staged) -> None:
        super().__init__(layer)
        shared, last, folds = _shared(self.stages), self.stages[-1], [stage for stage in self.stages if stage.over]
        is_inner = last.axes and last.axes[-1] in shared and all(_is_side_by_side(f, last.axes[-1]) for f in folds)
        inner = last.axes[-1] if is_inner else None
        self.outer = [axis for axis in shared if axis is not inner]
        is_stored = bool(self.stored)
        is_free = not any(inner in limit.place.axes for stage in self.stages for limit in guards(stage.root))
        self.block = inner if inner is not None and is_stored and is_free and inner.size > BLOCK else None
        self.size = BLOCK
        self.first: Axis | None = None
        if inner is None and (chained := self._chained(folds)):
            self.block, self.size = chained, _divisor(chained.size)
            self.first = Axis(f"{chained.name}_first", chained.size)
            self.outer.remove(chained)

    def _chained(self, folds: Sequence[Stage]) -> Axis | None:
        """Return the last axis around all stages, if sums along others wait for each addition."""
        axes = [axis for axis in self.outer if axis.size > 1 and _divisor(axis.size) > 1]
        is_free = not any(axes[-1:] and axes[-1] in limit.place.axes for f in folds for limit in guards(f.root))
        return axes[-1] if axes and is_free and any(self._is_sequence(stage) for stage in folds) else None

    def _is_sequence(self, stage: Stage) -> bool:
        return not is_free_of_order(stage, self.stages) and stage.steps > UNROLLED

    def statements(self) -> list[str]:
        """Return the statements of the function."""
        lines = self.declared_arrays(lambda axis: 1 if axis in self.outer else self._length(axis))
        for item in self.items:
            lines += self._item(item)
        if self.block is not None:
            name, size = self.block.name, self.block.size
            end = f"{name}_first + {self.size}u"
            if size % self.size:
                of_last = f"{size}u - {name}_first < {self.size}u ? {size}u : {end}"
                lines.insert(0, f"const size_t {name}_end = {of_last};")
            head = f"for (size_t {name}_first = 0; {name}_first < {size}u; {name}_first += {self.size}u) {{"
            lines = [head, *_indented(lines), "}"]
        return [*self.declared(), *self._around(self.outer, lines)]

    def _length(self, axis: Axis) -> int:
        return self.size if axis is self.block else axis.size

    def _item(self, item: Item) -> list[str]:
        """Return the loops of a stage, or of starts and then of steps."""
        if isinstance(item, Stage):
            return self._stage(item)
        starts, steps = ([line for stage in stages for line in self._stage(stage)]
                         for stages in (item.starts, item.stages))  # fmt: skip
        return [*starts, *_loop(item.time.name, 0, f"{item.time.size}u", steps)]

    def _stage(self, stage: Stage) -> list[str]:
        """Return the loop nest of a stage along axes of its own."""
        axes = [axis for axis in stage.axes if axis not in self.outer]
        target = self._at(stage, tuple(map(place, stage.axes)))
        if stage.accumulator is None:
            return self._around(axes, self._assigned(stage.root, target))
        if axes and _is_side_by_side(stage, axes[-1]):
            return self._around(axes[:-1], self._side_by_side(stage, axes[-1], target))
        if stage.over[-1].size >= 2 * LANES and not guards(stage.root) and is_free_of_order(stage, self.stages):
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
            steps += _block(self._assigned(root, so_far, so_far))
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
        is_fixed = all({inner, along}.issuperset(limit.place.axes) for limit in own)
        is_few = along.size <= UNROLLED and inner is not self.block
        if not is_few or not is_fixed or any(along in limit.place.axes for limit in others):
            return [*start, *self._around([*stage.over, inner], step, limits)]
        so_far = f"{stage.name}_so_far"
        whole = [f"{C_TYPES[stage.dtype.name]} {so_far} = {target};"]
        for number in range(along.size):
            whole += _block(self._assigned(stage.root, so_far, so_far, {along: number}))
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
                lines = _limited(axis, own, lines)
            elif axis is self.block:
                end = f"{axis.name}_end" if axis.size % self.size else f"{axis.name}_first + {self.size}u"
                lines = _loop(axis.name, f"{axis.name}_first", end, lines)
            elif axis.size > 1:
                lines = _loop(axis.name, 0, f"{axis.size}u", lines)
            else:
                lines = _block(lines)
        return _block(lines)

    def _assigned(self, root: Expression, target: str, so_far: str = "", step: Step | None = None) -> list[str]:
        """Return statements that assign an expression; `so_far` is the text of the accumulator."""
        texts = {stage.name: so_far for stage in self.stages if stage.accumulator is not None}
        for node, source, places in loads(root):
            assert node.load is not None  # noqa: S101 - it is one
            text = self._at(source, [after(at, step or {}) for at in places])
            if isinstance(node.load.outside, np.generic):
                inside = [(after(at, step or {}), size) for _, at, size in node.load.guards]
                conditions = (f"({at.text(_name)} < {size}u)" for at, size in inside)
                text = f"({' & '.join(conditions)} ? {text} : {expression.literal(node.load.outside)})"
            texts[node.name] = text
        return self.assigned(root, target, texts)

    def _at(self, source: Indexed, places: Sequence[Place]) -> str:
        """Return the C expression of a value."""
        source, places = self.places(source, places)
        if isinstance(source, Source):
            return f"{self._of_source(source)}[{flat(source.shape, places)}]"
        array = self.arrays[id(source)]
        if array == "out":
            return f"out[{flat(source.shape, places)}]"
        own = [(axis, at) for axis, at in zip(source.axes, places, strict=True) if axis not in self.outer]
        sizes = [self._length(axis) for axis, _ in own]
        inside = {} if self.first is None else {self.first: 0}
        text = flat(sizes, [after(at, inside) for _, at in own], lambda axis: _of_block(axis, self.block))
        return f"{array}[{text}]"

    def _of_source(self, source: Source) -> str:
        return f"{self.layer.name}_{source.name}" if source.is_constant else source.name


class _Operations(_Writer):
    """The operations of a layer: a function of each expression, and a call for each value and step."""

    def functions(self) -> str:
        """Return the functions."""
        texts = []
        for stage in self.stages:
            names = self._parameters(stage)
            kinds = {name: (stage if node is None else node).dtype for name, node in names.items()}
            arguments = {stage.name if node is None else node.name: name for name, node in names.items()}
            texts.append(f"\n{expression.function(self._function(stage), stage.root, kinds, arguments)}\n")
        return "".join(texts)

    def statements(self) -> list[str]:
        """Return the statements of the function."""
        lines = [*self.declared(), *self.declared_arrays(lambda axis: axis.size)]
        for item in self.items:
            steps: list[tuple[Step, Sequence[Stage]]] = [({}, computed(item))]
            if isinstance(item, Recurrence):
                steps = [({}, item.starts), *(({item.time: n}, item.stages) for n in range(item.time.size))]
            for step, stages in steps:
                for stage in stages:
                    points = (dict(zip(stage.axes, point, strict=True)) for point in np.ndindex(stage.shape))
                    lines += [line for point in points for line in self._value(stage, {**step, **point})]
        return lines

    def _function(self, stage: Stage) -> str:
        is_start = id(stage) in self.moments and not self.moments[id(stage)][1].steps
        return f"{self.layer.name}_{stage.name}{'_start' if is_start else ''}"

    def _parameters(self, stage: Stage) -> dict[str, Expression | None]:
        """Return the loads of a stage by the names of parameters; None for the value so far."""
        own = {} if stage.accumulator is None else {"so_far": None}
        nodes = {node.name: node for node, _, _ in loads(stage.root)}
        return {**own, **{f"x_{number}": node for number, node in enumerate(nodes.values())}}

    def _value(self, stage: Stage, point: Step) -> Iterator[str]:
        """Yield the statements of the value of a stage at a point."""
        array, places = self.places(stage, tuple(map(place, stage.axes)))
        target = f"{self.arrays[id(array)]}[{_number(array, places, point)}]"
        if stage.accumulator is None:
            yield f"{target} = {self._call(stage, point, target)};"
            return
        texts = {node.name: self._load(node, point) for node, _, _ in loads(stage.start)}
        yield from _block(self.assigned(stage.start, target, texts))
        for numbers in np.ndindex(*(axis.size for axis in stage.over)):
            step = {**point, **dict(zip(stage.over, numbers, strict=True))}
            if all(0 <= after(at, step).constant < size for _, at, size in guards(stage.root)):
                yield f"{target} = {self._call(stage, step, target)};"

    def _call(self, stage: Stage, step: Step, so_far: str) -> str:
        values = [so_far if node is None else self._load(node, step) for node in self._parameters(stage).values()]
        values += [self.limits[number] for number in expression.limits(stage.root)]
        return f"{self._function(stage)}({', '.join(values)})"

    def _load(self, node: Expression, step: Step) -> str:
        assert node.load is not None  # noqa: S101 - by the caller
        outside, [source, places] = node.load.outside, self.places(node.load.source, node.load.places)
        if any(not 0 <= after(at, step).constant < size for _, at, size in node.load.guards):
            return expression.literal(outside)  # type: ignore[arg-type] # a step without a number is left out
        number = _number(source, places, step)
        if isinstance(source, Source) and source.is_constant:
            return expression.literal(np.asarray(self.layer.numbers()[source.name]).reshape(-1)[number])
        return f"{self.arrays.get(id(source), source.name)}[{number}]"


def _moments(item: Recurrence) -> dict[int, tuple[History, Place]]:
    """Return the history that has the values of each state, start and result, and the place on its first axis."""
    before, moments = place(item.time), dict[int, tuple[History, Place]]()
    for history, state, start, result in zip(item.histories, item.states, item.starts, item.results, strict=True):
        moments |= {id(state): (history, before), id(start): (history, place(0)), id(result): (history, before + 1)}
    return moments


def _steps(item: Item) -> int:
    count = sum(stage.size * stage.steps for stage in computed(item))
    return count * item.time.size if isinstance(item, Recurrence) else count


def _number(source: Indexed, places: Sequence[Place], step: Step) -> int:
    """Return the place of a value in the flat array."""
    return int(np.ravel_multi_index([after(at, step).constant for at in places], source.shape)) if places else 0


def _shared(stages: Sequence[Stage]) -> list[Axis]:
    """Return the axes that all stages have and read each other at."""
    reads = [(source, places) for stage in stages for root in (stage.start, stage.root)
             for _, source, places in loads(root) if not isinstance(source, Source)]  # fmt: skip
    common = (axis for axis in stages[-1].axes if all(axis in stage.axes for stage in stages))
    return [axis for axis in common if all(places[source.axes.index(axis)] == place(axis) for source, places in reads)]


def _fits_output(stage: Indexed, stages: Sequence[Stage]) -> bool:
    """Return whether values can lie in the output: the last stage alone replaces them, each by that at its place."""
    last = stages[-1]
    is_only = all(other.axes != last.axes for other in stages[:-1] if other is not stage)
    if stage.axes != last.axes or stage.dtype != last.dtype or last.over or not is_only:
        return False
    own = tuple(map(place, last.axes))
    return all(places == own for _, source, places in loads(last.root) if source is stage)


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


def _limited(axis: Axis, limits: Sequence[Guard], lines: list[str]) -> list[str]:
    """Return a loop over the places of an axis for which others are inside."""
    spans, names = [], []
    for number, (_, at, size) in enumerate(limits):
        names.append(f"inside_{axis.name}{number or ''}")
        before = max(-at.constant, 0)
        others = tuple((other, step) for other, step in at.steps if other is not axis)
        offset = Place(others, at.constant + before).text(_name)
        call = f"window_span({size}, {before}, {offset}, {dict(at.steps)[axis]}, {axis.size})"
        spans.append(f"const struct span {names[-1]} = {call};")
    first = reduce("({0} > {1} ? {0} : {1})".format, (f"{name}.first" for name in names))
    end = reduce("({0} < {1} ? {0} : {1})".format, (f"{name}.end" for name in names))
    return ["{", *_indented([*spans, *_loop(axis.name, first, end, lines)]), "}"]


def _loop(name: str, first: int | str, end: str, lines: Sequence[str]) -> list[str]:
    return [f"for (size_t {name} = {first}; {name} < {end}; ++{name}) {{", *_indented(lines), "}"]


def _block(lines: list[str]) -> list[str]:
    """Return statements as one."""
    is_one = len(lines) == 1 or (lines[0].endswith("{") and all(line[0] == " " for line in lines[1:-1]))
    return lines if is_one else ["{", *_indented(lines), "}"]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _name(axis: Axis) -> str:
    return axis.name


def _divisor(size: int) -> int:
    """Return the number of values along an axis that are computed together."""
    return max(number for number in range(1, CHAINS + 1) if size % number == 0)


def _of_block(axis: Axis, block: Axis | None) -> str:
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
