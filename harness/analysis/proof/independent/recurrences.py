"""Recurrent operators of domain harness, with the vectors in front."""

from __future__ import annotations

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader


def _of_gates(states: str) -> Reader:
    """Read X, W, R, B and the initial states.

    The weights of a gate are transposed, the biases of W and R added; initial states of 0 are no constants.
    """

    def read(node: Node) -> Constants:
        w, r, b = (np.asarray(value) for value in node.inputs[1:4])
        of_input, of_state = b.reshape(2, -1, r.shape[1])
        if node.attributes.get("linear_before_reset"):  # the last gate has both biases
            biases = np.concatenate([(of_input + of_state)[:-1], of_input[-1:], of_state[-1:]])
        else:
            biases = of_input + of_state
        starts = {f"{state}0": value for state, value in zip(states, node.inputs[4:], strict=False)}
        w, r = (np.concatenate([gate.T.ravel() for gate in np.split(rows, len(of_input))]) for rows in (w, r))
        constants = {"w": w, "r": r, "b": biases} | {
            name: value for name, value in starts.items() if value is not None and value.any()
        }
        return {name: values.reshape(-1) for name, values in constants.items()}

    return read


def _of_steps(states: str) -> Reader:
    """Read the same of a stream: the numbers of two states, and the first states, which are constants."""

    def read(node: Node) -> Constants:
        first = [np.asarray(value).reshape(-1) for value in node.inputs[4:] if value is not None]
        numbers = {"number": np.array([0, 1], np.float32)} if len(states) == 2 else {}
        weights = {role: values for role, values in _of_gates("")(node).items() if role in ("w", "r", "b")}
        return {**weights, **numbers, "first": np.concatenate(first)}

    return read


STATES = {"GRU": "h", "LSTM": "hc", "RNN": "h"}
READERS: dict[str, Reader] = {
    **{operator: _of_gates(states) for operator, states in STATES.items()},
    **{f"{operator}Steps": _of_steps(states) for operator, states in STATES.items()},
}
