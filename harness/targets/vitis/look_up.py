"""Tables of codes in the fabric, computed once from the specification (kernels/vitis/look_up.hpp)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.codes import CodeFunction
from harness.targets.generated import C_TYPES, Table, initialiser
from harness.targets.vitis import resources
from harness.targets.vitis.circuit import bind, channels_of
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
        return [bind(each.name, in_bram=True) for each in self.tables]

    @property
    def compute_cycles(self) -> int:
        """A cycle for each value."""
        return self.layer.size

    @property
    def memories(self) -> Resources:
        """The tables."""
        return resources.total(resources.memory(each.values.reshape(-1, 1), in_bram=True) for each in self.tables)
