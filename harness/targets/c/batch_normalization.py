"""BatchNormalization in C: four operations per value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.batch_normalization import BatchNormalization
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class BatchNormalizationLowering(CLowering[BatchNormalization]):
    """Loops over the values of each channel."""

    operator = BatchNormalization
    headers = ("batch_normalization.h",)

    def plain(self, layer: BatchNormalization, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/batch_normalization.h."""
        tables = tuple(Table(f"{layer.name}_{role}", np.asarray(values)) for role, values in layer.constants().items())
        channels, names = len(layer.mean), ", ".join(table.name for table in tables)
        call = f"{prefix}batch_normalization_float32({channels}, {layer.size // channels}, in, {names}, out);"
        return code.elementwise(layer, sources, tables, call)

    def unrolled(self, layer: BatchNormalization, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the constants as literals."""
        positions = layer.size // len(layer.mean)
        constants = [[literal(value) for value in np.asarray(values)] for values in layer.constants().values()]
        values = []
        for n in range(layer.size):
            mean, deviation, scale, offset = (each[n // positions] for each in constants)
            values.append(f"((in[{n}] - {mean}) / {deviation}) * {scale} + {offset}")
        return code.elementwise(layer, sources, (), code.assigned(values))
