"""ONNX Runtime held against the integer specification on every input that an operator can meet.

QuantizeLinear gets every float32 there is.  The end of QGemm, behind the accumulator, gets every accumulator within
the bounds of its column: the model's own node is fed with its input zero point, so that all products are 0, and the
accumulators in place of its bias (specs/qgemm.md, section 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np
import onnx
from onnx import TensorProto, helper

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.model.onnx_runtime import sessions
from harness.model.onnx_runtime.sessions import takes_precision
from harness.operators import Network, QGemm, QuantizeLinear, specification, steps
from harness.operators.steps import StepFunction, Sweep

VALUES_AT_ONCE = 1 << 19
CODES_AT_ONCE = 1 << 25
"""Of QGemm's input, which says nothing but has to be there."""
BIAS = 6  # the position of QGemm's C

Node = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Trial:
    """One layer's sweep through ONNX Runtime, and the staircases that its outputs must be; none for floats."""

    layer: QuantizeLinear | QGemm
    sweep: Sweep
    staircases: Sequence[StepFunction] | None

    @classmethod
    def of(cls, layer: QuantizeLinear | QGemm) -> Trial:
        """All that the layer can meet."""
        if isinstance(layer, QuantizeLinear):
            return cls(layer, sweep(layer), [steps.of_floats(layer)])
        return cls(layer, sweep(layer), None if layer.dtype == np.float32 else steps.of_accumulators(layer))


def sweep(layer: QuantizeLinear | QGemm) -> Sweep:
    """Every input of QuantizeLinear in one column; every accumulator of QGemm within its bounds."""
    return steps.float_sweep(1) if isinstance(layer, QuantizeLinear) else steps.accumulator_sweep(layer)


def confirm(network: Network, layer: QuantizeLinear | QGemm, abandoned: Event) -> None:
    """Raise ReferenceFailed at the first case, of all there are, in which ONNX Runtime and the specification differ.

    Also as soon as it is `abandoned`: nobody wants to know any more.
    """
    trial = Trial.of(layer)
    node = _node(network, layer)
    length = max(min(VALUES_AT_ONCE // layer.width, CODES_AT_ONCE // layer.input_width), 1)
    for part in _parts(trial.sweep, length):
        if abandoned.is_set():
            raise ReferenceFailed(f"layer {layer.name!r} was not tried to the end")
        _confirm_part(trial, node, part)


def _parts(sweep: Sweep, length: int) -> Iterator[Sweep]:
    for first in range(0, sweep.vectors, length):
        yield Sweep(sweep.start + first, np.clip(sweep.count - first, 0, length))


def _confirm_part(trial: Trial, node: Node, part: Sweep) -> None:
    values = part.values()
    outputs = node(values)
    if trial.staircases:
        wanted, found = steps.expected(trial.staircases, part), part.within(steps.of_outputs(outputs))
        different = steps.first_difference(wanted, found)
    else:
        different = _first_float_difference(trial.layer, values, outputs, part)
    if different:
        column, vector = different
        raise ReferenceFailed(
            f"layer {trial.layer.name!r}, column {column}, input {part.start[column] + vector}: ONNX Runtime "
            f"says {outputs[vector, column]}, the integer specification something else",
            "the reference cannot be trusted here: use another machine or version of ONNX Runtime, and report it",
        )


def _first_float_difference(
    layer: QuantizeLinear | QGemm, accumulators: Array, outputs: Array, part: Sweep
) -> tuple[int, int] | None:
    assert isinstance(layer, QGemm)  # noqa: S101 - QuantizeLinear has codes
    wanted = specification.float_bits(accumulators.view(np.int32).astype(np.int64), layer.multiplier)
    swept = np.arange(part.vectors)[:, None] < part.count
    vectors, columns = np.nonzero((wanted != outputs.view(np.uint32)) & swept)
    return (int(columns[0]), int(vectors[0])) if len(vectors) else None


def _node(network: Network, layer: QuantizeLinear | QGemm) -> Node:
    """The layer's own node in ONNX Runtime, from uint32 (n, N) bits of its inputs or accumulators to its outputs."""
    # Without the option, products of zero points saturate, too: of 130 and above with weights of 127.
    precise = takes_precision(network, x64_quant_precision=True)
    session = sessions.session(_alone(network, layer).SerializeToString(), threads=1, x64_quant_precision=precise)

    def run(bits: Array) -> Array:
        if isinstance(layer, QGemm):
            nothing = np.full((len(bits), layer.input_width), layer.a_zero_point, layer.input_dtype)
            outputs = session.run(None, {INPUT: nothing, ACCUMULATORS: bits.view(np.int32)})
        else:
            outputs = session.run(None, {INPUT: bits.view(np.float32)})
        output: Array = outputs[0]
        return output

    return run


INPUT, ACCUMULATORS = "proof/input", "proof/accumulators"


def _alone(network: Network, layer: QuantizeLinear | QGemm) -> onnx.ModelProto:
    """The model with this one node and the constants."""
    model = onnx.load_model_from_string(network.onnx_bytes)
    graph = model.graph
    node = next(node for node in graph.node if layer.output in node.output)
    constants = [other for other in graph.node if other.op_type == "Constant"]
    element_type = helper.np_dtype_to_tensor_dtype(layer.input_dtype)
    inputs = [helper.make_tensor_value_info(INPUT, element_type, [None, None])]
    node.input[0] = INPUT
    if isinstance(layer, QGemm):
        node.input.extend([""] * (BIAS + 1 - len(node.input)))
        node.input[BIAS] = ACCUMULATORS
        inputs.append(helper.make_tensor_value_info(ACCUMULATORS, TensorProto.INT32, [None, None]))
    output = helper.make_tensor_value_info(layer.output, helper.np_dtype_to_tensor_dtype(layer.dtype), [None, None])
    alone = helper.make_graph([*constants, node], "proof", inputs, [output], list(graph.initializer))
    return helper.make_model(alone, opset_imports=list(model.opset_import), ir_version=model.ir_version)
