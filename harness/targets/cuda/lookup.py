"""Functions of one code in CUDA: a table of 256 codes."""

from __future__ import annotations

import numpy as np

from harness.operators.lookup import Lookup
from harness.targets.cuda.code import CudaLowering, FusedTask, c_type, of_one_value, of_words
from harness.targets.generated import Table


class LookupLowering(CudaLowering[Lookup]):
    """One access per value; a fused kernel computes the four values of a word."""

    operator = Lookup

    in_place = True

    def tables(self, layer: Lookup) -> tuple[Table, ...]:
        """Return the outputs for all codes."""
        return (
            Table(f"{layer.name}_table", layer.table(), "outputs for all codes, from the lowest on", computed=True),
        )

    def function(self, layer: Lookup) -> str:
        """Look one code up."""
        return of_one_value(layer, f"{c_type(layer.dtype)} a", _entry(layer))

    def fused_function(self, layer: Lookup) -> str:
        """Look the codes of a word up."""
        return of_words(layer, ("a",), _entry(layer))

    def steps(self, task: FusedTask) -> list[str]:
        """Compute words of the output's tile."""
        return self.fill_words(task, f"{task.operands[0]}[w * STRIDE + v]")


def _entry(layer: Lookup) -> str:
    return f"{layer.name}_table[a - ({np.iinfo(layer.dtype).min})]"
