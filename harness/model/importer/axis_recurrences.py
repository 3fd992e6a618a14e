"""LSTM, GRU and RNN behind a new axis of vectors, as the operators of domain harness; see `axis_rules`.

ONNX's operators have the steps at the first axis of X and their own batch at the second: one vector is a batch of 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.model.importer.rewriting import Rewriting, attribute
from harness.operators.onnx_function import DOMAIN

STATES = {"LSTM": "hc", "GRU": "h", "RNN": "h"}
DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}
ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
LENGTHS, FIRST_STATE, PEEPHOLES = 4, 5, 7


def recurrence(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write one layer for each direction; outputs join the directions."""
    steps, batch, _ = to.shapes[node.input[0]]
    directions = DIRECTIONS[attribute(node, "direction", b"forward").decode()]
    _require_supported(to, node, batch, len(directions))
    source = to.form(node.input[0], (steps, to.shapes[node.input[0]][2]))
    hidden = to.required_values(node, 2).shape[2]
    layers = [_layer(to, node, source, number, direction) for number, direction in enumerate(directions)]
    outputs = [*node.output, "", ""]
    if outputs[0]:
        _join(to, node, outputs[0], layers, (steps, 1, hidden))
    if outputs[1]:
        ends = [steps - 1 if direction == "forward" else 0 for direction in directions]
        states = [_state_after(to, node, layer, end) for layer, end in zip(layers, ends, strict=True)]
        _join(to, node, outputs[1], states, (1, hidden))


def _require_supported(to: Rewriting, node: onnx.NodeProto, batch: int, directions: int) -> None:
    """Refuse what the operators of domain harness do not compute."""
    names = [value.decode() for value in attribute(node, "activations", [])]
    read = {name for other in to.graph.node for name in other.input} | {value.name for value in to.graph.output}
    optional = [*node.input, *[""] * PEEPHOLES, ""]
    problems = {
        f"its batch has {batch} places in one vector; a batch of 1": batch != 1,
        "layout is 1; layout 0": attribute(node, "layout", 0) != 0,
        "sequence_lens is given; no lengths, all steps": bool(optional[LENGTHS]),
        "P, peepholes, is given; no peepholes": node.op_type == "LSTM" and bool(optional[PEEPHOLES]),
        f"the activations are {names}; {ACTIVATIONS[node.op_type]}": names not in (
            [], ACTIVATIONS[node.op_type] * directions),
        "clip is given; no clip": attribute(node, "clip", None) is not None,
        "input_forget is 1; input_forget 0": attribute(node, "input_forget", 0) != 0,
        "Y_c is read; only Y and Y_h": len(node.output) > 2 and node.output[2] in read - {""},
    }  # fmt: skip
    for problem in (text for text, is_problem in problems.items() if is_problem):
        reason, _, accepted = problem.partition("; ")
        raise to.refusal(node, reason, accepted)


def _layer(to: Rewriting, node: onnx.NodeProto, source: str, number: int, direction: str) -> str:
    """Return the states after all steps of one direction, (steps, hidden)."""
    w, r = (to.required_values(node, position)[number] for position in (1, 2))
    b = to.values(node, 3) if len(node.input) > 3 and node.input[3] else None
    biases = np.zeros(2 * len(w), np.float32) if b is None else b[number]
    constants = [to.constant(values, f"{node.name}/{role}", np.float32)
                 for role, values in (("W", w), ("R", r), ("B", biases))]  # fmt: skip
    states = [_initial(to, node, FIRST_STATE + place, number, r.shape[1]) for place in range(len(STATES[node.op_type]))]
    attributes: dict[str, Any] = {"hidden_size": r.shape[1], "direction": direction}
    if node.op_type == "GRU":
        attributes["linear_before_reset"] = int(attribute(node, "linear_before_reset", 0))
    name = to.free_name(f"{node.name}/{direction}")
    to.nodes.append(
        helper.make_node(node.op_type, [source, *constants, *states], [name], name, domain=DOMAIN, **attributes)
    )
    return name


def _initial(to: Rewriting, node: onnx.NodeProto, position: int, number: int, hidden: int) -> str:
    """Return the initial state of a direction, a constant (1, hidden) or an activation."""
    tensor = node.input[position] if position < len(node.input) else ""
    if not tensor or not to.is_activation(tensor):
        values = np.zeros((1, hidden), np.float32) if not tensor else to.required_values(node, position)[number]
        return to.constant(values, f"{node.name}/state", np.float32)
    directions = to.shapes[tensor][0]
    if directions == 1:
        return to.form(tensor, (hidden,))
    place = to.constant(number, f"{node.name}/direction")
    return to.add("Gather", [to.form(tensor, (directions, hidden)), place], f"{node.name}/initial", axis=1)


def _state_after(to: Rewriting, node: onnx.NodeProto, layer: str, step: int) -> str:
    return to.add("Gather", [layer, to.constant(step, f"{node.name}/step")], f"{node.name}/last", axis=1)


def _join(to: Rewriting, node: onnx.NodeProto, output: str, parts: list[str], shape: tuple[int, ...]) -> None:
    """Write an output with the values of all directions side by side; `shape` is that of one direction."""
    if len(parts) == 1:
        joined = parts[0]
        form = (*shape[:-2], shape[-1])
    else:
        sizes = to.constant([0, *shape], f"{node.name}/shape")
        reshaped = [to.add("Reshape", [part, sizes], f"{node.name}/part") for part in parts]
        joined = to.add("Concat", reshaped, f"{node.name}/joined", axis=len(shape) - 1)
        form = (*shape[:-2], len(parts), shape[-1])
    to.forms[output] = {form: joined}
