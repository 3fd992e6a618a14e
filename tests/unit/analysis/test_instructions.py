"""Instructions whose short displacements capstone counts in wrong units; the right ones are those of GNU binutils."""

from __future__ import annotations

import pytest

from harness.analysis.inspection.instructions import Access, Decoder, Load

CASES = [
    ("62e1fd087e5c2457", 0x2B8, 8),  # vmovq to memory, from xmm19
    ("62f1fd087e5c2404", 0x20, 8),
    ("62f1fd087e5c24ff", -8, 8),
    ("62e1fd087e9c2400010000", 0x100, 8),  # a displacement of four bytes
    ("62e1fd08d65c2457", 0x2B8, 8),  # vmovq with the other operation code
    ("62f17d087e5c2457", 0x15C, 4),  # vmovd
    ("62f57d087e5c2457", 0xAE, 2),  # vmovw
]


@pytest.mark.parametrize(("code", "offset", "size"), CASES)
def test_a_vector_register_is_stored_at_the_right_place(code: str, offset: int, size: int) -> None:
    [instruction] = Decoder("x86-64").decode(bytes.fromhex(code), 0)
    [access] = [each for each in instruction.operations if isinstance(each, Access)]
    assert (access.memory.base, access.memory.offset, access.size, access.write) == ("sp", offset, size, True)


def test_a_vector_register_is_loaded_from_the_right_place() -> None:
    [instruction] = Decoder("x86-64").decode(bytes.fromhex("62f1fd086e5c2457"), 0)
    [load] = [each for each in instruction.operations if isinstance(each, Load)]
    assert (load.to, load.memory.offset) == ("xmm3", 0x2B8)


@pytest.mark.parametrize(
    ("code", "loads"),
    [
        ("6ba540a9", [("x9", "x11", 16), ("x11", "x11", 8)]),  # ldp x11, x9, [x11, #8]
        ("69ad40a9", [("x9", "x11", 8), ("x11", "x11", 16)]),  # ldp x9, x11, [x11, #8]
    ],
)
def test_a_pair_is_loaded_from_the_base_before_it_changes(code: str, loads: list[tuple[str, str, int]]) -> None:
    [instruction] = Decoder("aarch64").decode(bytes.fromhex(code), 0)
    found = [each for each in instruction.operations if isinstance(each, Load)]
    assert [(each.to, each.memory.base, each.memory.offset) for each in found] == loads


def test_a_trap_ends_a_function() -> None:
    [instruction] = Decoder("aarch64").decode(bytes.fromhex("007d20d4"), 0)  # brk #0x3e8
    assert (instruction.flow, instruction.plain) == ("stop", True)
