"""The rows that a forward passes to its stages, for every number of vectors of a block: 0, 1, 2 and so on, each once.

The forward's machine code is interpreted for all numbers at once.  A value is constant + factor * vectors + origin; the
origin is what cannot be computed, such as a place that depends on the execution.  Where a decision differs between
numbers of vectors, the path divides; a decision about what cannot be computed goes both ways.  Behind a few rows their
values change evenly: all further rows but the last follow from these by induction, if each decision stays the same.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.analysis.inspection.fixed import NEVER_RETURN
from harness.analysis.inspection.flow import Analysis
from harness.analysis.inspection.instructions import MASK, STACK, Instruction
from harness.analysis.inspection.program import POINTER_BYTES, Symbol
from harness.build.codegen import Forward

MOST_STEPS = 1_000_000
TOP = 1 << 46  # of the stack, where no object of a program is
NUMBER = re.compile(r"#?-?(0x[0-9a-f]+|\d+)")
IDLE = ("nop", "endbr", "hint", "bti", "paci", "auti")
COMPARE: Mapping[str, tuple[Callable[..., object], bool]] = {
    **dict.fromkeys(("e", "z", "eq"), (operator.eq, False)), **dict.fromkeys(("ne", "nz"), (operator.ne, False)),
    **dict.fromkeys(("b", "c", "lo"), (operator.lt, False)), **dict.fromkeys(("ae", "nc", "hs"), (operator.ge, False)),
    **dict.fromkeys(("a", "hi"), (operator.gt, False)), **dict.fromkeys(("be", "ls"), (operator.le, False)),
    **dict.fromkeys(("l", "lt"), (operator.lt, True)), "ge": (operator.ge, True),
    **dict.fromkeys(("g", "gt"), (operator.gt, True)), "le": (operator.le, True),
}  # fmt: skip
"""Conditions of both machines: the comparison, and whether it is signed."""


class Linear(NamedTuple):
    """The number constant + factor * vectors + origin, modulo 2^64."""

    constant: int
    factor: int = 0
    origin: int = 0


class _Operand(NamedTuple):
    """A register, a number or memory with its value, and its bits."""

    value: Linear
    bits: int
    register: str = ""
    address: Linear | None = None


class _Term(NamedTuple):
    """A summand of an address: a register, or a number without one; times a factor."""

    register: str
    number: Linear
    factor: Linear


class _Form(NamedTuple):
    """An operand as it is written: a shift of the one before, a number, a register, or memory with its terms."""

    kind: str
    bits: int = 64
    register: str = ""
    number: Linear = Linear(0)
    terms: tuple[_Term, ...] = ()


class _Entry(NamedTuple):
    """A step of a row: an operation, or with `bits` a decision with its outcome, and the values that it had."""

    kind: str
    values: tuple[Linear, ...]
    bits: int = 0
    holds: bool = False


class _Round(NamedTuple):
    """The state behind a row, and how it was computed since the one before."""

    state: Mapping[str | int, Linear]
    log: Sequence[_Entry]


@dataclass
class _Path:
    """The state of the interpreted forward for `low` to `high` vectors.

    It has made all calls of the loops before `loop`, of `row` rows of this one, or of all if it `is_done`, and of
    `stage` stages of the next row.  `flags` are the two numbers that were compared, their bits, and whether only their
    equality is known; `starts` is what was passed with the first row, `log` what was computed since the row before.
    """

    at: int
    registers: dict[str, Linear]
    low: int
    high: int
    memory: dict[int, Linear] = field(default_factory=dict)
    flags: tuple[Linear, Linear, int, bool] | None = None
    loop: int = 0
    row: int = 0
    stage: int = 0
    starts: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    driver: tuple[object, ...] = ()
    is_done: bool = False
    log: list[_Entry] = field(default_factory=list)
    rounds: list[_Round] = field(default_factory=list)

    @property
    def has_all_rows(self) -> bool:
        """Return whether the loop has passed every row."""
        return self.is_done or self.low == self.high == self.row

    def part(self, low: int, high: int) -> _Path:
        """Return a copy for fewer numbers of vectors."""
        copies = {name: dict(getattr(self, name)) for name in ("registers", "memory", "starts")}
        lists = {"log": list(self.log), "rounds": list(self.rounds)}
        return dataclasses.replace(self, low=low, high=high, **copies, **lists)  # type: ignore[arg-type]


class _WrongError(Exception):
    """A contradiction between a forward and the plan, in words."""


@dataclass
class Rows:
    """A forward with the plan's objects: their symbols by name, and the bytes of a row and of a copy of each."""

    analysis: Analysis
    forward: Forward
    block: int
    objects: Mapping[str, tuple[Symbol, int, int]]
    not_understood: list[str]

    def wrong(self) -> str:
        """Return a counterexample; nothing if every row is passed once, in the order of the plan."""
        symbol = self.analysis.by_name[self.forward.name]
        convention = self.analysis.decoder.convention
        registers = {name: self._unknown() for name in convention.registers}
        registers |= {convention.arguments[0]: Linear(0, 1), STACK: Linear(TOP - convention.above)}
        todo, traces = [_Path(symbol.address, registers, 1, self.block)], set()
        try:
            for _ in range(MOST_STEPS):
                path = todo.pop()
                more = self._step(path)
                if not more:
                    traces.add(path.driver)
                todo += more
                if not todo:
                    break
            else:
                self.not_understood.append(f"{self.forward.name} does not come to an end")
        except _WrongError as wrong:
            return f"{self.forward.name} {wrong}"
        if len(traces) > 1:
            return f"{self.forward.name} calls its driver in different ways for different numbers of vectors"
        return ""

    @cached_property
    def _known_forms(self) -> dict[str, Sequence[_Form]]:
        return {}

    @cached_property
    def _names(self) -> Iterator[int]:
        return itertools.count(1)

    def _unknown(self) -> Linear:
        return Linear(0, 0, next(self._names))

    @cached_property
    def _loops(self) -> Sequence[Sequence[tuple[str, tuple[str | None, ...]]]]:
        return [*([merge] for merge in self.forward.merges), *([self.forward.stages] if self.forward.stages else [])]

    # Control flow.

    def _step(self, path: _Path) -> list[_Path]:
        """Interpret an instruction; return the paths behind it, none where the forward has ended."""
        instruction, self._log = self._code.get(path.at), path.log
        if instruction is None:
            self.not_understood.append(f"{self.forward.name} leaves its code to {path.at:#x}")
            return []
        path.at += instruction.size
        if instruction.flow in {"call", "jump"} and (
            instruction.flow == "call" or instruction.target not in self._code
        ):
            return self._call(path, instruction)
        if instruction.flow == "branch":
            return self._branch(path, instruction)
        if instruction.flow in {"return", "stop"}:
            return self._end(path) if instruction.flow == "return" else []
        path.at = int(instruction.target or 0) if instruction.flow == "jump" else path.at
        name, _, rest = instruction.text.partition(" ")
        if instruction.flow or name.startswith(IDLE) or " nop " in instruction.text:
            return [path]
        return self._execute(path, instruction, name, self._operands(path, instruction, rest))

    @cached_property
    def _code(self) -> Mapping[int, Instruction]:
        parts = [f for f in self.analysis.functions if f.name in {self.forward.name, f"{self.forward.name}.cold"}]
        return {at: each for part in parts for at, each in self.analysis.decoded(part).items()}

    def _branch(self, path: _Path, instruction: Instruction) -> list[_Path]:
        name, _, rest = instruction.text.partition(" ")
        condition = name.removeprefix("b.") if self._is_arm else name.removeprefix("j")
        if name in {"cbz", "cbnz", "tbz", "tbnz"}:
            operands = self._operands(path, instruction, rest)
            path.flags = (operands[0].value, Linear(0), operands[0].bits, True) if name.startswith("c") else None
            condition = "eq" if name == "cbz" else "ne"
        paths = []
        for part, holds in self._split(path, condition):
            part.at = int(instruction.target or 0) if holds else part.at
            paths.append(part)
        return paths

    def _split(self, path: _Path, condition: str) -> list[tuple[_Path, bool]]:
        """Return the path, or its parts for which the condition holds and does not hold."""
        ranges = self._decide(path, condition)
        parts = [path] if len(ranges) == 1 else [path.part(low, high) for low, high, _ in ranges]
        for part, (_, _, holds) in zip(parts, ranges, strict=True):
            if path.flags and condition in COMPARE and path.flags[0].origin == path.flags[1].origin:
                part.log.append(_Entry(condition, path.flags[:2], path.flags[2], holds))
            else:
                part.log.append(_Entry("unknown", (), holds=holds))
        return [(part, holds) for part, (_, _, holds) in zip(parts, ranges, strict=True)]

    def _decide(self, path: _Path, condition: str) -> list[tuple[int, int, bool]]:
        low, high, both = path.low, path.high, [(path.low, path.high, True), (path.low, path.high, False)]
        if path.flags is None or condition not in COMPARE:
            return both
        one, other, bits, is_equality = path.flags
        compare, signed = COMPARE[condition]
        if one.origin != other.origin or (is_equality and compare not in {operator.eq, operator.ne}):
            return both
        mask, sign = (1 << bits) - 1, 1 << bits - 1 if signed else 0
        if one.factor == other.factor == 0:
            return [(low, high, bool(compare(one.constant & mask ^ sign, other.constant & mask ^ sign)))]
        numbers = np.arange(low, high + 1, dtype=np.uint64)
        values = [
            (numbers * np.uint64(each.factor & MASK) + np.uint64(each.constant)) & np.uint64(mask) ^ np.uint64(sign)
            for each in (one, other)
        ]
        holds = np.asarray(compare(*values))
        edges = [0, *(np.flatnonzero(holds[1:] != holds[:-1]) + 1).tolist(), len(numbers)]
        return [(low + a, low + b - 1, bool(holds[a])) for a, b in itertools.pairwise(edges)]

    def _end(self, path: _Path) -> list[_Path]:
        last = path.loop == max(len(self._loops) - 1, 0)
        if self._loops and (path.stage or not last or not path.has_all_rows):
            raise _WrongError(f"ends behind {path.row} rows of loop {path.loop + 1} for {path.high} vectors")
        return []

    def _call(self, path: _Path, instruction: Instruction) -> list[_Path]:
        name = str(self.analysis.callee(instruction))
        if name in NEVER_RETURN:
            return []
        convention = self.analysis.decoder.convention
        arguments = [path.registers[register] for register in convention.arguments]
        if name in self.forward.driver:
            known = tuple(argument for argument in arguments[: self.analysis.arity(name)] if not argument.origin)
            path.driver = (*path.driver, name, known)
        else:
            self._check_row(path, name, arguments)
        if instruction.flow == "jump":
            return self._end(path)
        for register in self.analysis.changed(name) & path.registers.keys():
            path.registers[register] = self._unknown()
        path.flags = None
        return self._behind_row(path) if path.stage == 0 and path.row else [path]

    # Rows.

    def _behind_row(self, path: _Path) -> list[_Path]:
        """Return the path, or that behind the last row if all rows until then follow from the ones before."""
        state: dict[str | int, Linear] = dict([*path.registers.items(), *path.memory.items()])
        path.rounds, path.log = [*path.rounds[-2:], _Round(state, tuple(path.log))], []
        if len(path.rounds) < 3 or path.low != path.row or path.high < path.row + 2:
            return [path]
        (first, _), (second, before), (third, log) = path.rounds
        changes = {}
        for key in third.keys() & second.keys() & first.keys():
            if third[key].origin == second[key].origin:
                changes[key] = _signed(third[key].constant - second[key].constant)
                evenly = (changes[key] - second[key].constant + first[key].constant) & MASK == 0
                if not evenly or not third[key].factor == second[key].factor == first[key].factor:
                    return [path]
        if third.keys() != second.keys() or not self._goes_on(path, before, log):
            return [path]
        for key, by in changes.items():  # behind row number `vectors`
            value = third[key]
            moved = Linear((value.constant - by * path.row) & MASK, value.factor + by, value.origin)
            (path.registers if isinstance(key, str) else path.memory)[key] = moved  # type: ignore[index]
        for key in third.keys() - changes.keys():
            (path.registers if isinstance(key, str) else path.memory)[key] = self._unknown()  # type: ignore[index]
        path.is_done = True
        return [path]

    def _goes_on(self, path: _Path, before: Sequence[_Entry], log: Sequence[_Entry]) -> bool:
        """Return whether all rows but the last are passed as the latest one was."""
        if [entry._replace(values=()) for entry in before] != [entry._replace(values=()) for entry in log]:
            return False
        for old, new in zip(before, log, strict=True):
            changes = [_signed(now.constant - then.constant) for then, now in zip(old.values, new.values, strict=True)]
            if not new.bits:
                if any(changes) and not (new.kind == "product" and 0 in changes):
                    return False
                continue
            compare, signed = COMPARE[new.kind]
            # Linear numbers of rows and vectors compare on a triangle as at its corners, if none exceeds its bits.
            corners = [(1, path.row + 1), (1, path.high), (path.high - path.row, path.high)]
            sides = set()
            for step, vectors in corners:
                one, other = (
                    _signed(value.constant) + change * step + value.factor * vectors
                    for value, change in zip(new.values, changes, strict=True)
                )
                limit = 1 << new.bits - 1 if signed else 1 << new.bits
                if not (0 <= one < limit and 0 <= other < limit) or bool(compare(one, other)) != new.holds:
                    return False
                sides.add(one > other)
            if compare in {operator.eq, operator.ne} and len(sides) > 1:
                return False
        return True

    def _check_row(self, path: _Path, name: str, arguments: Sequence[Linear]) -> None:
        if not self._loops:
            raise _WrongError(f"calls {name}, the plan says {', '.join(self.forward.driver)}")
        while name != self._loops[path.loop][path.stage][0]:
            if path.stage or not path.has_all_rows or path.loop + 1 == len(self._loops):
                raise _WrongError(f"calls {name} behind {path.row} rows for {path.high} vectors, against the plan")
            path.loop, path.row, path.is_done, path.rounds = path.loop + 1, 0, False, []
        if path.is_done or path.low <= path.row:
            raise _WrongError(f"calls {name} for row {path.row}, of {path.low} vectors")
        planned = self._loops[path.loop][path.stage][1]
        for number, (value, wanted) in enumerate(zip(arguments, planned, strict=False)):
            if not self._is_row(path, (path.loop, path.stage, number), value, wanted):
                raise _WrongError(f"calls {name} with argument {number + 1} that is not row {path.row} of {wanted}")
        path.stage += 1
        if path.stage == len(self._loops[path.loop]):
            path.row, path.stage = path.row + 1, 0

    def _is_row(self, path: _Path, key: tuple[int, int, int], value: Linear, name: str | None) -> bool:
        symbol, row, copy = self.objects.get(name or "", (None, 0, 0))
        start = (value.constant - path.row * row) & MASK, value.origin
        begins = symbol is None or value.origin or (start[0] - symbol.address) % copy == 0
        return bool(begins) and value.factor == 0 and path.starts.setdefault(key, start) == start

    # Instructions.

    @property
    def _is_arm(self) -> bool:
        return self.analysis.program.machine == "aarch64"

    def _operands(self, path: _Path, instruction: Instruction, rest: str) -> list[_Operand]:
        operands: list[_Operand] = []
        for form in self._forms(rest):
            if form.kind == "shift":
                last = operands.pop()
                value = last.value if form.bits == 64 else self._cut(path, last.value, form.bits)
                operands.append(last._replace(value=self.times(value, form.number)))
            elif form.kind == "memory":
                operands.append(self._memory(path, instruction, form))
            elif form.kind == "number":
                operands.append(_Operand(form.number, 64))
            else:
                value = path.registers.get(form.register) or self._unknown() if form.register else Linear(0)
                operands.append(_Operand(self._cut(path, value, form.bits), form.bits, form.register))
        return operands

    def _forms(self, rest: str) -> Sequence[_Form]:
        """Return the operands of an instruction's text; each text is read once."""
        if rest not in self._known_forms:
            self._known_forms[rest] = [self._form(text) for text in re.split(r",\s*(?![^\[]*\])", rest)]
        return self._known_forms[rest]

    def _form(self, text: str) -> _Form:
        shift = re.fullmatch(r"(lsl|uxtw|sxtw|uxtx)(?: #(\w+))?", text)
        if shift:
            bits = 64 if shift[1] in {"lsl", "uxtx"} else 32
            return _Form("shift", bits, number=Linear(1 << int(shift[2] or "0", 0)))
        if "[" in text:
            head, inside = text.rstrip("!]").split("[")
            size = next((size for word, size in SIZES.items() if head.startswith(word)), 8)
            register = "segment" if ":" in head else ""
            return _Form("memory", 8 * size, register, terms=tuple(self._terms(inside)))
        if NUMBER.fullmatch(text):
            return _Form("number", number=Linear(int(text.removeprefix("#"), 0) & MASK))
        return _Form("register", self.analysis.decoder.width(text), self.analysis.decoder.whole(text))

    def _terms(self, inside: str) -> Iterator[_Term]:
        """Yield the summands of an address."""
        if self._is_arm:
            inside = inside.replace(", lsl #", "*2^").replace(",", " +")
        else:
            inside = re.sub(r"\s*-\s*", " + -", inside)
        for term in inside.split(" + "):
            name, _, scale = term.strip().partition("*")
            factor = Linear(1 << int(scale[2:]) if scale.startswith("2^") else int(scale or "1", 0))
            if NUMBER.fullmatch(name):
                yield _Term("", Linear(int(name.removeprefix("#"), 0) & MASK), factor)
            elif name == "rip" or not re.fullmatch(r"[a-z]\w+", name):
                yield _Term(name, Linear(0), factor)
            else:
                yield _Term(self.analysis.decoder.whole(name), Linear(0), factor)

    def _memory(self, path: _Path, instruction: Instruction, form: _Form) -> _Operand:
        total = self._unknown() if form.register else Linear(0)
        for register, constant, factor in form.terms:
            value = constant
            if register == "rip":
                value = Linear(instruction.address + instruction.size)
            elif register:
                value = path.registers.get(register) or self._unknown()
            total = self.plus(total, self.times(value, factor))
        is_read = form.bits == 8 * POINTER_BYTES and not instruction.text.startswith("lea")
        return _Operand(self._load(path, total) if is_read else self._unknown(), form.bits, address=total)

    def _load(self, path: _Path, address: Linear) -> Linear:
        path.log.append(_Entry("load", (address,)))
        if address.factor or address.origin:
            return self._unknown()
        pointer = self.analysis.program.pointers.get(address.constant)
        known = Linear(pointer) if isinstance(pointer, int) else path.memory.get(address.constant)
        return known or self._unknown()

    def _store(self, path: _Path, address: Linear, value: Linear | None, size: int = 8) -> None:
        path.log.append(_Entry("store", (address,)))
        if address.factor or address.origin:
            path.memory.clear()
            return
        for place in [at for at in path.memory if address.constant - 8 < at < address.constant + size]:
            del path.memory[place]
        if value and size == 8:
            path.memory[address.constant] = value

    def _write(self, path: _Path, to: _Operand, value: Linear) -> None:
        if to.address is not None:
            self._store(path, to.address, value, to.bits // 8)
        elif to.register in path.registers:
            path.registers[to.register] = self._cut(path, value, to.bits)

    def _execute(self, path: _Path, instruction: Instruction, name: str, operands: list[_Operand]) -> list[_Path]:
        values = [operand.value for operand in operands]
        plain = name.removesuffix("s") if self._is_arm and name in {"adds", "subs", "ands"} else name
        condition = re.fullmatch(r"(cmov|set)(\w+)", name)
        is_general = all(not operand.register or operand.register in path.registers for operand in operands)
        if name in {"mov", "movabs", "movz", "adrp", "adr"}:
            self._write(path, operands[0], values[1])
        elif name == "movk":
            shift = int(instruction.text.partition("lsl #")[2] or "0", 0)
            kept = self.bits(values[0], Linear(MASK ^ 0xFFFF << shift), operator.and_)
            self._write(path, operands[0], self.plus(kept, values[1]))
        elif name == "lea":
            self._write(path, operands[0], operands[1].address or self._unknown())
        elif name in {"cmp", "test", "tst", "cmn"}:
            is_same = name != "cmn" and (name == "cmp" or operands[0].register == operands[1].register != "")
            other = values[1] if name == "cmp" else Linear(0)
            path.flags = (values[0], other, operands[0].bits, False) if is_same else None
        elif name in {"push", "pop", "leave"}:
            self._stack(path, name, operands)
        elif condition:
            return self._choose(path, condition[2], operands[0], values[1] if len(values) > 1 else Linear(1),
                                values[0] if condition[1] == "cmov" else Linear(0))  # fmt: skip
        elif name in {"csel", "csinc", "cset", "cinc", "ccmp"}:
            return self._arm_condition(path, name, operands, instruction.text.rpartition(" ")[2])
        elif name in {"ldr", "ldur", "ldp", "str", "stur", "stp"} and is_general:
            self._arm_memory(path, instruction.text, operands)
        elif plain in ARITHMETIC and (len(operands) > 1 or plain in {"inc", "dec", "neg"}):
            self._compute(path, plain, operands, changes_flags=not self._is_arm or plain != name)
        else:
            self._other(path, instruction, operands)
        return [path]

    def _stack(self, path: _Path, name: str, operands: Sequence[_Operand]) -> None:
        if name == "push":
            path.registers[STACK] = top = self.plus(path.registers[STACK], Linear(-8 & MASK))
            self._store(path, top, operands[0].value)
            return
        if name == "leave":
            path.registers[STACK] = path.registers["rbp"]
        top = path.registers[STACK]
        self._write(path, operands[0] if name == "pop" else _Operand(top, 64, "rbp"), self._load(path, top))
        path.registers[STACK] = self.plus(top, Linear(8))

    def _choose(self, path: _Path, condition: str, to: _Operand, one: Linear, other: Linear) -> list[_Path]:
        """Return the paths behind an instruction that writes one of two values."""
        parts = self._split(path, condition)
        for part, holds in parts:
            self._write(part, to, one if holds else other)
        return [part for part, _ in parts]

    def _arm_condition(self, path: _Path, name: str, operands: list[_Operand], condition: str) -> list[_Path]:
        if name == "ccmp":  # the flags are those of a comparison, or those of the instruction
            # Without an overflow 0 and 1 compare so that negative, zero, carry are 1000, 0010 or 0110.
            compared = {8: (0, 1), 0: (0, 1), 2: (1, 0), 4: (0, 0), 6: (0, 0)}.get(operands[2].value.constant)
            literal = (Linear(compared[0]), Linear(compared[1]), 64, False) if compared else None
            parts = self._split(path, condition)
            for part, holds in parts:
                part.flags = (operands[0].value, operands[1].value, operands[0].bits, False) if holds else literal
            return [part for part, _ in parts]
        values = [operand.value for operand in operands[1:3]] if name != "cset" else [Linear(1), Linear(0)]
        one, other = values if name in {"csel", "csinc", "cset"} else (self.plus(values[0], Linear(1)), values[0])
        return self._choose(path, condition, operands[0], one, self.plus(other, Linear(int(name == "csinc"))))

    def _arm_memory(self, path: _Path, text: str, operands: list[_Operand]) -> None:
        """Load or store one register or two, and change the base register."""
        index = next(number for number, each in enumerate(operands) if each.address is not None)
        address = operands[index].address or Linear(0)
        for number, each in enumerate(operands[:index]):
            place = self.plus(address, Linear(number * each.bits // 8))
            if text.startswith("st"):
                self._store(path, place, each.value, each.bits // 8)
            else:
                self._write(path, each, self._load(path, place) if each.bits == 64 else self._unknown())
        base = self.analysis.decoder.whole(re.split(r"[\[,\]]", text)[index + 1].strip())
        if "]!" in text or operands[index + 1 :]:
            by = operands[-1].value if operands[index + 1 :] else Linear(0)
            path.registers[base] = self.plus(address, by)

    def _compute(self, path: _Path, name: str, operands: list[_Operand], *, changes_flags: bool) -> None:
        to, values = operands[0], [operand.value for operand in operands]
        if name == "xor" and operands[0].register and operands[0].register == operands[-1].register:
            values = [Linear(0), Linear(0)]
        sources = values if len(values) < 3 and not (self._is_arm and name == "neg") else values[1:]
        result = self._cut(path, ARITHMETIC[name](self, sources), to.bits)
        self._write(path, to, result)
        if changes_flags:
            compared = sources if name == "sub" else (result, Linear(0))
            path.flags = (compared[0], compared[1], to.bits, name != "sub")

    def _other(self, path: _Path, instruction: Instruction, operands: Sequence[_Operand]) -> None:
        """Forget what an instruction changes that is not interpreted."""
        for register in instruction.written & path.registers.keys():
            path.registers[register] = self._unknown()
        for operand in operands:
            if operand.address is not None:
                self._store(path, operand.address, None, 64)
        path.flags = path.flags if self._is_arm and not instruction.text.startswith("fcm") else None

    # Arithmetic.

    def plus(self, one: Linear, other: Linear) -> Linear:
        """Return the sum."""
        if one.origin and other.origin:
            return self._unknown()
        return Linear((one.constant + other.constant) & MASK, one.factor + other.factor, one.origin or other.origin)

    def minus(self, one: Linear, other: Linear) -> Linear:
        """Return the difference."""
        if other.origin not in {0, one.origin}:
            return self._unknown()
        origin = 0 if other.origin else one.origin
        return Linear((one.constant - other.constant) & MASK, one.factor - other.factor, origin)

    def times(self, one: Linear, other: Linear) -> Linear:
        """Return the product; it is unknown unless one of the numbers is a constant."""
        if other.factor or other.origin:
            one, other = other, one
        if other.factor or other.origin or (one.origin and other.constant != 1):
            return self._unknown()
        by = other.constant
        self._log.append(_Entry("product", (one, other)))
        return Linear(one.constant * by & MASK, one.factor * by, one.origin)

    def shifted(self, one: Linear, by: Linear) -> Linear:
        """Return the number shifted to the left."""
        return self._unknown() if by.factor or by.origin else self.times(one, Linear(1 << by.constant % 64))

    def bits(self, one: Linear, other: Linear, of: Callable[[int, int], int]) -> Linear:
        """Return a bitwise operation on two constants."""
        if one[1:] == other[1:] == (0, 0):
            self._log.append(_Entry("bits", (one, other)))
            return Linear(of(one.constant, other.constant) & MASK)
        return self._unknown()

    def _cut(self, path: _Path, value: Linear, bits: int) -> Linear:
        """Return the lowest bits of a value."""
        if bits < 64 and not value.origin:
            path.log.append(_Entry("cut", (value,)))
        ends = [value.constant + value.factor * number for number in (path.low, path.high)]
        if bits >= 64 or (not value.origin and all(0 <= each < 1 << bits for each in ends)):
            return value
        return self._unknown() if value.origin or value.factor else Linear(value.constant & (1 << bits) - 1)


def _signed(number: int) -> int:
    """Return the number of 64 bits as a signed one."""
    return (number + (1 << 63) & MASK) - (1 << 63)


SIZES = {"byte": 1, "word": 2, "dword": 4, "qword": 8, "xmmword": 16, "ymmword": 32, "zmmword": 64}
ARITHMETIC: Mapping[str, Callable[[Rows, Sequence[Linear]], Linear]] = {
    "add": lambda rows, values: rows.plus(*values),
    "sub": lambda rows, values: rows.minus(*values),
    "inc": lambda rows, values: rows.plus(values[0], Linear(1)),
    "dec": lambda rows, values: rows.minus(values[0], Linear(1)),
    "neg": lambda rows, values: rows.minus(Linear(0), values[0]),
    "and": lambda rows, values: rows.bits(values[0], values[1], operator.and_),
    "xor": lambda rows, values: rows.bits(values[0], values[1], operator.xor),
    **dict.fromkeys(("imul", "mul", "umull"), lambda rows, values: rows.times(*values)),
    **dict.fromkeys(
        ("madd", "umaddl", "smaddl"), lambda rows, values: rows.plus(rows.times(*values[:2]), values[2])
    ),
    **dict.fromkeys(("shl", "sal", "lsl"), lambda rows, values: rows.shifted(*values)),
}  # fmt: skip
