"""Memory of a launch: every access is checked, and shared memory knows who touched it since the last barrier."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.operations import UNSIGNED, Array

Integers = npt.NDArray[np.int64]

GAP = 256  # bytes between two variables, which nobody may touch

GARBAGE = 0xA5  # in every byte that nothing gave a value

# Where the windows of the spaces lie among generic addresses; a global address is a generic one.
WINDOWS = {"shared": 1 << 40, "local": 1 << 41, "global": 1 << 42}


@dataclass(frozen=True)
class Layout:
    """Where variables lie in their space: ascending `begins` and their `ends`, by offset in bytes.

    A load may begin inside of a variable and reach into what its alignment leaves free behind it, up to `readable`: so
    the compiler reads the last three bytes as four, and does not use the fourth.
    """

    names: tuple[str, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    readable: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Mapping[str, int], alignments: Mapping[str, int] | None = None) -> Layout:
        """Variables of these sizes in bytes, one after the other, with gaps; their alignments are 1 by default."""
        begins, ends, readable, at = [], [], [], 0
        for name, size in sizes.items():
            alignment = (alignments or {}).get(name, 1)
            begins.append(at)
            ends.append(at + size)
            readable.append(at + -(-size // alignment) * alignment)
            at = -(-(at + size + GAP) // GAP) * GAP
        return cls(tuple(sizes), tuple(begins), tuple(ends), tuple(readable))

    @property
    def size(self) -> int:
        """Bytes of all, a multiple of any alignment."""
        return -(-self.ends[-1] // GAP) * GAP if self.ends else 0

    def begin(self, name: str) -> int:
        """The offset of a variable."""
        return self.begins[self.names.index(name)]

    def check(self, offsets: npt.NDArray[np.uint64], size: int, reading: bool) -> None:
        """AccessError unless `size` bytes from each offset on lie in a variable, and the offset is a multiple of it."""
        if int(np.bitwise_or.reduce(offsets)) % size:
            raise AccessError(int(np.argmax(offsets % np.uint64(size) != 0)), f"not a multiple of {size}")
        lowest, highest = int(offsets.min()), int(offsets.max())
        at = bisect_right(self.begins, lowest) - 1
        if at >= 0 and highest + size <= self.ends[at]:
            return
        places = np.searchsorted(np.array(self.begins, np.uint64), offsets, side="right")
        ends = np.array([0, *self.ends], np.uint64)[places]
        reach = np.array([0, *self.readable], np.uint64)[places] if reading else ends
        outside = (offsets >= ends) | (reach - np.minimum(offsets, reach) < size)
        if outside.any():
            raise AccessError(int(np.argmax(outside)), "outside of every variable and buffer")


class AccessError(PtxError):
    """An access that must not be: `lane` is the first thread, among those that made it."""

    def __init__(self, lane: int, what: str) -> None:
        super().__init__(what)
        self.lane = lane
        self.what = what


@dataclass(frozen=True)
class Threads:
    """Which threads access: `block` and `number`, the thread's within the block, of each."""

    block: Integers
    number: Integers


class Space:
    """Memory of `copies` (of a block or of a thread), laid out alike."""

    def __init__(self, layout: Layout, copies: int = 1) -> None:
        self.layout = layout
        self.bytes = np.full(copies * layout.size, GARBAGE, np.uint8)

    def load(self, offsets: Array, copy: Array | int, size: int, count: int) -> Array:
        """`count` numbers of `size` bytes from each offset on: (count, threads), unsigned."""
        return self._cells(size, count)[self._places(offsets, copy, size * count, reading=True)].T

    def store(self, offsets: Array, copy: Array | int, values: Array) -> None:
        """The inverse: `values` is (count, threads)."""
        count, size = len(values), values.itemsize
        self._cells(size, count)[self._places(offsets, copy, size * count, reading=False)] = values.T

    def _cells(self, size: int, count: int) -> Array:
        return self.bytes.view(UNSIGNED[8 * size]).reshape(-1, count)

    def _places(self, offsets: Array, copy: Array | int, size: int, reading: bool) -> Array:
        """The number of each access's cell."""
        self.layout.check(offsets, size, reading)
        return (offsets.astype(np.int64) + copy * self.layout.size) // size


NOBODY, SEVERAL, NEVER = -1, -2, -3


class SharedMemory(Space):
    """Space of every block which sees races: two threads at one word between two barriers, one of them writing.

    Only whole words of four bytes can be written.  Of each word it keeps who wrote it and who read it since the last
    barrier: a thread's number within its block, NOBODY, SEVERAL, or NEVER, if nobody ever wrote it.
    """

    def __init__(self, layout: Layout, blocks: int) -> None:
        super().__init__(layout, blocks)
        self._writer = np.full(len(self.bytes) // 4, NEVER, np.int32)
        self._reader = np.full(len(self.bytes) // 4, NOBODY, np.int32)

    def read(self, offsets: Array, threads: Threads, size: int, count: int) -> Array:
        """As `load`, by these threads."""
        values = self.load(offsets, threads.block, size, count)
        words, me = self._words(offsets, threads, size * count)
        writer = self._writer[words]
        self._refuse(writer == NEVER, "reads shared memory that nothing wrote")
        self._refuse((writer != NOBODY) & (writer != me), "races with a thread that wrote there since the last barrier")
        reader = self._reader[words]
        seen = np.where((reader == NOBODY) | (reader == me), me, np.int32(SEVERAL))
        self._reader[words] = seen
        lost = self._reader[words] != seen
        if lost.any():
            self._reader[words[lost]] = SEVERAL
        return values

    def write(self, offsets: Array, threads: Threads, values: Array) -> None:
        """As `store`, by these threads."""
        if values.itemsize < 4:
            raise AccessError(0, "writes less than a word of shared memory, which the race check does not know")
        self.store(offsets, threads.block, values)
        words, me = self._words(offsets, threads, values.itemsize * len(values))
        writer, reader = self._writer[words], self._reader[words]
        self._writer[words] = me
        others = ((writer >= 0) & (writer != me)) | (self._writer[words] != me)
        self._refuse(others, "races with another thread that writes there")
        others = (reader != NOBODY) & (reader != me)
        self._refuse(others, "races with a thread that read there since the last barrier")

    def pass_barrier(self, blocks: Array) -> None:
        """All threads of these blocks (a mask) passed a barrier: what they did is settled."""
        writer, reader = self._writer.reshape(len(blocks), -1), self._reader.reshape(len(blocks), -1)
        writer[blocks[:, None] & (writer != NEVER)] = NOBODY
        reader[blocks] = NOBODY

    def _words(self, offsets: Array, threads: Threads, size: int) -> tuple[Array, Array]:
        """The words of each access, (threads, words), and who makes it."""
        first = (offsets.astype(np.int64) + threads.block * self.layout.size) // 4
        words = first[:, None] + np.arange(max(size // 4, 1))
        return words, np.broadcast_to(threads.number.astype(np.int32)[:, None], words.shape)

    @staticmethod
    def _refuse(bad: npt.NDArray[Any], what: str) -> None:
        if bad.any():
            raise AccessError(int(np.argmax(bad.any(axis=1))), what)
