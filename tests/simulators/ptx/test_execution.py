"""How threads go through a kernel: branches, barriers, calls, memory, and everything that is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.interpreter import Module
from tests.simulators.ptx.operations import Array
from tests.simulators.ptx.texts import kernel

pytestmark = pytest.mark.campaign  # the stand-in itself; what runs on it is tested in make test

AT_THREAD = """
    mul.wide.u32 %rd8, %r1, 4;
    add.s64 %rd8, %rd1, %rd8;
"""
STORE = f"{AT_THREAD}    st.global.u32 [%rd8], %r2;\n"
TILE = "    .shared .align 4 .b8 tile[256];\n"
IN_TILE = """
    mov.u64 %rd4, tile;
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd5, %rd4, %rd5;
"""


def run(text: str, *arguments: Array | int | None, block: int = 32, blocks: int = 1) -> None:
    Module(text).launch("run", (blocks, 1, 1), (block, 1, 1), arguments)


def numbers(body: str, block: int = 32, blocks: int = 1, declarations: str = "", before: str = "") -> list[int]:
    """%r2 of each thread of a block, behind the body."""
    out = np.full(block, 77, np.uint32)
    text = kernel(body + STORE, 1, declarations=declarations, before=before)
    run(text, out, block=block, blocks=blocks)
    return [int(value) for value in out]


def test_threads_part_and_meet() -> None:
    body = """
    and.b32 %r3, %r1, 1;
    setp.eq.s32 %p1, %r3, 0;
    @%p1 bra $even;
    mov.u32 %r2, 100;
    bra.uni $join;
$even:
    mov.u32 %r2, 200;
$join:
    add.s32 %r2, %r2, %r1;
    """
    assert numbers(body) == [(200 if t % 2 == 0 else 100) + t for t in range(32)]
    assert numbers(body.replace("@%p1", "@!%p1")) == [(100 if t % 2 == 0 else 200) + t for t in range(32)]


def test_a_loop_of_another_length_in_each_thread() -> None:
    body = """
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
$again:
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 bra $done;
    add.s32 %r3, %r3, 1;
    add.s32 %r2, %r2, %r3;
    bra.uni $again;
$done:
    """
    assert numbers(body) == [t * (t + 1) // 2 for t in range(32)]


def test_a_loop_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulators.ptx.interpreter.STEPS", 1000)
    with pytest.raises(PtxError, match="no end after 1000 moves"):
        numbers("$again:\n    bra.uni $again;\n    mov.u32 %r2, 0;")


def test_threads_of_many_blocks() -> None:
    body = """
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r1, %r3, %r4, %r1;
    mov.u32 %r2, %nctaid.x;
    add.s32 %r2, %r2, %r1;
    setp.gt.u32 %p1, %r1, 40;
    @%p1 bra $end;
    """
    out = np.zeros(64, np.uint32)
    run(kernel(f"{body}{STORE}$end:", 1), out, block=8, blocks=8)
    assert out.tolist() == [8 + t if t <= 40 else 0 for t in range(64)]


def test_three_dimensions() -> None:
    body = f"""
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    mov.u32 %r4, %ntid.y;
    mad.lo.s32 %r5, %r3, %r4, %r2;
    mov.u32 %r6, %ntid.x;
    mad.lo.s32 %r1, %r5, %r6, %r1;
    {STORE}
    """
    out = np.full(24, 9, np.uint32)
    Module(kernel(body, 1)).launch("run", (1, 1, 1), (2, 3, 4), [out])
    assert out.tolist() == [t // 2 % 3 for t in range(24)]


EXCHANGE = f"""
    {IN_TILE}
    st.shared.u32 [%rd5], %r1;
    bar.sync 0;
    xor.b32 %r3, %r1, 1;
    mul.wide.u32 %rd6, %r3, 4;
    add.s64 %rd6, %rd4, %rd6;
    ld.shared.u32 %r2, [%rd6];
