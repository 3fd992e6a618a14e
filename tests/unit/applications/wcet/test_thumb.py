"""Each integer instruction of Thumb-2, as an abstract execution follows it, against an emulated processor."""

from __future__ import annotations

import itertools
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from harness.applications.wcet import thumb
from harness.applications.wcet.state import Flags, State
from harness.applications.wcet.values import NotAffineError, Value

CODES = {"eq": 0, "ne": 1, "hs": 2, "lo": 3, "mi": 4, "pl": 5, "vs": 6, "vc": 7, "hi": 8, "ls": 9, "ge": 10, "lt": 11}
CODES |= {"gt": 12, "le": 13}
NUMBERS = [
    0,
    1,
    2,
    3,
    31,
    32,
    0x7F,
    0x80,
    0xFFFF,
    0x12345678,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFF80,
    0xFFFFFFFF,
]
INSTRUCTIONS = (
    """
adds r0, r1, r2|add r0, r1, r2, lsl #3|adds r0, #200|addw r0, r1, #4095|subs r0, r1, r2|sub r0, r1, r2, asr #4
subs r0, #1|subw r0, r1, #4095|rsbs r0, r1, #0|rsb r0, r1, r2, lsl #7|rsbs r0, r1, #255|adcs r0, r1, r2|sbcs r0, r1, r2
ands r0, r1, r2|and r0, r1, #0xff00|bics r0, r1, r2|bic r0, r1, #3|orrs r0, r1, r2|orr r0, r1, r2, ror #5|orn r0, r1, r2
eors r0, r1, r2|mov r0, r1|movs r0, #0|movw r0, #0xabcd|movt r0, #0x1234|mvns r0, r1|mvn r0, #0x7f
lsls r0, r1, #3|lsrs r0, r1, #5|asrs r0, r1, #31|ror r0, r1, #9|lsl r0, r1, r2|lsr r0, r1, r2|asr r0, r1, r2
cmp r1, r2|cmp r1, #16|cmn r1, r2|cmn r1, #1|tst r1, r2|tst r1, #3|teq r1, r2
mul r0, r1, r2|mla r0, r1, r2, r3|mls r0, r1, r2, r3|umull r0, r3, r1, r2|smull r0, r3, r1, r2|umlal r0, r3, r1, r2
smlal r0, r3, r1, r2|udiv r0, r1, r2|sdiv r0, r1, r2|ubfx r0, r1, #5, #9|sbfx r0, r1, #3, #8|bfi r0, r1, #7, #6
bfc r0, #4, #20|uxtb r0, r1|uxth r0, r1|sxtb r0, r1|sxth r0, r1|clz r0, r1|rev r0, r1|rbit r0, r1
it eq; moveq r0, r1|it lt; addlt r0, r1, #3|it hi; subhi r0, r1, r2|it pl; mvnpl r0, r1
ite ge; movge r0, r1; movlt r0, r2
""".strip()
    .replace("\n", "|")
    .split("|")
)

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-arm") is None or shutil.which("arm-none-eabi-gcc") is None,
    reason="qemu-arm or arm-none-eabi-gcc is not on this machine: apt-get install qemu-user gcc-arm-none-eabi",
)
ROW = struct.Struct("<5I")
"""r0 to r3 and the flags, before and after."""
PROGRAM = """
.syntax unified
.arch armv7ve
.thumb
.global _start
.thumb_func
_start:
{blocks}
    mov r0, #1
    ldr r1, =rows
    ldr r2, ={size}
    mov r7, #4
    svc 0
    mov r0, #0
    mov r7, #1
    svc 0
    .ltorg
.data
rows:
{rows}
"""
BLOCK = """
    ldr r12, =rows + {start}
    mov r11, #{count}
1:  ldr r4, [r12, #16]
    msr apsr_nzcvq, r4
    ldm r12, {{r0, r1, r2, r3}}
begin_{index}:
    {instruction}
end_{index}:
    mrs r4, apsr
    stm r12!, {{r0, r1, r2, r3, r4}}
    subs r11, #1
    bne 1b
    b 2f
    .ltorg
2:
"""


