"""LSTM, GRU and RNN behind a new axis of vectors; see `axis_rules`.

ONNX's operators have the steps at the first axis of X and their own batch at the second.  Each sequence of the batch
and each direction is one layer of domain harness; other activations, clip, peepholes and Y_c are steps of standard
operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.model.importer.cells import DEFAULTS, Activation, Cell, Operand, activations
from harness.model.importer.replacement import Shape, attribute
from harness.model.importer.rewriting import Rewriting
from harness.operators.onnx_function import DOMAIN

STATES = {"LSTM": "hc", "GRU": "h", "RNN": "h"}
DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}
LENGTHS, FIRST_STATE, PEEPHOLES = 4, 5, 7
MOST_STEPS = 64
"""Steps that are written as layers of their own, of all sequences and directions of a node."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """The sequences of a node: the steps of each, and the directions."""

    to: Rewriting
    node: onnx.NodeProto
    steps: int
    lengths: tuple[int, ...]
    directions: tuple[str, ...]
    activations: Sequence[Activation]

    @property
    def is_standard(self) -> bool:
        """Return whether the operators of domain harness compute the node."""
        node, read = self.node, {name for other in self.to.graph.node for name in other.input}
        read |= {value.name for value in self.to.graph.output}
        reads_cells = len(node.output) > 2 and node.output[2] in read - {""}
        names = [activation.name for activation in self.activations]
        is_default = names == [*DEFAULTS[node.op_type]] * len(self.directions) and not attribute(node, "clip", 0.0)
        return is_default and not reads_cells and not _has(node, PEEPHOLES)


def recurrence(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write the layers of each direction and sequence; outputs join them."""
    sequences = _sequences(to, node)
    parts = [[_states(sequences, number, place) for place in range(len(sequences.lengths))]
             for number in range(len(sequences.directions))]  # fmt: skip
    for position, output in enumerate(node.output):
        if output and all(len(part) > position for row in parts for part in row):
            lead = () if position else (sequences.steps,)
            _join(to, output, [[part[position] for part in row] for row in parts], lead)


def _has(node: onnx.NodeProto, position: int) -> bool:
    return position < len(node.input) and bool(node.input[position])


def _sequences(to: Rewriting, node: onnx.NodeProto) -> Sequences:
    """Return the sequences; raise RequestError for what ONNX leaves open, and for too many steps."""
    steps, batch, _ = to.shapes[node.input[0]]
    directions = DIRECTIONS[attribute(node, "direction", b"forward").decode()]
    lengths = np.full(batch, steps) if not _has(node, LENGTHS) else to.required_values(node, LENGTHS)
    if attribute(node, "input_forget", 0):
        raise to.refusal(node, "input_forget is 1, whose equation ONNX does not state", "input_forget 0")
    if node.op_type == "LSTM" and attribute(node, "clip", 0.0):
        raise to.refusal(node, "clip of an LSTM: ONNX clips the argument of h too, ONNX Runtime does not", "no clip")
    if lengths.shape != (batch,) or not ((lengths >= 1) & (lengths <= steps)).all():
        raise to.refusal(node, f"sequence_lens are {lengths.tolist()}", f"{batch} numbers from 1 to {steps}")
    sequences = Sequences(to, node, steps, tuple(map(int, lengths)), directions, activations(to, node, len(directions)))
    count = int(lengths.sum()) * len(directions)
    if not sequences.is_standard and count > MOST_STEPS:
        raise to.refusal(
            node,
            f"has {count} steps, and other activations than the default, clip, P (peepholes), or Y_c that is read",
            f"at most {MOST_STEPS} steps of all sequences, or the default activations, no clip, no P, and no Y_c",
        )
    return sequences


def _states(sequences: Sequences, number: int, place: int) -> list[str]:
    """Return Y (vectors, steps, hidden) of a direction and a sequence, its last h, and its last c if it has steps."""
    to, length = sequences.to, sequences.lengths[place]
    write = _layer if sequences.is_standard else _steps
    values, *last = write(sequences, number, place, _source(sequences, place))
    if length < sequences.steps:
        pads = to.constant([0, 0, 0, 0, sequences.steps - length, 0])
        values = to.add("Pad", [values, pads])
    return [values, *last]


def _source(sequences: Sequences, place: int) -> str:
    """Return the steps of a sequence, (vectors, length, inputs)."""
    to, node, length = sequences.to, sequences.node, sequences.lengths[place]
    steps, batch, inputs = to.shapes[node.input[0]]
    if batch == 1:
        source = to.form(node.input[0], (steps, inputs))
    else:
        source = _taken(to, to.form(node.input[0]), place, axis=2)
    if length == steps:
        return source
    return to.add("Slice", [source, *(to.constant([value]) for value in (0, length, 1))])


