"""Operators of this project's own domain that read a table."""

from __future__ import annotations

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader, no_constants


def _levels(node: Node) -> Constants:
    """Read CellUnion: the positions, the cells of each, then the levels of the diagram."""
    tables = [value for value in node.inputs if value is not None]
    return {"table_cells": tables[0]} | {f"table_{axis}": level for axis, level in enumerate(tables[1:])}


def _table(node: Node) -> Constants:
    """Read Position or CheckPositions: the positions."""
    return {"table": np.asarray(node.inputs[1])}


READERS: dict[str, Reader] = {
    "CellUnion": _levels,
    "CheckPositions": _table,
    "HybridSelect": no_constants,
    "Position": _table,
}
