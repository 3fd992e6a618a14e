"""Step 1: the bits of every constant on the board follow from the bytes of the model's file.

A multiplier wrong by one in its last place changes nothing at any reachable accumulator of every second layer, so that
no run could find it: it is compared as bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from harness.analysis import compare
from harness.analysis.proof import expected_tables
from harness.analysis.proof.claims import Note, Question, Side
from harness.analysis.proof.independent import file
from harness.analysis.proof.independent.node import Node
from harness.core.arrays import Array
from harness.execution import dumps
from harness.execution.probe import Probe
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.obligations import ProofStep
from harness.operators.region import Region
from harness.targets import LayerCode, Table

DERIVED = (
    "the onnx package reads the file once more; for each place of each table a formula of the table's layout gives the "
    "constant that must stand there, or the 0 that fills it up; the tables are read from the program's memory, after "
    "its items' init, and compared as bits; a table too many or too few is a difference"
)


ROLES = {
    "input_zero_point": "a_zero_point",
    "output_zero_point": "y_zero_point",
    "input_step": "a_scale",
    "output_step": "y_scale",
    "last": "select_last_index",
}
"""Names in `Node.constants` that differ from the roles of `Layer.constants`."""

IN_SUMS = dict.fromkeys(("input_zero_point", "weights_zero_point"), ProofStep.ACCUMULATION)
"""Constants of a contraction that its sums read, and the step that shows them where they are in instructions."""


def questions(
    network: Network,
    parts: Sequence[Layer],
    codes: Sequence[LayerCode],
    probe: Probe | None,
    regions: Sequence[Region] = (),
) -> Iterator[Question]:
    """Yield the questions about constants: those in the program's tables and those that the specification uses.

    `parts` are whole layers, or parts of them, each with the code of its target; `regions` are the columns that they
    compute, by default side by side.
    """
    nodes = file.nodes(network.onnx_bytes)
    yield Question(
        ProofStep.CONSTANTS,
        Side.BOARD,
        None,
        "every table of the deployed program holds what follows from the model's file, bit for bit, and every constant "
        "of the file is in one of them" + _exceptions(nodes, parts, codes),
        DERIVED,
        sum(table.values.size for code in codes for table in code.tables),
        complete=True,
        answer=lambda note: wrong_table(nodes, parts, codes, probe, note, regions),
    )
    yield Question(
        ProofStep.CONSTANTS,
        Side.REFERENCE,
        None,
        "the specification computes with the constants of the model's file, each multiplier among them "
        "((alpha * a_scale) * b_scale[n]) / y_scale, rounded to float32 after each operation",
        "the onnx package reads the file once more; multipliers are computed in integer arithmetic; all are compared "
        "as bits",
        sum(values.size for node in nodes.values() for values in node.constants.values()),
        complete=True,
        answer=lambda _: _wrong_constant(network.layers, nodes),
    )


def _exceptions(nodes: Mapping[str, Node], parts: Sequence[Layer], codes: Sequence[LayerCode]) -> str:
    """Describe the constants that are part of instructions, and the steps that show them."""
    found = {
        f"{name} of {node.operator} ('{(IN_SUMS.get(name) or part.rounded.step).value}')": None
        for part, code in zip(parts, codes, strict=True)
        for node in [nodes[part.output.name]]
        for name in expected_tables.in_instructions(node, code.target)
    }
    return f"; but these are in instructions, and other claims show them: {', '.join(found)}" if found else ""


def wrong_table(
    nodes: Mapping[str, Node],
    parts: Sequence[Layer],
    codes: Sequence[LayerCode],
    probe: Probe | None,
    note: Note,
    regions: Sequence[Region] = (),
) -> str:
    """Describe the first table that does not follow from the model; without a probe, of the generated tables."""
    tables = [table for code in codes for table in code.tables]
    expected: dict[str, Array] = {}
    columns = regions or expected_tables.columns_of([(part.output.name, part.size) for part in parts])
    for part, code, region in zip(parts, codes, columns, strict=True):
        of_part = expected_tables.of_part(nodes[part.output.name].columns(region), part.name, code.target)
        if of_part is None:
            return (
                f"the tables of target {code.target} are not derived from the model: RULES in "
                "harness/analysis/proof/expected_tables.py has no rule for it, only for "
                f"{', '.join(expected_tables.RULES)}"
            )
        expected |= of_part
    wrong = _wrong_names([table.name for table in tables], expected) or _left_out(nodes, parts)
    if wrong:
        return wrong
    held = probe.tables(tables) if probe else [np.atleast_2d(table.values) for table in tables]
    return next(
        filter(None, (difference(*pair, expected[pair[0].name], note) for pair in zip(tables, held, strict=True))), ""
    )


def _wrong_names(names: Sequence[str], expected: Mapping[str, Array]) -> str:
    for name, count in Counter(names).items():
        if name not in expected:
            return f"table {name} is not derived from the model"
        if count > 1:
            return f"{count} tables are called {name}"
    missing = [name for name in expected if name not in names]
    return f"there is no table {missing[0]}: what it must hold of the model is nowhere" if missing else ""


def _left_out(nodes: Mapping[str, Node], parts: Sequence[Layer]) -> str:
    """Describe the node whose columns are not all computed."""
    computed = Counter[str]()
    for part in parts:
        computed[part.output.name] += part.size
    for output, node in nodes.items():
        if computed[output] != node.width:
            return f"{computed[output]} columns of tensor {output} are computed, the model has {node.width}"
    return ""


def difference(table: Table, held: Array, right: Array, note: Note) -> str:
    """Describe the first place at which the program's table, (rows, columns), has a wrong value."""
    right = np.atleast_2d(right)
    if (held.dtype, held.shape) != (right.dtype, right.shape):
        return f"table {table.name} is {held.dtype} {held.shape}, the model makes it {right.dtype} {right.shape}"
    wanted, found = compare.bits(right), compare.bits(held)
    rows, columns = np.nonzero(wanted != found)
    if not len(rows):
        note(dumps.sha256(held))
        return ""
    at, digits = (rows[0], columns[0]), 2 * held.dtype.itemsize + 2
    agrees = np.array_equal(found, compare.bits(np.atleast_2d(table.values)))
    return (
        f"table {table.name}[{at[0]}][{at[1]}] holds {found[at]:#0{digits}x}, the model says "
        f"{wanted[at]:#0{digits}x} ({len(rows)} of {held.size} values differ)"
        + ("; its target generated it so" if agrees else "")
    )


