"""Functions of two codes in the fabric: a table of all pairs, computed once from the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from harness.operators.code_pairs import CodePairs
from harness.targets.generated import Table, initialiser
from harness.targets.vitis import resources
from harness.targets.vitis.circuit import Circuit, VitisLowering, bind, table
from harness.targets.vitis.image import CODE_BITS, ImageCircuit
from harness.targets.vitis.resources import Resources

P = TypeVar("P", bound=CodePairs)


class CodePairsCircuit(ImageCircuit[P]):
    """One pair of codes a cycle (kernels/vitis/code_pairs.hpp)."""

    headers = ("image_layer.hpp", "code_pairs.hpp")

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The codes of all pairs, (256, 256)."""
        return (table(self.layer, "pairs", self.layer.table(), "the code of each pair of codes, from the lowest on"),)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number by which codes of int8 are flipped."""
        return {**super().sizes, "FLIP": -np.iinfo(self.layer.dtype).min}

    @property
    def definitions(self) -> str:
        """The table."""
        values = initialiser(self.tables[0].values)
        return f"static const {self.code_type} {self.name}_table[256][256] = {values};"

    @property
    def storage(self) -> Sequence[str]:
        """The pragma of the table."""
        return [bind(f"{self.name}_table", in_bram=True)]

    def process(self, number: int) -> str:
        """Return the call of `look_up_pairs`."""
        return f"look_up_pairs<{self.name}_layer>({self.codes(number)}, values_{number}, asked, {self.name}_table)"

    @property
    def compute_cycles(self) -> int:
        """A cycle for each pair."""
        return self.layer.size

    @property
    def memories(self) -> Resources:
        """The table."""
        return Resources(0, 0, resources.block_rams(self.tables[0].values.size, CODE_BITS))


class CodePairsLowering(VitisLowering[P]):
    """The rounding is that of the specification, for all pairs."""

    def circuit(self, layer: P, fold: int) -> Circuit[P]:
        """Return the layer with its table."""
        return CodePairsCircuit(layer, fold)

    def unsupported(self, layer: P, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse constant operands."""
        return None if layer.operand is None else "it reads a constant, and kernels in the fabric join two activations"
