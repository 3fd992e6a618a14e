"""Data flow of addresses through a function: its reads, writes, calls, and the static objects that it reaches.

A forward data-flow analysis.  The value of a register is a set of static addresses, a place in the function's stack
frame, an argument with any offset, a number, or unknown.  An address to which an unknown index was added keeps the
object that it points to: indices are taken to stay inside their arrays.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
from harness.analysis.inspection.program import Program, Symbol

MOST_ADDRESSES = 16
STACK_ARGUMENTS = 4
BIT_TESTS = ("test ", "tst ")
DEEPEST = 2  # pointers, one behind the other: to arrays of pointers to buffers


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
    """The function's argument with this number, or what is computed from several by addition."""

    numbers: frozenset[int]
    moved: bool


class Negated(NamedTuple):
    """A number from which the argument with this number was subtracted."""

    number: int


class Loaded(NamedTuple):
    """A value read through an argument: data, or a pointer that the caller stored there.

    `depth` counts the pointers: 2 is read through one that was itself read through the argument.
    """

    numbers: frozenset[int]
    depth: int = 1


class Constant(NamedTuple):
    """A number."""

    value: int


Value: TypeAlias = Static | Page | Frame | Argument | Negated | Loaded | Constant | None


@dataclass(frozen=True)
class Touch:
    """An access to memory, or an address that is used otherwise (`write` is None); `value` is the address."""

    at: int
    text: str
    value: Value
    write: bool | None


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
    """

    symbol: Symbol
    touches: tuple[Touch, ...]
    calls: tuple[Call, ...]
    order: Mapping[int, frozenset[int]]
    strange: tuple[Instruction, ...]
    gaps: tuple[str, ...]
    kept: tuple[str, ...]
    instructions: tuple[str, ...]


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
            self._found[name] = self._function(self.by_name[name]).facts()
        return self._found[name]

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
        if name in PURE:
            return PURE[name]
        if name not in self.by_name or name is None:
            return len(self._decoder.convention.arguments) + STACK_ARGUMENTS
        facts = self.facts(name)
        values = [touch.value for touch in facts.touches]
        values += [value for call in facts.calls for value in call.arguments[: PURE.get(str(call.name))]]
        used = (value.numbers for value in values if isinstance(value, Argument | Loaded))
        return 1 + max((number for numbers in used for number in numbers), default=-1)

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
        self._calls: dict[int, Call] = {}
        self._recording = False

    def facts(self) -> Facts:
        convention = self._analysis.decoder.convention
        blocks = self._blocks
        registers: dict[str, Value] = dict.fromkeys((*convention.registers, TEMPORARY))
        entry = _State(registers | {STACK: Frame(0, 0)})
        for number, name in enumerate(convention.arguments):
            entry.registers[name] = Argument(frozenset({number}), moved=False)
        for number in range(STACK_ARGUMENTS):
            argument = Argument(frozenset({len(convention.arguments) + number}), moved=False)
            entry.slots[0, convention.above + 8 * number] = argument
        for number, name in enumerate(convention.in_memory, len(convention.arguments) + STACK_ARGUMENTS):
            entry.registers[name] = Argument(frozenset({number}), moved=False)
        first = self._fixpoint(blocks, entry, {})
        indexed = {start: _indexed(state) for start, state in first.items()}
        states = self._fixpoint(blocks, entry, indexed)
        self._recording = True
        for start, state in states.items():
            self._run(blocks[start], state.copy())
        executed = [each for start in states for each in blocks[start][0]]
        return Facts(
            self._symbol,
            tuple(self._touches.values()),
            tuple(self._calls[at] for at in sorted(self._calls)),
            self._order(blocks),
            tuple(each for each in executed if not each.plain),
            tuple(dict.fromkeys(self._gaps)),
            tuple(dict.fromkeys(self._kept)),
            tuple(each.text for each in executed),
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
        found: list[Instruction] = []
        address = leader
        while True:
            instruction = self._at(address)
            if instruction is None:
                return found, []
            found.append(instruction)
            if address in edges:
                return found, edges[address]
            address += instruction.size
            if address in leaders:
                return found, [address]

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

    # data flow

    def _fixpoint(
        self, blocks: Mapping[int, Block], entry: _State, indexed: Mapping[int, AbstractSet[str]]
    ) -> dict[int, _State]:
        """Return the states at the starts of blocks.

        The registers in `indexed` hold places of the frame with an unknown index, which is known after a first pass:
        before a loop is followed to its end, its pointers seem to have one value, and what is stored there, at a place
        that the loop never leaves with, would replace other values.
        """
        states, todo = {self._symbol.address: entry.copy()}, [self._symbol.address]
        while todo:
            start = todo.pop()
            if start not in blocks:
                continue
            result = self._run(blocks[start], states[start].copy())
            for following in blocks[start][1]:
                given = result.copy()
                for name in indexed.get(following, ()):
                    given.registers[name] = _moved(given.registers[name], 0, unknown=True)
                if following not in states:
                    states[following] = given
                elif not self._join_into(states[following], given):
                    continue
                todo.append(following)
        return {start: state for start, state in states.items() if start in blocks}

    def _join_into(self, state: _State, other: _State) -> bool:
        """Join the other state into `state`; return whether that changed it."""
        changed = False
        for name, value in state.registers.items():
            joined = self._join(value, other.registers.get(name))
            if joined != value:
                state.registers[name], changed = joined, True
        for slot in list(state.slots):
            joined = self._join(state.slots[slot], other.slots.get(slot))
            if joined is None:
                del state.slots[slot]
                changed = True
            elif joined != state.slots[slot]:
                state.slots[slot], changed = joined, True
        return changed

    def _join(self, one: Value, other: Value) -> Value:
        if one == other:
            return one
        if isinstance(one, Static) or isinstance(other, Static):
            return self._join_static(one, other)
        if isinstance(one, Frame) and isinstance(other, Frame):
            return Frame(one.origin, None)
        if isinstance(one, Argument) and isinstance(other, Argument):
            return Argument(one.numbers | other.numbers, moved=True)
        return None

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
            for operation in instruction.operations:
                self._execute(instruction, operation, state)
            leaves = instruction.flow in {"jump", "branch"} and self._leaves(instruction)
            if instruction.flow == "call" or leaves:
                self._call(instruction, state, tail=leaves)
        return state

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
        for value in arguments:  # the callee may write the variable whose address it is given
            if isinstance(value, Frame) and value.offset is not None:
                state.slots.pop((value.origin, value.offset), None)
        if not tail:
            for register in self._analysis.changed(name):
                state.registers[register] = None
            if name in WRITTEN_BY_LIBRARY:  # and returned
                state.registers[convention.result] = arguments[WRITTEN_BY_LIBRARY[name]]

    def _execute(self, instruction: Instruction, operation: Operation, state: _State) -> None:
        if isinstance(operation, Access):
            self._access(instruction, operation, state)
        elif isinstance(operation, Compare):
            for value in map(state.registers.get, operation.used):
                if isinstance(value, Argument) or (
                    isinstance(value, Static) and instruction.text.startswith(BIT_TESTS)
                ):
                    self._touch(instruction, value, write=None)
        elif isinstance(operation, Other):
            for name in operation.used:
                self._touch(instruction, state.registers.get(name), write=None)
            for name in operation.written:
                self._set(state, name, None)
        else:
            self._set(state, operation.to, self._result(instruction, operation, state))

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
            value = state.registers.get(operation.source)
            if isinstance(value, Argument | Negated):
                self._touch(instruction, value, write=None)
            aligned = Frame(instruction.address, 0) if isinstance(value, Frame) else value
            return None if isinstance(aligned, Constant) else aligned
        place = self._place(operation.memory, instruction, state)
        self._touch(instruction, place, write=False)
        return self._loaded(place, state)

    def _set(self, state: _State, name: str, value: Value) -> None:
        if name in state.registers:
            state.registers[name] = value

    def _sum(self, instruction: Instruction, operation: Sum, state: _State) -> Value:
        values = [_whole(state.registers.get(name)) for name in operation.terms]
        for name in operation.index:
            self._touch(instruction, state.registers.get(name), write=None)
        unknown = bool(operation.index)
        for value in map(state.registers.get, operation.minus):
            negative = _negative(value)
            if negative is None:
                self._touch(instruction, value, write=None)
            values.append(negative)
        values, differences = _without_differences(values)
        total = operation.value + sum(value.value for value in values if isinstance(value, Constant))
        rest = [value for value in values if not isinstance(value, Constant)]
        pointers = [value for value in rest if value is not None]
        unknown = unknown or differences or len(rest) > len(pointers)
        arguments = [value.numbers for value in pointers if isinstance(value, Argument)]
        if len(arguments) > 1 and len(arguments) == len(pointers):
            return Argument(frozenset().union(*arguments), moved=True)
        if len(pointers) > 1:
            for value in pointers:
                self._touch(instruction, value, write=None)
            return None
        if not pointers:
            return self._number(total & MASK, exact=not unknown)
        return _moved(pointers[0], total, unknown=unknown)

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
        self._touch(instruction, place, write=operation.write)
        if not operation.write:
            return
        value = state.registers.get(operation.source) if operation.source else None
        if not isinstance(place, Frame):
            self._touch(instruction, value, write=None)
            return
        if place.offset is None:
            self._touch(instruction, value, write=None)
            if operation.source and operation.size == 8 and isinstance(value, Loaded):
                self._kept += [f"{instruction.words} stores what an argument points to in its frame"] * self._recording
            elif operation.source and operation.size == 8 and not isinstance(value, Constant | None):
                state.slots.clear()  # an element of an array of pointers
            return
        low, high = place.offset, place.offset + max(operation.size, 1)
        for origin, offset in list(state.slots):
            if origin == place.origin and offset < high and low < offset + 8:
                del state.slots[origin, offset]
        if operation.source and operation.size == 8 and value is not None:
            state.slots[place.origin, place.offset] = value

    def _touch(self, instruction: Instruction, value: Value, *, write: bool | None) -> None:
        if not self._recording:
            return
        value = _whole(value)
        if write is None and isinstance(value, Negated):  # its bits are those of the argument
            value = Argument(frozenset({value.number}), moved=True)
        if write is None and not isinstance(value, Static | Argument):
            return
        key = (instruction.address, value, write)
        self._touches[key] = Touch(instruction.address, instruction.text, value, write)

    def _touch_all(self, at: int, text: str, value: Static) -> None:
        self._touches[at, value, None] = Touch(at, text, value, None)


def _whole(value: Value) -> Value:
    return Static((value.address,), exact=True) if isinstance(value, Page) else value


def _indexed(state: _State) -> AbstractSet[str]:
    """Return the registers that hold a place of the frame with an unknown index."""
    return {name for name, value in state.registers.items() if isinstance(value, Frame) and value.offset is None}


def _negative(value: Value) -> Value:
    """Return what is added where a value is subtracted; None where that is not known."""
    if isinstance(value, Constant):
        return Constant(-value.value)
    if isinstance(value, Argument) and len(value.numbers) == 1:
        return Negated(*value.numbers)
    return None


def _without_differences(values: Iterable[Value]) -> tuple[list[Value], bool]:
    """Return the terms of a sum without those that only add a number, and whether there were any.

    The difference of two pointers into an array is a number.  Subtracted from another pointer it is an index.
    """
    left = list(values)
    negated = [value for value in left if isinstance(value, Negated)]
    for value in negated:
        pointer = next((each for each in left if isinstance(each, Argument) and each.numbers == {value.number}), None)
        if pointer:
            left.remove(value)
            left.remove(pointer)
    if any(isinstance(value, Static | Frame | Argument | Loaded) for value in left) or len(negated) > 1:
        left = [value for value in left if not isinstance(value, Negated)]
    return left, any(value not in left for value in negated)


def _moved(value: Value, by: int, *, unknown: bool) -> Value:
    if isinstance(value, Static):
        addresses = tuple((address + by) & MASK for address in value.addresses)
        return Static(addresses, value.exact and not unknown, value.alone)
    if isinstance(value, Frame):
        return Frame(value.origin, None if unknown or value.offset is None else value.offset + by)
    if isinstance(value, Argument):
        return Argument(value.numbers, moved=value.moved or unknown or by != 0)
    return value