def _taken(to: Rewriting, tensor: str, place: int, axis: int = 1) -> str:
    return to.add("Gather", [tensor, to.constant(place)], axis=axis)


def _weights(sequences: Sequences, number: int) -> tuple[Array, Array, Array]:
    """Return W, R and B of a direction; B is 0 if it is not stated."""
    to, node = sequences.to, sequences.node
    w, r = (to.required_values(node, position)[number] for position in (1, 2))
    return w, r, to.required_values(node, 3)[number] if _has(node, 3) else np.zeros(2 * len(w), np.float32)


def _layer(sequences: Sequences, number: int, place: int, source: str) -> list[str]:
    """Return the states of a layer of domain harness after all steps, and after the last one."""
    to, node, direction = sequences.to, sequences.node, sequences.directions[number]
    w, r, biases = _weights(sequences, number)
    constants = [to.constant(values, np.float32) for values in (w, r, biases)]
    states = [value if isinstance(value, str) else to.constant(value.reshape(1, -1), np.float32)
              for value in _initial(sequences, number, place)]  # fmt: skip
    attributes: dict[str, Any] = {"hidden_size": r.shape[1], "direction": direction}
    if node.op_type == "GRU":
        attributes["linear_before_reset"] = int(attribute(node, "linear_before_reset", 0))
    name = to.add(node.op_type, [source, *constants, *states], domain=DOMAIN, **attributes)
    end = sequences.lengths[place] - 1 if direction == "forward" else 0
    return [name, _taken(to, name, end)]


def _steps(sequences: Sequences, number: int, place: int, source: str) -> list[str]:
    """Return h after all steps, and all states after the last one, as layers for each step."""
    to, node, direction = sequences.to, sequences.node, sequences.directions[number]
    w, r, biases = _weights(sequences, number)
    hidden = r.shape[1]
    gates, per_direction = len(w) // hidden, len(DEFAULTS[node.op_type])
    cell = Cell(
        to,
        node,
        w.reshape(gates, hidden, -1),
        r.reshape(gates, hidden, hidden),
        biases.reshape(2, gates, hidden),
        to.required_values(node, PEEPHOLES)[number].reshape(3, hidden) if _has(node, PEEPHOLES) else np.zeros((3, 1)),
        sequences.activations[number * per_direction :][:per_direction],
        attribute(node, "clip", 0.0),
    )
    states: list[Operand] = list(_initial(sequences, number, place))
    order = range(sequences.lengths[place])
    after: dict[int, str] = {}
    for step in order if direction == "forward" else reversed(order):
        states = cell.step(_taken(to, source, step), states)
        after[step] = str(states[0])
    sizes = to.constant([0, 1, hidden])
    rows = [to.add("Reshape", [after[step], sizes]) for step in order]
    return [to.add("Concat", rows, axis=1) if len(rows) > 1 else rows[0], *map(str, states)]


def _initial(sequences: Sequences, number: int, place: int) -> Iterator[Operand]:
    """Yield the initial states of a direction and a sequence."""
    to, node = sequences.to, sequences.node
    hidden = to.required_values(node, 2).shape[2]
    for position in range(FIRST_STATE, FIRST_STATE + len(STATES[node.op_type])):
        tensor = node.input[position] if _has(node, position) else ""
        if not tensor or not to.is_activation(tensor):
            yield to.required_values(node, position)[number, place] if tensor else np.zeros(hidden, np.float32)
            continue
        directions, batch, _ = to.shapes[tensor]
        if directions * batch == 1:
            yield to.form(tensor, (hidden,))
        else:
            yield _taken(to, to.form(tensor, (directions * batch, hidden)), number * batch + place)


def _join(to: Rewriting, output: str, parts: Sequence[Sequence[str]], lead: Shape) -> None:
    """Write an output of the parts of directions and sequences, which are (vectors, *lead, hidden)."""
    hidden = to.shapes[output][-1]
    if len(parts) * len(parts[0]) == 1:
        to.forms[output] = {(*lead, hidden): parts[0][0]}
        return
    sizes = to.constant([0, *lead, 1, 1, hidden])
    rows = []
    for row in parts:
        reshaped = [to.add("Reshape", [part, sizes]) for part in row]
        rows.append(_concat(to, reshaped, len(lead) + 2))
    to.forms[output] = {(*lead, len(parts), len(parts[0]), hidden): _concat(to, rows, len(lead) + 1)}


def _concat(to: Rewriting, parts: list[str], axis: int) -> str:
    return to.add("Concat", parts, axis=axis) if len(parts) > 1 else parts[0]
