"""Data flow of addresses through a function: its reads, writes, calls, and the static objects that it reaches.

A forward data-flow analysis.  The value of a register is a set of static addresses, a place in the function's stack
frame, an argument with any offset, a number, or unknown.  An address to which an unknown index was added keeps the
object that it points to: indices are taken to stay inside their arrays.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

from harness.analysis.inspection.fixed import NEVER_RETURN, PURE, WRITTEN_BY_LIBRARY
from harness.analysis.inspection.instructions import (
    MASK,
    STACK,
    TEMPORARY,
    Access,
    Address,
    Align,
    Compare,
    Decoder,
    Instruction,
    Load,
    Memory,
    Move,
    Number,
    Operation,
    Other,
    Sum,
)
from harness.analysis.inspection.program import POINTER_BYTES, Program, Symbol

MOST_ADDRESSES = 16
STACK_ARGUMENTS = 32
UNKNOWN_STACK_ARGUMENTS = 4  # that a function of a library is taken to have
BIT_TESTS = ("test ", "tst ")
DEEPEST = 2  # pointers, one behind the other: to arrays of pointers to buffers
FRAME, IMAGE = -1, -2  # beside numbers of arguments: what an address depends on
FARTHEST = 1 << 16  # offset in bytes from an argument's address, of those that are followed
_NONE, _OF_FRAME, _OF_IMAGE = frozenset[int](), frozenset({FRAME}), frozenset({IMAGE})
RESULTS = ("rax", "rdx", "x0", "x1")
FLAGS = "flags"  # of the last comparison or sum
MOST_ROUNDED = 6  # bits: stores of 64 bytes are the widest
NULL_TEST = re.compile(r"test (r[a-z]{2}|r\d+), \1$|cmp (qword .*|r[a-z]{2}|r\d+), 0$|cmp x\d+, #0$|cbn?z x\d+,")
EQUAL = re.compile(r"(j|set|cmov)n?e |b\.(eq|ne) |(csel|cset|csetm|csinc|cinc|csinv|csneg) .*, (eq|ne)$")
# Stores of vectors that a caller needs, and accesses to elements and structures: some are set later.
KEEPS_UNSET = re.compile(r"st[rp] d\d+, .*\[sp|st[1-4] \{.*, |ld[1-4] \{.*\}\[")
PACKS = re.compile(r"mov v\d+\.d\[1\], ")  # gcc packs a value with unset bytes, and sets them one by one
PACKS_TWO = re.compile(r"v?pinsrq xmm\d+, (xmm\d+, )?r\w+, 1$")  # LLVM stores two pointers as one vector
FULL_MASK = re.compile(r"kxnor([bwdq]) (k\d), \2, \2$")
COPIED_MASK = re.compile(r"kmov([bwdq]) (k\d), (k\d)$")
GATHER = re.compile(r"vp?gather\w+ ([xyz])mm\d+ \{(k\d)\}")
Masks: TypeAlias = frozenset[tuple[str, int]]
"""Mask registers with a number of lanes, 8 or 16, whose bits are all set."""
NON_TEMPORAL = re.compile(r"v?movnt(dq|ps|pd|sd|ss) |stnp ")
FENCE = re.compile(r"[sm]fence|d[ms]b (sy|ish|st|ishst)$")


class Static(NamedTuple):
    """One of these addresses of the program; with an unknown index added if not `exact`, or another value."""

    addresses: tuple[int, ...]
    exact: bool
    alone: bool = True


class Page(NamedTuple):
    """The upper bits of an address, to which the lower ones are still to be added."""

    address: int


class Frame(NamedTuple):
    """A place in the function's frame; `origin` changes where the stack pointer is aligned."""

    origin: int
    offset: int | None


class Argument(NamedTuple):
    """The function's argument with this number, or what is computed from several by addition; with an offset."""

    numbers: frozenset[int]
    offset: int | None


class Difference(NamedTuple):
    """A number, with an address added or subtracted, or both: its argument, or FRAME or IMAGE."""

    plus: frozenset[int]
    minus: frozenset[int]


class Rounded(NamedTuple):
    """An argument's address with an offset that depends on arguments, `by` which it is a multiple of some bytes."""

    numbers: frozenset[int]
    by: frozenset[int]


class Computed(NamedTuple):
    """A number that depends on these addresses or arguments alone; `reported` where it is in the function's uses."""

    numbers: frozenset[int]
    reported: bool


class Unset(NamedTuple):
    """The value that a register has before the function, which is none of its arguments."""

    register: str


class Loaded(NamedTuple):
    """A value read through an argument: data, or a pointer that the caller stored there.

    `depth` counts the pointers: 2 is read through one that was itself read through the argument.
    """

    numbers: frozenset[int]
    depth: int = 1


class Constant(NamedTuple):
    """A number."""

    value: int


Value: TypeAlias = Static | Page | Frame | Argument | Difference | Rounded | Computed | Unset | Loaded | Constant | None


@dataclass(frozen=True)
class Touch:
    """An access to memory, or an address that is used otherwise (`write` is None); `value` is the address."""

    at: int
    text: str
    value: Value
    write: bool | None


@dataclass(frozen=True)
class Use:
    """A computation or decision whose result depends on the addresses `plus` minus the addresses `minus`.

    They are numbers of arguments, FRAME and IMAGE; up to `most` of them may be addresses.
    """

    words: str
    plus: frozenset[int]
    minus: frozenset[int]
    most: int = 0


@dataclass(frozen=True)
class Early:
    """A load through an argument of bytes that may not be stored before; `bytes_` and `stored` are bits of a number.

    Bit 0 is of places with unknown offsets, bit 1 + n of the byte with offset n.
    """

    words: str
    number: int
    bytes_: int
    stored: int


class Stores(NamedTuple):
    """The loads of a function that are early, and what it stores through each argument, in bits as `Early` has them."""

    early: tuple[Early, ...]
    stored: Mapping[int, int]


@dataclass(frozen=True)
class Call:
    """A call of a function; `name` is None where the callee is not in the instruction."""

    at: int
    name: str | None
    arguments: tuple[Value, ...]
    tail: bool


@dataclass(frozen=True)
class Facts:
    """The facts about a function.  `order` holds for each call, and for the entry (-1), the next possible calls.

    In `order` -2 is the end of the function.  `strange` lists instructions that do more than compute from
    registers and memory alone; `gaps` says what could not be followed.  `kept` lists stores of values that were read
    through an argument to unknown places of the frame: if such a value is a pointer, other facts may be wrong.
    `unset` maps instructions that read registers which nobody has set to their names.  The second of `stores` holds
    where each way of the function is taken.  `unfenced` are non-temporal stores that may not be finished at its end.
    """

    symbol: Symbol
    touches: tuple[Touch, ...]
    calls: tuple[Call, ...]
    order: Mapping[int, frozenset[int]]
    strange: tuple[Instruction, ...]
    gaps: tuple[str, ...]
    kept: tuple[str, ...]
    instructions: tuple[str, ...]
    uses: tuple[Use, ...]
    unset: Mapping[str, frozenset[str]]
    stores: tuple[Stores, Stores]
    unfenced: tuple[str, ...]


