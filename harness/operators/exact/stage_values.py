"""Evaluation of stages in numpy: arrays at once, folds step by step in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from harness.core.arrays import Array
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import Expression, argument, ordered, substituted
from harness.operators.exact.stages import Axis, Indexed, Place, Stage, loads, sources

AT_ONCE = 1 << 20
"""Values of a stage, or terms of its folds, that are computed together."""
FEW = 64
"""Sums below which numpy's accumulate is faster than an addition for each term."""
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


def arguments(root: Expression, values: Values, stage: Stage, over: Sequence[Axis], vectors: int) -> dict[str, Array]:
    """Return what an expression of a stage reads, by name: (*over, vectors, *shape of the stage)."""
    return {
        node.name: view(values[id(source)], places, over, stage.axes, vectors) for node, source, places in loads(root)
    }


class Program:
    """Stages that are prepared for inputs."""

    def __init__(self, stages: Sequence[Stage], constants: Mapping[str, Array]) -> None:
        self.stages = tuple(stages)
        self._steps = [_Step(stage) for stage in stages]
        self._inputs = [source for source in sources(stages) if not source.is_constant]
        self._constants = {
            id(source): np.ascontiguousarray(constants[source.name]).reshape(1, *source.shape)
            for source in sources(stages)
            if source.is_constant
        }
        self._vectors = max(1, AT_ONCE // max(stage.size * stage.steps for stage in stages))

    def __call__(self, *inputs: Array) -> Array:
        """Return the values of the last stage, (vectors, size), for those of the inputs, (vectors, size) each."""
        return self.from_stage(0, {}, *inputs)

    def from_stage(self, first: int, known: Mapping[int, Array], *inputs: Array) -> Array:
        """Return the result by the stages from `first` on; `known` has the values before, (vectors, *shape)."""
        count = len(inputs[0])
        result = np.empty((count, self.stages[-1].size), self.stages[-1].dtype)
        for start in range(0, count, self._vectors):
            part = slice(start, start + self._vectors)
            values = self.values([x[part] for x in inputs], {key: value[part] for key, value in known.items()}, first)
            result[part] = values[id(self.stages[-1])].reshape(-1, result.shape[1])
        return result

    def values(self, inputs: Sequence[Array], known: Values | None = None, first: int = 0) -> dict[int, Array]:
        """Return the values of all arrays by identity, (vectors, *shape), for inputs (vectors, size) each."""
        values = {**self._constants, **(known or {}), **self.sources(inputs)}
        with np.errstate(all="ignore"):
            for step in self._steps[first:]:
                values[id(step.stage)] = step(values, len(inputs[0]))
        return values

    def sources(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """Return the inputs by identity, (vectors, *shape); a source names an input by its number behind `x`."""
        shaped = {}
        for source in self._inputs:
            x = inputs[number_of(source)]
            shaped[id(source)] = np.ascontiguousarray(x).reshape(len(x), *source.shape)
        return shaped

    def terms(self, place: int, values: Values, vectors: int) -> Array:
        """Return the terms of a sum, float32 (steps, vectors, *shape)."""
        return self._steps[place].terms(values, vectors)[0]


def number_of(source: Indexed) -> int:
    """Return the number of the input that a source is: 0 of `x`, 1 of `x1`."""
    return int(source.name[1:] or 0)


class _Step:
    """A stage and its prepared expressions."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._start = Evaluation(stage.start)
        subterms = _without(stage.root, stage.accumulator) if stage.accumulator is not None else [stage.root]
        self._terms = [Evaluation(term) for term in subterms]
        self._roots = subterms
        renamed = {id(term): argument(f"term {number}", term.dtype) for number, term in enumerate(subterms)}
        self._combine = Evaluation(substituted(stage.root, renamed))

    def __call__(self, values: Values, vectors: int) -> Array:
        shape = (vectors, *self.stage.shape)
        if self.stage.accumulator is None:
            return np.ascontiguousarray(np.broadcast_to(self.terms(values, vectors)[0][0], shape))
        start = self._evaluated(self._start, self.stage.start, values, (), vectors)
        total = np.broadcast_to(start.reshape(shape) if start.ndim else start, shape)
        terms = self.terms(values, vectors)
        if not self.stage.is_sum:
            return reduce(self._combined, zip(*terms, strict=True), np.ascontiguousarray(total))
        if total.size < FEW:
            sums: Array = np.add.accumulate(np.concatenate([total[None], terms[0]]))
        else:
            sums = reduce(np.add, terms[0], total)[None]
        last: Array = sums[-1]
        return last

    def terms(self, values: Values, vectors: int) -> list[Array]:
        """Return what the steps read and does not depend on the value so far: (steps, vectors, *shape) each."""
        terms = []
        shape = (self.stage.steps, vectors, *self.stage.shape)
        for evaluation, root in zip(self._terms, self._roots, strict=True):
            term = self._evaluated(evaluation, root, values, self.stage.over, vectors)
            terms.append(np.broadcast_to(term, shape) if term.ndim == 0 else term.reshape(shape))
        return terms

    def _combined(self, value: Array, terms: Sequence[Array]) -> Array:
        assert self.stage.accumulator is not None  # noqa: S101 - by the caller
        names = {f"term {number}": term for number, term in enumerate(terms)}
        return self._combine({self.stage.accumulator.name: value, **names})

    def _evaluated(
        self, evaluation: Evaluation, root: Expression, values: Values, over: Sequence[Axis], vectors: int
    ) -> Array:
        if root.value is not None:
            return np.asarray(root.value)
        return evaluation(arguments(root, values, self.stage, over, vectors))


def _without(root: Expression, accumulator: Expression) -> list[Expression]:
    """Return the largest parts of an expression that do not depend on the accumulator, but for literals."""
    dependent = {id(accumulator)}
    for node in ordered(root):
        if any(id(operand) in dependent for operand in node.operands):
            dependent.add(id(node))
    parts: dict[int, Any] = {}
    for node in ordered(root):
        if id(node) in dependent:
            parts |= {id(part): part for part in node.operands if id(part) not in dependent and part.value is None}
    return list(parts.values())
