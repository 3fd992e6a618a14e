"""Decode machine code into few operations on registers and memory, the same for x86-64 and aarch64."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import capstone
from capstone import arm64, x86

POINTER_BYTES = 8
MASK = 0xFFFFFFFFFFFFFFFF
STACK = "sp"  # the name of the stack pointer on both machines
UNKNOWN = "?"  # a register of which nothing is known
TEMPORARY = "temporary"  # between two operations of one instruction


@dataclass(frozen=True)
class Memory:
    """An operand in memory: base register, none for a fixed address, index register, displacement."""

    base: str | None
    index: str | None
    scale: int
    offset: int
    segment: bool = False

    @property
    def terms(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the registers that are added, and those that are multiplied before."""
        plain = (self.base,) if self.base else ()
        if not self.index:
            return plain, ()
        return ((*plain, self.index), ()) if self.scale == 1 else (plain, (self.index,))


@dataclass(frozen=True)
class Move:
    """A register takes the value of another; `kept` is true where it may also keep its own."""

    to: str
    source: str
    kept: bool = False


@dataclass(frozen=True)
class Number:
    """A register takes a constant."""

    to: str
    value: int


@dataclass(frozen=True)
class Address:
    """A register takes an address that the instruction holds, or the upper bits of one."""

    to: str
    value: int
    page: bool = False


@dataclass(frozen=True)
class Sum:
    """A register takes a sum of registers and a constant; an `index` is scaled, and `minus` is subtracted."""

    to: str
    terms: tuple[str, ...]
    index: tuple[str, ...]
    value: int
    minus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Align:
    """A register takes another's value with its lowest `bits` cleared."""

    to: str
    source: str
    bits: int


@dataclass(frozen=True)
class Load:
    """A register takes 8 bytes of memory."""

    to: str
    memory: Memory


@dataclass(frozen=True)
class Access:
    """Memory is read or written; `source` is the register that is stored whole, if one is."""

    memory: Memory
    write: bool
    size: int
    source: str | None = None


@dataclass(frozen=True)
class Other:
    """Registers take results of which nothing is known, computed from others."""

    written: tuple[str, ...]
    used: tuple[str, ...]


@dataclass(frozen=True)
class Compare:
    """Registers decide what is done next; by their `difference`, which has 8 bytes, or by each of them."""

    used: tuple[str, ...]
    difference: bool = False


Operation = Compare | Move | Number | Address | Sum | Align | Load | Access | Other


@dataclass(frozen=True)
class Instruction:
    """One instruction: `flow` is empty, jump, branch, call, return or stop; a target of None is not in its code.

    `plain` is whether the instruction computes from registers and memory alone.  `reads` and `writes` are its registers
    as bits of a number, as `Decoder.register_names` names them; those of which it replaces a part are among `reads`.
    """

    address: int
    size: int
    text: str
    operations: tuple[Operation, ...]
    flow: str = ""
    target: int | None = None
    through: Memory | None = None
    plain: bool = True
    reads: int = 0
    writes: int = 0

    @property
    def written(self) -> frozenset[str]:
        """Return the registers that it changes, those that a callee changes excluded."""
        found: set[str] = set()
        for operation in self.operations:
            if isinstance(operation, Other):
                found.update(operation.written)
            elif not isinstance(operation, Access | Compare):
                found.add(operation.to)
        return frozenset(found)

    @property
    def words(self) -> str:
        """Return the instruction with its address."""
        return f"{self.text} at {self.address:#x}"


@dataclass(frozen=True)
class Convention:
    """The registers that hold a function's arguments, and those that a call may change.

    `by_linker` are those that the call, or code of the linker on its way, may change.
    `result` takes what a function returns; `in_memory` holds the address for it where no argument does.
    Further arguments lie in the caller's frame, `above` bytes above the stack pointer with which the callee starts.
    """

    above: int
    arguments: tuple[str, ...]
    result: str
    changed: frozenset[str]
    by_linker: frozenset[str]
    registers: tuple[str, ...]
    in_memory: tuple[str, ...] = ()


