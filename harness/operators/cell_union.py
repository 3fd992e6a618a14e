"""CellUnion (harness): the union of the sets of all cells of a grid that contain a point, uint8 -> int64.

side(k, s) = cells[2 k + s, x[k]]                      the lower (s = 0) and the upper (s = 1) cell of axis k
y = union over all s of level_K-1[ ... level_1[level_0[0, side(0, s0)], side(1, s1)] ... , side(K-1, sK-1)]

A point inside a cell has the same cell on both sides; a point on a border has two.  The levels are a decision diagram
of several values (MDD): equal parts of the grid are stored once, and each look-up reads K entries, whatever the point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx

from harness.core.arrays import Array
from harness.operators import onnx_function
from harness.operators.base import Constants, Evaluate, fields
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, computed
from harness.operators.rules import Rules
from harness.operators.tensor import INT64, UINT8
from harness.operators.text import Fragment, Text

CODES = 256
MOST_AXES = 8
UINT16, UINT32 = np.dtype(np.uint16), np.dtype(np.uint32)
ALL_CELLS = 1 << 24
"""Cells up to which a proof passes a point of each through the code."""
RANDOM_POINTS = 1 << 20
AT_ONCE = 1 << 20


def _fragment(axes: int) -> Fragment:
    levels = "".join(f"    level_{axis}: tensor<integer>,             # (nodes, cells)\n" for axis in range(axes))
    return Fragment(
        f"cell_union_{axes}",
        121 + axes,
        f"""\