def inputs() -> list[tuple[int, int, int, int, int]]:
    pairs = itertools.product(NUMBERS, NUMBERS)
    return [(0x13579BDF, a, b, b ^ 0x55, (index % 16) << 28) for index, (a, b) in enumerate(pairs)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that executes each instruction with all inputs, and writes what they become."""
    folder, given = tmp_path_factory.mktemp("thumb"), inputs()
    size = ROW.size * len(given)
    blocks = [
        BLOCK.format(index=index, start=index * size, count=len(given), instruction=instruction.replace("; ", "\n    "))
        for index, instruction in enumerate(INSTRUCTIONS)
    ]
    rows = "\n".join(f".word {', '.join(map(str, row))}" for row in given)
    text = PROGRAM.format(blocks="".join(blocks), rows="\n".join([rows] * len(blocks)), size=size * len(blocks))
    (folder / "program.s").write_text(text)
    flags = ["-nostdlib", "-static", "-mthumb", "-march=armv7ve", "-Wl,-Ttext=0x10000"]
    subprocess.run(["arm-none-eabi-gcc", *flags, "program.s", "-o", "program"], cwd=folder, check=True)
    return folder / "program"


@pytest.fixture(scope="module")
def observed(program: Path) -> dict[str, list[tuple[int, ...]]]:
    """Registers and flags after each instruction, for all inputs."""
    done = subprocess.run(["qemu-arm", str(program)], capture_output=True, check=True)
    values, count = list(ROW.iter_unpack(done.stdout)), len(inputs())
    assert len(values) == len(INSTRUCTIONS) * count
    return {name: values[index * count :][:count] for index, name in enumerate(INSTRUCTIONS)}


@pytest.fixture(scope="module")
def code(program: Path) -> dict[str, bytes]:
    """The machine code of each instruction in the program."""
    with program.open("rb") as file:
        elf = ELFFile(file)
        text = elf.get_section_by_name(".text")
        places = {symbol.name: symbol["st_value"] & ~1 for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
        start, content = text["sh_addr"], text.data()
    spans = [(places[f"begin_{index}"] - start, places[f"end_{index}"] - start) for index in range(len(INSTRUCTIONS))]
    return {name: content[begin:end] for name, (begin, end) in zip(INSTRUCTIONS, spans, strict=True)}


class NoMemory:
    """Memory that no instruction of this test accesses."""

    def load(self, state: State, address: Value, size: int) -> Value:
        raise AssertionError(state, address, size)

    def store(self, state: State, address: Value, size: int, value: Value) -> None:
        raise AssertionError(state, address, size, value)


def executed(content: bytes, given: tuple[int, ...]) -> State:
    *registers, flags = given
    state = State([*registers, *[0] * (thumb.ZERO + 1 - len(registers))], Flags("nzcv", flags >> 28, 0, 32), {})
    for step in thumb.steps(content, 0x1000):
        if step.action:
            step.action(state, NoMemory())
    return state


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_an_instruction_does_what_the_processor_does(
    instruction: str, observed: dict[str, list[tuple[int, ...]]], code: dict[str, bytes]
) -> None:
    decided = 0
    for given, after in zip(inputs(), observed[instruction], strict=True):
        state = executed(code[instruction], given)
        assert tuple(state.registers[:4]) == after[:4], (instruction, [hex(value) for value in given])
        for name, number in CODES.items():
            try:
                holds = thumb._condition(name)(state)
            except NotAffineError:
                continue
            decided += 1
            assert holds is condition_holds(number, after[4] >> 28), (
                instruction,
                name,
                [hex(value) for value in given],
            )
    carries = instruction.split(maxsplit=1)[0] in {"adcs", "sbcs"}
    assert decided >= (0 if carries else 4) * len(inputs()), "equality and sign follow from every result"


def condition_holds(number: int, flags: int) -> bool:
    """Return whether a condition holds, as the manual of the architecture defines its number."""
    negative, zero, carry, overflow = (bool(flags >> bit & 1) for bit in (3, 2, 1, 0))
    is_less = negative != overflow
    even = [zero, carry, negative, overflow, carry and not zero, not is_less, not zero and not is_less]
    return even[number // 2] is not bool(number % 2)
