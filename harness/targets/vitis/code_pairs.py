"""Functions of two codes in the fabric: a table of all pairs, or of all codes beside the values of a constant."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from harness.core.arrays import Array
from harness.operators.code_pairs import CodePairs
from harness.targets.generated import Table
from harness.targets.vitis.circuit import Circuit, VitisLowering, channels_of, table
from harness.targets.vitis.look_up import LookUpCircuit


class CodePairsCircuit(LookUpCircuit[CodePairs]):
    """A table of two activations."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The codes of all pairs, (256, 256)."""
        return (table(self.layer, "pairs", self.layer.table(), "the code of each pair of codes, from the lowest on"),)

    def process(self, number: int) -> str:
        """Return the call of `look_up_pairs`."""
        return f"look_up_pairs<{self.name}_layer>({self.codes(number)}, values_{number}, asked, {self.name}_pairs)"


class ConstantCircuit(LookUpCircuit[CodePairs]):
    """A table of an activation and a constant."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The codes beside each value of the constant, (256, values), and the column of each element of a stream."""
        layer = self.layer
        values, columns = np.unique(np.asarray(layer.operand), return_inverse=True)
        pairs = layer.by_activation(layer.table())[:, values.astype(int) - np.iinfo(layer.dtype).min]
        origin = f"the outputs for each code, from the lowest on, beside the values of {layer.operand_role}"
        streamed = columns.reshape(channels_of(layer.output), -1).T.reshape(-1)
        return table(layer, "pairs", pairs, origin), table(layer, "columns", streamed, "of each element of a stream")

    def replaced(self) -> Array | None:
        """Return the codes of all pairs, by that of the activation."""
        return self.layer.by_activation(self.layer.table())

    def process(self, number: int) -> str:
        """Return the call of `look_up_beside`."""
        constants = f"{self.name}_pairs, {self.name}_columns"
        return f"look_up_beside<{self.name}_layer>({self.codes(number)}, values_{number}, asked, {constants})"


class CodePairsLowering(VitisLowering[CodePairs]):
    """The rounding is that of the specification, for all pairs."""

    operator = CodePairs

    def unsupported(self, layer: CodePairs, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse activations that are repeated along an axis."""
        return "it repeats an activation along an axis" if layer.broadcasts else None

    def circuit(self, layer: CodePairs, fold: int) -> Circuit[CodePairs]:
        """Return the layer with its table."""
        return CodePairsCircuit(layer, fold) if layer.operand is None else ConstantCircuit(layer, fold)