class Decoder:
    """Decode the code of one machine."""

    def __init__(self, machine: str) -> None:
        self._x86 = machine == "x86-64"
        if self._x86:
            self._capstone = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        else:
            self._capstone = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
        self._capstone.detail = True
        self._names: dict[int, str] = {}
        self._classes: dict[int, str] = {}
        self._bits: dict[str, int] = {}
        self._translations: dict[bytes, Instruction] = {}
        self.convention = X86_CONVENTION if self._x86 else ARM_CONVENTION

    def decode(self, content: bytes, address: int) -> Iterator[Instruction]:
        """Decode instructions up to the first invalid one."""
        done = 0
        while True:
            for raw in self._capstone.disasm(content[done:], address + done):
                yield self._instruction(raw, content[done : done + raw.size])
                done += raw.size
            unknown = content[done : done + 15] if self._x86 else b""
            similar = _like_vpshufb(unknown) or _like_vmovd(unknown)
            known = next(self._capstone.disasm(similar, address + done, 1), None)
            if known is None:
                return
            translated = self._translated(known)
            yield translated if similar[0] == 0xC4 or not _is_short(similar) else _with_units(translated, 4, 2)
            done += known.size

    def whole(self, register: str) -> str:
        """Return the name of the whole register, as instructions have it in their text; an empty one for zero."""
        return _whole_x86(register) if self._x86 else _whole_arm(register)

    def width(self, register: str) -> int:
        """Return the bits of a general register that its name stands for; 8 for all below 32."""
        if not self._x86:
            return 32 if register.startswith("w") else 64
        return _x86_width(register)

    def _register(self, number: int) -> str:
        """Return the name of the whole register; an empty one for none."""
        name = self._names.get(number)
        if name is None:
            short = self._capstone.reg_name(number) or ""
            name = _whole_x86(short) if self._x86 else _whole_arm(short)
            self._names[number] = name
        return name

    def _class(self, number: int) -> str:
        """Return whether a register of x86-64 is general, a vector or a mask, or holds other state of the processor."""
        if number not in self._classes:
            name = self._capstone.reg_name(number)
            other = "state" if _X86_STATE.fullmatch(name) else "general"
            self._classes[number] = "vector" if _X86_VECTOR.fullmatch(name) else other
        return self._classes[number]

    def register_names(self, bits: int) -> list[str]:
        """Return the names of the registers in a number of `reads` or `writes`."""
        return [name for name, bit in self._bits.items() if bits & bit]

    def bits(self, names: Iterable[str]) -> int:
        """Return the registers as the bits of a number."""
        return sum(self._bits.setdefault(name, 1 << len(self._bits)) for name in {*names})

    def _instruction(self, raw: Any, code: bytes) -> Instruction:
        """Return the translation; equal code that does not depend on its place is translated once."""
        known = self._translations.get(code)
        if known is not None:
            return dataclasses.replace(known, address=raw.address)
        found = self._translated(raw)
        if not found.flow and not _RELATIVE.match(found.text):
            self._translations[code] = found
        return found

    def _translated(self, raw: Any) -> Instruction:
        """Return the translation with the registers that the instruction reads and writes."""
        access = raw.regs_access()
        read, written = ({*filter(_TRACKED.fullmatch, map(self._register, registers))} for registers in access)
        registers = [operand for operand in raw.operands if operand.type == x86.X86_OP_REG]  # the number of both
        names = [self._register(operand.reg) for operand in registers]
        if not any(operand.access for operand in registers):  # of an instruction that capstone only names
            read, written = {*filter(_TRACKED.fullmatch, names)}, {*filter(_TRACKED.fullmatch, names[:1])}
            # A mask keeps elements of the destination.
            if _ONLY_NAMED.fullmatch(raw.mnemonic) and "{k" not in raw.op_str:
                read -= written - {*names[1:]}
        corrected = self._x86_access if self._x86 else self._arm_access
        read, written = corrected(raw, names, read, written)
        instruction = self._x86_instruction(raw) if self._x86 else self._arm_instruction(raw)
        return dataclasses.replace(instruction, reads=self.bits(read), writes=self.bits(written))

    def _x86_access(
        self, raw: Any, names: Sequence[str], read: set[str], written: set[str]
    ) -> tuple[set[str], set[str]]:
        """Return the registers that an x86-64 instruction reads and writes, where capstone states others."""
        if names and names[0].startswith("k") and _INTO_MASK.match(raw.mnemonic):  # capstone knows none, or wrong ones
            read, written = {*filter(_TRACKED.fullmatch, names[1:])}, {names[0]}
        if len(names) > 1 and len({*names}) == 1 and _INDEPENDENT.match(raw.mnemonic):
            read = read - {*names}
        if _KEEPS_UPPER.match(raw.mnemonic) and len(raw.operands) > 2:
            read = read - ({names[1]} - {*names[2:]})  # whose upper elements alone are read
        if (_X86_STRING.search(raw.mnemonic) and not written & _X86_VECTORS) or raw.mnemonic == "vzeroupper":
            read, written = read - {"rflags"}, set()
        return read, written

    def _arm_access(
        self, raw: Any, names: Sequence[str], read: set[str], written: set[str]
    ) -> tuple[set[str], set[str]]:
        """Return the registers that an aarch64 instruction reads and writes, where capstone states others."""
        if len(names) > 1 and len({*names}) == 1 and _INDEPENDENT.match(raw.mnemonic):
            read = read - {*names}
        if raw.mnemonic.startswith(("ld", "st")):  # of structures capstone knows some registers
            vectors = {*filter(_TRACKED.fullmatch, names)}
            read = vectors if raw.mnemonic.startswith("st") or "}[" in raw.op_str else set()
            written = vectors - read if raw.mnemonic.startswith("st") else vectors
        keeps = _ARM_KEEPS.fullmatch(raw.mnemonic) or "[" in raw.op_str.partition(",")[0]
        if names[:1] == [*written] and not keeps:  # capstone says of some that they read it
            read = read - ({*names[:1]} - {*names[1:]})
        if re.match("[ct]bn?z", raw.mnemonic):  # capstone says that they read the flags
            read = set()
        return read, written

    def _accessed(self, raw: Any) -> tuple[set[str], set[str]]:
        """Return the general registers that an instruction reads, and those that it writes."""
        read, written = ({*map(self._register, registers)} & GENERAL for registers in raw.regs_access())
        return read, written

    # x86-64

    def _x86_memory(self, instruction: Any, operand: Any) -> Memory:
        memory = operand.mem
        base = self._register(memory.base) if memory.base else None
        index = self._register(memory.index) if memory.index else None
        if base == "rip":
            return Memory(None, index, memory.scale, instruction.address + instruction.size + memory.disp)
        return Memory(base, index, memory.scale, memory.disp, segment=memory.segment in _SEGMENTS)

    def _x86_instruction(self, raw: Any) -> Instruction:
        operands = raw.operands
        prefix, _, name = raw.mnemonic.rpartition(" ")
        memories = [self._x86_memory(raw, operand) for operand in operands if operand.type == x86.X86_OP_MEM]
        registers = [operand.reg for operand in operands if operand.type == x86.X86_OP_REG]
        classes = {*map(self._class, registers)}
        vector = "vector" in classes
        known = _is_plain(name) or (vector and name not in _X86_WRITES_AT_RDI)
        plain = known and prefix != "lock" and "state" not in classes and not any(memory.segment for memory in memories)
        whole = bool(operands) and operands[0].size == POINTER_BYTES
        kinds = "".join(_KIND.get(operand.type, "?") for operand in operands)
        names = [self._register(register) for register in registers]
        given = _Given(raw, name, kinds, names, memories, whole, vector=vector)
        text = f"{raw.mnemonic} {raw.op_str}".strip()
        if name in _X86_FLOW or name.startswith("j"):
            return _x86_flow(Instruction(raw.address, raw.size, text, (), plain=plain), given)
        instruction = Instruction(raw.address, raw.size, text, tuple(self._x86_operations(given)), plain=plain)
        return _with_units(instruction, 16, 8) if _is_long_vmovq(raw.bytes) else instruction

    def _x86_operations(self, given: _Given) -> Iterator[Operation]:
        name = given.name
        if name.startswith(("nop", "endbr", "prefetch")) or name.endswith("fence"):
            return
        if name in {"push", "pop", "leave"}:
            yield from _x86_stack(given)
        elif _X86_STRING.fullmatch(name) and not given.vector:
            yield from _x86_string(given)
        elif name in {"cmp", "test"}:
            other = [TEMPORARY] if given.whole and (given.memories or given.kinds == "ri") else []
            for memory in given.memories:
                yield Load(TEMPORARY, memory) if given.whole else Access(memory, False, given.raw.operands[0].size)
            if given.whole and given.kinds == "ri":
                yield Number(TEMPORARY, given.number(1) & MASK)
            yield Compare((*given.registers, *other), difference=name == "cmp" and given.whole)
        else:
            simple = _x86_move(given) or _x86_arithmetic(given)
            yield from simple or self._x86_rest(given)

    def _x86_rest(self, given: _Given) -> Iterator[Operation]:
        for index, memory in enumerate(given.memories):
            write = index == 0 and given.kinds.startswith("m") and not _X86_ONLY_READS.fullmatch(given.name)
            if write and _X86_MODIFIES.fullmatch(given.name):
                yield Access(memory, False, given.raw.operands[0].size)
            yield Access(memory, write, given.raw.operands[given.kinds.index("m")].size)
        first = {*given.registers[:1]} if given.kinds.startswith("r") else set()
        vectors = _X86_VECTORS if given.name == "vzeroall" else first & _X86_VECTORS
        operands = (operand for operand in given.raw.operands if operand.type == x86.X86_OP_REG)
        accesses = zip(given.registers, operands, strict=True)
        sources = {register for register, each in accesses if each.access & capstone.CS_AC_READ}
        if given.vector and not {*given.registers} & GENERAL and "str" not in given.name:
            yield Other(tuple(vectors), tuple(sources & _X86_VECTORS))
            return
        read, written = self._accessed(given.raw)
        if given.kinds.startswith("r") and given.name not in _X86_KEEPS:
            written.add(given.registers[0])
        of_memory = {part for memory in given.memories for part in (memory.base, memory.index)}
        used = read - (of_memory - sources) | sources & _X86_VECTORS
        if given.name == "sbb" and len(sources) == 1:
            used = set()  # of the carry alone
        yield Other(tuple(written & GENERAL | vectors), tuple(used))

    # aarch64

    def _arm_instruction(self, raw: Any) -> Instruction:
        name, operands = raw.mnemonic, raw.operands
        short = [self._capstone.reg_name(each.reg) for each in operands if each.type == arm64.ARM64_OP_REG]
        vector = any(_ARM_VECTOR.fullmatch(each) for each in short)
        plain = bool(_ARM_PLAIN.fullmatch(name)) or (vector and name not in {"msr", "mrs"})
        memories = [self._arm_memory(each) for each in operands if each.type == arm64.ARM64_OP_MEM]
        kinds = "".join(_ARM_KIND.get(operand.type, "?") for operand in operands)
        given = _Given(raw, name, kinds, [_whole_arm(each) for each in short], memories, _is_whole(short), short)
        instruction = Instruction(raw.address, raw.size, f"{name} {raw.op_str}".strip(), (), plain=plain)
        flow = _ARM_FLOW.get(name, "branch" if name.startswith("b.") else "")
        if flow:
            target = next((each.imm for each in reversed(operands) if each.type == arm64.ARM64_OP_IMM), None)
            tested = (Compare(tuple(given.registers)),) if flow == "branch" else ()
            return dataclasses.replace(instruction, flow=flow, target=target, operations=tested)
        return dataclasses.replace(instruction, operations=tuple(self._arm_operations(given)))

    def _arm_memory(self, operand: Any) -> Memory:
        memory = operand.mem
        index = self._register(memory.index) if memory.index else None
        return Memory(self._register(memory.base), index, 2 if operand.shift.type else 1, memory.disp)

    def _arm_operations(self, given: _Given) -> Iterator[Operation]:
        name = given.name
        if name in _ARM_NOTHING or name.startswith("prf"):
            return
        if given.memories:
            yield from _arm_access(given)
        elif name.startswith("ldr"):  # a constant after the code
            yield Access(Memory(None, None, 1, given.raw.operands[1].imm), False, POINTER_BYTES)
            yield Other(tuple({*given.registers} & GENERAL), ())
        elif name in {"cmp", "cmn", "tst", "ccmp", "ccmn"}:
            shifted = given.raw.operands[1].shift.type or given.raw.operands[1].ext
            yield Compare(tuple(given.registers), name in {"cmp", "ccmp"} and given.whole and not shifted)
        else:
            simple = _arm_move(given) or _arm_sum(given)
            yield from simple or self._arm_rest(given)

    def _arm_rest(self, given: _Given) -> Iterator[Operation]:
        _, written = self._accessed(given.raw)
        used = given.registers if given.name in _ARM_CHANGES else given.registers[1:]
        yield Other(tuple({*written, *given.registers[:1]} & GENERAL), tuple({*used} & GENERAL))


