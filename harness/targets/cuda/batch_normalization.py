"""BatchNormalization in CUDA."""

from __future__ import annotations

from typing import Any

from harness.operators.batch_normalization import BatchNormalization
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class BatchNormalizationLowering(VectorLowering[BatchNormalization]):
    """Four operations per value."""

    operator = BatchNormalization

    def tables(self, layer: BatchNormalization) -> tuple[Table, ...]:
        """Return the constants of every channel."""
        constants: Any = layer.constants()
        return tables_of(layer, constants)

    def value(self, layer: BatchNormalization) -> str:
        """Normalise the value with the constants of its channel."""
        channel = f"n / {layer.size // len(layer.mean)}"
        constants = (f"{table.name}[{channel}]" for table in self.tables(layer))
        return f"return batch_normalization({', '.join(['x_0[n]', *constants])});"
