"""Matrix products of whole warps: every register of a thread, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.interpreter import Module
from tests.simulators.ptx.operations import Array
from tests.simulators.ptx.texts import kernel
from tests.simulators.ptx.warps import PRODUCTS

pytestmark = pytest.mark.campaign  # the stand-in itself; what runs on it is tested in make test

MMA = sorted(opcode for opcode in PRODUCTS if opcode.startswith("mma"))


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + number}" for number in range(count)) + "}"


def program(opcode: str) -> str:
    """Thread t gives and takes row t of 16 words: a, b and c, and instead of c the result."""
    a, b, c = PRODUCTS[opcode].registers
    places = [2 + number for number in range(a + b + c)]
    loads = "".join(f"    ld.global.u32 %r{place}, [%rd4+{4 * (place - 2)}];\n" for place in places)
    stores = "".join(f"    st.global.u32 [%rd4+{4 * (place - 2)}], %r{place};\n" for place in places[a + b :])
    of_c = registers(2 + a + b, c)
    product = f"    {opcode} {of_c}, {registers(2, a)}, {registers(2 + a, b)}, {of_c};\n"
    return kernel(f"    mul.wide.u32 %rd3, %r1, 64;\n    add.s64 %rd4, %rd1, %rd3;\n{loads}{product}{stores}", 1)


@pytest.mark.parametrize("opcode", MMA)
def test_every_register_is_that_of_the_specification(opcode: str) -> None:
    """As many sums as the shape of the instruction has, element by element."""
    rows, depth = (16, 32) if "m16n8k32" in opcode else (8, 16)
    of_a, of_b, of_c = PRODUCTS[opcode].registers
    words = np.random.default_rng(1).integers(0, 2**32, (96, 16), np.uint32)
    found = words.copy()
    Module(program(opcode)).launch("run", (1, 1, 1), (96, 1, 1), [found])
    kind = np.uint8 if ".u8." in opcode else np.int8
    expected = words.copy()
    for warp in range(3):
        own = words[32 * warp : 32 * warp + 32]
        a, b = own[:, :of_a].copy().view(kind), own[:, of_a : of_a + of_b].copy().view(np.int8)
        for thread in range(32):
            for register in range(of_c):
                row, column = thread // 4 + register // 2 * 8, thread % 4 * 2 + register % 2
                assert row < rows
                total = int(own[thread, of_a + of_b + register])
                for k in range(depth):
                    lane, byte = k % 16 // 4, k % 4
                    x = a[row % 8 * 4 + lane, 4 * (row // 8 + k // 16 * (rows // 8)) + byte]
                    total += int(x) * int(b[column * 4 + lane, 4 * (k // 16) + byte])
                expected[32 * warp + thread, of_a + of_b + register] = total % 2**32
    assert (found == expected).all()


def test_a_part_of_a_warp_is_refused() -> None:
    with pytest.raises(PtxError, match="is not reached by all threads of a warp together"):
        Module(program(MMA[0])).launch("run", (1, 1, 1), (48, 1, 1), [np.zeros((48, 16), np.uint32)])


LOAD = """
    mul.wide.u32 %rd3, %r1, 8;
    add.s64 %rd4, %rd2, %rd3;
    wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r2, %r3}, [%rd1+OFFSET], STRIDE;
    st.global.v2.u32 [%rd4], {%r2, %r3};
"""


def loaded(offset: int = 0, stride: int = 16, body: str = LOAD) -> Array:
    matrix, found = np.arange(1024, dtype=np.uint32).astype(np.uint8), np.zeros((32, 8), np.uint8)
    text = kernel(body.replace("OFFSET", str(offset)).replace("STRIDE", str(stride)))
    Module(text).launch("run", (1, 1, 1), (32, 1, 1), [matrix, found])
    return found


def test_a_matrix_is_loaded_line_by_line() -> None:
    lines = np.arange(16)[:, None] * 48 + np.arange(16) + 32
    assert sorted(loaded(32, 48).reshape(-1)) == sorted(lines.astype(np.uint8).reshape(-1))


@pytest.mark.parametrize(("offset", "stride"), [(16, 16), (0, 24)])
def test_a_matrix_that_is_not_aligned_is_refused(offset: int, stride: int) -> None:
    with pytest.raises(PtxError, match="is not aligned to 32 bytes, or lines not to 16"):
        loaded(offset, stride)


def test_threads_with_other_addresses_are_refused() -> None:
    apart = LOAD.replace("    wmma", "    mul.wide.u32 %rd5, %r1, 32;\n    add.s64 %rd1, %rd1, %rd5;\n    wmma")
    with pytest.raises(PtxError, match="another address or stride for each thread of a warp"):
        loaded(body=apart)