ENTRY, END = -1, -2


@dataclass
class _State:
    """Values of registers, and of 8-byte places in the frame."""

    registers: dict[str, Value]
    slots: dict[tuple[int, int], Value] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.registers), dict(self.slots))


class Analysis:
    """All functions of a program; each is analysed once, when it is asked for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._decoder = Decoder(program.machine)
        self._found: dict[str, Facts] = {}
        self._begun: set[str] = set()
        self._decoded: dict[int, dict[int, Instruction]] = {}
        self._imports: dict[int, str | None] = {}
        self._built: dict[int, _Function] = {}
        self._changed: dict[int, frozenset[str]] = {}
        self._returns: dict[int, bool] = {}

    @cached_property
    def by_name(self) -> Mapping[str, Symbol]:
        """Return the functions by their names; several static ones of a name have their files in front."""
        found: dict[str, Symbol] = {}
        for function in self.functions:
            found[self.name(function)] = function
        return found

    @cached_property
    def functions(self) -> tuple[Symbol, ...]:
        """Return all code with a name: functions, and pieces of the C start files that have no size."""
        sized = sorted(self.program.function_starts.values(), key=lambda symbol: symbol.address)
        return tuple(sorted([*sized, *self._unsized(sized)], key=lambda symbol: symbol.address))

    def _unsized(self, sized: Iterable[Symbol]) -> Iterator[Symbol]:
        known = list(sized)
        for section in self.program.sections:
            if not section.executable or section.name.startswith(".plt"):
                continue
            inside = [each for each in known if section.address <= each.address < section.end]
            edges = [section.address, *(edge for each in inside for edge in (each.address, each.end)), section.end]
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                marks = [start, *sorted(mark for mark in self.program.marks if start < mark < stop), stop]
                for first, last in itertools.pairwise(marks):
                    if first < last:
                        yield Symbol(f"code at {first:#x}", first, last - first, section.name, "")

    def name(self, function: Symbol) -> str:
        """Return the name under which a function is known here."""
        return self._names[function.address]

    @cached_property
    def _names(self) -> Mapping[int, str]:
        count: dict[str, int] = {}
        for function in self.functions:
            count[function.name] = count.get(function.name, 0) + 1
        return {
            each.address: each.name if count[each.name] == 1 else f"{each.file}:{each.name}@{each.address:#x}"
            for each in self.functions
        }

    @cached_property
    def _by_start(self) -> Mapping[int, Symbol]:
        return {function.address: function for function in self.functions}

    def facts(self, name: str) -> Facts:
        """Return the facts about the function; KeyError for an unknown function."""
        if name not in self._found:
            self._begun.add(name)
            self._found[name] = self._function(self.by_name[name]).facts()
        return self._found[name]

    def is_known(self, name: str | None) -> bool:
        """Return whether the facts about a function can be had now: it is no import, and not on the way to itself."""
        return name in self._found or (name in self.by_name and name not in self._begun)

    def _function(self, symbol: Symbol) -> _Function:
        if symbol.address not in self._built:
            self._built[symbol.address] = _Function(self, symbol)
        return self._built[symbol.address]

    def reachable(self, names: Iterable[str], stops: Container[str]) -> dict[str, Facts | None]:
        """Return the functions that calls lead to from these, themselves included; None for an imported one.

        The calls of functions among `stops` are left out.
        """
        found: dict[str, Facts | None] = {}
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in found:
                continue
            facts = self.facts(name) if name in self.by_name else None
            found[name] = facts
            if facts is not None and name not in stops:
                todo += [call.name for call in facts.calls if call.name]
        return found

    def arity(self, name: str | None) -> int:
        """Return how many of its arguments a function uses at most; all that a call can have if that is not known."""
        return 1 + max(self.used(name), default=-1)

    def used(self, name: str | None) -> set[int]:
        """Return the numbers of the arguments that a function uses; all that a call can have if that is not known."""
        if self.is_pure(name):
            return {*range(PURE[str(name)])}
        if name not in self.by_name or name is None:
            return {*range(len(self._decoder.convention.arguments) + UNKNOWN_STACK_ARGUMENTS)}
        facts = self.facts(name)
        values = [touch.value for touch in facts.touches]
        for call in facts.calls:
            values += call.arguments[: PURE[str(call.name)] if self.is_pure(call.name) else None]
        return set().union(*(value.numbers for value in values if isinstance(value, Argument | Loaded)))

    def is_pure(self, name: str | None) -> bool:
        """Return whether it is a pure function of the library: a function of the program may have its name."""
        return name in PURE and name not in self.by_name

    def is_padding(self, function: Symbol) -> bool:
        """Return whether code without a name only fills the space between functions."""
        content = self.program.content(function.address, function.size)
        if not content.strip(b"\0"):
            return True
        decoded = list(self._decoder.decode(content, function.address))
        whole = sum(each.size for each in decoded) == function.size
        return whole and all(each.text.split()[0] in {"nop", "int3", "udf"} or " nop" in each.text for each in decoded)

    def is_veneers(self, function: Symbol) -> bool:
        """Return whether code without a name is what linkers add for the erratum 843419 of Cortex-A53.

        A jump leads over it; then an instruction of a function, and a jump back to the next one, for each such place.
        """
        first, *others = self.decoded(function).values() or (None,)
        unnamed = function.name == f"code at {function.address:#x}"
        if not unnamed or first is None or first.flow != "jump" or first.target is None:
            return False
        code = [each for each in others if each.text.split()[0] not in {"nop", "udf"}]
        pairs = list(zip(code[::2], code[1::2], strict=False))
        return (
            function.address < first.target <= function.end
            and len(code) == 2 * len(pairs) > 0
            and all(moved.flow == "" and back.flow == "jump" and back.target is not None for moved, back in pairs)
            and all(not function.address <= (back.target or 0) < function.end for _, back in pairs)
        )

    # for _Function

    @property
    def decoder(self) -> Decoder:
        """Return the decoder of the program's instructions."""
        return self._decoder

    def decoded(self, function: Symbol) -> dict[int, Instruction]:
        """Return the instructions of a function by their addresses."""
        if function.address not in self._decoded:
            content = self.program.content(function.address, function.size)
            found = {each.address: each for each in self._decoder.decode(content, function.address)}
            self._decoded[function.address] = found
        return self._decoded[function.address]

    def function_at(self, address: int) -> Symbol | None:
        """Return the function that starts at `address`."""
        return self._by_start.get(address)

    def function_holding(self, address: int) -> Symbol | None:
        """Return the function whose code holds `address`."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self.functions[index] if index >= 0 and address < self.functions[index].end else None

    @cached_property
    def _starts(self) -> list[int]:
        return [function.address for function in self.functions]

    def imported(self, address: int) -> str | None:
        """Return the name of the library function that the linker's stub at `address` jumps to."""
        if address not in self._imports:
            self._imports[address] = self._imported(address)
        return self._imports[address]

    def _imported(self, address: int) -> str | None:
        section = self.program.section_at(address)
        if section is None or not section.executable:
            return None
        pages: dict[str, int] = {}
        for instruction in self._decoder.decode(self.program.content(address, 32), address):
            for operation in instruction.operations:
                if isinstance(operation, Address):
                    pages[operation.to] = operation.value
                elif isinstance(operation, Load) and operation.memory.base in pages:
                    return self._name_of_pointer(pages[operation.memory.base] + operation.memory.offset)
            if instruction.through is not None and instruction.through.base is None:
                return self._name_of_pointer(instruction.through.offset)
            if instruction.flow:
                return None
        return None

    def _name_of_pointer(self, place: int) -> str | None:
        pointer = self.program.pointers.get(place)
        if isinstance(pointer, int):
            function = self.function_at(pointer)
            return self.name(function) if function else None
        return pointer

    def callee(self, instruction: Instruction) -> str | None:
        """Return the name of the function that an instruction calls or jumps to; None if it is not there."""
        if instruction.target is not None:
            function = self.function_at(instruction.target)
            return self.name(function) if function else self.imported(instruction.target)
        if instruction.through is not None and instruction.through.base is None and instruction.through.index is None:
            return self._name_of_pointer(instruction.through.offset)
        return None

    def changed(self, name: str | None) -> frozenset[str]:
        """Return the registers that a call of the function may change.

        A compiler that knows the callee's code leaves values in the others, also where the convention allows a change.
        """
        convention = self._decoder.convention
        function = self.by_name.get(name) if name else None
        if function is None:
            return convention.changed
        if function.address not in self._changed:
            self._changed[function.address] = convention.changed  # while it is looked for: of a recursive function
            self._changed[function.address] = convention.changed & self._written(function)
        return self._changed[function.address]

    def _written(self, function: Symbol) -> frozenset[str]:
        convention, decoded = self._decoder.convention, self.decoded(function)
        if sum(each.size for each in decoded.values()) != function.size:
            return convention.changed
        written = set(convention.by_linker)
        for each in decoded.values():
            written |= each.written
            if each.flow == "call" or (each.flow in {"jump", "branch"} and each.target not in decoded):
                written |= self.changed(self.callee(each))
        return frozenset(written)

    def returns(self, name: str | None) -> bool:
        """Return whether the code after a call of the function may be executed."""
        function = self.by_name.get(name) if name else None
        if function is None:
            return name not in NEVER_RETURN
        if function.address not in self._returns:
            self._returns[function.address] = True  # while it is looked for: of a recursive function
            self._returns[function.address] = self._function(function).returns()
        return self._returns[function.address]