@dataclass(frozen=True)
class _Given:
    """An instruction as capstone has it, its operands' kinds (r, i, m), their whole registers and memory.

    `whole` is whether the first operand has 8 bytes; `short` names the registers as they are written.
    """

    raw: Any
    name: str
    kinds: str
    registers: list[str]
    memories: list[Memory]
    whole: bool
    short: Sequence[str] = ()
    vector: bool = False

    def number(self, index: int) -> int:
        """Return the constant operand with this index."""
        return int(self.raw.operands[index].imm)


@functools.cache
def _is_plain(name: str) -> bool:
    return bool(_X86_PLAIN.fullmatch(name))


def _x86_flow(found: Instruction, given: _Given) -> Instruction:
    flow = _X86_FLOW.get(given.name, "branch")
    direct = given.kinds.startswith("i") and flow not in {"return", "stop"}
    return dataclasses.replace(
        found,
        operations=tuple(Access(memory, False, POINTER_BYTES) for memory in given.memories),
        flow=flow,
        target=given.number(0) if direct else None,
        through=given.memories[0] if given.memories else None,
    )


def _x86_stack(given: _Given) -> Iterator[Operation]:
    top, register = Memory(STACK, None, 1, 0), next(iter(given.registers), "")
    if given.name == "leave":
        yield Move(STACK, "rbp")
        yield Load("rbp", top)
        yield Sum(STACK, (STACK,), (), POINTER_BYTES)
    elif given.name == "pop":
        yield Load(register, top) if register else Access(given.memories[0], True, POINTER_BYTES)
        yield Sum(STACK, (STACK,), (), POINTER_BYTES)
    else:
        load = [Load(TEMPORARY, memory) for memory in given.memories]
        yield from load
        yield Sum(STACK, (STACK,), (), -POINTER_BYTES)
        yield Access(top, True, POINTER_BYTES, TEMPORARY if load else register or None)


