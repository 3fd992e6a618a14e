"""The state of an abstract execution: registers, flags, and what is known of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from harness.analysis.inspection.program import Program
from harness.applications.wcet.values import DATA, VARIES, Counter, Linear, Unknown, Value

STACK_TOP = 0xF000_0000
"""The stack pointer where a function is entered; no section of a program is there, with 32 bits neither."""
STACK_BYTES = 1 << 28
"""The stack that a function may use."""
RETURN = 0xFFFF_F000
"""The return address of the first function."""
LONGEST_COPY = 4096
"""The bytes up to which what is known of memory is followed through a copy."""


@dataclass(frozen=True)
class Flags:
    """The operands of the last comparison, of `width` bits.

    `kind` is sub, add, logic (`a` is the result), or nzcv (`a` holds the four flags).
    """

    kind: str
    a: Value
    b: Value
    width: int


FlagsValue: TypeAlias = Flags | Unknown


class RefusedError(Exception):
    """The execution cannot be followed: the reason, an advice, and the address of an instruction if there is one."""

    def __init__(self, reason: str, advice: str, address: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.advice, self.address = reason, advice, address


class Memory:
    """Known values of memory, by address; all other writable bytes are unknown.

    Constant sections have the content of the file, and the addresses that the loader stores; those in `imports` are
    functions of libraries, represented by numbers.  Code in read-only memory has its constants between instructions.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._imports: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def imported(self, number: int) -> str | None:
        """Return the name of a library's function that a number represents."""
        return self._imports.get(number)

    def constant(self, address: int, size: int) -> Value:
        """Return what the file says about bytes that are never written; DATA for others."""
        pointer = self._program.pointers.get(address) if size == 8 else None
        section = self._program.section_at(address)
        if isinstance(pointer, str) and section and section.name.startswith((".got", ".plt")):
            if pointer not in self._numbers:
                self._numbers[pointer] = RETURN + 0x10_0000 + 16 * len(self._numbers)
                self._imports[self._numbers[pointer]] = pointer
            return self._numbers[pointer]
        is_code = section is not None and section.executable and self._program.machine != "thumb"
        if section is None or section.writable or is_code or not section.content:
            return DATA
        if isinstance(pointer, int):
            return pointer
        content = self._program.content(address, size)
        return int.from_bytes(content, "little") if len(content) == size else DATA


class State:
    """Registers by number, flags, and the known values in memory by address, each with its size in bytes."""

    __slots__ = ("flags", "memory", "registers")

    def __init__(self, registers: list[Value], flags: FlagsValue, memory: dict[int, tuple[int, Value]]) -> None:
        self.registers, self.flags, self.memory = registers, flags, memory

    def copy(self) -> State:
        """Return an independent copy."""
        return State(self.registers.copy(), self.flags, self.memory.copy())

    def merge(self, other: State) -> None:
        """Keep what both states agree on; nothing else is known where a decision depended on data."""
        self.registers = [a if a == b else DATA for a, b in zip(self.registers, other.registers, strict=True)]
        self.flags = self.flags if self.flags == other.flags else DATA
        self.memory = {place: found for place, found in self.memory.items() if other.memory.get(place) == found}

    def at(self, counter: Counter, value: int) -> None:
        """Replace a counter by its value."""
        self.registers = [
            register.at(counter, value) if isinstance(register, Linear) else register for register in self.registers
        ]
        if isinstance(self.flags, Flags):
            self.flags = Flags(
                self.flags.kind, _at(self.flags.a, counter, value), _at(self.flags.b, counter, value), self.flags.width
            )
        self.memory = {place: (size, _at(each, counter, value)) for place, (size, each) in self.memory.items()}

    def forget(self, counter: Counter) -> None:
        """Let nothing be known that depends on a counter."""
        self.registers = [DATA if _has(register, counter) else register for register in self.registers]
        if isinstance(self.flags, Flags) and (_has(self.flags.a, counter) or _has(self.flags.b, counter)):
            self.flags = DATA
        self.memory = {place: each for place, each in self.memory.items() if not _has(each[1], counter)}

    def store(self, address: int, size: int, value: Value) -> None:
        """Store a value; unknown data is what is not kept."""
        self.kill(address, address + size)
        if value is not DATA:
            self.memory[address] = size, value

    def kill(self, start: int, end: int) -> None:
        """Let nothing be known of the bytes from start to end."""
        if end - start < 64:
            for place in range(start - 15, end):
                found = self.memory.get(place)
                if found and place + found[0] > start:
                    del self.memory[place]
        else:
            for place in [p for p, (size, _) in self.memory.items() if p < end and p + size > start]:
                del self.memory[place]

    def load(self, address: int, size: int, constants: Memory) -> Value:
        """Return the bytes at an address as a number; nothing is known of parts of a form."""
        found = self.memory.get(address)
        if found and found[0] == size:
            return found[1]
        parts = {p: self.memory[p] for p in range(address - 15, address + size) if p in self.memory}
        parts = {place: each for place, each in parts.items() if place + each[0] > address}
        if not parts:
            return constants.constant(address, size)
        first, content = min(parts), bytearray()
        for place in sorted(parts):
            length, value = parts[place]
            if not isinstance(value, int):
                return value if isinstance(value, Unknown) else VARIES
            if place != first + len(content):
                return DATA
            content += value.to_bytes(length, "little")
        whole = content[address - first :][:size] if first <= address else b""
        return int.from_bytes(whole, "little") if len(whole) == size else DATA

    def known_in(self, start: int, end: int) -> bool:
        """Return whether anything is known of the bytes from start to end."""
        return any(place < end and place + size > start for place, (size, _) in self.memory.items())


def _at(value: Value, counter: Counter, to: int) -> Value:
    return value.at(counter, to) if isinstance(value, Linear) else value


def _has(value: Value, counter: Counter) -> bool:
    return isinstance(value, Linear) and counter in value.factors
