"""Functions of one value in CUDA, with numbers of the layer."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from harness.operators.base import Layer
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

T = TypeVar("T", bound=Layer)


class FunctionLowering(VectorLowering[T]):
    """One value at a time: the device function `operation` of it, of the layer's constants, and of `more`."""

    in_place = True
    operation: ClassVar[str]
    more: ClassVar[tuple[str, ...]] = ()

    def tables(self, layer: T) -> tuple[Table, ...]:
        """Return the numbers."""
        constants: Any = layer.constants()
        return tables_of(layer, constants)

    def value(self, layer: T) -> str:
        """Call the function."""
        numbers = (f"{table.name}[0]" for table in self.tables(layer))
        return f"return {self.operation}({', '.join(['x_0[n]', *numbers, *self.more])});"
