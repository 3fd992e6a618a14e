"""Comparison of ONNX Runtime with the integer specification on every possible input of an operator.

QuantizeLinear receives every float32.  The last stage of a contraction receives every accumulator within the bounds of
its channel: the model's own node reads inputs, bias or weights whose sums are these (`Swept.isolate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.model.network import Network
from harness.model.onnx_runtime import sessions
from harness.model.onnx_runtime.sessions import takes_precision
from harness.operators import sweeps
from harness.operators.base import Layer
from harness.operators.sweeps import StepFunction, Sweep

VALUES_AT_ONCE = 1 << 19
INPUTS_AT_ONCE = 1 << 25
"""Largest number of quantised inputs of a contraction at once; the stage needs them, but ignores their values."""


def confirm(network: Network, layer: Layer, abandoned: Event) -> None:
    """Raise ReferenceFailed at the first case in which ONNX Runtime and the specification differ; try all cases.

    Raise it also when `abandoned` is set.
    """
    swept = layer.rounded.swept
    assert swept is not None  # noqa: S101 - the caller has asked for it
    layer, sweep, node = swept.layer, swept.sweep(), _node(network, layer)
    inputs = len(sweep.start) if layer.stimuli.takes_every_input else layer.input.size
    length = max(min(VALUES_AT_ONCE // len(sweep.start), INPUTS_AT_ONCE // inputs), 1)
    for part in _parts(sweep, length):
        if abandoned.is_set():
            raise ReferenceFailed(f"layer {layer.name!r} was not tried to the end")
        _confirm_part(layer, swept.step_functions(), node, part)


def _parts(sweep: Sweep, length: int) -> Iterator[Sweep]:
    for first in range(0, sweep.vectors, length):
        yield Sweep(sweep.start + first, np.clip(sweep.count - first, 0, length))


def _confirm_part(
    layer: Layer, staircases: Sequence[StepFunction] | None, node: Callable[[Array], Array], part: Sweep
) -> None:
    values = part.values()
    outputs = node(values)
    if staircases:
        wanted, found = sweeps.expected(staircases, part), part.within(sweeps.of_outputs(outputs))
        different = sweeps.first_difference(wanted, found)
    else:
        different = _first_float_difference(layer, values, outputs, part)
    if different:
        column, vector = different
        raise ReferenceFailed(
            f"layer {layer.name!r}, column {column}, input {part.start[column] + vector}: ONNX Runtime "
            f"says {outputs[vector, column]}, the integer specification something else",
            "the reference cannot be trusted here: use another machine or version of ONNX Runtime, and report it",
        )


def _first_float_difference(layer: Layer, values: Array, outputs: Array, part: Sweep) -> tuple[int, int] | None:
    assert layer.sums is not None  # noqa: S101 - no other sweep has a float32 output
    specified = layer.sums.finish()(values.view(np.int32).astype(np.int64))
    swept = np.arange(part.vectors)[:, None] < part.count
    vectors, columns = np.nonzero((specified.view(np.uint32) != outputs.view(np.uint32)) & swept)
    return (int(columns[0]), int(vectors[0])) if len(vectors) else None


def _node(network: Network, layer: Layer) -> Callable[[Array], Array]:
    """Return the layer's own node in ONNX Runtime, from uint32 (n, N) bits of a sweep to its outputs."""
    model = onnx.load_model_from_string(network.onnx_bytes)
    graph = model.graph
    node = next(node for node in graph.node if layer.output.name in node.output)
    constants = [other for other in graph.node if other.op_type == "Constant"]
    assert layer.rounded.swept is not None  # noqa: S101 - as above
    inputs, feed = layer.rounded.swept.isolate(node)
    element_type = helper.np_dtype_to_tensor_dtype(layer.dtype)
    output = helper.make_tensor_value_info(layer.output.name, element_type, None)
    alone = helper.make_graph([*constants, node], "proof", inputs, [output], list(graph.initializer))
    made = helper.make_model(alone, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    # Without the option, products of zero points saturate too: of 130 and above with weights of 127.
    precise = takes_precision(network, x64_quant_precision=True)
    session = sessions.session(made.SerializeToString(), threads=1, x64_quant_precision=precise)

    def run(bits: Array) -> Array:
        outputs: Array = session.run(None, feed(bits))[0]
        return outputs.reshape(len(bits), -1)

    return run
