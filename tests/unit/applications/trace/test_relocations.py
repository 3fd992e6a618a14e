"""Relocations: what a linker writes for a target leads back to it, and nothing but the target changes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.applications.trace.relocations import MASK_64, TYPES, of
from harness.core.errors import RequestError
from tests.support.examples import examples

PLACE = 0x01004000
BYTES = {
    ("EM_AARCH64", 275): 0x90000003, ("EM_AARCH64", 277): 0x91000063, ("EM_AARCH64", 278): 0x39400063,
    ("EM_AARCH64", 284): 0x79400063, ("EM_AARCH64", 285): 0xB9400063, ("EM_AARCH64", 286): 0xF9400063,
    ("EM_AARCH64", 299): 0x3DC00063, ("EM_AARCH64", 282): 0x14000000, ("EM_AARCH64", 283): 0x94000000,
    ("EM_ARM", 10): 0xFFFEF7FF, ("EM_ARM", 30): 0xBFFEF7FF, ("EM_ARM", 28): 0xEBFFFFFE, ("EM_ARM", 29): 0xEAFFFFFE,
    ("EM_ARM", 43): 0xE3003000, ("EM_ARM", 44): 0xE3403000, ("EM_ARM", 47): 0x0300F240, ("EM_ARM", 48): 0x0300F2C0,
}  # fmt: skip
"""An instruction of each relocation that is one; the others are words."""
CASES = [(machine, number) for machine, types in TYPES.items() for number in types]


def own_bytes(machine: str, number: int) -> bytes:
    size = TYPES[machine][number].size
    return struct.pack("<I", BYTES[machine, number]) if (machine, number) in BYTES else bytes(size)


@pytest.mark.parametrize(("machine", "number"), CASES)
@given(distance=st.integers(-(1 << 21), (1 << 21) - 1))
@examples(40)
def test_a_written_target_is_read_again(machine: str, number: int, distance: int) -> None:
    relocation, own = TYPES[machine][number], own_bytes(machine, number)
    target = PLACE + 16 * distance // 8 & ~15
    if machine == "EM_ARM" and number in {10, 30}:
        target |= 1
    written = relocation.write(own, target, PLACE)
    assert written is not None
    assert len(written) == relocation.size
    assert (relocation.read(written, PLACE) ^ target) & relocation.mask & MASK_64 == 0
    assert relocation.write(written, target, PLACE) == written
    other = relocation.write(own, target + 0x1010 * (1 + (1 << 16 if number in {44, 48} else 0)), PLACE)
    assert other != written, "another target gives other bytes"


@pytest.mark.parametrize(
    ("machine", "number", "target", "expected"),
    [
        ("EM_AARCH64", 275, PLACE + 0x1234, 0xB0000003),  # adrp x3, +1 page
        ("EM_AARCH64", 283, PLACE - 8, 0x97FFFFFE),  # bl -8
        ("EM_AARCH64", 286, 0xFF8, 0xF947FC63),  # ldr x3, [x3, #0xff8]
        ("EM_ARM", 28, PLACE + 16, 0xEB000002),  # bl +16
        ("EM_ARM", 28, PLACE + 16 + 3, 0xFB000002),  # blx of Thumb code at +18
        ("EM_ARM", 10, PLACE + 4 + 1, 0xF800F000),  # bl +4
        ("EM_ARM", 10, PLACE + 4, 0xE800F000),  # blx of Arm code at +4
        ("EM_ARM", 43, 0x1234ABCD, 0xE30A3BCD),  # movw r3, #0xabcd
        ("EM_ARM", 44, 0x1234ABCD, 0xE3413234),  # movt r3, #0x1234
        ("EM_ARM", 47, 0x1234ABCD, 0x33CDF64A),  # movw r3, #0xabcd
        ("EM_ARM", 48, 0x1234ABCD, 0x2334F2C1),  # movt r3, #0x1234
    ],
)
def test_the_words_of_an_assembler(machine: str, number: int, target: int, expected: int) -> None:
    assert TYPES[machine][number].write(own_bytes(machine, number), target, PLACE) == struct.pack("<I", expected)


def test_what_does_not_reach_its_target_is_not_written() -> None:
    assert TYPES["EM_AARCH64"][283].write(own_bytes("EM_AARCH64", 283), PLACE + (1 << 27), PLACE) is None
    assert TYPES["EM_ARM"][28].write(own_bytes("EM_ARM", 28), PLACE + (1 << 25) + 8, PLACE) is None
    assert TYPES["EM_ARM"][10].write(own_bytes("EM_ARM", 10), PLACE + (1 << 24) + 5, PLACE) is None
    assert TYPES["EM_X86_64"][2].write(bytes(4), PLACE + (1 << 33), PLACE) is None
    jump_to_arm = TYPES["EM_ARM"][30].write(own_bytes("EM_ARM", 30), PLACE + 4, PLACE)
    assert jump_to_arm is None, "a jump cannot change to Arm code"


def test_the_addend_in_the_bytes() -> None:
    assert TYPES["EM_ARM"][2].addend(struct.pack("<i", -4)) == -4
    assert TYPES["EM_ARM"][28].addend(struct.pack("<I", 0xEBFFFFFE)) == 0
    assert TYPES["EM_ARM"][10].addend(struct.pack("<I", 0xFFFEF7FF)) == 0
    assert TYPES["EM_ARM"][43].addend(struct.pack("<I", 0xE30F3FFC)) == -4


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(RequestError, match=r"network.o, \.text: relocation type 9 of EM_X86_64 is not known"):
        of("EM_X86_64", 9, "network.o, .text")