def _x86_string(given: _Given) -> Iterator[Operation]:
    """Yield the accesses of a string instruction, which may be repeated: its pointers stay in their objects."""
    for index, memory in enumerate(given.memories):
        write = index == 0 and given.name.startswith(("movs", "stos"))
        yield Access(dataclasses.replace(memory, index=UNKNOWN, scale=2), write, 1)
    pointers = sorted({str(memory.base) for memory in given.memories})
    yield from (Sum(base, (base,), (UNKNOWN,), 0) for base in pointers)
    yield Other(("rcx", "rax") if given.name.startswith("lods") else ("rcx",), ())


def _x86_move(given: _Given) -> list[Operation]:
    """Return the operations that copy, load or store a whole register, or a constant; none for other instructions."""
    name, kinds = given.name, given.kinds
    if name.startswith("cmov") and kinds == "rr" and given.whole:
        return [Move(given.registers[0], given.registers[1], kept=True)]
    if _X86_VECTOR_MOVE.fullmatch(name) and len(kinds) == 2:
        return _x86_vector_move(given)
    if name not in {"mov", "movabs"}:
        return []
    if kinds == "ri" and given.raw.operands[0].size >= 4:
        return [Number(given.registers[0], given.number(1) & MASK)]
    if not given.whole or not {*given.registers} <= GENERAL:
        return []
    first = given.registers[0] if given.registers else ""
    moves: dict[str, Callable[[], Operation]] = {
        "rr": lambda: Move(first, given.registers[1]),
        "rm": lambda: Load(first, given.memories[0]),
        "mr": lambda: Access(given.memories[0], True, POINTER_BYTES, first),
        "mi": lambda: Access(given.memories[0], True, POINTER_BYTES, TEMPORARY),
    }
    constant = [Number(TEMPORARY, given.number(1) & MASK)] if kinds == "mi" else []
    return [*constant, moves[kinds]()] if kinds in moves else []


