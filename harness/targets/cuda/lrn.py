"""LRN in CUDA: sums of squares over channels, then square roots and a quotient."""

from __future__ import annotations

from harness.operators.lrn import Lrn
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class LrnLowering(VectorLowering[Lrn]):
    """One thread adds the squares of a window of channels."""

    operator = Lrn

    def tables(self, layer: Lrn) -> tuple[Table, ...]:
        """Return the numbers of the formula."""
        return tables_of(layer, {"factor": layer.factor, "bias": layer.bias})

    def value(self, layer: Lrn) -> str:
        """Call kernels/cuda/floats.cuh."""
        channels, name = layer.input.shape[0], layer.name
        sizes = f"{channels}, {layer.size // channels}, {layer.length}, {layer.quarters}"
        return f"return lrn<{sizes}>(x_0, {name}_factor[0], {name}_bias[0], n);"
