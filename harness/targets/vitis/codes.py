"""Functions of codes in the fabric: tables from the specification (kernels/vitis/look_up.hpp)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.code_pairs import CodePairs
from harness.operators.codes import CodeFunction
from harness.targets.generated import C_TYPES, Table, initialiser
from harness.targets.vitis import resources
from harness.targets.vitis.circuit import Circuit, VitisLowering, bind, channels_of, table
from harness.targets.vitis.image import ImageCircuit
from harness.targets.vitis.resources import Resources

F = TypeVar("F", bound=CodeFunction)


class LookUpCircuit(ImageCircuit[F]):
    """One value a cycle."""

    headers = ("image_layer.hpp", "look_up.hpp")

    @property
    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """The codes, and the columns of a constant."""

    def replaced(self) -> Array | None:
        """Return the codes."""
        return self.layer.table()

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number by which codes of int8 are flipped, and the channels of the output."""
        flip = -int(np.iinfo(self.layer.dtype).min)
        return {**super().sizes, "FLIP": flip, "CHANNELS_OUT": channels_of(self.layer.output)}

    @property
    def types(self) -> Sequence[str]:
        """The C types of the tables."""
        return (self.code_type, C_TYPES["uint8"])

    @property
    def definitions(self) -> str:
        """The tables."""
        return "\n".join(
            f"static const {kind} {each.name}[{']['.join(map(str, each.values.shape))}] = {initialiser(each.values)};"
            for kind, each in zip(self.types, self.tables, strict=False)
        )

    @property
    def storage(self) -> Sequence[str]:
        """The pragmas of the tables."""
        return [bind(table.name, in_bram=True) for table in self.tables]

    @property
    def compute_cycles(self) -> int:
        """A cycle for each value."""
        return self.layer.size

    @property
    def memories(self) -> Resources:
        """The tables."""
        return resources.total(resources.memory(table.values.reshape(-1, 1), in_bram=True) for table in self.tables)


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