Block: TypeAlias = tuple[list[Instruction], list[int]]
"""Instructions that are executed in sequence, and the addresses where execution can continue."""


class _Function:
    """The analysis of one function."""

    def __init__(self, analysis: Analysis, symbol: Symbol) -> None:
        self._analysis, self._program, self._symbol = analysis, analysis.program, symbol
        self._code = dict(analysis.decoded(symbol))
        self._parts = {symbol.address}
        self._gaps: list[str] = []
        self._kept: list[str] = []
        self._touches: dict[tuple[int, Value, bool | None], Touch] = {}
        self._uses: dict[Use, None] = {}
        self._unset: dict[str, set[str]] = {}
        self._places: dict[int, list[tuple[bool, int, int]]] = {}
        self._sized: set[int] = set()
        self._flags = analysis.decoder.bits(("rflags", "nzcv"))
        self._calls: dict[int, Call] = {}
        self._recording = False

    def facts(self) -> Facts:
        convention = self._analysis.decoder.convention
        blocks = self._blocks
        registers: dict[str, Value] = {name: _left_in(name) for name in convention.registers}
        registers |= dict.fromkeys((TEMPORARY, FLAGS))
        entry = _State(registers | {STACK: Frame(0, 0)})
        for number, name in enumerate(convention.arguments):
            entry.registers[name] = Argument(frozenset({number}), 0)
        for number in range(STACK_ARGUMENTS):
            argument = Argument(frozenset({len(convention.arguments) + number}), 0)
            entry.slots[0, convention.above + 8 * number] = argument
        for number, name in enumerate(convention.in_memory, len(convention.arguments) + STACK_ARGUMENTS):
            entry.registers[name] = Argument(frozenset({number}), 0)
        first = self._fixpoint(blocks, entry, {})
        indexed = {start: _indexed(state) for start, state in first.items()}
        states = self._fixpoint(blocks, entry, indexed) if any(indexed.values()) else first
        self._recording = True
        for start, state in states.items():
            self._run(blocks[start], state.copy())
        executed = [instruction for start in states for instruction in blocks[start][0]]
        stores = self._stores(blocks, self._sized), self._stores(blocks, blocks.keys())
        return Facts(
            self._symbol,
            tuple(self._touches.values()),
            tuple(self._calls[at] for at in sorted(self._calls)),
            self._order(blocks),
            tuple(each for each in executed if not each.plain),
            tuple(dict.fromkeys(self._gaps)),
            tuple(dict.fromkeys(self._kept)),
            tuple(each.text for each in executed),
            tuple(self._uses),
            {words: frozenset(names) for words, names in self._unset.items()},
            stores,
            self._unfenced(blocks),
        )

    def returns(self) -> bool:
        """Return whether the function can return to its caller, or that is not known."""
        last = [instructions[-1] for instructions, _ in self._blocks.values()]
        tails = [each for each in last if each.flow in {"jump", "branch"} and self._leaves(each)]
        returned = any(each.flow == "return" for each in last)
        return returned or bool(self._gaps) or any(map(self._analysis.returns, map(self._analysis.callee, tails)))

    # control flow: a block is its instructions and the starts of the next ones

    @cached_property
    def _blocks(self) -> dict[int, Block]:
        leaders, edges, todo, seen = {self._symbol.address}, {}, [self._symbol.address], set()
        while todo:
            address = todo.pop()
            while address not in seen:
                seen.add(address)
                instruction = self._at(address)
                if instruction is None:
                    self._gaps.append(f"no instruction at {address:#x}")
                    break
                follow = self._next(instruction)
                if instruction.flow in {"jump", "branch", "return", "stop"}:
                    edges[address] = follow
                    leaders.update(follow)
                    todo += follow
                    break
                if not follow:  # a call that does not return
                    edges[address] = follow
                    break
                address = follow[0]
        return {leader: self._block(leader, leaders, edges) for leader in leaders if self._at(leader)}

    def _block(self, leader: int, leaders: set[int], edges: Mapping[int, list[int]]) -> Block:
        instructions: list[Instruction] = []
        address = leader
        while True:
            instruction = self._at(address)
            if instruction is None:
                return instructions, []
            instructions.append(instruction)
            if address in edges:
                return instructions, edges[address]
            address += instruction.size
            if address in leaders:
                return instructions, [address]

    def _at(self, address: int) -> Instruction | None:
        """Return the instruction; a part of the function in another place (.cold) is joined to it."""
        if address not in self._code:
            holder = self._analysis.function_holding(address)
            if holder is None or holder.address in self._parts or not self._is_part(holder):
                return None
            self._parts.add(holder.address)
            self._code.update(self._analysis.decoded(holder))
        return self._code.get(address)

    def _is_part(self, other: Symbol) -> bool:
        if self._analysis.is_veneers(other):
            return True
        return other.name == f"{self._symbol.name}.cold" or self._symbol.name == f"{other.name}.cold"

    def _next(self, instruction: Instruction) -> list[int]:
        next_address = instruction.address + instruction.size
        if instruction.flow in {"return", "stop"}:
            return []
        if instruction.flow in {"", "call"}:
            inside = next_address in self._code
            if instruction.flow == "call" and not self._analysis.returns(self._analysis.callee(instruction)):
                return []
            if not inside and instruction.flow == "":
                self._gaps.append(f"the code runs over its end at {next_address:#x}")
            return [next_address] if inside else []
        targets = [] if self._leaves(instruction) else [int(instruction.target or 0)]
        return targets if instruction.flow == "jump" else [*targets, next_address]

    def _leaves(self, instruction: Instruction) -> bool:
        """Return whether a jump goes to another function, or to an address that is computed."""
        if instruction.target is None:
            return True
        holder = self._analysis.function_holding(instruction.target)
        inside = holder is not None and (holder.address in self._parts or self._is_part(holder))
        start = holder is not None and holder.address == instruction.target
        if inside:
            return False
        if not start and self._analysis.imported(instruction.target) is None:
            self._gaps.append(f"jumps into other code: {instruction.words}")
        return True

    def _order(self, blocks: Mapping[int, Block]) -> dict[int, frozenset[int]]:
        """Return for the entry and every call which calls can be next."""
        first: dict[int, set[int]] = {start: set() for start in blocks}
        changed = True
        while changed:
            changed = False
            for start, (instructions, following) in blocks.items():
                found = self._first_calls(instructions, following, first)
                changed = changed or not found <= first[start]
                first[start] |= found
        order = {ENTRY: frozenset(first.get(self._symbol.address, set()))}
        for instructions, following in blocks.values():
            for index, instruction in enumerate(instructions):
                call = self._calls.get(instruction.address)
                if call:
                    later = self._first_calls(instructions[index + 1 :], following, first)
                    order[instruction.address] = frozenset({END} if call.tail else later)
        return order

    def _first_calls(
        self, instructions: Sequence[Instruction], following: Iterable[int], first: Mapping[int, set[int]]
    ) -> set[int]:
        """Return the calls that can be the first of a block, or those after it as far as is known."""
        for instruction in instructions:
            if instruction.address in self._calls:
                return {instruction.address}
            if instruction.flow == "return":
                return {END}
        return set().union(*(first.get(start, set()) for start in following))

    @cached_property
    def _loops(self) -> Mapping[int, AbstractSet[int]]:
        """Return the blocks of each loop by the start of its first one."""
        position, loops = self._sorted({}), dict[int, set[int]]()
        ways = [
            (start, following) for start in position for following in self._blocks[start][1] if following in position
        ]
        before: dict[int, list[int]] = {}
        for start, following in ways:
            before.setdefault(following, []).append(start)
        for start, head in ways:
            todo = [start] if position[head] <= position[start] else []
            body = loops.setdefault(head, {head}) if todo else set()
            while todo:
                each = todo.pop()
                todo += before.get(each, []) if each not in body else []
                body.add(each)
        return loops

    @cached_property
    def _whole_gathers(self) -> AbstractSet[int]:
        """Return the addresses of the gathers whose mask is full: they keep no element of their destination.

        A mask is full where it is so on every way, those of loops included.
        """
        if not any(GATHER.match(each.text) for block in self._blocks.values() for each in block[0]):
            return frozenset()
        before: dict[int, Masks] = {self._symbol.address: frozenset()}
        todo, whole = [self._symbol.address], dict[int, bool]()
        while todo:
            start = todo.pop()
            masks, (instructions, following) = before[start], self._blocks[start]
            for instruction in instructions:
                gather = GATHER.match(instruction.text)
                if gather:
                    whole[instruction.address] = (gather[2], 16 if gather[1] == "z" else 8) in masks
                masks = self._full_masks(instruction, masks)
            for other in following:
                joined = before.get(other, masks) & masks
                if other in self._blocks and before.get(other) != joined:
                    before[other] = joined
                    todo.append(other)
        return {address for address, is_whole in whole.items() if is_whole}

    def _full_masks(self, instruction: Instruction, masks: Masks) -> Masks:
        """Return the masks that are full after an instruction."""
        full, copied = FULL_MASK.match(instruction.text), COPIED_MASK.match(instruction.text)
        gather = GATHER.match(instruction.text)
        changed = {*self._analysis.decoder.register_names(instruction.writes), gather[2] if gather else ""}
        after = {mask for mask in masks if instruction.flow != "call" and mask[0] not in changed}
        if full:
            after |= {(full[2], lanes) for lanes in (8, 16) if lanes == 8 or full[1] != "b"}
        if copied:
            after |= {
                (copied[2], lanes) for name, lanes in masks if name == copied[3] and (lanes == 8 or copied[1] != "b")
            }
        return frozenset(after)

    def _sorted(self, loops: Mapping[int, AbstractSet[int]]) -> dict[int, int]:
        """Return the starts of blocks in sequence, with their positions.

        Blocks from which one can be reached without a loop are before it, and the loops before what follows them.
        """
        done: dict[int, None] = {}
        seen, todo = set[int](), [self._symbol.address]
        while todo:
            start = todo[-1]
            loop = loops.get(start, ())
            new = [each for each in self._blocks[start][1] if each in self._blocks and not {each, start} & seen]
            new = [*(each for each in new if each in loop), *(each for each in new if each not in loop)]
            seen.add(start)
            todo += new
            if not new:
                done.setdefault(todo.pop())
        return {start: index for index, start in enumerate(list(done)[::-1])}

    def _stores(self, blocks: Mapping[int, Block], sized: AbstractSet[int]) -> Stores:
        """Return loads through arguments of what may not be stored yet, and what is stored at the end in any case.

        A block that can be reached in several ways has what all have stored.  Ways that depend on sizes alone, from
        blocks that are `sized`, do not count where there are others: as around a loop that may have no iteration.
        """
        decoder = self._analysis.decoder
        result = decoder.bits(("xmm0", "xmm1", "v0", "v1", "v2", "v3"))
        vectors = decoder.bits(f"v{number}" for number in (*range(8), *range(16, 32)))
        vectors |= decoder.bits(f"xmm{number}" for number in range(32))
        early: list[Early] = []
        ends: list[dict[int, int]] = []
        into: dict[int, list[tuple[bool, dict[int, int], int]]] = {self._symbol.address: [(False, {}, 0)]}
        position = self._sorted(self._loops)
        for start in position:
            ways = into.pop(start)
            counted = [stored for by_size, stored, _ in ways if not by_size]
            state = _joined(counted or [way[1] for way in ways], operator.and_ if counted else operator.or_)
            written = functools.reduce(operator.and_, (way[2] for way in ways))
            for instruction in blocks[start][0]:
                missing = instruction.reads & ~written
                if instruction.address in self._whole_gathers:
                    missing &= ~instruction.writes
                if missing and not KEEPS_UNSET.match(instruction.text):
                    self._unset.setdefault(instruction.words, set()).update(decoder.register_names(missing))
                written |= instruction.writes
                early += self._stored(instruction, state)
                call = self._calls.get(instruction.address)
                if call:
                    early += self._called(instruction, call, state)
                    changed = 0 if call.name in self._analysis.by_name else vectors
                    written = written & ~changed | result
                if instruction.flow == "return" or (call and call.tail):
                    ends.append(dict(state))
            for following in blocks[start][1]:
                into.setdefault(following, []).append((start in sized, state, written))
            for after in self._left(start, sized):
                into.setdefault(after, []).append((False, state, written))
        return Stores(tuple(dict.fromkeys(early)), _joined(ends, operator.and_))

    def _stored(self, instruction: Instruction, state: dict[int, int]) -> Iterator[Early]:
        """Add to `state` what an instruction stores; yield its loads of what is not stored before."""
        for write, number, bytes_ in self._places.get(instruction.address, ()):
            before = state.get(number, 0)
            if write:
                state[number] = before | bytes_
            elif not before & 1 and bytes_ & ~before:
                yield Early(instruction.words, number, bytes_, before)

    def _left(self, start: int, sized: AbstractSet[int]) -> list[int]:
        """Return the starts behind loops that end with a block and whose number of iterations depends on sizes."""
        heads = [head for head in self._blocks[start][1] if head in sized and start in self._loops.get(head, ())]
        return [after for head in heads for after in self._blocks[head][1] if after not in self._loops[head]]

    def _called(self, instruction: Instruction, call: Call, state: dict[int, int]) -> Iterator[Early]:
        """Add to `state` what a function stores; yield the loads that it does before."""
        loads: tuple[Early, ...] = ()
        if call.name in WRITTEN_BY_LIBRARY and self._analysis.is_pure(call.name):
            size = call.arguments[2]
            length = size.value if isinstance(size, Constant) else 0
            stored: Mapping[int, int] = {WRITTEN_BY_LIBRARY[str(call.name)]: _bytes(0, length) if length else 1}
        elif self._analysis.is_known(call.name):
            facts = self._analysis.facts(str(call.name))
            loads, stored = facts.stores[1]  # whose sizes are not in its code
        else:
            return
        places = {number: value for number, value in enumerate(call.arguments) if isinstance(value, Argument)}
        places = {number: value for number, value in places.items() if len(value.numbers) == 1}
        for load in loads:
            if load.number in places:
                [number] = places[load.number].numbers
                before, bytes_ = state.get(number, 0), _shifted(load.bytes_, places[load.number].offset)
                after = before | _shifted(load.stored, places[load.number].offset)
                if not after & 1 and bytes_ & ~after:
                    yield Early(f"{load.words}, called at {instruction.address:#x}", number, bytes_, after)
        for number, place in places.items():
            [outer] = place.numbers
            state[outer] = state.get(outer, 0) | _shifted(stored.get(number, 0), place.offset)

    def _unfenced(self, blocks: Mapping[int, Block]) -> tuple[str, ...]:
        """Return the non-temporal stores after which the function can end without a fence."""
        pending: dict[int, set[str]] = {start: set() for start in blocks}
        left, todo = set[str](), [self._symbol.address]
        done: set[int] = set()
        while todo:
            start = todo.pop()
            done.add(start)
            now = set(pending[start])
            for instruction in blocks[start][0]:
                now = set() if FENCE.match(instruction.text) else now
                now |= {instruction.words} if NON_TEMPORAL.match(instruction.text) else set()
                left |= (
                    now
                    if instruction.flow == "return" or (instruction.flow == "jump" and not blocks[start][1])
                    else set()
                )
            for following in blocks[start][1]:
                if following in blocks and (following not in done or not now <= pending[following]):
                    pending[following] |= now
                    todo.append(following)
        return tuple(sorted(left))

    # data flow

    def _fixpoint(
        self, blocks: Mapping[int, Block], entry: _State, indexed: Mapping[int, AbstractSet[str]]
    ) -> dict[int, _State]:
        """Return the states at the starts of blocks.

        The registers in `indexed` hold places of the frame with an unknown index, which is known after a first pass:
        before a loop is followed to its end, its pointers seem to have one value, and what is stored there, at a place
        that the loop never leaves with, would replace other values.
        """
        states, todo = {self._symbol.address: entry.copy()}, {self._symbol.address}
        position = self._sorted(self._loops)
        while todo:
            start = min(todo, key=position.__getitem__)
            todo.remove(start)
            result = self._run(blocks[start], states[start].copy())
            for following in filter(blocks.__contains__, blocks[start][1]):
                given = result.copy()
                for name in indexed.get(following, ()):
                    given.registers[name] = _moved(given.registers[name], 0, unknown=True)
                if following not in states:
                    states[following] = given
                elif not self._join_into(states[following], given, is_head=following in self._loops):
                    continue
                todo.add(following)
        return states

    def _join_into(self, state: _State, other: _State, *, is_head: bool) -> bool:
        """Join the other state into `state`, at the head of a loop if `is_head`; return whether that changed it."""
        changed = False
        for name, value in state.registers.items():
            new = other.registers[name]
            joined = value if value is new else self._join(value, new, is_head=is_head)
            if joined != value:
                state.registers[name], changed = joined, True
        for slot in list(state.slots):
            joined = self._join(state.slots[slot], other.slots[slot], is_head=is_head) if slot in other.slots else None
            if joined is None:
                del state.slots[slot]
                changed = True
            elif joined != state.slots[slot]:
                state.slots[slot], changed = joined, True
        return changed

    def _join(self, one: Value, other: Value, *, is_head: bool = False) -> Value:
        """Return what is one of two values; of numbers at the head of a loop, its count, what it is computed from."""
        if one == other:
            return one
        if isinstance(one, Static) or isinstance(other, Static):
            return self._join_static(one, other)
        if isinstance(one, Frame) and isinstance(other, Frame):
            return Frame(one.origin, None)
        if isinstance(one, Argument | Rounded) and isinstance(other, Argument | Rounded):
            numbers, by = one.numbers | other.numbers, _rounded_by(one) | _rounded_by(other)
            return Rounded(numbers, by) if by else Argument(numbers, None)
        if isinstance(one, Unset) or isinstance(other, Unset):
            return one if isinstance(one, Unset) else other
        numbers = frozenset[int]().union(*addresses(one), *addresses(other))
        reported = all(isinstance(value, Constant) or _is_reported(value) for value in (one, other))
        counts = reported and (is_head or isinstance(one, Computed) or isinstance(other, Computed))
        return Computed(numbers, reported) if numbers or counts else None

    def _join_static(self, one: Value, other: Value) -> Value:
        addresses: list[int] = []
        exact = alone = True
        for value in (one, other):
            if not isinstance(value, Static):
                alone = False
                continue
            exact, alone = exact and value.exact, alone and value.alone
            for address in value.addresses:
                near = next((known for known in addresses if self._same_object(known, address)), None)
                if near is None:
                    addresses.append(address)
                elif near != address:
                    exact = False
        if len(addresses) > MOST_ADDRESSES:
            self._touch_all(0, "", Static(tuple(addresses), False))
            return None
        return Static(tuple(addresses), exact, alone)

    def _same_object(self, one: int, other: int) -> bool:
        if one == other:
            return True
        holder = self._program.object_at(one)
        if holder is None:
            return self._program.object_at(other) is None and self._constant(one) and self._constant(other)
        return holder.address <= other <= holder.end

    def _constant(self, address: int) -> bool:
        section = self._program.section_at(address)
        return section is not None and not section.writable

    def _run(self, block: Block, state: _State) -> _State:
        for instruction in block[0]:
            if instruction.reads & self._flags:
                self._decide(instruction, state)
            for operation in instruction.operations:
                self._execute(instruction, operation, state)
            leaves = instruction.flow in {"jump", "branch"} and self._leaves(instruction)
            if instruction.flow == "branch" and self._recording and _from_sizes([state.registers[FLAGS]]):
                self._sized.add(block[0][0].address)
            if instruction.flow == "call" or leaves:
                self._call(instruction, state, tail=leaves)
        return state

    def _decide(self, instruction: Instruction, state: _State) -> None:
        """Follow the flags of a comparison or a sum to where they are read."""
        flags = state.registers[FLAGS]
        is_known = _is_never_null(flags) and EQUAL.match(instruction.text)
        if not (is_known or _is_reported(flags)):
            self._use(instruction, flags)

    def _call(self, instruction: Instruction, state: _State, *, tail: bool) -> None:
        convention = self._analysis.decoder.convention
        arguments = [state.registers[name] for name in convention.arguments]
        stack, above = state.registers[STACK], 0 if not tail else convention.above
        if isinstance(stack, Frame) and stack.offset is not None:
            places = [(stack.origin, stack.offset + above + 8 * number) for number in range(STACK_ARGUMENTS)]
            arguments += [state.slots.get(place) for place in places]
        else:
            arguments += [None] * STACK_ARGUMENTS
        arguments += [state.registers[name] for name in convention.in_memory]
        name = self._analysis.callee(instruction)
        if self._recording:
            self._calls[instruction.address] = Call(instruction.address, name, tuple(arguments), tail)
            for value in arguments[: self._analysis.arity(name) if name not in self._analysis.by_name else None]:
                if isinstance(value, Computed | Rounded) and not _is_reported(value):
                    self._use(instruction, value)
        for value in arguments:  # the callee may write the variable whose address it is given
            if isinstance(value, Frame) and value.offset is not None:
                state.slots.pop((value.origin, value.offset), None)
        if not tail:
            for register in self._analysis.changed(name):
                kept = register in RESULTS or register in convention.by_linker
                state.registers[register] = None if kept else _left_in(register)
            if name in WRITTEN_BY_LIBRARY and self._analysis.is_pure(name):  # and returned
                state.registers[convention.result] = arguments[WRITTEN_BY_LIBRARY[name]]

    def _execute(self, instruction: Instruction, operation: Operation, state: _State) -> None:
        if isinstance(operation, Access):
            self._access(instruction, operation, state)
        elif isinstance(operation, Compare):
            values = [state.registers.get(name) for name in operation.used]
            if values and _is_never_null(values[0]) and NULL_TEST.match(instruction.text):
                state.registers[FLAGS] = values[0]
                if isinstance(values[0], Argument):
                    self._touch(instruction, values[0], write=None)
                return
            self._use(instruction, *values, difference=operation.difference)
            reads = any(isinstance(each, Access) for each in instruction.operations)
            state.registers[FLAGS] = None if reads else _from_sizes(values)
        elif isinstance(operation, Other):
            values = [state.registers.get(name) for name in operation.used]
            result = self._computed(instruction, values, state)
            for name in operation.written:
                self._set(state, name, result)
            state.registers[FLAGS] = result if instruction.writes & self._flags else state.registers[FLAGS]
        else:
            result = self._result(instruction, operation, state)
            self._set(state, operation.to, result)
            state.registers[FLAGS] = result if instruction.writes & self._flags else state.registers[FLAGS]

    def _computed(self, instruction: Instruction, values: Sequence[Value], state: _State) -> Value:
        """Return the result of an operation of which nothing is known; note its use of addresses.

        What was computed from a rounded address alone may count the iterations of a store to it, and nothing else.
        """
        rest = [value for value in values if isinstance(value, Computed) and not value.reported]
        text = instruction.text
        if PACKS_TWO.match(text):  # a computation with the vector is a use of both
            return Computed(frozenset().union(*(addresses(value)[0] for value in values)), reported=False)
        if rest and text.startswith("rep "):
            to = state.registers.get("rdi")
            if not isinstance(to, Rounded):
                self._use(instruction, *rest)
            return None
        if not PACKS.match(text):
            self._use(instruction, *(value for value in values if value not in rest))
        reads = any(isinstance(operation, Load | Access) for operation in instruction.operations)
        result = None if reads else _from_sizes(values)
        return Computed(frozenset().union(*map(_rounded_by, rest)), reported=False) if rest else result

    def _result(
        self, instruction: Instruction, operation: Move | Number | Address | Sum | Align | Load, state: _State
    ) -> Value:
        """Return the value that a register receives."""
        if isinstance(operation, Move):
            value = state.registers.get(operation.source)
            return self._join(state.registers.get(operation.to), value) if operation.kept else value
        if isinstance(operation, Number):
            return self._number(operation.value, exact=True)
        if isinstance(operation, Address):
            return Page(operation.value) if operation.page else Static((operation.value,), exact=True)
        if isinstance(operation, Sum):
            return self._sum(instruction, operation, state)
        if isinstance(operation, Align):
            return self._aligned(instruction, operation, state)
        place = self._place(operation.memory, instruction, state)
        self._reach(instruction, place, POINTER_BYTES, state, write=False, whole=True)
        return self._loaded(place, state)

    def _aligned(self, instruction: Instruction, operation: Align, state: _State) -> Value:
        value = state.registers.get(operation.source)
        if isinstance(value, Frame):
            return Frame(instruction.address, 0)
        if isinstance(value, Argument) and len(value.numbers) == 1 and operation.bits <= MOST_ROUNDED:
            return Rounded(value.numbers, value.numbers)
        return self._computed(instruction, [value], state)

    def _set(self, state: _State, name: str, value: Value) -> None:
        if name in state.registers:
            state.registers[name] = value

    def _sum(self, instruction: Instruction, operation: Sum, state: _State) -> Value:
        terms = [_whole(state.registers.get(name)) for name in operation.terms]
        if (
            len(terms) == 1
            and isinstance(terms[0], Static | Frame | Argument)
            and not (operation.minus or operation.index)
        ):
            return _moved(terms[0], operation.value, unknown=False)
        minus = [_whole(state.registers.get(name)) for name in operation.minus]
        index = [state.registers.get(name) for name in operation.index]
        self._use(instruction, *index)
        for value in minus:
            if isinstance(value, Static):
                self._touch(instruction, value, write=None)
        values = [*terms, *minus, *index]
        rounded = frozenset[int]().union(*map(_rounded_by, values))
        total = operation.value + sum(value.value for value in terms if isinstance(value, Constant))
        total -= sum(value.value for value in minus if isinstance(value, Constant))
        result = self._total(instruction, terms, minus, total, unknown=bool(index))
        if not rounded:
            return result if result is not None else _from_sizes(values)
        if isinstance(result, Argument):
            return Rounded(result.numbers, rounded)
        if result is None or isinstance(result, Constant):
            return Computed(rounded, reported=False)
        self._note(instruction, rounded, frozenset())
        return result

    def _total(
        self, instruction: Instruction, terms: Sequence[Value], minus: Sequence[Value], total: int, *, unknown: bool
    ) -> Value:
        """Return a sum of values minus others, plus a number, and an unknown one if `unknown`."""
        pairs = [addresses(value) for value in terms] + [addresses(value)[::-1] for value in minus]
        plus, less = (
            ([numbers for numbers in side if numbers] for side in zip(*pairs, strict=True)) if pairs else ([], [])
        )
        count = len(plus)
        for numbers in [numbers for numbers in plus if len(numbers) == 1]:
            if numbers in less:
                plus.remove(numbers)
                less.remove(numbers)
        values = [*terms, *minus]
        numeric = (value for value in values if not any(addresses(value)) and not isinstance(value, Constant))
        unknown = unknown or count > len(plus) or any(True for _ in numeric)
        loaded = [value for value in values if isinstance(value, Loaded)]
        result: Value = None
        if loaded:
            result = loaded[0] if len(loaded) == 1 and not (plus or less or loaded[0] in minus) else None
        elif not plus and not less:
            return self._number(total & MASK, exact=not unknown)
        elif len(plus) <= 1 and len(less) == 1:
            return Difference(plus[0] if plus else frozenset(), less[0])
        elif not less:
            result = self._address(instruction, terms, plus, total, unknown=unknown)
        if result is None:
            self._use(instruction, *values, most=0 if less else 1)
        return result

    def _address(
        self,
        instruction: Instruction,
        terms: Sequence[Value],
        plus: Sequence[frozenset[int]],
        by: int,
        *,
        unknown: bool,
    ) -> Value:
        """Return the address that contains these, with an offset; None if it contains several that are no arguments."""
        numbers = frozenset[int]().union(*plus)
        places = [value for value in map(_whole, terms) if isinstance(value, Static | Frame | Argument)]
        places = [value for value in places if addresses(value)[0] == plus[0]]
        if len(plus) == len(places) == 1:
            return _moved(places[0], by, unknown=unknown)
        if min(numbers) < 0:
            return Frame(0, None) if numbers == {FRAME} and len(plus) == 1 else None
        twice = {number for number in numbers if sum(number in side for side in plus) > 1}
        self._note(instruction, frozenset(twice), frozenset())
        return Argument(numbers, None)

    def _number(self, value: int, *, exact: bool) -> Value:
        """Return a number, with an unknown one added if not `exact`; in a program with fixed places an address."""
        if not self._program.position_independent and self._program.section_at(value) is not None:
            return Static((value,), exact)
        return Constant(value) if exact else None

    def _place(self, memory: Memory, instruction: Instruction, state: _State) -> Value:
        terms, index = memory.terms
        if memory.base is None:
            for name in (*terms, *index):
                self._touch(instruction, state.registers.get(name), write=None)
            return Static((memory.offset & MASK,), exact=not memory.index)
        value = self._sum(instruction, Sum("", terms, index, memory.offset), state)
        if isinstance(value, Constant):
            return Static((value.value,), exact=True)
        return value

    def _loaded(self, place: Value, state: _State) -> Value:
        if isinstance(place, Frame) and place.offset is not None:
            return state.slots.get((place.origin, place.offset))
        if isinstance(place, Argument):
            return Loaded(place.numbers)
        if isinstance(place, Loaded) and place.depth < DEEPEST:
            return Loaded(place.numbers, place.depth + 1)
        if isinstance(place, Static) and place.exact and len(place.addresses) == 1:
            section = self._program.section_at(place.addresses[0])
            pointer = self._program.pointers.get(place.addresses[0])
            if section is not None and section.name.startswith(".got") and isinstance(pointer, int):
                return Static((pointer,), exact=True)
        return None

    def _access(self, instruction: Instruction, operation: Access, state: _State) -> None:
        place = self._place(operation.memory, instruction, state)
        self._reach(instruction, place, operation.size, state, write=operation.write)
        if not operation.write:
            return
        value = state.registers.get(operation.source) if operation.source else None
        if operation.source == TEMPORARY and isinstance(value, Constant):
            value = Computed(frozenset(), reported=True)  # a count, or an element of an array with unknown others
        if not isinstance(place, Frame):
            self._use(instruction, value)
            return
        if place.offset is None:
            self._touch(instruction, value, write=None)
            if operation.source and operation.size == 8 and isinstance(value, Loaded):
                self._kept += [f"{instruction.words} stores what an argument points to in its frame"] * self._recording
            elif operation.source and operation.size == 8 and not isinstance(value, Constant | Computed | Unset | None):
                state.slots.clear()  # an element of an array of pointers
            return
        low, high = place.offset, place.offset + max(operation.size, 1)
        for origin, offset in list(state.slots):
            if origin == place.origin and offset < high and low < offset + 8:
                del state.slots[origin, offset]
        if operation.source and operation.size == 8 and value is not None:
            state.slots[place.origin, place.offset] = value

    def _reach(
        self, instruction: Instruction, place: Value, size: int, state: _State, *, write: bool, whole: bool = False
    ) -> None:
        """Note an access to memory: where it depends on a rounded address, and parts of addresses that it reads."""
        if not self._recording:
            return
        string = instruction.text.startswith("rep ")
        if isinstance(place, Rounded) and not string:
            self._note(instruction, place.by, frozenset())
        if isinstance(place, Difference | Computed | Unset):
            self._use(instruction, place)
        if isinstance(place, Frame) and place.offset is not None and not write:
            for (origin, start), value in state.slots.items():
                near = origin == place.origin and start < place.offset + size and place.offset < start + POINTER_BYTES
                if near and not (whole and start == place.offset):
                    self._use(instruction, value if not isinstance(value, Unset) else None)
        if isinstance(place, Argument | Rounded):
            exact = isinstance(place, Argument) and not string and "{" not in instruction.text
            offset = place.offset if isinstance(place, Argument) and exact else None
            places = self._places.setdefault(instruction.address, [])
            places += [(write, number, _bytes(offset, size)) for number in sorted(place.numbers)]
        self._touch(instruction, place, write=write)

    def _use(self, instruction: Instruction, *values: Value, most: int = 0, difference: bool = False) -> None:
        """Note that values are used otherwise than as addresses, or their difference is if there are two."""
        if not self._recording:
            return
        compares = any(isinstance(operation, Compare) for operation in instruction.operations)
        compares = compares and not instruction.text.startswith(BIT_TESTS)
        for value in values:
            if not (compares and isinstance(value, Static)):  # perhaps the end of an object, where another begins
                self._touch(instruction, value, write=None)
            self._note(instruction, _rounded_by(value), frozenset())
            if isinstance(value, Unset):
                self._unset.setdefault(instruction.words, set()).add(value.register)
        sides = [addresses(value) for value in values]
        if difference and len(sides) == 2:
            sides = [(sides[0][0] | sides[1][1], sides[0][1] | sides[1][0])]
        elif most:
            sides = [(frozenset().union(*(plus for plus, _ in sides)), frozenset().union(*(less for _, less in sides)))]
        for plus, less in sides:
            self._note(instruction, plus, less, most)

    def _note(self, instruction: Instruction, plus: frozenset[int], minus: frozenset[int], most: int = 0) -> None:
        if self._recording and (plus or minus):
            self._uses[Use(instruction.words, plus, minus, most)] = None

    def _touch(self, instruction: Instruction, value: Value, *, write: bool | None) -> None:
        value = _whole(value)
        numbers = frozenset(number for side in addresses(value) for number in side if number >= 0)
        if numbers and not isinstance(value, Argument) and (write is None or isinstance(value, Rounded)):
            value = Argument(numbers, None)
        if write is None and not isinstance(value, Static | Argument):
            return
        if isinstance(value, Difference | Computed | Unset):
            value = None
        key = (instruction.address, value, write)
        self._touches[key] = Touch(instruction.address, instruction.text, value, write)

    def _touch_all(self, at: int, text: str, value: Static) -> None:
        self._touches[at, value, None] = Touch(at, text, value, None)