def _x86_vector_move(given: _Given) -> list[Operation]:
    """Return the copy of a whole register in or out of a vector or mask register, where compilers keep addresses."""
    name, kinds, registers = given.name, given.kinds, given.registers
    if kinds == "rr" and (name.endswith("movq") or {*registers} <= _X86_VECTORS):
        return [Move(registers[0], registers[1])]
    if not name.endswith("movq") or not {*registers} <= _X86_VECTORS:
        return []
    load = kinds == "rm"
    return [Load(registers[0], given.memories[0]) if load else Access(given.memories[0], True, 8, registers[0])]


def _x86_arithmetic(given: _Given) -> list[Operation]:
    """Return the addition that an instruction is, on whole registers; nothing for others."""
    name, kinds = given.name, given.kinds
    to = given.registers[0] if kinds.startswith("r") else ""
    if name == "lea":
        return [_x86_lea(to, given)]
    if name in {"xor", "sub"} and kinds == "rr" and given.raw.operands[0].reg == given.raw.operands[1].reg:
        return [Number(to, 0)] if given.raw.operands[0].size >= 4 else []
    if not given.whole or not to:
        return _x86_sum_in_memory(given) if given.whole and name in {"inc", "dec", "add", "sub"} else []
    constant = _x86_constant(given)
    if constant is not None:
        return [Sum(to, (to,), (), constant)]
    if name not in {"add", "sub", "neg"}:
        return _align(to, to, given.number(1)) if name == "and" and kinds == "ri" else []
    load = [Load(TEMPORARY, given.memories[0])] if kinds == "rm" else []
    first, other = ((), to) if name == "neg" else ((to,), TEMPORARY if load else given.registers[1])
    return [*load, Sum(to, (*first, other), (), 0) if name == "add" else Sum(to, first, (), 0, (other,))]


def _x86_sum_in_memory(given: _Given) -> list[Operation]:
    """Return the operations that add to 8 bytes of memory, where compilers keep some addresses."""
    [place], constant = given.memories, _x86_constant(given)
    terms = given.registers if constant is None and given.name == "add" else []
    minus = given.registers if constant is None and given.name == "sub" else []
    total = Sum(TEMPORARY, (TEMPORARY, *terms), (), constant or 0, tuple(minus))
    return [Load(TEMPORARY, place), total, Access(place, True, POINTER_BYTES, TEMPORARY)]


def _x86_constant(given: _Given) -> int | None:
    """Return the constant that an instruction adds to its first operand."""
    if given.name in {"inc", "dec"}:
        return 1 if given.name == "inc" else -1
    if given.name in {"add", "sub"} and given.kinds in {"ri", "mi"}:
        return given.number(1) if given.name == "add" else -given.number(1)
    return None


def _x86_lea(to: str, given: _Given) -> Operation:
    memory = given.memories[0]
    terms, index = memory.terms
    if not given.whole:
        return Other((to,), (*terms, *index))
    return Sum(to, terms, index, memory.offset) if terms or index else Address(to, memory.offset)


def _arm_move(given: _Given) -> list[Operation]:
    """Return the operations that copy a whole register, a constant or an address; none for other instructions."""
    name, kinds, registers = given.name, given.kinds, given.registers
    if name in {"adrp", "adr"}:
        return [Address(registers[0], given.number(1), page=name == "adrp")]
    if name in {"mov", "movz"} and kinds == "ri":
        shifted = given.number(1) << given.raw.operands[1].shift.value
        return [Number(registers[0], shifted & MASK)]
    if name == "mov" and kinds == "rr" and given.whole:
        return [Move(registers[0], registers[1]) if registers[1] else Number(registers[0], 0)]
    if name == "csel" and given.whole:
        first, second = registers[1:]
        return [Move(TEMPORARY, second), Move(registers[0], first), Move(registers[0], TEMPORARY, kept=True)]
    return []


