"""Definitions of stages in MLIR: one loop nest a stage, the axes of a fold as reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from harness.operators.exact.expression import Expression
from harness.operators.exact.stage_values import number_of
from harness.operators.exact.stages import (
    Axis,
    Guard,
    Item,
    Load,
    Outside,
    Place,
    Recurrence,
    Source,
    Stage,
    all_loads,
    array,
    guards,
    loads,
    place,
    with_places,
)
from harness.operators.float_contraction import FloatContraction
from harness.operators.non_max_suppression import NonMaxSuppression
from harness.operators.staged import Staged
from harness.targets.c.stage_loops import flat
from harness.targets.iree import float_contraction
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.pointwise import has_products, operations

MOST_STAGES = 2048


class StagedLowering(IreeLowering[Staged]):
    """The stages one after the other."""

    operator = Staged
    excluded = (NonMaxSuppression,)
    """IREE 3.13's compiler ends abnormally on its steps."""

    def unsupported(self, layer: Staged, variant: str) -> str | None:
        """Refuse recurrences of many stages, which are written for each step."""
        unrolled = [item for item in layer.program.stages if isinstance(item, Recurrence) and item.as_fold is None]
        count = sum(item.time.size * len(item.stages) for item in unrolled)
        if count > MOST_STAGES:
            return f"its recurrence has {count:,} stages in all steps, and at most {MOST_STAGES:,} are written"
        return super().unsupported(layer, variant)

    def emit(self, layer: Staged, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        if isinstance(layer, FloatContraction):
            return float_contraction.sums(layer, function, inputs[0])
        result = computed(function, layer.program.stages, inputs, layer.numbers())
        return function.reshape(result, (function.vectors, *layer.output.shape))


def computed(function: Function, items: Sequence[Item], inputs: Sequence[Value], facts: Mapping[str, object]) -> Value:
    """Add the loops of stages and return the values of the last one, (vectors, *shape)."""
    values: dict[int, Value] = {}
    for item in items:
        for _, source, _ in all_loads(item):
            if isinstance(source, Source) and id(source) not in values:
                values[id(source)] = _source(function, source, inputs, facts)
        if isinstance(item, Stage):
            values[id(item)] = _stage(function, item, values)
        else:
            for history, value in zip(item.histories, _histories(function, item, values), strict=True):
                values[id(history)] = value
    return values[id(items[-1])]


def _source(function: Function, source: Source, inputs: Sequence[Value], facts: Mapping[str, object]) -> Value:
    if source.is_constant:
        return function.constant(source.name, np.asarray(facts[source.name]).reshape(source.shape))
    return function.reshape(inputs[number_of(source)], (function.vectors, *source.shape))


def _stage(function: Function, stage: Stage, values: Mapping[int, Value], *, of_step: bool = False) -> Value:
    """Add the loops of a stage; in a step no loop is a copy for the compiler, which fails for those of small arrays."""
    shape = (function.vectors, *stage.shape)
    if stage.accumulator is None:
        return _loops(function, function.empty(shape, stage.dtype), stage, stage.root, values, of_step=of_step)
    if stage.start.value is not None:
        init = function.filled(stage.start.value, shape, stage.dtype)
    else:
        init = _loops(function, function.empty(shape, stage.dtype), stage, stage.start, values, of_step=of_step)
    return _loops(function, init, stage, stage.root, values, stage.over)


def _histories(function: Function, item: Recurrence, values: Mapping[int, Value]) -> list[Value]:
    """Add the states at the start and after each step."""
    fold = item.as_fold
    if fold is not None:
        return [_history(function, item, fold, values)]
    known = dict(values)
    rows: list[list[Value]] = [[_stage(function, start, values, of_step=True)] for start in item.starts]
    for moment in range(item.time.size):
        known |= {id(state): row[-1] for state, row in zip(item.states, rows, strict=True)}
        for stage in item.stages:
            here = {item.time: place(moment)}
            root, start = with_places(stage.root, here), with_places(stage.start, here)
            known[id(stage)] = _stage(function, replace(stage, root=root, start=start), known, of_step=True)
        for row, result in zip(rows, item.results, strict=True):
            row.append(known[id(result)])
    return [_stacked(function, row) for row in rows]


def _stacked(function: Function, rows: Sequence[Value]) -> Value:
    """Return the values side by side along a new axis behind the vectors: loops, because a concatenation is a copy."""
    vectors, *shape = rows[0].shape
    stacked = function.filled(0, (vectors, len(rows), *shape), rows[0].dtype)
    moments = function.constant("moments", np.arange(len(rows), dtype=np.int32))
    places = ", ".join(["d0", *(f"d{number}" for number in range(2, len(shape) + 2))])
    for number, row in enumerate(rows):

        def body(block: Block, value: Scalar, moment: Scalar, before: Scalar, number: int = number) -> Scalar:
            is_here = block.compare("eq", moment, block.number(number, "i32", name="here"))
            return block.select(is_here, value, before)

        stacked = function.loops(stacked, [(row, places), (moments, "d1")], body)
    return stacked


def _history(function: Function, item: Recurrence, fold: Stage, values: Mapping[int, Value]) -> Value:
    """Add the state at the start and after each step: a fold at each place, whose later steps change nothing."""
    start = array(fold.name, (Axis("moment", item.time.size + 1), *fold.axes), fold.start)
    init = _loops(function, function.empty((function.vectors, *start.shape), fold.dtype), start, fold.start, values)
    return _loops(function, init, replace(fold, axes=start.axes), fold.root, values, fold.over, is_history=True)


def _loops(
    function: Function,
    init: Value,
    stage: Stage,
    root: Expression,
    values: Mapping[int, Value],
    over: Sequence[Axis] = (),
    *,
    is_history: bool = False,
    of_step: bool = False,
) -> Value:
    """Add the loops of an expression around the values so far; of a history, at place n only the first n steps."""
    names = {axis: f"d{number}" for number, axis in enumerate((*stage.axes, *over), 1)}
    reads: dict[str, tuple[Value, str]] = {}
    extracted: dict[str, tuple[Value, str]] = {}
    for node, source, _ in loads(root):
        assert node.load is not None  # noqa: S101 - it is one
        value, places = _padded(function, values[id(source)], node.load)
        vectors, shape = value.shape[: len(value.shape) - len(places)], value.shape[len(value.shape) - len(places) :]
        if _is_operand(shape, places):
            texts = [at.text(names.__getitem__) for at in places]
            reads[node.name] = value, ", ".join(["d0", *texts] if vectors else texts)
        else:
            flattened = function.reshape(value, (*vectors, math.prod(shape)))
            extracted[node.name] = flattened, flat(shape, places, names.__getitem__)
    limits = [_inside(function, limit, names) for limit in guards(root)]
    inputs = [*reads.values(), *limits]
    if over:  # only a shape: MLIR takes the lengths of loops from operands
        sizes = tuple(axis.size for axis in over)
        inputs.append((function.empty(sizes, stage.dtype), ", ".join(names[axis] for axis in over)))

    is_copy = of_step and root.load is not None

    def body(block: Block, *elements: Scalar) -> Scalar:
        arguments = dict(zip(reads, elements, strict=False))
        for name, (value, text) in extracted.items():
            vector = block.index(0) if len(value.shape) > 1 else None
            arguments[name] = block.element(value, block.affine(len(names) + 1, text), vector)
        if stage.accumulator is not None:
            arguments[stage.accumulator.name] = elements[-1]
        result = operations(block, root, arguments)
        if is_copy:
            result = block.unchanged(result, "same")
        if is_history:
            is_before = block.compare("ult", block.index(len(stage.axes) + 1), block.index(1))
            result = block.select(is_before, result, elements[-1])
        if not limits:
            return result
        masks = elements[len(reads) : len(reads) + len(limits)]
        mask = reduce(lambda one, other: block("arith.andi", one, other, name="inside"), masks)
        is_inside = block.compare("ne", mask, block.number(0, "i8", name="none"))
        return block.select(is_inside, result, elements[-1])

    return function.loops(init, inputs, body, len(over), products=is_copy or has_products(root))


def _is_operand(shape: Sequence[int], places: Sequence[Place]) -> bool:
    """Return whether MLIR takes the places for an operand: they do not fall, and an axis alone is a whole one."""
    for at, size in zip(places, shape, strict=True):
        steps = [(axis.size, step) for axis, step in at.steps if axis.size > 1]
        is_part = [step for _, step in steps] == [1] and at.constant == 0 and steps[0][0] != size
        if is_part or any(step < 0 for _, step in steps):
            return False
    return True


def _padded(function: Function, value: Value, load: Load) -> tuple[Value, list[Place]]:
    """Return an array with a number around it, and the places of a load there; constants have no vectors."""
    low, high = ([0] * len(value.shape) for _ in range(2))
    first = len(value.shape) - len(load.places)
    for number, at, size in load.guards:
        low[first + number], high[first + number] = max(-at.constant, 0), max(at.last - size + 1, 0)
    filler = 0 if isinstance(load.outside, Outside) else load.outside
    places = [at + before for at, before in zip(load.places, low[first:], strict=True)]
    return function.pad(value, low, high, float(filler)), places


def _inside(function: Function, limit: Guard, names: Mapping[Axis, str]) -> tuple[Value, str]:
    """Return whether places are inside, int8, and the affine expression of a place."""
    before = max(-limit.place.constant, 0)
    mask = np.zeros((limit.place + before).last + 1, np.int8)
    mask[before : before + limit.size] = 1
    return function.constant("inside", mask), (limit.place + before).text(lambda axis: names[axis])