def _whole(value: Value) -> Value:
    return Static((value.address,), exact=True) if isinstance(value, Page) else value


def _indexed(state: _State) -> AbstractSet[str]:
    """Return the registers that hold a place of the frame with an unknown index."""
    return {name for name, value in state.registers.items() if isinstance(value, Frame) and value.offset is None}


def addresses(value: Value) -> tuple[frozenset[int], frozenset[int]]:
    """Return the addresses that a value contains, those that are added and those that are subtracted, as `Use` has."""
    if isinstance(value, Argument | Rounded):
        return value.numbers, _NONE
    if isinstance(value, Difference):
        return value.plus, value.minus
    if isinstance(value, Static | Page | Frame):
        return _OF_FRAME if isinstance(value, Frame) else _OF_IMAGE, _NONE
    return _NONE, _NONE


def _is_never_null(value: Value) -> bool:
    """Return whether a value is an address that is known, or near one that a function has got."""
    if isinstance(value, Static):
        return value.exact
    return isinstance(value, Frame | Argument) and value.offset is not None and abs(value.offset) < FARTHEST


def _rounded_by(value: Value) -> frozenset[int]:
    """Return the addresses whose lowest bits a value depends on, where that is not among the function's uses."""
    if isinstance(value, Rounded):
        return value.by
    return value.numbers if isinstance(value, Computed) and not value.reported else frozenset()


