"""The threads that execute a function together, and the values of its registers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.memory import Threads
from tests.simulators.ptx.operations import UNSIGNED, Array

Lanes = npt.NDArray[np.intp] | None  # places among the threads of a frame, ascending; None: all

AXES = "xyz"


def raw(bits: int) -> np.dtype[Any]:
    """How a register of so many bits is kept."""
    return np.dtype(np.bool_ if bits == 1 else UNSIGNED[bits])


@dataclass
class Frame:
    """Registers by number, (threads,) each, as unsigned bits; None where nothing was written yet."""

    threads: Threads
    number: npt.NDArray[np.int64]  # of each thread among the whole grid
    special: dict[str, Array]
    registers: list[Array | None] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Threads."""
        return len(self.threads.block)

    def chosen(self, lanes: Lanes) -> Threads:
        """The threads of some lanes."""
        if lanes is None:
            return self.threads
        return Threads(self.threads.block[lanes], self.threads.number[lanes])

    def everywhere(self, lanes: Lanes) -> Array:
        """The numbers of the threads of some lanes, of the whole grid."""
        return self.number if lanes is None else self.number[lanes]

    def read(self, register: int, lanes: Lanes) -> Array:
        """Its value in these lanes."""
        value = self.registers[register]
        if value is None:
            raise PtxError("reads a register that nothing wrote")
        return value if lanes is None else value[lanes]

    def write(self, register: int, lanes: Lanes, value: Array, dtype: np.dtype[Any]) -> None:
        """Extend `value`, by its own sign if it is signed, to the register's bits.

        Arrays may be shared among registers: they are never changed.
        """
        value = np.asarray(value).astype(dtype, copy=False)
        if lanes is None:
            self.registers[register] = value if value.ndim else np.full(self.count, value)
            return
        old = self.registers[register]
        new = np.zeros(self.count, dtype) if old is None else old.copy()
        new[lanes] = value
        self.registers[register] = new

    def part(self, lanes: Lanes, registers: int) -> Frame:
        """A frame of some of its threads, with registers of its own."""
        special = self.special if lanes is None else {name: value[lanes] for name, value in self.special.items()}
        return Frame(self.chosen(lanes), self.everywhere(lanes), special, [None] * registers)

    def keep(self, lanes: npt.NDArray[np.intp]) -> None:
        """Only these threads go on."""
        self.threads, self.number = self.chosen(lanes), self.everywhere(lanes)
        self.special = {name: value[lanes] for name, value in self.special.items()}
        self.registers = [None if value is None else value[lanes] for value in self.registers]


def whole_grid(grid: tuple[int, int, int], block: tuple[int, int, int]) -> Frame:
    """All threads, block by block, x fastest, with %tid, %ntid, %ctaid and %nctaid."""
    per_block, blocks = int(np.prod(block)), int(np.prod(grid))
    number, of_block = np.tile(np.arange(per_block), blocks), np.repeat(np.arange(blocks), per_block)
    special: dict[str, Array] = {}
    for name, index, sizes in (("tid", number, block), ("ctaid", of_block, grid)):
        rest = index
        for axis, size in zip(AXES, sizes, strict=True):
            special[f"%{name}.{axis}"] = (rest % size).astype(np.uint32)
            special[f"%n{name}.{axis}"] = np.full(len(index), size, np.uint32)
            rest = rest // size
    return Frame(Threads(of_block, number), np.arange(len(number)), special)
