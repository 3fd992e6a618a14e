"""Definitions of stages in MLIR: one loop nest a stage, the axes of a fold as reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.operators.exact.expression import Expression
from harness.operators.exact.stage_values import number_of
from harness.operators.exact.stages import Axis, Indexed, Place, Source, Stage, loads
from harness.operators.staged import Staged
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.function import has_products, operations
from harness.targets.iree.lowering import IreeLowering


class StagedLowering(IreeLowering[Staged]):
    """The stages one after the other."""

    operator = Staged

    def emit(self, layer: Staged, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        values: dict[int, Value] = {}
        facts = layer.facts()
        for stage in layer.program.stages:
            for root in (stage.start, stage.root):
                for _, source, _ in loads(root):
                    if id(source) not in values:
                        values[id(source)] = _source(function, source, inputs, facts)
            values[id(stage)] = _stage(function, stage, values)
        return function.reshape(values[id(layer.program.stages[-1])], (function.vectors, *layer.output.shape))


def _source(function: Function, source: Indexed, inputs: Sequence[Value], facts: Mapping[str, object]) -> Value:
    assert isinstance(source, Source)  # noqa: S101 - a stage has its value before it is read
    if source.is_constant:
        return function.constant(source.name, np.asarray(facts[source.name]).reshape(source.shape))
    return function.reshape(inputs[number_of(source)], (function.vectors, *source.shape))


def _stage(function: Function, stage: Stage, values: Mapping[int, Value]) -> Value:
    shape = (function.vectors, *stage.shape)
    if stage.accumulator is None:
        return _loops(function, function.empty(shape, stage.dtype), stage, stage.root, values)
    if stage.start.value is not None:
        init = function.filled(float(stage.start.value), shape, stage.dtype)
    else:
        init = _loops(function, function.empty(shape, stage.dtype), stage, stage.start, values)
    return _loops(function, init, stage, stage.root, values, stage.over)


def _loops(
    function: Function,
    init: Value,
    stage: Stage,
    root: Expression,
    values: Mapping[int, Value],
    over: Sequence[Axis] = (),
) -> Value:
    """Add the loops of an expression around the values so far."""
    names = {axis: f"d{number}" for number, axis in enumerate((*stage.axes, *over), 1)}
    reads = {node.name: (values[id(source)], _map(source, places, names)) for node, source, places in loads(root)}

    def body(block: Block, *elements: Scalar) -> Scalar:
        arguments = dict(zip(reads, elements, strict=False))
        if stage.accumulator is not None:
            arguments[stage.accumulator.name] = elements[-1]
        return operations(block, root, arguments)

    return function.loops(init, list(reads.values()), body, len(over), products=has_products(root))


def _map(source: Indexed, places: Sequence[Place], names: Mapping[Axis, str]) -> str:
    """Return the affine expressions of an operand; constants have no axis of vectors."""
    own = [at.text(lambda axis: names[axis]) for at in places]
    is_constant = isinstance(source, Source) and source.is_constant
    return ", ".join(own if is_constant else ["d0", *own])