def _is_reported(value: Value) -> bool:
    return isinstance(value, Computed) and value.reported


def _left_in(register: str) -> Value:
    """Return the value of a register that nobody has set; vectors are followed by `Instruction.reads`."""
    return None if register.startswith(("xmm", "k")) else Unset(register)


def _from_sizes(values: Sequence[Value]) -> Computed | None:
    """Return a number that is computed from these values; None if one of them is not known from arguments alone."""
    known = (isinstance(value, Constant | Argument | Difference | Rounded | Computed) for value in values)
    if not values or not all(known):
        return None
    numbers = [value.numbers for value in values if isinstance(value, Computed)]
    return Computed(frozenset().union(*numbers, *itertools.chain(*map(addresses, values))), reported=True)


def _bytes(offset: int | None, size: int) -> int:
    """Return bytes of an argument as `Early` has them."""
    return ((1 << size) - 1) << 1 + offset if offset is not None and 0 <= offset < FARTHEST else 1


def _shifted(bytes_: int, offset: int | None) -> int:
    """Return bytes of a callee's argument as those of the caller's, to which an offset was added."""
    if bytes_ & 1 or offset is None or not 0 <= offset < FARTHEST:
        return int(bytes_ != 0)
    return bytes_ << offset


def _joined(ways: Sequence[Mapping[int, int]], join: Callable[[int, int], int]) -> dict[int, int]:
    numbers = set().union(*ways)
    return {number: functools.reduce(join, (way.get(number, 0) for way in ways)) for number in numbers}


def _signed(number: int) -> int:
    return (number + (1 << 63) & MASK) - (1 << 63)


def _moved(value: Value, by: int, *, unknown: bool) -> Value:
    if isinstance(value, Static):
        addresses = tuple((address + by) & MASK for address in value.addresses)
        return Static(addresses, value.exact and not unknown, value.alone)
    if isinstance(value, Frame):
        return Frame(value.origin, None if unknown or value.offset is None else value.offset + by)
    if isinstance(value, Argument):
        return Argument(value.numbers, None if unknown or value.offset is None else _signed(value.offset + by))
    return value
