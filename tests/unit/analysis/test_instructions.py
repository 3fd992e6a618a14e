"""Instructions whose short displacements capstone counts in wrong units; the right ones are those of GNU binutils."""

from __future__ import annotations

import pytest

from harness.analysis.inspection.instructions import Access, Align, Decoder, Load, Move

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


@pytest.mark.parametrize(("code", "to", "source"), [("c4e1fb92c6", "k0", "rsi"), ("c4e1fb93f0", "rsi", "k0")])
def test_a_mask_register_holds_an_address(code: str, to: str, source: str) -> None:
    [instruction] = Decoder("x86-64").decode(bytes.fromhex(code), 0)
    assert instruction.operations == (Move(to, source),)


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


@pytest.mark.parametrize(
    ("machine", "code", "reads", "writes"),
    [
        ("x86-64", "c5f9efc0", set(), {"xmm0"}),  # vpxor xmm0, xmm0, xmm0
        ("x86-64", "c5f22ac1", set(), {"xmm0"}),  # vcvtsi2ss xmm0, xmm1, ecx
        ("x86-64", "660ffec1", {"xmm0", "xmm1"}, {"xmm0"}),  # paddd xmm0, xmm1
        ("x86-64", "c5f877", set(), set()),  # vzeroupper
        ("x86-64", "f3ab", set(), set()),  # rep stosd
        ("x86-64", "f20f1028", set(), {"xmm5"}),  # movsd xmm5, qword ptr [rax]
        ("x86-64", "62d11c08c2c80a", {"xmm12", "xmm8"}, {"k1"}),  # vcmpngtps k1, xmm12, xmm8
        ("x86-64", "62f1652072d701", {"xmm7"}, {"xmm19"}),  # vpsrld ymm19, ymm7, 1
        ("x86-64", "62f27d48580f", set(), {"xmm1"}),  # vpbroadcastd zmm1, dword ptr [rdi]
        ("x86-64", "62f27d49580f", {"xmm1", "k1"}, {"xmm1"}),  # vpbroadcastd zmm1 {k1}, dword ptr [rdi]
        ("x86-64", "62f2550827cf", {"xmm5", "xmm7"}, {"k1"}),  # vptestmd k1, xmm5, xmm7
        ("x86-64", "62d11c0ac2c80a", {"xmm12", "xmm8", "k2"}, {"k1"}),  # vcmpngtps k1 {k2}, xmm12, xmm8
        ("aarch64", "840000b4", set(), set()),  # cbz x4, #0x10
        ("aarch64", "0020004c", {"v0", "v1", "v2", "v3"}, set()),  # st1 {v0.16b, v1.16b, v2.16b, v3.16b}, [x0]
        ("aarch64", "0020404c", set(), {"v0", "v1", "v2", "v3"}),  # ld1 {v0.16b, v1.16b, v2.16b, v3.16b}, [x0]
        ("aarch64", "0084a10e", {"v0", "v1"}, {"v0"}),  # add v0.2s, v0.2s, v1.2s
        ("aarch64", "2094a24e", {"v0", "v1", "v2"}, {"v0"}),  # mla v0.4s, v1.4s, v2.4s
        ("aarch64", "0000034e", {"v0", "v3"}, {"v0"}),  # tbl v0.16b, {v0.16b}, v3.16b
        ("aarch64", "40c8404d", set(), {"v0"}),  # ld1r {v0.4s}, [x2]
    ],
)
def test_registers_of_vectors_are_read_and_written(machine: str, code: str, reads: set[str], writes: set[str]) -> None:
    decoder = Decoder(machine)
    [instruction] = decoder.decode(bytes.fromhex(code), 0)
    assert ({*decoder.register_names(instruction.reads)}, {*decoder.register_names(instruction.writes)}) == (
        reads,
        writes,
    )


@pytest.mark.parametrize(
    ("machine", "code", "plain"),
    [
        ("x86-64", "660fd6c0", True),  # movq xmm0, xmm0
        ("x86-64", "f30fd6c7", False),  # movq2dq xmm0, mm7
        ("x86-64", "8ce0", False),  # mov eax, fs
        ("x86-64", "0fa0", False),  # push fs
        ("x86-64", "64488b042528000000", False),  # mov rax, qword ptr fs:[0x28]
    ],
)
def test_other_state_of_the_processor_is_not_plain(machine: str, code: str, plain: bool) -> None:
    [instruction] = Decoder(machine).decode(bytes.fromhex(code), 0)
    assert instruction.plain == plain


@pytest.mark.parametrize(("machine", "code", "bits"), [("x86-64", "4883e7f8", 3), ("aarch64", "42e47a92", 6)])
def test_a_mask_of_the_lowest_bits_rounds(machine: str, code: str, bits: int) -> None:
    [instruction] = Decoder(machine).decode(bytes.fromhex(code), 0)
    assert [each.bits for each in instruction.operations if isinstance(each, Align)] == [bits]


def test_a_byte_in_memory_is_compared_alone() -> None:
    [instruction] = Decoder("x86-64").decode(bytes.fromhex("807dcc00"), 0)  # cmp byte ptr [rbp - 0x34], 0
    assert [each.size for each in instruction.operations if isinstance(each, Access)] == [1]


def test_equal_code_at_another_place_has_its_own_address_and_target() -> None:
    first, second, call, other = Decoder("x86-64").decode(bytes.fromhex("90" * 2 + "e800000000" * 2), 0)
    assert (first.address, second.address) == (0, 1)
    assert (call.target, other.target) == (7, 12)


def test_an_operand_in_memory_that_is_changed_is_read() -> None:
    [instruction] = Decoder("x86-64").decode(bytes.fromhex("83060a"), 0)  # add dword ptr [rsi], 0xa
    assert [each.write for each in instruction.operations if isinstance(each, Access)] == [False, True]