def _arm_sum(given: _Given) -> list[Operation]:
    """Return the addition that an instruction is, on whole registers; nothing for others."""
    name, kinds, registers = given.name, given.kinds, given.registers
    if not given.whole:
        return []
    if kinds == "rri":
        return _arm_constant(name, registers, given.number(2) << given.raw.operands[2].shift.value)
    if name in {"madd", "umaddl", "smaddl"}:
        return [Sum(registers[0], (registers[3],), (registers[1], registers[2]), 0)]
    if (name, kinds) not in {("add", "rrr"), ("sub", "rrr"), ("neg", "rr")}:
        return []
    to, *first, other = registers
    if given.raw.operands[-1].shift.type or given.raw.operands[-1].ext:
        return [Sum(to, tuple(first), (other,), 0)]
    return [Sum(to, (*first, other), (), 0) if name == "add" else Sum(to, tuple(first), (), 0, (other,))]


def _arm_constant(name: str, registers: Sequence[str], constant: int) -> list[Operation]:
    if name == "and":
        return _align(registers[0], registers[1], (constant & MASK) - (1 << 64))
    value = constant if name == "add" else -constant
    return [Sum(registers[0], (registers[1],), (), value)] if name in {"add", "sub"} else []


def _align(to: str, source: str, mask: int) -> list[Operation]:
    """Return the operation if a mask clears the lowest bits alone."""
    return [Align(to, source, (-mask).bit_length() - 1)] if mask < 0 and -mask & (-mask - 1) == 0 else []


def _arm_access(given: _Given) -> Iterator[Operation]:
    """Yield the accesses of a load or store, with the change of its base register."""
    position, memory = given.kinds.index("m"), given.memories[0]
    base, followed, name = str(memory.base), position + 1 < len(given.kinds), given.name
    several = bool(_ARM_STRUCTURES.match(name))
    if given.raw.writeback and not followed and not several:
        yield Sum(base, (base,), (), memory.offset)
        memory = dataclasses.replace(memory, offset=0)
    data = [each for each, kind in zip(given.short, given.kinds.replace("i", ""), strict=False) if kind == "r"]
    data = data[:position]
    if _ARM_EXCHANGES.match(name):
        yield Access(memory, True, 16)
        yield Other(tuple({*given.registers} & GENERAL), tuple(given.registers))
    elif name in {"ldr", "ldur", "ldp", "ldnp", "str", "stur", "stp", "stnp", "stlr", "stlur"}:
        yield from _arm_whole(name, memory, data)
    else:
        yield Access(memory, name.startswith("st"), _arm_access_size(name, len(data)))
        if name.startswith("ld"):
            yield Other(tuple(set(map(_whole_arm, data)) & GENERAL), ())
    if followed and given.kinds[position + 1] == "i":
        yield Sum(base, (base,), (), given.number(position + 1))
    elif given.raw.writeback and (followed or several):
        yield Sum(base, (base,), (UNKNOWN,), 0)


def _arm_whole(name: str, memory: Memory, data: Sequence[str]) -> Iterator[Operation]:
    """Yield the accesses of one register or two, in sequence; a load that changes the base comes last."""
    size = _arm_size(data[0])
    changes_base = name.startswith("ld") and _whole_arm(data[0]) == memory.base
    for index, register in sorted(enumerate(data), reverse=changes_base):
        place = dataclasses.replace(memory, offset=memory.offset + index * size)
        saved = register in ARM_SAVED and memory.base in {STACK, "x29"}
        whole = _whole_arm(register) if _is_whole([register]) or saved else None
        if name.startswith("st"):
            yield from [Number(TEMPORARY, 0)] if whole == "" else []
            yield Access(place, True, size, TEMPORARY if whole == "" else whole)
        elif whole and register not in ARM_SAVED:
            yield Load(whole, place)
        else:
            yield Access(place, False, size)
            yield Other(tuple({_whole_arm(register)} & GENERAL), ())


def _is_whole(registers: Sequence[str]) -> bool:
    """Return whether the first register has 8 bytes and may hold an address."""
    return bool(registers) and (registers[0].startswith("x") or registers[0] in {"sp", "fp", "lr"})


def _like_vpshufb(content: bytes) -> bytes:
    """Return a VEX instruction of AVX-VNNI or AVX-IFMA, unknown to capstone, as vpshufb with its operands."""
    if len(content) < 5 or content[0] != 0xC4 or content[1] & 0x1F != 2 or content[3] not in _VEX_PRODUCTS:
        return b""
    return bytes([0xC4, content[1], content[2] & 0x7C | 1, 0x00]) + content[4:]


def _like_vmovd(content: bytes) -> bytes:
    """Return vmovw of AVX512-FP16, unknown to capstone, as vmovd."""
    if len(content) < 7 or content[0] != 0x62 or content[1] & 7 != 5 or content[4] not in {0x6E, 0x7E}:
        return b""
    return bytes([0x62, content[1] & 0xF8 | 1]) + content[2:]


