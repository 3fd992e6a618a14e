"""Instructions that the 32 threads of a warp execute together: matrix products of codes by tensor cores.

NVIDIA's "Parallel Thread Execution ISA", 9.7.14, says where the elements of a matrix lie among the threads: groupID is
lane / 4, threadID_in_group is lane % 4.  wmma leaves it open, so that here it is one of many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.operations import Array

WARP = 32
ALIGNMENT = 32  # of a matrix in memory that wmma accesses
Places = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]  # row and column of each element of a lane, (32, elements)


@dataclass(frozen=True)
class Product:
    """d = a * b + c of warps: registers of a thread, (warps, 32, registers), all as uint32; as many for d as for c."""

    registers: tuple[int, int, int]
    compute: Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Transfer:
    """A matrix of 16 lines of 16 elements of `size` bytes, each lane having half a line."""

    size: int
    stores: bool = False

    @property
    def registers(self) -> int:
        """Of a thread."""
        return 8 * self.size // 4

    def addresses(self, base: Array, stride: Array) -> Array:
        """The first of each thread's bytes; `stride` counts elements."""
        both = np.stack([base, stride.astype(np.uint64)]).reshape(2, -1, WARP)
        if (both != both[:, :, :1]).any():
            raise PtxError("has another address or stride for each thread of a warp")
        bytes_of_line = stride.astype(np.uint64) * np.uint64(self.size)
        if (base % ALIGNMENT).any() or (bytes_of_line % np.uint64(16)).any():
            raise PtxError(f"accesses a matrix that is not aligned to {ALIGNMENT} bytes, or lines not to 16")
        lane = np.arange(len(base), dtype=np.uint64) % np.uint64(WARP)
        first: Array = base + lane // np.uint64(2) * bytes_of_line + lane % np.uint64(2) * np.uint64(8 * self.size)
        return first


def whole_warps(block: Array, number: Array) -> None:
    """PtxError unless these threads, ascending, are whole warps."""
    whole = len(number) % WARP == 0
    if whole:
        numbers, blocks = number.reshape(-1, WARP), block.reshape(-1, WARP)
        whole = bool((numbers == numbers[:, :1] + np.arange(WARP)).all() and (numbers[:, 0] % WARP == 0).all())
        whole = whole and bool((blocks == blocks[:, :1]).all())
    if not whole:
        raise PtxError("is not reached by all threads of a warp together")


def _lanes(elements: int) -> tuple[Array, Array, Array]:
    """groupID, threadID_in_group, and the number of the element, broadcast against each other."""
    lane = np.arange(WARP)[:, None]
    return lane >> 2, lane % 4, np.arange(elements)[None]


def _of_m16n8k32() -> tuple[Places, Places, Places]:
    group, thread, i = _lanes(16)
    upper = (i < 4) | ((i >= 8) & (i < 12))
    a = np.where(upper, group, group + 8), np.where(i < 8, thread * 4 + (i & 3), thread * 4 + (i & 3) + 16)
    group, thread, i = _lanes(8)
    b = np.where(i < 4, thread * 4 + (i & 3), thread * 4 + (i & 3) + 16), group + 0 * i
    group, thread, i = _lanes(4)
    return a, b, (np.where(i < 2, group, group + 8), thread * 2 + (i & 1))


def _of_m8n8k16() -> tuple[Places, Places, Places]:
    group, thread, i = _lanes(4)
    a, b = (group + 0 * i, thread * 4 + i), (thread * 4 + i, group + 0 * i)
    group, thread, i = _lanes(2)
    return a, b, (group + 0 * i, thread * 2 + i)


def _of_m16n16k16() -> tuple[Places, Places, Places]:
    """Half a row of a, half a column of b, half a row of c."""
    lane, i = np.arange(WARP)[:, None], np.arange(8)[None]
    line, along = lane // 2 + 0 * i, lane % 2 * 8 + i
    return (line, along), (along, line), (line, along)


def _product(layout: tuple[Places, Places, Places], kinds: tuple[str, str]) -> Product:
    of_a, of_b, of_c = layout
    registers = of_a[0].shape[1] // 4, of_b[0].shape[1] // 4, of_c[0].shape[1]

    def compute(a: Array, b: Array, c: Array) -> Array:
        total = _matrix(a, of_a, kinds[0]) @ _matrix(b, of_b, kinds[1])
        return (c + total[:, of_c[0], of_c[1]].astype(np.uint32)).astype(np.uint32)

    return Product(registers, compute)


def _matrix(registers: Array, places: Places, kind: str) -> Array:
    """The elements of bytes, int64 (warps, rows, columns): the lowest byte of a register is the first."""
    found = np.ascontiguousarray(registers).view(np.uint8 if kind == "u8" else np.int8)
    rows, columns = places
    matrix = np.zeros((len(found), rows.max() + 1, columns.max() + 1), np.int64)
    matrix[:, rows, columns] = found
    return matrix


PRODUCTS = {
    f"mma.sync.aligned.{shape}.row.col.s32.{kind}.s8.s32": _product(layout(), (kind, "s8"))
    for shape, layout in (("m16n8k32", _of_m16n8k32), ("m8n8k16", _of_m8n8k16))
    for kind in ("u8", "s8")
} | {"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32": _product(_of_m16n16k16(), ("s8", "s8"))}
TRANSFERS = {
    "wmma.load.a.sync.aligned.row.m16n16k16.s8": Transfer(1),
    "wmma.load.b.sync.aligned.col.m16n16k16.s8": Transfer(1),
    "wmma.store.d.sync.aligned.row.m16n16k16.s32": Transfer(4, stores=True),
}
