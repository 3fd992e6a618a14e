"""Implicit path enumeration: the largest cost of a path that keeps the flow facts of an abstract execution.

Li and Malik, "Performance analysis of embedded software using implicit path enumeration", DAC 1995.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from harness.applications.wcet.execution import ENTRY, Context, Edge, Execution
from harness.applications.wcet.graph import EXIT, Block
from harness.core.errors import ToolError


@dataclass(frozen=True)
class Path:
    """The costliest path: its cost, and how often it has each block."""

    cost: int
    counts: Mapping[tuple[Context, int], int]


def costliest(execution: Execution, cost: Callable[[Block], int]) -> Path:
    """Return the costliest path through a function and all that it calls in the program."""
    edges = list(execution.recorded.edges)
    number = {edge: index for index, edge in enumerate(edges)}
    entering: dict[tuple[Context, int], list[int]] = defaultdict(list)
    leaving: dict[tuple[Context, int], list[int]] = defaultdict(list)
    for (context, (start, to)), index in number.items():
        leaving[context, start].append(index)
        entering[context, to].append(index)
    rows = _Rows(len(edges))
    for node in entering.keys() | leaving.keys():
        if node[1] not in {ENTRY, EXIT}:
            rows.equal(entering[node], leaving[node])
    _link_calls(execution, entering, leaving, rows)
    _bound_loops(execution, number, rows)
    costs = np.zeros(len(edges))
    for (context, (_, to)), index in number.items():
        if to != EXIT:
            costs[index] = cost(execution.functions[context.function].blocks[to])
    limits = np.array([execution.recorded.edges[edge] for edge in edges], float)
    found = milp(-costs, integrality=np.ones(len(edges)), bounds=Bounds(0, limits), constraints=rows.constraints())
    if not found.success:
        raise ToolError(f"the path enumeration failed: {found.message}", "report the model and the flags")
    counts: dict[tuple[Context, int], int] = defaultdict(int)
    for (context, (_, to)), index in number.items():
        if to != EXIT:
            counts[context, to] += round(found.x[index])
    return Path(sum(cost(execution.functions[c.function].blocks[b]) * n for (c, b), n in counts.items()), dict(counts))


class _Rows:
    """Linear constraints over the counts of edges."""

    def __init__(self, columns: int) -> None:
        self._columns, self._count = columns, 0
        self._entries: list[tuple[int, int, float]] = []
        self._lowest: list[float] = []

    def add(self, terms: Mapping[int, float], lowest: float) -> None:
        """Require lowest <= sum of terms <= 0."""
        self._entries += [(self._count, column, factor) for column, factor in terms.items() if factor]
        self._lowest.append(lowest)
        self._count += 1

    def equal(self, some: list[int], others: list[int]) -> None:
        """Require that the sums of two groups are equal."""
        terms: dict[int, float] = defaultdict(float)
        for group, sign in ((some, 1), (others, -1)):
            for column in group:
                terms[column] += sign
        self.add(terms, 0)

    def constraints(self) -> list[LinearConstraint]:
        """Return the constraints of scipy."""
        if not self._count:
            return []
        rows, columns, factors = zip(*self._entries, strict=True) if self._entries else ((), (), ())
        matrix = sparse.csr_array((factors, (rows, columns)), shape=(self._count, self._columns))
        return [LinearConstraint(matrix, np.array(self._lowest), np.zeros(self._count))]


def _link_calls(
    execution: Execution,
    entering: Mapping[tuple[Context, int], list[int]],
    leaving: Mapping[tuple[Context, int], list[int]],
    rows: _Rows,
) -> None:
    """Require that a function is entered as often as the block that calls it."""
    for context in {context for context, _ in execution.recorded.edges if context.calls}:
        *before, site = context.calls
        for function in execution.functions.values():
            if site in function.calls:
                caller = Context(function.symbol.address, tuple(before))
                called = [edge for block in function.calls[site] for edge in entering[caller, block.key]]
                rows.equal(leaving[context, ENTRY], called)


def _bound_loops(execution: Execution, number: Mapping[tuple[Context, Edge], int], rows: _Rows) -> None:
    """Require of each loop that its iterations per entry are at most those that were executed."""
    for (context, header), most in execution.recorded.iterations.items():
        loop = next(each for each in execution.functions[context.function].loops() if each.header == header)
        terms: dict[int, float] = {}
        for (of, (start, to)), column in number.items():
            if of == context and to == header:
                terms[column] = 1.0 if start in loop.blocks else -float(most)
        rows.add(terms, -np.inf)