def _is_long_vmovq(content: bytes) -> bool:
    """Return whether it is vmovq of AVX512 to memory with a short displacement, which capstone 5 counts in 16 bytes."""
    return (
        content[0] == 0x62
        and content[1] & 7 == 1
        and content[2] & 0x83 == 0x81
        and content[4] == 0x7E
        and _is_short(content)
    )


def _is_short(content: bytes) -> bool:
    """Return whether the displacement of an instruction with the prefix of AVX512 is one byte."""
    return content[5] >> 6 == 1


def _with_units(instruction: Instruction, wrong: int, right: int) -> Instruction:
    """Return the instruction with a short displacement in the right unit."""

    def corrected(operation: Operation) -> Operation:
        if not isinstance(operation, Access):
            return operation
        memory = dataclasses.replace(operation.memory, offset=operation.memory.offset // wrong * right)
        return dataclasses.replace(operation, memory=memory, size=right)

    return dataclasses.replace(instruction, operations=tuple(map(corrected, instruction.operations)))


@functools.cache
def _x86_width(register: str) -> int:
    if re.fullmatch(r"r([a-z]\w|\d+)", register):
        return 64
    return 32 if re.fullmatch(r"e\w\w|r\d+d", register) else 8


_VEX_PRODUCTS = {0x50, 0x51, 0x52, 0x53, 0xB4, 0xB5, 0xD2, 0xD3}  # vpdp*, vpmadd52*
_X86_FLOW = {"ret": "return", "jmp": "jump", "call": "call", "ud2": "stop", "hlt": "stop", "int3": "stop"}
_KIND = {x86.X86_OP_REG: "r", x86.X86_OP_IMM: "i", x86.X86_OP_MEM: "m"}
_ARM_KIND = {arm64.ARM64_OP_REG: "r", arm64.ARM64_OP_IMM: "i", arm64.ARM64_OP_MEM: "m"}
_SEGMENTS = {x86.X86_REG_FS, x86.X86_REG_GS}

_X86_LONG = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
_X86_WHOLE = {
    **{prefix + name: f"r{name}" for name in _X86_LONG for prefix in ("", "e", "r")},
    **{f"{letter}{half}": f"r{letter}x" for letter in "abcd" for half in "lh"},
    **{f"{name}l": f"r{name}" for name in ("si", "di", "bp", "sp")},
    **{f"r{number}{suffix}": f"r{number}" for number in range(8, 16) for suffix in ("", "d", "w", "b")},
    "rip": "rip",
}
_X86_REGISTERS = (*(f"r{name}" for name in _X86_LONG if name != "sp"), *(f"r{number}" for number in range(8, 16)))
_X86_VECTORS = frozenset(f"xmm{number}" for number in range(32)) | {f"k{number}" for number in range(8)}
_ARM_REGISTERS = tuple(f"x{number}" for number in range(31))
ARM_SAVED = {f"d{number}": f"v{number}" for number in range(8, 16)}
"""Vector registers that a function saves before it changes them."""
GENERAL = frozenset({*_X86_REGISTERS, *_ARM_REGISTERS, STACK})


@functools.cache
def _whole_x86(name: str) -> str:
    whole = _X86_WHOLE.get(name, name if name[1:3] != "mm" else f"x{name[1:]}")
    return STACK if whole == "rsp" else whole


@functools.cache
def _whole_arm(name: str) -> str:
    if name in {"xzr", "wzr"}:
        return ""
    if name in {"fp", "lr"}:
        return {"fp": "x29", "lr": "x30"}[name]
    return STACK if name == "wsp" else re.sub(r"^[qdshb](\d+)$", r"v\1", re.sub(r"^w(\d+)$", r"x\1", name))


def _arm_access_size(name: str, registers: int) -> int:
    """Return the bytes that an instruction reads or writes at most."""
    single = re.fullmatch(r"(?:ld|st)(?:u?r|lu?r|ap?r|apur)s?([bh])", name)
    return {"b": 1, "h": 2}[single[1]] if single else 16 * max(registers, 1)


def _arm_size(register: str) -> int:
    """Return the bytes of a register by its name."""
    return {"w": 4, "s": 4, "q": 16, "v": 16, "h": 2, "b": 1}.get(register[0], 8)


X86_CONVENTION = Convention(
    8,
    ("rdi", "rsi", "rdx", "rcx", "r8", "r9"),
    "rax",
    frozenset({"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"}) | _X86_VECTORS,
    frozenset({"r11"}) | _X86_VECTORS,
    (*_X86_REGISTERS, *sorted(_X86_VECTORS)),
)
ARM_CONVENTION = Convention(
    0,
    tuple(f"x{number}" for number in range(8)),
    "x0",
    frozenset(f"x{number}" for number in (*range(19), 30)),
    frozenset({"x16", "x17", "x30"}),
    (*_ARM_REGISTERS, *ARM_SAVED.values()),
    ("x8",),
)

# Instructions that compute from registers and memory alone, as all with a vector or mask register do.
_X86_PLAIN = re.compile(
    r"mov|movabs|movs[bwdqx]d?|movzx|movsxd|movbe|lea|add|sub|adc|sbb|inc|dec|neg|not|and|andn|or|xor|x?chg|xchg"
    r"|sh[lr][dx]?|sa[lr]x?|ro[lr]x?|imul|mul|mulx|i?div|c[wd]q?e?|cdqe|cqo|cwde|cwd|cdq|cbw|cmp|test|set\w+|cmov\w+"
    r"|j\w+|call|ret|push|pop|leave|nop\w?|endbr64|bswap|bt[src]?|bs[fr]|tzcnt|lzcnt|popcnt|bextr|bls(r|i|msk)|bzhi"
    r"|pdep|pext|(stos|lods|scas|cmps)[bwdq]|prefetch\w+|vzero(upper|all)|ud2|[ls]ahf|c[lm]c|stc|cld|[lms]fence"
)
_X86_WRITES_AT_RDI = {"maskmovdqu", "vmaskmovdqu", "maskmovq"}
_X86_STATE = re.compile(r"mm\d|st\(\d\)|[c-gs]s|[cd]r\d+|bnd\d|tmm\d")
_X86_MODIFIES = re.compile(
    r"add|sub|adc|sbb|and|x?or|inc|dec|neg|not|sh[lr]d?|sa[lr]|r[oc][lr]|xchg|xadd|cmpxchg|bt[crs]"
)
_RELATIVE = re.compile(r".*\brip\b|adrp? |(ldr|prf)[^[]*$")
_X86_STRING = re.compile(r"(movs|stos|lods|scas|cmps)[bwdq]")
_X86_VECTOR = re.compile(r"[xyz]mm\d+|k[0-7]")
_X86_VECTOR_MOVE = re.compile(r"[vk]?movq|v?mov(dqa|dqu|aps|ups|apd|upd)\d*")
# Registers whose values are followed by `reads` and `writes`: vectors, masks, flags.
_TRACKED = re.compile(r"xmm\d+|k[0-7]|v\d+|rflags|nzcv")
_ONLY_NAMED = re.compile(r"vp?broadcast\w+|vps(rl|ra|ll)d")
_INTO_MASK = re.compile(r"v(p?cmp|ptestn?m|fpclass)")
_INDEPENDENT = re.compile(r"v?p?xor|eor|v?psub|sub|v?pcmp(eq|gt)|vpternlog|kxn?or")
_KEEPS_UPPER = re.compile(r"v(cvt\w+2s[ds]|sqrts|rounds|rndscales|movs[sd]|rcp|rsqrt|getexps|getmants|reduces|scalefs)")
_X86_ONLY_READS = re.compile(r"cmp|test|push|bt|v?u?comis[sd]|i?mul|i?div|v?ptest|vtest\w+")
_X86_KEEPS = {"cmp", "test", "bt", "push", "mul", "div", "idiv"}
_ARM_PLAIN = re.compile(
    r"dmb|dsb|mov[zkn]?|mvn|adds?|subs?|adcs?|sbcs?|negs?|ngcs?|ands?|orr|orn|eor|eon|bics?|mul|madd|msub|mneg|[us]mull"
    r"|[us]m(add|sub|neg)l|[us]mulh|[us]div|lsl|lsr|asr|ror|extr|[us]bfx|[us]bfiz|bfi|bfxil|bfc|[us]?bfm|[us]xt[bhw]"
    r"|cmp|cmn|tst|ccmp|ccmn|cs(el|inc|inv|neg|et|etm)|cinc|cinv|cneg|ldu?rs?[bhw]?|ldurs?[bhw]?|ldpsw|ldn?p"
    r"|stu?r[bh]?|stn?p|b|b\.\w+|bl|blr|br|cbn?z|tbn?z|ret|retaa|nop|hint|bti|paciasp|autiasp|adrp?|rev\d*|cl[zs]|rbit|prfu?m"
    r"|udf|brk"
)
_ARM_VECTOR = re.compile(r"[vqdshb]\d+")
_ARM_FLOW = {
    "b": "jump", "br": "jump", "bl": "call", "blr": "call", "ret": "return", "retaa": "return", "retab": "return",
    "cbz": "branch", "cbnz": "branch", "tbz": "branch", "tbnz": "branch", "udf": "stop", "brk": "stop",
}  # fmt: skip
_ARM_NOTHING = {"nop", "hint", "bti", "paciasp", "autiasp", "dmb", "dsb", "isb", "yield"}
_ARM_EXCHANGES = re.compile(r"cas|swp|ldadd|ldclr|ldeor|ldset|ld[su]m(ax|in)|stl?x|stadd|stclr|steor|stset|st[su]m")
_ARM_KEEPS = re.compile(
    r"f?ml[as]|[us]ml[as]l2?|sqr?dml[as][lh]2?|[us]adalp|b(sl|it|if)|u?sdot|udot|tbx|\w+n2|s[lr]i|[us]r?sra|[us]abal?2?"
    r"|fcmla|bic|orr"
)
_ARM_STRUCTURES = re.compile(r"(ld|st)[1-4]")
_ARM_CHANGES = {"movk", "bfi", "bfxil", "bfc", "bfm"}