"""


def test_neighbours_exchange_values() -> None:
    assert numbers(EXCHANGE, declarations=TILE) == [t ^ 1 for t in range(32)]


def test_a_thread_far_behind_holds_the_others_at_the_barrier() -> None:
    """Thread 0 counts to 100 first; its neighbour stands at the barrier meanwhile."""
    slow = """
    mov.u32 %r4, 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $ready;
$count:
    add.s32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, 100;
    @%p1 bra $count;
$ready:
    """
    body = slow + EXCHANGE.replace("[%rd5], %r1", "[%rd5], %r4")
    assert numbers(body, declarations=TILE)[:4] == [0, 100, 0, 0]


def test_a_missing_barrier_is_a_race() -> None:
    with pytest.raises(PtxError, match=r"run, PTX line \d+: 'ld.shared.*(nothing wrote|races with)"):
        numbers(EXCHANGE.replace("bar.sync 0;", ""), declarations=TILE)


def test_reading_before_a_barrier_and_writing_behind_none_is_a_race() -> None:
    with pytest.raises(PtxError, match="races with a thread that read there since the last barrier"):
        numbers(f"{EXCHANGE}\n    st.shared.u32 [%rd5], %r1;", declarations=TILE)
    settled = f"{EXCHANGE}\n    bar.sync 0;\n    st.shared.u32 [%rd5], %r1;"
    assert numbers(settled, declarations=TILE) == [t ^ 1 for t in range(32)]


@pytest.mark.parametrize("writer", [0, 15, 31])
def test_a_word_that_all_read_races_with_one_that_writes_it(writer: int) -> None:
    body = f"""
    mov.u64 %rd4, tile;
    setp.ne.u32 %p1, %r1, {writer};
    @%p1 bra $first;
    st.shared.u32 [%rd4], %r1;
$first:
    bar.sync 0;
    ld.shared.u32 %r2, [%rd4];
    @%p1 bra $last;
    st.shared.u32 [%rd4], %r1;
