"""Operators of two terms in CUDA: Add, Sub, Mul and Div; a term is an activation or a constant table."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from harness.operators.terms import BinaryLayer
from harness.targets.cuda import broadcast
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

B = TypeVar("B", bound=BinaryLayer)


class BinaryLowering(VectorLowering[B]):
    """One float32 operation per value, the device function `operation` of both terms."""

    operation: ClassVar[str]

    def tables(self, layer: B) -> tuple[Table, ...]:
        """Return the constant term, if there is one."""
        return tables_of(layer, {role: term for role, term in layer.facts().items() if term is not None})

    def value(self, layer: B) -> str:
        """Combine a value of each term."""
        constants, vectors = (table.name for table in self.tables(layer)), iter(("x_0", "x_1"))
        arrays = [next(vectors if term is None else constants) for term in layer.terms]
        return f"return {self.operation}({', '.join(broadcast.values(layer.output.shape, arrays, layer.shapes))});"
