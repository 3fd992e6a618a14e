"""Functions of two codes: their operands, and the table of all pairs."""

from __future__ import annotations

import numpy as np

from harness.model.standard.form import Form
from harness.operators.code_pairs import CodePairs

CODES = 256


def operands(layer: CodePairs, form: Form) -> tuple[str, str]:
    """Return the names of a and b: activations, or the constant."""
    activations = [source.name for source in layer.inputs]
    if layer.operand is not None:
        constant = form.constant(layer.operand.reshape(layer.output.shape), "operand")
        activations.insert(0 if layer.constant_first else 1, constant)
    first, second = activations
    return first, second


def look_up(layer: CodePairs, form: Form) -> None:
    """Add the specification's code of each pair, which an engine does not compute itself."""
    a, b = (form.numbers(operand) for operand in operands(layer, form))
    rows = form.add("Mul", a, form.constant(np.int32(CODES), "codes"))
    form.entries(layer.table(), form.add("Add", rows, b))