$last:
    """
    with pytest.raises(PtxError, match="races with a thread that read there"):
        numbers(body, declarations=TILE)


READ, WRITE = "ld.shared.u32 %r2, [%rd4+12];", "st.shared.u32 [%rd4+12], %r1;"
READ_FOUR, WRITE_FOUR = (
    "ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4];",
    "st.shared.v4.u32 [%rd4], {%r1, %r1, %r1, %r1};",
)


def one_after_the_other(*accesses: tuple[int, str]) -> str:
    """Accesses by one thread each, between two barriers, of memory that is written before."""
    body = ""
    for number, (thread, access) in enumerate(((3, WRITE_FOUR), *accesses)):
        body += f"    setp.ne.u32 %p1, %r1, {thread};\n    @%p1 bra $after{number};\n    {access}\n$after{number}:\n"
        body += "" if number else "    bar.sync 0;\n"
    return f"    mov.u64 %rd4, tile;\n{body}    bar.sync 0;\n    mov.u32 %r2, 1;\n"


@pytest.mark.parametrize(
    "accesses",
    [
        [(0, READ), (1, WRITE)],
        [(0, WRITE), (1, READ)],
        [(0, WRITE), (1, WRITE)],
        [(0, READ), (1, READ), (1, WRITE)],
        [(0, READ), (1, READ), (0, WRITE)],
        [(0, WRITE_FOUR), (1, READ)],
        [(0, READ_FOUR), (1, WRITE)],
        [(0, WRITE), (1, READ_FOUR)],
        [(0, READ), (1, WRITE_FOUR)],
    ],
)
def test_accesses_that_race(accesses: list[tuple[int, str]]) -> None:
    with pytest.raises(PtxError, match=r"thread \d of block 0 races with"):
        numbers(one_after_the_other(*accesses), declarations=TILE.replace(".align 4", ".align 16"))


@pytest.mark.parametrize(
    "accesses",
    [
        [(0, READ), (1, READ), (0, READ_FOUR)],
        [(0, WRITE), (0, READ), (0, WRITE_FOUR)],
        [(0, WRITE), (1, READ.replace("12", "16")), (1, WRITE.replace("12", "8"))],
    ],
)
def test_accesses_that_do_not_race(accesses: list[tuple[int, str]]) -> None:
    body = one_after_the_other((0, WRITE_FOUR.replace("[%rd4]", "[%rd4+16]")))
    body += one_after_the_other(*accesses).replace("$after", "$then")
    assert numbers(body, declarations=TILE.replace(".align 4", ".align 16")) == [1] * 32


def test_two_writers_of_a_word_race() -> None:
    with pytest.raises(PtxError, match="races with another thread that writes there"):
        numbers("    mov.u64 %rd4, tile;\n    st.shared.u32 [%rd4], %r1;\n    mov.u32 %r2, 0;", declarations=TILE)


def test_blocks_have_each_their_own_shared_memory() -> None:
    """In every block another thread writes the word."""
    body = f"""
    mov.u32 %r3, %ctaid.x;
    mad.lo.s32 %r4, %r3, 100, %r1;
    mov.u32 %r6, %r1;
    xor.b32 %r1, %r1, %r3;
    {IN_TILE}
    st.shared.u32 [%rd5], %r4;
    bar.sync 0;
    ld.shared.u32 %r2, [%rd4+4];
    mad.lo.s32 %r1, %r3, 4, %r6;
    """
    out = np.zeros(12, np.uint32)
    run(kernel(body + STORE, 1, declarations=TILE), out, block=4, blocks=3)
    assert out.tolist() == [1] * 4 + [100] * 4 + [203] * 4


def test_a_block_does_not_read_what_another_wrote() -> None:
    body = """
    mov.u64 %rd4, tile;
    mov.u32 %r3, %ctaid.x;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra $read;
    st.shared.u32 [%rd4], %r3;
$read:
    ld.shared.u32 %r2, [%rd4];
    """
    with pytest.raises(PtxError, match="thread 0 of block 1 reads shared memory that nothing wrote"):
        run(kernel(body, 0, declarations=TILE), block=1, blocks=2)


def test_a_barrier_that_some_threads_never_reach() -> None:
    part = """
    setp.gt.u32 %p1, %r1, 5;
    @%p1 bra $end;
    bar.sync 0;
$end:
    mov.u32 %r2, 0;
    """
    with pytest.raises(PtxError, match=r"'bar.sync 0': 6 of 32 threads of block 0 wait"):
        numbers(part)


def test_two_barriers_for_one_block() -> None:
    part = """
    setp.gt.u32 %p1, %r1, 5;
    @%p1 bra $other;
    bar.sync 0;
    bra.uni $end;
$other:
    bar.sync 0;
$end:
    mov.u32 %r2, 0;
    """
    with pytest.raises(PtxError, match="6 of 32 threads of block 0 wait"):
        numbers(part)


def test_blocks_may_wait_at_different_barriers() -> None:
    body = """
    mov.u32 %r3, %ctaid.x;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra $other;
    bar.sync 0;
    mov.u32 %r2, 5;
    bra.uni $end;
$other:
    bar.sync 0;
    mov.u32 %r2, 6;
