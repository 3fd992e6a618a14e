"""The relocations of an object: the bytes that a linker writes for a target, and the target that written bytes have.

The formulas are those of the ELF supplements for x86-64, AArch64 and Arm: S + A is the target, P the place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from harness.core.errors import RequestError

MASK_64 = (1 << 64) - 1


@dataclass(frozen=True)
class Relocation:
    """A type of relocation of `size` bytes.

    `write` returns the bytes for the object's own bytes, the target and the place, None if they do not reach it.
    `read` returns the target of written bytes at a place.  A linker may replace the target of a `call` by a veneer;
    then other bits than the target must be those of the object, or of its form in `call_forms`.
    """

    size: int
    write: Callable[[bytes, int, int], bytes | None]
    read: Callable[[bytes, int], int]
    is_call: bool = False
    mask: int = MASK_64
    """The bits of the target that the bytes have."""
    bias: int = 0
    """The distance from S + A to where a call goes: the processor counts from the end of the instruction."""
    addend: Callable[[bytes], int] = lambda _: 0
    """The addend in the bytes of the object, where the format of the file has no other."""


def signed(value: int, bits: int) -> int:
    """Return the number that the low bits are in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _halves(content: bytes) -> tuple[int, int]:
    return int.from_bytes(content[:2], "little"), int.from_bytes(content[2:], "little")


def _word(size: int, *, relative: bool = False) -> Relocation:
    """Return a whole word: S + A, or S + A - P."""
    bits = 8 * size

    def write(_: bytes, target: int, place: int) -> bytes | None:
        value = target - place if relative else target
        fits = -(1 << (bits - 1)) <= signed(value, 64) < 1 << bits
        return (value & ((1 << bits) - 1)).to_bytes(size, "little") if fits else None

    def read(content: bytes, place: int) -> int:
        value = int.from_bytes(content, "little")
        return (place + signed(value, bits)) & MASK_64 if relative else value

    return Relocation(size, write, read, addend=lambda content: signed(int.from_bytes(content, "little"), bits))


def _relative(*, is_call: bool = False) -> Relocation:
    """Return the distance from an instruction of x86-64, which ends with it."""
    return replace(_word(4, relative=True), is_call=is_call, bias=4)


def _fields(
    encode: Callable[[int, int, int], int | None],
    decode: Callable[[int, int], int],
    *,
    is_call: bool = False,
    mask: int = MASK_64,
) -> Relocation:
    """Return a relocation of one instruction of 32 bits, from functions of (word, target, place) and (word, place)."""

    def write(content: bytes, target: int, place: int) -> bytes | None:
        word = encode(struct.unpack("<I", content)[0], target, place)
        return None if word is None else struct.pack("<I", word)

    return Relocation(4, write, lambda content, place: decode(struct.unpack("<I", content)[0], place), is_call, mask)


def _branch26() -> Relocation:
    def encode(word: int, target: int, place: int) -> int | None:
        distance = target - place
        return None if abs(distance) >= 1 << 27 else word & 0xFC000000 | distance >> 2 & 0x03FFFFFF

    return _fields(encode, lambda word, place: place + 4 * signed(word, 26), is_call=True)


def _page21() -> Relocation:
    def encode(word: int, target: int, place: int) -> int:
        pages = (target >> 12) - (place >> 12)
        return word & 0x9F00001F | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5

    def decode(word: int, place: int) -> int:
        return ((place >> 12) + signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)) << 12

    return _fields(encode, decode, mask=MASK_64 & ~0xFFF)


def _low12(shift: int) -> Relocation:
    """Return the offset in a page of an address, in units of 1 << shift bytes."""

    def encode(word: int, target: int, _: int) -> int:
        return word & 0xFFC003FF | ((target & 0xFFF) >> shift) << 10

    return _fields(encode, lambda word, _: (word >> 10 & 0xFFF) << shift, mask=0xFFF)


def _arm_branch() -> Relocation:
    """Return BL, BLX or B of Arm; a call of Thumb code is a BLX, whose condition is always."""

    def encode(word: int, target: int, place: int) -> int | None:
        distance = (target & ~1) - place - 8
        if abs(distance) >= 1 << 25:
            return None
        if target & 1:
            is_always_call = word >> 24 == 0xEB or word >> 25 == 0x7D
            return 0xFA000000 | (distance >> 1 & 1) << 24 | distance >> 2 & 0xFFFFFF if is_always_call else None
        opcode = 0xEB000000 if word >> 25 == 0x7D else word & 0xFF000000
        return opcode | distance >> 2 & 0xFFFFFF

    def decode(word: int, place: int) -> int:
        target = place + 8 + 4 * signed(word, 24)
        return target + (word >> 23 & 2) + 1 if word >> 25 == 0x7D else target

    branch = _fields(encode, decode, is_call=True)
    return replace(branch, addend=lambda content: 4 * signed(int.from_bytes(content, "little"), 24) + 8)