# The union of the sets of all cells that contain a point, by a decision diagram with a level for each axis.
fragment cell_union_{axes}(
    x: tensor<scalar>,                      # uint8 (vectors, N): positions, of which the first are those of the axes
    cells: tensor<integer>,                 # uint8 (2 axes, 256): lower and upper cell of each position
{levels}    type: string)
-> (y: tensor<scalar>);
""",
        columns=1,
    )


FRAGMENTS = tuple(_fragment(axes) for axes in range(1, MOST_AXES + 1))


@dataclass(frozen=True, eq=False)
class CellUnion(onnx_function.Hybrid):
    """The sets of the cells of a point; `cells` is uint8 (2 axes, 256), `levels` have a row for each node."""

    ONNX = ((onnx_function.DOMAIN, "CellUnion"),)
    text = Text(
        "y = union of the sets of all cells that contain x, which is on a border of up to two cells on each axis",
        fragments=FRAGMENTS,
        role_of=lambda position: ("x", "cells", f"level {position - 2}")[min(position, 2)],
        chosen=lambda layer: len(layer.levels) - 1,
        facts_of=lambda layer: {"nodes": [len(level) for level in layer.levels], "cells": [*layer.shape]},
        summary_of=lambda layer: (f"{math.prod(layer.shape):,} cells in {layer.nbytes:,} bytes",),
    )

    cells: npt.NDArray[np.uint8]
    levels: tuple[npt.NDArray[np.unsignedinteger[Any]], ...]

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto | None:
        """Return the ONNX function for `inputs` - 2 axes."""
        levels = [f"level_{axis}" for axis in range(inputs - 2)]
        return onnx_function.function("CellUnion", ["x", "cells", *levels], _body(len(levels)), opset)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State two rows of 256 cells for each level, and one int64 set for each vector."""
        cells, levels = node.input(1), node.given_inputs[2:]
        node.is_type(node.x, np.uint8).is_type(cells, np.uint8).is_type(node.y, np.int64)
        node.all_equal(node.x.rank, cells.rank, node.y.rank, *(each.rank for each in levels), 2)
        node.equals(cells.size(0), 2 * len(levels)).equals(cells.size(1), CODES)
        node.equals(node.x.size(0), node.y.size(0)).equals(node.y.size(1), 1)
        if levels:
            node.equals(levels[0].size(0), 1).is_type(levels[-1], np.uint8)

        def widths(numbers: Array) -> None:
            for axis, level in enumerate(levels):
                node.equals(level.size(1), 1 + int(numbers[2 * axis : 2 * axis + 2].max(initial=0)))

        node.given(cells.value).then(widths)
        for level, following in itertools.pairwise(levels):
            node.given(level.value).then(lambda nodes, last=following: node.equals(last.size(0), 1 + int(nodes.max())))

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose levels lead from one node to sets."""
        node.require_inputs(3, 2 + MOST_AXES)
        node.attributes({})
        source = node.vector(0, [UINT8])
        axes = len(node.inputs) - 2
        cells = node.constant(1, "cells", [UINT8])
        if axes > source.size or cells.shape != (2 * axes, CODES):
            raise node.refusal(
                f"{axes} levels, cells of shape {cells.shape}, {source.size} positions",
                f"cells ({2 * axes}, {CODES}), and a level for each position or fewer",
            )
        levels = tuple(
            node.constant(2 + axis, f"level {axis}", [UINT8] if axis == axes - 1 else [UINT16, UINT32])
            for axis in range(axes)
        )
        _require_diagram(node, cells, levels)
        return cls(**fields(node, [source], (1,), INT64), cells=cells, levels=levels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells of each axis."""
        return tuple(level.shape[1] for level in self.levels)

    @property
    def nbytes(self) -> int:
        """The bytes of the levels."""
        return sum(level.nbytes for level in self.levels)

    def constants(self) -> Constants:
        """Return the cells of positions, and the levels."""
        return {"table_cells": self.cells} | {f"table_{axis}": level for axis, level in enumerate(self.levels)}

    def prepare(self) -> Evaluate:
        """Return the function that follows the diagram from both cells of each axis."""
        return lambda x: self._union(x, (0, 1))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield a point inside each cell, all positions of each axis, and random positions."""
        count, evaluate = math.prod(self.shape), self.prepare()
        complete = count <= ALL_CELLS
        chosen = "every cell" if complete else f"{RANDOM_POINTS:,} random cells"
        yield computed(
            "the set of a cell is found for a point inside it",
            f"a point inside {chosen} of {count:,}{'' if complete else '; not complete'}",
            count if complete else RANDOM_POINTS,
            Outputs(self._inside if complete else self._some_inside, evaluate),
            complete=complete,
        )
        borders = list(self._borders())
        yield computed(
            "the sets of all cells that meet at a point are united",
            f"all 256 positions of each axis with random positions of the others, and all combinations of borders and "
            f"random cells: {sum(map(len, borders)):,} points; not complete",
            sum(map(len, borders)),
            Outputs(lambda: borders, evaluate),
            complete=False,
        )

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that an axis is looked up alike for all others."""
        yield (
            "CellUnion looks up the lower and the upper cell of each axis by its position alone: points inside the "
            "cells and points on borders were tried, but not all combinations of borders."
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield points on a border that belong to one cell only."""
        [x] = inputs
        for side, name in enumerate(("lower", "upper")):
            yield FaultModel(f"a border belongs to the {name} cell only", "to both", self._union(x, (side,)))

    def _union(self, x: Array, sides: Sequence[int]) -> Array:
        """Follow the diagram from these sides of each axis; both sides only for points that are on a border there."""
        places = [self.cells[2 * axis : 2 * axis + 2][:, x[:, axis]] for axis in range(len(self.levels))]
        found = np.zeros(len(x), np.int64)
        for of_axes in itertools.product(sides, repeat=len(self.levels)):
            two = [lower != upper for side, (lower, upper) in zip(of_axes, places, strict=True) if side != sides[0]]
            rows = np.flatnonzero(np.logical_and.reduce(two)) if two else np.arange(len(x))
            node: Array = np.zeros(len(rows), np.intp)
            for side, of_axis, level in zip(of_axes, places, self.levels, strict=True):
                node = level[node, of_axis[side, rows]]
            found[rows] |= node
        return found[:, None]

    def _positions(self) -> list[npt.NDArray[np.uint8]]:
        """Return a position inside each cell of each axis: one with the cell on both sides."""
        found = []
        for axis, count in enumerate(self.shape):
            lower, upper = self.cells[2 * axis : 2 * axis + 2]
            inside = [np.flatnonzero((lower == cell) & (upper == cell)) for cell in range(count)]
            found.append(np.array([each[len(each) // 2] if len(each) else 0 for each in inside], np.uint8))
        return found

    def _points(self, numbers: npt.NDArray[np.int64]) -> Array:
        points = np.zeros((len(numbers), self.input.size), np.uint8)
        cells = np.unravel_index(numbers, self.shape)
        for axis, (positions, of_axis) in enumerate(zip(self._positions(), cells, strict=True)):
            points[:, axis] = positions[of_axis]
        return points

    def _inside(self) -> Iterator[Array]:
        count = math.prod(self.shape)
        for first in range(0, count, AT_ONCE):
            yield self._points(np.arange(first, min(first + AT_ONCE, count)))

    def _some_inside(self) -> Iterator[Array]:
        yield self._points(np.random.default_rng(0).integers(0, math.prod(self.shape), RANDOM_POINTS))

    def _borders(self) -> Iterator[Array]:
        """Yield every position of each axis with random others, and random points on every choice of borders."""
        rng, axes = np.random.default_rng(0), len(self.levels)
        last = [int(np.argmax(self.cells[2 * axis])) + 2 for axis in range(axes)]

        def random(count: int) -> Array:
            points = np.zeros((count, self.input.size), np.uint8)
            for axis in range(axes):
                points[:, axis] = rng.integers(0, last[axis] + 1, count)
            return points

        for axis in range(axes):
            points = random(CODES * 64)
            points[:, axis] = np.tile(np.arange(CODES), 64)
            yield points
        inside = self._points(rng.integers(0, math.prod(self.shape), 4096))
        for chosen in itertools.product((False, True), repeat=axes):
            points = inside.copy()
            for axis in (index for index, moved in enumerate(chosen) if moved):
                points[:, axis] = np.minimum(points[:, axis].astype(np.int64) + rng.choice([-1, 1], len(points)), 255)
            yield points
        yield random(RANDOM_POINTS // 4)


def _require_diagram(
    node: Node, cells: npt.NDArray[np.uint8], levels: Sequence[npt.NDArray[np.unsignedinteger[Any]]]
) -> None:
    for axis, level in enumerate(levels):
        if level.ndim != 2 or level.size == 0:
            raise node.refusal(f"level {axis} has shape {level.shape}", "(nodes, cells)")
        if cells[2 * axis : 2 * axis + 2].max() + 1 != level.shape[1]:
            raise node.refusal(f"level {axis} has {level.shape[1]} cells", "as many as the positions of its axis name")
    for axis, (level, following) in enumerate(itertools.pairwise(levels)):
        if int(level.max()) + 1 != len(following):
            raise node.refusal(f"level {axis} names node {level.max()} of {len(following)}", "all of the next level")
    if len(levels[0]) != 1:
        raise node.refusal(f"level 0 has {len(levels[0])} nodes", "one, where each look-up begins")


def _body(axes: int) -> str:
    """Return the function's body: both cells of each axis, then level by level the nodes of all combinations."""
    lines = [
        "positions = Cast <to = 7> (x)",
        "all_values = Constant <value_ints = [-1]> ()",
        "one = Constant <value_int = 1> ()",
        "axis_one = Constant <value_ints = [1]> ()",
        "flat_cells = Reshape (cells, all_values)",
    ]
    for axis in range(axes):
        lines += [
            f"column_{axis} = Constant <value_ints = [{axis}]> ()",
            f"position_{axis} = Gather <axis = 1> (positions, column_{axis})",
            f"rows_{axis} = Constant <value_ints = [{2 * axis * CODES}, {(2 * axis + 1) * CODES}]> ()",
            f"places_{axis} = Add (position_{axis}, rows_{axis})",
            f"found_{axis} = Gather (flat_cells, places_{axis})",
            f"sides_{axis} = Cast <to = 7> (found_{axis})",
        ]
    lines += ["nothing = Constant <value_int = 0> ()", "node_0 = Mul (position_0, nothing)"]
    for axis in range(axes):
        lines += [
            f"shape_{axis} = Shape (level_{axis})",
            f"count_{axis} = Gather (shape_{axis}, one)",
            f"first_{axis} = Mul (node_{axis}, count_{axis})",
            f"each_first_{axis} = Unsqueeze (first_{axis}, all_values)",
            f"each_side_{axis} = Unsqueeze (sides_{axis}, axis_one)",
            f"entries_{axis} = Add (each_first_{axis}, each_side_{axis})",
            f"entry_{axis} = Flatten <axis = 1> (entries_{axis})",
            f"flat_{axis} = Reshape (level_{axis}, all_values)",
            f"child_{axis} = Gather (flat_{axis}, entry_{axis})",
            f"node_{axis + 1} = Cast <to = 7> (child_{axis})",
        ]
    lines.append(f"sets = Identity (node_{axes})")
    return "".join(f"    {line}\n" for line in lines) + onnx_function.UNION