$end:
    mad.lo.s32 %r1, %r3, 4, %r1;
    """
    out = np.zeros(8, np.uint32)
    run(kernel(body + STORE, 1), out, block=4, blocks=2)
    assert out.tolist() == [6] * 4 + [5] * 4


def test_a_thread_that_ended_before_a_barrier() -> None:
    with pytest.raises(PtxError, match="31 of 32 threads of block 0 wait"):
        numbers(
            "    setp.eq.u32 %p1, %r1, 3;\n    @!%p1 bra $on;\n    ret;\n$on:\n    bar.sync 0;\n    mov.u32 %r2, 0;"
        )


@pytest.mark.parametrize(
    ("count", "what"), [(31, "thread 31 of block 0 outside of every variable"), (0, "thread 0 of block 0 outside")]
)
def test_an_access_behind_a_buffer(count: int, what: str) -> None:
    out = np.zeros(count, np.uint32)
    with pytest.raises(PtxError, match=rf"run, PTX line \d+: 'st.global.u32 \[%rd8\], %r2': {what}"):
        run(kernel(f"    mov.u32 %r2, 1;{STORE}", 1), out)


def test_an_access_before_a_buffer() -> None:
    out = np.zeros(32, np.uint32)
    with pytest.raises(PtxError, match="thread 0 of block 0 outside"):
        run(kernel("    mov.u32 %r2, 1;" + STORE.replace("[%rd8]", "[%rd8+-4]"), 1), out)
    run(kernel("    mov.u32 %r2, 1;" + STORE.replace("[%rd8]", "[%rd8+0]"), 1), out)
    assert out.all()


def test_an_access_in_the_gap_between_two_buffers() -> None:
    a, b = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    body = f"{AT_THREAD}    mov.u32 %r2, 1;\n    st.global.u32 [%rd8+64], %r2;"
    with pytest.raises(PtxError, match="thread 16 of block 0 outside"):
        run(kernel(body, 2), a, b)


def test_a_load_may_reach_into_the_space_behind_a_variable_that_its_alignment_leaves() -> None:
    """As the compiler reads bytes by four; what stands there is none of them."""
    before = ".global .align 4 .b8 table[7] = {1, 2, 3, 4, 5, 6, 7};"
    body = "    ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, [table+4];\n    cvt.u32.u16 %r2, %rs3;"
    assert numbers(body, before=before) == [7] * 32
    assert numbers(body.replace("%r2, %rs3", "%r2, %rs4"), before=before) == [0xA5] * 32
    for other in (before.replace(".align 4 ", ""), before.replace("[7]", "[4]").replace(", 5, 6, 7", "")):
        with pytest.raises(PtxError, match="thread 0 of block 0 outside"):
            numbers(body, before=other)
    with pytest.raises(PtxError, match="thread 0 of block 0 outside"):
        numbers("    mov.u32 %r2, 0;\n    st.global.u32 [table+4], %r2;", before=before)


def test_a_misaligned_access() -> None:
    with pytest.raises(PtxError, match="thread 0 of block 0 not a multiple of 4"):
        run(kernel("    mov.u32 %r2, 1;" + STORE.replace("[%rd8]", "[%rd8+2]"), 1), np.zeros(40, np.uint32))
    vector = f"{AT_THREAD}    mov.u32 %r2, 1;\n    st.global.v2.u32 [%rd8], {{%r2, %r2}};"
    with pytest.raises(PtxError, match="thread 1 of block 0 not a multiple of 8"):
        run(kernel(vector, 1), np.zeros(40, np.uint32))


def test_a_null_pointer() -> None:
    with pytest.raises(PtxError, match="outside of every variable"):
        run(kernel(f"    mov.u32 %r2, 1;{STORE}", 1), None)
    with pytest.raises(PtxError, match="null pointer"):
        run(kernel("    st.u32 [%rd1], %r1;", 1), None)


def test_shared_memory_is_checked_too() -> None:
    far = EXCHANGE.replace("[%rd6]", "[%rd6+128]")
    with pytest.raises(PtxError, match="thread 0 of block 0 reads shared memory that nothing wrote"):
        numbers(far, declarations=TILE)
    with pytest.raises(PtxError, match="thread 0 of block 0 outside"):
        numbers(EXCHANGE.replace("[%rd6]", "[%rd6+252]"), declarations=TILE)
    with pytest.raises(PtxError, match="less than a word"):
        numbers(EXCHANGE.replace("st.shared.u32", "st.shared.u8"), declarations=TILE)


def test_narrow_loads_and_stores() -> None:
    """Loads extend to the register, stores take its low bits."""
    body = """
    cvt.u64.u32 %rd6, %r1;
    add.s64 %rd7, %rd1, %rd6;
    ld.global.s8 %r2, [%rd7];
    ld.global.u8 %r3, [%rd7];
    ld.global.s8 %rd5, [%rd7];
    mul.wide.u32 %rd8, %r1, 16;
    add.s64 %rd8, %rd2, %rd8;
    st.global.v2.u32 [%rd8], {%r2, %r3};
    st.global.u64 [%rd8+8], %rd5;
    st.global.u8 [%rd8+1], %r2;
    """
    data, out = np.array([0x7F, 0x80, 0xFF], np.uint8), np.zeros((3, 4), np.uint32)
    run(kernel(body), data, out, block=3)
    ones = 0xFFFFFFFF
    assert out.tolist() == [
        [0x7F7F, 0x7F, 0x7F, 0],
        [0xFFFF8080, 0x80, 0xFFFFFF80, ones],
        [0xFFFFFFFF, 0xFF, 0xFFFFFFFF, ones],
    ]


def test_vectors() -> None:
    body = """
    mul.wide.u32 %rd8, %r1, 16;
    add.s64 %rd9, %rd1, %rd8;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd9];
    add.s64 %rd9, %rd2, %rd8;
    st.global.v4.u32 [%rd9], {%r5, %r4, %r3, %r2};
    """
    data, out = np.arange(32, dtype=np.uint32).reshape(8, 4), np.zeros((8, 4), np.uint32)
    run(kernel(body), data, out, block=8)
    assert (out == data[:, ::-1]).all()


def test_generic_addresses_of_different_memory_in_one_access() -> None:
    """Even threads read their number from shared memory, odd ones from a buffer."""
    body = f"""
    {IN_TILE}
    st.shared.u32 [%rd5], %r1;
    bar.sync 0;
    cvta.shared.u64 %rd6, %rd5;
    mul.wide.u32 %rd8, %r1, 4;
    add.s64 %rd7, %rd1, %rd8;
    and.b32 %r3, %r1, 1;
    setp.eq.u32 %p1, %r3, 0;
    selp.b64 %rd9, %rd6, %rd7, %p1;
    ld.u32 %r2, [%rd9];
    add.s32 %r2, %r2, 1;
    st.u32 [%rd9], %r2;
    ld.shared.u32 %r4, [%rd5];
    add.s64 %rd8, %rd2, %rd8;
    st.global.u32 [%rd8], %r4;
    """
    a, out = np.full(32, 1000, np.uint32), np.zeros(32, np.uint32)
    run(kernel(body, declarations=TILE), a, out)
    assert a.tolist() == [1000 + t % 2 for t in range(32)]
    assert out.tolist() == [t + 1 - t % 2 for t in range(32)]


def test_memory_of_each_thread() -> None:
    body = """
    mov.u64 %rd4, depot;
    cvta.local.u64 %rd5, %rd4;
    st.local.u32 [%rd4+4], %r1;
    ld.u32 %r2, [%rd5+4];
    """
    local = "    .local .align 4 .b8 depot[8];\n"
    assert numbers(body, declarations=local) == list(range(32))


PAIR = """
.func (.param .align 4 .b8 pair_result[8]) pair(.param .b32 pair_0, .param .align 8 .b8 pair_1[8])
{
    .reg .pred %p<2>;
    .reg .b16 %rs<2>;
    .reg .b32 %r<6>;
    ld.param.u32 %r1, [pair_0];
    ld.param.s8 %rs1, [pair_0];
    ld.param.v2.u32 {%r2, %r3}, [pair_1];
    cvt.s32.s16 %r4, %rs1;
    setp.gt.u32 %p1, %r1, 10;
    @%p1 bra $large;
    add.s32 %r4, %r2, %r3;
    st.param.b32 [pair_result+0], %r1;
    st.param.b32 [pair_result+4], %r4;
    ret;
$large:
    st.param.b32 [pair_result], %r3;
    st.param.b32 [pair_result+4], %r4;
    ret;
}
"""
CALL = """
    mul.lo.s32 %r3, %r1, 50;
    mov.u32 %r9, 0;
    setp.eq.u32 %p1, %r1, 7;
    @%p1 bra $skip;
    { // callseq 0, 0
    .reg .b32 temp_param_reg;
    .param .b32 param0;
    st.param.b32 [param0+0], %r1;
    .param .align 8 .b8 param1[8];
    st.param.v2.b32 [param1+0], {%r3, %r1};
    .param .align 4 .b8 retval0[8];
    call.uni (retval0),
    pair,
    (
    param0,
    param1
    );
    ld.param.b32 %r8, [retval0+0];
    ld.param.b32 %r9, [retval0+4];
    } // callseq 0