def _wrong_constant(layers: Sequence[Layer], nodes: Mapping[str, Node]) -> str:
    """Describe the first constant of the specification that differs from the file's."""
    if [layer.output.name for layer in layers] != list(nodes):
        return (
            f"the layers write {', '.join(layer.output.name for layer in layers)}, the file's nodes {', '.join(nodes)}"
        )
    for layer, node in zip(layers, nodes.values(), strict=True):
        for field, used in _description(layer).items():
            if used != getattr(node, field):
                return f"layer {layer.name}: {field} is {used}, the file says {getattr(node, field)}"
        used_constants = layer.constants()
        for name, right in node.constants.items():
            used = used_constants.get(ROLES.get(name, name))
            if used is None:
                return f"layer {layer.name}: {name} is not among its constants"
            values = np.atleast_1d(np.asarray(used))
            if right.shape != values.shape:
                return f"layer {layer.name}: {name} has the shape {values.shape}, the file says {right.shape}"
            different = np.argwhere(compare.bits(values.astype(right.dtype)) != compare.bits(right))
            if len(different):
                at = tuple(different[0])
                return f"layer {layer.name}: {name}{[*map(int, at)]} is {values[at]!s}, the file says {right[at]!s}"
    return ""


def _description(layer: Layer) -> dict[str, Any]:
    """Return the specification's description of a layer, by the fields of `Node`."""
    return {
        "operator": layer.operator,
        "sources": layer.sources,
        "input_width": layer.input.size,
        "input_dtype": layer.input.dtype,
        "width": layer.size,
        "dtype": layer.dtype,
    }
