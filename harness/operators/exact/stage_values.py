"""Evaluation of stages in numpy: arrays at once, folds step by step in their order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from harness.core.arrays import Array
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import Expression, argument, ordered, substituted
from harness.operators.exact.stages import (
    Axis,
    Indexed,
    Item,
    Load,
    Outside,
    Place,
    Recurrence,
    Stage,
    computed,
    guards,
    loads,
    skipping,
    sources,
)

AT_ONCE = 1 << 20
"""Values of a stage, or terms of its folds, that are computed together."""
FEW = 64
"""Sums below which numpy's accumulate is faster than an addition for each term."""
MANY = 1 << 12
"""Values of folds from which on the steps are computed one by one, without arrays of all terms."""
Fixed: TypeAlias = Mapping[Axis, int]
"""The places on axes of recurrences."""
NONE_FIXED: Fixed = MappingProxyType({})
Box = tuple[slice, ...]
"""A part of an array: the values along each axis."""
Values = Mapping[int, Array]
"""The values of arrays by identity: (vectors, *shape), of constants (1, *shape)."""


def view(values: Array, places: Sequence[Place], before: Sequence[Axis], behind: Sequence[Axis], vectors: int) -> Array:
    """Return the values at these places without a copy: (*before, vectors, *behind), for `values` (vectors, *shape)."""
    strides, offset = dict.fromkeys([*before, *behind], 0), 0
    for at, stride in zip(places, values.strides[1:], strict=True):
        offset += at.constant * stride
        for axis, step in at.steps:
            strides[axis] += step * stride
    of_vectors = values.strides[0] if len(values) > 1 else 0
    shape = (*(axis.size for axis in before), vectors, *(axis.size for axis in behind))
    steps = (*(strides[axis] for axis in before), of_vectors, *(strides[axis] for axis in behind))
    first = values.reshape(-1)[offset // values.itemsize :]
    return as_strided(first, shape, steps, writeable=False)


def padded(values: Array, load: Load, *, of_errors: bool = False) -> tuple[Array, Sequence[Place]]:
    """Return the values, (vectors, *shape), with the number of a load around them, and its places there.

    The number has no error.
    """
    if isinstance(load.outside, Outside):
        return values, load.places
    before, widths = [0] * len(load.places), [(0, 0)] * len(load.places)
    for number, at, size in load.guards:
        before[number] = max(-at.constant, 0)
        widths[number] = before[number], max(at.last - size + 1, 0)
    filled = np.pad(values, [(0, 0), *widths], constant_values=0 if of_errors else load.outside)
    return filled, [at + shift for at, shift in zip(load.places, before, strict=True)]


def arguments(
    root: Expression,
    values: Values,
    stage: Stage,
    over: Sequence[Axis],
    vectors: int,
    fixed: Fixed = NONE_FIXED,
    *,
    of_errors: bool = False,
) -> dict[str, Array]:
    """Return what an expression of a stage reads, by name: (*over, vectors, *shape of the stage)."""
    read = {}
    for node, source, _ in loads(root):
        assert node.load is not None  # noqa: S101 - it is one
        filled, places = padded(values[id(source)], node.load, of_errors=of_errors)
        read[node.name] = view(filled, [after(at, fixed) for at in places], over, stage.axes, vectors)
    return read


def each_step(
    stage: Stage, values: Sequence[Values], vectors: int, fixed: Fixed = NONE_FIXED
) -> Iterator[tuple[tuple[int, ...], Box, list[dict[str, Array]]]]:
    """Yield the steps of a fold that are not left out everywhere: the place on each of its axes, the part that changes.

    Also yield what is read for that part, (vectors, *shape), by name, of each of `values`; the second ones are errors.
    """
    sources_read = []
    for node, source, _ in loads(stage.root):
        assert node.load is not None  # noqa: S101 - it is one
        arrays = [padded(known[id(source)], node.load, of_errors=number > 0) for number, known in enumerate(values)]
        sources_read.append((node.name, arrays))
    for numbers in itertools.product(*(range(axis.size) for axis in stage.over)):
        step = {**fixed, **dict(zip(stage.over, numbers, strict=True))}
        bounds = {axis: (0, axis.size) for axis in stage.axes}
        for _, at, size in guards(stage.root):
            for axis, (low, high) in _inside(after(at, step), size, stage.axes).items():
                bounds[axis] = max(bounds[axis][0], low), min(bounds[axis][1], high)
        if any(low >= high for low, high in bounds.values()):
            continue
        begins = {axis: low for axis, (low, _) in bounds.items()}
        parts = [Axis(axis.name, high - low) for axis, (low, high) in bounds.items()]
        renamed = dict(zip(stage.axes, parts, strict=True))
        read: list[dict[str, Array]] = [{} for _ in values]
        for name, arrays in sources_read:
            for own, (array, places) in zip(read, arrays, strict=True):
                moved = [_renamed(after(at, step), begins, renamed) for at in places]
                own[name] = view(array, moved, (), parts, vectors)
        yield numbers, (slice(None), *(slice(*bounds[axis]) for axis in stage.axes)), read


def after(at: Place, step: Mapping[Axis, int]) -> Place:
    """Return a place at a step of a fold or of a recurrence."""
    constant = at.constant + sum(factor * step[axis] for axis, factor in at.steps if axis in step)
    return Place(tuple((axis, factor) for axis, factor in at.steps if axis not in step), constant)


def _inside(at: Place, size: int, axes: Sequence[Axis]) -> dict[Axis, tuple[int, int]]:
    """Return the bounds of the axis for which a place is inside; of all axes none if it has no axis and is outside."""
    if not at.steps:
        return {} if 0 <= at.constant < size else dict.fromkeys(axes, (0, 0))
    [(axis, factor)] = at.steps
    return {axis: (-(at.constant // factor), -((at.constant - size) // factor))}


def _renamed(at: Place, begins: Mapping[Axis, int], parts: Mapping[Axis, Axis]) -> Place:
    constant = at.constant + sum(factor * begins[axis] for axis, factor in at.steps)
    return Place(tuple((parts[axis], factor) for axis, factor in at.steps), constant)


class Program:
    """Stages that are prepared for inputs; one that `is_real`, without recurrences, computes in double precision."""

    def __init__(self, stages: Sequence[Item], constants: Mapping[str, Array], *, is_real: bool = False) -> None:
        self.stages = tuple(stages)
        self._steps = [Step(stage, is_real=is_real) if isinstance(stage, Stage) else Advance(stage) for stage in stages]
        self._inputs = [source for source in sources(stages) if not source.is_constant]
        self._constants = {
            id(source): np.ascontiguousarray(constants[source.name]).reshape(1, *source.shape)
            for source in sources(stages)
            if source.is_constant
        }
        self._vectors = max(1, AT_ONCE // max(step.size for step in self._steps))

    @property
    def result(self) -> Stage:
        """The last stage."""
        last = self.stages[-1]
        assert isinstance(last, Stage)  # noqa: S101 - by `program`
        return last

    def __call__(self, *inputs: Array) -> Array:
        """Return the values of the last stage, (vectors, size), for those of the inputs, (vectors, size) each."""
        return self.from_stage(0, {}, *inputs)

    def from_stage(self, first: int, known: Mapping[int, Array], *inputs: Array) -> Array:
        """Return the result by the stages from `first` on; `known` has the values before, (vectors, *shape)."""
        count = len(inputs[0])
        result = np.empty((count, self.result.size), self.result.dtype)
        for start in range(0, count, self._vectors):
            part = slice(start, start + self._vectors)
            values = self.values([x[part] for x in inputs], {key: value[part] for key, value in known.items()}, first)
            result[part] = values[id(self.result)].reshape(-1, result.shape[1])
        return result

    def values(self, inputs: Sequence[Array], known: Values | None = None, first: int = 0) -> dict[int, Array]:
        """Return the values of all arrays by identity, (vectors, *shape), for inputs (vectors, size) each."""
        values = {**self.read(inputs), **(known or {})}
        with np.errstate(all="ignore"):
            for step in self._steps[first:]:
                values |= step.computed(values, len(inputs[0]))
        return values

    def read(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """Return inputs and constants by identity, (vectors or 1, *shape); a source has the number behind its `x`."""
        values = dict(self._constants)
        for source in self._inputs:
            x = inputs[number_of(source)]
            values[id(source)] = np.ascontiguousarray(x).reshape(len(x), *source.shape)
        return values

    def terms(self, place: int, values: Values, vectors: int) -> Array:
        """Return the terms of a sum, float32 (steps, vectors, *shape); a step that is left out adds 0."""
        step = self._steps[place]
        assert isinstance(step, Step)  # noqa: S101 - by the caller
        return step.sum_terms(values, vectors)


def number_of(source: Indexed) -> int:
    """Return the number of the input that a source is: 0 of `x`, 1 of `x1`."""
    return int(source.name[1:] or 0)


class Step:
    """A stage and its prepared expressions."""

    def __init__(self, stage: Stage, *, is_real: bool = False) -> None:
        self.stage, self._is_real = stage, is_real
        prepared = partial(Evaluation, is_real=is_real)
        self._start = prepared(stage.start)
        subterms = _without(stage.root, stage.accumulator) if stage.accumulator is not None else [stage.root]
        self._terms = [prepared(term) for term in subterms]
        self._roots = subterms
        renamed = {id(term): argument(f"term {number}", term.dtype) for number, term in enumerate(subterms)}
        # A wrong definition may have a step that does not depend on the value so far: it is a term as a whole.
        self._combine = prepared(renamed.get(id(stage.root), substituted(stage.root, renamed)))
        self._root = prepared(stage.root.operands[1] if stage.is_sum else stage.root)
        self._is_guarded = any(skipping(stage.root))

    @property
    def size(self) -> int:
        """The values of a vector that are computed together."""
        return self.stage.size * (1 if self._is_guarded or self.stage.size >= MANY else self.stage.steps)

    def computed(self, values: Values, vectors: int) -> dict[int, Array]:
        """Return the array by its identity."""
        return {id(self.stage): np.ascontiguousarray(self(values, vectors))}

    def __call__(self, values: Values, vectors: int, fixed: Fixed = NONE_FIXED) -> Array:
        """Return the array, (vectors, *shape)."""
        shape = (vectors, *self.stage.shape)
        if self.stage.accumulator is None:
            return np.ascontiguousarray(np.broadcast_to(self.terms(values, vectors, fixed)[0][0], shape))
        start = self._evaluated(self._start, self.stage.start, values, (), vectors, fixed)
        total = np.broadcast_to(start.reshape(shape) if start.ndim else start, shape)
        if self._is_guarded or self.stage.size >= MANY:
            return self._by_steps(np.array(total), values, vectors, fixed)
        terms = self.terms(values, vectors, fixed)
        if self.stage.is_extremum:
            return self._extremum(np.concatenate([total[None], terms[0]]))
        if not self.stage.is_sum:
            return reduce(self._combined, zip(*terms, strict=True), np.ascontiguousarray(total))
        if total.size < FEW:
            sums: Array = np.add.accumulate(np.concatenate([total[None], terms[0]]))
        else:
            sums = reduce(np.add, terms[0], total)[None]
        last: Array = sums[-1]
        return last

    def terms(self, values: Values, vectors: int, fixed: Fixed = NONE_FIXED) -> list[Array]:
        """Return what the steps read and does not depend on the value so far: (steps, vectors, *shape) each."""
        terms = []
        shape = (self.stage.steps, vectors, *self.stage.shape)
        for evaluation, root in zip(self._terms, self._roots, strict=True):
            term = self._evaluated(evaluation, root, values, self.stage.over, vectors, fixed)
            terms.append(np.broadcast_to(term, shape) if term.ndim == 0 else term.reshape(shape))
        return terms

    def sum_terms(self, values: Values, vectors: int) -> Array:
        """Return the terms of a sum, float32 (steps, vectors, *shape); a step that is left out adds 0."""
        if not self._is_guarded:
            return self.terms(values, vectors)[0]
        shape = (*(axis.size for axis in self.stage.over), vectors, *self.stage.shape)
        terms = np.zeros(shape, self.stage.dtype)
        for step, box, [read] in each_step(self.stage, [values], vectors):
            part = terms[step]
            part[box] = self._root.at_once(read)
        return terms.reshape(self.stage.steps, *shape[len(self.stage.over) :])

    def _extremum(self, values: Array) -> Array:
        """Return the first of the largest or the smallest values along the first axis; a NaN is not taken."""
        is_largest = self.stage.root.operands[0].operation == "greater"
        keys = values
        if values.dtype.kind == "f":
            keys = np.where(np.isnan(values), -np.inf if is_largest else np.inf, values)
        places = keys.argmax(axis=0) if is_largest else keys.argmin(axis=0)
        chosen: Array = np.take_along_axis(values, places[None], axis=0)[0]
        return chosen

    def _by_steps(self, total: Array, values: Values, vectors: int, fixed: Fixed) -> Array:
        assert self.stage.accumulator is not None  # noqa: S101 - by the caller
        for _, box, [read] in each_step(self.stage, [values], vectors, fixed):
            part = total[box]
            if self.stage.is_sum:
                np.add(part, self._root.at_once(read), out=part)
            else:
                part[...] = self._root.at_once({**read, self.stage.accumulator.name: part})
        return total

    def _combined(self, value: Array, terms: Sequence[Array]) -> Array:
        assert self.stage.accumulator is not None  # noqa: S101 - by the caller
        names = {f"term {number}": term for number, term in enumerate(terms)}
        return self._combine({self.stage.accumulator.name: value, **names})

    def _evaluated(
        self, evaluation: Evaluation, root: Expression, values: Values, over: Sequence[Axis], vectors: int, fixed: Fixed
    ) -> Array:
        if root.value is not None:
            return np.asarray(root.value, np.float64 if self._is_real else None)
        read = arguments(root, values, self.stage, over, vectors, fixed)
        return read[root.name] if root.load is not None else evaluation(read)


class Advance:
    """A recurrence and its prepared stages by identity."""

    def __init__(self, recurrence: Recurrence) -> None:
        self.recurrence = recurrence
        self.steps = {id(stage): Step(stage) for stage in computed(recurrence)}
        self.size = recurrence.time.size * sum(step.size for step in self.steps.values())
        fold = recurrence.as_fold
        self._sum = Step(fold) if fold is not None and fold.is_sum else None

    def computed(self, values: Values, vectors: int) -> dict[int, Array]:
        """Return the histories by their identities, (vectors, steps + 1, *shape)."""
        known = dict(values)
        if self._sum is not None:
            start = self.value(self.recurrence.starts[0], known, vectors)
            sums = np.add.accumulate(np.concatenate([start[None], self._sum.terms(known, vectors)[0]]))
            return {id(self.recurrence.histories[0]): np.ascontiguousarray(np.moveaxis(sums, 0, 1))}
        return histories(self.recurrence, known, lambda stage, fixed: self.value(stage, known, vectors, fixed))

    def value(self, stage: Stage, values: Values, vectors: int, fixed: Fixed = NONE_FIXED) -> Array:
        """Return the array of a stage at a place on the axis of time, (vectors, *shape)."""
        return np.ascontiguousarray(self.steps[id(stage)](values, vectors, fixed))


def histories(
    recurrence: Recurrence, values: dict[int, Array], compute: Callable[[Stage, Fixed], Array]
) -> dict[int, Array]:
    """Return the histories by their identities, (vectors, steps + 1, *shape).

    `compute` gives the array of a stage at a place on the axis of time; what it reads is added to `values`.
    """
    moments = [[compute(start, NONE_FIXED) for start in recurrence.starts]]
    for number in range(recurrence.time.size):
        values |= {id(state): value for state, value in zip(recurrence.states, moments[-1], strict=True)}
        for stage in recurrence.stages:
            values[id(stage)] = compute(stage, {recurrence.time: number})
        moments.append([values[id(result)] for result in recurrence.results])
    by_state = zip(recurrence.histories, zip(*moments, strict=True), strict=True)
    return {id(history): np.stack(values_of_state, axis=1) for history, values_of_state in by_state}


def _without(root: Expression, accumulator: Expression) -> list[Expression]:
    """Return the largest parts of an expression without the accumulator; a literal only if there is no other."""
    dependent = {id(accumulator)}
    for node in ordered(root):
        if any(id(operand) in dependent for operand in node.operands):
            dependent.add(id(node))
    if id(root) not in dependent and root.value is None:
        return [root]
    parts: dict[int, Any] = {}
    for node in ordered(root):
        if id(node) in dependent:
            parts |= {id(part): part for part in node.operands if id(part) not in dependent and part.value is None}
    literals = [part for node in ordered(root) for part in node.operands if part.value is not None]
    return list(parts.values()) or literals[:1]