def _thumb_branch() -> Relocation:
    """Return BL, BLX or B.W of Thumb; a call of Arm code is a BLX."""

    def encode(content: bytes, target: int, place: int) -> bytes | None:
        first, second = _halves(content)
        is_call = second & 0xD000 != 0x9000
        to_arm = not target & 1
        if to_arm and not is_call:
            return None
        base = place & ~3 if to_arm else place
        distance = (target & ~1) - base - 4
        if abs(distance) >= 1 << 24:
            return None
        sign, i1, i2 = (distance >> bit & 1 for bit in (24, 23, 22))
        kind = 0xC000 if to_arm else second & 0xD000 | 0x1000
        high = first & 0xF800 | sign << 10 | distance >> 12 & 0x3FF
        low = kind | (i1 ^ 1 ^ sign) << 13 | (i2 ^ 1 ^ sign) << 11 | distance >> 1 & 0x7FF
        return struct.pack("<HH", high, low)

    def distance_of(content: bytes) -> int:
        first, second = _halves(content)
        sign, j1, j2 = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
        high = sign << 24 | (j1 ^ 1 ^ sign) << 23 | (j2 ^ 1 ^ sign) << 22
        return signed(high | (first & 0x3FF) << 12 | (second & 0x7FF) << 1, 25)

    def read(content: bytes, place: int) -> int:
        to_arm = _halves(content)[1] & 0xD000 == 0xC000
        base = place & ~3 if to_arm else place
        return base + 4 + distance_of(content) | (0 if to_arm else 1)

    return Relocation(4, encode, read, is_call=True, addend=lambda content: distance_of(content) + 4)


def _half(*, high: bool) -> Relocation:
    """Return MOVW or MOVT of Arm."""

    def encode(word: int, target: int, _: int) -> int:
        value = target >> 16 & 0xFFFF if high else target & 0xFFFF
        return word & 0xFFF0F000 | value >> 12 << 16 | value & 0xFFF

    def decode(word: int, _: int) -> int:
        value = word >> 4 & 0xF000 | word & 0xFFF
        return value << 16 if high else value

    def addend(content: bytes) -> int:
        return signed(decode(int.from_bytes(content, "little"), 0) >> 16 * high, 16)

    return replace(_fields(encode, decode), mask=0xFFFF << 16 * high, addend=addend)


def _thumb_half(*, high: bool) -> Relocation:
    """Return MOVW or MOVT of Thumb."""

    def value_of(content: bytes) -> int:
        first, second = _halves(content)
        return (first & 0xF) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF

    def write(content: bytes, target: int, _: int) -> bytes:
        first, second = _halves(content)
        value = target >> 16 & 0xFFFF if high else target & 0xFFFF
        first = first & 0xFBF0 | value >> 12 | (value >> 11 & 1) << 10
        return struct.pack("<HH", first, second & 0x8F00 | (value >> 8 & 7) << 12 | value & 0xFF)

    half = Relocation(4, write, lambda content, _: value_of(content) << 16 * high, mask=0xFFFF << 16 * high)
    return replace(half, addend=lambda content: signed(value_of(content), 16))


TYPES: Mapping[str, Mapping[int, Relocation]] = {
    "EM_X86_64": {
        1: _word(8),  # R_X86_64_64
        2: _relative(),  # R_X86_64_PC32
        4: _relative(is_call=True),  # R_X86_64_PLT32
        10: _word(4),  # R_X86_64_32
        11: _word(4),  # R_X86_64_32S
        24: _word(8, relative=True),  # R_X86_64_PC64
    },
    "EM_AARCH64": {
        257: _word(8),  # R_AARCH64_ABS64
        258: _word(4),  # R_AARCH64_ABS32
        261: _word(4, relative=True),  # R_AARCH64_PREL32
        275: _page21(),  # R_AARCH64_ADR_PREL_PG_HI21
        277: _low12(0),  # R_AARCH64_ADD_ABS_LO12_NC
        278: _low12(0),  # R_AARCH64_LDST8_ABS_LO12_NC
        284: _low12(1),  # R_AARCH64_LDST16_ABS_LO12_NC
        285: _low12(2),  # R_AARCH64_LDST32_ABS_LO12_NC
        286: _low12(3),  # R_AARCH64_LDST64_ABS_LO12_NC
        299: _low12(4),  # R_AARCH64_LDST128_ABS_LO12_NC
        282: _branch26(),  # R_AARCH64_JUMP26
        283: _branch26(),  # R_AARCH64_CALL26
    },
    "EM_ARM": {
        2: _word(4),  # R_ARM_ABS32
        3: _word(4, relative=True),  # R_ARM_REL32
        10: _thumb_branch(),  # R_ARM_THM_CALL
        30: _thumb_branch(),  # R_ARM_THM_JUMP24
        28: _arm_branch(),  # R_ARM_CALL
        29: _arm_branch(),  # R_ARM_JUMP24
        38: _word(4),  # R_ARM_TARGET1
        43: _half(high=False),  # R_ARM_MOVW_ABS_NC
        44: _half(high=True),  # R_ARM_MOVT_ABS
        47: _thumb_half(high=False),  # R_ARM_THM_MOVW_ABS_NC
        48: _thumb_half(high=True),  # R_ARM_THM_MOVT_ABS
    },
}
IGNORED = {"EM_ARM": {0, 40}, "EM_X86_64": {0}, "EM_AARCH64": {0}}
"""Relocations that write nothing: R_*_NONE and R_ARM_V4BX."""


def of(machine: str, number: int, where: str) -> Relocation:
    """Return the relocation; RequestError, which names the place, for a type that this version does not know."""
    relocation = TYPES.get(machine, {}).get(number)
    if relocation is None:
        raise RequestError(
            f"{where}: relocation type {number} of {machine} is not known, so its bytes cannot be compared",
            "compile the network for the board without -fPIC, or report this type",
        )
    return relocation
