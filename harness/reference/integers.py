"""The check of specified values by the evaluation of their definitions in integers.

numpy adds and multiplies as IEEE 754 says only while the processor does: a library that is loaded into this process may
switch subnormal numbers off, for ONNX Runtime as well.  A few values of each layer are therefore computed without any
floating point, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.operators.base import Layer
from harness.operators.elements import Elements
from harness.operators.exact.integers import IntegerEvaluation, canonical
from harness.operators.exact.stage_values import Program, arguments, each_step
from harness.operators.pointwise import Pointwise
from harness.operators.staged import Staged

VALUES = 1 << 14
"""The most values of a layer that are computed in integers, but at least one vector."""
MOST_STEPS = 1 << 10
"""The most steps of a fold that is computed in integers."""


def computed(layer: Layer, inputs: Sequence[Array]) -> Array | None:
    """Return the values of a layer, (n, size), for inputs (n, size) each; None of an operator without a definition."""
    if isinstance(layer, Pointwise):
        return IntegerEvaluation(layer.definition)({"x": inputs[0], **layer.constants()})
    if isinstance(layer, Elements):
        count = len(inputs[0])
        values = IntegerEvaluation(layer.definition).broadcast(layer.arguments(inputs), (count, *layer.output.shape))
        return values.reshape(count, -1)
    if isinstance(layer, Staged) and max(stage.steps for stage in layer.program.stages) <= MOST_STEPS:
        return _of_stages(layer.program, inputs)
    return None


def _of_stages(program: Program, inputs: Sequence[Array]) -> Array:
    """Return the values of the last stage; each step of a fold is computed for all values that have it."""
    values, vectors = program.read(inputs), len(inputs[0])
    for stage in program.stages:
        shape, first = (vectors, *stage.shape), stage.root if stage.accumulator is None else stage.start
        begun = IntegerEvaluation(first)(arguments(first, values, stage, (), vectors))
        result = np.array(np.broadcast_to(begun, shape))
        if stage.accumulator is not None:
            step = IntegerEvaluation(stage.root)
            for _, box, [read] in each_step(stage, [values], vectors):
                result[box] = step({**read, stage.accumulator.name: result[box]})
        values[id(stage)] = result
    return result.reshape(vectors, -1)


def require_integers(layers: Sequence[Layer], values: Mapping[str, Array]) -> None:
    """Raise ReferenceFailed at the first of a few specified values that integers do not give; `values` by tensor."""
    for layer in layers:
        rows = max(VALUES // max(layer.size, *(tensor.size for tensor in layer.inputs)), 1)
        own, right = computed(layer, [values[name][:rows] for name in layer.sources]), values[layer.output.name][:rows]
        if own is None or np.array_equal(canonical(own), canonical(right)):
            continue
        vector, column = np.argwhere(canonical(own) != canonical(right))[0]
        raise ReferenceFailed(
            f"layer {layer.name!r} ({layer.operator}), vector {vector}, column {column}: float arithmetic of this "
            f"process gives {float(right[vector, column]):.9g}, integers {float(own[vector, column]):.9g}",
            "look for a library in this process that changes the floating-point environment, such as one that was "
            "linked with -ffast-math; then report this with the versions of numpy and of the processor",
        )
