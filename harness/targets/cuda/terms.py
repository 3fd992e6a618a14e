"""Operators of two terms in CUDA: Add, Sub, Mul and Div; a term is an activation or a constant table."""

from __future__ import annotations

from collections.abc import Mapping

from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.div import Div
from harness.operators.mul import Mul
from harness.operators.sub import Sub
from harness.operators.terms import BinaryLayer
from harness.targets.cuda import broadcast
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

FUNCTIONS: Mapping[type[Layer], str] = {Add: "add", Div: "divide", Mul: "multiply", Sub: "subtract"}


class BinaryLowering(VectorLowering[BinaryLayer]):
    """One float32 operation per value, a device function of both terms."""

    operator = tuple(FUNCTIONS)

    def tables(self, layer: BinaryLayer) -> tuple[Table, ...]:
        """Return the constant term, if there is one."""
        return tables_of(layer, {role: term for role, term in layer.facts().items() if term is not None})

    def value(self, layer: BinaryLayer) -> str:
        """Combine a value of each term."""
        constants, vectors = (table.name for table in self.tables(layer)), iter(("x_0", "x_1"))
        arrays = [next(vectors if term is None else constants) for term in layer.terms]
        values = broadcast.values(layer.output.shape, arrays, layer.shapes)
        return f"return {FUNCTIONS[type(layer)]}({', '.join(values)});"