$skip:
    mov.u32 %r2, %r9;
"""


def test_a_call_with_structures() -> None:
    expected = [(51 * t if t <= 10 else t) if t != 7 else 0 for t in range(32)]
    assert numbers(CALL, before=PAIR) == expected
    assert numbers(CALL.replace("mov.u32 %r2, %r9", "mov.u32 %r2, %r3"), before=PAIR) == [50 * t for t in range(32)]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("[param1+0], {%r3, %r1}", "[param1+8], {%r3, %r1}", "reaches out of its parameter"),
        ("st.param.v2.b32 [param1+0], {%r3, %r1};", "st.param.b32 [param1+0], %r3;", "were not written as such"),
        ("st.param.b32 [param0+0]", "st.param.b8 [param0+0]", "reads 32 bits at 0 of pair_0, which were not written"),
        ("b8 param1[8]", "b8 param1[16]", "passes other parameters"),
        ("pair,", "other,", "calls what is not defined before it"),
    ],
)
def test_calls_that_are_refused(old: str, new: str, what: str) -> None:
    assert CALL.count(old) == 1
    with pytest.raises(PtxError, match=what):
        numbers(CALL.replace(old, new), before=PAIR)


def test_a_function_of_which_a_path_gives_no_result() -> None:
    with pytest.raises(PtxError, match="reads a register that nothing wrote"):
        numbers(
            CALL.replace("param0+0], %r1", "param0+0], %r9"),
            before=PAIR.replace("@%p1 bra", "bra").replace("st.param.b32 [pair_result], %r3;", ""),
        )


def test_variables_have_their_first_values_and_keep_the_last() -> None:
    text = kernel(
        f"    ld.global.u32 %r2, [table+4];\n{STORE}    add.s32 %r3, %r2, 1;\n    st.global.u32 [table+8], %r3;",
        1,
        ".global .align 4 .b8 table[12] = {1, 0, 0, 0, 44, 1};\n.global .align 4 .f32 half = 0f3F000000;",
    )
    module, out = Module(text), np.zeros(1, np.uint32)
    module.launch("run", (1, 1, 1), (1, 1, 1), [out])
    assert out.tolist() == [300]
    assert module.globals["table"].view(np.uint32).tolist() == [1, 300, 301]
    assert module.globals["half"].view(np.float32).tolist() == [0.5]
    module.globals["table"].view(np.uint32)[1] = 7
    module.launch("run", (1, 1, 1), (1, 1, 1), [out])
    assert out.tolist() == [7]


def test_wide_registers_for_narrow_parameters() -> None:
    """As the compiler writes a 32-bit count that it uses with 64 bits."""
    text = kernel("    add.s64 %rd3, %rd2, 1;\n    st.global.u64 [%rd1], %rd3;").replace(
        ".param .u64 run_param_1", ".param .u32 run_param_1"
    )
    out = np.zeros(1, np.uint64)
    run(text.replace("ld.param.u64 %rd2", "ld.param.u32 %rd2"), out, 0xFFFFFFFF, block=1)
    assert out.tolist() == [1 << 32]
    with pytest.raises(PtxError, match="does not fit into 32 bits"):
        run(text.replace("ld.param.u64 %rd2", "ld.param.u32 %rd2"), out, 1 << 32, block=1)
    with pytest.raises(PtxError, match="reads run_param_0 otherwise than it is declared"):
        run(text.replace("ld.param.u64 %rd2, [run_param_1]", "ld.param.u32 %r2, [run_param_0+4]"), out, 1, block=1)
    with pytest.raises(PtxError, match="reaches out of its parameter"):
        run(text, out, 1, block=1)


@pytest.mark.parametrize(
    ("instruction", "what"),
    [
        ("fma.rz.f32 %f1, %f2, %f3, %f4;", "is not known"),
        ("mad.rn.f32 %f1, %f2, %f3, %f4;", "is not known"),
        ("add.f32 %f1, %f2, %f3;", "is not known"),
        ("add.rn.ftz.f32 %f1, %f2, %f3;", "is not known"),
        ("add.sat.s32 %r2, %r3, %r4;", "is not known"),
        ("popc.b32 %r2, %r3;", "is not known"),
        ("bar.sync 1;", "another barrier than 0"),
        ("bar.sync 0, 32;", "another barrier than 0"),
        ("add.s32 %rd2, %r3, %r4;", "too large for u32"),
        ("add.s64 %rd2, %r3, %rd4;", "too small for u64"),
        ("add.s32 %r2, %r3;", "not as many operands"),
        ("add.s32 %r2, %r3, %r77;", "%r77, which is unknown"),
        ("mov.u32 %r2, %laneid;", "%laneid, which is unknown"),
        ("mov.u64 %rd2, nowhere;", "nowhere, which is unknown"),
        ("mov.u32 %r2, 4294967296;", "no u32"),
        ("mov.b32 %r2, {%rs1, %rs2};", "no register"),
        ("setp.lt.s32 %r2, %r3, %r4;", "too small for pred|too large for pred"),
        ("ld.global.v2.u32 %r2, [%rd1];", "does not load 2"),
        ("st.global.u32 [%rd1], {%r2, %r3};", "does not store 1"),
        ("@%p1 add.s32 %r2, %r3, %r4;", "under a predicate"),
    ],
)
def test_what_is_refused_before_it_runs(instruction: str, what: str) -> None:
    with pytest.raises(PtxError, match=rf"^run, PTX line \d+: '{re.escape(instruction[:-1])}'.*{what}"):
        Module(kernel(f"    {instruction}"))


def test_a_register_that_nothing_wrote() -> None:
    with pytest.raises(PtxError, match="reads a register that nothing wrote"):
        numbers("    add.s32 %r2, %r3, 1;")


def test_launches_that_are_refused() -> None:
    text = kernel("", 1).replace(")\n{", ")\n.maxntid 16, 2, 1\n{", 1)
    run(text, np.zeros(1, np.uint32), block=32)
    with pytest.raises(PtxError, match="for blocks of"):
        run(text, np.zeros(1, np.uint32), block=33)
    with pytest.raises(PtxError, match="takes 1 arguments, not 2"):
        run(text, None, None)
    with pytest.raises(PtxError, match="argument 0 is not contiguous"):
        run(text, np.zeros((4, 4), np.uint32)[:, 1])
    with pytest.raises(PtxError, match="pair is no kernel"):
        Module(kernel("", 1, PAIR)).launch("pair", (1, 1, 1), (1, 1, 1), [])


def test_a_read_only_buffer_must_not_be_written() -> None:
    data = np.zeros(32, np.uint32)
    data.flags.writeable = False
    with pytest.raises(PtxError, match="argument 0 is read-only"):
        run(kernel(f"    mov.u32 %r2, 1;{STORE}", 1), data)
    run(kernel("", 1), data)
